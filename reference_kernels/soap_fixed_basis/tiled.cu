/*stepbench
{ "task": "soap_fixed_basis",
  "note": "four batched products in fp32 FMAs, tiles in shared memory, averages and step in the epilogues",
  "defines": {"THREADS": 256, "DEPTH": 8, "LARGE": 128, "SMALL": 32},
  "scratch": {"half": "sum(n) * 4", "normalized": "sum(n) * 4"},
  "launches": [
    {"for": "shape", "kernel": "product<LARGE, kGradient>", "block": "THREADS",
     "grid": ["ceil_div(cols, LARGE)", "ceil_div(rows, LARGE)", "count * min(1, n / 16384)"],
     "args": ["grad[]", "basis_right[]", "scratch.half + prefix(n)*4", "exp_avg[]", "exp_avg_sq[]", "param[]",
              "scratch.normalized + prefix(n)*4", "rows", "cols", "hyper"]},
    {"for": "shape", "kernel": "product<SMALL, kGradient>", "block": "THREADS",
     "grid": ["ceil_div(cols, SMALL)", "ceil_div(rows, SMALL)", "count * (1 - min(1, n / 16384))"],
     "args": ["grad[]", "basis_right[]", "scratch.half + prefix(n)*4", "exp_avg[]", "exp_avg_sq[]", "param[]",
              "scratch.normalized + prefix(n)*4", "rows", "cols", "hyper"]},
    {"for": "shape", "kernel": "product<LARGE, kAverage>", "block": "THREADS",
     "grid": ["ceil_div(cols, LARGE)", "ceil_div(rows, LARGE)", "count * min(1, n / 16384)"],
     "args": ["grad[]", "basis_left[]", "scratch.half + prefix(n)*4", "exp_avg[]", "exp_avg_sq[]", "param[]",
              "scratch.normalized + prefix(n)*4", "rows", "cols", "hyper"]},
    {"for": "shape", "kernel": "product<SMALL, kAverage>", "block": "THREADS",
     "grid": ["ceil_div(cols, SMALL)", "ceil_div(rows, SMALL)", "count * (1 - min(1, n / 16384))"],
     "args": ["grad[]", "basis_left[]", "scratch.half + prefix(n)*4", "exp_avg[]", "exp_avg_sq[]", "param[]",
              "scratch.normalized + prefix(n)*4", "rows", "cols", "hyper"]},
    {"for": "shape", "kernel": "product<LARGE, kBack>", "block": "THREADS",
     "grid": ["ceil_div(cols, LARGE)", "ceil_div(rows, LARGE)", "count * min(1, n / 16384)"],
     "args": ["grad[]", "basis_left[]", "scratch.half + prefix(n)*4", "exp_avg[]", "exp_avg_sq[]", "param[]",
              "scratch.normalized + prefix(n)*4", "rows", "cols", "hyper"]},
    {"for": "shape", "kernel": "product<SMALL, kBack>", "block": "THREADS",
     "grid": ["ceil_div(cols, SMALL)", "ceil_div(rows, SMALL)", "count * (1 - min(1, n / 16384))"],
     "args": ["grad[]", "basis_left[]", "scratch.half + prefix(n)*4", "exp_avg[]", "exp_avg_sq[]", "param[]",
              "scratch.normalized + prefix(n)*4", "rows", "cols", "hyper"]},
    {"for": "shape", "kernel": "product<LARGE, kStep>", "block": "THREADS",
     "grid": ["ceil_div(cols, LARGE)", "ceil_div(rows, LARGE)", "count * min(1, n / 16384)"],
     "args": ["grad[]", "basis_right[]", "scratch.half + prefix(n)*4", "exp_avg[]", "exp_avg_sq[]", "param[]",
              "scratch.normalized + prefix(n)*4", "rows", "cols", "hyper"]},
    {"for": "shape", "kernel": "product<SMALL, kStep>", "block": "THREADS",
     "grid": ["ceil_div(cols, SMALL)", "ceil_div(rows, SMALL)", "count * (1 - min(1, n / 16384))"],
     "args": ["grad[]", "basis_right[]", "scratch.half + prefix(n)*4", "exp_avg[]", "exp_avg_sq[]", "param[]",
              "scratch.normalized + prefix(n)*4", "rows", "cols", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

// Which of the four products. A is the left factor and B the right one; results are rows x cols in all of them.
enum Stage {
  kGradient,  // half = grad * basis_right
  kAverage,   // basis_left^T * half, averages, normalized
  kBack,      // half = basis_left * normalized
  kStep       // half * basis_right^T, param
};

// One TILE x TILE tile of the result for each block; each thread has SIDE x SIDE elements of it, 16 threads to a side.
// Both tiles of the factors lie in shared memory with the summed index outside, so that reads are 16 bytes wide where
// SIDE allows; the next ones are on their way in registers while these are used.
template <int TILE, int STAGE>
__global__ void __launch_bounds__(THREADS, TILE == LARGE ? 2 : 1)
    product(const float* const* __restrict__ grad, const float* const* __restrict__ basis, float* __restrict__ half,
            float* const* __restrict__ exp_avg, float* const* __restrict__ exp_avg_sq, float* const* __restrict__ param,
            float* __restrict__ normalized, long long rows, long long cols, const Hyper* __restrict__ hyper) {
  constexpr int SIDE = TILE / 16;
  constexpr int LOADS = TILE * DEPTH / THREADS;
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const int which = blockIdx.z;
  const long long n = rows * cols;
  half += which * n;
  normalized += which * n;
  const float* const a = STAGE == kGradient ? grad[which] : STAGE == kStep ? half : basis[which];
  const float* const b = STAGE == kAverage ? half : STAGE == kBack ? normalized : basis[which];
  constexpr bool left_side = STAGE == kAverage || STAGE == kBack;  // the basis is A, and the sum is over rows
  const long long inner = left_side ? rows : cols;
  const long long row0 = (long long)blockIdx.y * TILE, col0 = (long long)blockIdx.x * TILE;

  __shared__ __align__(16) float tile_a[DEPTH][TILE + 4], tile_b[DEPTH][TILE + 4];
  float next_a[LOADS], next_b[LOADS];
  const auto fetch = [&](long long k0) {
#pragma unroll
    for (int l = 0; l < LOADS; ++l) {
      const int at = threadIdx.x + l * THREADS;  // neighbouring threads read neighbouring addresses
      if (STAGE == kAverage) {                   // A = basis^T
        const long long k = k0 + at / TILE, i = row0 + at % TILE;
        next_a[l] = k < inner && i < rows ? a[k * rows + i] : 0.0f;
      } else {
        const long long k = k0 + at % DEPTH, i = row0 + at / DEPTH;
        next_a[l] = k < inner && i < rows ? a[i * inner + k] : 0.0f;
      }
      if (STAGE == kStep) {  // B = basis^T
        const long long k = k0 + at % DEPTH, j = col0 + at / DEPTH;
        next_b[l] = k < inner && j < cols ? b[j * cols + k] : 0.0f;
      } else {
        const long long k = k0 + at / TILE, j = col0 + at % TILE;
        next_b[l] = k < inner && j < cols ? b[k * cols + j] : 0.0f;
      }
    }
  };
  const auto keep = [&] {
#pragma unroll
    for (int l = 0; l < LOADS; ++l) {
      const int at = threadIdx.x + l * THREADS;
      if (STAGE == kAverage)
        tile_a[at / TILE][at % TILE] = next_a[l];
      else
        tile_a[at % DEPTH][at / DEPTH] = next_a[l];
      if (STAGE == kStep)
        tile_b[at % DEPTH][at / DEPTH] = next_b[l];
      else
        tile_b[at / TILE][at % TILE] = next_b[l];
    }
  };

  float sum[SIDE][SIDE] = {};
  const int ty = threadIdx.x / 16, tx = threadIdx.x % 16;
  fetch(0);
  for (long long k0 = 0; k0 < inner; k0 += DEPTH) {
    keep();
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
  for (int i = 0; i < SIDE; ++i) {
    const long long row = row0 + ty * SIDE + i;
    if (row >= rows) continue;
#pragma unroll
    for (int j = 0; j < SIDE; ++j) {
      const long long col = col0 + tx * SIDE + j;
      if (col >= cols) continue;
      const long long e = row * cols + col;
      if (STAGE == kGradient) {
        half[e] = sum[i][j] * (1.0f / h.grad_scale);
      } else if (STAGE == kAverage) {
        const float g = sum[i][j], old_m = exp_avg[which][e], old_v = exp_avg_sq[which][e];
        const float m = fmaf(1.0f - h.beta1, g - old_m, old_m);
        const float v = fmaf(1.0f - h.beta2, fmaf(g, g, -old_v), old_v);
        exp_avg[which][e] = m;
        exp_avg_sq[which][e] = v;
        normalized[e] = m / (h.bias_correction1 * (sqrtf(v / h.bias_correction2) + h.eps));
      } else if (STAGE == kBack) {
        half[e] = sum[i][j];
      } else {
        const float p = param[which][e];
        param[which][e] = fmaf(-h.lr, fmaf(h.weight_decay, p, sum[i][j]), p);
      }
    }
  }
}
