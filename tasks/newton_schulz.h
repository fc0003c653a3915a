// The Newton-Schulz iteration of Muon in double precision, and what the same iteration in bf16 is off by: shared by the
// oracles of muon_ns5 and muon. Formula: Jordan et al., "Muon: An optimizer for hidden layers in neural networks",
// 2024, with the coefficients given there; bf16 is rounded to where torch.optim.Muon 2.11 rounds (_muon.py,
// _zeropower_via_newtonschulz).
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "tasks/linear_algebra.h"
#include "tasks/spread.h"

namespace stepbench::newton_schulz {

inline constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
inline constexpr int kIterations = 5;

/// Singular values of X / ||X|| below this are not brought near 1 by five iterations.
inline constexpr double kLeastLifted = 3e-3;
/// No error is expected to be below this share of the result: about ten roundings to bf16. Small matrices may be lucky,
/// and in few elements roundings do not average out: with 2^-6 alone right evaluations were off by 2.3 times the error
/// granted in two elements and 2.6 times in fifteen.
inline double least_error(double elements) { return 0x1p-6 * (1 + 3 / std::sqrt(elements)); }
/// Relative error of a rounding to bf16.
inline constexpr double kUnit = 0x1p-9;
/// Matrices of more elements are simulated once, not three times, and have no singular values computed: their error
/// varies little, and those computations would take long.
inline constexpr int64_t kMostSimulated = int64_t{1} << 18;

inline float round_to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto rounded = std::bit_cast<float>((bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u);
  return std::fabs(value) <= 3.4e38f ? rounded : value;
}
inline double round_to_bf16(double value) { return static_cast<double>(round_to_bf16(static_cast<float>(value))); }
/// body(i) for i in [0, count), on up to `threads` threads.
template <class Body>
void for_each_element(size_t count, int threads, const Body& body) {
  spread_blocks(threads, 0, static_cast<int64_t>(count), [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) body(i);
  });
}
/// term(i) added up likewise.
template <class Term>
double sum_over_elements(size_t count, int threads, const Term& term) {
  return spread_sum<double>(threads, 0, static_cast<int64_t>(count), [&](int64_t begin, int64_t end) {
    return sum_in_lanes(static_cast<size_t>(end - begin),
                        [&](size_t i) { return term(static_cast<size_t>(begin) + i); });
  });
}
template <class Matrix>
void round_all(Matrix& values, int threads = 1) {
  for_each_element(values.size(), threads, [&](size_t i) { values[i] = round_to_bf16(values[i]); });
}
template <class Matrix>
double frobenius(const Matrix& values, int threads = 1) {
  return std::sqrt(sum_over_elements(values.size(), threads, [&](size_t i) {
    const auto value = static_cast<double>(values[i]);
    return value * value;
  }));
}

/// Where a bf16 evaluation rounds.
struct Rounding {
  bool products = false;    ///< the Gram matrix, the polynomial and x are bf16
  bool norm = false;        ///< the norm is that of bf16 values, and bf16 itself
  bool keeps_wide = false;  ///< x is rounded where it is multiplied only
};

/// `given` has rows <= cols. a*x + (b*A + c*A*A) x with A = x x^T, five times, from x = given / max(||given||, eps);
/// the norm in double, everything after it in T. float is for simulations of bf16: its own roundings are 2^-16 of
/// those.
template <class T>
std::vector<T> iterate(const std::vector<double>& given, int64_t rows, int64_t cols, double eps,
                       const Rounding& rounding, int threads = 1) {
  const auto value_of = [&](size_t i) { return rounding.norm ? round_to_bf16(given[i]) : given[i]; };
  double norm =
      std::sqrt(sum_over_elements(given.size(), threads, [&](size_t i) { return value_of(i) * value_of(i); }));
  if (rounding.norm) norm = round_to_bf16(norm);
  norm = std::max(norm, rounding.norm ? round_to_bf16(eps) : eps);
  std::vector<T> x(given.size());
  for_each_element(x.size(), threads, [&](size_t e) { x[e] = static_cast<T>(value_of(e) / norm); });
  if (rounding.products && !rounding.keeps_wide) round_all(x, threads);
  const auto side = static_cast<size_t>(rows * rows);
  Unfilled<T> gram(side), polynomial(side), moved(x.size()), rounded(rounding.keeps_wide ? x.size() : 0);
  for (int i = 0; i < kIterations; ++i) {
    for_each_element(rounded.size(), threads, [&](size_t e) { rounded[e] = round_to_bf16(x[e]); });
    const T* const factor = rounding.keeps_wide ? rounded.data() : x.data();
    symmetric_matmul(rows, cols, factor, false, factor, true, gram.data());
    if (rounding.products) round_all(gram, threads);
    symmetric_matmul(rows, rows, gram.data(), false, gram.data(), false, polynomial.data());
    for_each_element(side, threads, [&](size_t e) {
      const T value = static_cast<T>(kB) * gram[e] + static_cast<T>(kC) * polynomial[e];
      polynomial[e] = rounding.products ? round_to_bf16(value) : value;
    });
    matmul(rows, cols, rows, polynomial.data(), false, factor, false, moved.data());
    const bool rounds = rounding.products && !rounding.keeps_wide;
    for_each_element(x.size(), threads, [&](size_t e) {
      const T value = static_cast<T>(kA) * x[e] + moved[e];
      x[e] = rounds ? round_to_bf16(value) : value;
    });
  }
  return x;
}

