/*stepbench
{ "task": "lamb",
  "note": "u is kept in scratch between the two passes, bias corrections by powf",
  "defines": {"BLOCK": 256, "PART": 4096},
  "scratch": {"squares": "8 * max(sum(ceil_div(n, PART)), 1)", "ratio": "4 * tensors", "update": "4 * max(total, 1)"},
  "launches": [
    {"for": "tensor", "kernel": "moments", "grid": "ceil_div(n, PART)", "block": "BLOCK",
     "args": ["param", "grad", "exp_avg", "exp_avg_sq", "n", "hyper",
              "scratch.squares + 8 * prefix(ceil_div(n, PART))", "scratch.update + 4 * prefix(n)"]},
    {"for": "tensor", "kernel": "trust_ratio", "grid": "min(n, 1)", "block": "BLOCK",
     "args": ["scratch.squares + 8 * prefix(ceil_div(n, PART))", "ceil_div(n, PART)", "hyper",
              "scratch.ratio + 4 * index"]},
    {"for": "tensor", "kernel": "step", "grid": "ceil_div(n, BLOCK)", "block": "BLOCK",
     "args": ["param", "scratch.update + 4 * prefix(n)", "n", "hyper", "scratch.ratio + 4 * index"]}
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
  const float t = (float)h.step;
  return m / (1.0f - powf(h.beta1, t)) / (sqrtf(v / (1.0f - powf(h.beta2, t))) + h.eps) + h.weight_decay * p;
}

extern "C" __global__ void moments(const float* __restrict__ param, const float* __restrict__ grad,
                                   float* __restrict__ exp_avg, float* __restrict__ exp_avg_sq, long long n,
                                   const Hyper* __restrict__ hyper, float2* __restrict__ squares,
                                   float* __restrict__ update) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const long long first = (long long)blockIdx.x * PART;
  const long long end = first + PART < n ? first + PART : n;
  float param_squares = 0.0f, update_squares = 0.0f;
  for (long long i = first + threadIdx.x; i < end; i += BLOCK) {
    const float p = param[i];
    const float g = grad[i] / h.grad_scale;
    const float m = h.beta1 * exp_avg[i] + (1.0f - h.beta1) * g;
    const float v = h.beta2 * exp_avg_sq[i] + (1.0f - h.beta2) * g * g;
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
    const float u = update_of(p, m, v, h);
    update[i] = u;
    param_squares += p * p;
    update_squares += u * u;
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

extern "C" __global__ void step(float* __restrict__ param, const float* __restrict__ update, long long n,
                                const Hyper* __restrict__ hyper, const float* __restrict__ ratio) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const long long i = (long long)blockIdx.x * BLOCK + threadIdx.x;
  if (i < n) param[i] -= h.lr * *ratio * update[i];
}
