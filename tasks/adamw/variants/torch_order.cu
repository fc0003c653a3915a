/*stepbench
{ "task": "adamw", "note": "PyTorch's loop form: decay first by a factor, m by lerp, corrected root",
  "launches": [
    {"for": "tensor", "kernel": "adamw_step", "grid": "ceil_div(n, 512)", "block": "512",
     "args": ["param", "grad", "exp_avg", "exp_avg_sq", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void adamw_step(float* param, const float* grad, float* exp_avg, float* exp_avg_sq, long long n,
                                      const Hyper* hyper) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || hyper->found_inf != 0) return;
  const float g = grad[i] / hyper->grad_scale;
  float p = param[i] * (1.0f - hyper->lr * hyper->weight_decay);
  const float m = exp_avg[i] + (1.0f - hyper->beta1) * (g - exp_avg[i]);
  const float v = exp_avg_sq[i] * hyper->beta2 + (1.0f - hyper->beta2) * (g * g);
  const float denominator = sqrtf(v) / hyper->bias_correction2_sqrt + hyper->eps;
  p -= hyper->step_size * (m / denominator);
  param[i] = p;
  exp_avg[i] = m;
  exp_avg_sq[i] = v;
}
