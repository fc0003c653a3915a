/*stepbench
{ "task": "muon_ns5", "note": "fp32 throughout; one thread per element of a product, three products an iteration",
  "defines": {"TILE": 16, "REDUCE": 256},
  "scratch": {"x": "2 * max(n) * 4", "gram": "max(min(rows, cols) * min(rows, cols)) * 4",
              "polynomial": "max(min(rows, cols) * min(rows, cols)) * 4", "norm": 4},
  "launches": [
    {"for": "tensor", "launches": [
      {"kernel": "norm_of", "grid": "n > 0", "block": "REDUCE", "args": ["grad", "scratch.norm", "n"]},
      {"kernel": "start", "grid": "ceil_div(n, 256)", "block": 256,
       "args": ["grad", "scratch.x", "scratch.norm", "rows", "cols", "hyper"]},
      {"repeat": 5, "launches": [
        {"kernel": "product<true>",
         "grid": ["ceil_div(min(rows, cols), TILE)", "ceil_div(min(rows, cols), TILE)"], "block": ["TILE", "TILE"],
         "args": ["scratch.x + (iteration % 2) * n * 4", "scratch.x + (iteration % 2) * n * 4", "scratch.gram",
                  "scratch.gram", "min(rows, cols)", "min(rows, cols)", "max(rows, cols)", 1.0, 0.0]},
        {"kernel": "product<false>",
         "grid": ["ceil_div(min(rows, cols), TILE)", "ceil_div(min(rows, cols), TILE)"], "block": ["TILE", "TILE"],
         "args": ["scratch.gram", "scratch.gram", "scratch.gram", "scratch.polynomial", "min(rows, cols)",
                  "min(rows, cols)", "min(rows, cols)", 2.0315, -4.7750]},
        {"kernel": "product<false>",
         "grid": ["ceil_div(max(rows, cols), TILE)", "ceil_div(min(rows, cols), TILE)"], "block": ["TILE", "TILE"],
         "args": ["scratch.polynomial", "scratch.x + (iteration % 2) * n * 4", "scratch.x + (iteration % 2) * n * 4",
                  "scratch.x + ((iteration + 1) % 2) * n * 4", "min(rows, cols)", "max(rows, cols)",
                  "min(rows, cols)", 1.0, 3.4445]}
      ]},
      {"kernel": "finish", "grid": "ceil_div(n, 256)", "block": 256,
       "args": ["scratch.x + n * 4", "ortho", "rows", "cols"]}
    ]}
  ] }
*/
#include <stepbench.cuh>

// Frobenius norm by one block: every thread a partial sum, then a tree.
extern "C" __global__ void norm_of(const float* __restrict__ grad, float* __restrict__ norm, long long n) {
  __shared__ float partial[REDUCE];
  float sum = 0.0f;
  for (long long i = threadIdx.x; i < n; i += REDUCE) sum += grad[i] * grad[i];
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (int width = REDUCE / 2; width > 0; width /= 2) {
    if (threadIdx.x < width) partial[threadIdx.x] += partial[threadIdx.x + width];
    __syncthreads();
  }
  if (threadIdx.x == 0) *norm = sqrtf(partial[0]);
}

// x = grad / max(norm, eps), with the short side as rows.
extern "C" __global__ void start(const float* __restrict__ grad, float* __restrict__ x, const float* __restrict__ norm,
                                 long long rows, long long cols, const Hyper* __restrict__ hyper) {
  const long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (e >= rows * cols) return;
  const long long to = rows > cols ? e % cols * rows + e / cols : e;
  x[to] = grad[e] / fmaxf(*norm, hyper->eps);
}

// d = alpha * a * op(b) + beta * c; a is m x k, op(b) k x n, all row-major.
template <bool kTransposed>
__global__ void product(const float* __restrict__ a, const float* __restrict__ b, const float* c, float* d,
                        long long m, long long n, long long k, float alpha, float beta) {
  __shared__ float left[TILE][TILE], right[TILE][TILE + 1];
  const long long row = (long long)blockIdx.y * TILE + threadIdx.y, col = (long long)blockIdx.x * TILE + threadIdx.x;
  float sum = 0.0f;
  for (long long first = 0; first < k; first += TILE) {
    const long long across = first + threadIdx.x, down = first + threadIdx.y;
    left[threadIdx.y][threadIdx.x] = row < m && across < k ? a[row * k + across] : 0.0f;
    if (kTransposed) {
      const long long other = (long long)blockIdx.x * TILE + threadIdx.y;
      right[threadIdx.x][threadIdx.y] = other < n && across < k ? b[other * k + across] : 0.0f;
    } else {
      right[threadIdx.y][threadIdx.x] = down < k && col < n ? b[down * n + col] : 0.0f;
    }
    __syncthreads();
    for (int i = 0; i < TILE; ++i) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && col < n) d[row * n + col] = beta == 0.0f ? alpha * sum : alpha * sum + beta * c[row * n + col];
}

extern "C" __global__ void finish(const float* __restrict__ x, float* __restrict__ ortho, long long rows,
                                  long long cols) {
  const long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (e >= rows * cols) return;
  ortho[e] = x[rows > cols ? e % cols * rows + e / cols : e];
}
