/*stepbench
{ "task": "adamw_bf16_states", "note": "the text's order, every operation rounded by itself; two elements per thread",
  "launches": [
    {"for": "tensor", "kernel": "adamw_step", "grid": "ceil_div(ceil_div(n, 2), 128)", "block": "128",
     "args": ["param", "grad", "exp_avg", "exp_avg_sq", "n", "hyper.value"]}
  ] }
*/
#include <stepbench.cuh>

__device__ float update(float grad, float p, float& m, float& v, const Hyper& h) {
  const float g = __fdiv_rn(grad, h.grad_scale);
  m = __fadd_rn(__fmul_rn(h.beta1, m), __fmul_rn(1.0f - h.beta1, g));
  v = __fadd_rn(__fmul_rn(h.beta2, v), __fmul_rn(__fmul_rn(1.0f - h.beta2, g), g));
  const float root = __fsqrt_rn(__fdiv_rn(v, h.bias_correction2));
  const float ratio = __fdiv_rn(__fdiv_rn(m, h.bias_correction1), __fadd_rn(root, h.eps));
  return __fsub_rn(p, __fmul_rn(h.lr, __fadd_rn(ratio, __fmul_rn(h.weight_decay, p))));
}

extern "C" __global__ void adamw_step(float* param, const float* grad, __nv_bfloat16* exp_avg,
                                      __nv_bfloat16* exp_avg_sq, long long n, Hyper h) {
  if (h.found_inf != 0) return;
  const long long i = 2 * ((long long)blockIdx.x * blockDim.x + threadIdx.x);
  const bool paired =
      ((reinterpret_cast<unsigned long long>(exp_avg) | reinterpret_cast<unsigned long long>(exp_avg_sq)) & 3) == 0;
  if (paired && i + 1 < n) {
    float2 m = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(exp_avg + i));
    float2 v = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(exp_avg_sq + i));
    param[i] = update(grad[i], param[i], m.x, v.x, h);
    param[i + 1] = update(grad[i + 1], param[i + 1], m.y, v.y, h);
    *reinterpret_cast<__nv_bfloat162*>(exp_avg + i) = __float22bfloat162_rn(m);
    *reinterpret_cast<__nv_bfloat162*>(exp_avg_sq + i) = __float22bfloat162_rn(v);
    return;
  }
  for (long long k = i; k < n && k < i + 2; ++k) {
    float m = __bfloat162float(exp_avg[k]), v = __bfloat162float(exp_avg_sq[k]);
    param[k] = update(grad[k], param[k], m, v, h);
    exp_avg[k] = __float2bfloat16_rn(m);
    exp_avg_sq[k] = __float2bfloat16_rn(v);
  }
}
