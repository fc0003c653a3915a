/*stepbench
{ "task": "lion", "note": "one element per thread and turn, in the order of the task's text",
  "defines": {"BLOCK": 256},
  "launches": [
    {"for": "tensor", "kernel": "lion_step", "grid": "min(ceil_div(n, BLOCK), sms*16)", "block": "BLOCK",
     "args": ["param", "grad", "exp_avg", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void lion_step(float* __restrict__ param, const float* __restrict__ grad,
                                     float* __restrict__ exp_avg, long long n, const Hyper* __restrict__ hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    const float p = param[i];
    const float m = exp_avg[i];
    const float g = grad[i] / h.grad_scale;
    const float c = h.beta1 * m + (1.0f - h.beta1) * g;
    const float sign = c > 0.0f ? 1.0f : c < 0.0f ? -1.0f : 0.0f;
    param[i] = p - h.lr * (sign + h.weight_decay * p);
    exp_avg[i] = h.beta2 * m + (1.0f - h.beta2) * g;
  }
}
