/*stepbench
{ "task": "radam", "note": "computes the rectification itself, in double",
  "launches": [
    {"for": "tensor", "kernel": "radam_step", "grid": "ceil_div(n, 256)", "block": "256",
     "args": ["param", "grad", "exp_avg", "exp_avg_sq", "n", "hyper.value"]}
  ] }
*/
#include <stepbench.cuh>

// start + weight * (end - start), exact at both ends
__device__ float lerp(float start, float end, float weight) { return fmaf(weight, end, fmaf(-weight, start, start)); }

extern "C" __global__ void radam_step(float* param, const float* grad, float* exp_avg, float* exp_avg_sq, long long n,
                                      Hyper h) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || h.found_inf != 0) return;
  const double power = pow((double)h.beta2, (double)h.step);
  const double rho_inf = 2.0 / (1.0 - h.beta2) - 1.0;
  const double rho = rho_inf - 2.0 * h.step * power / (1.0 - power);
  const float g = fmaf(h.l2_decay, param[i], grad[i] / h.grad_scale);
  const float m = lerp(exp_avg[i], g, 1.0f - h.beta1);
  const float v = lerp(exp_avg_sq[i], g * g, 1.0f - h.beta2);
  float u = m / (1.0f - powf(h.beta1, (float)h.step));
  if (rho > 5.0) {
    const double r2 = (rho - 4.0) * (rho - 2.0) * rho_inf / ((rho_inf - 4.0) * (rho_inf - 2.0) * rho);
    u *= (float)sqrt(r2 * (1.0 - power)) / (sqrtf(v) + h.eps);
  }
  param[i] -= h.lr * fmaf(h.weight_decay, param[i], u);
  exp_avg[i] = m;
  exp_avg_sq[i] = v;
}
