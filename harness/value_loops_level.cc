// The loops over values, compiled once for each instruction-set level (SB_ISA). Written for the compiler to vectorise:
// no branch within a loop, pointers that do not overlap. What one level defines no other may share (a linker keeps one
// of each inline function), so everything here is local but for value_loops(), and what is included is inlined.
#include "harness/value_loops.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "harness/float_words.h"

namespace stepbench::SB_ISA {
namespace {

template <class T>
T load(const std::byte* from, size_t i) {
  T value;
  std::memcpy(&value, from + i * sizeof(T), sizeof(T));
  return value;
}

// ------------------------------------------------------------------------------------------------ making values
constexpr float kGaussUnit = 2.64293e-5f;  // 1 / (65536 * sqrt(4 / 12)): four uniforms of variance 1/12 each

/// The i-th number of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
uint64_t number_at(uint64_t seed, uint64_t i) {
  uint64_t z = seed + (i + 1) * 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

template <class Stored, class Convert>
void make(const GenerateSpec& spec, uint64_t first, size_t count, std::byte* out, Convert convert) {
  const uint64_t seed = spec.seed;
  const float amplitude = spec.amplitude;
  const bool squared = spec.squared;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t x = number_at(seed, first + i);
    const auto sum = static_cast<int32_t>((x & 0xffff) + ((x >> 16) & 0xffff) + ((x >> 32) & 0xffff) + (x >> 48));
    const float value = static_cast<float>(sum - 2 * 65535) * kGaussUnit * amplitude;
    const Stored stored = convert(squared ? value * value : value);
    std::memcpy(out + i * sizeof(Stored), &stored, sizeof(Stored));
  }
}

void generate(const GenerateSpec& spec, uint64_t first, size_t count, std::byte* out) {
  if (spec.dtype == DType::kF32)
    make<float>(spec, first, count, out, [](float value) { return value; });
  else if (spec.dtype == DType::kBf16)
    make<uint16_t>(spec, first, count, out, [](float value) { return to_bf16(value); });
  else
    make<uint16_t>(spec, first, count, out, [](float value) { return to_f16(value); });
}

// ------------------------------------------------------------------------------------------------ storage to double
double from_f16(uint16_t bits) {
  // Exponent and fraction moved to where double has them: too small by 2^1008 exactly, subnormals included.
  const double magnitude = std::bit_cast<double>(static_cast<uint64_t>(bits & 0x7fffu) << 42) * 0x1p1008;
  const double beyond =
      (bits & 0x3ffu) == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  const double value = (bits & 0x7c00u) == 0x7c00u ? beyond : magnitude;
  return (bits & 0x8000u) != 0 ? -value : value;
}

template <class Stored, class Convert>
void read(const std::byte* __restrict stored, size_t count, double* __restrict out, Convert convert) {
  for (size_t i = 0; i < count; ++i) out[i] = convert(load<Stored>(stored, i));
}

void widen(DType dtype, const std::byte* stored, size_t count, double* out) {
  const auto same = [](auto value) { return static_cast<double>(value); };
  switch (dtype) {
    case DType::kF32: return read<float>(stored, count, out, same);
    case DType::kBf16:
      return read<uint16_t>(stored, count, out, [](uint16_t bits) {
        return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits) << 16));
      });
    case DType::kF16: return read<uint16_t>(stored, count, out, [](uint16_t bits) { return from_f16(bits); });
    case DType::kU8: return read<uint8_t>(stored, count, out, same);
    case DType::kI32: return read<int32_t>(stored, count, out, same);
    case DType::kI16: return read<int16_t>(stored, count, out, same);
  }
}

// ------------------------------------------------------------------------------------------------ ratios
constexpr uint64_t kExponentBits = 0x7ff0000000000000u;
constexpr uint64_t kFractionBits = 0x000fffffffffffffu;

double ulp_in(const UlpTerms& terms, double value) {
  double magnitude = std::fabs(value);
  magnitude = magnitude < terms.least ? terms.least : magnitude;
  magnitude = magnitude > terms.most ? terms.most : magnitude;
  return std::bit_cast<double>(std::bit_cast<uint64_t>(magnitude) & kExponentBits) * terms.unit;
}

/// Distance from `got` to the next value of the format, on the side of `toward`: the gap below a power of two is that
/// of its octave.
double gap(const UlpTerms& terms, double got, double toward) {
  const double ulp = ulp_in(terms, got);
  const bool outward = (got == 0) | ((toward > got) == (got > 0));
  const bool power = (std::bit_cast<uint64_t>(got) & kFractionBits) == 0;
  const bool halved = !outward & power & (std::fabs(got) >= 2 * terms.least);
  return halved ? ulp / 2 : ulp;
}

template <StoredGap kGap>
BlockRatios measure(const RatioTerms& given, const double* __restrict expected, const double* __restrict got,
                    const double* __restrict scale, size_t count, double* __restrict ratio) {
  const RatioTerms terms = given;
  // As integers the bits of numbers that are not negative have the numbers' order, with infinity and NaN above them.
  int64_t worst = 0, largest_limit = 0, signs = 0;
  for (size_t i = 0; i < count; ++i) {
    const double limit = terms.scale_ratio * scale[i] + terms.ulp_ratio * ulp_in(terms.computed, expected[i]);
    double error = std::fabs(got[i] - expected[i]);
    if constexpr (kGap != StoredGap::kNone) {
      const double whole = kGap == StoredGap::kCode ? 1.0 : gap(terms.stored, got[i], expected[i]);
      const double allowed = terms.share * whole;
      error = error <= allowed ? 0 : error - allowed;
    }
    const double quotient = error / limit;
    const double units = error == 0 ? 0 : quotient;  // a limit of zero allows no error
    ratio[i] = units;
    const auto limit_bits = std::bit_cast<int64_t>(limit);
    const auto bits = std::bit_cast<int64_t>(std::fabs(units));
    worst = bits > worst ? bits : worst;
    largest_limit = limit_bits > largest_limit ? limit_bits : largest_limit;
    signs |= limit_bits;
  }
  // With a finite limit a finite ratio means that both values are finite.
  const double worst_ratio = std::bit_cast<double>(worst);
  const bool finite_limits = signs >= 0 && std::bit_cast<double>(largest_limit) <= std::numeric_limits<double>::max();
  return {finite_limits && worst_ratio <= 1, worst_ratio};
}

BlockRatios ratios(const RatioTerms& terms, const double* expected, const double* got, const double* scale,
                   size_t count, double* ratio) {
  switch (terms.gap) {
    case StoredGap::kNone: return measure<StoredGap::kNone>(terms, expected, got, scale, count, ratio);
    case StoredGap::kFormat: return measure<StoredGap::kFormat>(terms, expected, got, scale, count, ratio);
    case StoredGap::kCode: return measure<StoredGap::kCode>(terms, expected, got, scale, count, ratio);
  }
  return {};
}

}  // namespace

ValueLoops value_loops() { return {SB_ISA_NAME, generate, widen, ratios}; }

}  // namespace stepbench::SB_ISA
