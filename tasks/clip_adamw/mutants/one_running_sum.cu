/*stepbench
{ "task": "clip_adamw",
  "note": "one thread adds all squares, in fp32 and in order",
  "defines": {"BLOCK": 256},
  "scratch": {"norm": "4"},
  "launches": [
    {"for": "step", "kernel": "sum_squares", "grid": "1", "block": "1",
     "args": ["grad[]", "n[]", "tensors", "hyper", "scratch.norm"]},
    {"for": "tensor", "kernel": "adamw_step", "grid": "min(ceil_div(n, BLOCK), sms*16)", "block": "BLOCK",
     "args": ["param", "grad", "exp_avg", "exp_avg_sq", "n", "hyper", "scratch.norm"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void sum_squares(const float* const* __restrict__ grad, const long long* __restrict__ sizes,
                                       long long tensors, const Hyper* __restrict__ hyper, float* __restrict__ norm) {
  const Hyper h = *hyper;
  float sum = 0.0f;
  for (long long t = 0; t < tensors; ++t)
    for (long long i = 0; i < sizes[t]; ++i) {
      const float g = grad[t][i] / h.grad_scale;
      sum += g * g;
    }
  *norm = sqrtf(sum);
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
