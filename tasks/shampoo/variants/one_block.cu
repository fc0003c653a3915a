/*stepbench
{ "task": "shampoo", "note": "one block per matrix does everything; coupled Newton in device memory",
  "defines": {"BLOCK": 256, "ITERATIONS": 20},
  "scratch": {"work": "sum(5 * (rows*rows + cols*cols) + 2*n) * 4"},
  "launches": [
    {"for": "tensor", "kernel": "shampoo_step", "grid": "min(n, 1)", "block": "BLOCK",
     "args": ["param", "grad", "left_factor", "right_factor", "left_root", "right_root", "exp_avg", "exp_avg_sq",
              "scratch.work + prefix(5 * (rows*rows + cols*cols) + 2*n)*4", "rows", "cols", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

// Sum over the block, the same in every thread.
__device__ float block_sum(float value) {
  __shared__ float part[BLOCK];
  part[threadIdx.x] = value;
  __syncthreads();
  for (int half = BLOCK / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  const float sum = part[0];
  __syncthreads();
  return sum;
}

// c = a * b, a is rows x inner and b inner x cols; a barrier behind it.
__device__ void multiply(const float* a, const float* b, float* c, int rows, int inner, int cols) {
  for (int e = threadIdx.x; e < rows * cols; e += BLOCK) {
    const int i = e / cols, j = e % cols;
    float sum = 0.0f;
    for (int k = 0; k < inner; ++k) sum += a[i * inner + k] * b[k * cols + j];
    c[e] = sum;
  }
  __syncthreads();
}

// root = a^(-1/4), a = factor / correction + (matrix_eps * trace + 1e-12) I, by the coupled Newton iteration
//   X <- X N, M <- N^4 M with N = (5 I - M) / 4, from X = z^(1/4) I and M = z a, z = 5 / (2 |a|).
// M goes to I and X to a^(-1/4).
__device__ void inverse_fourth_root(const float* factor, float* root, float* work, int side, const Hyper& h) {
  const int count = side * side;
  float *m = work, *n = work + count, *n2 = work + 2 * count, *next = work + 3 * count, *n4 = work + 4 * count;
  float diagonal = 0.0f;
  for (int i = threadIdx.x; i < side; i += BLOCK) diagonal += factor[i * side + i] / h.factor_correction;
  const float damping = h.matrix_eps * block_sum(diagonal) + 1e-12f;
  float squares = 0.0f;
  for (int e = threadIdx.x; e < count; e += BLOCK) {
    const float a = factor[e] / h.factor_correction + (e % (side + 1) == 0 ? damping : 0.0f);
    m[e] = a;
    squares += a / damping * (a / damping);  // a alone may be as large as 1e20
  }
  const float z = 2.5f / (damping * sqrtf(block_sum(squares)));
  for (int e = threadIdx.x; e < count; e += BLOCK) {
    m[e] *= z;
    root[e] = e % (side + 1) == 0 ? sqrtf(sqrtf(z)) : 0.0f;
  }
  __syncthreads();
  for (int iteration = 0; iteration < ITERATIONS; ++iteration) {
    float off = 0.0f;
    for (int e = threadIdx.x; e < count; e += BLOCK) {
      const float identity = e % (side + 1) == 0 ? 1.0f : 0.0f;
      n[e] = 1.25f * identity - 0.25f * m[e];
      if (fabsf(m[e] - identity) > 1e-6f) off += 1.0f;
    }
    if (block_sum(off) == 0.0f) break;
    multiply(root, n, next, side, side, side);
    multiply(n, n, n2, side, side, side);
    multiply(n2, n2, n4, side, side, side);
    multiply(n4, m, n2, side, side, side);
    for (int e = threadIdx.x; e < count; e += BLOCK) {
      root[e] = next[e];
      m[e] = n2[e];
    }
    __syncthreads();
  }
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    shampoo_step(float* param, const float* grad, float* left_factor, float* right_factor, float* left_root,
                 float* right_root, float* exp_avg, float* exp_avg_sq, float* work, int rows, int cols,
                 const Hyper* hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const int n = rows * cols;
  const float unscale = 1.0f / h.grad_scale;
  for (int e = threadIdx.x; e < rows * rows; e += BLOCK) {
    const int i = e / rows, j = e % rows;
    float sum = 0.0f;
    for (int k = 0; k < cols; ++k) sum += grad[i * cols + k] * unscale * (grad[j * cols + k] * unscale);
    left_factor[e] = h.factor_beta * left_factor[e] + (1.0f - h.factor_beta) * sum;
  }
  for (int e = threadIdx.x; e < cols * cols; e += BLOCK) {
    const int i = e / cols, j = e % cols;
    float sum = 0.0f;
    for (int k = 0; k < rows; ++k) sum += grad[k * cols + i] * unscale * (grad[k * cols + j] * unscale);
    right_factor[e] = h.factor_beta * right_factor[e] + (1.0f - h.factor_beta) * sum;
  }
  float* const filtered = work + 5 * (rows * rows + cols * cols);
  float* const half = filtered + n;
  float graft_squares = 0.0f;
  for (int e = threadIdx.x; e < n; e += BLOCK) {
    const float g = grad[e] * unscale;
    const float m = h.beta1 * exp_avg[e] + (1.0f - h.beta1) * g;
    const float v = h.beta2 * exp_avg_sq[e] + (1.0f - h.beta2) * g * g;
    exp_avg[e] = m;
    exp_avg_sq[e] = v;
    filtered[e] = m / h.bias_correction1;
    const float graft = filtered[e] / (sqrtf(v / h.bias_correction2) + h.eps);
    graft_squares += graft * graft;
  }
  const float graft_norm = sqrtf(block_sum(graft_squares));

  inverse_fourth_root(left_factor, left_root, work, rows, h);
  inverse_fourth_root(right_factor, right_root, work + 5 * rows * rows, cols, h);

  multiply(left_root, filtered, half, rows, rows, cols);
  multiply(half, right_root, filtered, rows, cols, cols);
  float squares = 0.0f;
  for (int e = threadIdx.x; e < n; e += BLOCK) squares += filtered[e] * filtered[e];
  const float ratio = graft_norm / (sqrtf(block_sum(squares)) + 1e-16f);
  for (int e = threadIdx.x; e < n; e += BLOCK)
    param[e] = param[e] * (1.0f - h.lr * h.weight_decay) - h.lr * (ratio * filtered[e]);
}
