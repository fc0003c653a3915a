/*stepbench
{ "task": "signsgd", "note": "sign as a difference of two comparisons, the scale within the weight, Hyper by value",
  "launches": [
    {"for": "tensor", "kernel": "signsgd_step", "grid": "ceil_div(n, 256)", "block": "256",
     "args": ["param", "grad", "exp_avg", "n", "hyper.value"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void signsgd_step(float* param, const float* grad, float* exp_avg, long long n, Hyper h) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || h.found_inf != 0) return;
  // The weight of the gradient holds its scale as well: a power of two, so nothing is rounded twice.
  const float weight = (1.0f - h.beta) / h.grad_scale;
  const float m = fmaf(h.beta, exp_avg[i], weight * grad[i]);
  const float sign = (float)((int)(m > 0.0f) - (int)(m < 0.0f));
  exp_avg[i] = m;
  param[i] = fmaf(-h.lr, fmaf(h.weight_decay, param[i], sign), param[i]);
}
