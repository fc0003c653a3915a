/*stepbench
{ "task": "lamb",
  "note": "three launches for the list: chunks that stay within a tensor, one block per tensor for its ratio, chunks",
  "defines": {"BLOCK": 256, "CHUNK": 4096},
  "tunables": {"BLOCK": [128, 256, 512], "CHUNK": [2048, 4096, 8192]},
  "scratch": {"squares": "8 * (total / CHUNK + tensors)", "ratio": "4 * tensors"},
  "launches": [
    {"for": "step", "kernel": "moments", "grid": "total / CHUNK + tensors", "block": "BLOCK",
     "args": ["param[]", "grad[]", "exp_avg[]", "exp_avg_sq[]", "n[]", "offset[]", "tensors", "hyper",
              "scratch.squares"]},
    {"for": "step", "kernel": "trust_ratios", "grid": "tensors", "block": "BLOCK",
     "args": ["n[]", "offset[]", "hyper", "scratch.squares", "scratch.ratio"]},
    {"for": "step", "kernel": "step", "grid": "total / CHUNK + tensors", "block": "BLOCK",
     "args": ["param[]", "exp_avg[]", "exp_avg_sq[]", "n[]", "offset[]", "tensors", "hyper", "scratch.ratio"]}
  ] }
*/
#include <stepbench.cuh>

struct Scalars {
  float w1, w2, correction, inverse_root, eps, weight_decay, inverse_scale;
};

__device__ __forceinline__ Scalars scalars_of(const Hyper& h) {
  return {1.0f - h.beta1, 1.0f - h.beta2, 1.0f / h.bias_correction1, 1.0f / h.bias_correction2_sqrt,
          h.eps,          h.weight_decay, 1.0f / h.grad_scale};
}

// The update before the trust ratio, from the new moments.
__device__ __forceinline__ float update_of(float p, float m, float v, const Scalars& s) {
  return fmaf(s.weight_decay, p, m * s.correction / fmaf(sqrtf(v), s.inverse_root, s.eps));
}

// Chunks are numbered over the list so that every tensor starts a new one: those of tensor t begin with number
// offset[t] / CHUNK + t. Some numbers at the ends of tensors stay without elements.
__device__ __forceinline__ long long first_chunk(const long long* __restrict__ offset, long long t) {
  return offset[t] / CHUNK + t;
}

struct Piece {
  long long tensor, first, count;
};

__device__ __forceinline__ Piece piece_of(const long long* __restrict__ sizes, const long long* __restrict__ offset,
                                          long long tensors, long long chunk) {
  long long low = 0, high = tensors;
  while (high - low > 1) {
    const long long middle = (low + high) / 2;
    if (first_chunk(offset, middle) <= chunk)
      low = middle;
    else
      high = middle;
  }
  const long long first = (chunk - first_chunk(offset, low)) * CHUNK;
  const long long rest = sizes[low] - first;
  return {low, first, rest < CHUNK ? (rest > 0 ? rest : 0) : CHUNK};
}

__device__ __forceinline__ unsigned phase16(const void* a) {
  return (unsigned)(reinterpret_cast<unsigned long long>(a) >> 2) & 3u;
}

// Elements before the first whole vector, or all where vectors do not line up.
__device__ __forceinline__ long long head_of(unsigned phase, bool same, long long count) {
  const long long head = same ? (4 - phase) & 3u : count;
  return head < count ? head : count;
}

// The sums over the threads of a block, in all of them; always in the same order.
__device__ __forceinline__ float2 block_sum(float2 value) {
  __shared__ float2 warps[BLOCK / 32];
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    value.x += __shfl_xor_sync(0xffffffffu, value.x, lanes);
    value.y += __shfl_xor_sync(0xffffffffu, value.y, lanes);
  }
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  value = threadIdx.x % 32 < BLOCK / 32 ? warps[threadIdx.x % 32] : make_float2(0.0f, 0.0f);
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    value.x += __shfl_xor_sync(0xffffffffu, value.x, lanes);
    value.y += __shfl_xor_sync(0xffffffffu, value.y, lanes);
  }
  return value;
}

