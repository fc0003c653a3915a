/*stepbench
{ "task": "lion", "note": "the text's order, every operation rounded by itself",
  "launches": [
    {"for": "tensor", "kernel": "lion_step", "grid": "ceil_div(n, 128)", "block": "128",
     "args": ["param", "grad", "exp_avg", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void lion_step(float* param, const float* grad, float* exp_avg, long long n, const Hyper* hyper) {
  const Hyper h = *hyper;
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || h.found_inf != 0) return;
  const float p = param[i], m = exp_avg[i];
  const float g = __fdiv_rn(grad[i], h.grad_scale);
  const float c = __fadd_rn(__fmul_rn(h.beta1, m), __fmul_rn(1.0f - h.beta1, g));
  const float sign = c > 0.0f ? 1.0f : c < 0.0f ? -1.0f : 0.0f;
  param[i] = __fsub_rn(p, __fmul_rn(h.lr, __fadd_rn(sign, __fmul_rn(h.weight_decay, p))));
  exp_avg[i] = __fadd_rn(__fmul_rn(h.beta2, m), __fmul_rn(1.0f - h.beta2, g));
}
