/*stepbench
{ "task": "rmsprop", "note": "PyTorch's order: the mean by lerp, the square by two products",
  "launches": [
    {"for": "tensor", "kernel": "rmsprop_step", "grid": "ceil_div(n, 512)", "block": "512",
     "args": ["param", "grad", "square_avg", "grad_avg", "momentum_buffer", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void rmsprop_step(float* param, const float* grad, float* square_avg, float* grad_avg,
                                        float* momentum_buffer, long long n, const Hyper* hyper) {
  const Hyper h = *hyper;
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || h.found_inf != 0) return;
  const float g = grad[i] / h.grad_scale + h.weight_decay * param[i];
  const float q = square_avg[i] * h.alpha + (1.0f - h.alpha) * (g * g);
  const float a = grad_avg[i] + (1.0f - h.alpha) * (g - grad_avg[i]);
  const float b = momentum_buffer[i] * h.momentum + g / (sqrtf(fmaxf(q - a * a, 0.0f)) + h.eps);
  square_avg[i] = q;
  grad_avg[i] = a;
  momentum_buffer[i] = b;
  param[i] -= h.lr * b;
}
