// Dense linear algebra in double precision for the oracles of matrix tasks: row-major, no strides. A thin face of
// Eigen, which linear_algebra.cc alone includes. Nothing here is called by a candidate.
#pragma once

#include <cstdint>
#include <vector>

namespace stepbench {

/// c = op(a) * op(b), where op(a) is m x k and op(b) is k x n; `transpose_a`: a is stored as k x m. `c` is overwritten
/// and must not overlap the factors. Products of more than some 10^8 multiplications are spread over the machine's
/// cores.
void matmul(int64_t m, int64_t n, int64_t k, const double* a, bool transpose_a, const double* b, bool transpose_b,
            double* c);

/// Eigenvalues of the symmetric n x n matrix `a` in ascending order; row i of `a` becomes the i-th eigenvector, of
/// length 1. Only the lower triangle is read. NaN everywhere where `a` holds NaN or infinity, or where the iteration
/// does not converge.
std::vector<double> symmetric_eigen(int64_t n, double* a);

/// Singular values of a, in descending order, min(rows, cols) of them; NaN as above.
std::vector<double> singular_values(int64_t rows, int64_t cols, const double* a);

}  // namespace stepbench
