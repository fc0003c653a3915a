/*stepbench
{ "task": "signsgd", "note": "the text's order, every operation rounded by itself",
  "launches": [
    {"for": "tensor", "kernel": "signsgd_step", "grid": "ceil_div(n, 128)", "block": "128",
     "args": ["param", "grad", "exp_avg", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void signsgd_step(float* param, const float* grad, float* exp_avg, long long n,
                                        const Hyper* hyper) {
  const Hyper h = *hyper;
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || h.found_inf != 0) return;
  const float g = __fdiv_rn(grad[i], h.grad_scale);
  const float m = __fadd_rn(__fmul_rn(h.beta, exp_avg[i]), __fmul_rn(1.0f - h.beta, g));
  const float sign = m > 0.0f ? 1.0f : m < 0.0f ? -1.0f : 0.0f;
  const float keep = __fsub_rn(1.0f, __fmul_rn(h.lr, h.weight_decay));
  param[i] = __fsub_rn(__fmul_rn(param[i], keep), __fmul_rn(h.lr, sign));
  exp_avg[i] = m;
}
