/*stepbench
{ "task": "adamw_bf16_sr", "note": "one element per thread and turn, in the order of the task's text",
  "defines": {"BLOCK": 256},
  "launches": [
    {"for": "tensor", "kernel": "adamw_step", "grid": "min(ceil_div(n, BLOCK), sms*16)", "block": "BLOCK",
     "args": ["param", "grad", "exp_avg", "exp_avg_sq", "n", "index", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

// Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011): 128 random bits per counter and key.
__device__ __forceinline__ uint4 philox(uint4 counter, uint2 key) {
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const unsigned high0 = __umulhi(0xD2511F53u, counter.x), low0 = 0xD2511F53u * counter.x;
    const unsigned high1 = __umulhi(0xCD9E8D57u, counter.z), low1 = 0xCD9E8D57u * counter.z;
    counter = make_uint4(high1 ^ counter.y ^ key.x, low1, high0 ^ counter.w ^ key.y, low0);
    key.x += 0x9E3779B9u;
    key.y += 0xBB67AE85u;
  }
  return counter;
}

extern "C" __global__ void adamw_step(uint16_t* __restrict__ param, const __nv_bfloat16* __restrict__ grad,
                                      float* __restrict__ exp_avg, float* __restrict__ exp_avg_sq, long long n,
                                      long long index, const Hyper* __restrict__ hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    const float p = __uint_as_float((unsigned)param[i] << 16);
    const float g = __bfloat162float(grad[i]) / h.grad_scale;
    const float m = h.beta1 * exp_avg[i] + (1.0f - h.beta1) * g;
    const float old_v = exp_avg_sq[i];
    const float v = h.beta2 * old_v + (1.0f - h.beta2) * g * g;
    const float denominator = sqrtf(v / h.bias_correction2) + h.eps;
    const float u = m / h.bias_correction1 / denominator + h.weight_decay * p;
    const uint4 counter = make_uint4((unsigned)(i / 8), (unsigned)(i / 8 >> 32), (unsigned)index, (unsigned)h.step);
    const uint4 words = philox(counter, make_uint2((unsigned)h.seed, 0));
    const unsigned lane = (unsigned)i % 8;
    const unsigned word = lane < 4 ? (lane < 2 ? words.x : words.y) : (lane < 6 ? words.z : words.w);
    const unsigned draw = word >> (lane % 2 * 16) & 0xffffu;
    const float x = p - h.lr * u;
    param[i] = (uint16_t)((__float_as_uint(x) + draw) >> 16);
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
  }
}
