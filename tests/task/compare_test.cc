// The predicate, units in the last place and conversions, against values worked out by hand from the formats.
#include <catch2/catch.hpp>

#include <bit>
#include <cmath>
#include <limits>

#include "harness/stages.h"

namespace stepbench {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kMaxF32 = 0x1.fffffep127;

TEST_CASE("ulp of the storage formats") {
  struct Row {
    const char* name;
    DType dtype;
    double value, ulp;
  };
  const Row rows[] = {
      {"f32 one", DType::kF32, 1, 0x1p-23},
      {"f32 minus one", DType::kF32, -1, 0x1p-23},
      {"f32 just below one", DType::kF32, 0x1.fffffep-1, 0x1p-24},
      {"f32 a double between one and its neighbour", DType::kF32, 1 + 0x1p-40, 0x1p-23},
      {"f32 zero", DType::kF32, 0, 0x1p-149},
      {"f32 subnormal", DType::kF32, 0x1p-140, 0x1p-149},
      {"f32 far below the smallest", DType::kF32, 1e-300, 0x1p-149},
      {"f32 double subnormal", DType::kF32, 5e-324, 0x1p-149},
      {"f32 least normal", DType::kF32, 0x1p-126, 0x1p-149},
      {"f32 second octave", DType::kF32, 0x1p-125, 0x1p-148},
      {"f32 largest", DType::kF32, kMaxF32, 0x1p104},
      {"f32 infinity", DType::kF32, kInf, 0x1p104},
      {"f32 beyond", DType::kF32, 1e300, 0x1p104},
      {"bf16 one", DType::kBf16, 1, 0x1p-7},
      {"bf16 zero", DType::kBf16, 0, 0x1p-133},
      {"f16 one", DType::kF16, 1, 0x1p-10},
      {"f16 zero", DType::kF16, 0, 0x1p-24},
      {"f16 1000", DType::kF16, 1000, 0.5},
      {"u8", DType::kU8, 7, 1},
      {"i32", DType::kI32, -5, 1},
  };
  for (const Row& row : rows) {
    DYNAMIC_SECTION(row.name) { CHECK(ulp_of(row.dtype, row.value) == row.ulp); }
  }
  // Independent of the table: the distance to the next float.
  for (const float value : {0.1f, 3.14159f, 1e-30f, 1e-40f, 1e30f, 0.0f}) {
    const double next = static_cast<double>(std::nextafter(value, std::numeric_limits<float>::infinity()));
    CHECK(ulp_of(DType::kF32, static_cast<double>(value)) == next - static_cast<double>(value));
  }
}

TEST_CASE("storage to double is exact") {
  const auto convert = [](DType dtype, auto stored) {
    const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(&stored), sizeof stored);
    const std::vector<double> out = to_double(dtype, bytes);
    REQUIRE(out.size() == 1);
    return out[0];
  };
  struct Row {
    uint16_t bits;
    double bf16, f16;
  };
  const Row rows[] = {
      {0x3f80, 1, 1.875},  // f16: exponent 15, fraction 0x380: 1 + 896/1024
      {0x0001, 0x1p-133, 0x1p-24}, {0x8001, -0x1p-133, -0x1p-24}, {0x3c00, 0x1p-7, 1},
      {0x7bff, 0x1.fep120, 65504}, {0x0400, 0x1p-119, 0x1p-14},   {0x03ff, 0, 0},  // values below
  };
  for (const Row& row : rows) {
    if (row.bits == 0x03ff) {
      CHECK(convert(DType::kF16, row.bits) == 1023 * 0x1p-24);
      continue;
    }
    INFO(row.bits);
    CHECK(convert(DType::kBf16, row.bits) == row.bf16);
    CHECK(convert(DType::kF16, row.bits) == row.f16);
  }
  CHECK(convert(DType::kF16, uint16_t{0x7c00}) == kInf);
  CHECK(convert(DType::kF16, uint16_t{0xfc00}) == -kInf);
  CHECK(std::isnan(convert(DType::kF16, uint16_t{0x7e00})));
  CHECK(convert(DType::kBf16, uint16_t{0xff80}) == -kInf);
  CHECK(std::isnan(convert(DType::kBf16, uint16_t{0x7fc0})));
  CHECK(convert(DType::kF32, 1e-40f) == static_cast<double>(1e-40f));
  CHECK(convert(DType::kI32, int32_t{-2147483647}) == -2147483647.0);
  CHECK(convert(DType::kU8, uint8_t{255}) == 255);
}

