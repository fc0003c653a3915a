/*stepbench
{ "task": "adamw", "note": "wrong: the copy of the gradient in shared memory is read without a barrier",
  "launches": [
    {"for": "tensor", "kernel": "adamw_step", "grid": "ceil_div(n, 256)", "block": "256",
     "args": ["param", "grad", "exp_avg", "exp_avg_sq", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void adamw_step(float* param, const float* grad, float* exp_avg, float* exp_avg_sq, long long n,
                                      const Hyper* hyper) {
  __shared__ float staged[256];
  const Hyper h = *hyper;
  const long long i = (long long)blockIdx.x * 256 + 255 - threadIdx.x;
  const long long from = (long long)blockIdx.x * 256 + threadIdx.x;
  staged[threadIdx.x] = from < n ? grad[from] / h.grad_scale : 0.0f;
  if (i >= n || h.found_inf != 0) return;
  const float g = staged[255 - threadIdx.x];
  const float m = h.beta1 * exp_avg[i] + (1.0f - h.beta1) * g;
  const float v = h.beta2 * exp_avg_sq[i] + (1.0f - h.beta2) * g * g;
  param[i] -= h.lr * (m / h.bias_correction1 / (sqrtf(v / h.bias_correction2) + h.eps) + h.weight_decay * param[i]);
  exp_avg[i] = m;
  exp_avg_sq[i] = v;
}
