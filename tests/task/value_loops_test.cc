// Every instruction-set level of the loops over values against plain arithmetic, bit by bit, on awkward values and on
// lengths that leave something over; and compare(), which measures in blocks, against one element after the other.
#include "harness/value_loops.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "harness/float_words.h"
#include "harness/stages.h"

namespace stepbench {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kMost = std::numeric_limits<double>::max();

bool same(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

/// Without a vector in sight: SplitMix64 by its state, one element at a time.
float plain_value(const GenerateSpec& spec, uint64_t i) {
  uint64_t z = spec.seed + (i + 1) * 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  z ^= z >> 31;
  double sum = -131070;
  for (int part = 0; part < 4; ++part) sum += static_cast<double>((z >> (16 * part)) & 0xffff);
  // Products of two floats are exact in double: each is rounded once.
  const auto times = [](float a, float b) {
    return static_cast<float>(static_cast<double>(a) * static_cast<double>(b));
  };
  const float value = times(times(static_cast<float>(sum), 2.64293e-5f), spec.amplitude);
  return spec.squared ? times(value, value) : value;
}

TEST_CASE("every level makes the same values") {
  for (const ValueLoops& level : value_loops_levels()) {
    INFO(level.name);
    for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
      for (const float amplitude : {0.05f, 3e-6f, 1e-39f, 3e4f}) {  // subnormals and infinities of binary16, too
        for (const size_t count : {size_t{0}, size_t{1}, size_t{7}, size_t{64}, size_t{1021}}) {
          const GenerateSpec spec{dtype, 0xFEDCBA9876543210ull, amplitude, amplitude < 0.01f, 1 << 20};
          const uint64_t first = (uint64_t{1} << 32) - 300;
          const size_t width = dtype == DType::kF32 ? 4 : 2;
          std::vector<std::byte> out(count * width + 8, std::byte{0x5a});
          level.generate(spec, first, count, out.data());
          size_t wrong = 0;
          for (size_t i = 0; i < count; ++i) {
            const float value = plain_value(spec, first + i);
            const auto word = dtype == DType::kF32    ? std::bit_cast<uint32_t>(value)
                              : dtype == DType::kBf16 ? uint32_t{to_bf16(value)}
                                                      : uint32_t{to_f16(value)};
            wrong += std::memcmp(out.data() + i * width, &word, width) != 0;  // little-endian
          }
          INFO(to_text(dtype) << " amplitude " << amplitude << " count " << count);
          CHECK(wrong == 0);
          CHECK(std::all_of(out.end() - 8, out.end(), [](std::byte b) { return b == std::byte{0x5a}; }));
        }
      }
    }
  }
}

/// From the definition of a format: sign, exponent, fraction.
double plain_float(uint32_t bits, int exponent_bits, int fraction_bits) {
  const uint32_t fraction = bits & ((1u << fraction_bits) - 1), ones = (1u << exponent_bits) - 1;
  const uint32_t exponent = (bits >> fraction_bits) & ones;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  double value = std::ldexp(static_cast<double>(fraction), 1 - bias - fraction_bits);
  if (exponent == ones)
    value = fraction == 0 ? kInf : kNan;
  else if (exponent > 0)
    value = std::ldexp(static_cast<double>(fraction) + std::ldexp(1.0, fraction_bits),
                       static_cast<int>(exponent) - bias - fraction_bits);
  return (bits >> (exponent_bits + fraction_bits) & 1) != 0 ? -value : value;
}

TEST_CASE("every level widens every stored pattern exactly") {
  struct Row {
    DType dtype;
    size_t width;
    double (*plain)(uint32_t bits);
  };
  const Row rows[] = {
      {DType::kF32, 4, [](uint32_t bits) { return plain_float(bits, 8, 23); }},
      {DType::kBf16, 2, [](uint32_t bits) { return plain_float(bits, 8, 7); }},
      {DType::kF16, 2, [](uint32_t bits) { return plain_float(bits, 5, 10); }},
      {DType::kU8, 1, [](uint32_t bits) { return static_cast<double>(bits); }},
      {DType::kI32, 4, [](uint32_t bits) { return static_cast<double>(std::bit_cast<int32_t>(bits)); }},
      {DType::kI16, 2,
       [](uint32_t bits) { return bits < 32768 ? static_cast<double>(bits) : static_cast<double>(bits) - 65536; }},
  };
  for (const ValueLoops& level : value_loops_levels()) {
    for (const Row& row : rows) {
      // All patterns; of 32 bits, every 65,521st, which is prime, so that all ends and exponents are among them.
      std::vector<uint32_t> patterns;
      const uint32_t all = row.width == 1 ? 256 : 65536;
      for (uint32_t i = 0; i < all; ++i) patterns.push_back(row.width == 4 ? i * 65521u : i);
      if (row.width == 4)
        for (const uint32_t bits : {0x7f800000u, 0xff800000u, 0x7fffffffu, 0x1u, 0x80000000u}) patterns.push_back(bits);
      std::vector<std::byte> stored(patterns.size() * row.width);
      for (size_t i = 0; i < patterns.size(); ++i) std::memcpy(stored.data() + i * row.width, &patterns[i], row.width);
      std::vector<double> out(patterns.size());
      level.widen(row.dtype, stored.data(), out.size(), out.data());
      size_t wrong = 0;
      for (size_t i = 0; i < out.size(); ++i) wrong += !same(out[i], row.plain(patterns[i]));
      INFO(level.name << " " << to_text(row.dtype));
      CHECK(wrong == 0);
    }
  }
}

// ------------------------------------------------------------------------------------------------ ratios

/// Error of one element in units of the limit, by the words of tasks/README.md.
double plain_ratio(double expected, double got, double scale, const Tolerance& tolerance, DType dtype,
                   Rounding rounding) {
  const bool code = dtype == DType::kU8;
  if (std::isnan(expected) || std::isnan(got)) return std::isnan(expected) && std::isnan(got) ? 0 : kInf;
  if (std::isinf(expected)) return got == expected ? 0 : kInf;
  const DType computed = rounding == Rounding::kNone ? dtype : DType::kF32;
  const double limit =
      tolerance.step_scale_ratio * scale + tolerance.step_ulp * (code ? 1 : ulp_of(computed, expected));
  if (!std::isfinite(limit)) return kInf;
  if (std::isinf(got)) {
    const double most = dtype == DType::kF32 ? 0x1.ffffffp127 : 0x1.ffp127;  // half a unit beyond the largest
    return std::copysign(1, got) * expected + limit >= most ? 0 : kInf;
  }
  double error = std::fabs(got - expected);
  if (rounding != Rounding::kNone) {
    // The neighbour of `got` on the side of `expected`: a step towards zero from a power of two is half as long.
    double step = code ? 1 : ulp_of(dtype, got);
    int exponent = 0;
    const bool inward = got != 0 && (expected > got) != (got > 0);
    if (!code && inward && std::fabs(std::frexp(got, &exponent)) == 0.5 && exponent - 1 > -126) step /= 2;
    const double allowed = step * (rounding == Rounding::kNearest ? 0.5 : 1);
    error = error <= allowed ? 0 : error - allowed;
  }
  return error == 0 ? 0 : limit > 0 ? error / limit : kInf;
}

struct Sample {
  const char* name;
  double expected, got, scale;
};
const Sample kSamples[] = {
    {"equal", 1, 1, 1},
    {"within", 1, 1 + 0x1p-23, 1},
    {"at the limit", 1, 1 + 0x1p-22, 0},
    {"beyond the limit", 1, 1.5, 0x1p-10},
    {"zeros of two signs", 0.0, -0.0, 0},
    {"nothing allowed, nothing wrong", 0, 0, 0},
    {"nothing allowed", 0, 0x1p-149, 0},
    {"subnormal", 0x1p-140, 0x1p-141, 0x1p-120},
    {"double subnormal", 5e-324, 0, 5e-324},
    {"power of two from below", 1 - 0x1p-9, 1, 0x1p-6},
    {"power of two from above", 1 + 0x1p-8, 1, 0x1p-6},
    {"half a step below a power of two", 1 - 0x1p-10, 1, 0},
    {"negative power of two", -1 + 0x1p-9, -1, 0x1p-6},
    {"least normal", 0x1p-126 - 0x1p-135, 0x1p-126, 0},
    {"across zero", 0x1p-130, -0x1p-133, 0x1p-120},
    {"largest", 0x1.fffffep127, 0x1.fffffcp127, 0x1p120},
    {"beyond the format", 1e300, 1e300, 1},
    {"infinity for what rounds to it", 0x1.fffffffp127, kInf, 0x1p100},
    {"infinity for what does not", 1, kInf, 1},
    {"minus infinity expected", -kInf, -kInf, 1},
    {"infinity of the other sign", kInf, -kInf, 1},
    {"infinity expected, a number got", kInf, 1, 1},
    {"both NaN", kNan, kNan, 1},
    {"NaN with its sign bit set", -kNan, 1, 1},
    {"NaN got", 1, kNan, 1},
    {"NaN expected", kNan, 1, 1},
    {"NaN as scale", 1, 1, kNan},
    {"infinite scale", 1, 2, kInf},
    {"infinite scale, equal", 1, 1, kInf},
    {"an error that overflows", -kMost, kMost, 1},
    {"code", 3, 3.5, 1},
    {"next code", 3, 4, 1},
};

struct Mode {
  const char* name;
  DType dtype;
  Rounding rounding;
  Tolerance tolerance;
  RatioTerms terms;
};
std::vector<Mode> modes() {
  const UlpTerms f32{0x1p-126, 0x1p127, 0x1p-23}, bf16{0x1p-126, 0x1p127, 0x1p-7}, code{1, 1, 1};
  Tolerance usual, zero;
  usual.step_scale_ratio = 0x1p-20;
  usual.step_ulp = 2;
  zero.step_scale_ratio = zero.step_ulp = 0;
  return {
      {"f32", DType::kF32, Rounding::kNone, usual, {0x1p-20, 2, f32, StoredGap::kNone, 0, {}}},
      {"f32, no tolerance", DType::kF32, Rounding::kNone, zero, {0, 0, f32, StoredGap::kNone, 0, {}}},
      {"bf16", DType::kBf16, Rounding::kNone, usual, {0x1p-20, 2, bf16, StoredGap::kNone, 0, {}}},
      {"bf16 to nearest", DType::kBf16, Rounding::kNearest, usual, {0x1p-20, 2, f32, StoredGap::kFormat, 0.5, bf16}},
      {"bf16 by chance", DType::kBf16, Rounding::kStochastic, usual, {0x1p-20, 2, f32, StoredGap::kFormat, 1, bf16}},
      {"codes to nearest", DType::kU8, Rounding::kNearest, usual, {0x1p-20, 2, code, StoredGap::kCode, 0.5, {}}}};
}

TEST_CASE("every level measures what is plain and says what is not") {
  for (const ValueLoops& level : value_loops_levels()) {
    for (const Mode& mode : modes()) {
      for (const Sample& sample : kSamples) {
        const double ratio =
            plain_ratio(sample.expected, sample.got, sample.scale, mode.tolerance, mode.dtype, mode.rounding);
        // By itself, and among plain ones at each place of a vector and in what is left over after the last.
        for (const size_t count : {size_t{1}, size_t{8}, size_t{37}}) {
          for (const size_t at : {size_t{0}, count / 2, count - 1}) {
            std::vector<double> expected(count, 1), got(count, 1), scale(count, 1), ratios(count, -1);
            expected[at] = sample.expected;
            got[at] = sample.got;
            scale[at] = sample.scale;
            const BlockRatios block =
                level.ratios(mode.terms, expected.data(), got.data(), scale.data(), count, ratios.data());
            INFO(level.name << ", " << mode.name << ": " << sample.name << " at " << at << " of " << count);
            const bool finite = std::isfinite(sample.expected) && std::isfinite(sample.got);
            CHECK(block.plain == (finite && ratio <= 1));
            if (!block.plain) continue;
            CHECK(same(ratios[at], ratio));
            CHECK(same(block.worst, ratio));
          }
        }
      }
    }
  }
}

TEST_CASE("compare measures in blocks as it does one by one") {
  struct Row {
    const char* name;
    size_t count;
    std::vector<std::pair<size_t, const char*>> samples;  // place and name
  };
  const Row rows[] = {
      {"nothing", 0, {}},
      {"one", 1, {{0, "within"}}},
      {"all equal", 2000, {}},
      {"the first of equals", 2000, {{700, "within"}, {701, "within"}, {1500, "within"}}},
      {"first and last", 1537, {{0, "at the limit"}, {1536, "within"}}},
      {"worse in a later block", 2000, {{3, "within"}, {1999, "at the limit"}}},
      {"bad ones in two blocks", 2000, {{1600, "beyond the limit"}, {1601, "NaN got"}, {1900, "beyond the limit"}}},
      {"unusual but right", 2000, {{10, "both NaN"}, {600, "minus infinity expected"}, {1999, "within"}}},
      {"worst before what is unusual", 1100, {{100, "at the limit"}, {1050, "nothing allowed, nothing wrong"}}},
      {"infinite limits", 1100, {{100, "infinite scale, equal"}, {900, "infinite scale"}}},
  };
  for (const Mode& mode : modes()) {
    for (const Row& row : rows) {
      std::vector<double> expected(row.count, 1), got(row.count, 1), scale(row.count, 1);
      for (const auto& [at, name] : row.samples) {
        const auto sample = std::find_if(std::begin(kSamples), std::end(kSamples),
                                         [&](const Sample& s) { return std::strcmp(s.name, name) == 0; });
        REQUIRE(sample != std::end(kSamples));
        expected[at] = sample->expected;
        got[at] = sample->got;
        scale[at] = sample->scale;
      }
      int64_t worst = -1, bad = -1;
      std::vector<double> ratio(row.count);
      for (size_t i = 0; i < row.count; ++i) {
        ratio[i] = plain_ratio(expected[i], got[i], scale[i], mode.tolerance, mode.dtype, mode.rounding);
        if (worst < 0 || ratio[i] > ratio[static_cast<size_t>(worst)]) worst = static_cast<int64_t>(i);
        if (bad < 0 && ratio[i] > 1) bad = static_cast<int64_t>(i);
      }
      const CompareResult result = compare(expected, got, scale, mode.tolerance, mode.dtype, mode.rounding);
      INFO(mode.name << ": " << row.name);
      CHECK(result.elements_checked == static_cast<int64_t>(row.count));
      CHECK(result.worst_element == worst);
      CHECK(result.first_bad_element == bad);
      if (worst >= 0) {
        const auto at = static_cast<size_t>(worst);
        CHECK(same(result.worst_ratio, ratio[at]));
        CHECK(same(result.worst_expected, expected[at]));
        CHECK(same(result.worst_got, got[at]));
      }
      if (bad >= 0) {
        const auto at = static_cast<size_t>(bad);
        CHECK(same(result.first_bad_ratio, ratio[at]));
        CHECK(same(result.first_bad_expected, expected[at]));
        CHECK(same(result.first_bad_got, got[at]));
      }
    }
  }
}

}  // namespace
}  // namespace stepbench
