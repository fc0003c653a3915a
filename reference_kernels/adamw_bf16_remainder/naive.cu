/*stepbench
{ "task": "adamw_bf16_remainder", "note": "one element per thread and turn, in the order of the task's text",
  "defines": {"BLOCK": 256},
  "launches": [
    {"for": "tensor", "kernel": "adamw_step", "grid": "min(ceil_div(n, BLOCK), sms*16)", "block": "BLOCK",
     "args": ["param", "grad", "remainder", "exp_avg", "exp_avg_sq", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void adamw_step(uint16_t* __restrict__ param, const __nv_bfloat16* __restrict__ grad,
                                      int16_t* __restrict__ remainder, float* __restrict__ exp_avg,
                                      float* __restrict__ exp_avg_sq, long long n, const Hyper* __restrict__ hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    const float p = __uint_as_float(((unsigned)param[i] << 16) + (unsigned)(int)remainder[i]);
    const float g = __bfloat162float(grad[i]) / h.grad_scale;
    const float m = h.beta1 * exp_avg[i] + (1.0f - h.beta1) * g;
    const float old_v = exp_avg_sq[i];
    const float v = h.beta2 * old_v + (1.0f - h.beta2) * g * g;
    const float denominator = sqrtf(v / h.bias_correction2) + h.eps;
    const float u = m / h.bias_correction1 / denominator + h.weight_decay * p;
    const unsigned updated = __float_as_uint(p - h.lr * u);
    param[i] = (uint16_t)((updated + 0x8000u) >> 16);
    remainder[i] = (int16_t)(updated & 0xffffu);
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
  }
}
