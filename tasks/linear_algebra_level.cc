// The one file that includes Eigen, compiled once for each instruction-set level (SB_ISA). Its templates are the same
// symbols for every level, and a linker keeps one of each: so Eigen's namespace has another name in every level
// (SB_EIGEN), and what a machine without AVX-512 runs is never code that was compiled for it.
#include "tasks/linear_algebra_level.h"

#define Eigen SB_EIGEN
#include <Eigen/Core>
#include <Eigen/Eigenvalues>

namespace stepbench::SB_ISA {

namespace {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using Input = Eigen::Map<const Matrix<T>>;
template <class T>
using Output = Eigen::Map<Matrix<T>>;

/// into(left factor, right factor) with the rows of op(a) and the columns of op(b) that the tile needs.
template <class T, class Into>
void with_factors(const Product<T>& p, const Tile& tile, const Into& into) {
  const Input<T> a(p.a, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k);
  const Input<T> b(p.b, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n);
  const auto with_left = [&](const auto& left) {
    if (p.transpose_b)
      into(left, b.middleRows(tile.first_col, tile.cols).transpose());
    else
      into(left, b.middleCols(tile.first_col, tile.cols));
  };
  if (p.transpose_a)
    with_left(a.middleCols(tile.first_row, tile.rows).transpose());
  else
    with_left(a.middleRows(tile.first_row, tile.rows));
}

template <class T>
void tile_of(const Product<T>& product, const Tile& tile) {
  Output<T> c(product.c, product.m, product.n);
  with_factors(product, tile, [&](const auto& left, const auto& right) {
    c.block(tile.first_row, tile.first_col, tile.rows, tile.cols).noalias() = left * right;
  });
}

/// Eigen's kernel for triangles saves nothing of larger ones: halves are cut from them, which leave a square each time.
constexpr int64_t kTriangleSide = 128;

template <class T>
void triangle_of(const Product<T>& product, int64_t first, int64_t side) {
  if (side > kTriangleSide) {
    const int64_t half = side / 2;
    triangle_of(product, first, half);
    tile_of(product, {first + half, side - half, first, half});
    return triangle_of(product, first + half, side - half);
  }
  Output<T> c(product.c, product.m, product.n);
  with_factors(product, {first, side, first, side}, [&](const auto& left, const auto& right) {
    c.block(first, first, side, side).template triangularView<Eigen::Lower>() = left * right;
  });
}

bool eigen(int64_t n, double* a, bool vectors, double* values) {
  Output<double> matrix(a, n, n);
  Eigen::SelfAdjointEigenSolver<Matrix<double>> solver;
  solver.compute(matrix, vectors ? Eigen::ComputeEigenvectors : Eigen::EigenvaluesOnly);
  if (solver.info() != Eigen::Success) return false;
  Eigen::Map<Eigen::VectorXd>(values, n) = solver.eigenvalues();
  if (vectors) matrix = solver.eigenvectors().transpose();
  return true;
}

}  // namespace

LinearAlgebraLevel linear_algebra_level() {
  return {SB_ISA_NAME, tile_of<double>, tile_of<float>, triangle_of<double>, triangle_of<float>, eigen};
}

}  // namespace stepbench::SB_ISA
