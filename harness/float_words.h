// float -> the 16-bit formats, by integer arithmetic: the same bits on every machine. Always inlined: code that is
// compiled for several instruction-set levels may share no function.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace stepbench {

/// float -> bf16, round to nearest even; NaN stays a NaN.
[[gnu::always_inline]] inline uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/// float -> IEEE binary16, round to nearest even, subnormals kept, overflow to infinity.
[[gnu::always_inline]] inline uint16_t to_f16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 and above
  if (magnitude < 0x38800000u) {                                               // below 2^-14: subnormal result
    // Adding 0.5 puts the last bit of the sum at 2^-24, the spacing of binary16 subnormals; the sum rounds.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | static_cast<uint16_t>((rounded - 0x38000000u) >> 13));
}

}  // namespace stepbench
