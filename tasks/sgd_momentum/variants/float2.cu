/*stepbench
{ "task": "sgd_momentum", "note": "two elements per thread; the odd one at the end by itself",
  "defines": {"BLOCK": 128},
  "launches": [
    {"for": "tensor", "kernel": "sgd_step", "grid": "ceil_div(ceil_div(n, 2), BLOCK)", "block": "BLOCK",
     "args": ["param", "grad", "momentum_buffer", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

__device__ void update(float& p, float g, float& b, const Hyper& h) {
  g = g / h.grad_scale + h.weight_decay * p;
  b = h.is_first_step != 0 ? g : h.momentum * b + (1.0f - h.dampening) * g;
  p -= h.lr * (h.nesterov != 0 ? g + h.momentum * b : b);
}

extern "C" __global__ void sgd_step(float* param, const float* grad, float* momentum_buffer, long long n,
                                    const Hyper* hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const unsigned long long bits = reinterpret_cast<unsigned long long>(param) |
                                  reinterpret_cast<unsigned long long>(grad) |
                                  reinterpret_cast<unsigned long long>(momentum_buffer);
  const long long i = 2 * ((long long)blockIdx.x * BLOCK + threadIdx.x);
  if ((bits & 7) == 0 && i + 1 < n) {
    float2 p = *reinterpret_cast<float2*>(param + i);
    const float2 g = *reinterpret_cast<const float2*>(grad + i);
    float2 b = *reinterpret_cast<float2*>(momentum_buffer + i);
    update(p.x, g.x, b.x, h);
    update(p.y, g.y, b.y, h);
    *reinterpret_cast<float2*>(param + i) = p;
    *reinterpret_cast<float2*>(momentum_buffer + i) = b;
    return;
  }
  for (long long k = i; k < n && k < i + 2; ++k) update(param[k], grad[k], momentum_buffer[k], h);
}
