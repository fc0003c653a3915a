/*stepbench
{ "task": "clip_adamw",
  "note": "every operation rounded by itself, parts of 1024",
  "defines": {"BLOCK": 256, "PART": 1024},
  "scratch": {"partial": "4 * max(sum(ceil_div(n, PART)), 1)", "norm": "4"},
  "launches": [
    {"for": "tensor", "kernel": "sum_squares", "grid": "ceil_div(n, PART)", "block": "BLOCK",
     "args": ["grad", "n", "hyper", "scratch.partial + 4 * prefix(ceil_div(n, PART))"]},
    {"for": "step", "kernel": "add_up", "grid": "1", "block": "BLOCK",
     "args": ["scratch.partial", "sum(ceil_div(n, PART))", "scratch.norm"]},
    {"for": "tensor", "kernel": "adamw_step", "grid": "min(ceil_div(n, BLOCK), sms*16)", "block": "BLOCK",
     "args": ["param", "grad", "exp_avg", "exp_avg_sq", "n", "hyper", "scratch.norm"]}
  ] }
*/
#include <stepbench.cuh>

// The sum of the block's values, in thread 0. Always added in the same order.
__device__ float block_sum(float value) {
  __shared__ float values[BLOCK];
  values[threadIdx.x] = value;
  __syncthreads();
  for (int half = BLOCK / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) values[threadIdx.x] += values[threadIdx.x + half];
    __syncthreads();
  }
  return values[0];
}

extern "C" __global__ void sum_squares(const float* __restrict__ grad, long long n, const Hyper* __restrict__ hyper,
                                       float* __restrict__ partial) {
  const Hyper h = *hyper;
  const long long first = (long long)blockIdx.x * PART;
  const long long end = first + PART < n ? first + PART : n;
  float sum = 0.0f;
  for (long long i = first + threadIdx.x; i < end; i += BLOCK) {
    const float g = grad[i] / h.grad_scale;
    sum = __fadd_rn(sum, __fmul_rn(g, g));
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

extern "C" __global__ void add_up(const float* __restrict__ partial, long long count, float* __restrict__ norm) {
  float sum = 0.0f;
  for (long long i = threadIdx.x; i < count; i += BLOCK) sum += partial[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *norm = sqrtf(sum);
}

extern "C" __global__ void adamw_step(float* __restrict__ param, const float* __restrict__ grad,
                                      float* __restrict__ exp_avg, float* __restrict__ exp_avg_sq, long long n,
                                      const Hyper* __restrict__ hyper, const float* __restrict__ norm) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const float clip = fminf(1.0f, h.max_norm / (*norm + 1e-6f));
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    const float p = param[i];
    const float g = __fmul_rn(__fdiv_rn(grad[i], h.grad_scale), clip);
    const float m = __fadd_rn(__fmul_rn(h.beta1, exp_avg[i]), __fmul_rn(1.0f - h.beta1, g));
    const float v = __fadd_rn(__fmul_rn(h.beta2, exp_avg_sq[i]), __fmul_rn(__fmul_rn(1.0f - h.beta2, g), g));
    const float denominator = __fadd_rn(__fsqrt_rn(__fdiv_rn(v, h.bias_correction2)), h.eps);
    const float u = __fadd_rn(__fdiv_rn(__fdiv_rn(m, h.bias_correction1), denominator), __fmul_rn(h.weight_decay, p));
    param[i] = __fsub_rn(p, __fmul_rn(h.lr, u));
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
  }
}
