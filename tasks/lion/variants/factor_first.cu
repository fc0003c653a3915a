/*stepbench
{ "task": "lion", "note": "the order of the authors' code: decay by a factor first, then the signed step",
  "launches": [
    {"for": "tensor", "kernel": "lion_step", "grid": "ceil_div(n, 512)", "block": "512",
     "args": ["param", "grad", "exp_avg", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void lion_step(float* param, const float* grad, float* exp_avg, long long n, const Hyper* hyper) {
  const Hyper h = *hyper;
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || h.found_inf != 0) return;
  const float g = grad[i] / h.grad_scale;
  float p = param[i] * (1.0f - h.lr * h.weight_decay);
  const float c = exp_avg[i] + (1.0f - h.beta1) * (g - exp_avg[i]);
  p += c == 0.0f ? 0.0f : c > 0.0f ? -h.lr : h.lr;
  param[i] = p;
  exp_avg[i] = exp_avg[i] + (1.0f - h.beta2) * (g - exp_avg[i]);
}
