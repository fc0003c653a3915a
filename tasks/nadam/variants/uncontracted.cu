/*stepbench
{ "task": "nadam", "note": "the text's order, every operation rounded by itself",
  "launches": [
    {"for": "tensor", "kernel": "nadam_step", "grid": "ceil_div(n, 128)", "block": "128",
     "args": ["param", "grad", "exp_avg", "exp_avg_sq", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void nadam_step(float* param, const float* grad, float* exp_avg, float* exp_avg_sq, long long n,
                                      const Hyper* hyper) {
  const Hyper h = *hyper;
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || h.found_inf != 0) return;
  const float p = param[i];
  const float g = __fadd_rn(__fdiv_rn(grad[i], h.grad_scale), __fmul_rn(h.l2_decay, p));
  const float m = __fadd_rn(__fmul_rn(h.beta1, exp_avg[i]), __fmul_rn(1.0f - h.beta1, g));
  const float v = __fadd_rn(__fmul_rn(h.beta2, exp_avg_sq[i]), __fmul_rn(__fmul_rn(1.0f - h.beta2, g), g));
  const float denominator = __fadd_rn(__fsqrt_rn(__fdiv_rn(v, h.bias_correction2)), h.eps);
  const float u = __fdiv_rn(__fadd_rn(__fmul_rn(h.grad_factor, g), __fmul_rn(h.moment_factor, m)), denominator);
  param[i] = __fsub_rn(p, __fmul_rn(h.lr, __fadd_rn(u, __fmul_rn(h.weight_decay, p))));
  exp_avg[i] = m;
  exp_avg_sq[i] = v;
}
