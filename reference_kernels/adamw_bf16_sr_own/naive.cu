/*stepbench
{ "task": "adamw_bf16_sr_own", "note": "one element per thread and turn, in the order of the task's text",
  "defines": {"BLOCK": 256},
  "launches": [
    {"for": "tensor", "kernel": "adamw_step", "grid": "min(ceil_div(n, BLOCK), sms*16)", "block": "BLOCK",
     "args": ["param", "grad", "exp_avg", "exp_avg_sq", "n", "index", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

// Sixteen random bits that depend on seed, step, tensor and element: three rounds of a 64-bit finaliser (SplitMix64:
// Steele, Lea, Flood, OOPSLA 2014).
__device__ __forceinline__ unsigned long long mixed(unsigned long long x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}
__device__ __forceinline__ unsigned random16(const Hyper& h, long long tensor, long long element) {
  const unsigned long long run = mixed(((unsigned long long)(unsigned)h.seed << 32) | (unsigned)h.step);
  return (unsigned)(mixed(mixed(run + (unsigned long long)tensor) + (unsigned long long)element) >> 48);
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
    const unsigned draw = random16(h, index, i);
    const float x = p - h.lr * u;
    param[i] = (uint16_t)((__float_as_uint(x) + draw) >> 16);
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
  }
}
