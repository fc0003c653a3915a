/*stepbench
{ "task": "adamw_8bit", "note": "64 threads per block, four neighbours each; every operation rounded by itself",
  "launches": [
    {"for": "tensor", "kernel": "adamw_step", "grid": "ceil_div(n, 256)", "block": "64",
     "args": ["param", "grad", "exp_avg", "exp_avg_scale", "exp_avg_sq", "exp_avg_sq_scale", "n", "hyper.value"]}
  ] }
*/
#include <stepbench.cuh>

__device__ float map_value(int code, bool is_signed) {
  if (code == 255) return 1.0f;
  if (code == (is_signed ? 127 : 0)) return 0.0f;
  const int k = is_signed ? abs(code - 127) : code + 1, octave = 31 - __clz(k), parts = 1 << octave;
  double value = 0.1 + 0.9 * (k - parts + 0.5) / parts;
  for (int i = octave - (is_signed ? 0 : 1); i < 6; ++i) value *= 0.1;
  return (float)(is_signed && code < 127 ? -value : value);
}

__device__ int nearest(const float* map, float y) {
  int low = 0, high = 255;
  while (high - low > 1) {
    const int middle = (low + high) >> 1;
    if (y < map[middle])
      high = middle;
    else
      low = middle;
  }
  return y - map[low] <= map[high] - y ? low : high;
}

extern "C" __global__ void adamw_step(__nv_bfloat16* param, const __nv_bfloat16* grad, uint8_t* exp_avg,
                                      float* exp_avg_scale, uint8_t* exp_avg_sq, float* exp_avg_sq_scale, long long n,
                                      Hyper h) {
  __shared__ float maps[2][256], most[2][64];
  if (h.found_inf != 0) return;
  for (int code = threadIdx.x; code < 512; code += 64) maps[code / 256][code % 256] = map_value(code % 256, code < 256);
  __syncthreads();
  const long long block = blockIdx.x, begin = block * 256 + threadIdx.x * 4, end = min(begin + 4, n);
  float m[4] = {}, v[4] = {};
  most[0][threadIdx.x] = most[1][threadIdx.x] = 0.0f;
  for (long long i = begin; i < end; ++i) {
    const int k = (int)(i - begin);
    const float p = __bfloat162float(param[i]), g = __fdiv_rn(__bfloat162float(grad[i]), h.grad_scale);
    const float old_m = __fmul_rn(maps[0][exp_avg[i]], exp_avg_scale[block]);
    const float old_v = __fmul_rn(maps[1][exp_avg_sq[i]], exp_avg_sq_scale[block]);
    m[k] = __fadd_rn(__fmul_rn(h.beta1, old_m), __fmul_rn(1.0f - h.beta1, g));
    v[k] = __fadd_rn(__fmul_rn(h.beta2, old_v), __fmul_rn(__fmul_rn(1.0f - h.beta2, g), g));
    const float root = __fsqrt_rn(__fdiv_rn(v[k], h.bias_correction2));
    const float ratio = __fdiv_rn(__fdiv_rn(m[k], h.bias_correction1), __fadd_rn(root, h.eps));
    param[i] = __float2bfloat16_rn(__fsub_rn(p, __fmul_rn(h.lr, __fadd_rn(ratio, __fmul_rn(h.weight_decay, p)))));
    most[0][threadIdx.x] = fmaxf(most[0][threadIdx.x], fabsf(m[k]));
    most[1][threadIdx.x] = fmaxf(most[1][threadIdx.x], v[k]);
  }
  __syncthreads();
  for (int half = 32; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      most[0][threadIdx.x] = fmaxf(most[0][threadIdx.x], most[0][threadIdx.x + half]);
      most[1][threadIdx.x] = fmaxf(most[1][threadIdx.x], most[1][threadIdx.x + half]);
    }
    __syncthreads();
  }
  for (long long i = begin; i < end; ++i) {
    const int k = (int)(i - begin);
    exp_avg[i] = (uint8_t)(most[0][0] > 0.0f ? nearest(maps[0], __fdiv_rn(m[k], most[0][0])) : 127);
    exp_avg_sq[i] = (uint8_t)(most[1][0] > 0.0f ? nearest(maps[1], __fdiv_rn(v[k], most[1][0])) : 0);
  }
  if (threadIdx.x == 0) {
    exp_avg_scale[block] = most[0][0];
    exp_avg_sq_scale[block] = most[1][0];
  }
}