inline std::vector<double> transposed(const std::vector<double>& values, int64_t rows, int64_t cols, int threads = 1) {
  constexpr int64_t kBlock = 16;  // for the cache
  std::vector<double> out(values.size());
  const int64_t bands = values.empty() ? 0 : (rows + kBlock - 1) / kBlock;
  spread(static_cast<int64_t>(values.size()) <= kSpreadElements ? 1 : threads, static_cast<size_t>(bands),
         [&](size_t band) {
           const int64_t i0 = static_cast<int64_t>(band) * kBlock;
           for (int64_t j0 = 0; j0 < cols; j0 += kBlock)
             for (int64_t j = j0; j < std::min(j0 + kBlock, cols); ++j)
               for (int64_t i = i0; i < std::min(i0 + kBlock, rows); ++i)
                 out[static_cast<size_t>(j * rows + i)] = values[static_cast<size_t>(i * cols + j)];
         });
  return out;
}

/// The short side becomes the rows, as in torch; the result is the same either way, only its cost is not.
inline std::vector<double> orthogonalized(const std::vector<double>& g, int64_t rows, int64_t cols, double eps,
                                          const Rounding& rounding = {}, int threads = 1) {
  if (rows <= cols) return iterate<double>(g, rows, cols, eps, rounding, threads);
  return transposed(iterate<double>(transposed(g, rows, cols, threads), cols, rows, eps, rounding, threads), cols, rows,
                    threads);
}

/// What five iterations make of a singular value.
inline double lifted(double value) {
  for (int i = 0; i < kIterations; ++i) {
    const double square = value * value;
    value *= kA + square * (kB + square * kC);
  }
  return value;
}

/// What results are judged by that were made of one matrix.
struct Allowance {
  double error = 0;    ///< Frobenius norm of the error that a faithful bf16 evaluation must be granted
  int64_t lifted = 0;  ///< singular values that are large enough to be lifted; 0 above kMostSimulated
};

/// `exact` is the result in double. The error is the largest of: what three faithful evaluations have on these data,
/// that differ in where they round (torch's own; an exact norm; x kept in fp32 and rounded for the products only);
/// least_error() of the result; and what noise of one rounding makes of the directions in which the matrix has next to
/// nothing, which the iteration multiplies by up to kA^5 = 485: there every evaluation has other digits, and three of
/// them need not show it. T is the type of the simulations' sums.
template <class T = float>
Allowance allowance(const std::vector<double>& g, const std::vector<double>& exact, int64_t rows, int64_t cols,
                    double eps, int threads = 1) {
  const bool tall = rows > cols;
  const std::vector<double> turned_g = tall ? transposed(g, rows, cols, threads) : std::vector<double>{};
  const std::vector<double> turned_exact = tall ? transposed(exact, rows, cols, threads) : std::vector<double>{};
  const auto distance = [&](const Rounding& rounding) {
    const std::vector<T> x =
        iterate<T>(tall ? turned_g : g, std::min(rows, cols), std::max(rows, cols), eps, rounding, threads);
    const std::vector<double>& expected = tall ? turned_exact : exact;
    return std::sqrt(sum_over_elements(x.size(), threads, [&](size_t i) {
      const double difference = static_cast<double>(x[i]) - expected[i];
      return difference * difference;
    }));
  };
  Allowance found;
  found.error = std::max(distance({.products = true, .norm = true}),
                         least_error(static_cast<double>(rows * cols)) * frobenius(exact, threads));
  if (rows * cols > kMostSimulated) return found;
  found.error = std::max({found.error, distance({.products = true}), distance({.products = true, .keeps_wide = true})});
  const double length = frobenius(g, threads);
  if (!(length > 0)) return found;
  const double norm = std::max(length, eps);
  const auto height = static_cast<double>(rows), width = static_cast<double>(cols);
  // Spectral norm of random roundings of a matrix of Frobenius norm 1, roughly (Davidson and Szarek 2001).
  const double noise = kUnit * std::min(1.0, 1 / std::sqrt(height) + 1 / std::sqrt(width));
  double lost = 0;
  for (const double sigma : singular_values(rows, cols, g.data())) {
    if (sigma / norm >= kLeastLifted) {
      found.lifted += length > eps ? 1 : 0;
      continue;
    }
    const double moved = lifted(sigma / norm + noise * std::min(1.0, length / norm)) - lifted(sigma / norm);
    lost += moved * moved;
  }
  found.error = std::max(found.error, std::sqrt(lost));
  return found;
}

/// How far singular values of a result are outside of [0.6, 1.3], in units of 0.2: of its largest, as many as the
/// matrix that it was made of has that are large enough to be lifted (Allowance).
inline double outside_of_band(int64_t lifted_values, const double* result, int64_t rows, int64_t cols) {
  constexpr double kLow = 0.6, kHigh = 1.3, kUnitOutside = 0.2;
  if (lifted_values == 0) return 0;
  const std::vector<double> values = singular_values(rows, cols, result);
  const double above = values.front() - kHigh, below = kLow - values[static_cast<size_t>(lifted_values - 1)];
  if (std::isnan(above) || std::isnan(below)) return std::numeric_limits<double>::quiet_NaN();
  return std::max({0.0, above, below}) / kUnitOutside;
}

}  // namespace stepbench::newton_schulz
