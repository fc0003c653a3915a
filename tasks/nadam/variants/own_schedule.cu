/*stepbench
{ "task": "nadam", "note": "computes momenta and bias correction with powf, takes only the product from Hyper",
  "launches": [
    {"for": "tensor", "kernel": "nadam_step", "grid": "ceil_div(n, 256)", "block": "256",
     "args": ["param", "grad", "exp_avg", "exp_avg_sq", "n", "hyper.value"]}
  ] }
*/
#include <stepbench.cuh>

// start + weight * (end - start), exact at both ends
__device__ float lerp(float start, float end, float weight) { return fmaf(weight, end, fmaf(-weight, start, start)); }

extern "C" __global__ void nadam_step(float* param, const float* grad, float* exp_avg, float* exp_avg_sq, long long n,
                                      Hyper h) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || h.found_inf != 0) return;
  const float t = (float)h.step;
  const float mu = h.beta1 * (1.0f - 0.5f * powf(0.96f, t * h.momentum_decay));
  const float mu_next = h.beta1 * (1.0f - 0.5f * powf(0.96f, (t + 1.0f) * h.momentum_decay));
  const float root_correction = sqrtf(1.0f - powf(h.beta2, t));
  const float g = fmaf(h.l2_decay, param[i], grad[i] / h.grad_scale);
  const float m = lerp(exp_avg[i], g, 1.0f - h.beta1);
  const float v = lerp(exp_avg_sq[i], g * g, 1.0f - h.beta2);
  const float u = (1.0f - mu) / (1.0f - h.mu_product) * g + mu_next / (1.0f - h.mu_product * mu_next) * m;
  param[i] -= h.lr * fmaf(h.weight_decay, param[i], u / (sqrtf(v) / root_correction + h.eps));
  exp_avg[i] = m;
  exp_avg_sq[i] = v;
}
