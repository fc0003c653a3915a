/*stepbench
{ "task": "nadam", "note": "one launch for the whole list: all elements in a row, cut into equal chunks",
  "defines": {"BLOCK": 256, "CHUNK": 2048},
  "tunables": {"BLOCK": [128, 256, 512], "CHUNK": [1024, 2048, 4096]},
  "launches": [
    {"for": "step", "kernel": "nadam_list", "grid": "ceil_div(total, CHUNK)", "block": "BLOCK",
     "args": ["param[]", "grad[]", "exp_avg[]", "exp_avg_sq[]", "n[]", "offset[]", "tensors", "total", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

struct Scalars {
  float l2, decay, grad_step, moment_step, w1, w2, inverse_root, eps, inverse_scale;
};

// Scalars are hoisted out of the loop: per element one root and one division remain.
__device__ __forceinline__ Scalars scalars_of(const Hyper& h) {
  return {h.l2_decay,
          h.lr * h.weight_decay,
          h.lr * h.grad_factor,
          h.lr * h.moment_factor,
          1.0f - h.beta1,
          1.0f - h.beta2,
          1.0f / sqrtf(h.bias_correction2),
          h.eps,
          1.0f / h.grad_scale};
}

__device__ __forceinline__ void update(float& p, float grad, float& m, float& v, const Scalars& s) {
  const float g = fmaf(s.l2, p, grad * s.inverse_scale);
  m = fmaf(s.w1, g, fmaf(-s.w1, m, m));
  v = fmaf(s.w2, g * g, fmaf(-s.w2, v, v));
  const float u = fmaf(s.moment_step, m, s.grad_step * g) / fmaf(sqrtf(v), s.inverse_root, s.eps);
  p = p - fmaf(s.decay, p, u);
}

__device__ __forceinline__ void update_one(float* p, const float* g, float* m, float* v, const Scalars& s) {
  float pp = *p, mm = *m, vv = *v;
  update(pp, *g, mm, vv, s);
  *p = pp;
  *m = mm;
  *v = vv;
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
    nadam_list(float* const* __restrict__ param, const float* const* __restrict__ grad,
               float* const* __restrict__ exp_avg, float* const* __restrict__ exp_avg_sq,
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
      float* const v = exp_avg_sq[t] + shift;
      const long long count = end - start;
      const unsigned phase = phase16(p);
      long long head = 0, vectors = 0;
      if (phase == phase16(g) && phase == phase16(m) && phase == phase16(v)) {
        head = (4 - phase) & 3u;
        if (head > count) head = count;
        vectors = (count - head) / 4;
      }
      float4* const p4 = reinterpret_cast<float4*>(p + head);
      const float4* const g4 = reinterpret_cast<const float4*>(g + head);
      float4* const m4 = reinterpret_cast<float4*>(m + head);
      float4* const v4 = reinterpret_cast<float4*>(v + head);
      for (long long i = threadIdx.x; i < vectors; i += BLOCK) {
        float4 pp = p4[i], mm = m4[i], vv = v4[i];
        const float4 gg = g4[i];
        update(pp.x, gg.x, mm.x, vv.x, s);
        update(pp.y, gg.y, mm.y, vv.y, s);
        update(pp.z, gg.z, mm.z, vv.z, s);
        update(pp.w, gg.w, mm.w, vv.w, s);
        p4[i] = pp;
        m4[i] = mm;
        v4[i] = vv;
      }
      for (long long i = threadIdx.x; i < head; i += BLOCK) update_one(p + i, g + i, m + i, v + i, s);
      for (long long i = head + vectors * 4 + threadIdx.x; i < count; i += BLOCK)
        update_one(p + i, g + i, m + i, v + i, s);
    } else {
      // Several tensors: every element looks for its own, among those of the chunk.
      const long long last = tensor_of(offset, t, tensors, end - 1);
      for (long long at = start + threadIdx.x; at < end; at += BLOCK) {
        const long long own = tensor_of(offset, t, last + 1, at);
        const long long i = at - offset[own];
        update_one(param[own] + i, grad[own] + i, exp_avg[own] + i, exp_avg_sq[own] + i, s);
      }
    }
  }
}
