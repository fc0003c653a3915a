/*stepbench
{ "task": "shampoo", "note": "a matrix at a time; one thread per element of a product, coupled Newton for both roots at once",
  "defines": {"TILE": 8, "REDUCE": 256, "ITERATIONS": 12},
  "scratch": {"n": "max(rows*rows + cols*cols) * 4", "n2": "max(rows*rows + cols*cols) * 4",
              "n4": "max(rows*rows + cols*cols) * 4", "x": "2 * max(rows*rows + cols*cols) * 4",
              "m": "2 * max(rows*rows + cols*cols) * 4", "half": "max(n) * 4", "direction": "max(n) * 4", "ratio": 4},
  "launches": [
    {"for": "tensor", "launches": [
      {"kernel": "average", "grid": "ceil_div(n, REDUCE)", "block": "REDUCE",
       "args": ["grad", "exp_avg", "exp_avg_sq", "n", "hyper"]},
      {"kernel": "gram", "block": ["TILE", "TILE"],
       "grid": ["min(n, 1) * ceil_div(max(rows, cols), TILE)", "ceil_div(max(rows, cols), TILE)", 2],
       "args": ["grad", "left_factor", "right_factor", "rows", "cols", "hyper"]},
      {"kernel": "start", "grid": "2 * min(n, 1)", "block": "REDUCE",
       "args": ["left_factor", "right_factor", "scratch.x", "scratch.m", "rows", "cols", "hyper"]},
      {"repeat": "ITERATIONS", "launches": [
        {"kernel": "polynomial", "grid": "ceil_div(min(n, 1) * (rows*rows + cols*cols), REDUCE)", "block": "REDUCE",
         "args": ["scratch.m + (iteration % 2) * (rows*rows + cols*cols) * 4", "scratch.n", "rows", "cols", "hyper"]},
        {"kernel": "products", "block": ["TILE", "TILE"],
         "grid": ["min(n, 1) * ceil_div(max(rows, cols), TILE)", "ceil_div(max(rows, cols), TILE)", 2],
         "args": ["scratch.x + (iteration % 2) * (rows*rows + cols*cols) * 4", "scratch.n",
                  "scratch.x + ((iteration + 1) % 2) * (rows*rows + cols*cols) * 4", "rows", "cols", "hyper"]},
        {"kernel": "products", "block": ["TILE", "TILE"],
         "grid": ["min(n, 1) * ceil_div(max(rows, cols), TILE)", "ceil_div(max(rows, cols), TILE)", 2],
         "args": ["scratch.n", "scratch.n", "scratch.n2", "rows", "cols", "hyper"]},
        {"kernel": "products", "block": ["TILE", "TILE"],
         "grid": ["min(n, 1) * ceil_div(max(rows, cols), TILE)", "ceil_div(max(rows, cols), TILE)", 2],
         "args": ["scratch.n2", "scratch.n2", "scratch.n4", "rows", "cols", "hyper"]},
        {"kernel": "products", "block": ["TILE", "TILE"],
         "grid": ["min(n, 1) * ceil_div(max(rows, cols), TILE)", "ceil_div(max(rows, cols), TILE)", 2],
         "args": ["scratch.n4", "scratch.m + (iteration % 2) * (rows*rows + cols*cols) * 4",
                  "scratch.m + ((iteration + 1) % 2) * (rows*rows + cols*cols) * 4", "rows", "cols", "hyper"]}
      ]},
      {"kernel": "store_roots", "grid": "ceil_div(min(n, 1) * (rows*rows + cols*cols), REDUCE)", "block": "REDUCE",
       "args": ["scratch.x + (ITERATIONS % 2) * (rows*rows + cols*cols) * 4", "left_root", "right_root", "rows",
                "cols", "hyper"]},
      {"kernel": "apply", "grid": ["ceil_div(cols, TILE)", "ceil_div(rows, TILE)"], "block": ["TILE", "TILE"],
       "args": ["left_root", "exp_avg", "scratch.half", "rows", "rows", "cols", "hyper"]},
      {"kernel": "apply", "grid": ["ceil_div(cols, TILE)", "ceil_div(rows, TILE)"], "block": ["TILE", "TILE"],
       "args": ["scratch.half", "right_root", "scratch.direction", "rows", "cols", "cols", "hyper"]},
      {"kernel": "graft", "grid": "min(n, 1)", "block": "REDUCE",
       "args": ["exp_avg", "exp_avg_sq", "scratch.direction", "scratch.ratio", "n", "hyper"]},
      {"kernel": "descend", "grid": "ceil_div(n, REDUCE)", "block": "REDUCE",
       "args": ["param", "scratch.direction", "scratch.ratio", "n", "hyper"]}
    ]}
  ] }
*/
#include <stepbench.cuh>

