/*stepbench
{ "task": "shampoo",
  "note": "coupled Newton over all matrices of a shape and both of their factors at once, tiled products in fp32 FMAs",
  "defines": {"DEPTH": 8, "ITERATIONS": 12, "LARGE": 128, "SMALL": 16, "REDUCE": 512},
  "scratch": {"x": "2 * sum(rows*rows + cols*cols) * 4", "m": "2 * sum(rows*rows + cols*cols) * 4",
              "square": "sum(rows*rows + cols*cols) * 4", "fourth": "sum(rows*rows + cols*cols) * 4",
              "half": "sum(n) * 4", "direction": "sum(n) * 4", "ratio": "tensors * 4"},
  "launches": [
    {"for": "shape", "kernel": "gram<LARGE, 8>", "block": "256", "grid": ["ceil_div(max(rows, cols), LARGE)",
     "ceil_div(max(rows, cols), LARGE)", "2 * count * min(1, n / 4096)"],
     "args": ["grad[]", "left_factor[]", "right_factor[]", "rows", "cols", "count", "hyper"]},
    {"for": "shape", "kernel": "gram<SMALL, 2>", "block": "64", "grid": ["ceil_div(max(rows, cols), SMALL)",
     "ceil_div(max(rows, cols), SMALL)", "2 * count * (1 - min(1, n / 4096))"],
     "args": ["grad[]", "left_factor[]", "right_factor[]", "rows", "cols", "count", "hyper"]},
    {"for": "shape", "kernel": "average", "block": "256", "grid": ["ceil_div(n, 256)", "count * min(1, n)"],
     "args": ["grad[]", "exp_avg[]", "exp_avg_sq[]", "n", "hyper"]},
    {"for": "shape", "kernel": "prepare", "block": "REDUCE", "grid": "2 * count * min(1, n)",
     "args": ["left_factor[]", "right_factor[]", "scratch.x + prefix(rows*rows + cols*cols)*4",
             "scratch.m + prefix(rows*rows + cols*cols)*4", "rows", "cols", "count", "hyper"]},
    {"for": "shape", "repeat": "ITERATIONS", "launches": [
      {"kernel": "times_n<LARGE, 8>", "block": "256", "grid": ["ceil_div(max(rows, cols), LARGE)",
       "ceil_div(max(rows, cols), LARGE)", "4 * count * min(1, n / 4096)"],
       "args": ["scratch.x + (iteration % 2) * sum(rows*rows + cols*cols)*4 + prefix(rows*rows + cols*cols)*4",
               "scratch.m + (iteration % 2) * sum(rows*rows + cols*cols)*4 + prefix(rows*rows + cols*cols)*4",
               "scratch.x + ((iteration + 1) % 2) * sum(rows*rows + cols*cols)*4 + prefix(rows*rows + cols*cols)*4",
               "scratch.square + prefix(rows*rows + cols*cols)*4", "rows", "cols", "count", "hyper"]},
      {"kernel": "times_n<SMALL, 2>", "block": "64", "grid": ["ceil_div(max(rows, cols), SMALL)",
       "ceil_div(max(rows, cols), SMALL)", "4 * count * (1 - min(1, n / 4096))"],
       "args": ["scratch.x + (iteration % 2) * sum(rows*rows + cols*cols)*4 + prefix(rows*rows + cols*cols)*4",
               "scratch.m + (iteration % 2) * sum(rows*rows + cols*cols)*4 + prefix(rows*rows + cols*cols)*4",
               "scratch.x + ((iteration + 1) % 2) * sum(rows*rows + cols*cols)*4 + prefix(rows*rows + cols*cols)*4",
               "scratch.square + prefix(rows*rows + cols*cols)*4", "rows", "cols", "count", "hyper"]},
      {"kernel": "times<LARGE, 8>", "block": "256", "grid": ["ceil_div(max(rows, cols), LARGE)",
       "ceil_div(max(rows, cols), LARGE)", "2 * count * min(1, n / 4096)"],
       "args": ["scratch.square + prefix(rows*rows + cols*cols)*4",
               "scratch.square + prefix(rows*rows + cols*cols)*4",
               "scratch.fourth + prefix(rows*rows + cols*cols)*4", "rows", "cols", "count", "hyper"]},
      {"kernel": "times<SMALL, 2>", "block": "64", "grid": ["ceil_div(max(rows, cols), SMALL)",
       "ceil_div(max(rows, cols), SMALL)", "2 * count * (1 - min(1, n / 4096))"],
       "args": ["scratch.square + prefix(rows*rows + cols*cols)*4",
               "scratch.square + prefix(rows*rows + cols*cols)*4",
               "scratch.fourth + prefix(rows*rows + cols*cols)*4", "rows", "cols", "count", "hyper"]},
      {"kernel": "times<LARGE, 8>", "block": "256", "grid": ["ceil_div(max(rows, cols), LARGE)",
       "ceil_div(max(rows, cols), LARGE)", "2 * count * min(1, n / 4096)"],
       "args": ["scratch.fourth + prefix(rows*rows + cols*cols)*4",
               "scratch.m + (iteration % 2) * sum(rows*rows + cols*cols)*4 + prefix(rows*rows + cols*cols)*4",
               "scratch.m + ((iteration + 1) % 2) * sum(rows*rows + cols*cols)*4 + prefix(rows*rows + cols*cols)*4",
               "rows", "cols", "count", "hyper"]},
      {"kernel": "times<SMALL, 2>", "block": "64", "grid": ["ceil_div(max(rows, cols), SMALL)",
       "ceil_div(max(rows, cols), SMALL)", "2 * count * (1 - min(1, n / 4096))"],
       "args": ["scratch.fourth + prefix(rows*rows + cols*cols)*4",
               "scratch.m + (iteration % 2) * sum(rows*rows + cols*cols)*4 + prefix(rows*rows + cols*cols)*4",
               "scratch.m + ((iteration + 1) % 2) * sum(rows*rows + cols*cols)*4 + prefix(rows*rows + cols*cols)*4",
               "rows", "cols", "count", "hyper"]}
    ]},
    {"for": "shape", "kernel": "store_roots", "block": "256",
     "grid": ["ceil_div(max(rows, cols) * max(rows, cols), 256)", "2 * count * min(1, n)"],
     "args": ["scratch.x + (ITERATIONS % 2) * sum(rows*rows + cols*cols)*4 + prefix(rows*rows + cols*cols)*4",
             "left_root[]", "right_root[]", "rows", "cols", "count", "hyper"]},
    {"for": "shape", "kernel": "left_times<LARGE, 8>", "block": "256", "grid": ["ceil_div(cols, LARGE)",
     "ceil_div(rows, LARGE)", "count * min(1, n / 4096)"],
     "args": ["left_root[]", "exp_avg[]", "scratch.half + prefix(n)*4", "rows", "cols", "hyper"]},
    {"for": "shape", "kernel": "left_times<SMALL, 2>", "block": "64", "grid": ["ceil_div(cols, SMALL)",
     "ceil_div(rows, SMALL)", "count * (1 - min(1, n / 4096))"],
     "args": ["left_root[]", "exp_avg[]", "scratch.half + prefix(n)*4", "rows", "cols", "hyper"]},
    {"for": "shape", "kernel": "times_right<LARGE, 8>", "block": "256", "grid": ["ceil_div(cols, LARGE)",
     "ceil_div(rows, LARGE)", "count * min(1, n / 4096)"],
     "args": ["scratch.half + prefix(n)*4", "right_root[]", "scratch.direction + prefix(n)*4", "rows", "cols",
             "hyper"]},
    {"for": "shape", "kernel": "times_right<SMALL, 2>", "block": "64", "grid": ["ceil_div(cols, SMALL)",
     "ceil_div(rows, SMALL)", "count * (1 - min(1, n / 4096))"],
     "args": ["scratch.half + prefix(n)*4", "right_root[]", "scratch.direction + prefix(n)*4", "rows", "cols",
             "hyper"]},
    {"for": "shape", "kernel": "norms", "block": "REDUCE", "grid": "count * min(1, n)",
     "args": ["exp_avg[]", "exp_avg_sq[]", "scratch.direction + prefix(n)*4", "scratch.ratio + prefix(1)*4", "n",
             "hyper"]},
    {"for": "shape", "kernel": "descend", "block": "256", "grid": ["ceil_div(n, 256)", "count * min(1, n)"],
     "args": ["param[]", "scratch.direction + prefix(n)*4", "scratch.ratio + prefix(1)*4", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

// One TILE x TILE tile of a product of rows x inner and inner x cols; each thread has SIDE x SIDE elements of it. The
// factors come through load_a(i, k) and load_b(k, j), and store(i, j, sum) takes the result. Neighbouring threads read
// neighbours along k where k_first says so. Tiles of the next part of the sum are on their way in registers while the
// present ones are used.
template <int TILE, int SIDE, bool A_K_FIRST, bool B_K_FIRST, class LoadA, class LoadB, class Store>
__device__ __forceinline__ void tile_product(int rows, int inner, int cols, LoadA load_a, LoadB load_b, Store store) {
  constexpr int ACROSS = TILE / SIDE, COUNT = ACROSS * ACROSS, LOADS = TILE * DEPTH / COUNT;
  __shared__ __align__(16) float tile_a[DEPTH][TILE + 4], tile_b[DEPTH][TILE + 4];
  const int row0 = blockIdx.y * TILE, col0 = blockIdx.x * TILE;
  if (row0 >= rows || col0 >= cols) return;  // the grid is for the larger of two sides
  float next_a[LOADS], next_b[LOADS];
  const auto fetch = [&](int k0) {
#pragma unroll
    for (int l = 0; l < LOADS; ++l) {
      const int at = threadIdx.x + l * COUNT;
      const int ka = k0 + (A_K_FIRST ? at % DEPTH : at / TILE), i = row0 + (A_K_FIRST ? at / DEPTH : at % TILE);
      const int kb = k0 + (B_K_FIRST ? at % DEPTH : at / TILE), j = col0 + (B_K_FIRST ? at / DEPTH : at % TILE);
      next_a[l] = ka < inner && i < rows ? load_a(i, ka) : 0.0f;
      next_b[l] = kb < inner && j < cols ? load_b(kb, j) : 0.0f;
    }
  };
  float sum[SIDE][SIDE] = {};
  const int ty = threadIdx.x / ACROSS, tx = threadIdx.x % ACROSS;
  fetch(0);
  for (int k0 = 0; k0 < inner; k0 += DEPTH) {
#pragma unroll
    for (int l = 0; l < LOADS; ++l) {
      const int at = threadIdx.x + l * COUNT;
      tile_a[A_K_FIRST ? at % DEPTH : at / TILE][A_K_FIRST ? at / DEPTH : at % TILE] = next_a[l];
      tile_b[B_K_FIRST ? at % DEPTH : at / TILE][B_K_FIRST ? at / DEPTH : at % TILE] = next_b[l];
    }
    __syncthreads();
    if (k0 + DEPTH < inner) fetch(k0 + DEPTH);
#pragma unroll
    for (int k = 0; k < DEPTH; ++k) {
      float x[SIDE], y[SIDE];
#pragma unroll
      for (int i = 0; i < SIDE; ++i) x[i] = tile_a[k][ty * SIDE + i];
#pragma unroll
      for (int j = 0; j < SIDE; ++j) y[j] = tile_b[k][tx * SIDE + j];
#pragma unroll
      for (int i = 0; i < SIDE; ++i)
#pragma unroll
        for (int j = 0; j < SIDE; ++j) sum[i][j] = fmaf(x[i], y[j], sum[i][j]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < SIDE; ++i)
#pragma unroll
    for (int j = 0; j < SIDE; ++j) {
      const int row = row0 + ty * SIDE + i, col = col0 + tx * SIDE + j;
      if (row < rows && col < cols) store(row, col, sum[i][j]);
    }
}

// Factor `job` of 2 * count: first all left ones, then all right ones. In scratch they lie in this order.
struct Factor {
  bool left;
  int matrix, side;
  long long offset;
};
__device__ __forceinline__ Factor factor_of(int job, int rows, int cols, int count) {
  const bool left = job < count;
  const int matrix = left ? job : job - count;
  const long long before = left ? 0 : (long long)count * rows * rows;
  const int side = left ? rows : cols;
  return {left, matrix, side, before + (long long)matrix * side * side};
}

#define FOR_TILES               \
  template <int TILE, int SIDE> \
  __global__ void __launch_bounds__((TILE / SIDE) * (TILE / SIDE), TILE == LARGE ? 2 : 1)

// L = factor_beta * L + (1 - factor_beta) * G G^T, and R with G^T G.
FOR_TILES gram(const float* const* __restrict__ grad, float* const* __restrict__ left_factor,
               float* const* __restrict__ right_factor, int rows, int cols, int count,
               const Hyper* __restrict__ hyper) {
  if (hyper->found_inf != 0 || rows == 0 || cols == 0) return;
  const Factor f = factor_of(blockIdx.z, rows, cols, count);
  const float* const g = grad[f.matrix];
  float* const factor = f.left ? left_factor[f.matrix] : right_factor[f.matrix];
  const float unscale = 1.0f / hyper->grad_scale, weight = 1.0f - hyper->factor_beta;
  const auto store = [&](int i, int j, float sum) {
    const float old = factor[(long long)i * f.side + j];
    factor[(long long)i * f.side + j] = fmaf(weight, sum - old, old);
  };
  if (f.left)
    tile_product<TILE, SIDE, true, true>(
        rows, cols, rows, [&](int i, int k) { return g[(long long)i * cols + k] * unscale; },
        [&](int k, int j) { return g[(long long)j * cols + k] * unscale; }, store);
  else
    tile_product<TILE, SIDE, false, false>(
        cols, rows, cols, [&](int i, int k) { return g[(long long)k * cols + i] * unscale; },
        [&](int k, int j) { return g[(long long)k * cols + j] * unscale; }, store);
}

extern "C" __global__ void average(const float* const* __restrict__ grad, float* const* __restrict__ exp_avg,
                                   float* const* __restrict__ exp_avg_sq, long long n,
                                   const Hyper* __restrict__ hyper) {
  if (hyper->found_inf != 0) return;
  const long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (e >= n) return;
  const float g = grad[blockIdx.y][e] * (1.0f / hyper->grad_scale);
  const float m = exp_avg[blockIdx.y][e], v = exp_avg_sq[blockIdx.y][e];
  exp_avg[blockIdx.y][e] = fmaf(1.0f - hyper->beta1, g - m, m);
  exp_avg_sq[blockIdx.y][e] = fmaf(1.0f - hyper->beta2, fmaf(g, g, -v), v);
}

// Sum over the block, the same in every thread.
__device__ __forceinline__ float block_sum(float value) {
  __shared__ float part[REDUCE / 32];
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0.0f;
  for (int i = 0; i < REDUCE / 32; ++i) sum += part[i];
  __syncthreads();
  return sum;
}

// A = factor / correction + damping I; M = z A and X = z^(1/4) I with z = 5 / (2 |A|): all eigenvalues of M in
// (0, 2.5].
extern "C" __global__ void __launch_bounds__(REDUCE)
    prepare(float* const* __restrict__ left_factor, float* const* __restrict__ right_factor, float* __restrict__ x,
            float* __restrict__ m, int rows, int cols, int count, const Hyper* __restrict__ hyper) {
  if (hyper->found_inf != 0) return;
  const Factor f = factor_of(blockIdx.x, rows, cols, count);
  const float* const factor = f.left ? left_factor[f.matrix] : right_factor[f.matrix];
  const float uncorrect = 1.0f / hyper->factor_correction;
  const int elements = f.side * f.side;
  float diagonal = 0.0f;
  for (int i = threadIdx.x; i < f.side; i += REDUCE) diagonal += factor[(long long)i * f.side + i] * uncorrect;
  const float damping = fmaf(hyper->matrix_eps, block_sum(diagonal), 1e-12f);
  float squares = 0.0f;
  for (int e = threadIdx.x; e < elements; e += REDUCE) {
    const float a = factor[e] * uncorrect + (e % (f.side + 1) == 0 ? damping : 0.0f);
    squares = fmaf(a / damping, a / damping, squares);  // a alone may be as large as 1e20
  }
  const float z = 2.5f / (damping * sqrtf(block_sum(squares))), start = sqrtf(sqrtf(z));
  for (int e = threadIdx.x; e < elements; e += REDUCE) {
    const bool on_diagonal = e % (f.side + 1) == 0;
    m[f.offset + e] = (factor[e] * uncorrect + (on_diagonal ? damping : 0.0f)) * z;
    x[f.offset + e] = on_diagonal ? start : 0.0f;
  }
}

// With N = (5 I - M) / 4: next = X N in the first half of the jobs, square = N N in the second.
FOR_TILES times_n(const float* __restrict__ x, const float* __restrict__ m, float* __restrict__ next,
                  float* __restrict__ square, int rows, int cols, int count, const Hyper* __restrict__ hyper) {
  if (hyper->found_inf != 0 || rows == 0 || cols == 0) return;
  const bool squares = blockIdx.z >= 2 * count;
  const Factor f = factor_of(squares ? blockIdx.z - 2 * count : blockIdx.z, rows, cols, count);
  const float* const old_m = m + f.offset;
  const float* const old_x = x + f.offset;
  float* const out = (squares ? square : next) + f.offset;
  const auto n = [&](int i, int j) { return fmaf(-0.25f, old_m[(long long)i * f.side + j], i == j ? 1.25f : 0.0f); };
  tile_product<TILE, SIDE, true, false>(
      f.side, f.side, f.side, [&](int i, int k) { return squares ? n(i, k) : old_x[(long long)i * f.side + k]; }, n,
      [&](int i, int j, float sum) { out[(long long)i * f.side + j] = sum; });
}

// out = a * b for every factor.
FOR_TILES times(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ out, int rows, int cols,
                int count, const Hyper* __restrict__ hyper) {
  if (hyper->found_inf != 0 || rows == 0 || cols == 0) return;
  const Factor f = factor_of(blockIdx.z, rows, cols, count);
  a += f.offset;
  b += f.offset;
  out += f.offset;
  tile_product<TILE, SIDE, true, false>(
      f.side, f.side, f.side, [&](int i, int k) { return a[(long long)i * f.side + k]; },
      [&](int k, int j) { return b[(long long)k * f.side + j]; },
      [&](int i, int j, float sum) { out[(long long)i * f.side + j] = sum; });
}

// As it is: the mean of X with its transpose would be symmetric, but twice as far from a root of A.
extern "C" __global__ void store_roots(const float* __restrict__ x, float* const* __restrict__ left_root,
                                       float* const* __restrict__ right_root, int rows, int cols, int count,
                                       const Hyper* __restrict__ hyper) {
  if (hyper->found_inf != 0) return;
  const Factor f = factor_of(blockIdx.y, rows, cols, count);
  const int e = blockIdx.x * blockDim.x + threadIdx.x;
  if (e >= f.side * f.side) return;
  (f.left ? left_root[f.matrix] : right_root[f.matrix])[e] = x[f.offset + e];
}

// half = X_L * exp_avg / bias_correction1
FOR_TILES left_times(float* const* __restrict__ left_root, float* const* __restrict__ exp_avg, float* __restrict__ half,
                     int rows, int cols, const Hyper* __restrict__ hyper) {
  if (hyper->found_inf != 0) return;
  const float* const root = left_root[blockIdx.z];
  const float* const m = exp_avg[blockIdx.z];
  half += (long long)blockIdx.z * rows * cols;
  const float uncorrect = 1.0f / hyper->bias_correction1;
  tile_product<TILE, SIDE, true, false>(
      rows, rows, cols, [&](int i, int k) { return root[(long long)i * rows + k]; },
      [&](int k, int j) { return m[(long long)k * cols + j]; },
      [&](int i, int j, float sum) { half[(long long)i * cols + j] = sum * uncorrect; });
}

// direction = half * X_R
FOR_TILES times_right(const float* __restrict__ half, float* const* __restrict__ right_root,
                      float* __restrict__ direction, int rows, int cols, const Hyper* __restrict__ hyper) {
  if (hyper->found_inf != 0) return;
  const float* const root = right_root[blockIdx.z];
  half += (long long)blockIdx.z * rows * cols;
  direction += (long long)blockIdx.z * rows * cols;
  tile_product<TILE, SIDE, true, false>(
      rows, cols, cols, [&](int i, int k) { return half[(long long)i * cols + k]; },
      [&](int k, int j) { return root[(long long)k * cols + j]; },
      [&](int i, int j, float sum) { direction[(long long)i * cols + j] = sum; });
}

// Length of Adam's direction over that of Shampoo's, for each matrix.
extern "C" __global__ void __launch_bounds__(REDUCE)
    norms(float* const* __restrict__ exp_avg, float* const* __restrict__ exp_avg_sq,
          const float* __restrict__ direction, float* __restrict__ ratio, long long n,
          const Hyper* __restrict__ hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const float* const m = exp_avg[blockIdx.x];
  const float* const v = exp_avg_sq[blockIdx.x];
  direction += blockIdx.x * n;
  const float uncorrect1 = 1.0f / h.bias_correction1, uncorrect2 = 1.0f / h.bias_correction2;
  float grafted = 0.0f, own = 0.0f;
  for (long long e = threadIdx.x; e < n; e += REDUCE) {
    const float graft = m[e] * uncorrect1 / (sqrtf(v[e] * uncorrect2) + h.eps);
    grafted = fmaf(graft, graft, grafted);
    own = fmaf(direction[e], direction[e], own);
  }
  grafted = block_sum(grafted);
  own = block_sum(own);
  if (threadIdx.x == 0) ratio[blockIdx.x] = sqrtf(grafted) / (sqrtf(own) + 1e-16f);
}

extern "C" __global__ void descend(float* const* __restrict__ param, const float* __restrict__ direction,
                                   const float* __restrict__ ratio, long long n, const Hyper* __restrict__ hyper) {
  if (hyper->found_inf != 0) return;
  const long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (e >= n) return;
  const float u = direction[blockIdx.y * n + e] * ratio[blockIdx.y], p = param[blockIdx.y][e];
  param[blockIdx.y][e] = fmaf(-hyper->lr, fmaf(hyper->weight_decay, p, u), p);
}
