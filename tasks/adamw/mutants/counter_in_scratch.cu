/*stepbench
{ "task": "adamw", "note": "wrong: counts its steps in scratch memory, which is poisoned before every step",
  "defines": {"BLOCK": 256},
  "scratch": {"counter": "4"},
  "launches": [
    {"for": "tensor", "kernel": "adamw_step", "grid": "ceil_div(n, BLOCK)", "block": "BLOCK",
     "args": ["param", "grad", "exp_avg", "exp_avg_sq", "n", "hyper", "scratch.counter"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void adamw_step(float* param, const float* grad, float* exp_avg, float* exp_avg_sq, long long n,
                                      const Hyper* hyper, int* counter) {
  const Hyper h = *hyper;
  const long long i = (long long)blockIdx.x * BLOCK + threadIdx.x;
  if (i >= n || h.found_inf != 0) return;
  const float t = (float)(*counter + 1);
  const float g = grad[i] / h.grad_scale;
  const float m = h.beta1 * exp_avg[i] + (1.0f - h.beta1) * g;
  const float v = h.beta2 * exp_avg_sq[i] + (1.0f - h.beta2) * g * g;
  const float m_hat = m / (1.0f - powf(h.beta1, t)), v_hat = v / (1.0f - powf(h.beta2, t));
  param[i] -= h.lr * (m_hat / (sqrtf(v_hat) + h.eps) + h.weight_decay * param[i]);
  exp_avg[i] = m;
  exp_avg_sq[i] = v;
}
