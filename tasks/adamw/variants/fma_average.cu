/*stepbench
{ "task": "adamw", "note": "llm.c's form: two FMAs per average, corrections by division, one subtraction",
  "launches": [
    {"for": "tensor", "kernel": "adamw_step", "grid": "ceil_div(n, 512)", "block": "512",
     "args": ["param", "grad", "exp_avg", "exp_avg_sq", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

// start + weight * (end - start), exact at both ends
__device__ float lerp(float start, float end, float weight) { return fmaf(weight, end, fmaf(-weight, start, start)); }

extern "C" __global__ void adamw_step(float* param, const float* grad, float* exp_avg, float* exp_avg_sq, long long n,
                                      const Hyper* hyper) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || hyper->found_inf != 0) return;
  const float g = grad[i] / hyper->grad_scale;
  float m = lerp(exp_avg[i], g, 1.0f - hyper->beta1);
  float v = lerp(exp_avg_sq[i], g * g, 1.0f - hyper->beta2);
  exp_avg[i] = m;
  exp_avg_sq[i] = v;
  m /= hyper->bias_correction1;
  v /= hyper->bias_correction2;
  param[i] = param[i] - hyper->lr * (m / (sqrtf(v) + hyper->eps) + hyper->weight_decay * param[i]);
}
