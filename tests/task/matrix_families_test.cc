// Gradients of the families that are made for matrices: what spectrum, rank and scale they have.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>

#include "harness/stages.h"
#include "tasks/linear_algebra.h"

namespace stepbench {
namespace {

struct Shape {
  int64_t rows, cols;
};
constexpr Shape kShapes[] = {{1, 1}, {1, 7}, {7, 1}, {2, 2}, {16, 16}, {12, 20}, {20, 12}, {33, 65}, {96, 96}};
constexpr uint64_t kSeeds = 24;

BufferSpec gradient() {
  BufferSpec buffer;
  buffer.initial = "gradient";
  buffer.role = Role::kIn;
  return buffer;
}

std::vector<double> matrix(const char* family, const Shape& shape, uint64_t seed) {
  const std::vector<double> values =
      to_double(DType::kF32, make_values(gradient(), make_shape({shape.rows, shape.cols}), family, seed));
  REQUIRE(static_cast<int64_t>(values.size()) == shape.rows * shape.cols);
  for (const double value : values) REQUIRE(std::isfinite(value));
  return values;
}

TEST_CASE("planted spectra fall as one of four powers, to 1e-4 of the largest") {
  bool seen[4] = {};
  double widest = 1;
  for (const Shape& shape : kShapes) {
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      INFO(shape.rows << " x " << shape.cols << " seed " << seed);
      const std::vector<double> values =
          singular_values(shape.rows, shape.cols, matrix("planted_spectrum", shape, seed).data());
      bool found = false;
      for (int k = 0; k < 4; ++k) {
        bool fits = true;
        for (size_t i = 0; i < values.size(); ++i) {
          const double expected = std::max(std::pow(static_cast<double>(i + 1), -0.5 * (k + 1)), 1e-4);
          // Rounding to fp32 moves a singular value by less than 2^-24 of the Frobenius norm.
          fits = fits && std::fabs(values[i] / values[0] - expected) < 1e-6;
        }
        found = found || fits;
        if (fits && values.size() > 10) seen[k] = true;
      }
      CHECK(found);
      widest = std::max(widest, values.front() / values.back());
    }
  }
  for (const bool power : seen) CHECK(power);
  CHECK(widest > 5e3);
  CHECK(widest < 1.1e4);
}

TEST_CASE("rank-deficient matrices have rank 1 or equal rows") {
  int outer = 0, repeated = 0;
  for (const Shape& shape : kShapes) {
    if (std::min(shape.rows, shape.cols) < 12) continue;
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      INFO(shape.rows << " x " << shape.cols << " seed " << seed);
      const std::vector<double> a = matrix("rank_deficient", shape, seed);
      const std::vector<double> values = singular_values(shape.rows, shape.cols, a.data());
      CHECK(values.front() > 0);
      if (values[1] < 1e-6 * values[0]) {
        ++outer;
        continue;
      }
      ++repeated;
      int64_t equal = 0;
      for (int64_t i = 1; i < shape.rows; ++i) {
        for (int64_t j = 0; j < i; ++j) {
          if (!std::equal(&a[static_cast<size_t>(i * shape.cols)], &a[static_cast<size_t>(i * shape.cols)] + shape.cols,
                          &a[static_cast<size_t>(j * shape.cols)]))
            continue;
          ++equal;
          break;
        }
      }
      CHECK(equal >= shape.rows / 4);
    }
  }
  CHECK(outer > 20);
  CHECK(repeated > 20);
}

TEST_CASE("badly scaled matrices have rows and columns in units far apart") {
  for (const Shape& shape : kShapes) {
    if (std::min(shape.rows, shape.cols) < 12) continue;
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      INFO(shape.rows << " x " << shape.cols << " seed " << seed);
      const std::vector<double> a = matrix("badly_scaled", shape, seed);
      std::vector<double> rows(static_cast<size_t>(shape.rows)), cols(static_cast<size_t>(shape.cols));
      double squares = 0;
      for (int64_t i = 0; i < shape.rows; ++i) {
        for (int64_t j = 0; j < shape.cols; ++j) {
          const double value = std::fabs(a[static_cast<size_t>(i * shape.cols + j)]);
          rows[static_cast<size_t>(i)] = std::max(rows[static_cast<size_t>(i)], value);
          cols[static_cast<size_t>(j)] = std::max(cols[static_cast<size_t>(j)], value);
          squares += value * value;
        }
      }
      for (const std::vector<double>* units : {&rows, &cols}) {
        const auto [least, most] = std::minmax_element(units->begin(), units->end());
        CHECK(*most / *least > 0x1p10);
      }
      CHECK(squares < 1e38);  // the Frobenius norm can be summed up in fp32
    }
  }
}

TEST_CASE("matrix families have the same bits on every machine") {
  // Fixed once; another value means that old records no longer replay.
  uint64_t hash = 0;
  for (const char* const family : {"planted_spectrum", "rank_deficient", "badly_scaled"}) {
    for (uint64_t seed = 0; seed < 4; ++seed) {
      const std::vector<std::byte> bytes = make_values(gradient(), make_shape({37, 19}), family, seed);
      hash = derive_seed(hash, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    }
  }
  CHECK(hash == 0xf0849c37b5b04f84u);
}

}  // namespace
}  // namespace stepbench