__device__ float block_sum(float value) {
  __shared__ float part[REDUCE];
  part[threadIdx.x] = value;
  __syncthreads();
  for (int half = REDUCE / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  const float sum = part[0];
  __syncthreads();
  return sum;
}

// Element (blockIdx.y * TILE + threadIdx.y, blockIdx.x * TILE + threadIdx.x) of a product whose factors come through
// a(i, k) and b(k, j); to be called by the whole block.
template <class A, class B>
__device__ float product(int rows, int inner, int cols, A a, B b) {
  __shared__ float left[TILE][TILE], right[TILE][TILE + 1];
  const int i = blockIdx.y * TILE + threadIdx.y, j = blockIdx.x * TILE + threadIdx.x;
  float sum = 0.0f;
  for (int first = 0; first < inner; first += TILE) {
    const int across = first + threadIdx.x, down = first + threadIdx.y;
    left[threadIdx.y][threadIdx.x] = i < rows && across < inner ? a(i, across) : 0.0f;
    right[threadIdx.y][threadIdx.x] = down < inner && j < cols ? b(down, j) : 0.0f;
    __syncthreads();
    for (int k = 0; k < TILE; ++k) sum += left[threadIdx.y][k] * right[k][threadIdx.x];
    __syncthreads();
  }
  return sum;
}

extern "C" __global__ void average(const float* grad, float* exp_avg, float* exp_avg_sq, long long n,
                                   const Hyper* hyper) {
  const Hyper h = *hyper;
  const long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (h.found_inf != 0 || e >= n) return;
  const float g = grad[e] / h.grad_scale;
  exp_avg[e] = h.beta1 * exp_avg[e] + (1.0f - h.beta1) * g;
  exp_avg_sq[e] = h.beta2 * exp_avg_sq[e] + (1.0f - h.beta2) * g * g;
}

// L = factor_beta * L + (1 - factor_beta) * G G^T in the first layer of the grid, R with G^T G in the second.
extern "C" __global__ void gram(const float* grad, float* left_factor, float* right_factor, int rows, int cols,
                                const Hyper* hyper) {
  const Hyper h = *hyper;
  const bool left = blockIdx.z == 0;
  const int side = left ? rows : cols;
  if (h.found_inf != 0 || blockIdx.x * TILE >= side || blockIdx.y * TILE >= side) return;
  const float unscale = 1.0f / h.grad_scale;
  const float sum =
      left ? product(side, cols, side, [&](int i, int k) { return grad[i * cols + k] * unscale; },
                     [&](int k, int j) { return grad[j * cols + k] * unscale; })
           : product(side, rows, side, [&](int i, int k) { return grad[k * cols + i] * unscale; },
                     [&](int k, int j) { return grad[k * cols + j] * unscale; });
  const int i = blockIdx.y * TILE + threadIdx.y, j = blockIdx.x * TILE + threadIdx.x;
  if (i >= side || j >= side) return;
  float* const factor = left ? left_factor : right_factor;
  factor[i * side + j] = h.factor_beta * factor[i * side + j] + (1.0f - h.factor_beta) * sum;
}

// The coupled Newton iteration for A^(-1/4), A = factor / correction + (matrix_eps * trace + 1e-12) I:
//   X <- X N, M <- N^4 M with N = (5 I - M) / 4, from X = z^(1/4) I and M = z A, z = 5 / (2 |A|).
// M goes to I and X to the root. In scratch the right side's matrices lie behind the left side's.
extern "C" __global__ void start(const float* left_factor, const float* right_factor, float* x, float* m, int rows,
                                 int cols, const Hyper* hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const bool left = blockIdx.x == 0;
  const float* const factor = left ? left_factor : right_factor;
  const int side = left ? rows : cols, elements = side * side;
  x += left ? 0 : rows * rows;
  m += left ? 0 : rows * rows;
  float trace = 0.0f;
  for (int i = threadIdx.x; i < side; i += REDUCE) trace += factor[i * side + i] / h.factor_correction;
  const float damping = h.matrix_eps * block_sum(trace) + 1e-12f;
  float squares = 0.0f;
  for (int e = threadIdx.x; e < elements; e += REDUCE) {
    const float a = factor[e] / h.factor_correction + (e % (side + 1) == 0 ? damping : 0.0f);
    m[e] = a;
    squares += a / damping * (a / damping);  // a alone may be as large as 1e20
  }
  const float z = 2.5f / (damping * sqrtf(block_sum(squares)));
  for (int e = threadIdx.x; e < elements; e += REDUCE) {
    m[e] *= z;
    x[e] = e % (side + 1) == 0 ? sqrtf(sqrtf(z)) : 0.0f;
  }
}

extern "C" __global__ void polynomial(const float* m, float* n, int rows, int cols, const Hyper* hyper) {
  const int e = blockIdx.x * blockDim.x + threadIdx.x;
  if (hyper->found_inf != 0 || e >= rows * rows + cols * cols) return;
  const bool left = e < rows * rows;
  const int side = left ? rows : cols, at = left ? e : e - rows * rows;
  n[e] = (at % (side + 1) == 0 ? 1.25f : 0.0f) - 0.25f * m[e];
}

// c = a * b, of the left side in the first layer of the grid, of the right side in the second.
extern "C" __global__ void products(const float* a, const float* b, float* c, int rows, int cols, const Hyper* hyper) {
  const int side = blockIdx.z == 0 ? rows : cols, offset = blockIdx.z == 0 ? 0 : rows * rows;
  if (hyper->found_inf != 0 || blockIdx.x * TILE >= side || blockIdx.y * TILE >= side) return;
  const float sum = product(side, side, side, [&](int i, int k) { return a[offset + i * side + k]; },
                            [&](int k, int j) { return b[offset + k * side + j]; });
  const int i = blockIdx.y * TILE + threadIdx.y, j = blockIdx.x * TILE + threadIdx.x;
  if (i < side && j < side) c[offset + i * side + j] = sum;
}

extern "C" __global__ void store_roots(const float* x, float* left_root, float* right_root, int rows, int cols,
                                       const Hyper* hyper) {
  const int e = blockIdx.x * blockDim.x + threadIdx.x, of_left = rows * rows;
  if (hyper->found_inf != 0 || e >= of_left + cols * cols) return;
  if (e < of_left)
    left_root[e] = x[e];
  else
    right_root[e - of_left] = x[e];
}

// c = a * b, a is rows x inner and b inner x cols.
extern "C" __global__ void apply(const float* a, const float* b, float* c, int rows, int inner, int cols,
                                 const Hyper* hyper) {
  if (hyper->found_inf != 0) return;
  const float sum = product(rows, inner, cols, [&](int i, int k) { return a[i * inner + k]; },
                            [&](int k, int j) { return b[k * cols + j]; });
  const int i = blockIdx.y * TILE + threadIdx.y, j = blockIdx.x * TILE + threadIdx.x;
  if (i < rows && j < cols) c[i * cols + j] = sum;
}

// Length of Adam's direction over that of X_L M X_R, M the corrected average.
extern "C" __global__ void graft(const float* exp_avg, const float* exp_avg_sq, float* direction, float* ratio,
                                 long long n, const Hyper* hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  float adam = 0.0f, own = 0.0f;
  for (long long e = threadIdx.x; e < n; e += REDUCE) {
    const float u = exp_avg[e] / h.bias_correction1 / (sqrtf(exp_avg_sq[e] / h.bias_correction2) + h.eps);
    direction[e] /= h.bias_correction1;
    adam += u * u;
    own += direction[e] * direction[e];
  }
  adam = block_sum(adam);
  own = block_sum(own);
  if (threadIdx.x == 0) *ratio = sqrtf(adam) / (sqrtf(own) + 1e-16f);
}

extern "C" __global__ void descend(float* param, const float* direction, const float* ratio, long long n,
                                   const Hyper* hyper) {
  const Hyper h = *hyper;
  const long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (h.found_inf != 0 || e >= n) return;
  param[e] = param[e] * (1.0f - h.lr * h.weight_decay) - h.lr * (*ratio * direction[e]);
}
