/*stepbench
{ "task": "adagrad", "note": "one element per thread and turn, in the order of the task's text",
  "defines": {"BLOCK": 256},
  "launches": [
    {"for": "tensor", "kernel": "adagrad_step", "grid": "min(ceil_div(n, BLOCK), sms*16)", "block": "BLOCK",
     "args": ["param", "grad", "state_sum", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void adagrad_step(float* __restrict__ param, const float* __restrict__ grad,
                                        float* __restrict__ state_sum, long long n, const Hyper* __restrict__ hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    const float p = param[i];
    const float g = grad[i] / h.grad_scale + h.weight_decay * p;
    const float sum = state_sum[i] + g * g;
    param[i] = p - h.decayed_lr * (g / (sqrtf(sum) + h.eps));
    state_sum[i] = sum;
  }
}
