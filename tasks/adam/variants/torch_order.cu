/*stepbench
{ "task": "adam", "note": "PyTorch's loop form: m by lerp, corrected root, step size in front",
  "launches": [
    {"for": "tensor", "kernel": "adam_step", "grid": "ceil_div(n, 512)", "block": "512",
     "args": ["param", "grad", "exp_avg", "exp_avg_sq", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void adam_step(float* param, const float* grad, float* exp_avg, float* exp_avg_sq, long long n,
                                     const Hyper* hyper) {
  const Hyper h = *hyper;
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || h.found_inf != 0) return;
  const float g = grad[i] / h.grad_scale + h.weight_decay * param[i];
  const float m = exp_avg[i] + (1.0f - h.beta1) * (g - exp_avg[i]);
  const float v = exp_avg_sq[i] * h.beta2 + (1.0f - h.beta2) * (g * g);
  param[i] -= h.step_size * (m / (sqrtf(v) / h.bias_correction2_sqrt + h.eps));
  exp_avg[i] = m;
  exp_avg_sq[i] = v;
}