TEST_CASE("one element: ratio in units of the limit") {
  const Tolerance two_ulp{.step_scale_ratio = 0, .step_ulp = 2, .drift_ratio = 0};
  const Tolerance by_scale{.step_scale_ratio = 1e-6, .step_ulp = 0, .drift_ratio = 0};
  const Tolerance both{.step_scale_ratio = 1e-6, .step_ulp = 2, .drift_ratio = 0};
  const Tolerance none{};
  struct Row {
    const char* name;
    double expected, got, scale;
    Tolerance tolerance;
    double ratio;
  };
  const Row rows[] = {
      {"equal", 1, 1, 0, none, 0},
      {"plus and minus zero", 0, -0.0, 0, none, 0},
      {"minus and plus zero", -0.0, 0, 0, none, 0},
      {"no limit, no equality", 1, 1 + 0x1p-23, 0, none, kInf},
      {"one ulp of two", 1, 1 + 0x1p-23, 0, two_ulp, 0.5},
      {"at the limit", 1, 1 + 0x1p-22, 0, two_ulp, 1},
      {"below", 1, 1 - 0x1p-22, 0, two_ulp, 1},
      {"beyond", 1, 1 + 3 * 0x1p-23, 0, two_ulp, 1.5},
      {"by scale", 5, 5 + 0x1p-20, 1e6 * 0x1p-20, by_scale, 1},
      {"both add up", 1, 1 + 0x1p-21, 1e6 * 0x1p-22, both, 1},
      {"zero scale and wrong", 5, 5.0001, 0, by_scale, kInf},
      {"expected NaN, got NaN", kNan, kNan, 1, both, 0},
      {"expected NaN, got a number", kNan, 0, 1, both, kInf},
      {"expected a number, got NaN", 0, kNan, 1, both, kInf},
      {"expected infinity, got NaN", kInf, kNan, 1, both, kInf},
      {"infinities", kInf, kInf, 1, both, 0},
      {"infinities of two signs", kInf, -kInf, 1, both, kInf},
      {"expected infinity, got the largest", kInf, kMaxF32, 1, both, kInf},
      {"expected a number, got infinity", 1, kInf, 1, both, kInf},
      {"rounds to infinity", 3.5e38, kInf, 1, none, 0},
      {"rounds to minus infinity", -3.5e38, -kInf, 1, none, 0},
      {"rounds to infinity, wrong sign", 3.5e38, -kInf, 1, none, kInf},
      {"largest, got infinity", kMaxF32, kInf, 1, none, kInf},
      {"NaN in the scale", 1, 1, kNan, by_scale, kInf},
      {"infinity in the scale", 1, 2, kInf, by_scale, kInf},
      {"infinity in the scale, even where equal", 1, 1, kInf, by_scale, kInf},
      {"subnormal flushed", 0x1p-130, 0, 0x1p-130, both, 0x1p-130 / (1e-6 * 0x1p-130 + 2 * 0x1p-149)},
  };
  for (const Row& row : rows) {
    for (const double sign : {1.0, -1.0}) {
      DYNAMIC_SECTION(row.name << (sign > 0 ? "" : ", mirrored")) {
        const double expected = row.expected * sign, got = row.got * sign;
        const CompareResult result = compare({&expected, 1}, {&got, 1}, {&row.scale, 1}, row.tolerance, DType::kF32);
        CHECK(result.elements_checked == 1);
        if (std::isinf(row.ratio))
          CHECK(result.worst_ratio == kInf);
        else
          CHECK(result.worst_ratio == Approx(row.ratio).epsilon(1e-12));
        CHECK((result.first_bad_element == -1) == (row.ratio <= 1));
        CHECK(result.worst_element == 0);
      }
    }
  }
}

TEST_CASE("many elements: the first bad one and the worst one, and all are counted") {
  std::vector<double> expected(1000, 1.0), got(1000, 1.0);
  const std::vector<double> scale(1000, 1.0);
  const Tolerance tolerance{.step_scale_ratio = 1e-6, .step_ulp = 0, .drift_ratio = 0};
  CHECK(compare(expected, got, scale, tolerance, DType::kF32).first_bad_element == -1);
  got[400] = 1 + 2e-6;
  got[700] = 1 + 5e-6;
  got[900] = 1 + 3e-6;
  CompareResult result = compare(expected, got, scale, tolerance, DType::kF32);
  CHECK(result.elements_checked == 1000);
  CHECK(result.first_bad_element == 400);
  CHECK(result.first_bad_ratio == Approx(2).epsilon(1e-6));
  CHECK(result.first_bad_got == got[400]);
  CHECK(result.worst_element == 700);
  CHECK(result.worst_ratio == Approx(5).epsilon(1e-6));
  got[999] = kNan;
  result = compare(expected, got, scale, tolerance, DType::kF32);
  CHECK(result.worst_element == 999);
  CHECK(result.worst_ratio == kInf);
  CHECK(result.first_bad_element == 400);
  CHECK(compare({}, {}, {}, tolerance, DType::kF32).elements_checked == 0);
  CHECK(compare({}, {}, {}, tolerance, DType::kF32).worst_element == -1);
}

}  // namespace
}  // namespace stepbench
