/*stepbench
{ "task": "clip_adamw",
  "note": "norm of the norms of tensors, as torch; division by max(1, (norm + 1e-6) / max_norm)",
  "defines": {"BLOCK": 1024},
  "scratch": {"norms": "4 * tensors", "norm": "4"},
  "launches": [
    {"for": "tensor", "kernel": "tensor_norm", "grid": "min(n, 1)", "block": "BLOCK",
     "args": ["grad", "n", "hyper", "scratch.norms + 4 * index"]},
    {"for": "step", "kernel": "norm_of_norms", "grid": "1", "block": "BLOCK",
     "args": ["scratch.norms", "n[]", "tensors", "scratch.norm"]},
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

extern "C" __global__ void tensor_norm(const float* __restrict__ grad, long long n, const Hyper* __restrict__ hyper,
                                       float* __restrict__ norm) {
  const float scale = 1.0f / hyper->grad_scale;
  float sum = 0.0f;
  for (long long first = threadIdx.x; first < n; first += 64 * BLOCK) {
    float part = 0.0f;  // two levels: a thousand equal squares in a row would be rounded in the same direction
    for (long long i = first; i < n && i < first + 64 * BLOCK; i += BLOCK)
      part = fmaf(grad[i] * scale, grad[i] * scale, part);
    sum += part;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) *norm = sqrtf(sum);
}

extern "C" __global__ void norm_of_norms(const float* __restrict__ norms, const long long* __restrict__ sizes,
                                         long long tensors, float* __restrict__ norm) {
  float sum = 0.0f;
  for (long long t = threadIdx.x; t < tensors; t += BLOCK)
    if (sizes[t] > 0) sum += norms[t] * norms[t];  // nothing was launched for an empty one
  sum = block_sum(sum);
  if (threadIdx.x == 0) *norm = sqrtf(sum);
}

extern "C" __global__ void adamw_step(float* __restrict__ param, const float* __restrict__ grad,
                                      float* __restrict__ exp_avg, float* __restrict__ exp_avg_sq, long long n,
                                      const Hyper* __restrict__ hyper, const float* __restrict__ norm) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const float divisor = fmaxf(1.0f, (*norm + 1e-6f) / h.max_norm);
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    const float p = param[i];
    const float g = grad[i] / h.grad_scale / divisor;
    const float m = h.beta1 * exp_avg[i] + (1.0f - h.beta1) * g;
    const float v = h.beta2 * exp_avg_sq[i] + (1.0f - h.beta2) * g * g;
    const float u = m / h.bias_correction1 / (sqrtf(v / h.bias_correction2) + h.eps) + h.weight_decay * p;
    param[i] = p - h.lr * u;
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
  }
}
