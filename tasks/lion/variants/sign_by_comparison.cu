/*stepbench
{ "task": "lion", "note": "the sign as a difference of two comparisons, lerp by two FMAs, Hyper by value",
  "launches": [
    {"for": "tensor", "kernel": "lion_step", "grid": "ceil_div(n, 256)", "block": "256",
     "args": ["param", "grad", "exp_avg", "n", "hyper.value"]}
  ] }
*/
#include <stepbench.cuh>

// start + weight * (end - start), exact at both ends
__device__ float lerp(float start, float end, float weight) { return fmaf(weight, end, fmaf(-weight, start, start)); }

extern "C" __global__ void lion_step(float* param, const float* grad, float* exp_avg, long long n, Hyper h) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || h.found_inf != 0) return;
  const float g = grad[i] * (1.0f / h.grad_scale);
  const float c = lerp(exp_avg[i], g, 1.0f - h.beta1);
  const float sign = (float)((int)(c > 0.0f) - (int)(c < 0.0f));
  exp_avg[i] = lerp(exp_avg[i], g, 1.0f - h.beta2);
  param[i] = fmaf(-h.lr, fmaf(h.weight_decay, param[i], sign), param[i]);
}
