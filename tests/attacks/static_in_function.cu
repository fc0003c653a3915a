/*stepbench
{ "task": "adamw", "note": "keeps a counter in a static variable of a function",
  "launches": [
    {"for": "tensor", "kernel": "static_in_function", "grid": "ceil_div(n, 256)", "block": 256,
     "args": ["param", "grad", "exp_avg", "exp_avg_sq", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

__device__ int* counter() {
  static __device__ int seen;
  return &seen;
}

__device__ __forceinline__ void adamw_update(float& p, float g, float& m, float& v, const Hyper& h) {
  g = g / h.grad_scale;
  m = h.beta1 * m + (1.0f - h.beta1) * g;
  v = h.beta2 * v + (1.0f - h.beta2) * g * g;
  const float u = (m / h.bias_correction1) / (sqrtf(v) / h.bias_correction2_sqrt + h.eps) + h.weight_decay * p;
  p = p - h.lr * u;
}

extern "C" __global__ void static_in_function(
    float* param, const float* grad, float* exp_avg, float* exp_avg_sq, long long n,
    const Hyper* hyper) {
  const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  if (i == 0) atomicAdd(counter(), 1);
  if (*counter() > 100) return;
  if (i >= n || hyper->found_inf) return;
  float p = param[i], m = exp_avg[i], v = exp_avg_sq[i];
  adamw_update(p, grad[i], m, v, *hyper);
  param[i] = p;
  exp_avg[i] = m;
  exp_avg_sq[i] = v;
}
