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
inline double storage_unit(double value, int bits) {
  int exponent = static_cast<int>((std::bit_cast<uint64_t>(value) >> 52) & 0x7ffu) - 1023;
  exponent = exponent < -126 ? -126 : exponent > 127 ? 127 : exponent;
  return std::bit_cast<double>(static_cast<uint64_t>(exponent - bits + 1023) << 52);
}

/// bf16 has 7 bits of fraction; fp32 has 23.
inline double bf16_unit(double value) { return storage_unit(value, 7); }
inline double fp32_unit(double value) { return storage_unit(value, 23); }

/// The nearest bf16 value, ties to even; infinity from half a unit beyond the largest on.
inline double nearest_bf16(double value) {
  if (!std::isfinite(value)) return value;
  const double unit = bf16_unit(value);  // a power of two: division and multiplication are exact
  const double rounded = std::nearbyint(value / unit) * unit;
  constexpr double kLargest = 0x1.fep127;
  if (std::fabs(rounded) <= kLargest) return rounded;
  return std::copysign(std::numeric_limits<double>::infinity(), value);
}

/// The nearest fp32 value, ties to even.
inline double nearest_fp32(double value) { return static_cast<double>(static_cast<float>(value)); }

}  // namespace stepbench
