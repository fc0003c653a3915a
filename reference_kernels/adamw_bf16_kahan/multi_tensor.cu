/*stepbench
{ "task": "adamw_bf16_kahan",
  "note": "one launch for the whole list: all elements in a row, cut into equal chunks; eight elements per thread",
  "defines": {"BLOCK": 256, "CHUNK": 2048},
  "tunables": {"BLOCK": [128, 256, 512], "CHUNK": [1024, 2048, 4096]},
  "launches": [
    {"for": "step", "kernel": "adamw_list", "grid": "ceil_div(total, CHUNK)", "block": "BLOCK",
     "args": ["param[]", "grad[]", "compensation[]", "exp_avg[]", "exp_avg_sq[]", "n[]", "offset[]",
              "tensors", "total", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

struct Scalars {
  float decay, step_size, w1, w2, inverse_root, eps, inverse_scale;
};

__device__ __forceinline__ Scalars scalars_of(const Hyper& h) {
  return {h.lr * h.weight_decay,        h.step_size, 1.0f - h.beta1, 1.0f - h.beta2,
          1.0f / h.bias_correction2_sqrt, h.eps,       1.0f / h.grad_scale};
}

// `c` is what the parameter `p` lacks; on return `p` is a bf16 value again.
__device__ __forceinline__ void update(float& p, float grad, float& c, float& m, float& v, const Scalars& s) {
  const float g = grad * s.inverse_scale;
  const float gg = g * g;
  m = fmaf(s.w1, g, fmaf(-s.w1, m, m));
  v = fmaf(s.w2, gg, fmaf(-s.w2, v, v));
  const float ratio = m / fmaf(sqrtf(v), s.inverse_root, s.eps);
  const float change = c - fmaf(s.decay, p, s.step_size * ratio);
  const float updated = __bfloat162float(__float2bfloat16_rn(p + change));
  c = change + (p - updated);  // the difference is exact
  p = updated;
}

// Two bf16 in one word: the first in the low half.
__device__ __forceinline__ float low_half(unsigned word) { return __uint_as_float(word << 16); }
__device__ __forceinline__ float high_half(unsigned word) { return __uint_as_float(word & 0xffff0000u); }
__device__ __forceinline__ unsigned packed(float low, float high) {
  unsigned word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

// Two elements: one word of each buffer.
__device__ __forceinline__ void update_two(unsigned& p, unsigned g, unsigned& c, unsigned& m, unsigned& v,
                                           const Scalars& s) {
  float p0 = low_half(p), c0 = low_half(c), m0 = low_half(m), v0 = low_half(v);
  float p1 = high_half(p), c1 = high_half(c), m1 = high_half(m), v1 = high_half(v);
  update(p0, low_half(g), c0, m0, v0, s);
  update(p1, high_half(g), c1, m1, v1, s);
  p = packed(p0, p1);
  c = packed(c0, c1);
  m = packed(m0, m1);
  v = packed(v0, v1);
}

struct Pointers {
  __nv_bfloat16* param;
  const __nv_bfloat16* grad;
  __nv_bfloat16 *compensation, *exp_avg, *exp_avg_sq;
};

__device__ __forceinline__ void update_one(const Pointers& at, long long i, const Scalars& s) {
  float p = __bfloat162float(at.param[i]), c = __bfloat162float(at.compensation[i]);
  float m = __bfloat162float(at.exp_avg[i]), v = __bfloat162float(at.exp_avg_sq[i]);
  update(p, __bfloat162float(at.grad[i]), c, m, v, s);
  at.param[i] = __float2bfloat16_rn(p);
  at.compensation[i] = __float2bfloat16_rn(c);
  at.exp_avg[i] = __float2bfloat16_rn(m);
  at.exp_avg_sq[i] = __float2bfloat16_rn(v);
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

// Where in a group of eight elements the address lies.
template <class T>
__device__ __forceinline__ unsigned phase_of_eight(const T* a) {
  return (unsigned)(reinterpret_cast<unsigned long long>(a) / sizeof(T)) & 7u;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    adamw_list(__nv_bfloat16* const* __restrict__ param, const __nv_bfloat16* const* __restrict__ grad,
               __nv_bfloat16* const* __restrict__ compensation, __nv_bfloat16* const* __restrict__ exp_avg,
               __nv_bfloat16* const* __restrict__ exp_avg_sq, const long long* __restrict__ sizes,
               const long long* __restrict__ offset, long long tensors, long long total,
               const Hyper* __restrict__ hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const Scalars s = scalars_of(h);
  for (long long start = (long long)blockIdx.x * CHUNK; start < total; start += (long long)gridDim.x * CHUNK) {
    const long long end = start + CHUNK < total ? start + CHUNK : total;
    const long long t = tensor_of(offset, 0, tensors, start);
    if (end - offset[t] <= sizes[t]) {
      // The whole chunk lies in one tensor: eight elements at a time, between a head and a tail of up to seven.
      const long long shift = start - offset[t];
      const Pointers at = {param[t] + shift, grad[t] + shift, compensation[t] + shift, exp_avg[t] + shift,
                           exp_avg_sq[t] + shift};
      const long long count = end - start;
      const unsigned phase = phase_of_eight(at.param);
      long long head = 0, vectors = 0;
      if (phase == phase_of_eight(at.grad) &&
          phase == phase_of_eight(at.compensation) &&
          phase == phase_of_eight(at.exp_avg) &&
          phase == phase_of_eight(at.exp_avg_sq)) {
        head = (8 - phase) & 7u;
        if (head > count) head = count;
        vectors = (count - head) / 8;
      }
      uint4* const p8 = reinterpret_cast<uint4*>(at.param + head);
      const uint4* const g8 = reinterpret_cast<const uint4*>(at.grad + head);
      uint4* const c8 = reinterpret_cast<uint4*>(at.compensation + head);
      uint4* const m8 = reinterpret_cast<uint4*>(at.exp_avg + head);
      uint4* const v8 = reinterpret_cast<uint4*>(at.exp_avg_sq + head);
      for (long long i = threadIdx.x; i < vectors; i += BLOCK) {
        uint4 p = p8[i], c = c8[i], m = m8[i], v = v8[i];
        const uint4 g = __ldcs(g8 + i);  // read once, never again
        update_two(p.x, g.x, c.x, m.x, v.x, s);
        update_two(p.y, g.y, c.y, m.y, v.y, s);
        update_two(p.z, g.z, c.z, m.z, v.z, s);
        update_two(p.w, g.w, c.w, m.w, v.w, s);
        __stcs(p8 + i, p);
        __stcs(c8 + i, c);
        __stcs(m8 + i, m);
        __stcs(v8 + i, v);
      }
      for (long long i = threadIdx.x; i < head; i += BLOCK) update_one(at, i, s);
      for (long long i = head + vectors * 8 + threadIdx.x; i < count; i += BLOCK) update_one(at, i, s);
    } else {
      // Several tensors: every element looks for its own, among those of the chunk.
      const long long last = tensor_of(offset, t, tensors, end - 1);
      for (long long at = start + threadIdx.x; at < end; at += BLOCK) {
        const long long own = tensor_of(offset, t, last + 1, at);
        update_one({param[own], grad[own], compensation[own], exp_avg[own], exp_avg_sq[own]}, at - offset[own], s);
      }
    }
  }
}
