// The iteration of Muon in double precision against its action on singular values, and the error that faithful bf16
// evaluations are granted.
#include <catch2/catch.hpp>

#include <cmath>

#include "harness/stages.h"
#include "tasks/newton_schulz.h"

namespace stepbench {
namespace {

using newton_schulz::frobenius;
using newton_schulz::lifted;
using newton_schulz::orthogonalized;

std::vector<double> values(const char* family, int64_t rows, int64_t cols, uint64_t seed) {
  BufferSpec buffer;
  buffer.initial = "gradient";
  return to_double(DType::kF32, make_values(buffer, make_shape({rows, cols}), family, seed));
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::fabs(a[i] - b[i]));
  return worst;
}

// One number is its own singular value: worked out by hand from the formula.
TEST_CASE("a matrix of one element") {
  const double one = orthogonalized({-3}, 1, 1, 1e-7).front();
  double expected = 1;
  for (int i = 0; i < 5; ++i)
    expected = 3.4445 * expected - 4.7750 * std::pow(expected, 3) + 2.0315 * std::pow(expected, 5);
  CHECK(one == Approx(-expected).epsilon(1e-14));
  CHECK(lifted(1) == Approx(expected).epsilon(1e-14));
  CHECK(orthogonalized({0, 0, 0, 0}, 2, 2, 1e-7) == std::vector<double>(4, 0.0));
  // Far below eps the iteration is a factor of 3.4445^5.
  const double small = orthogonalized({1e-12}, 1, 1, 1e-6).front();
  CHECK(small == Approx(1e-6 * std::pow(3.4445, 5)).epsilon(1e-6));
}

// Rotations of 3-4-5 triangles have exact entries: U diag(s) V^T goes to U diag(p(s / norm)) V^T.
TEST_CASE("singular vectors stay, singular values are lifted") {
  const double c = 0.6, s = 0.8;
  const double norm = std::sqrt(9.0 + 1.0);
  const std::vector<double> g = {3 * c, -s, 3 * s, c};  // rotation times diag(3, 1)
  const std::vector<double> x = orthogonalized(g, 2, 2, 1e-7);
  const double first = lifted(3 / norm), second = lifted(1 / norm);
  const std::vector<double> expected = {first * c, -second * s, first * s, second * c};
  CHECK(largest_difference(x, expected) < 1e-14);
}

TEST_CASE("five iterations bring singular values from 3e-3 on near 1") {
  double least = 10, most = 0;
  for (double sigma = newton_schulz::kLeastLifted; sigma <= 1; sigma *= 1.0005) {
    least = std::min(least, lifted(sigma));
    most = std::max(most, lifted(sigma));
  }
  CHECK(least > 0.6);
  CHECK(most < 1.3);
  CHECK(lifted(newton_schulz::kLeastLifted / 5) < 0.6);  // control
}

TEST_CASE("the orientation does not matter, scale does not matter above eps") {
  for (const char* family : {"gaussian", "planted_spectrum", "badly_scaled"}) {
    INFO(family);
    const std::vector<double> g = values(family, 20, 12, 3);
    const std::vector<double> x = orthogonalized(g, 20, 12, 1e-12);
    CHECK(largest_difference(x, newton_schulz::iterate(g, 20, 12, 1e-12, {})) < 1e-12);
    std::vector<double> scaled = g;
    for (double& value : scaled) value *= 1024;
    CHECK(largest_difference(x, orthogonalized(scaled, 20, 12, 1e-12)) == 0);
  }
}

TEST_CASE("rounding to bf16") {
  for (const auto& [value, expected] : {std::pair(1.0, 1.0), std::pair(257.0, 256.0), std::pair(259.0, 260.0),
                                        std::pair(-3.0000001, -3.0), std::pair(0.0, 0.0)})
    CHECK(newton_schulz::round_to_bf16(value) == expected);
}

TEST_CASE("what bf16 is granted: about a hundredth, more where a matrix is nearly empty, nothing for zero") {
  for (const auto& [rows, cols] : {std::pair(16, 16), std::pair(12, 20), std::pair(20, 12), std::pair(48, 96)}) {
    for (uint64_t seed = 0; seed < 6; ++seed) {
      INFO(rows << " x " << cols << " seed " << seed);
      const std::vector<double> g = values("gaussian", rows, cols, seed);
      const std::vector<double> x = orthogonalized(g, rows, cols, 1e-7);
      const double error = newton_schulz::faithful_error(g, x, rows, cols, 1e-7);
      CHECK(error >= 0x1p-6 * frobenius(x));
      CHECK(error < 0.08 * frobenius(x));
      // It is enough for a faithful evaluation.
      std::vector<double> narrow = orthogonalized(g, rows, cols, 1e-7, {.products = true});
      for (size_t i = 0; i < x.size(); ++i) narrow[i] -= x[i];
      CHECK(frobenius(narrow) <= error);
    }
  }
  const std::vector<double> outer = [] {
    std::vector<double> g(16 * 16);
    for (size_t i = 0; i < g.size(); ++i)
      g[i] = (1 + 0.37 * static_cast<double>(i / 16)) * (2 - 0.21 * static_cast<double>(i % 16));
    return g;
  }();
  const std::vector<double> x = orthogonalized(outer, 16, 16, 1e-7);
  CHECK(newton_schulz::faithful_error(outer, x, 16, 16, 1e-7) > 0.3 * frobenius(x));
  const std::vector<double> zero(16 * 16, 0.0);
  CHECK(newton_schulz::faithful_error(zero, zero, 16, 16, 1e-7) == 0);
}

TEST_CASE("the band is left by what is not orthogonal") {
  const std::vector<double> g = values("gaussian", 12, 20, 1);
  std::vector<double> x = orthogonalized(g, 12, 20, 1e-7);
  CHECK(newton_schulz::outside_of_band(g, x.data(), 12, 20, 1e-7) == 0);
  for (double& value : x) value *= 2;
  CHECK(newton_schulz::outside_of_band(g, x.data(), 12, 20, 1e-7) > 0.5);
  for (double& value : x) value *= 0.1;
  CHECK(newton_schulz::outside_of_band(g, x.data(), 12, 20, 1e-7) > 1);
  const std::vector<double> zero(g.size(), 0.0);
  CHECK(newton_schulz::outside_of_band(zero, x.data(), 12, 20, 1e-7) == 0);
}

}  // namespace
}  // namespace stepbench
