/*stepbench
{ "task": "rmsprop", "note": "the variance as (root - mean) * (root + mean), which rounds elsewhere; Hyper by value",
  "launches": [
    {"for": "tensor", "kernel": "rmsprop_step", "grid": "ceil_div(n, 256)", "block": "256",
     "args": ["param", "grad", "square_avg", "grad_avg", "momentum_buffer", "n", "hyper.value"]}
  ] }
*/
#include <stepbench.cuh>

// start + weight * (end - start), exact at both ends
__device__ float lerp(float start, float end, float weight) { return fmaf(weight, end, fmaf(-weight, start, start)); }

extern "C" __global__ void rmsprop_step(float* param, const float* grad, float* square_avg, float* grad_avg,
                                        float* momentum_buffer, long long n, Hyper h) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || h.found_inf != 0) return;
  const float w = 1.0f - h.alpha;
  const float g = fmaf(h.weight_decay, param[i], grad[i] * (1.0f / h.grad_scale));
  const float q = lerp(square_avg[i], g * g, w);
  const float a = lerp(grad_avg[i], g, w);
  const float root = sqrtf(q);
  const float variance = fmaxf((root - a) * (root + a), 0.0f);
  const float b = fmaf(h.momentum, momentum_buffer[i], __fdividef(g, sqrtf(variance) + h.eps));
  square_avg[i] = q;
  grad_avg[i] = a;
  momentum_buffer[i] = b;
  param[i] = fmaf(-h.lr, b, param[i]);
}
