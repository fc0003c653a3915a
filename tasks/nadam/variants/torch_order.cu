/*stepbench
{ "task": "nadam", "note": "PyTorch's order: two divisions by the denominator, decay by a factor first",
  "launches": [
    {"for": "tensor", "kernel": "nadam_step", "grid": "ceil_div(n, 512)", "block": "512",
     "args": ["param", "grad", "exp_avg", "exp_avg_sq", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void nadam_step(float* param, const float* grad, float* exp_avg, float* exp_avg_sq, long long n,
                                      const Hyper* hyper) {
  const Hyper h = *hyper;
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || h.found_inf != 0) return;
  float p = param[i], g = grad[i] / h.grad_scale;
  if (h.decoupled_weight_decay != 0)
    p *= 1.0f - h.lr * h.weight_decay;
  else
    g += h.l2_decay * p;
  const float m = exp_avg[i] + (1.0f - h.beta1) * (g - exp_avg[i]);
  const float v = exp_avg_sq[i] * h.beta2 + (1.0f - h.beta2) * (g * g);
  const float denominator = sqrtf(v / h.bias_correction2) + h.eps;
  p -= h.lr * (1.0f - h.mu) / (1.0f - h.mu_product) * (g / denominator);
  p -= h.lr * h.mu_next / (1.0f - h.mu_product * h.mu_next) * (m / denominator);
  param[i] = p;
  exp_avg[i] = m;
  exp_avg_sq[i] = v;
}
