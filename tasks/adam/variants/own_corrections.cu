/*stepbench
{ "task": "adam", "note": "computes the bias corrections itself with powf, averages by two FMAs",
  "launches": [
    {"for": "tensor", "kernel": "adam_step", "grid": "ceil_div(n, 256)", "block": "256",
     "args": ["param", "grad", "exp_avg", "exp_avg_sq", "n", "hyper.value"]}
  ] }
*/
#include <stepbench.cuh>

// start + weight * (end - start), exact at both ends
__device__ float lerp(float start, float end, float weight) { return fmaf(weight, end, fmaf(-weight, start, start)); }

extern "C" __global__ void adam_step(float* param, const float* grad, float* exp_avg, float* exp_avg_sq, long long n,
                                     Hyper h) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || h.found_inf != 0) return;
  const float bias_correction1 = 1.0f - powf(h.beta1, (float)h.step);
  const float bias_correction2 = 1.0f - powf(h.beta2, (float)h.step);
  const float g = fmaf(h.weight_decay, param[i], grad[i] / h.grad_scale);
  const float m = lerp(exp_avg[i], g, 1.0f - h.beta1);
  const float v = lerp(exp_avg_sq[i], g * g, 1.0f - h.beta2);
  param[i] -= h.lr * (m / bias_correction1) / (sqrtf(v / bias_correction2) + h.eps);
  exp_avg[i] = m;
  exp_avg_sq[i] = v;
}
