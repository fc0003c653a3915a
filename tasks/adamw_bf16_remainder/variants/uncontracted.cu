/*stepbench
{ "task": "adamw_bf16_remainder", "note": "the text's order, every operation rounded by itself; halves by prmt",
  "launches": [
    {"for": "tensor", "kernel": "adamw_step", "grid": "ceil_div(n, 128)", "block": "128",
     "args": ["param", "grad", "remainder", "exp_avg", "exp_avg_sq", "n", "hyper.value"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void adamw_step(unsigned short* param, const __nv_bfloat16* grad, unsigned short* remainder,
                                      float* exp_avg, float* exp_avg_sq, long long n, Hyper h) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || h.found_inf != 0) return;
  // Both halves side by side, less one of the high half where the low half counts down.
  const unsigned pattern = __byte_perm(remainder[i], param[i], 0x5410) - (remainder[i] >= 0x8000 ? 0x10000u : 0u);
  const float p = __uint_as_float(pattern);
  const float g = __fdiv_rn(__bfloat162float(grad[i]), h.grad_scale);
  const float m = __fadd_rn(__fmul_rn(h.beta1, exp_avg[i]), __fmul_rn(1.0f - h.beta1, g));
  const float v = __fadd_rn(__fmul_rn(h.beta2, exp_avg_sq[i]), __fmul_rn(__fmul_rn(1.0f - h.beta2, g), g));
  const float root = __fsqrt_rn(__fdiv_rn(v, h.bias_correction2));
  const float ratio = __fdiv_rn(__fdiv_rn(m, h.bias_correction1), __fadd_rn(root, h.eps));
  const float updated = __fsub_rn(p, __fmul_rn(h.lr, __fadd_rn(ratio, __fmul_rn(h.weight_decay, p))));
  param[i] = (unsigned short)((__float_as_uint(updated) + 0x8000u) >> 16);
  remainder[i] = (unsigned short)__float_as_uint(updated);
  exp_avg[i] = m;
  exp_avg_sq[i] = v;
}
