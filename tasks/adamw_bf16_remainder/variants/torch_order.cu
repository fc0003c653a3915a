/*stepbench
{ "task": "adamw_bf16_remainder", "note": "PyTorch's order with powf corrections; joined by a multiplication",
  "launches": [
    {"for": "tensor", "kernel": "adamw_step", "grid": "ceil_div(n, 512)", "block": "512",
     "args": ["param", "grad", "remainder", "exp_avg", "exp_avg_sq", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void adamw_step(unsigned short* param, const unsigned short* grad, short* remainder,
                                      float* exp_avg, float* exp_avg_sq, long long n, const Hyper* hyper) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || hyper->found_inf != 0) return;
  const float bias_correction1 = 1.0f - powf(hyper->beta1, (float)hyper->step);
  const float root_correction2 = sqrtf(1.0f - powf(hyper->beta2, (float)hyper->step));
  const float g = __uint_as_float((unsigned)grad[i] << 16) / hyper->grad_scale;
  float p = __int_as_float((int)((unsigned)param[i] * 65536u + (unsigned)(int)remainder[i]));
  p = p * (1.0f - hyper->lr * hyper->weight_decay);
  const float m = exp_avg[i] + (1.0f - hyper->beta1) * (g - exp_avg[i]);
  const float v = exp_avg_sq[i] * hyper->beta2 + (1.0f - hyper->beta2) * (g * g);
  p -= hyper->lr / bias_correction1 * (m / (sqrtf(v) / root_correction2 + hyper->eps));
  const unsigned bits = __float_as_uint(p), high = (bits >> 16) + (bits >> 15 & 1u);
  param[i] = (unsigned short)high;
  remainder[i] = (short)(bits - (high << 16));
  exp_avg[i] = m;
  exp_avg_sq[i] = v;
}
