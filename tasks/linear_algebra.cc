// Chooses the instruction-set level, and spreads products over the cores that are free. The kernels are in
// linear_algebra_level.cc.
#include "tasks/linear_algebra.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

#include "tasks/linear_algebra_level.h"
#include "tasks/spread.h"

namespace stepbench {

namespace {

/// Products of fewer multiplications are not cut: about a millisecond of one core.
constexpr double kLeastCut = 1 << 25;
/// Products are cut into tiles of this side, or of half of it where there would be fewer of them than a machine has
/// cores: smaller ones read the factors more often.
constexpr int64_t kTileSide = 512;
constexpr int64_t kFewTiles = 32;
constexpr int64_t kMirrorBlock = 32;

// The features that cmake/components.cmake compiles the levels for.
bool cpu_has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
bool cpu_has_avx512() {
  return cpu_has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

const LinearAlgebraLevel& best_level() {
  static const LinearAlgebraLevel level = linear_algebra_levels().back();
  return level;
}
void compute_tile(const Product<double>& p, const Tile& tile) { best_level().tile_f64(p, tile); }
void compute_tile(const Product<float>& p, const Tile& tile) { best_level().tile_f32(p, tile); }
void compute_triangle(const Product<double>& p, int64_t first, int64_t side) {
  best_level().triangle_f64(p, first, side);
}
void compute_triangle(const Product<float>& p, int64_t first, int64_t side) {
  best_level().triangle_f32(p, first, side);
}

/// Counts the products that this process computes right now. The one thing that they know of one another: oracles of
/// many tensors run at once, each on a thread of its own, and then a product must not start as many threads as there
/// are cores.
class RunningProduct {
 public:
  RunningProduct() : at_once_(count().fetch_add(1, std::memory_order_relaxed) + 1) {}
  ~RunningProduct() { count().fetch_sub(1, std::memory_order_relaxed); }
  RunningProduct(const RunningProduct&) = delete;
  RunningProduct& operator=(const RunningProduct&) = delete;

  /// Threads that it may use, its own included.
  int64_t threads() const {
    return std::max<int64_t>(1, static_cast<int64_t>(std::thread::hardware_concurrency()) / at_once_);
  }

 private:
  static std::atomic<int>& count() {
    static std::atomic<int> running{0};
    return running;
  }
  int at_once_;
};

int64_t parts_of(int64_t length, int64_t side) { return (length + side - 1) / side; }

/// Cuts [0, length) into equal parts of at most `side`.
std::vector<int64_t> cuts(int64_t length, int64_t side) {
  const int64_t parts = parts_of(length, side);
  std::vector<int64_t> edges;
  for (int64_t i = 0; i <= parts; ++i) edges.push_back(length * i / parts);
  return edges;
}

template <class T>
double multiplications(const Product<T>& p) {
  return static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
}

template <class T>
void multiply(const Product<T>& p) {
  if (p.m == 0 || p.n == 0) return;
  if (p.k == 0) {
    std::fill(p.c, p.c + p.m * p.n, T{0});
    return;
  }
  if (multiplications(p) < kLeastCut) return compute_tile(p, {0, p.m, 0, p.n});
  // By the sizes alone, so that the number of threads changes no bit.
  const bool few = parts_of(p.m, kTileSide) * parts_of(p.n, kTileSide) < kFewTiles;
  const int64_t side = few ? kTileSide / 2 : kTileSide;
  const std::vector<int64_t> down = cuts(p.m, side), across = cuts(p.n, side);
  std::vector<Tile> tiles;
  for (size_t i = 0; i + 1 < down.size(); ++i)
    for (size_t j = 0; j + 1 < across.size(); ++j)
      tiles.push_back({down[i], down[i + 1] - down[i], across[j], across[j + 1] - across[j]});
  const RunningProduct running;
  spread(running.threads(), tiles.size(), [&](size_t i) { compute_tile(p, tiles[i]); });
}

/// Copies a tile from below the diagonal, or the lower triangle of one on it, to its mirror image. In blocks that are
/// turned aside: rows of c are often a multiple of 4 KiB, and a column of it then falls into one set of the cache.
template <class T>
void mirror(const Tile& tile, int64_t n, T* c) {
  const int64_t last_row = tile.first_row + tile.rows, last_col = tile.first_col + tile.cols;
  std::array<std::array<T, kMirrorBlock>, kMirrorBlock> turned;
  for (int64_t i0 = tile.first_row; i0 < last_row; i0 += kMirrorBlock) {
    const int64_t height = std::min<int64_t>(kMirrorBlock, last_row - i0);
    for (int64_t j0 = tile.first_col; j0 < std::min(last_col, i0 + height); j0 += kMirrorBlock) {
      const int64_t width = std::min<int64_t>(kMirrorBlock, last_col - j0);
      for (int64_t i = 0; i < height; ++i)
        for (int64_t j = 0; j < width; ++j)
          turned[static_cast<size_t>(j)][static_cast<size_t>(i)] = c[(i0 + i) * n + j0 + j];
      for (int64_t j = 0; j < width; ++j)
        for (int64_t i = std::max<int64_t>(0, j0 + j + 1 - i0); i < height; ++i)
          c[(j0 + j) * n + i0 + i] = turned[static_cast<size_t>(j)][static_cast<size_t>(i)];
    }
  }
}

template <class T>
void multiply_symmetric(const Product<T>& p) {
  if (p.n == 0 || p.k == 0) return multiply(p);
  const int64_t parts = parts_of(p.n, kTileSide);
  const bool few = parts * (parts + 1) / 2 < kFewTiles && multiplications(p) >= kLeastCut;
  const std::vector<int64_t> edges = cuts(p.n, few ? kTileSide / 2 : kTileSide);
  std::vector<Tile> tiles;  // those on the diagonal, of half the work, come last
  for (size_t i = 0; i + 1 < edges.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      tiles.push_back({edges[i], edges[i + 1] - edges[i], edges[j], edges[j + 1] - edges[j]});
  for (size_t i = 0; i + 1 < edges.size(); ++i)
    tiles.push_back({edges[i], edges[i + 1] - edges[i], edges[i], edges[i + 1] - edges[i]});
  const auto compute = [&](size_t i) {
    const Tile& tile = tiles[i];
    if (tile.first_row == tile.first_col)
      compute_triangle(p, tile.first_row, tile.rows);
    else
      compute_tile(p, tile);
    mirror(tile, p.n, p.c);
  };
  if (tiles.size() == 1) return compute(0);
  const RunningProduct running;
  spread(running.threads(), tiles.size(), compute);
}

std::vector<double> not_a_number(int64_t count) {
  return std::vector<double>(static_cast<size_t>(count), std::numeric_limits<double>::quiet_NaN());
}

/// Reads the lower triangle of `a`; NaN where it is not finite or nothing converges.
std::vector<double> eigenvalues(int64_t n, double* a, bool vectors) {
  for (int64_t i = 0; i < n; ++i)  // the upper triangle may hold anything
    for (int64_t j = i + 1; j < n; ++j) a[i * n + j] = a[j * n + i];
  std::vector<double> values(static_cast<size_t>(n));
  const bool finite = std::all_of(a, a + n * n, [](double v) { return std::isfinite(v); });
  if (finite && best_level().eigen(n, a, vectors, values.data())) return values;
  std::fill(a, a + n * n, std::numeric_limits<double>::quiet_NaN());
  return not_a_number(n);
}

}  // namespace

std::vector<LinearAlgebraLevel> linear_algebra_levels() {
  std::vector<LinearAlgebraLevel> levels{isa_base::linear_algebra_level()};
  if (cpu_has_avx2()) levels.push_back(isa_avx2::linear_algebra_level());
  if (cpu_has_avx512()) levels.push_back(isa_avx512::linear_algebra_level());
  return levels;
}

void matmul(int64_t m, int64_t n, int64_t k, const double* a, bool transpose_a, const double* b, bool transpose_b,
            double* c) {
  multiply(Product<double>{m, n, k, a, transpose_a, b, transpose_b, c});
}
void matmul(int64_t m, int64_t n, int64_t k, const float* a, bool transpose_a, const float* b, bool transpose_b,
            float* c) {
  multiply(Product<float>{m, n, k, a, transpose_a, b, transpose_b, c});
}

void symmetric_matmul(int64_t n, int64_t k, const double* a, bool transpose_a, const double* b, bool transpose_b,
                      double* c) {
  multiply_symmetric(Product<double>{n, n, k, a, transpose_a, b, transpose_b, c});
}
void symmetric_matmul(int64_t n, int64_t k, const float* a, bool transpose_a, const float* b, bool transpose_b,
                      float* c) {
  multiply_symmetric(Product<float>{n, n, k, a, transpose_a, b, transpose_b, c});
}

std::vector<double> symmetric_eigen(int64_t n, double* a) {
  if (n == 0) return {};
  return eigenvalues(n, a, true);
}

std::vector<double> singular_values(int64_t rows, int64_t cols, const double* a) {
  const int64_t side = std::min(rows, cols);
  if (side == 0) return {};
  std::vector<double> gram(static_cast<size_t>(side * side));
  const bool wide = rows <= cols;
  symmetric_matmul(side, wide ? cols : rows, a, !wide, a, wide, gram.data());
  std::vector<double> values = eigenvalues(side, gram.data(), false);
  std::reverse(values.begin(), values.end());
  for (double& value : values) value = std::sqrt(std::max(value, 0.0));  // NaN stays
  return values;
}

double plain_sum_room(int64_t products, double covered) {
  return std::max(1.0, std::sqrt(static_cast<double>(products) / covered));
}

}  // namespace stepbench
