/*stepbench
{ "task": "shampoo", "note": "roots by coupled Newton in double",
  "defines": {"BLOCK": 256, "ITERATIONS": 20},
  "scratch": {"work": "sum(6 * (rows*rows + cols*cols) + n) * 8"},
  "launches": [
    {"for": "tensor", "kernel": "shampoo_step", "grid": "min(n, 1)", "block": "BLOCK",
     "args": ["param", "grad", "left_factor", "right_factor", "left_root", "right_root", "exp_avg", "exp_avg_sq",
              "scratch.work + prefix(6 * (rows*rows + cols*cols) + n)*8", "rows", "cols", "hyper"]}
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
template <class T>
__device__ void multiply(const T* a, const T* b, T* c, int rows, int inner, int cols) {
  for (int e = threadIdx.x; e < rows * cols; e += BLOCK) {
    const int i = e / cols, j = e % cols;
    T sum = 0;
    for (int k = 0; k < inner; ++k) sum += a[i * inner + k] * b[k * cols + j];
    c[e] = sum;
  }
  __syncthreads();
}

// root = a^(-1/4), a = factor / correction + (matrix_eps * trace + 1e-12) I, by the coupled Newton iteration
//   X <- X N, M <- N^4 M with N = (5 I - M) / 4, from X = z^(1/4) I and M = z a, z = 5 / (2 |a|).
// M goes to I and X to a^(-1/4).
__device__ void inverse_fourth_root(const float* factor, float* root, double* work, int side, const Hyper& h) {
  const int count = side * side;
  double *m = work, *x = work + 5 * count, *n = work + count, *n2 = work + 2 * count, *next = work + 3 * count,
         *n4 = work + 4 * count;
  double damping = 0;
  for (int i = 0; i < side; ++i) damping += (double)factor[i * side + i] / h.factor_correction * h.matrix_eps;
  damping += 1e-12;
  float squares = 0.0f;
  for (int e = threadIdx.x; e < count; e += BLOCK) {
    const double a = (double)factor[e] / h.factor_correction + (e % (side + 1) == 0 ? damping : 0);
    m[e] = a;
    squares += (float)(a / damping * (a / damping));
  }
  const double z = 2.5 / (damping * sqrt((double)block_sum(squares)));
  for (int e = threadIdx.x; e < count; e += BLOCK) {
    m[e] *= z;
    x[e] = e % (side + 1) == 0 ? sqrt(sqrt(z)) : 0;
  }
  __syncthreads();
  for (int iteration = 0; iteration < ITERATIONS; ++iteration) {
    float off = 0.0f;
    for (int e = threadIdx.x; e < count; e += BLOCK) {
      const double identity = e % (side + 1) == 0 ? 1 : 0;
      n[e] = 1.25 * identity - 0.25 * m[e];
      if (fabs(m[e] - identity) > 1e-9) off += 1.0f;
    }
    if (block_sum(off) == 0.0f) break;
    multiply(x, n, next, side, side, side);
    multiply(n, n, n2, side, side, side);
    multiply(n2, n2, n4, side, side, side);
    multiply(n4, m, n2, side, side, side);
    for (int e = threadIdx.x; e < count; e += BLOCK) {
      x[e] = next[e];
      m[e] = n2[e];
    }
    __syncthreads();
  }
  for (int e = threadIdx.x; e < count; e += BLOCK) root[e] = (float)x[e];
  __syncthreads();
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    shampoo_step(float* param, const float* grad, float* left_factor, float* right_factor, float* left_root,
                 float* right_root, float* exp_avg, float* exp_avg_sq, double* work, int rows, int cols,
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
  float* const filtered = reinterpret_cast<float*>(work + 6 * (rows * rows + cols * cols));
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
  inverse_fourth_root(right_factor, right_root, work + 6 * rows * rows, cols, h);

  multiply(left_root, filtered, half, rows, rows, cols);
  multiply(half, right_root, filtered, rows, cols, cols);
  float squares = 0.0f;
  for (int e = threadIdx.x; e < n; e += BLOCK) squares += filtered[e] * filtered[e];
  const float ratio = graft_norm / (sqrtf(block_sum(squares)) + 1e-16f);
  for (int e = threadIdx.x; e < n; e += BLOCK)
    param[e] = param[e] * (1.0f - h.lr * h.weight_decay) - h.lr * (ratio * filtered[e]);
}
