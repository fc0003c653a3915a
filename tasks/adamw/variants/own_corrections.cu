/*stepbench
{ "task": "adamw", "note": "computes the bias corrections itself with powf, as PyTorch's fused kernel does",
  "launches": [
    {"for": "tensor", "kernel": "adamw_step", "grid": "ceil_div(n, 256)", "block": "256",
     "args": ["param", "grad", "exp_avg", "exp_avg_sq", "n", "hyper.value"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void adamw_step(float* param, const float* grad, float* exp_avg, float* exp_avg_sq, long long n,
                                      Hyper h) {
  if (h.found_inf != 0) return;
  const float bias_correction1 = 1.0f - powf(h.beta1, (float)h.step);
  const float root_correction2 = sqrtf(1.0f - powf(h.beta2, (float)h.step));
  const float step_size = h.lr / bias_correction1;
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    const float g = grad[i] / h.grad_scale;
    const float m = fmaf(1.0f - h.beta1, g - exp_avg[i], exp_avg[i]);
    const float v = fmaf(1.0f - h.beta2, g * g - exp_avg_sq[i], exp_avg_sq[i]);
    float p = param[i];
    p -= h.lr * h.weight_decay * p;
    p -= step_size * m / (sqrtf(v) / root_correction2 + h.eps);
    param[i] = p;
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
  }
}
