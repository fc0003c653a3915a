/*stepbench
{ "task": "adagrad", "note": "one reciprocal in place of the division, Hyper by value",
  "launches": [
    {"for": "tensor", "kernel": "adagrad_step", "grid": "ceil_div(n, 256)", "block": "256",
     "args": ["param", "grad", "state_sum", "n", "hyper.value"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void adagrad_step(float* param, const float* grad, float* state_sum, long long n, Hyper h) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || h.found_inf != 0) return;
  const float g = fmaf(h.weight_decay, param[i], grad[i] * (1.0f / h.grad_scale));
  const float sum = fmaf(g, g, state_sum[i]);
  state_sum[i] = sum;
  param[i] = fmaf(-h.decayed_lr * __frcp_rn(__fsqrt_rn(sum) + h.eps), g, param[i]);
}
