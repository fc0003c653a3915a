/*stepbench
{ "task": "adamw_bf16_sr", "note": "one thread for the eight elements of a counter, PyTorch's order of operations",
  "launches": [
    {"for": "tensor", "kernel": "adamw_step", "grid": "ceil_div(ceil_div(n, 8), 128)", "block": "128",
     "args": ["param", "grad", "exp_avg", "exp_avg_sq", "n", "index", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void adamw_step(unsigned short* param, const unsigned short* grad, float* exp_avg,
                                      float* exp_avg_sq, long long n, int index, const Hyper* hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const unsigned long long group = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
  unsigned x = (unsigned)group, y = (unsigned)(group >> 32), z = (unsigned)index, w = (unsigned)h.step;
  unsigned key0 = (unsigned)h.seed, key1 = 0;
  for (int round = 0; round < 10; ++round) {
    const unsigned high0 = __umulhi(0xD2511F53u, x), high1 = __umulhi(0xCD9E8D57u, z);
    const unsigned low0 = 0xD2511F53u * x, low1 = 0xCD9E8D57u * z;
    x = high1 ^ y ^ key0;
    y = low1;
    z = high0 ^ w ^ key1;
    w = low0;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  const unsigned words[4] = {x, y, z, w};
  const float factor = 1.0f - h.lr * h.weight_decay, root_correction2 = sqrtf(h.bias_correction2);
#pragma unroll
  for (int lane = 0; lane < 8; ++lane) {
    const long long i = (long long)group * 8 + lane;
    if (i >= n) return;
    const float g = __uint_as_float((unsigned)grad[i] << 16) / h.grad_scale;
    float p = __uint_as_float((unsigned)param[i] << 16) * factor;
    const float m = exp_avg[i] + (1.0f - h.beta1) * (g - exp_avg[i]);
    const float v = exp_avg_sq[i] * h.beta2 + (1.0f - h.beta2) * (g * g);
    p -= h.step_size * (m / (sqrtf(v) / root_correction2 + h.eps));
    const unsigned draw = (lane & 1) != 0 ? words[lane / 2] >> 16 : words[lane / 2] & 0xffffu;
    param[i] = (unsigned short)((__float_as_uint(p) + draw) >> 16);
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
  }
}
