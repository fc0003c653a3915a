/*stepbench
{ "task": "adamw_bf16_sr",
  "note": "one launch for the whole list: all elements in a row, cut into equal chunks; four elements per thread",
  "defines": {"BLOCK": 256, "CHUNK": 2048},
  "tunables": {"BLOCK": [128, 256, 512], "CHUNK": [1024, 2048, 4096]},
  "launches": [
    {"for": "step", "kernel": "adamw_list", "grid": "ceil_div(total, CHUNK)", "block": "BLOCK",
     "args": ["param[]", "grad[]", "exp_avg[]", "exp_avg_sq[]", "n[]", "offset[]", "tensors", "total", "hyper"]}
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

// Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011): 128 random bits per counter and key.
__device__ __forceinline__ uint4 philox(uint4 counter, uint2 key) {
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const unsigned high0 = __umulhi(0xD2511F53u, counter.x), low0 = 0xD2511F53u * counter.x;
    const unsigned high1 = __umulhi(0xCD9E8D57u, counter.z), low1 = 0xCD9E8D57u * counter.z;
    counter = make_uint4(high1 ^ counter.y ^ key.x, low1, high0 ^ counter.w ^ key.y, low0);
    key.x += 0x9E3779B9u;
    key.y += 0xBB67AE85u;
  }
  return counter;
}

// Counter and key but for the group of eight elements.
struct Stream {
  unsigned tensor, step, seed;
};

__device__ __forceinline__ uint4 eight_draws(const Stream& stream, long long group) {
  return philox(make_uint4((unsigned)group, (unsigned)((unsigned long long)group >> 32), stream.tensor, stream.step),
                make_uint2(stream.seed, 0));
}

// Draws of elements first .. first + 3, sixteen bits each, the first lowest.
__device__ __forceinline__ unsigned long long four_draws(const Stream& stream, long long first) {
  const uint4 words = eight_draws(stream, first >> 3);
  const unsigned long long low = words.x | (unsigned long long)words.y << 32;
  const unsigned long long high = words.z | (unsigned long long)words.w << 32;
  const unsigned place = (unsigned)first & 7u, shift = 16 * (place & 3u);
  if (place == 0) return low;
  if (place == 4) return high;
  if (place < 4) return low >> shift | high << (64 - shift);
  const uint4 next = eight_draws(stream, (first >> 3) + 1);
  return high >> shift | (next.x | (unsigned long long)next.y << 32) << (64 - shift);
}

// The fp32 pattern plus sixteen random bits, cut off: up with the probability of the discarded fraction.
__device__ __forceinline__ unsigned rounded(float value, unsigned draw) {
  return (__float_as_uint(value) + (draw & 0xffffu)) >> 16;
}

struct Pointers {
  uint16_t* param;
  const uint16_t* grad;
  float *exp_avg, *exp_avg_sq;
  long long first;  // element of the tensor that the pointers stand on
};

__device__ __forceinline__ void update_one(const Pointers& at, long long i, const Stream& stream,
                                           const Scalars& s) {
  float p = __uint_as_float((unsigned)at.param[i] << 16), m = at.exp_avg[i], v = at.exp_avg_sq[i];
  update(p, __uint_as_float((unsigned)at.grad[i] << 16), m, v, s);
  at.param[i] = (uint16_t)rounded(p, (unsigned)four_draws(stream, at.first + i));
  at.exp_avg[i] = m;
  at.exp_avg_sq[i] = v;
}

// Two elements of a word, the first in the low half.
__device__ __forceinline__ void update_two(unsigned& p, unsigned g, unsigned draws, float& m0, float& m1, float& v0,
                                           float& v1, const Scalars& s) {
  float p0 = __uint_as_float(p << 16), p1 = __uint_as_float(p & 0xffff0000u);
  update(p0, __uint_as_float(g << 16), m0, v0, s);
  update(p1, __uint_as_float(g & 0xffff0000u), m1, v1, s);
  p = rounded(p0, draws) | rounded(p1, draws >> 16) << 16;
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
      // The whole chunk lies in one tensor: four elements at a time, between a head and a tail of up to three.
      const long long shift = start - offset[t];
      const Pointers at = {param[t] + shift, grad[t] + shift, exp_avg[t] + shift, exp_avg_sq[t] + shift, shift};
      const long long count = end - start;
      const unsigned phase = phase_of_four(at.param);
      long long head = 0, vectors = 0;
      if (phase == phase_of_four(at.grad) &&
          phase == phase_of_four(at.exp_avg) &&
          phase == phase_of_four(at.exp_avg_sq)) {
        head = (4 - phase) & 3u;
        if (head > count) head = count;
        vectors = (count - head) / 4;
      }
      uint2* const p4 = reinterpret_cast<uint2*>(at.param + head);
      const uint2* const g4 = reinterpret_cast<const uint2*>(at.grad + head);
      float4* const m4 = reinterpret_cast<float4*>(at.exp_avg + head);
      float4* const v4 = reinterpret_cast<float4*>(at.exp_avg_sq + head);
      const Stream stream = {(unsigned)t, (unsigned)h.step, (unsigned)h.seed};
      for (long long i = threadIdx.x; i < vectors; i += BLOCK) {
        uint2 p = p4[i];
        float4 m = m4[i], v = v4[i];
        const uint2 g = __ldcs(g4 + i);  // read once, never again
        const unsigned long long draws = four_draws(stream, shift + head + 4 * i);
        update_two(p.x, g.x, (unsigned)draws, m.x, m.y, v.x, v.y, s);
        update_two(p.y, g.y, (unsigned)(draws >> 32), m.z, m.w, v.z, v.w, s);
        __stcs(p4 + i, p);
        __stcs(m4 + i, m);
        __stcs(v4 + i, v);
      }
      for (long long i = threadIdx.x; i < head; i += BLOCK) update_one(at, i, stream, s);
      for (long long i = head + vectors * 4 + threadIdx.x; i < count; i += BLOCK) update_one(at, i, stream, s);
    } else {
      // Several tensors: every element looks for its own, among those of the chunk.
      const long long last = tensor_of(offset, t, tensors, end - 1);
      for (long long at = start + threadIdx.x; at < end; at += BLOCK) {
        const long long own = tensor_of(offset, t, last + 1, at);
        const Stream stream = {(unsigned)own, (unsigned)h.step, (unsigned)h.seed};
        update_one({param[own], grad[own], exp_avg[own], exp_avg_sq[own], 0}, at - offset[own], stream, s);
      }
    }
  }
}
