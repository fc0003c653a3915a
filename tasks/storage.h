// Storage formats for oracles: rounding of doubles to what a buffer holds, in exact arithmetic and from the exact value
// (not by way of fp32, which would round twice). Includes the standard library only.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace stepbench {

/// Distance between neighbouring values of a binary format with fp32's exponents and `bits` bits of fraction, in the
/// octave of `value`; subnormals included.
[[gnu::always_inline]] inline double storage_unit(double value, int bits) {
  constexpr double kLeast = 0x1p-126, kMost = 0x1p127;
  constexpr uint64_t kExponentBits = 0x7ff0000000000000u;
  double magnitude = std::fabs(value);
  magnitude = magnitude < kLeast ? kLeast : magnitude;
  magnitude = magnitude <= kMost ? magnitude : kMost;  // NaN too
  const double octave = std::bit_cast<double>(std::bit_cast<uint64_t>(magnitude) & kExponentBits);
  return octave * std::bit_cast<double>(static_cast<uint64_t>(1023 - bits) << 52);
}

/// bf16 has 7 bits of fraction; fp32 has 23.
[[gnu::always_inline]] inline double bf16_unit(double value) { return storage_unit(value, 7); }
[[gnu::always_inline]] inline double fp32_unit(double value) { return storage_unit(value, 23); }

/// The nearest bf16 value, ties to even; infinity from half a unit beyond the largest on.
[[gnu::always_inline]] inline double nearest_bf16(double value) {
  constexpr double kLargest = 0x1.fep127, kInfinity = std::numeric_limits<double>::infinity();
  const double unit = bf16_unit(value);  // a power of two: division and multiplication are exact
  const double rounded = std::nearbyint(value / unit) * unit;
  const double stored = std::fabs(rounded) <= kLargest ? rounded : std::copysign(kInfinity, value);
  return std::isnan(value) ? value : stored;
}

/// The nearest fp32 value, ties to even.
inline double nearest_fp32(double value) { return static_cast<double>(static_cast<float>(value)); }

}  // namespace stepbench
