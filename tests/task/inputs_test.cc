// Properties of the value families: what each must contain for the mistakes it is there to show.
#include <catch2/catch.hpp>

#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <set>

#include "harness/inputs.h"
#include "harness/stages.h"
#include "tasks/linear_algebra.h"

namespace stepbench {
namespace {

BufferSpec buffer_of(const char* initial, DType dtype = DType::kF32) {
  BufferSpec buffer;
  buffer.initial = initial;
  buffer.dtype = dtype;
  return buffer;
}

std::vector<float> floats(const char* initial, const char* family, int64_t n = 20000, uint64_t seed = 1) {
  const std::vector<std::byte> bytes = make_values(buffer_of(initial), make_shape({n}), family, seed);
  std::vector<float> out(bytes.size() / 4);
  std::memcpy(out.data(), bytes.data(), bytes.size());
  REQUIRE(static_cast<int64_t>(out.size()) == n);
  return out;
}

double share(const std::vector<float>& values, const std::function<bool(float)>& is) {
  size_t count = 0;
  for (const float value : values) count += is(value) ? 1 : 0;
  return static_cast<double>(count) / static_cast<double>(values.size());
}

bool is_zero(float v) { return v == 0; }
bool is_negative(float v) { return v < 0; }
bool is_subnormal(float v) { return std::fpclassify(v) == FP_SUBNORMAL; }
bool is_normal_size(float v) { return std::isfinite(v); }

TEST_CASE("gradients of each family are what the family's name says") {
  struct Row {
    const char* family;
    std::function<bool(float)> is;
    double least, most;
  };
  const Row rows[] = {
      {"gaussian", is_negative, 0.48, 0.52},
      {"gaussian", [](float v) { return std::fabs(v) < 0.01f; }, 0.65, 0.71},
      {"gaussian", [](float v) { return std::fabs(v) < 0.0347f; }, 1, 1},
      {"sparse", is_zero, 0.85, 0.99},
      {"tiny", [](float v) { return std::fabs(v) >= 1e-12f && std::fabs(v) < 2e-6f; }, 1, 1},
      {"tiny", [](float v) { return std::fabs(v) < 1e-8f; }, 0.3, 0.8},
      {"huge", [](float v) { return std::fabs(v) > 1e7f && std::fabs(v) < 2e17f; }, 1, 1},
      {"huge", [](float v) { return std::fabs(v) > 1e15f; }, 0.05, 0.5},
      {"constant", [](float v) { return v == 0.1f; }, 1, 1},
      {"zero", is_zero, 1, 1},
      {"zero", [](float v) { return std::signbit(v); }, 0.45, 0.55},
      {"denormal", is_subnormal, 0.25, 0.4},
      {"denormal", [](float v) { return !is_subnormal(v) && is_subnormal(v * v); }, 0.2, 0.7},
      {"denormal", [](float v) { return !is_subnormal(v * v) && is_subnormal(0.001f * v * v); }, 0.05, 0.4},
      {"heavy_tailed", [](float v) { return std::fabs(v) > 1; }, 0.001, 0.05},
      {"mixed", [](float v) { return std::fabs(v) < 1e-9f; }, 0.05, 0.4},
      {"mixed", [](float v) { return std::fabs(v) > 1e3f; }, 0.05, 0.4},
  };
  for (const Row& row : rows) {
    const std::vector<float> values = floats("gradient", row.family);
    const double part = share(values, row.is);
    INFO(row.family << " " << part);
    CHECK(part >= row.least);
    CHECK(part <= row.most);
    CHECK(share(values, is_normal_size) == 1);
  }
}

TEST_CASE("alternating gradients differ in sign from neighbour to neighbour and flip with the seed") {
  bool flipped[2] = {};
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<float> values = floats("gradient", "alternating_sign", 100, seed);
    for (size_t i = 1; i < values.size(); ++i) CHECK(values[i] * values[i - 1] < 0);
    flipped[values[0] > 0 ? 0 : 1] = true;
  }
  CHECK(flipped[0]);
  CHECK(flipped[1]);
}

TEST_CASE("gaussian values have mean 0, variance 1 and kurtosis of the sum of four uniforms") {
  const std::vector<float> values = floats("gradient", "gaussian", 1 << 20, 9);
  double sum = 0, squares = 0, fourths = 0;
  for (const float value : values) {
    const double x = static_cast<double>(value) / 0.01;
    sum += x;
    squares += x * x;
    fourths += x * x * x * x;
  }
  const auto n = static_cast<double>(values.size());
  CHECK(std::fabs(sum / n) < 0.004);  // four standard errors of 2^-10
  CHECK(squares / n == Approx(1).margin(0.006));
  CHECK(fourths / n == Approx(2.7).margin(0.03));  // 3 - 6 / (5 * 4)
}

TEST_CASE("the square of a bounded moment lies below every second moment") {
  for (const std::string_view family : input_family_names()) {
    INFO(family);
    const std::string name(family);
    const std::vector<float> mean = floats("bounded_moment", name.c_str());
    const std::vector<float> square = floats("second_moment", name.c_str(), 20000, 2);
    int compared = 0;
    for (size_t i = 0; i < mean.size(); ++i) {
      const double mean_square = static_cast<double>(mean[i]) * static_cast<double>(mean[i]);
      if (square[i] < 1e-35f) continue;  // what underflowed tells nothing
      ++compared;
      if (mean_square > static_cast<double>(square[i])) FAIL_CHECK("above at " << i);
    }
    if (name != "zero") CHECK(compared > 1000);
    CHECK(share(mean, is_zero) > 0.03);
    CHECK(share(mean, is_zero) < 0.2);
    // The control: an ordinary moment does go beyond.
    const std::vector<float> free = floats("moment", name.c_str());
    if (name == "gaussian") CHECK(share(free, [](float v) { return v * v > 0.5f * 0.01f * 0.01f; }) > 0.005);
  }
}

TEST_CASE("states are valid in every family") {
  for (const std::string_view family : input_family_names()) {
    DYNAMIC_SECTION(family) {
      const std::string name(family);
      const std::vector<float> m = floats("moment", name.c_str()), v = floats("second_moment", name.c_str(), 20000, 2);
      const std::vector<float> g = floats("gradient", name.c_str(), 20000, 3);
      CHECK(share(v, is_negative) == 0);
      CHECK(share(v, is_normal_size) == 1);
      CHECK(share(m, is_normal_size) == 1);
      CHECK(share(m, is_zero) > 0.03);
      CHECK(share(m, is_zero) < 0.2);
      for (size_t i = 0; i < m.size(); ++i) {
        // Where v is zero without having underflowed, so is m; elsewhere m is of the size of the root of v.
        if (v[i] == 0 && std::fabs(m[i]) > 1e-19f) FAIL("m without v at " << i);
        if (v[i] > 1e-35f && std::fabs(m[i]) > 2 * std::sqrt(v[i])) FAIL("m above v at " << i);
        // Gradient and state have the same magnitude within a few powers of two.
        if (name == "mixed" && m[i] != 0 && std::fabs(g[i]) > 10 * std::sqrt(v[i]))
          FAIL("gradient above state at " << i);
        // m / (sqrt(v / bias_correction2)) must stay finite for the largest beta2 at the first step.
        if (!std::isfinite(v[i] / 5e-4f)) FAIL("v overflows at " << i);
        if (!std::isfinite(4 * g[i] * g[i])) FAIL("g overflows at " << i);
      }
    }
  }
}

TEST_CASE("parameters are weights, with zeros and small ones among them") {
  const std::vector<float> values = floats("parameter", "gaussian");
  CHECK(share(values, is_zero) == Approx(1.0 / 16).margin(0.02));
  CHECK(share(values, [](float v) { return std::fabs(v) > 0.02f && std::fabs(v) < 0.2f; }) > 0.5);
  CHECK(share(values, [](float v) { return v != 0 && std::fabs(v) < 4e-4f; }) > 0.08);
}

TEST_CASE("one tensor in four is zero throughout where the task asks for it, the others are as ever") {
  for (const char* const initial : {"parameter", "moment"}) {
    int zero = 0;
    constexpr int kTensors = 400;
    for (uint64_t seed = 0; seed < kTensors; ++seed) {
      const std::vector<float> values = floats((std::string(initial) + "_or_zero").c_str(), "gaussian", 50, seed);
      REQUIRE(values.size() == 50);
      const bool all_zero = share(values, is_zero) == 1;
      zero += all_zero ? 1 : 0;
      if (!all_zero) CHECK(values == floats(initial, "gaussian", 50, seed));
    }
    INFO(initial);
    CHECK(zero > kTensors / 4 - 40);  // four standard errors are 35
    CHECK(zero < kTensors / 4 + 40);
  }
}

TEST_CASE("nonfinite gradients hold at least one of them in every size") {
  for (int64_t n = 1; n < 40; ++n)
    CHECK(share(floats("gradient", "nonfinite", n, static_cast<uint64_t>(n)), is_normal_size) < 1);
  const std::vector<float> values = floats("gradient", "nonfinite");
  CHECK(share(values, [](float v) { return std::isnan(v); }) > 0.02);
  CHECK(share(values, [](float v) { return std::isinf(v) && v > 0; }) > 0.02);
  CHECK(share(values, [](float v) { return std::isinf(v) && v < 0; }) > 0.02);
  CHECK(share(values, is_normal_size) > 0.8);
  CHECK(share(floats("moment", "nonfinite"), is_normal_size) == 1);
}

TEST_CASE("the same seed gives the same bits, on every machine") {
  // Fixed once; another value means that old records no longer replay.
  uint64_t hash = 0;
  for (const std::string_view family : input_family_names().first(10)) {  // later ones: matrix_families_test.cc
    for (const char* const initial : {"parameter", "gradient", "moment", "second_moment"}) {
      const std::vector<std::byte> bytes = make_values(buffer_of(initial), make_shape({257}), family, 42);
      CHECK(bytes == make_values(buffer_of(initial), make_shape({257}), family, 42));
      hash = derive_seed(hash, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    }
  }
  CHECK(hash == 0x55a2552cacb10d2bu);
  CHECK(derive_seed(1, "gradient", 2, 3, 4) == 0xd1c9af6474705080u);
}

TEST_CASE("seeds differ in every part") {
  std::set<uint64_t> seeds;
  for (uint64_t salt = 0; salt < 4; ++salt)
    for (const char* const purpose : {"a", "b", "ab", ""})
      for (uint64_t a = 0; a < 4; ++a)
        for (uint64_t b = 0; b < 4; ++b)
          for (uint64_t c = 0; c < 4; ++c) seeds.insert(derive_seed(salt, purpose, a, b, c));
  CHECK(seeds.size() == 4 * 4 * 4 * 4 * 4);
  CHECK(floats("gradient", "gaussian", 100, 1) != floats("gradient", "gaussian", 100, 2));
}

TEST_CASE("narrow formats: every bf16 and f16 value is the nearest one") {
  for (const char* const family : {"gaussian", "mixed", "denormal", "huge"}) {
    const std::vector<float> wide = floats("gradient", family, 4096);
    for (const DType dtype : {DType::kBf16, DType::kF16}) {
      const std::vector<double> narrow =
          to_double(dtype, make_values(buffer_of("gradient", dtype), make_shape({4096}), family, 1));
      REQUIRE(narrow.size() == wide.size());
      for (size_t i = 0; i < wide.size(); ++i) {
        const auto value = static_cast<double>(wide[i]);
        if (std::isinf(narrow[i])) {
          if (std::fabs(value) < 65519.9) FAIL("infinity for " << value);
        } else if (std::fabs(narrow[i] - value) > 0.5 * ulp_of(dtype, value)) {
          FAIL("not the nearest: " << narrow[i] << " for " << value);
        }
      }
    }
  }
}

/// A matrix of the family as doubles; `cols` is the other side where `side` is rows, and the other way round.
std::vector<double> matrix(const char* initial, const char* shape, int64_t rows, int64_t cols, const char* family,
                           uint64_t seed = 1) {
  BufferSpec buffer = buffer_of(initial);
  buffer.shape = shape;
  return to_double(DType::kF32, make_values(buffer, make_shape({rows, cols}), family, seed));
}

TEST_CASE("orthogonal bases are orthogonal, dense and differ from seed to seed") {
  for (const int64_t side : {1, 2, 3, 7, 16, 33, 96}) {
    INFO(side);
    const std::vector<double> q = matrix("orthogonal", "rows*rows", side, 5, "gaussian");
    REQUIRE(static_cast<int64_t>(q.size()) == side * side);
    CHECK(q == matrix("orthogonal", "cols*cols", 9, side, "sparse"));  // neither the family nor the other side counts
    std::vector<double> product(q.size());
    matmul(side, side, side, q.data(), true, q.data(), false, product.data());
    double worst = 0, zeros = 0, most = 0;
    for (int64_t i = 0; i < side * side; ++i) {
      const auto at = static_cast<size_t>(i);
      worst = std::max(worst, std::fabs(product[at] - (i % (side + 1) == 0 ? 1 : 0)));
      most = std::max(most, std::fabs(q[at]));
      zeros += q[at] == 0 ? 1 : 0;
    }
    CHECK(worst < 4e-7);  // each element is rounded to fp32 once
    if (side >= 7) CHECK(zeros <= 0.1 * static_cast<double>(q.size()));
    if (side >= 16) CHECK(most < 0.99);  // no row is left as it was
    if (side > 1) CHECK(q != matrix("orthogonal", "rows*rows", side, 5, "gaussian", 2));
  }
}

TEST_CASE("factors are symmetric, not negative and of the gradient's size") {
  for (const char* const family : {"gaussian", "constant", "tiny", "mixed"}) {
    for (const bool left : {true, false}) {
      constexpr int64_t kSide = 48, kOther = 20;
      INFO(family << (left ? " left" : " right"));
      const char* const shape = left ? "rows*rows" : "cols*cols";
      const int64_t rows = left ? kSide : kOther, cols = left ? kOther : kSide;
      std::vector<double> factor = matrix(left ? "left_factor" : "right_factor", shape, rows, cols, family);
      std::vector<double> root = matrix(left ? "left_factor_root" : "right_factor_root", shape, rows, cols, family);
      for (int64_t i = 0; i < kSide; ++i)
        for (int64_t j = 0; j < i; ++j) {
          if (factor[static_cast<size_t>(i * kSide + j)] != factor[static_cast<size_t>(j * kSide + i)])
            FAIL("not symmetric");
          if (root[static_cast<size_t>(i * kSide + j)] != root[static_cast<size_t>(j * kSide + i)])
            FAIL("root not symmetric");
        }
      // Root^4 times the factor has an eigenvalue of 1 for every one that is not zero.
      std::vector<double> square(root.size()), power(root.size()), product(root.size());
      matmul(kSide, kSide, kSide, root.data(), false, root.data(), false, square.data());
      matmul(kSide, kSide, kSide, square.data(), false, square.data(), false, power.data());
      matmul(kSide, kSide, kSide, power.data(), false, factor.data(), false, product.data());
      double trace = 0, sum = 0;
      for (size_t i = 0; i < kSide; ++i) {
        trace += product[i * kSide + i];
        sum += factor[i * kSide + i];
      }
      CHECK(trace > 0.55 * kSide);
      CHECK(trace < 0.95 * kSide);
      double squares = 0;
      const std::vector<float> gradient = floats("gradient", family, kSide * kOther);
      for (const float g : gradient) squares += static_cast<double>(g) * static_cast<double>(g);
      CHECK(sum > 0.05 * squares);  // what G G^T has on its diagonal
      CHECK(sum < 5 * squares);
      const std::vector<double> values = symmetric_eigen(kSide, factor.data());
      const double most = values.back();
      CHECK(values.front() > -1e-6 * most);
      CHECK(values.front() < 1e-6 * most);  // some are zero
      CHECK(most > 20 * values[kSide / 2]);
    }
  }
}

TEST_CASE("matrices have the same bits on every machine") {
  uint64_t hash = 0;
  for (const auto& [initial, shape] :
       {std::pair("orthogonal", "rows*rows"), std::pair("left_factor", "rows*rows"),
        std::pair("right_factor", "cols*cols"), std::pair("right_factor_root", "cols*cols")}) {
    BufferSpec buffer = buffer_of(initial);
    buffer.shape = shape;
    const std::vector<std::byte> bytes = make_values(buffer, make_shape({37, 19}), "mixed", 42);
    hash = derive_seed(hash, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  CHECK(hash == 0xf596b7fd5bca1857u);
}

TEST_CASE("empty tensors and integer buffers") {
  CHECK(make_values(buffer_of("gradient"), make_shape({0}), "nonfinite", 1).empty());
  CHECK(make_values(buffer_of("gradient", DType::kU8), make_shape({9}), "gaussian", 1).size() == 9);
  CHECK(make_values(buffer_of("gradient", DType::kI32), make_shape({9}), "gaussian", 1).size() == 36);
}

TEST_CASE("speed of the generator", "[.][speed]") {
  for (const std::string_view family : input_family_names()) {
    const auto start = std::chrono::steady_clock::now();
    constexpr int64_t kCount = 20'000'000;
    const size_t bytes = make_values(buffer_of("gradient"), make_shape({kCount}), family, 1).size();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    WARN(family << ": " << static_cast<double>(bytes) / 4 / taken.count() / 1e6 << " M values/s");
  }
}

}  // namespace
}  // namespace stepbench
