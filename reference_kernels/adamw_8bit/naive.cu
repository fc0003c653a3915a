/*stepbench
{ "task": "adamw_8bit", "note": "256 threads for a block of 256 codes; maps in shared memory, searched by bisection",
  "launches": [
    {"for": "tensor", "kernel": "adamw_step", "grid": "min(ceil_div(n, 256), sms*8)", "block": "256",
     "args": ["param", "grad", "exp_avg", "exp_avg_scale", "exp_avg_sq", "exp_avg_sq_scale", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

__constant__ const double kUpperEnd[7] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};

// The k-th positive value of a map, k from 1: decade i = floor(log2 k) - finer has 2^(i + finer) equal parts.
__device__ float positive_value(int k, int finer) {
  const int octave = 31 - __clz(k), parts = 1 << octave;
  return (float)(kUpperEnd[octave - finer] * (0.1 + 0.9 * (k - parts + 0.5) / parts));
}

__device__ float signed_value(int code) {
  if (code == 255) return 1.0f;
  if (code == 127) return 0.0f;
  return code > 127 ? positive_value(code - 127, 0) : -positive_value(127 - code, 0);
}

__device__ float unsigned_value(int code) {
  if (code == 255) return 1.0f;
  return code == 0 ? 0.0f : positive_value(code + 1, 1);
}

// The code of the value nearest to y.
__device__ int nearest(const float* map, float y) {
  int low = 0, high = 255;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (map[middle] <= y)
      low = middle;
    else
      high = middle;
  }
  return map[high] - y < y - map[low] ? high : low;
}

// The largest of the 256 threads' values, in all of them.
__device__ float block_max(float value, float* scratch) {
  for (int lanes = 16; lanes > 0; lanes /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, lanes));
  __syncthreads();  // the scratch of the call before has been read
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  value = scratch[0];
  for (int warp = 1; warp < 8; ++warp) value = fmaxf(value, scratch[warp]);
  return value;
}

extern "C" __global__ void __launch_bounds__(256)
    adamw_step(__nv_bfloat16* __restrict__ param, const __nv_bfloat16* __restrict__ grad,
               uint8_t* __restrict__ exp_avg, float* __restrict__ exp_avg_scale, uint8_t* __restrict__ exp_avg_sq,
               float* __restrict__ exp_avg_sq_scale, long long n, const Hyper* __restrict__ hyper) {
  __shared__ float signed_map[256], unsigned_map[256], scratch[8];
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  signed_map[threadIdx.x] = signed_value(threadIdx.x);
  unsigned_map[threadIdx.x] = unsigned_value(threadIdx.x);
  __syncthreads();
  for (long long block = blockIdx.x; block * 256 < n; block += gridDim.x) {
    const long long i = block * 256 + threadIdx.x;
    float m = 0.0f, v = 0.0f;
    if (i < n) {
      const float p = __bfloat162float(param[i]);
      const float g = __bfloat162float(grad[i]) / h.grad_scale;
      const float old_v = unsigned_map[exp_avg_sq[i]] * exp_avg_sq_scale[block];
      m = h.beta1 * (signed_map[exp_avg[i]] * exp_avg_scale[block]) + (1.0f - h.beta1) * g;
      v = h.beta2 * old_v + (1.0f - h.beta2) * g * g;
      const float denominator = sqrtf(v / h.bias_correction2) + h.eps;
      const float u = m / h.bias_correction1 / denominator + h.weight_decay * p;
      param[i] = __float2bfloat16_rn(p - h.lr * u);
    }
    const float m_max = block_max(fabsf(m), scratch);
    const float v_max = block_max(v, scratch);
    if (i < n) {
      exp_avg[i] = (uint8_t)(m_max > 0.0f ? nearest(signed_map, m / m_max) : 127);
      exp_avg_sq[i] = (uint8_t)(v_max > 0.0f ? nearest(unsigned_map, v / v_max) : 0);
    }
    if (threadIdx.x == 0) {
      exp_avg_scale[block] = m_max;
      exp_avg_sq_scale[block] = v_max;
    }
  }
}
