// What linear_algebra.cc calls of one instruction-set level: linear_algebra_level.cc is compiled once for each, and the
// best that the machine has is chosen when the program runs. Pieces of products, so that the caller may spread them
// over threads; nothing here starts one.
#pragma once

#include <cstdint>
#include <vector>

namespace stepbench {

/// c = op(a) * op(b), all row-major without gaps: op(a) is m x k, op(b) k x n, c m x n. `transpose_a`: a is stored k x
/// m.
template <class T>
struct Product {
  int64_t m = 0, n = 0, k = 0;
  const T* a = nullptr;
  bool transpose_a = false;
  const T* b = nullptr;
  bool transpose_b = false;
  T* c = nullptr;
};

/// A part of c: `rows` rows from `first_row` on, `cols` columns from `first_col` on.
struct Tile {
  int64_t first_row = 0, rows = 0, first_col = 0, cols = 0;
};

/// Every function may be called from any number of threads at once. k is 1 at least.
struct LinearAlgebraLevel {
  const char* name = "";
  void (*tile_f64)(const Product<double>& product, const Tile& tile) = nullptr;
  void (*tile_f32)(const Product<float>& product, const Tile& tile) = nullptr;
  /// The lower triangle, diagonal included, of the square at rows and columns [first, first + side) of c.
  void (*triangle_f64)(const Product<double>& product, int64_t first, int64_t side) = nullptr;
  void (*triangle_f32)(const Product<float>& product, int64_t first, int64_t side) = nullptr;
  /// Eigenvalues of the finite symmetric n x n matrix `a` in ascending order, n > 0; row i of `a` becomes the i-th
  /// eigenvector where `vectors`. False where the iteration does not converge.
  bool (*eigen)(int64_t n, double* a, bool vectors, double* values) = nullptr;
};

namespace isa_base {
LinearAlgebraLevel linear_algebra_level();
}
namespace isa_avx2 {
LinearAlgebraLevel linear_algebra_level();
}
namespace isa_avx512 {
LinearAlgebraLevel linear_algebra_level();
}

/// Those that this machine can run, slowest first (linear_algebra.cc).
std::vector<LinearAlgebraLevel> linear_algebra_levels();

}  // namespace stepbench
