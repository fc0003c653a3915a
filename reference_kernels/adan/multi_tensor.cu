/*stepbench
{ "task": "adan", "note": "one launch for the whole list: all elements in a row, cut into equal chunks",
  "defines": {"BLOCK": 256, "CHUNK": 2048},
  "tunables": {"BLOCK": [128, 256, 512], "CHUNK": [1024, 2048, 4096]},
  "launches": [
    {"for": "step", "kernel": "adan_list", "grid": "ceil_div(total, CHUNK)", "block": "BLOCK",
     "args": ["param[]", "grad[]", "exp_avg[]", "exp_avg_diff[]", "exp_avg_sq[]", "prev_grad[]", "n[]", "offset[]",
              "tensors", "total", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

struct Scalars {
  float shrink, m_step, d_step, w1, w2, w3, beta2, inverse_root, eps, inverse_scale;
  bool first;
};

// Scalars are hoisted out of the loop. Division by 1 + decay is subtraction of decay / (1 + decay): one rounding less,
// and none that is the same at every step.
__device__ __forceinline__ Scalars scalars_of(const Hyper& h) {
  const float decay = h.lr * h.weight_decay;
  return {decay / (1.0f + decay),
          h.lr / h.bias_correction1,
          h.lr * h.beta2 / h.bias_correction2,
          1.0f - h.beta1,
          1.0f - h.beta2,
          1.0f - h.beta3,
          h.beta2,
          1.0f / sqrtf(h.bias_correction3),
          h.eps,
          1.0f / h.grad_scale,
          h.is_first_step != 0};
}

__device__ __forceinline__ void update(float& p, float grad, float& m, float& d, float& v, float& r, const Scalars& s) {
  const float g = grad * s.inverse_scale;
  const float diff = s.first ? 0.0f : g - r;
  const float k = fmaf(s.beta2, diff, g);
  m = fmaf(s.w1, g, fmaf(-s.w1, m, m));
  d = fmaf(s.w2, diff, fmaf(-s.w2, d, d));
  v = fmaf(s.w3, k * k, fmaf(-s.w3, v, v));
  const float u = fmaf(s.m_step, m, s.d_step * d) / fmaf(sqrtf(v), s.inverse_root, s.eps);
  const float moved = p - u;
  p = fmaf(-s.shrink, moved, moved);
  r = g;
}

__device__ __forceinline__ void update_one(float* p, const float* g, float* m, float* d, float* v, float* r,
                                           const Scalars& s) {
  float pp = *p, mm = *m, dd = *d, vv = *v, rr = *r;
  update(pp, *g, mm, dd, vv, rr, s);
  *p = pp;
  *m = mm;
  *d = dd;
  *v = vv;
  *r = rr;
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
    adan_list(float* const* __restrict__ param, const float* const* __restrict__ grad,
              float* const* __restrict__ exp_avg, float* const* __restrict__ exp_avg_diff,
              float* const* __restrict__ exp_avg_sq, float* const* __restrict__ prev_grad,
              const long long* __restrict__ sizes, const long long* __restrict__ offset, long long tensors,
              long long total, const Hyper* __restrict__ hyper) {
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
      float* const m = exp_avg[t] + shift;
      float* const d = exp_avg_diff[t] + shift;
      float* const v = exp_avg_sq[t] + shift;
      float* const r = prev_grad[t] + shift;
      const long long count = end - start;
      const unsigned phase = phase16(p);
      long long head = 0, vectors = 0;
      if (phase == phase16(g) && phase == phase16(m) && phase == phase16(d) && phase == phase16(v) &&
          phase == phase16(r)) {
        head = (4 - phase) & 3u;
        if (head > count) head = count;
        vectors = (count - head) / 4;
      }
      float4* const p4 = reinterpret_cast<float4*>(p + head);
      const float4* const g4 = reinterpret_cast<const float4*>(g + head);
      float4* const m4 = reinterpret_cast<float4*>(m + head);
      float4* const d4 = reinterpret_cast<float4*>(d + head);
      float4* const v4 = reinterpret_cast<float4*>(v + head);
      float4* const r4 = reinterpret_cast<float4*>(r + head);
      for (long long i = threadIdx.x; i < vectors; i += BLOCK) {
        float4 pp = p4[i], mm = m4[i], dd = d4[i], vv = v4[i], rr = r4[i];
        const float4 gg = g4[i];
        update(pp.x, gg.x, mm.x, dd.x, vv.x, rr.x, s);
        update(pp.y, gg.y, mm.y, dd.y, vv.y, rr.y, s);
        update(pp.z, gg.z, mm.z, dd.z, vv.z, rr.z, s);
        update(pp.w, gg.w, mm.w, dd.w, vv.w, rr.w, s);
        p4[i] = pp;
        m4[i] = mm;
        d4[i] = dd;
        v4[i] = vv;
        r4[i] = rr;
      }
      for (long long i = threadIdx.x; i < head; i += BLOCK) update_one(p + i, g + i, m + i, d + i, v + i, r + i, s);
      for (long long i = head + vectors * 4 + threadIdx.x; i < count; i += BLOCK)
        update_one(p + i, g + i, m + i, d + i, v + i, r + i, s);
    } else {
      // Several tensors: every element looks for its own, among those of the chunk.
      const long long last = tensor_of(offset, t, tensors, end - 1);
      for (long long at = start + threadIdx.x; at < end; at += BLOCK) {
        const long long own = tensor_of(offset, t, last + 1, at);
        const long long i = at - offset[own];
        update_one(param[own] + i, grad[own] + i, exp_avg[own] + i, exp_avg_diff[own] + i, exp_avg_sq[own] + i,
                   prev_grad[own] + i, s);
      }
    }
  }
}
