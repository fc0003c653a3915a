/*stepbench
{ "task": "adamw_bf16_sr_own", "note": "a uniform number is added to the fraction before rounding down; PCG hash",
  "launches": [
    {"for": "tensor", "kernel": "adamw_step", "grid": "ceil_div(n, 256)", "block": "256",
     "args": ["param", "grad", "exp_avg", "exp_avg_sq", "n", "index", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

// PCG output permutation as a hash (O'Neill, "PCG", 2014; as a hash: Jarzynski, Olano, JCGT 2020).
__device__ unsigned hashed(unsigned x) {
  const unsigned state = x * 747796405u + 2891336453u;
  const unsigned word = ((state >> ((state >> 28) + 4u)) ^ state) * 277803737u;
  return (word >> 22) ^ word;
}

extern "C" __global__ void adamw_step(unsigned short* param, const unsigned short* grad, float* exp_avg,
                                      float* exp_avg_sq, long long n, long long index, const Hyper* hyper) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || hyper->found_inf != 0) return;
  const float g = __uint_as_float((unsigned)grad[i] << 16) / hyper->grad_scale;
  const float p = __uint_as_float((unsigned)param[i] << 16);
  const float m = hyper->beta1 * exp_avg[i] + (1.0f - hyper->beta1) * g;
  const float v = hyper->beta2 * exp_avg_sq[i] + (1.0f - hyper->beta2) * g * g;
  const float u = m / hyper->bias_correction1 / (sqrtf(v / hyper->bias_correction2) + hyper->eps);
  const float x = p - hyper->lr * (u + hyper->weight_decay * p);
  const unsigned run = hashed(hashed((unsigned)hyper->seed) + hashed((unsigned)hyper->step * 2654435761u));
  const unsigned draw = hashed(hashed((unsigned)i + run) + hashed((unsigned)index ^ 0x5bd1e995u) + (unsigned)(i >> 32));
  const unsigned bits = __float_as_uint(x);
  const float fraction = (float)(bits & 0xffffu) * (1.0f / 65536.0f);
  const float uniform = (float)(draw >> 8) * (1.0f / 16777216.0f);
  param[i] = (unsigned short)((bits >> 16) + (unsigned)floorf(fraction + uniform));
  exp_avg[i] = m;
  exp_avg_sq[i] = v;
}
