/*stepbench
{ "task": "sgd_momentum", "note": "one element per thread and turn, in the order of the task's text",
  "defines": {"BLOCK": 256},
  "launches": [
    {"for": "tensor", "kernel": "sgd_step", "grid": "min(ceil_div(n, BLOCK), sms*16)", "block": "BLOCK",
     "args": ["param", "grad", "momentum_buffer", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void sgd_step(float* __restrict__ param, const float* __restrict__ grad,
                                    float* __restrict__ momentum_buffer, long long n,
                                    const Hyper* __restrict__ hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    const float p = param[i];
    const float g = grad[i] / h.grad_scale + h.weight_decay * p;
    const float b = h.is_first_step != 0 ? g : h.momentum * momentum_buffer[i] + (1.0f - h.dampening) * g;
    const float u = h.nesterov != 0 ? g + h.momentum * b : b;
    param[i] = p - h.lr * u;
    momentum_buffer[i] = b;
  }
}
