/*stepbench
{ "task": "adamw_bf16_master", "note": "PyTorch's order with powf corrections; rounds by integer arithmetic",
  "launches": [
    {"for": "tensor", "kernel": "adamw_step", "grid": "ceil_div(n, 512)", "block": "512",
     "args": ["param", "grad", "master", "exp_avg", "exp_avg_sq", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

// To nearest, ties to even: half a unit less one, and one more where the last bit that stays is odd.
__device__ unsigned short rounded(float value) {
  const unsigned bits = __float_as_uint(value);
  return (unsigned short)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

extern "C" __global__ void adamw_step(unsigned short* param, const unsigned short* grad, float* master, float* exp_avg,
                                      float* exp_avg_sq, long long n, const Hyper* hyper) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || hyper->found_inf != 0) return;
  const float bias_correction1 = 1.0f - powf(hyper->beta1, (float)hyper->step);
  const float root_correction2 = sqrtf(1.0f - powf(hyper->beta2, (float)hyper->step));
  const float g = __uint_as_float((unsigned)grad[i] << 16) / hyper->grad_scale;
  float p = master[i] * (1.0f - hyper->lr * hyper->weight_decay);
  const float m = exp_avg[i] + (1.0f - hyper->beta1) * (g - exp_avg[i]);
  const float v = exp_avg_sq[i] * hyper->beta2 + (1.0f - hyper->beta2) * (g * g);
  p -= hyper->lr / bias_correction1 * (m / (sqrtf(v) / root_correction2 + hyper->eps));
  master[i] = p;
  param[i] = rounded(p);
  exp_avg[i] = m;
  exp_avg_sq[i] = v;
}
