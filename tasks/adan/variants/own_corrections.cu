/*stepbench
{ "task": "adan", "note": "computes the bias corrections itself with powf, averages by two FMAs",
  "launches": [
    {"for": "tensor", "kernel": "adan_step", "grid": "ceil_div(n, 256)", "block": "256",
     "args": ["param", "grad", "exp_avg", "exp_avg_diff", "exp_avg_sq", "prev_grad", "n", "hyper.value"]}
  ] }
*/
#include <stepbench.cuh>

// start + weight * (end - start), exact at both ends
__device__ float lerp(float start, float end, float weight) { return fmaf(weight, end, fmaf(-weight, start, start)); }

extern "C" __global__ void adan_step(float* param, const float* grad, float* exp_avg, float* exp_avg_diff,
                                     float* exp_avg_sq, float* prev_grad, long long n, Hyper h) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || h.found_inf != 0) return;
  const float t = (float)h.step;
  const float g = grad[i] * (1.0f / h.grad_scale);
  const float diff = h.is_first_step != 0 ? 0.0f : g - prev_grad[i];
  const float k = fmaf(h.beta2, diff, g);
  const float m = lerp(exp_avg[i], g, 1.0f - h.beta1);
  const float d = lerp(exp_avg_diff[i], diff, 1.0f - h.beta2);
  const float v = lerp(exp_avg_sq[i], k * k, 1.0f - h.beta3);
  const float root = sqrtf(v / (1.0f - powf(h.beta3, t)));
  const float step = m / (1.0f - powf(h.beta1, t)) + h.beta2 * d / (1.0f - powf(h.beta2, t));
  param[i] = fmaf(-h.lr, step / (root + h.eps), param[i]) / fmaf(h.lr, h.weight_decay, 1.0f);
  exp_avg[i] = m;
  exp_avg_diff[i] = d;
  exp_avg_sq[i] = v;
  prev_grad[i] = g;
}
