/*stepbench
{ "task": "signsgd", "note": "as torch code would: decay in place by a factor, lerp of the average, then the step",
  "launches": [
    {"for": "tensor", "kernel": "signsgd_step", "grid": "ceil_div(n, 512)", "block": "512",
     "args": ["param", "grad", "exp_avg", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void signsgd_step(float* param, const float* grad, float* exp_avg, long long n,
                                        const Hyper* hyper) {
  const Hyper h = *hyper;
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || h.found_inf != 0) return;
  float p = param[i] * (1.0f - h.lr * h.weight_decay);
  const float old = exp_avg[i];
  const float m = old + (1.0f - h.beta) * (grad[i] / h.grad_scale - old);
  p += m == 0.0f ? 0.0f : m > 0.0f ? -h.lr : h.lr;
  exp_avg[i] = m;
  param[i] = p;
}
