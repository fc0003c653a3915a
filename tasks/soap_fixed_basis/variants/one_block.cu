/*stepbench
{ "task": "soap_fixed_basis", "note": "one block for each matrix; left basis first going in, right one coming back",
  "scratch": {"half": "sum(n) * 4", "normalized": "sum(n) * 4"},
  "launches": [
    {"for": "tensor", "kernel": "soap_step", "grid": "min(n, 1)", "block": "256",
     "args": ["param", "grad", "basis_left", "basis_right", "exp_avg", "exp_avg_sq", "scratch.half + prefix(n)*4",
              "scratch.normalized + prefix(n)*4", "rows", "cols", "hyper.value"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void soap_step(float* param, const float* grad, const float* basis_left, const float* basis_right,
                                     float* exp_avg, float* exp_avg_sq, float* half, float* normalized, int rows,
                                     int cols, Hyper h) {
  if (h.found_inf != 0) return;
  const int n = rows * cols;
  for (int e = threadIdx.x; e < n; e += blockDim.x) {
    const int i = e / cols, j = e % cols;
    float sum = 0.0f;
    for (int k = 0; k < rows; ++k) sum = fmaf(basis_left[k * rows + i], grad[k * cols + j], sum);
    half[e] = sum / h.grad_scale;
  }
  __syncthreads();
  const float step = rsqrtf(h.bias_correction2);
  for (int e = threadIdx.x; e < n; e += blockDim.x) {
    const int i = e / cols, j = e % cols;
    double g = 0;
    for (int k = 0; k < cols; ++k) g += (double)half[i * cols + k] * (double)basis_right[k * cols + j];
    const float m = exp_avg[e] + (1.0f - h.beta1) * ((float)g - exp_avg[e]);
    const float v = exp_avg_sq[e] - (1.0f - h.beta2) * exp_avg_sq[e] + (1.0f - h.beta2) * (float)(g * g);
    exp_avg[e] = m;
    exp_avg_sq[e] = v;
    normalized[e] = m / h.bias_correction1 / (sqrtf(v) * step + h.eps);
  }
  __syncthreads();
  for (int e = threadIdx.x; e < n; e += blockDim.x) {
    const int i = e / cols, j = e % cols;
    float sum = 0.0f;
    for (int k = 0; k < cols; ++k) sum = fmaf(normalized[i * cols + k], basis_right[j * cols + k], sum);
    half[e] = sum;
  }
  __syncthreads();
  for (int e = threadIdx.x; e < n; e += blockDim.x) {
    const int i = e / cols, j = e % cols;
    float u = 0.0f;
    for (int k = 0; k < rows; ++k) u = fmaf(basis_left[i * rows + k], half[k * cols + j], u);
    param[e] = param[e] * (1.0f - h.lr * h.weight_decay) - h.lr * u;
  }
}
