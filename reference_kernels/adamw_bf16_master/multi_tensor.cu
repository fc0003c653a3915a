/*stepbench
{ "task": "adamw_bf16_master",
  "note": "one launch for the whole list: all elements in a row, cut into equal chunks; four elements per thread",
  "defines": {"BLOCK": 256, "CHUNK": 2048},
  "tunables": {"BLOCK": [128, 256, 512], "CHUNK": [1024, 2048, 4096]},
  "launches": [
    {"for": "step", "kernel": "adamw_list", "grid": "ceil_div(total, CHUNK)", "block": "BLOCK",
     "args": ["param[]", "grad[]", "master[]", "exp_avg[]", "exp_avg_sq[]", "n[]", "offset[]", "tensors", "total",
              "hyper"]}
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

__device__ __forceinline__ void update(float& p, float grad, float& m, float& v, const Scalars& s) {
  const float g = grad * s.inverse_scale;
  const float gg = g * g;
  m = fmaf(s.w1, g, fmaf(-s.w1, m, m));
  v = fmaf(s.w2, gg, fmaf(-s.w2, v, v));
  const float ratio = m / fmaf(sqrtf(v), s.inverse_root, s.eps);
  p = p - fmaf(s.decay, p, s.step_size * ratio);
}

// Two bf16 in one word: the first in the low half.
__device__ __forceinline__ float low_half(unsigned word) { return __uint_as_float(word << 16); }
__device__ __forceinline__ float high_half(unsigned word) { return __uint_as_float(word & 0xffff0000u); }
__device__ __forceinline__ unsigned packed(float low, float high) {
  unsigned word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

struct Pointers {
  __nv_bfloat16* param;
  const __nv_bfloat16* grad;
  float *master, *exp_avg, *exp_avg_sq;
};

__device__ __forceinline__ void update_one(const Pointers& at, long long i, const Scalars& s) {
  float p = at.master[i], m = at.exp_avg[i], v = at.exp_avg_sq[i];
  update(p, __bfloat162float(at.grad[i]), m, v, s);
  at.master[i] = p;
  at.param[i] = __float2bfloat16_rn(p);
  at.exp_avg[i] = m;
  at.exp_avg_sq[i] = v;
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

// Where in a group of four elements the address lies.
template <class T>
__device__ __forceinline__ unsigned phase_of_four(const T* a) {
  return (unsigned)(reinterpret_cast<unsigned long long>(a) / sizeof(T)) & 3u;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    adamw_list(__nv_bfloat16* const* __restrict__ param, const __nv_bfloat16* const* __restrict__ grad,
               float* const* __restrict__ master, float* const* __restrict__ exp_avg,
               float* const* __restrict__ exp_avg_sq, const long long* __restrict__ sizes,
               const long long* __restrict__ offset, long long tensors, long long total,
               const Hyper* __restrict__ hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const Scalars s = scalars_of(h);
  for (long long start = (long long)blockIdx.x * CHUNK; start < total; start += (long long)gridDim.x * CHUNK) {
    const long long end = start + CHUNK < total ? start + CHUNK : total;
    const long long t = tensor_of(offset, 0, tensors, start);
    if (end - offset[t] <= sizes[t]) {
      // The whole chunk lies in one tensor: four elements at a time, between a head and a tail of up to three.
      const long long shift = start - offset[t];
      const Pointers at = {param[t] + shift, grad[t] + shift, master[t] + shift, exp_avg[t] + shift,
                           exp_avg_sq[t] + shift};
      const long long count = end - start;
      const unsigned phase = phase_of_four(at.param);
      long long head = 0, vectors = 0;
      if (phase == phase_of_four(at.grad) && phase == phase_of_four(at.master) && phase == phase_of_four(at.exp_avg) &&
          phase == phase_of_four(at.exp_avg_sq)) {
        head = (4 - phase) & 3u;
        if (head > count) head = count;
        vectors = (count - head) / 4;
      }
      uint2* const p4 = reinterpret_cast<uint2*>(at.param + head);
      const uint2* const g4 = reinterpret_cast<const uint2*>(at.grad + head);
      float4* const w4 = reinterpret_cast<float4*>(at.master + head);
      float4* const m4 = reinterpret_cast<float4*>(at.exp_avg + head);
      float4* const v4 = reinterpret_cast<float4*>(at.exp_avg_sq + head);
      for (long long i = threadIdx.x; i < vectors; i += BLOCK) {
        float4 w = w4[i], m = m4[i], v = v4[i];
        const uint2 g = __ldcs(g4 + i);  // read once, never again
        update(w.x, low_half(g.x), m.x, v.x, s);
        update(w.y, high_half(g.x), m.y, v.y, s);
        update(w.z, low_half(g.y), m.z, v.z, s);
        update(w.w, high_half(g.y), m.w, v.w, s);
        __stcs(p4 + i, make_uint2(packed(w.x, w.y), packed(w.z, w.w)));
        __stcs(w4 + i, w);
        __stcs(m4 + i, m);
        __stcs(v4 + i, v);
      }
      for (long long i = threadIdx.x; i < head; i += BLOCK) update_one(at, i, s);
      for (long long i = head + vectors * 4 + threadIdx.x; i < count; i += BLOCK) update_one(at, i, s);
    } else {
      // Several tensors: every element looks for its own, among those of the chunk.
      const long long last = tensor_of(offset, t, tensors, end - 1);
      for (long long at = start + threadIdx.x; at < end; at += BLOCK) {
        const long long own = tensor_of(offset, t, last + 1, at);
        update_one({param[own], grad[own], master[own], exp_avg[own], exp_avg_sq[own]}, at - offset[own], s);
      }
    }
  }
}