__device__ __forceinline__ void moment(float p, float grad, float& m, float& v, float2& squares, const Scalars& s) {
  const float g = grad * s.inverse_scale;
  m = fmaf(s.w1, g, fmaf(-s.w1, m, m));
  v = fmaf(s.w2, g * g, fmaf(-s.w2, v, v));
  const float u = update_of(p, m, v, s);
  squares.x = fmaf(p, p, squares.x);
  squares.y = fmaf(u, u, squares.y);
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    moments(const float* const* __restrict__ param, const float* const* __restrict__ grad,
            float* const* __restrict__ exp_avg, float* const* __restrict__ exp_avg_sq,
            const long long* __restrict__ sizes, const long long* __restrict__ offset, long long tensors,
            const Hyper* __restrict__ hyper, float2* __restrict__ squares) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const Piece piece = piece_of(sizes, offset, tensors, blockIdx.x);
  if (piece.count == 0) return;
  const Scalars s = scalars_of(h);
  const float* const p = param[piece.tensor] + piece.first;
  const float* const g = grad[piece.tensor] + piece.first;
  float* const m = exp_avg[piece.tensor] + piece.first;
  float* const v = exp_avg_sq[piece.tensor] + piece.first;
  const unsigned phase = phase16(p);
  const bool same = phase == phase16(g) && phase == phase16(m) && phase == phase16(v);
  const long long head = head_of(phase, same, piece.count);
  const long long vectors = (piece.count - head) / 4;
  const float4* const p4 = reinterpret_cast<const float4*>(p + head);
  const float4* const g4 = reinterpret_cast<const float4*>(g + head);
  float4* const m4 = reinterpret_cast<float4*>(m + head);
  float4* const v4 = reinterpret_cast<float4*>(v + head);
  float2 sum = {0.0f, 0.0f};
#pragma unroll 2
  for (long long i = threadIdx.x; i < vectors; i += BLOCK) {
    const float4 pp = p4[i], gg = g4[i];
    float4 mm = m4[i], vv = v4[i];
    moment(pp.x, gg.x, mm.x, vv.x, sum, s);
    moment(pp.y, gg.y, mm.y, vv.y, sum, s);
    moment(pp.z, gg.z, mm.z, vv.z, sum, s);
    moment(pp.w, gg.w, mm.w, vv.w, sum, s);
    m4[i] = mm;
    v4[i] = vv;
  }
  const auto one = [&](long long i) {
    float mm = m[i], vv = v[i];
    moment(p[i], g[i], mm, vv, sum, s);
    m[i] = mm;
    v[i] = vv;
  };
  for (long long i = threadIdx.x; i < head; i += BLOCK) one(i);
  for (long long i = head + vectors * 4 + threadIdx.x; i < piece.count; i += BLOCK) one(i);
  sum = block_sum(sum);
  if (threadIdx.x == 0) squares[blockIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    trust_ratios(const long long* __restrict__ sizes, const long long* __restrict__ offset,
                 const Hyper* __restrict__ hyper, const float2* __restrict__ squares, float* __restrict__ ratio) {
  const long long t = blockIdx.x;
  if (hyper->found_inf != 0 || sizes[t] == 0) return;
  const long long chunks = (sizes[t] + CHUNK - 1) / CHUNK;
  const float2* const own = squares + first_chunk(offset, t);
  float2 sum = {0.0f, 0.0f};
  for (long long i = threadIdx.x; i < chunks; i += BLOCK) {
    sum.x += own[i].x;
    sum.y += own[i].y;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) ratio[t] = sum.x > 0.0f && sum.y > 0.0f ? sqrtf(sum.x) / sqrtf(sum.y) : 1.0f;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    step(float* const* __restrict__ param, const float* const* __restrict__ exp_avg,
         const float* const* __restrict__ exp_avg_sq, const long long* __restrict__ sizes,
         const long long* __restrict__ offset, long long tensors, const Hyper* __restrict__ hyper,
         const float* __restrict__ ratio) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const Piece piece = piece_of(sizes, offset, tensors, blockIdx.x);
  if (piece.count == 0) return;
  const Scalars s = scalars_of(h);
  const float rate = h.lr * ratio[piece.tensor];
  float* const p = param[piece.tensor] + piece.first;
  const float* const m = exp_avg[piece.tensor] + piece.first;
  const float* const v = exp_avg_sq[piece.tensor] + piece.first;
  const unsigned phase = phase16(p);
  const long long head = head_of(phase, phase == phase16(m) && phase == phase16(v), piece.count);
  const long long vectors = (piece.count - head) / 4;
  float4* const p4 = reinterpret_cast<float4*>(p + head);
  const float4* const m4 = reinterpret_cast<const float4*>(m + head);
  const float4* const v4 = reinterpret_cast<const float4*>(v + head);
#pragma unroll 2
  for (long long i = threadIdx.x; i < vectors; i += BLOCK) {
    float4 pp = p4[i];
    const float4 mm = m4[i], vv = v4[i];
    pp.x = fmaf(-rate, update_of(pp.x, mm.x, vv.x, s), pp.x);
    pp.y = fmaf(-rate, update_of(pp.y, mm.y, vv.y, s), pp.y);
    pp.z = fmaf(-rate, update_of(pp.z, mm.z, vv.z, s), pp.z);
    pp.w = fmaf(-rate, update_of(pp.w, mm.w, vv.w, s), pp.w);
    p4[i] = pp;
  }
  for (long long i = threadIdx.x; i < head; i += BLOCK) p[i] = fmaf(-rate, update_of(p[i], m[i], v[i], s), p[i]);
  for (long long i = head + vectors * 4 + threadIdx.x; i < piece.count; i += BLOCK)
    p[i] = fmaf(-rate, update_of(p[i], m[i], v[i], s), p[i]);
}
