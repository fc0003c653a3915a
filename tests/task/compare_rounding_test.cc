// The predicate for values that are rounded when they are stored: which stored values are right for an exact one, and
// by how much the others are wrong. Worked out by hand from the formats.
#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <limits>

#include "harness/float_words.h"
#include "harness/inputs.h"
#include "harness/stages.h"

namespace stepbench {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

TEST_CASE("rounded values: the error counts from the edge of what rounds to the stored one") {
  // bf16: 1 has neighbours 1 - 2^-8 and 1 + 2^-7. Limit 2^-20.
  const Tolerance by_scale{.step_scale_ratio = 0x1p-20, .step_ulp = 0, .drift_ratio = 0};
  const Tolerance by_ulp{.step_scale_ratio = 0, .step_ulp = 4, .drift_ratio = 0};
  const Tolerance none{};
  struct Row {
    const char* name;
    Rounding rounding;
    DType dtype;
    double exact, got;
    Tolerance tolerance;
    double ratio;
  };
  constexpr Rounding kNear = Rounding::kNearest, kChance = Rounding::kStochastic;
  const Row rows[] = {
      {"itself", kNear, DType::kBf16, 1, 1, none, 0},
      {"within half a unit above", kNear, DType::kBf16, 1 + 0x1.8p-9, 1, none, 0},
      {"tie, lower", kNear, DType::kBf16, 1 + 0x1p-8, 1, none, 0},
      {"tie, upper", kNear, DType::kBf16, 1 + 0x1p-8, 1 + 0x1p-7, none, 0},
      {"at the limit beyond the tie", kNear, DType::kBf16, 1 + 0x1p-8 + 0x1p-20, 1, by_scale, 1},
      {"half of the limit before the tie", kNear, DType::kBf16, 1 + 0x1p-8 - 0x1p-21, 1 + 0x1p-7, by_scale, 0.5},
      {"cut off: half a unit too far", kNear, DType::kBf16, 1 + 0x1p-7 - 0x1p-20, 1, by_scale, 0x1p12 - 1},
      {"a whole unit", kNear, DType::kBf16, 1, 1 + 0x1p-7, by_scale, 0x1p12},
      {"below a power of two the gap is half", kNear, DType::kBf16, 1 - 0x1p-9, 1, none, 0},
      {"and not more", kNear, DType::kBf16, 1 - 0x1p-9 - 0x1p-20, 1, by_scale, 1},
      {"no limit, beyond the tie", kNear, DType::kBf16, 1 + 0x1.001p-8, 1, none, kInf},
      {"the unit of the limit is fp32's", kNear, DType::kBf16, 1 + 0x1p-8 + 0x1p-21, 1, by_ulp, 1},
      {"zero, up to half of the least", kNear, DType::kBf16, 0x1p-134, 0, none, 0},
      {"zero from the other side", kNear, DType::kBf16, -0x1p-134, 0, none, 0},
      {"other sign, half of the gap away", kNear, DType::kBf16, 0x1p-134, -0x1p-133, none, kInf},
      {"largest, just below the bound", kNear, DType::kBf16, 0x1.fefffp127, 0x1.fep127, none, 0},
      {"rounds to infinity", kNear, DType::kBf16, 0x1.ffp127, kInf, none, 0},
      {"does not", kNear, DType::kBf16, 0x1.fefffp127, kInf, none, kInf},
      {"f16", kNear, DType::kF16, 1 + 0x1p-11 + 0x1p-20, 1, by_scale, 1},
      {"code", kNear, DType::kU8, 130.5, 130, none, 0},
      {"code, the other", kNear, DType::kU8, 130.5, 131, none, 0},
      {"code, too far", kNear, DType::kU8, 130.5 + 0x1p-20, 130, by_scale, 1},
      {"next code", kNear, DType::kU8, 130, 131, by_scale, 0x1p19},
      {"i16", kNear, DType::kI16, -32768.25, -32768, none, 0},
      {"i16, a unit is one", kNear, DType::kI16, -32765.5, -32768, by_ulp, 0.5},

      {"chance: lower", kChance, DType::kBf16, 1 + 0x1p-8, 1, none, 0},
      {"chance: upper", kChance, DType::kBf16, 1 + 0x1p-9, 1 + 0x1p-7, none, 0},
      {"chance: one too far up", kChance, DType::kBf16, 1 - 0x1p-20, 1 + 0x1p-7, by_scale, 1},
      {"chance: below a power of two", kChance, DType::kBf16, 1 - 0x1p-9, 1 - 0x1p-8, none, 0},
      {"chance: one too far down", kChance, DType::kBf16, 1 + 0x1p-9, 1 - 0x1p-8, by_scale, 0x1p11},
      {"chance: two units", kChance, DType::kBf16, 1, 1 + 0x1p-6, by_scale, 0x1p13},
  };
  const double scale = 1;
  for (const Row& row : rows) {
    if (row.dtype == DType::kU8 && row.exact < 0) continue;
    for (const double sign : {1.0, -1.0}) {
      if (sign < 0 && (row.dtype == DType::kU8 || row.dtype == DType::kI16)) continue;
      const double exact = row.exact * sign, got = row.got * sign;
      INFO(row.name << " " << sign);
      const CompareResult result = compare({&exact, 1}, {&got, 1}, {&scale, 1}, row.tolerance, row.dtype, row.rounding);
      if (std::isinf(row.ratio))
        CHECK(result.worst_ratio == kInf);
      else
        CHECK(result.worst_ratio == Approx(row.ratio).epsilon(1e-9).margin(1e-12));
      CHECK((result.first_bad_element == -1) == (row.ratio <= 1));
    }
  }
  for (const Rounding rounding : {kNear, kChance}) {
    const double nan = std::numeric_limits<double>::quiet_NaN(), one = 1;
    CHECK(compare({&one, 1}, {&nan, 1}, {&scale, 1}, by_scale, DType::kBf16, rounding).worst_ratio == kInf);
    CHECK(compare({&nan, 1}, {&one, 1}, {&scale, 1}, by_scale, DType::kBf16, rounding).worst_ratio == kInf);
    CHECK(compare({&nan, 1}, {&one, 1}, {&scale, 1}, by_scale, DType::kU8, rounding).worst_ratio == kInf);
  }
}

BufferSpec share(std::string initial, DType dtype, std::string shape = "n") {
  BufferSpec buffer;
  buffer.initial = std::move(initial);
  buffer.dtype = dtype;
  buffer.shape = std::move(shape);
  return buffer;
}

template <class Stored>
std::vector<Stored> values(const BufferSpec& buffer, const std::string& family, int64_t n = 5000) {
  const std::vector<std::byte> bytes = make_values(buffer, make_shape({n}), family, 7);
  std::vector<Stored> out(bytes.size() / sizeof(Stored));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

TEST_CASE("shares of one value, from the same seed, make up that value") {
  const std::vector<float> whole = values<float>(share("parameter", DType::kF32), "gaussian");
  const auto copy = values<uint16_t>(share("parameter_copy", DType::kBf16), "gaussian");
  const auto high = values<uint16_t>(share("parameter", DType::kBf16), "gaussian");
  const auto low = values<int16_t>(share("parameter_low", DType::kI16), "gaussian");
  const auto error =
      to_double(DType::kBf16, make_values(share("parameter_error", DType::kBf16), make_shape({5000}), "gaussian", 7));
  REQUIRE(low.size() == whole.size());
  for (size_t i = 0; i < whole.size(); ++i) {
    CHECK(copy[i] == to_bf16(whole[i]));
    CHECK(high[i] == copy[i]);
    const uint32_t joined =
        (static_cast<uint32_t>(high[i]) << 16) + static_cast<uint32_t>(static_cast<int32_t>(low[i]));
    // A tie is rounded to even in the high half: the pair is that of another weight then.
    if (low[i] != -32768) CHECK(joined == std::bit_cast<uint32_t>(whole[i]));
    const auto rounded = static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(copy[i]) << 16));
    CHECK(std::fabs(rounded + error[i] - static_cast<double>(whole[i])) <= std::fabs(error[i]) * 0x1p-8);
  }
}

