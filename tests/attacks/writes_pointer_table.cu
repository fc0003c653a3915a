/*stepbench
{ "task": "adamw", "note": "exchanges two pointers in the table of parameters",
  "launches": [
    {"for": "step", "kernel": "writes_pointer_table", "grid": 1, "block": 256,
     "args": ["param[]", "grad[]", "exp_avg[]", "exp_avg_sq[]", "n[]", "tensors", "hyper"]}
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

extern "C" __global__ void writes_pointer_table(
    float** params, const float* const* grads, float* const* exp_avgs, float* const* exp_avg_sqs,
    const long long* sizes, long long tensors, const Hyper* hyper) {
  const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  if (i == 0 && tensors > 0) params[tensors - 1] = params[0];
  if (hyper->found_inf) return;
  for (long long t = 0; t < tensors; ++t) {
    for (long long k = i; k < sizes[t]; k += 256) {
      float p = params[t][k], m = exp_avgs[t][k], v = exp_avg_sqs[t][k];
      adamw_update(p, grads[t][k], m, v, *hyper);
      params[t][k] = p;
      exp_avgs[t][k] = m;
      exp_avg_sqs[t][k] = v;
    }
  }
}
