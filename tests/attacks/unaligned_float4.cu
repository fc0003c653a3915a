/*stepbench
{ "task": "adamw", "note": "wide loads whatever the alignment is",
  "launches": [
    {"for": "tensor", "kernel": "unaligned_float4", "grid": "ceil_div(n, 1024)", "block": 256,
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

extern "C" __global__ void unaligned_float4(float* param, const float* grad, float* exp_avg, float* exp_avg_sq, long long n, const Hyper* hyper) {
  const long long i = 4 * (blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x);
  if (hyper->found_inf) return;
  if (i + 3 < n) {
    float4 p = *reinterpret_cast<float4*>(param + i), m = *reinterpret_cast<float4*>(exp_avg + i);
    float4 v = *reinterpret_cast<float4*>(exp_avg_sq + i);
    const float4 g = *reinterpret_cast<const float4*>(grad + i);
    adamw_update(p.x, g.x, m.x, v.x, *hyper);
    adamw_update(p.y, g.y, m.y, v.y, *hyper);
    adamw_update(p.z, g.z, m.z, v.z, *hyper);
    adamw_update(p.w, g.w, m.w, v.w, *hyper);
    *reinterpret_cast<float4*>(param + i) = p;
    *reinterpret_cast<float4*>(exp_avg + i) = m;
    *reinterpret_cast<float4*>(exp_avg_sq + i) = v;
  } else {
    for (long long k = i; k < n; ++k) {
      float p = param[k], m = exp_avg[k], v = exp_avg_sq[k];
      adamw_update(p, grad[k], m, v, *hyper);
      param[k] = p;
      exp_avg[k] = m;
      exp_avg_sq[k] = v;
    }
  }
}
