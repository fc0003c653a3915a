/*stepbench
{ "task": "adamw_bf16_states", "note": "PyTorch's order with powf corrections; rounds by integer arithmetic",
  "launches": [
    {"for": "tensor", "kernel": "adamw_step", "grid": "ceil_div(n, 512)", "block": "512",
     "args": ["param", "grad", "exp_avg", "exp_avg_sq", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

__device__ float widened(unsigned short half) { return __uint_as_float((unsigned)half << 16); }

// To nearest, ties to even: half a unit less one, and one more where the last bit that stays is odd.
__device__ unsigned short rounded(float value) {
  const unsigned bits = __float_as_uint(value);
  return (unsigned short)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

extern "C" __global__ void adamw_step(float* param, const float* grad, unsigned short* exp_avg,
                                      unsigned short* exp_avg_sq, long long n, const Hyper* hyper) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || hyper->found_inf != 0) return;
  const float bias_correction1 = 1.0f - powf(hyper->beta1, (float)hyper->step);
  const float root_correction2 = sqrtf(1.0f - powf(hyper->beta2, (float)hyper->step));
  const float g = grad[i] / hyper->grad_scale;
  float p = param[i] * (1.0f - hyper->lr * hyper->weight_decay);
  const float old_m = widened(exp_avg[i]);
  const float m = old_m + (1.0f - hyper->beta1) * (g - old_m);
  const float v = widened(exp_avg_sq[i]) * hyper->beta2 + (1.0f - hyper->beta2) * (g * g);
  p -= hyper->lr / bias_correction1 * (m / (sqrtf(v) / root_correction2 + hyper->eps));
  param[i] = p;
  exp_avg[i] = rounded(m);
  exp_avg_sq[i] = rounded(v);
}
