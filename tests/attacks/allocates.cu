/*stepbench
{ "task": "adamw", "note": "takes memory from the device heap",
  "launches": [
    {"for": "tensor", "kernel": "allocates", "grid": "ceil_div(n, 256)", "block": 256,
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

extern "C" __global__ void allocates(float* param, const float* grad, float* exp_avg, float* exp_avg_sq, long long n, const Hyper* hyper) {
  const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  float* box = static_cast<float*>(malloc(sizeof(float)));
  if (box == nullptr || i >= n || hyper->found_inf) return;
  *box = param[i];
  float p = *box, m = exp_avg[i], v = exp_avg_sq[i];
  free(box);
  adamw_update(p, grad[i], m, v, *hyper);
  param[i] = p;
  exp_avg[i] = m;
  exp_avg_sq[i] = v;
}
