// Storage bytes to double, units in the last place, and the one predicate that decides whether a value is right.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "harness/stages.h"
#include "harness/value_loops.h"

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

/// The limits of one buffer. Any pair of values can be measured, one at a time; value_loops() does the same for blocks
/// in which nothing is unusual.
struct Limits {
  Tolerance tolerance;
  Rounding rounding;
  bool integer;
  Format format, computed;  ///< computed: whose units an error of the arithmetic is counted in
  /// Largest finite value plus half a unit in its last place: from here on, rounding to nearest gives infinity.
  double overflow;

  Limits(const Tolerance& given, DType dtype, Rounding how)
      : tolerance(given),
        rounding(how),
        integer(is_integer(dtype)),
        format(integer ? Format{0, 0, 1022} : format_of(dtype)),
        computed(rounding == Rounding::kNone ? format : format_of(DType::kF32)),
        overflow(integer ? std::numeric_limits<double>::infinity()
                         : power_of_two(format.most_exponent) * (2 - power_of_two(-format.fraction_bits - 1))) {}

  double ratio(double expected, double got, double scale) const {
    const double ulp = integer ? 1 : ulp_in(computed, expected);
    const double limit = tolerance.step_scale_ratio * scale + tolerance.step_ulp * ulp;
    const double error = rounding == Rounding::kNone
                             ? std::fabs(got - expected)
                             : beyond_rounding(integer ? nullptr : &format, expected, got, rounding);
    // Not negated: a NaN anywhere must leave the fast path.
    const double units = error / limit;
    if (!(units <= std::numeric_limits<double>::max()) || !(limit > 0) || !std::isfinite(limit) || !std::isfinite(got))
      return unusual_ratio(expected, got, error, limit, overflow);
    return units;
  }
};

UlpTerms ulp_terms(const Format& format) {
  return {power_of_two(format.least_exponent), power_of_two(format.most_exponent), power_of_two(-format.fraction_bits)};
}

RatioTerms terms_of(const Limits& limits) {
  RatioTerms terms;
  terms.scale_ratio = limits.tolerance.step_scale_ratio;
  terms.ulp_ratio = limits.tolerance.step_ulp;
  if (!limits.integer) terms.computed = ulp_terms(limits.computed);  // a unit of codes is 1
  if (limits.rounding == Rounding::kNone) return terms;
  terms.gap = limits.integer ? StoredGap::kCode : StoredGap::kFormat;
  terms.share = limits.rounding == Rounding::kNearest ? 0.5 : 1;
  terms.stored = ulp_terms(limits.format);
  return terms;
}

constexpr size_t kBlock = 512;  // elements that are measured together; their ratios stay in the first-level cache

void set_worst(CompareResult& result, size_t i, double ratio, double expected, double got) {
  result.worst_ratio = ratio;
  result.worst_element = static_cast<int64_t>(i);
  result.worst_expected = expected;
  result.worst_got = got;
}

void add_element(CompareResult& result, size_t i, double expected, double got, double ratio) {
  ++result.elements_checked;
  if (ratio > result.worst_ratio || result.worst_element < 0) set_worst(result, i, ratio, expected, got);
  if (ratio <= 1 || result.first_bad_element >= 0) return;
  result.first_bad_element = static_cast<int64_t>(i);
  result.first_bad_ratio = ratio;
  result.first_bad_expected = expected;
  result.first_bad_got = got;
}

}  // namespace

void to_double(DType dtype, std::span<const std::byte> bytes, std::span<double> out) {
  SB_ASSERT(bytes.size() == out.size() * dtype_bytes(dtype));
  value_loops().widen(dtype, bytes.data(), out.size(), out.data());
}

void to_double(DType dtype, std::span<const std::byte> bytes, std::vector<double>& out) {
  const size_t width = dtype_bytes(dtype);
  SB_ASSERT(bytes.size() % width == 0);
  out.resize(bytes.size() / width);
  to_double(dtype, bytes, std::span(out));
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
  const Limits limits(tolerance, dtype, rounding);
  const RatioTerms terms = terms_of(limits);
  CompareResult result;
  std::array<double, kBlock> ratio;
  for (size_t first = 0; first < expected.size(); first += kBlock) {
    const size_t count = std::min(kBlock, expected.size() - first);
    if (!scale.empty()) {
      const BlockRatios block = value_loops().ratios(terms, expected.data() + first, got.data() + first,
                                                     scale.data() + first, count, ratio.data());
      if (block.plain) {
        result.elements_checked += static_cast<int64_t>(count);
        if (block.worst > result.worst_ratio || result.worst_element < 0) {
          const auto at = static_cast<size_t>(std::find(ratio.begin(), ratio.end(), block.worst) - ratio.begin());
          SB_ASSERT(at < count);
          set_worst(result, first + at, block.worst, expected[first + at], got[first + at]);
        }
        continue;
      }
    }
    for (size_t i = first; i < first + count; ++i)
      add_element(result, i, expected[i], got[i], limits.ratio(expected[i], got[i], scale.empty() ? 0 : scale[i]));
  }
  return result;
}

}  // namespace stepbench
