/*stepbench
{ "task": "adagrad", "note": "the text's order, every operation rounded by itself",
  "launches": [
    {"for": "tensor", "kernel": "adagrad_step", "grid": "ceil_div(n, 128)", "block": "128",
     "args": ["param", "grad", "state_sum", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void adagrad_step(float* param, const float* grad, float* state_sum, long long n,
                                        const Hyper* hyper) {
  const Hyper h = *hyper;
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || h.found_inf != 0) return;
  const float g = __fadd_rn(__fdiv_rn(grad[i], h.grad_scale), __fmul_rn(h.weight_decay, param[i]));
  const float sum = __fadd_rn(state_sum[i], __fmul_rn(g, g));
  param[i] = __fsub_rn(param[i], __fmul_rn(h.decayed_lr, __fdiv_rn(g, __fadd_rn(__fsqrt_rn(sum), h.eps))));
  state_sum[i] = sum;
}
