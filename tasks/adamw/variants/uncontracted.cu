/*stepbench
{ "task": "adamw", "note": "the text's order, every operation rounded by itself",
  "launches": [
    {"for": "tensor", "kernel": "adamw_step", "grid": "ceil_div(n, 128)", "block": "128",
     "args": ["param", "grad", "exp_avg", "exp_avg_sq", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void adamw_step(float* param, const float* grad, float* exp_avg, float* exp_avg_sq, long long n,
                                      const Hyper* hyper) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || hyper->found_inf != 0) return;
  const float g = __fdiv_rn(grad[i], hyper->grad_scale);
  const float m = __fadd_rn(__fmul_rn(hyper->beta1, exp_avg[i]), __fmul_rn(1.0f - hyper->beta1, g));
  const float v = __fadd_rn(__fmul_rn(hyper->beta2, exp_avg_sq[i]), __fmul_rn(__fmul_rn(1.0f - hyper->beta2, g), g));
  const float m_hat = __fdiv_rn(m, hyper->bias_correction1);
  const float root = __fsqrt_rn(__fdiv_rn(v, hyper->bias_correction2));
  const float u = __fadd_rn(__fdiv_rn(m_hat, __fadd_rn(root, hyper->eps)), __fmul_rn(hyper->weight_decay, param[i]));
  param[i] = __fsub_rn(param[i], __fmul_rn(hyper->lr, u));
  exp_avg[i] = m;
  exp_avg_sq[i] = v;
}
