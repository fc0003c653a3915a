/*stepbench
{ "task": "adamw", "note": "waits for a gradient that never changes",
  "launches": [
    {"for": "tensor", "kernel": "endless_loop", "grid": "ceil_div(n, 256)", "block": 256,
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

extern "C" __global__ void endless_loop(float* param, const float* grad, float* exp_avg, float* exp_avg_sq, long long n, const Hyper* hyper) {
  const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  volatile const float* flag = grad;
  while (*flag == *flag + 0.0f || i >= 0) {
  }
  param[0] = 0.0f;
  (void)n; (void)hyper; (void)exp_avg; (void)exp_avg_sq;
}
