// A candidate without a plan: one kernel with the task's default arguments. The sum is rounded to fp32 before it is
// split.
#include <stepbench.cuh>

__global__ void adamw(__nv_bfloat16* param, const __nv_bfloat16* grad, __nv_bfloat16* compensation,
                      __nv_bfloat16* exp_avg, __nv_bfloat16* exp_avg_sq, long long n, const Hyper* hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    const float p = float(param[i]), g = float(grad[i]) / h.grad_scale;
    const float m = h.beta1 * float(exp_avg[i]) + (1.0f - h.beta1) * g;
    const float v = h.beta2 * float(exp_avg_sq[i]) + (1.0f - h.beta2) * g * g;
    const float u = m / h.bias_correction1 / (sqrtf(v / h.bias_correction2) + h.eps) + h.weight_decay * p;
    const float sum = p + (float(compensation[i]) - h.lr * u);
    param[i] = __float2bfloat16(sum);
    compensation[i] = __float2bfloat16(sum - float(param[i]));
    exp_avg[i] = __float2bfloat16(m);
    exp_avg_sq[i] = __float2bfloat16(v);
  }
}
