// Counter-based values against a second derivation, written out: SplitMix64 step by step, rounding by hand.
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "harness/generate.h"
#include "harness/stages.h"

namespace stepbench {
namespace {

/// SplitMix64 as published (Steele, Lea, Flood 2014): a state that advances by the golden gamma.
uint64_t nth_number(uint64_t seed, int64_t index) {
  uint64_t state = seed, number = 0;
  for (int64_t i = 0; i <= index; ++i) {
    state += 0x9E3779B97F4A7C15ull;
    number = state;
    number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9ull;
    number = (number ^ (number >> 27)) * 0x94D049BB133111EBull;
    number ^= number >> 31;
  }
  return number;
}

TEST_CASE("an element does not depend on where the range begins") {
  const GenerateSpec spec{DType::kF32, 77, 0.01f, false, 1000};
  const std::vector<std::byte> all = generated_values(spec, 0, 1000), part = generated_values(spec, 300, 50);
  REQUIRE(all.size() == 4000);
  REQUIRE(part.size() == 200);
  CHECK(std::memcmp(all.data() + 1200, part.data(), 200) == 0);
}

TEST_CASE("values are the sum of four 16-bit integers, scaled and rounded") {
  for (const bool squared : {false, true}) {
    const GenerateSpec spec{DType::kF32, 0xABCDEF, 0.05f, squared, 100};
    const std::vector<double> got = to_double(DType::kF32, generated_values(spec, 0, 100));
    for (int64_t i = 0; i < 100; ++i) {
      const uint64_t bits = nth_number(0xABCDEF, i);
      double sum = -131070;
      for (int part = 0; part < 4; ++part) sum += static_cast<double>((bits >> (16 * part)) & 0xffff);
      const float unit = static_cast<float>(2.64293e-5), scaled = static_cast<float>(sum * static_cast<double>(unit));
      float expected = static_cast<float>(static_cast<double>(scaled) * static_cast<double>(0.05f));
      if (squared) expected = static_cast<float>(static_cast<double>(expected) * static_cast<double>(expected));
      CHECK(got[static_cast<size_t>(i)] == static_cast<double>(expected));
    }
  }
}

TEST_CASE("16-bit values are the nearest to the fp32 ones, and the moments are those of a normal distribution") {
  const GenerateSpec exact{DType::kF32, 5, 1.0f, false, 200000};
  const std::vector<double> values = to_double(DType::kF32, generated_values(exact, 0, exact.count));
  double sum = 0, squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  const double n = static_cast<double>(values.size());
  CHECK(std::fabs(sum / n) < 4 / std::sqrt(n));
  CHECK(squares / n == Approx(1).epsilon(0.01));
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    GenerateSpec spec = exact;
    spec.dtype = dtype;
    const std::vector<double> stored = to_double(dtype, generated_values(spec, 0, spec.count));
    for (size_t i = 0; i < stored.size(); ++i)
      if (std::fabs(stored[i] - values[i]) > 0.5 * ulp_of(dtype, values[i])) {
        FAIL("element " << i << " of " << to_text(dtype) << ": " << values[i] << " became " << stored[i]);
      }
  }
}

}  // namespace
}  // namespace stepbench
