/*stepbench
{ "task": "adamw_bf16_remainder",
  "note": "one launch for the whole list: all elements in a row, cut into equal chunks; four elements per thread",
  "defines": {"BLOCK": 256, "CHUNK": 2048},
  "tunables": {"BLOCK": [128, 256, 512], "CHUNK": [1024, 2048, 4096]},
  "launches": [
    {"for": "step", "kernel": "adamw_list", "grid": "ceil_div(total, CHUNK)", "block": "BLOCK",
     "args": ["param[]", "grad[]", "remainder[]", "exp_avg[]", "exp_avg_sq[]", "n[]", "offset[]",
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

__device__ __forceinline__ void update(float& p, float grad, float& m, float& v, const Scalars& s) {
  const float g = grad * s.inverse_scale;
  const float gg = g * g;
  m = fmaf(s.w1, g, fmaf(-s.w1, m, m));
  v = fmaf(s.w2, gg, fmaf(-s.w2, v, v));
  const float ratio = m / fmaf(sqrtf(v), s.inverse_root, s.eps);
  p = p - fmaf(s.decay, p, s.step_size * ratio);
}

// The master's pattern is 65536 * param + remainder, both taken as integers, the remainder with its sign.
__device__ __forceinline__ float joined(unsigned param, int remainder) {
  return __uint_as_float((param << 16) + (unsigned)remainder);
}

// The other way: adding half a unit rounds the high half to nearest, and the low half counts from there.
__device__ __forceinline__ unsigned high_of(float master) { return (__float_as_uint(master) + 0x8000u) >> 16; }

struct Pointers {
  uint16_t* param;
  const uint16_t* grad;
  int16_t* remainder;
  float *exp_avg, *exp_avg_sq;
};

__device__ __forceinline__ void update_one(const Pointers& at, long long i, const Scalars& s) {
  float w = joined(at.param[i], at.remainder[i]), m = at.exp_avg[i], v = at.exp_avg_sq[i];
  update(w, __uint_as_float((unsigned)at.grad[i] << 16), m, v, s);
  at.param[i] = (uint16_t)high_of(w);
  at.remainder[i] = (int16_t)__float_as_uint(w);
  at.exp_avg[i] = m;
  at.exp_avg_sq[i] = v;
}

// Two elements of a word, the first in the low half.
__device__ __forceinline__ void update_two(unsigned& p, unsigned g, unsigned& r, float& m0, float& m1, float& v0,
                                           float& v1, const Scalars& s) {
  float w0 = joined(p & 0xffffu, (int)(r << 16) >> 16), w1 = joined(p >> 16, (int)r >> 16);
  update(w0, __uint_as_float(g << 16), m0, v0, s);
  update(w1, __uint_as_float(g & 0xffff0000u), m1, v1, s);
  p = __byte_perm(__float_as_uint(w0) + 0x8000u, __float_as_uint(w1) + 0x8000u, 0x7632);  // both high halves
  r = __byte_perm(__float_as_uint(w0), __float_as_uint(w1), 0x5410);                      // both low halves
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
    adamw_list(uint16_t* const* __restrict__ param, const uint16_t* const* __restrict__ grad,
               int16_t* const* __restrict__ remainder, float* const* __restrict__ exp_avg,
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
      const Pointers at = {param[t] + shift, grad[t] + shift, remainder[t] + shift, exp_avg[t] + shift,
                           exp_avg_sq[t] + shift};
      const long long count = end - start;
      const unsigned phase = phase_of_four(at.param);
      long long head = 0, vectors = 0;
      if (phase == phase_of_four(at.grad) &&
          phase == phase_of_four(at.remainder) &&
          phase == phase_of_four(at.exp_avg) &&
          phase == phase_of_four(at.exp_avg_sq)) {
        head = (4 - phase) & 3u;
        if (head > count) head = count;
        vectors = (count - head) / 4;
      }
      uint2* const p4 = reinterpret_cast<uint2*>(at.param + head);
      const uint2* const g4 = reinterpret_cast<const uint2*>(at.grad + head);
      uint2* const r4 = reinterpret_cast<uint2*>(at.remainder + head);
      float4* const m4 = reinterpret_cast<float4*>(at.exp_avg + head);
      float4* const v4 = reinterpret_cast<float4*>(at.exp_avg_sq + head);
      for (long long i = threadIdx.x; i < vectors; i += BLOCK) {
        uint2 p = p4[i], r = r4[i];
        float4 m = m4[i], v = v4[i];
        const uint2 g = __ldcs(g4 + i);  // read once, never again
        update_two(p.x, g.x, r.x, m.x, m.y, v.x, v.y, s);
        update_two(p.y, g.y, r.y, m.z, m.w, v.z, v.w, s);
        __stcs(p4 + i, p);
        __stcs(r4 + i, r);
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
        update_one({param[own], grad[own], remainder[own], exp_avg[own], exp_avg_sq[own]}, at - offset[own], s);
      }
    }
  }
}
