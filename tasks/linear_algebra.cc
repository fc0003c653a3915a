// The one file that includes Eigen. It is compiled with the program, so the same sums come out on every machine, and
// any number of threads may call it; Debian's serial OpenBLAS 0.3.21 gave wrong products then.
#include "tasks/linear_algebra.h"

#include <Eigen/Core>
#include <Eigen/Eigenvalues>
#include <Eigen/SVD>
#include <algorithm>
#include <cmath>
#include <limits>
#include <system_error>
#include <thread>

namespace stepbench {

namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Input = Eigen::Map<const Matrix>;
using Output = Eigen::Map<Matrix>;

constexpr double kParallelProducts = 1 << 25;  // about 15 ms of one core

bool all_finite(const double* values, int64_t count) {
  return std::all_of(values, values + count, [](double v) { return std::isfinite(v); });
}

std::vector<double> not_a_number(int64_t count) {
  return std::vector<double>(static_cast<size_t>(count), std::numeric_limits<double>::quiet_NaN());
}

}  // namespace

void matmul(int64_t m, int64_t n, int64_t k, const double* a, bool transpose_a, const double* b, bool transpose_b,
            double* c) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    std::fill(c, c + m * n, 0.0);
    return;
  }
  const auto rows = [&](int64_t first, int64_t last) {
    Output out(c + first * n, last - first, n);
    const Input left(a, transpose_a ? k : m, transpose_a ? m : k), right(b, transpose_b ? n : k, transpose_b ? k : n);
    if (transpose_a && transpose_b)
      out.noalias() = left.middleCols(first, last - first).transpose() * right.transpose();
    else if (transpose_a)
      out.noalias() = left.middleCols(first, last - first).transpose() * right;
    else if (transpose_b)
      out.noalias() = left.middleRows(first, last - first) * right.transpose();
    else
      out.noalias() = left.middleRows(first, last - first) * right;
  };
  const double products = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const int64_t parts =
      products < kParallelProducts
          ? 1
          : std::min<int64_t>(std::max(1u, std::thread::hardware_concurrency()), std::max<int64_t>(1, m / 64));
  std::vector<std::thread> pool;
  int64_t done = 0;
  for (int64_t p = 1; p < parts; ++p) {
    const int64_t next = m * p / parts;
    try {
      pool.emplace_back(rows, done, next);
    } catch (const std::system_error&) {
      break;  // no more threads to be had: the rest is done here
    }
    done = next;
  }
  rows(done, m);
  for (std::thread& thread : pool) thread.join();
}

std::vector<double> symmetric_eigen(int64_t n, double* a) {
  if (n == 0) return {};
  Output matrix(a, n, n);
  Eigen::SelfAdjointEigenSolver<Matrix> solver;
  bool converged = false;
  for (int64_t i = 0; i < n; ++i)  // the upper triangle may hold anything
    for (int64_t j = i + 1; j < n; ++j) a[i * n + j] = a[j * n + i];
  if (all_finite(a, n * n)) {
    solver.compute(matrix);
    converged = solver.info() == Eigen::Success;
  }
  if (!converged) {
    std::fill(a, a + n * n, std::numeric_limits<double>::quiet_NaN());
    return not_a_number(n);
  }
  matrix = solver.eigenvectors().transpose();
  const auto& values = solver.eigenvalues();
  return {values.data(), values.data() + n};
}

std::vector<double> singular_values(int64_t rows, int64_t cols, const double* a) {
  const int64_t count = std::min(rows, cols);
  if (count == 0) return {};
  if (!all_finite(a, rows * cols)) return not_a_number(count);
  const Eigen::BDCSVD<Matrix> solver{Matrix(Input(a, rows, cols))};
  if (solver.info() != Eigen::Success) return not_a_number(count);
  const auto& values = solver.singularValues();
  return {values.data(), values.data() + count};
}

}  // namespace stepbench
