/*stepbench
{ "task": "signsgd", "note": "one launch for the whole list: all elements in a row, cut into equal chunks",
  "defines": {"BLOCK": 256, "CHUNK": 2048},
  "tunables": {"BLOCK": [128, 256, 512], "CHUNK": [1024, 2048, 4096]},
  "launches": [
    {"for": "step", "kernel": "signsgd_list", "grid": "ceil_div(total, CHUNK)", "block": "BLOCK",
     "args": ["param[]", "grad[]", "exp_avg[]", "n[]", "offset[]", "tensors", "total", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

struct Scalars {
  float lr, decay, w, inverse_scale;
};

// Scalars are hoisted out of the loop. grad_scale is a power of two, so its reciprocal is exact.
__device__ __forceinline__ Scalars scalars_of(const Hyper& h) {
  return {h.lr, h.lr * h.weight_decay, 1.0f - h.beta, 1.0f / h.grad_scale};
}

// The decay is subtracted by itself: next to the parameter, 1 - lr*weight_decay would lose the low bits of the rate.
__device__ __forceinline__ void update(float& p, float grad, float& m, const Scalars& s) {
  m = fmaf(s.w, grad * s.inverse_scale, fmaf(-s.w, m, m));
  const float step = m == 0.0f ? 0.0f : copysignf(s.lr, m);
  p = p - fmaf(s.decay, p, step);
}

__device__ __forceinline__ void update_at(float* p, const float* g, float* m, long long i, const Scalars& s) {
  float pp = p[i], mm = m[i];
  update(pp, g[i], mm, s);
  p[i] = pp;
  m[i] = mm;
}

// The last tensor of [low, high) that starts at or before `at`: of several that start there all but the last are empty.
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
    signsgd_list(float* const* __restrict__ param, const float* const* __restrict__ grad,
                 float* const* __restrict__ exp_avg, const long long* __restrict__ sizes,
                 const long long* __restrict__ offset, long long tensors, long long total,
                 const Hyper* __restrict__ hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const Scalars s = scalars_of(h);
  for (long long start = (long long)blockIdx.x * CHUNK; start < total; start += (long long)gridDim.x * CHUNK) {
    const long long end = start + CHUNK < total ? start + CHUNK : total;
    const long long t = tensor_of(offset, 0, tensors, start);
    if (end - offset[t] <= sizes[t]) {
      // The chunk lies in one tensor. Buffers of equal phase are aligned together after a head of up to three elements.
      const long long shift = start - offset[t], count = end - start;
      float* const p = param[t] + shift;
      const float* const g = grad[t] + shift;
      float* const m = exp_avg[t] + shift;
      const unsigned phase = phase16(p);
      long long head = 0, vectors = 0;
      if (phase == phase16(g) && phase == phase16(m)) {
        head = (4 - phase) & 3u;
        if (head > count) head = count;
        vectors = (count - head) / 4;
      }
      float4* const p4 = reinterpret_cast<float4*>(p + head);
      const float4* const g4 = reinterpret_cast<const float4*>(g + head);
      float4* const m4 = reinterpret_cast<float4*>(m + head);
      for (long long i = threadIdx.x; i < vectors; i += BLOCK) {
        float4 pp = p4[i], mm = m4[i];
        const float4 gg = g4[i];
        update(pp.x, gg.x, mm.x, s);
        update(pp.y, gg.y, mm.y, s);
        update(pp.z, gg.z, mm.z, s);
        update(pp.w, gg.w, mm.w, s);
        p4[i] = pp;
        m4[i] = mm;
      }
      for (long long i = threadIdx.x; i < head; i += BLOCK) update_at(p, g, m, i, s);
      for (long long i = head + vectors * 4 + threadIdx.x; i < count; i += BLOCK) update_at(p, g, m, i, s);
    } else {
      // The chunk touches several tensors: every element looks for its own among those.
      const long long last = tensor_of(offset, t, tensors, end - 1);
      for (long long at = start + threadIdx.x; at < end; at += BLOCK) {
        const long long own = tensor_of(offset, t, last + 1, at);
        update_at(param[own], grad[own], exp_avg[own], at - offset[own], s);
      }
    }
  }
}
