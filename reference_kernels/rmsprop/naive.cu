/*stepbench
{ "task": "rmsprop", "note": "one element per thread and turn, in the order of the task's text",
  "defines": {"BLOCK": 256},
  "launches": [
    {"for": "tensor", "kernel": "rmsprop_step", "grid": "min(ceil_div(n, BLOCK), sms*16)", "block": "BLOCK",
     "args": ["param", "grad", "square_avg", "grad_avg", "momentum_buffer", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void rmsprop_step(float* __restrict__ param, const float* __restrict__ grad,
                                        float* __restrict__ square_avg, float* __restrict__ grad_avg,
                                        float* __restrict__ momentum_buffer, long long n,
                                        const Hyper* __restrict__ hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    const float p = param[i];
    const float g = grad[i] / h.grad_scale + h.weight_decay * p;
    const float q = h.alpha * square_avg[i] + (1.0f - h.alpha) * g * g;
    const float a = h.alpha * grad_avg[i] + (1.0f - h.alpha) * g;
    const float denominator = sqrtf(fmaxf(q - a * a, 0.0f)) + h.eps;
    const float b = h.momentum * momentum_buffer[i] + g / denominator;
    param[i] = p - h.lr * b;
    square_avg[i] = q;
    grad_avg[i] = a;
    momentum_buffer[i] = b;
  }
}
