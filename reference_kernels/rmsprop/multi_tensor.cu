/*stepbench
{ "task": "rmsprop", "note": "one launch for the whole list: all elements in a row, cut into equal chunks",
  "defines": {"BLOCK": 256, "CHUNK": 2048},
  "tunables": {"BLOCK": [128, 256, 512], "CHUNK": [1024, 2048, 4096]},
  "launches": [
    {"for": "step", "kernel": "rmsprop_list", "grid": "ceil_div(total, CHUNK)", "block": "BLOCK",
     "args": ["param[]", "grad[]", "square_avg[]", "grad_avg[]", "momentum_buffer[]", "n[]", "offset[]", "tensors",
              "total", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

struct Scalars {
  float decay, lr, w, momentum, eps, inverse_scale;
};

// Scalars are hoisted out of the loop.
__device__ __forceinline__ Scalars scalars_of(const Hyper& h) {
  return {h.weight_decay, h.lr, 1.0f - h.alpha, h.momentum, h.eps, 1.0f / h.grad_scale};
}

__device__ __forceinline__ void update(float& p, float grad, float& q, float& a, float& b, const Scalars& s) {
  const float g = fmaf(s.decay, p, grad * s.inverse_scale);
  q = fmaf(s.w, g * g, fmaf(-s.w, q, q));
  a = fmaf(s.w, g, fmaf(-s.w, a, a));
  b = fmaf(s.momentum, b, g / (sqrtf(fmaxf(fmaf(-a, a, q), 0.0f)) + s.eps));
  p = fmaf(-s.lr, b, p);
}

__device__ __forceinline__ void update_one(float* p, const float* g, float* q, float* a, float* b, const Scalars& s) {
  float pp = *p, qq = *q, aa = *a, bb = *b;
  update(pp, *g, qq, aa, bb, s);
  *p = pp;
  *q = qq;
  *a = aa;
  *b = bb;
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
    rmsprop_list(float* const* __restrict__ param, const float* const* __restrict__ grad,
                 float* const* __restrict__ square_avg, float* const* __restrict__ grad_avg,
                 float* const* __restrict__ momentum_buffer, const long long* __restrict__ sizes,
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
      float* const q = square_avg[t] + shift;
      float* const a = grad_avg[t] + shift;
      float* const b = momentum_buffer[t] + shift;
      const long long count = end - start;
      const unsigned phase = phase16(p);
      long long head = 0, vectors = 0;
      if (phase == phase16(g) && phase == phase16(q) && phase == phase16(a) && phase == phase16(b)) {
        head = (4 - phase) & 3u;
        if (head > count) head = count;
        vectors = (count - head) / 4;
      }
      float4* const p4 = reinterpret_cast<float4*>(p + head);
      const float4* const g4 = reinterpret_cast<const float4*>(g + head);
      float4* const q4 = reinterpret_cast<float4*>(q + head);
      float4* const a4 = reinterpret_cast<float4*>(a + head);
      float4* const b4 = reinterpret_cast<float4*>(b + head);
      for (long long i = threadIdx.x; i < vectors; i += BLOCK) {
        float4 pp = p4[i], qq = q4[i], aa = a4[i], bb = b4[i];
        const float4 gg = g4[i];
        update(pp.x, gg.x, qq.x, aa.x, bb.x, s);
        update(pp.y, gg.y, qq.y, aa.y, bb.y, s);
        update(pp.z, gg.z, qq.z, aa.z, bb.z, s);
        update(pp.w, gg.w, qq.w, aa.w, bb.w, s);
        p4[i] = pp;
        q4[i] = qq;
        a4[i] = aa;
        b4[i] = bb;
      }
      for (long long i = threadIdx.x; i < head; i += BLOCK) update_one(p + i, g + i, q + i, a + i, b + i, s);
      for (long long i = head + vectors * 4 + threadIdx.x; i < count; i += BLOCK)
        update_one(p + i, g + i, q + i, a + i, b + i, s);
    } else {
      // Several tensors: every element looks for its own, among those of the chunk.
      const long long last = tensor_of(offset, t, tensors, end - 1);
      for (long long at = start + threadIdx.x; at < end; at += BLOCK) {
        const long long own = tensor_of(offset, t, last + 1, at);
        const long long i = at - offset[own];
        update_one(param[own] + i, grad[own] + i, square_avg[own] + i, grad_avg[own] + i, momentum_buffer[own] + i, s);
      }
    }
  }
}
