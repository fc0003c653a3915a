/*stepbench
{ "task": "adan", "note": "the text's order, every operation rounded by itself",
  "launches": [
    {"for": "tensor", "kernel": "adan_step", "grid": "ceil_div(n, 128)", "block": "128",
     "args": ["param", "grad", "exp_avg", "exp_avg_diff", "exp_avg_sq", "prev_grad", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void adan_step(float* param, const float* grad, float* exp_avg, float* exp_avg_diff,
                                     float* exp_avg_sq, float* prev_grad, long long n, const Hyper* hyper) {
  const Hyper h = *hyper;
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || h.found_inf != 0) return;
  const float g = __fdiv_rn(grad[i], h.grad_scale);
  const float diff = h.is_first_step != 0 ? 0.0f : __fsub_rn(g, prev_grad[i]);
  const float m = __fadd_rn(__fmul_rn(h.beta1, exp_avg[i]), __fmul_rn(1.0f - h.beta1, g));
  const float d = __fadd_rn(__fmul_rn(h.beta2, exp_avg_diff[i]), __fmul_rn(1.0f - h.beta2, diff));
  const float k = __fadd_rn(g, __fmul_rn(h.beta2, diff));
  const float v = __fadd_rn(__fmul_rn(h.beta3, exp_avg_sq[i]), __fmul_rn(__fmul_rn(1.0f - h.beta3, k), k));
  const float denominator = __fadd_rn(__fsqrt_rn(__fdiv_rn(v, h.bias_correction3)), h.eps);
  const float numerator =
      __fadd_rn(__fdiv_rn(m, h.bias_correction1), __fdiv_rn(__fmul_rn(h.beta2, d), h.bias_correction2));
  const float moved = __fsub_rn(param[i], __fmul_rn(h.lr, __fdiv_rn(numerator, denominator)));
  param[i] = __fdiv_rn(moved, __fadd_rn(1.0f, __fmul_rn(h.lr, h.weight_decay)));
  exp_avg[i] = m;
  exp_avg_diff[i] = d;
  exp_avg_sq[i] = v;
  prev_grad[i] = g;
}
