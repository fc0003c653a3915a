/*stepbench
{ "task": "adan", "note": "the order of the authors' code: two divisions by the denominator, then the shrinking",
  "launches": [
    {"for": "tensor", "kernel": "adan_step", "grid": "ceil_div(n, 512)", "block": "512",
     "args": ["param", "grad", "exp_avg", "exp_avg_diff", "exp_avg_sq", "prev_grad", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void adan_step(float* param, const float* grad, float* exp_avg, float* exp_avg_diff,
                                     float* exp_avg_sq, float* prev_grad, long long n, const Hyper* hyper) {
  const Hyper h = *hyper;
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || h.found_inf != 0) return;
  const float g = grad[i] / h.grad_scale;
  float diff = h.is_first_step != 0 ? 0.0f : g - prev_grad[i];
  const float m = exp_avg[i] + (1.0f - h.beta1) * (g - exp_avg[i]);
  const float d = exp_avg_diff[i] * h.beta2 + (1.0f - h.beta2) * diff;
  diff = diff * h.beta2 + g;
  const float v = exp_avg_sq[i] * h.beta3 + (1.0f - h.beta3) * (diff * diff);
  const float denominator = sqrtf(v) / sqrtf(h.bias_correction3) + h.eps;
  float p = param[i];
  p -= h.lr / h.bias_correction1 * (m / denominator);
  p -= h.lr * h.beta2 / h.bias_correction2 * (d / denominator);
  param[i] = p / (1.0f + h.lr * h.weight_decay);
  exp_avg[i] = m;
  exp_avg_diff[i] = d;
  exp_avg_sq[i] = v;
  prev_grad[i] = g;
}
