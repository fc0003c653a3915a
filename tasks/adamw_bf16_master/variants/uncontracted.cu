/*stepbench
{ "task": "adamw_bf16_master", "note": "the text's order, every operation rounded by itself; two elements per thread",
  "launches": [
    {"for": "tensor", "kernel": "adamw_step", "grid": "ceil_div(ceil_div(n, 2), 128)", "block": "128",
     "args": ["param", "grad", "master", "exp_avg", "exp_avg_sq", "n", "hyper.value"]}
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

extern "C" __global__ void adamw_step(__nv_bfloat16* param, const __nv_bfloat16* grad, float* master, float* exp_avg,
                                      float* exp_avg_sq, long long n, Hyper h) {
  if (h.found_inf != 0) return;
  const long long i = 2 * ((long long)blockIdx.x * blockDim.x + threadIdx.x);
  const bool paired =
      ((reinterpret_cast<unsigned long long>(param) | reinterpret_cast<unsigned long long>(grad)) & 3) == 0;
  if (paired && i + 1 < n) {
    const float2 g = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(grad + i));
    master[i] = update(g.x, master[i], exp_avg[i], exp_avg_sq[i], h);
    master[i + 1] = update(g.y, master[i + 1], exp_avg[i + 1], exp_avg_sq[i + 1], h);
    *reinterpret_cast<__nv_bfloat162*>(param + i) = __floats2bfloat162_rn(master[i], master[i + 1]);
    return;
  }
  for (long long k = i; k < n && k < i + 2; ++k) {
    master[k] = update(__bfloat162float(grad[k]), master[k], exp_avg[k], exp_avg_sq[k], h);
    param[k] = __float2bfloat16_rn(master[k]);
  }
}
