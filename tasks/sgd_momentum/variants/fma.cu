/*stepbench
{ "task": "sgd_momentum", "note": "one FMA per term, scale by its reciprocal",
  "launches": [
    {"for": "tensor", "kernel": "sgd_step", "grid": "ceil_div(n, 256)", "block": "256",
     "args": ["param", "grad", "momentum_buffer", "n", "hyper.value"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void sgd_step(float* param, const float* grad, float* momentum_buffer, long long n, Hyper h) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || h.found_inf != 0) return;
  const float g = fmaf(h.weight_decay, param[i], grad[i] * (1.0f / h.grad_scale));
  const float b = h.is_first_step ? g : fmaf(h.momentum, momentum_buffer[i], (1.0f - h.dampening) * g);
  momentum_buffer[i] = b;
  param[i] = fmaf(-h.lr, h.nesterov ? fmaf(h.momentum, b, g) : b, param[i]);
}
