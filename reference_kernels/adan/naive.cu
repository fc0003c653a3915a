/*stepbench
{ "task": "adan", "note": "one element per thread and turn, in the order of the task's text",
  "defines": {"BLOCK": 256},
  "launches": [
    {"for": "tensor", "kernel": "adan_step", "grid": "min(ceil_div(n, BLOCK), sms*16)", "block": "BLOCK",
     "args": ["param", "grad", "exp_avg", "exp_avg_diff", "exp_avg_sq", "prev_grad", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void adan_step(float* __restrict__ param, const float* __restrict__ grad,
                                     float* __restrict__ exp_avg, float* __restrict__ exp_avg_diff,
                                     float* __restrict__ exp_avg_sq, float* __restrict__ prev_grad, long long n,
                                     const Hyper* __restrict__ hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    const float p = param[i];
    const float g = grad[i] / h.grad_scale;
    const float diff = h.is_first_step != 0 ? 0.0f : g - prev_grad[i];
    const float m = h.beta1 * exp_avg[i] + (1.0f - h.beta1) * g;
    const float d = h.beta2 * exp_avg_diff[i] + (1.0f - h.beta2) * diff;
    const float k = g + h.beta2 * diff;
    const float v = h.beta3 * exp_avg_sq[i] + (1.0f - h.beta3) * k * k;
    const float denominator = sqrtf(v / h.bias_correction3) + h.eps;
    const float u = (m / h.bias_correction1 + h.beta2 * d / h.bias_correction2) / denominator;
    param[i] = (p - h.lr * u) / (1.0f + h.lr * h.weight_decay);
    exp_avg[i] = m;
    exp_avg_diff[i] = d;
    exp_avg_sq[i] = v;
    prev_grad[i] = g;
  }
}
