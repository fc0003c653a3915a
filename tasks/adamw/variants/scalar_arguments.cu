/*stepbench
{ "task": "adamw", "note": "hyperparameters as separate arguments by value, a template instance as the kernel",
  "launches": [
    {"for": "tensor", "kernel": "adamw_step<64>", "grid": "ceil_div(n, 64)", "block": "64",
     "args": ["param", "grad", "exp_avg", "exp_avg_sq", "n", "lr", "beta1", "beta2", "eps", "weight_decay", "step_size",
              "bias_correction2_sqrt", "grad_scale", "found_inf"]}
  ] }
*/
template <int kBlock>
__global__ void adamw_step(float* param, const float* grad, float* exp_avg, float* exp_avg_sq, long long n, float lr,
                           float beta1, float beta2, float eps, float weight_decay, float step_size,
                           float bias_correction2_sqrt, float grad_scale, int found_inf) {
  const long long i = (long long)blockIdx.x * kBlock + threadIdx.x;
  if (i >= n || found_inf != 0) return;
  const float g = grad[i] / grad_scale;
  const float m = beta1 * exp_avg[i] + (1.0f - beta1) * g;
  const float v = beta2 * exp_avg_sq[i] + (1.0f - beta2) * g * g;
  exp_avg[i] = m;
  exp_avg_sq[i] = v;
  param[i] -= lr * weight_decay * param[i] + step_size * m / (sqrtf(v) / bias_correction2_sqrt + eps);
}
