/*stepbench
{ "task": "adamw_bf16_kahan", "note": "the text's order, every operation rounded by itself; two elements per thread",
  "launches": [
    {"for": "tensor", "kernel": "adamw_step", "grid": "ceil_div(ceil_div(n, 2), 128)", "block": "128",
     "args": ["param", "grad", "compensation", "exp_avg", "exp_avg_sq", "n", "hyper.value"]}
  ] }
*/
#include <stepbench.cuh>

using Pair = __nv_bfloat162;

__device__ void update(float& p, float grad, float& c, float& m, float& v, const Hyper& h) {
  const float g = __fdiv_rn(grad, h.grad_scale);
  m = __fadd_rn(__fmul_rn(h.beta1, m), __fmul_rn(1.0f - h.beta1, g));
  v = __fadd_rn(__fmul_rn(h.beta2, v), __fmul_rn(__fmul_rn(1.0f - h.beta2, g), g));
  const float root = __fsqrt_rn(__fdiv_rn(v, h.bias_correction2));
  const float ratio = __fdiv_rn(__fdiv_rn(m, h.bias_correction1), __fadd_rn(root, h.eps));
  const float change = __fsub_rn(c, __fmul_rn(h.lr, __fadd_rn(ratio, __fmul_rn(h.weight_decay, p))));
  const float updated = __bfloat162float(__float2bfloat16_rn(__fadd_rn(p, change)));
  c = __fadd_rn(change, __fsub_rn(p, updated));
  p = updated;
}

extern "C" __global__ void adamw_step(__nv_bfloat16* param, const __nv_bfloat16* grad, __nv_bfloat16* compensation,
                                      __nv_bfloat16* exp_avg, __nv_bfloat16* exp_avg_sq, long long n, Hyper h) {
  if (h.found_inf != 0) return;
  const long long i = 2 * ((long long)blockIdx.x * blockDim.x + threadIdx.x);
  const unsigned long long bits =
      reinterpret_cast<unsigned long long>(param) | reinterpret_cast<unsigned long long>(grad) |
      reinterpret_cast<unsigned long long>(compensation) | reinterpret_cast<unsigned long long>(exp_avg) |
      reinterpret_cast<unsigned long long>(exp_avg_sq);
  if ((bits & 3) == 0 && i + 1 < n) {
    float2 p = __bfloat1622float2(*reinterpret_cast<const Pair*>(param + i));
    const float2 g = __bfloat1622float2(*reinterpret_cast<const Pair*>(grad + i));
    float2 c = __bfloat1622float2(*reinterpret_cast<const Pair*>(compensation + i));
    float2 m = __bfloat1622float2(*reinterpret_cast<const Pair*>(exp_avg + i));
    float2 v = __bfloat1622float2(*reinterpret_cast<const Pair*>(exp_avg_sq + i));
    update(p.x, g.x, c.x, m.x, v.x, h);
    update(p.y, g.y, c.y, m.y, v.y, h);
    *reinterpret_cast<Pair*>(param + i) = __float22bfloat162_rn(p);
    *reinterpret_cast<Pair*>(compensation + i) = __float22bfloat162_rn(c);
    *reinterpret_cast<Pair*>(exp_avg + i) = __float22bfloat162_rn(m);
    *reinterpret_cast<Pair*>(exp_avg_sq + i) = __float22bfloat162_rn(v);
    return;
  }
  for (long long k = i; k < n && k < i + 2; ++k) {
    float p = __bfloat162float(param[k]), c = __bfloat162float(compensation[k]);
    float m = __bfloat162float(exp_avg[k]), v = __bfloat162float(exp_avg_sq[k]);
    update(p, __bfloat162float(grad[k]), c, m, v, h);
    param[k] = __float2bfloat16_rn(p);
    compensation[k] = __float2bfloat16_rn(c);
    exp_avg[k] = __float2bfloat16_rn(m);
    exp_avg_sq[k] = __float2bfloat16_rn(v);
  }
}
