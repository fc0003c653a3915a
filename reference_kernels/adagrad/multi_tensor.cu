/*stepbench
{ "task": "adagrad", "note": "one launch for the whole list: all elements in a row, cut into equal chunks",
  "defines": {"BLOCK": 256, "CHUNK": 2048},
  "tunables": {"BLOCK": [128, 256, 512], "CHUNK": [1024, 2048, 4096]},
  "launches": [
    {"for": "step", "kernel": "adagrad_list", "grid": "ceil_div(total, CHUNK)", "block": "BLOCK",
     "args": ["param[]", "grad[]", "state_sum[]", "n[]", "offset[]", "tensors", "total", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

struct Scalars {
  float decay, lr, eps, inverse_scale;
};

// Scalars are hoisted out of the loop.
__device__ __forceinline__ Scalars scalars_of(const Hyper& h) {
  return {h.weight_decay, h.decayed_lr, h.eps, 1.0f / h.grad_scale};
}

__device__ __forceinline__ void update(float& p, float grad, float& z, const Scalars& s) {
  const float g = fmaf(s.decay, p, grad * s.inverse_scale);
  z = fmaf(g, g, z);
  p = fmaf(-s.lr, g / (sqrtf(z) + s.eps), p);
}

__device__ __forceinline__ void update_one(float* p, const float* g, float* z, const Scalars& s) {
  float pp = *p, zz = *z;
  update(pp, *g, zz, s);
  *p = pp;
  *z = zz;
}

// The last tensor of [low, high) that starts at or before `at`. Empty tensors start where the next one does, so the
// last of them is the one that holds the element.
__device__ __forceinline__ long long tensor_of(const long long* __restrict__ offset, long long low, long long high,
                                               long long at) {
  while (high - low > 1) {
    const long long middle = (low + high) / 2;
    if (offset[middle] <= at)
      low = middle;
    else
      high = middle;
  }
  return low;
}

__device__ __forceinline__ unsigned phase16(const void* a) {
  return (unsigned)(reinterpret_cast<unsigned long long>(a) >> 2) & 3u;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    adagrad_list(float* const* __restrict__ param, const float* const* __restrict__ grad,
                 float* const* __restrict__ state_sum, const long long* __restrict__ sizes,
                 const long long* __restrict__ offset, long long tensors, long long total,
                 const Hyper* __restrict__ hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const Scalars s = scalars_of(h);
  for (long long start = (long long)blockIdx.x * CHUNK; start < total; start += (long long)gridDim.x * CHUNK) {
    const long long end = start + CHUNK < total ? start + CHUNK : total;
    const long long t = tensor_of(offset, 0, tensors, start);
    if (end - offset[t] <= sizes[t]) {
      // The whole chunk lies in one tensor: 16-byte accesses between a head and a tail of up to three elements.
      const long long shift = start - offset[t];
      float* const p = param[t] + shift;
      const float* const g = grad[t] + shift;
      float* const z = state_sum[t] + shift;
      const long long count = end - start;
      const unsigned phase = phase16(p);
      long long head = 0, vectors = 0;
      if (phase == phase16(g) && phase == phase16(z)) {
        head = (4 - phase) & 3u;
        if (head > count) head = count;
        vectors = (count - head) / 4;
      }
      float4* const p4 = reinterpret_cast<float4*>(p + head);
      const float4* const g4 = reinterpret_cast<const float4*>(g + head);
      float4* const z4 = reinterpret_cast<float4*>(z + head);
      for (long long i = threadIdx.x; i < vectors; i += BLOCK) {
        float4 pp = p4[i], zz = z4[i];
        const float4 gg = g4[i];
        update(pp.x, gg.x, zz.x, s);
        update(pp.y, gg.y, zz.y, s);
        update(pp.z, gg.z, zz.z, s);
        update(pp.w, gg.w, zz.w, s);
        p4[i] = pp;
        z4[i] = zz;
      }
      for (long long i = threadIdx.x; i < head; i += BLOCK) update_one(p + i, g + i, z + i, s);
      for (long long i = head + vectors * 4 + threadIdx.x; i < count; i += BLOCK) update_one(p + i, g + i, z + i, s);
    } else {
      // Several tensors: every element looks for its own, among those of the chunk.
      const long long last = tensor_of(offset, t, tensors, end - 1);
      for (long long at = start + threadIdx.x; at < end; at += BLOCK) {
        const long long own = tensor_of(offset, t, last + 1, at);
        const long long i = at - offset[own];
        update_one(param[own] + i, grad[own] + i, state_sum[own] + i, s);
      }
    }
  }
}
