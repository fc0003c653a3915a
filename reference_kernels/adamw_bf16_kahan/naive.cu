/*stepbench
{ "task": "adamw_bf16_kahan", "note": "one element per thread and turn, in the order of the task's text",
  "defines": {"BLOCK": 256},
  "launches": [
    {"for": "tensor", "kernel": "adamw_step", "grid": "min(ceil_div(n, BLOCK), sms*16)", "block": "BLOCK",
     "args": ["param", "grad", "compensation", "exp_avg", "exp_avg_sq", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void adamw_step(__nv_bfloat16* __restrict__ param, const __nv_bfloat16* __restrict__ grad,
                                      __nv_bfloat16* __restrict__ compensation, __nv_bfloat16* __restrict__ exp_avg,
                                      __nv_bfloat16* __restrict__ exp_avg_sq, long long n,
                                      const Hyper* __restrict__ hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    const float p = __bfloat162float(param[i]);
    const float g = __bfloat162float(grad[i]) / h.grad_scale;
    const float m = h.beta1 * __bfloat162float(exp_avg[i]) + (1.0f - h.beta1) * g;
    const float old_v = __bfloat162float(exp_avg_sq[i]);
    const float v = h.beta2 * old_v + (1.0f - h.beta2) * g * g;
    const float denominator = sqrtf(v / h.bias_correction2) + h.eps;
    const float u = m / h.bias_correction1 / denominator + h.weight_decay * p;
    const float change = __bfloat162float(compensation[i]) - h.lr * u;
    const __nv_bfloat16 updated = __float2bfloat16_rn(p + change);
    param[i] = updated;
    compensation[i] = __float2bfloat16_rn(change + (p - __bfloat162float(updated)));
    exp_avg[i] = __float2bfloat16_rn(m);
    exp_avg_sq[i] = __float2bfloat16_rn(v);
  }
}
