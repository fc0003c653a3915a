/*stepbench
{ "task": "rmsprop", "note": "the text's order, every operation rounded by itself",
  "launches": [
    {"for": "tensor", "kernel": "rmsprop_step", "grid": "ceil_div(n, 128)", "block": "128",
     "args": ["param", "grad", "square_avg", "grad_avg", "momentum_buffer", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void rmsprop_step(float* param, const float* grad, float* square_avg, float* grad_avg,
                                        float* momentum_buffer, long long n, const Hyper* hyper) {
  const Hyper h = *hyper;
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || h.found_inf != 0) return;
  const float g = __fadd_rn(__fdiv_rn(grad[i], h.grad_scale), __fmul_rn(h.weight_decay, param[i]));
  const float w = 1.0f - h.alpha;
  const float q = __fadd_rn(__fmul_rn(h.alpha, square_avg[i]), __fmul_rn(__fmul_rn(w, g), g));
  const float a = __fadd_rn(__fmul_rn(h.alpha, grad_avg[i]), __fmul_rn(w, g));
  const float variance = fmaxf(__fsub_rn(q, __fmul_rn(a, a)), 0.0f);
  const float b =
      __fadd_rn(__fmul_rn(h.momentum, momentum_buffer[i]), __fdiv_rn(g, __fadd_rn(__fsqrt_rn(variance), h.eps)));
  param[i] = __fsub_rn(param[i], __fmul_rn(h.lr, b));
  square_avg[i] = q;
  grad_avg[i] = a;
  momentum_buffer[i] = b;
}
