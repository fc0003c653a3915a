/*stepbench
{ "task": "sgd_momentum", "note": "PyTorch's order with one operation after the other and branches per element",
  "launches": [
    {"for": "tensor", "kernel": "sgd_step", "grid": "ceil_div(n, 512)", "block": "512",
     "args": ["param", "grad", "momentum_buffer", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void sgd_step(float* param, const float* grad, float* momentum_buffer, long long n,
                                    const Hyper* hyper) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || hyper->found_inf != 0) return;
  float g = __fdiv_rn(grad[i], hyper->grad_scale);
  g = __fadd_rn(g, __fmul_rn(hyper->weight_decay, param[i]));
  float b = g;
  if (hyper->is_first_step == 0) {
    b = __fmul_rn(momentum_buffer[i], hyper->momentum);
    b = __fadd_rn(b, __fmul_rn(1.0f - hyper->dampening, g));
  }
  momentum_buffer[i] = b;
  if (hyper->nesterov != 0)
    g = __fadd_rn(g, __fmul_rn(hyper->momentum, b));
  else
    g = b;
  param[i] = __fsub_rn(param[i], __fmul_rn(hyper->lr, g));
}
