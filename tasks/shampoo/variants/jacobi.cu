/*stepbench
{ "task": "shampoo", "note": "one block per matrix does everything; eigenvalues by Jacobi rotations",
  "defines": {"BLOCK": 64, "SWEEPS": 10},
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

// root = a^(-1/4) by cyclic Jacobi rotations: a becomes diagonal and v holds the eigenvectors in its columns (Golub and
// Van Loan, "Matrix Computations", section 8.5).
__device__ void inverse_fourth_root(const float* factor, float* root, float* work, int side, const Hyper& h) {
  const int count = side * side;
  float *a = work, *v = work + count;
  float diagonal = 0.0f;
  for (int i = threadIdx.x; i < side; i += BLOCK) diagonal += factor[i * side + i] / h.factor_correction;
  const float damping = h.matrix_eps * block_sum(diagonal) + 1e-12f;
  for (int e = threadIdx.x; e < count; e += BLOCK) {
    const bool on_diagonal = e % (side + 1) == 0;
    a[e] = factor[e] / h.factor_correction + (on_diagonal ? damping : 0.0f);
    v[e] = on_diagonal ? 1.0f : 0.0f;
  }
  __syncthreads();
  for (int sweep = 0; sweep < SWEEPS; ++sweep) {
    for (int p = 0; p < side; ++p) {
      for (int q = p + 1; q < side; ++q) {
        const float off = a[p * side + q], app = a[p * side + p], aqq = a[q * side + q];
        __syncthreads();
        if (fabsf(off) <= 1e-9f * sqrtf(app * aqq)) continue;  // the same in every thread
        const float tau = (aqq - app) / (2.0f * off);
        const float t = (tau < 0.0f ? -1.0f : 1.0f) / (fabsf(tau) + sqrtf(1.0f + tau * tau));
        const float c = 1.0f / sqrtf(1.0f + t * t), s = t * c;
        for (int k = threadIdx.x; k < side; k += BLOCK) {
          const float x = v[k * side + p], y = v[k * side + q];
          v[k * side + p] = c * x - s * y;
          v[k * side + q] = s * x + c * y;
          if (k == p || k == q) continue;
          const float ap = a[k * side + p], aq = a[k * side + q];
          a[k * side + p] = a[p * side + k] = c * ap - s * aq;
          a[k * side + q] = a[q * side + k] = s * ap + c * aq;
        }
        if (threadIdx.x == 0) {
          a[p * side + p] = app - t * off;
          a[q * side + q] = aqq + t * off;
          a[p * side + q] = a[q * side + p] = 0.0f;
        }
        __syncthreads();
      }
    }
  }
  for (int e = threadIdx.x; e < count; e += BLOCK) {
    const int i = e / side, j = e % side;
    float sum = 0.0f;
    for (int k = 0; k < side; ++k) sum += v[i * side + k] * v[j * side + k] / sqrtf(sqrtf(a[k * side + k]));
    root[e] = sum;
  }
  __syncthreads();
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
