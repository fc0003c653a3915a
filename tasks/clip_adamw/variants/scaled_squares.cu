/*stepbench
{ "task": "clip_adamw",
  "note": "gradients are divided by the largest before they are squared: no square overflows",
  "defines": {"BLOCK": 256, "PART": 4096},
  "scratch": {"most": "4 * max(sum(ceil_div(n, PART)), 1)", "partial": "4 * max(sum(ceil_div(n, PART)), 1)",
    "norm": "4"},
  "launches": [
    {"for": "tensor", "kernel": "scaled_squares", "grid": "ceil_div(n, PART)", "block": "BLOCK",
     "args": ["grad", "n", "hyper", "scratch.most + 4 * prefix(ceil_div(n, PART))",
              "scratch.partial + 4 * prefix(ceil_div(n, PART))"]},
    {"for": "step", "kernel": "add_up", "grid": "1", "block": "1",
     "args": ["scratch.most", "scratch.partial", "sum(ceil_div(n, PART))", "scratch.norm"]},
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

// The largest of the block's values, in all threads.
__device__ float block_max(float value) {
  __shared__ float values[BLOCK];
  values[threadIdx.x] = value;
  __syncthreads();
  for (int half = BLOCK / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) values[threadIdx.x] = fmaxf(values[threadIdx.x], values[threadIdx.x + half]);
    __syncthreads();
  }
  return values[0];
}

extern "C" __global__ void scaled_squares(const float* __restrict__ grad, long long n, const Hyper* __restrict__ hyper,
                                          float* __restrict__ most, float* __restrict__ partial) {
  const float scale = 1.0f / hyper->grad_scale;
  const long long first = (long long)blockIdx.x * PART;
  const long long end = first + PART < n ? first + PART : n;
  float largest = 0.0f;
  for (long long i = first + threadIdx.x; i < end; i += BLOCK) largest = fmaxf(largest, fabsf(grad[i] * scale));
  largest = block_max(largest);
  float sum = 0.0f;
  for (long long i = first + threadIdx.x; i < end && largest > 0.0f; i += BLOCK) {
    const float ratio = grad[i] * scale / largest;
    sum += ratio * ratio;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) {
    most[blockIdx.x] = largest;
    partial[blockIdx.x] = sum;
  }
}

extern "C" __global__ void add_up(const float* __restrict__ most, const float* __restrict__ partial, long long count,
                                  float* __restrict__ norm) {
  float largest = 0.0f;
  for (long long i = 0; i < count; ++i) largest = fmaxf(largest, most[i]);
  double sum = 0.0;
  for (long long i = 0; i < count && largest > 0.0f; ++i) {
    const double ratio = most[i] / largest;
    sum += partial[i] * ratio * ratio;
  }
  *norm = largest * (float)sqrt(sum);
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
    const float g = grad[i] / h.grad_scale * clip;
    const float m = h.beta1 * exp_avg[i] + (1.0f - h.beta1) * g;
    const float v = h.beta2 * exp_avg_sq[i] + (1.0f - h.beta2) * g * g;
    const float u = m / h.bias_correction1 / (sqrtf(v / h.bias_correction2) + h.eps) + h.weight_decay * p;
    param[i] = p - h.lr * u;
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
  }
}
