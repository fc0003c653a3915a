/*stepbench
{ "task": "clip_adamw",
  "note": "two launches: sums of squares into at most SLOTS slots; then chunks of the list, every block adds the slots",
  "defines": {"BLOCK": 256, "CHUNK": 2048, "SUM_BLOCK": 512, "SLOTS": 512},
  "tunables": {"BLOCK": [128, 256, 512], "CHUNK": [1024, 2048, 4096], "SUM_BLOCK": [256, 512], "SLOTS": [256, 512]},
  "scratch": {"slots": "4 * SLOTS"},
  "launches": [
    {"for": "step", "kernel": "sum_squares", "grid": "min(SLOTS, ceil_div(total, 16 * SUM_BLOCK))",
     "block": "SUM_BLOCK",
     "args": ["grad[]", "n[]", "offset[]", "tensors", "total", "hyper", "scratch.slots"]},
    {"for": "step", "kernel": "adamw_list", "grid": "ceil_div(total, CHUNK)", "block": "BLOCK",
     "args": ["param[]", "grad[]", "exp_avg[]", "exp_avg_sq[]", "n[]", "offset[]", "tensors", "total", "hyper",
              "scratch.slots", "min(SLOTS, ceil_div(total, 16 * SUM_BLOCK))"]}
  ] }
*/
#include <stepbench.cuh>

struct Scalars {
  float decay, step_size, w1, w2, inverse_root, eps, factor;
};

__device__ __forceinline__ Scalars scalars_of(const Hyper& h, float norm) {
  const float clip = fminf(1.0f, h.max_norm / (norm + 1e-6f));
  return {h.lr * h.weight_decay,          h.step_size, 1.0f - h.beta1,     1.0f - h.beta2,
          1.0f / h.bias_correction2_sqrt, h.eps,       clip / h.grad_scale};
}

__device__ __forceinline__ void update(float& p, float grad, float& m, float& v, const Scalars& s) {
  const float g = grad * s.factor;
  const float gg = g * g;
  m = fmaf(s.w1, g, fmaf(-s.w1, m, m));
  v = fmaf(s.w2, gg, fmaf(-s.w2, v, v));
  const float ratio = m / fmaf(sqrtf(v), s.inverse_root, s.eps);
  p = p - fmaf(s.decay, p, s.step_size * ratio);
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

// The sum over the threads of a block, in all of them; always in the same order.
template <int kThreads>
__device__ __forceinline__ float block_sum(float value) {
  __shared__ float warps[kThreads / 32];
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(0xffffffffu, value, lanes);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  value = threadIdx.x % 32 < kThreads / 32 ? warps[threadIdx.x % 32] : 0.0f;
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(0xffffffffu, value, lanes);
  return value;
}

// The list in chunks of four vectors for each thread; a block takes every gridDim.x-th and leaves the sum of its
// squares in a slot of its own.
extern "C" __global__ void __launch_bounds__(SUM_BLOCK)
    sum_squares(const float* const* __restrict__ grad, const long long* __restrict__ sizes,
                const long long* __restrict__ offset, long long tensors, long long total,
                const Hyper* __restrict__ hyper, float* __restrict__ slots) {
  constexpr long long kChunk = 16 * SUM_BLOCK;
  if (hyper->found_inf != 0) return;
  const float inverse_scale = 1.0f / hyper->grad_scale;
  float4 sum = {0.0f, 0.0f, 0.0f, 0.0f};
  const auto add = [&](float& to, float value) {
    const float g = value * inverse_scale;
    to = fmaf(g, g, to);
  };
  for (long long start = blockIdx.x * kChunk; start < total; start += gridDim.x * kChunk) {
    const long long end = start + kChunk < total ? start + kChunk : total;
    const long long t = tensor_of(offset, 0, tensors, start);
    if (end - offset[t] <= sizes[t]) {
      const float* const g = grad[t] + (start - offset[t]);
      const long long count = end - start;
      long long head = (4 - phase16(g)) & 3u;
      if (head > count) head = count;
      const long long vectors = (count - head) / 4;
      const float4* const g4 = reinterpret_cast<const float4*>(g + head);
#pragma unroll 4
      for (long long i = threadIdx.x; i < vectors; i += SUM_BLOCK) {
        const float4 gg = g4[i];
        add(sum.x, gg.x);
        add(sum.y, gg.y);
        add(sum.z, gg.z);
        add(sum.w, gg.w);
      }
      for (long long i = threadIdx.x; i < head; i += SUM_BLOCK) add(sum.x, g[i]);
      for (long long i = head + vectors * 4 + threadIdx.x; i < count; i += SUM_BLOCK) add(sum.x, g[i]);
    } else {
      const long long last = tensor_of(offset, t, tensors, end - 1);
      for (long long at = start + threadIdx.x; at < end; at += SUM_BLOCK) {
        const long long own = tensor_of(offset, t, last + 1, at);
        add(sum.x, grad[own][at - offset[own]]);
      }
    }
  }
  const float all = block_sum<SUM_BLOCK>((sum.x + sum.y) + (sum.z + sum.w));
  if (threadIdx.x == 0) slots[blockIdx.x] = all;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    adamw_list(float* const* __restrict__ param, const float* const* __restrict__ grad,
               float* const* __restrict__ exp_avg, float* const* __restrict__ exp_avg_sq,
               const long long* __restrict__ sizes, const long long* __restrict__ offset, long long tensors,
               long long total, const Hyper* __restrict__ hyper, const float* __restrict__ slots, int used) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  float squares = 0.0f;
  for (int i = threadIdx.x; i < used; i += BLOCK) squares += slots[i];
  const Scalars s = scalars_of(h, sqrtf(block_sum<BLOCK>(squares)));
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
