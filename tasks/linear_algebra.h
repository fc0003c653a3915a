// Dense linear algebra for the oracles of matrix tasks: row-major, no strides. linear_algebra_level.cc has the kernels,
// which use the widest vectors of the machine: sums may differ in their last digits from one kind of processor to
// another, but not with the number of threads. Tiny products (m + n + k < 20) may differ with the address of their
// result, too: where that must not be, it begins at a multiple of 64 bytes (Unfilled). Nothing here is called by a
// candidate.
#pragma once

#include <cstdint>
#include <vector>

namespace stepbench {

/// c = op(a) * op(b), where op(a) is m x k and op(b) is k x n; `transpose_a`: a is stored as k x m. `c` is overwritten
/// and must not overlap the factors. May be called from any number of threads. Products of more than some 10^7
/// multiplications are spread over those cores of the machine that no other product uses.
void matmul(int64_t m, int64_t n, int64_t k, const double* a, bool transpose_a, const double* b, bool transpose_b,
            double* c);
/// The same in single precision, in half the time.
void matmul(int64_t m, int64_t n, int64_t k, const float* a, bool transpose_a, const float* b, bool transpose_b,
            float* c);

/// matmul() where the result, n x n, is known to be symmetric: one half is computed, and the other is its mirror image.
/// x times its transpose, or the square of a symmetric matrix.
void symmetric_matmul(int64_t n, int64_t k, const double* a, bool transpose_a, const double* b, bool transpose_b,
                      double* c);
void symmetric_matmul(int64_t n, int64_t k, const float* a, bool transpose_a, const float* b, bool transpose_b,
                      float* c);

/// Eigenvalues of the symmetric n x n matrix `a` in ascending order; row i of `a` becomes the i-th eigenvector, of
/// length 1. Only the lower triangle is read. NaN everywhere where `a` holds NaN or infinity, or where the iteration
/// does not converge.
std::vector<double> symmetric_eigen(int64_t n, double* a);

/// Singular values of a, in descending order, min(rows, cols) of them; NaN as above. Roots of the eigenvalues of the
/// smaller Gram matrix: off by up to 1e-7 of the largest one where they are near zero, and far less elsewhere.
std::vector<double> singular_values(int64_t rows, int64_t cols, const double* a);

/// Room for a plain sum in fp32, one product after the other, as a factor of a limit that is enough for `covered` of
/// them: its error grows with the root of their number. Where one product is larger than all others together, the whole
/// sum is rounded at every step, and in one of millions of sums the error comes to 2.3 * 2^-24 * sqrt(products) of the
/// magnitudes (8 to 192 products of two numbers of the family `heavy_tailed`, 8 to 96 squares; 2.8 of 128 to 192
/// squares); where all are alike, to 2^-24 * sqrt(products). 1 up to `covered`.
double plain_sum_room(int64_t products, double covered);

}  // namespace stepbench
