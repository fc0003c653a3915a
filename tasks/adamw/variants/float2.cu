/*stepbench
{ "task": "adamw", "note": "two elements per thread; the odd one at the end by the first idle thread",
  "defines": {"BLOCK": 128},
  "launches": [
    {"for": "tensor", "kernel": "adamw_step", "grid": "ceil_div(ceil_div(n, 2), BLOCK)", "block": "BLOCK",
     "args": ["param", "grad", "exp_avg", "exp_avg_sq", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

__device__ void update(float& p, float g, float& m, float& v, const Hyper& h) {
  g /= h.grad_scale;
  m = h.beta1 * m + (1.0f - h.beta1) * g;
  v = h.beta2 * v + (1.0f - h.beta2) * g * g;
  p -= h.lr * (m / h.bias_correction1 / (sqrtf(v / h.bias_correction2) + h.eps) + h.weight_decay * p);
}

extern "C" __global__ void adamw_step(float* param, const float* grad, float* exp_avg, float* exp_avg_sq, long long n,
                                      const Hyper* hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const unsigned long long bits =
      reinterpret_cast<unsigned long long>(param) | reinterpret_cast<unsigned long long>(grad) |
      reinterpret_cast<unsigned long long>(exp_avg) | reinterpret_cast<unsigned long long>(exp_avg_sq);
  const long long i = 2 * ((long long)blockIdx.x * BLOCK + threadIdx.x);
  if ((bits & 7) == 0 && i + 1 < n) {
    float2 p = *reinterpret_cast<float2*>(param + i);
    const float2 g = *reinterpret_cast<const float2*>(grad + i);
    float2 m = *reinterpret_cast<float2*>(exp_avg + i);
    float2 v = *reinterpret_cast<float2*>(exp_avg_sq + i);
    update(p.x, g.x, m.x, v.x, h);
    update(p.y, g.y, m.y, v.y, h);
    *reinterpret_cast<float2*>(param + i) = p;
    *reinterpret_cast<float2*>(exp_avg + i) = m;
    *reinterpret_cast<float2*>(exp_avg_sq + i) = v;
    return;
  }
  for (long long k = i; k < n && k < i + 2; ++k) update(param[k], grad[k], exp_avg[k], exp_avg_sq[k], h);
}
