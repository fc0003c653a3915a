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
#include <vector>

#include "tasks/linear_algebra.h"

namespace stepbench::newton_schulz {

inline constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
inline constexpr int kIterations = 5;

/// Singular values of X / ||X|| below this are not brought near 1 by five iterations.
inline constexpr double kLeastLifted = 3e-3;
/// No error is expected to be below this share of the result: about ten roundings to bf16. Small matrices may be lucky.
inline constexpr double kLeastError = 0x1p-6;
/// Relative error of a rounding to bf16.
inline constexpr double kUnit = 0x1p-9;
/// Matrices of more elements are simulated once, not three times, and have no singular values computed: their error
/// varies little, and those computations would take minutes.
inline constexpr int64_t kMostSimulated = int64_t{1} << 18;

inline double round_to_bf16(double value) {
  const auto narrow = static_cast<float>(value);
  const auto bits = std::bit_cast<uint32_t>(narrow);
  if (!(std::fabs(narrow) <= 3.4e38f)) return static_cast<double>(narrow);
  return static_cast<double>(std::bit_cast<float>((bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u));
}
inline void round_all(std::vector<double>& values) {
  for (double& value : values) value = round_to_bf16(value);
}
inline double frobenius(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

/// Where a bf16 evaluation rounds.
struct Rounding {
  bool products = false;      ///< the Gram matrix, the polynomial and x are bf16
  bool norm = false;          ///< the norm is that of bf16 values, and bf16 itself
  bool keeps_double = false;  ///< x is rounded where it is multiplied only
};

/// `g` has rows <= cols. a*x + (b*A + c*A*A) x with A = x x^T, five times, from x = g / max(||g||, eps).
inline std::vector<double> iterate(std::vector<double> x, int64_t rows, int64_t cols, double eps,
                                   const Rounding& rounding) {
  if (rounding.norm) round_all(x);
  double norm = frobenius(x);
  if (rounding.norm) norm = round_to_bf16(norm);
  norm = std::max(norm, rounding.norm ? round_to_bf16(eps) : eps);
  for (double& value : x) value /= norm;
  if (rounding.products && !rounding.keeps_double) round_all(x);
  const auto side = static_cast<size_t>(rows * rows);
  std::vector<double> gram(side), polynomial(side), moved(x.size()), factor;
  for (int i = 0; i < kIterations; ++i) {
    factor = x;
    if (rounding.products) round_all(factor);
    matmul(rows, rows, cols, factor.data(), false, factor.data(), true, gram.data());
    if (rounding.products) round_all(gram);
    matmul(rows, rows, rows, gram.data(), false, gram.data(), false, polynomial.data());
    for (size_t e = 0; e < side; ++e) polynomial[e] = kB * gram[e] + kC * polynomial[e];
    if (rounding.products) round_all(polynomial);
    matmul(rows, cols, rows, polynomial.data(), false, factor.data(), false, moved.data());
    for (size_t e = 0; e < x.size(); ++e) x[e] = kA * x[e] + moved[e];
    if (rounding.products && !rounding.keeps_double) round_all(x);
  }
  return x;
}

inline std::vector<double> transposed(const std::vector<double>& values, int64_t rows, int64_t cols) {
  std::vector<double> out(values.size());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j)
      out[static_cast<size_t>(j * rows + i)] = values[static_cast<size_t>(i * cols + j)];
  return out;
}

/// The short side becomes the rows, as in torch; the result is the same either way, only its cost is not.
inline std::vector<double> orthogonalized(const std::vector<double>& g, int64_t rows, int64_t cols, double eps,
                                          const Rounding& rounding = {}) {
  if (rows <= cols) return iterate(g, rows, cols, eps, rounding);
  return transposed(iterate(transposed(g, rows, cols), cols, rows, eps, rounding), cols, rows);
}

/// What five iterations make of a singular value.
inline double lifted(double value) {
  for (int i = 0; i < kIterations; ++i) {
    const double square = value * value;
    value *= kA + square * (kB + square * kC);
  }
  return value;
}

/// Frobenius norm of the error that a faithful bf16 evaluation must be granted. The largest of: what three of them have
/// on these data, that differ in where they round (torch's own; an exact norm; x kept in fp32 and rounded for the
/// products only); kLeastError of the result; and what noise of one rounding makes of the directions in which the
/// matrix has next to nothing, which the iteration multiplies by up to kA^5 = 485: there every evaluation has other
/// digits, and three of them need not show it.
inline double faithful_error(const std::vector<double>& g, const std::vector<double>& exact, int64_t rows, int64_t cols,
                             double eps) {
  const auto distance = [&](const Rounding& rounding) {
    std::vector<double> x = orthogonalized(g, rows, cols, eps, rounding);
    for (size_t i = 0; i < x.size(); ++i) x[i] -= exact[i];
    return frobenius(x);
  };
  double error = std::max(distance({.products = true, .norm = true}), kLeastError * frobenius(exact));
  if (rows * cols > kMostSimulated) return error;
  error = std::max({error, distance({.products = true}), distance({.products = true, .keeps_double = true})});
  const double norm = std::max(frobenius(g), eps);
  const auto height = static_cast<double>(rows), width = static_cast<double>(cols);
  // Spectral norm of random roundings of a matrix of Frobenius norm 1, roughly (Davidson and Szarek 2001).
  const double noise = kUnit * std::min(1.0, 1 / std::sqrt(height) + 1 / std::sqrt(width));
  double lost = 0;
  if (frobenius(g) > 0) {
    for (const double sigma : singular_values(rows, cols, g.data())) {
      if (sigma / norm >= kLeastLifted) continue;
      const double moved = lifted(sigma / norm + noise * std::min(1.0, frobenius(g) / norm)) - lifted(sigma / norm);
      lost += moved * moved;
    }
  }
  return std::max(error, std::sqrt(lost));
}

/// How far singular values of a result are outside of [0.6, 1.3], in units of 0.2, where those of `g` were large enough
/// to be lifted. As many of the largest are looked at as `g` has of those. 0 for matrices above kMostSimulated.
inline double outside_of_band(const std::vector<double>& g, const double* result, int64_t rows, int64_t cols,
                              double eps) {
  constexpr double kLow = 0.6, kHigh = 1.3, kUnitOutside = 0.2;
  const double norm = frobenius(g);
  if (rows * cols > kMostSimulated || !(norm > eps)) return 0;
  size_t count = 0;
  for (const double sigma : singular_values(rows, cols, g.data())) count += sigma / norm >= kLeastLifted ? 1 : 0;
  const std::vector<double> values = singular_values(rows, cols, result);
  if (count == 0) return 0;
  return std::max({0.0, values.front() - kHigh, kLow - values[count - 1]}) / kUnitOutside;
}

}  // namespace stepbench::newton_schulz
