/*stepbench
{ "task": "lamb",
  "note": "every operation rounded by itself, parts of 1024",
  "defines": {"BLOCK": 256, "PART": 1024},
  "scratch": {"squares": "8 * max(sum(ceil_div(n, PART)), 1)", "ratio": "4 * tensors"},
  "launches": [
    {"for": "tensor", "kernel": "moments", "grid": "ceil_div(n, PART)", "block": "BLOCK",
     "args": ["param", "grad", "exp_avg", "exp_avg_sq", "n", "hyper",
              "scratch.squares + 8 * prefix(ceil_div(n, PART))"]},
    {"for": "tensor", "kernel": "trust_ratio", "grid": "min(n, 1)", "block": "BLOCK",
     "args": ["scratch.squares + 8 * prefix(ceil_div(n, PART))", "ceil_div(n, PART)", "hyper",
              "scratch.ratio + 4 * index"]},
    {"for": "tensor", "kernel": "step", "grid": "ceil_div(n, BLOCK)", "block": "BLOCK",
     "args": ["param", "exp_avg", "exp_avg_sq", "n", "hyper", "scratch.ratio + 4 * index"]}
  ] }
*/
#include <stepbench.cuh>

// The sum of the block's values, in thread 0. Always added in the same order.
__device__ float block_sum(float value) {
  __shared__ float values[BLOCK];
  __syncthreads();  // the values of the call before have been read
  values[threadIdx.x] = value;
  __syncthreads();
  for (int half = BLOCK / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) values[threadIdx.x] += values[threadIdx.x + half];
    __syncthreads();
  }
  return values[0];
}

// The update before the trust ratio, from the new moments.
__device__ float update_of(float p, float m, float v, const Hyper& h) {
  const float denominator = __fadd_rn(__fsqrt_rn(__fdiv_rn(v, h.bias_correction2)), h.eps);
  return __fadd_rn(__fdiv_rn(__fdiv_rn(m, h.bias_correction1), denominator), __fmul_rn(h.weight_decay, p));
}

extern "C" __global__ void moments(const float* __restrict__ param, const float* __restrict__ grad,
                                   float* __restrict__ exp_avg, float* __restrict__ exp_avg_sq, long long n,
                                   const Hyper* __restrict__ hyper, float2* __restrict__ squares) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const long long first = (long long)blockIdx.x * PART;
  const long long end = first + PART < n ? first + PART : n;
  float param_squares = 0.0f, update_squares = 0.0f;
  for (long long i = first + threadIdx.x; i < end; i += BLOCK) {
    const float p = param[i];
    const float g = grad[i] / h.grad_scale;
    const float m = __fadd_rn(__fmul_rn(h.beta1, exp_avg[i]), __fmul_rn(1.0f - h.beta1, g));
    const float v = __fadd_rn(__fmul_rn(h.beta2, exp_avg_sq[i]), __fmul_rn(__fmul_rn(1.0f - h.beta2, g), g));
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
    const float u = update_of(p, m, v, h);
    param_squares = __fadd_rn(param_squares, __fmul_rn(p, p));
    update_squares = __fadd_rn(update_squares, __fmul_rn(u, u));
  }
  param_squares = block_sum(param_squares);
  update_squares = block_sum(update_squares);
  if (threadIdx.x == 0) squares[blockIdx.x] = make_float2(param_squares, update_squares);
}

extern "C" __global__ void trust_ratio(const float2* __restrict__ squares, long long parts,
                                       const Hyper* __restrict__ hyper, float* __restrict__ ratio) {
  if (hyper->found_inf != 0) return;
  float param_squares = 0.0f, update_squares = 0.0f;
  for (long long i = threadIdx.x; i < parts; i += BLOCK) {
    param_squares += squares[i].x;
    update_squares += squares[i].y;
  }
  param_squares = block_sum(param_squares);
  update_squares = block_sum(update_squares);
  if (threadIdx.x == 0) {
    const float param_norm = sqrtf(param_squares), update_norm = sqrtf(update_squares);
    *ratio = param_norm > 0.0f && update_norm > 0.0f ? param_norm / update_norm : 1.0f;
  }
}

extern "C" __global__ void step(float* __restrict__ param, const float* __restrict__ exp_avg,
                                const float* __restrict__ exp_avg_sq, long long n, const Hyper* __restrict__ hyper,
                                const float* __restrict__ ratio) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const long long i = (long long)blockIdx.x * BLOCK + threadIdx.x;
  if (i >= n) return;
  const float p = param[i];
  param[i] = __fsub_rn(p, __fmul_rn(__fmul_rn(h.lr, *ratio), update_of(p, exp_avg[i], exp_avg_sq[i], h)));
}
