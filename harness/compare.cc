// Storage bytes to double, units in the last place, and the one predicate that decides whether a value is right.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "harness/stages.h"

namespace stepbench {

namespace {

/// A binary floating-point storage format.
struct Format {
  int fraction_bits;
  int least_exponent;  ///< of normal numbers
  int most_exponent;
};

bool is_integer(DType dtype) { return dtype == DType::kU8 || dtype == DType::kI32 || dtype == DType::kI16; }

Format format_of(DType dtype) {
  switch (dtype) {
    case DType::kF32: return {23, -126, 127};
    case DType::kBf16: return {7, -126, 127};
    case DType::kF16: return {10, -14, 15};
    case DType::kU8:
    case DType::kI32:
    case DType::kI16: break;
  }
  SB_ASSERT(false);
  return {};
}

/// Exact power of two in the range of double's normal numbers.
double power_of_two(int exponent) { return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52); }

/// floor(log2 |value|) of a finite normal double; below every storage format's range for zero and subnormals.
int exponent_of(double value) { return static_cast<int>((std::bit_cast<uint64_t>(value) >> 52) & 0x7ffu) - 1023; }

double ulp_in(const Format& format, double value) {
  int exponent = exponent_of(value);
  if (exponent < format.least_exponent) exponent = format.least_exponent;
  if (exponent > format.most_exponent) exponent = format.most_exponent;  // infinities and what overflows
  return power_of_two(exponent - format.fraction_bits);
}

double from_f16(uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int fraction = bits & 0x3ff;
  double value = 0;
  if (exponent == 0x1f)
    value = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  else if (exponent == 0)
    value = fraction * power_of_two(-24);
  else
    value = (1024 + fraction) * power_of_two(exponent - 25);
  return (bits & 0x8000) != 0 ? -value : value;
}

template <class Stored, class Convert>
void read_all(std::span<const std::byte> bytes, std::vector<double>& out, Convert convert) {
  SB_ASSERT(bytes.size() % sizeof(Stored) == 0);
  out.resize(bytes.size() / sizeof(Stored));
  for (size_t i = 0; i < out.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, bytes.data() + i * sizeof(Stored), sizeof(Stored));
    out[i] = convert(stored);
  }
}

/// Distance from `got` to the next value of the format, on the side of `toward`.
double gap(const Format& format, double got, double toward) {
  const double ulp = ulp_in(format, got);
  const bool outward = got == 0 || (toward > got) == (got > 0);
  if (outward) return ulp;
  const bool power = (std::bit_cast<uint64_t>(got) & 0xfffffffffffffu) == 0;  // the gap below is that of its octave
  return power && exponent_of(got) > format.least_exponent ? ulp / 2 : ulp;
}

/// How far `expected` is from the numbers that may be rounded to `got`: half of the way to its neighbours when to
/// nearest, all of it when by chance. 0 among them; NaN where something is not finite.
double beyond_rounding(const Format* format, double expected, double got, Rounding rounding) {
  const double distance = std::fabs(got - expected);
  const double share = rounding == Rounding::kNearest ? 0.5 : 1;
  const double allowed = share * (format == nullptr ? 1 : gap(*format, got, expected));
  return distance <= allowed ? 0 : distance - allowed;
}

/// Error in units of the limit where the fast path does not apply: something is not finite, or the limit is zero.
double unusual_ratio(double expected, double got, double error, double limit, double overflow) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (std::isnan(expected) || std::isnan(got)) return std::isnan(expected) && std::isnan(got) ? 0 : kInfinity;
  if (std::isinf(expected)) return got == expected ? 0 : kInfinity;
  if (!std::isfinite(limit)) return kInfinity;  // a limit that everything meets is no limit
  if (std::isinf(got)) {
    // Right only where a value within the limit of the oracle's rounds to infinity in the storage format.
    const double side = std::signbit(got) ? -1.0 : 1.0;
    return expected * side + limit >= overflow ? 0 : kInfinity;
  }
  if (error == 0) return 0;
  return limit > 0 ? error / limit : kInfinity;
}

}  // namespace

void to_double(DType dtype, std::span<const std::byte> bytes, std::vector<double>& out) {
  switch (dtype) {
    case DType::kF32: read_all<float>(bytes, out, [](float v) { return static_cast<double>(v); }); return;
    case DType::kBf16:
      read_all<uint16_t>(bytes, out, [](uint16_t v) {
        return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(v) << 16));
      });
      return;
    case DType::kF16: read_all<uint16_t>(bytes, out, from_f16); return;
    case DType::kU8: read_all<uint8_t>(bytes, out, [](uint8_t v) { return static_cast<double>(v); }); return;
    case DType::kI32: read_all<int32_t>(bytes, out, [](int32_t v) { return static_cast<double>(v); }); return;
    case DType::kI16: read_all<int16_t>(bytes, out, [](int16_t v) { return static_cast<double>(v); }); return;
  }
  SB_ASSERT(false);
}

std::vector<double> to_double(DType dtype, std::span<const std::byte> bytes) {
  std::vector<double> out;
  to_double(dtype, bytes, out);
  return out;
}

double ulp_of(DType dtype, double value) {
  if (std::isnan(value)) return value;
  if (is_integer(dtype)) return 1;
  return ulp_in(format_of(dtype), value);
}

CompareResult compare(std::span<const double> expected, std::span<const double> got, std::span<const double> scale,
                      const Tolerance& tolerance, DType dtype, Rounding rounding) {
  SB_ASSERT(expected.size() == got.size());
  SB_ASSERT(scale.empty() || scale.size() == expected.size());  // empty: no movement is allowed for
  const bool integer = is_integer(dtype);
  const Format format = integer ? Format{0, 0, 1022} : format_of(dtype);
  const Format computed = rounding == Rounding::kNone ? format : format_of(DType::kF32);
  // Largest finite value plus half a unit in its last place: from here on, rounding to nearest gives infinity.
  const double overflow = integer ? std::numeric_limits<double>::infinity()
                                  : power_of_two(format.most_exponent) * (2 - power_of_two(-format.fraction_bits - 1));
  CompareResult result;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double ulp = integer ? 1 : ulp_in(computed, expected[i]);
    const double limit = tolerance.step_scale_ratio * (scale.empty() ? 0 : scale[i]) + tolerance.step_ulp * ulp;
    const double error = rounding == Rounding::kNone
                             ? std::fabs(got[i] - expected[i])
                             : beyond_rounding(integer ? nullptr : &format, expected[i], got[i], rounding);
    // Not negated: a NaN anywhere must leave the fast path.
    double ratio = error / limit;
    if (!(ratio <= std::numeric_limits<double>::max()) || !(limit > 0) || !std::isfinite(limit) ||
        !std::isfinite(got[i]))
      ratio = unusual_ratio(expected[i], got[i], error, limit, overflow);
    ++result.elements_checked;
    if (ratio > result.worst_ratio || result.worst_element < 0) {
      result.worst_ratio = ratio;
      result.worst_element = static_cast<int64_t>(i);
      result.worst_expected = expected[i];
      result.worst_got = got[i];
    }
    if (!(ratio <= 1) && result.first_bad_element < 0) {
      result.first_bad_element = static_cast<int64_t>(i);
      result.first_bad_ratio = ratio;
      result.first_bad_expected = expected[i];
      result.first_bad_got = got[i];
    }
  }
  return result;
}

}  // namespace stepbench
