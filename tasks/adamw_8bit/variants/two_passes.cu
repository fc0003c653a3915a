/*stepbench
{ "task": "adamw_8bit", "note": "moments go through scratch memory: a pass that updates, a pass that quantises",
  "scratch": {"first": "4 * total", "second": "4 * total"},
  "launches": [
    {"for": "tensor", "kernel": "update", "grid": "ceil_div(n, 128)", "block": "128",
     "args": ["param", "grad", "exp_avg", "exp_avg_scale", "exp_avg_sq", "exp_avg_sq_scale",
              "scratch.first + prefix(n) * 4", "scratch.second + prefix(n) * 4", "n", "hyper"]},
    {"for": "tensor", "kernel": "quantise<0>", "grid": "ceil_div(n, 256)", "block": "32",
     "args": ["exp_avg", "exp_avg_scale", "scratch.first + prefix(n) * 4", "n", "hyper"]},
    {"for": "tensor", "kernel": "quantise<1>", "grid": "ceil_div(n, 256)", "block": "32",
     "args": ["exp_avg_sq", "exp_avg_sq_scale", "scratch.second + prefix(n) * 4", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

// Value of a code of the signed (0) or unsigned (1) map, by arithmetic alone.
template <int kFiner>
__device__ float value_of(int code) {
  const int number = kFiner == 0 ? code - 127 : code + 1, k = abs(number);
  if (code == 255) return 1.0f;
  if (code == (kFiner == 0 ? 127 : 0)) return 0.0f;
  const int octave = 31 - __clz(k);
  float upper_end = 1.0f;
  for (int i = octave - kFiner; i < 6; ++i) upper_end *= 0.1f;
  const float value = upper_end * (0.1f + 0.9f * (((float)k + 0.5f) / (float)(1 << octave) - 1.0f));
  return number < 0 ? -value : value;
}

__global__ void update(__nv_bfloat16* param, const __nv_bfloat16* grad, const uint8_t* exp_avg,
                       const float* exp_avg_scale, const uint8_t* exp_avg_sq, const float* exp_avg_sq_scale,
                       float* first, float* second, long long n, const Hyper* hyper) {
  const Hyper h = *hyper;
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || h.found_inf != 0) return;
  const float g = __bfloat162float(grad[i]) / h.grad_scale, p = __bfloat162float(param[i]);
  const float old_m = value_of<0>(exp_avg[i]) * exp_avg_scale[i / 256];
  const float m = old_m + (1.0f - h.beta1) * (g - old_m);
  const float v = value_of<1>(exp_avg_sq[i]) * exp_avg_sq_scale[i / 256] * h.beta2 + (1.0f - h.beta2) * (g * g);
  const float bias_correction1 = 1.0f - powf(h.beta1, (float)h.step);
  const float root_correction2 = sqrtf(1.0f - powf(h.beta2, (float)h.step));
  const float moved = p * (1.0f - h.lr * h.weight_decay) -
                      h.lr / bias_correction1 * (m / (sqrtf(v) / root_correction2 + h.eps));
  param[i] = __float2bfloat16_rn(moved);
  first[i] = m;
  second[i] = v;
}

template <int kFiner>
__global__ void quantise(uint8_t* codes, float* scales, const float* values, long long n, const Hyper* hyper) {
  if (hyper->found_inf != 0) return;
  const long long begin = (long long)blockIdx.x * 256, end = min(begin + 256, n);
  float most = 0.0f;
  for (long long i = begin + threadIdx.x; i < end; i += 32) most = fmaxf(most, fabsf(values[i]));
  for (int lanes = 1; lanes < 32; lanes *= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, lanes));
  if (threadIdx.x == 0) scales[blockIdx.x] = most;
  for (long long i = begin + threadIdx.x; i < end; i += 32) {
    const float y = most > 0.0f ? values[i] / most : 0.0f;
    int low = 0, high = 255;  // values around y
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (value_of<kFiner>(middle) <= y ? low : high) = middle;
    }
    codes[i] = (uint8_t)(value_of<kFiner>(high) - y <= y - value_of<kFiner>(low) ? high : low);
  }
}
