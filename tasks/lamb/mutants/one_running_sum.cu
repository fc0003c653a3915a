/*stepbench
{ "task": "lamb",
  "note": "one thread adds all squares of a tensor, in fp32 and in order",
  "defines": {"BLOCK": 256},
  "scratch": {"ratio": "4 * tensors"},
  "launches": [
    {"for": "tensor", "kernel": "moments", "grid": "ceil_div(n, BLOCK)", "block": "BLOCK",
     "args": ["grad", "exp_avg", "exp_avg_sq", "n", "hyper"]},
    {"for": "tensor", "kernel": "trust_ratio", "grid": "min(n, 1)", "block": "1",
     "args": ["param", "exp_avg", "exp_avg_sq", "n", "hyper", "scratch.ratio + 4 * index"]},
    {"for": "tensor", "kernel": "step", "grid": "ceil_div(n, BLOCK)", "block": "BLOCK",
     "args": ["param", "exp_avg", "exp_avg_sq", "n", "hyper", "scratch.ratio + 4 * index"]}
  ] }
*/
#include <stepbench.cuh>

// The update before the trust ratio, from the new moments.
__device__ float update_of(float p, float m, float v, const Hyper& h) {
  return m / h.bias_correction1 / (sqrtf(v / h.bias_correction2) + h.eps) + h.weight_decay * p;
}

extern "C" __global__ void moments(const float* __restrict__ grad, float* __restrict__ exp_avg,
                                   float* __restrict__ exp_avg_sq, long long n, const Hyper* __restrict__ hyper) {
  const Hyper h = *hyper;
  const long long i = (long long)blockIdx.x * BLOCK + threadIdx.x;
  if (i >= n || h.found_inf != 0) return;
  const float g = grad[i] / h.grad_scale;
  exp_avg[i] = h.beta1 * exp_avg[i] + (1.0f - h.beta1) * g;
  exp_avg_sq[i] = h.beta2 * exp_avg_sq[i] + (1.0f - h.beta2) * g * g;
}

extern "C" __global__ void trust_ratio(const float* __restrict__ param, const float* __restrict__ exp_avg,
                                       const float* __restrict__ exp_avg_sq, long long n,
                                       const Hyper* __restrict__ hyper, float* __restrict__ ratio) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  float param_squares = 0.0f, update_squares = 0.0f;
  for (long long i = 0; i < n; ++i) {
    const float p = param[i], u = update_of(p, exp_avg[i], exp_avg_sq[i], h);
    param_squares += p * p;
    update_squares += u * u;
  }
  const float param_norm = sqrtf(param_squares), update_norm = sqrtf(update_squares);
  *ratio = param_norm > 0.0f && update_norm > 0.0f ? param_norm / update_norm : 1.0f;
}

extern "C" __global__ void step(float* __restrict__ param, const float* __restrict__ exp_avg,
                                const float* __restrict__ exp_avg_sq, long long n, const Hyper* __restrict__ hyper,
                                const float* __restrict__ ratio) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const long long i = (long long)blockIdx.x * BLOCK + threadIdx.x;
  if (i >= n) return;
  const float p = param[i];
  param[i] = p - h.lr * *ratio * update_of(p, exp_avg[i], exp_avg_sq[i], h);
}
