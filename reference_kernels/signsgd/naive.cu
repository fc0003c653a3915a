/*stepbench
{ "task": "signsgd", "note": "one element per thread and turn, in the order of the task's text",
  "defines": {"BLOCK": 256},
  "launches": [
    {"for": "tensor", "kernel": "signsgd_step", "grid": "min(ceil_div(n, BLOCK), sms*16)", "block": "BLOCK",
     "args": ["param", "grad", "exp_avg", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void signsgd_step(float* __restrict__ param, const float* __restrict__ grad,
                                        float* __restrict__ exp_avg, long long n, const Hyper* __restrict__ hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    const float p = param[i];
    const float g = grad[i] / h.grad_scale;
    const float m = h.beta * exp_avg[i] + (1.0f - h.beta) * g;
    const float sign = m > 0.0f ? 1.0f : m < 0.0f ? -1.0f : 0.0f;
    param[i] = p * (1.0f - h.lr * h.weight_decay) - h.lr * sign;
    exp_avg[i] = m;
  }
}
