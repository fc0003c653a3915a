/*stepbench
{ "task": "soap_fixed_basis", "note": "one element of the result per thread, four products in the order of the text",
  "defines": {"BLOCK": 128},
  "scratch": {"half": "max(n) * 4", "normalized": "max(n) * 4"},
  "launches": [
    {"for": "tensor", "launches": [
      {"kernel": "times_right_basis", "grid": "ceil_div(n, BLOCK)", "block": "BLOCK",
       "args": ["grad", "basis_right", "scratch.half", "rows", "cols", "hyper"]},
      {"kernel": "rotate_and_average", "grid": "ceil_div(n, BLOCK)", "block": "BLOCK",
       "args": ["basis_left", "scratch.half", "exp_avg", "exp_avg_sq", "scratch.normalized", "rows", "cols", "hyper"]},
      {"kernel": "times_left_basis", "grid": "ceil_div(n, BLOCK)", "block": "BLOCK",
       "args": ["basis_left", "scratch.normalized", "scratch.half", "rows", "cols", "hyper"]},
      {"kernel": "rotate_back_and_step", "grid": "ceil_div(n, BLOCK)", "block": "BLOCK",
       "args": ["scratch.half", "basis_right", "param", "rows", "cols", "hyper"]}
    ]}
  ] }
*/
#include <stepbench.cuh>

// half = (grad / grad_scale) * basis_right
extern "C" __global__ void times_right_basis(const float* __restrict__ grad, const float* __restrict__ basis_right,
                                             float* __restrict__ half, long long rows, long long cols,
                                             const Hyper* __restrict__ hyper) {
  if (hyper->found_inf != 0) return;
  const long long e = (long long)blockIdx.x * BLOCK + threadIdx.x;
  if (e >= rows * cols) return;
  const long long i = e / cols, j = e % cols;
  float sum = 0.0f;
  for (long long k = 0; k < cols; ++k) sum += grad[i * cols + k] * basis_right[k * cols + j];
  half[e] = sum / hyper->grad_scale;
}

// g = basis_left^T * half; averages of it, and what Adam makes of them.
extern "C" __global__ void rotate_and_average(const float* __restrict__ basis_left, const float* __restrict__ half,
                                              float* __restrict__ exp_avg, float* __restrict__ exp_avg_sq,
                                              float* __restrict__ normalized, long long rows, long long cols,
                                              const Hyper* __restrict__ hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const long long e = (long long)blockIdx.x * BLOCK + threadIdx.x;
  if (e >= rows * cols) return;
  const long long i = e / cols, j = e % cols;
  float g = 0.0f;
  for (long long k = 0; k < rows; ++k) g += basis_left[k * rows + i] * half[k * cols + j];
  const float m = h.beta1 * exp_avg[e] + (1.0f - h.beta1) * g;
  const float v = h.beta2 * exp_avg_sq[e] + (1.0f - h.beta2) * g * g;
  exp_avg[e] = m;
  exp_avg_sq[e] = v;
  normalized[e] = m / h.bias_correction1 / (sqrtf(v / h.bias_correction2) + h.eps);
}

// half = basis_left * normalized
extern "C" __global__ void times_left_basis(const float* __restrict__ basis_left, const float* __restrict__ normalized,
                                            float* __restrict__ half, long long rows, long long cols,
                                            const Hyper* __restrict__ hyper) {
  if (hyper->found_inf != 0) return;
  const long long e = (long long)blockIdx.x * BLOCK + threadIdx.x;
  if (e >= rows * cols) return;
  const long long i = e / cols, j = e % cols;
  float sum = 0.0f;
  for (long long k = 0; k < rows; ++k) sum += basis_left[i * rows + k] * normalized[k * cols + j];
  half[e] = sum;
}

// u = half * basis_right^T, and the step.
extern "C" __global__ void rotate_back_and_step(const float* __restrict__ half, const float* __restrict__ basis_right,
                                                float* __restrict__ param, long long rows, long long cols,
                                                const Hyper* __restrict__ hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const long long e = (long long)blockIdx.x * BLOCK + threadIdx.x;
  if (e >= rows * cols) return;
  const long long i = e / cols, j = e % cols;
  float u = 0.0f;
  for (long long k = 0; k < cols; ++k) u += half[i * cols + k] * basis_right[j * cols + k];
  const float p = param[e];
  param[e] = p * (1.0f - h.lr * h.weight_decay) - h.lr * u;
}
