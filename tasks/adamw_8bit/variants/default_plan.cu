// A candidate without a plan: one kernel with the task's default arguments, 256 threads per block of codes. Codes are
// found among the boundaries between values; the maximum is taken by atomics on the patterns of positive numbers.
#include <stepbench.cuh>

__device__ float positive(int k, int finer) {
  const int octave = 31 - __clz(k), parts = 1 << octave;
  const double ends[7] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0};
  return (float)(ends[octave - finer] * (0.1 + 0.9 * (k - parts + 0.5) / parts));
}

// How many boundaries lie below y.
__device__ int code_of(const float* boundary, float y) {
  int code = 0;
  for (int step = 128; step > 0; step /= 2) {
    if (code + step <= 255 && boundary[code + step - 1] < y) code += step;
  }
  return code;
}

__global__ void adamw(__nv_bfloat16* param, const __nv_bfloat16* grad, uint8_t* exp_avg, float* exp_avg_scale,
                      uint8_t* exp_avg_sq, float* exp_avg_sq_scale, long long n, const Hyper* hyper) {
  __shared__ float signed_map[256], unsigned_map[256], signed_boundary[256], unsigned_boundary[256];
  __shared__ unsigned most[2];
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const int t = threadIdx.x;
  signed_map[t] = t == 255 ? 1.0f : t > 127 ? positive(t - 127, 0) : t < 127 ? -positive(127 - t, 0) : 0.0f;
  unsigned_map[t] = t == 255 ? 1.0f : t > 0 ? positive(t + 1, 1) : 0.0f;
  if (t < 2) most[t] = 0;
  __syncthreads();
  if (t < 255) {
    signed_boundary[t] = 0.5f * (signed_map[t] + signed_map[t + 1]);
    unsigned_boundary[t] = 0.5f * (unsigned_map[t] + unsigned_map[t + 1]);
  }
  const long long i = (long long)blockIdx.x * 256 + t;
  float m = 0.0f, v = 0.0f;
  if (i < n) {
    const float p = float(param[i]), g = float(grad[i]) / h.grad_scale;
    m = h.beta1 * (signed_map[exp_avg[i]] * exp_avg_scale[blockIdx.x]) + (1.0f - h.beta1) * g;
    v = h.beta2 * (unsigned_map[exp_avg_sq[i]] * exp_avg_sq_scale[blockIdx.x]) + (1.0f - h.beta2) * g * g;
    const float u = m / h.bias_correction1 / (sqrtf(v / h.bias_correction2) + h.eps) + h.weight_decay * p;
    param[i] = __float2bfloat16(p - h.lr * u);
    atomicMax(&most[0], __float_as_uint(fabsf(m)));
    atomicMax(&most[1], __float_as_uint(v));
  }
  __syncthreads();
  const float m_most = __uint_as_float(most[0]), v_most = __uint_as_float(most[1]);
  if (i < n) {
    exp_avg[i] = (uint8_t)code_of(signed_boundary, m_most > 0.0f ? m / m_most : 0.0f);
    exp_avg_sq[i] = (uint8_t)code_of(unsigned_boundary, v_most > 0.0f ? v / v_most : 0.0f);
  }
  if (t == 0) {
    exp_avg_scale[blockIdx.x] = m_most;
    exp_avg_sq_scale[blockIdx.x] = v_most;
  }
}