TEST_CASE("codes and scales hold the moments, with blocks of zeros among them") {
  struct Row {
    const char *moment, *code, *scale;
    uint8_t zero;
  };
  const Row rows[] = {{"moment", "moment_code", "moment_scale", 127},
                      {"second_moment", "second_moment_code", "second_moment_scale", 0}};
  for (const std::string_view family : input_family_names()) {
    const std::string name(family);
    for (const Row& row : rows) {
      INFO(name << " " << row.moment);
      const std::vector<float> whole = values<float>(share(row.moment, DType::kF32), name);
      const auto codes = values<uint8_t>(share(row.code, DType::kU8), name);
      const auto scales = values<float>(share(row.scale, DType::kF32, "n/256"), name);
      REQUIRE(codes.size() == whole.size());
      REQUIRE(scales.size() == (whole.size() + 255) / 256);
      int zero_blocks = 0;
      for (size_t block = 0; block < scales.size(); ++block) {
        float most = 0;
        for (size_t i = block * 256; i < std::min(whole.size(), block * 256 + 256); ++i)
          most = std::max(most, std::fabs(whole[i]));
        if (scales[block] == 0) {
          ++zero_blocks;
          for (size_t i = block * 256; i < std::min(whole.size(), block * 256 + 256); ++i) CHECK(codes[i] == row.zero);
        } else {
          CHECK(scales[block] == most);
        }
      }
      CHECK(zero_blocks >= 1);
      CHECK(zero_blocks < 15);
    }
  }
}

TEST_CASE("a share's format is checked when a task is read, and elements per block are counted up") {
  CHECK(shared_value("parameter").empty());
  CHECK(shared_value("second_moment_code") == "second_moment");
  CHECK(shared_value("parameter_low") == "parameter");
  for (const auto& [n, blocks] : {std::pair<int64_t, int64_t>{0, 0}, {1, 1}, {256, 1}, {257, 2}, {512, 2}})
    CHECK(buffer_elements(share("moment_scale", DType::kF32, "n/256"), make_shape({n})) == blocks);
}

}  // namespace
}  // namespace stepbench
