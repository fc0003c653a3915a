// The dynamic 8-bit maps of block-quantised states (Dettmers, Lewis, Shleifer, Zettlemoyer, "8-bit Optimizers via
// Block-wise Quantization", ICLR 2022, section 1.3): for states to begin with (inputs.cc). What an update does with
// codes is the matter of its task's oracle, which has the map from its own derivation; a test compares the two.
#pragma once

#include <array>
#include <cstdint>

namespace stepbench {

/// Elements that share one scale, the largest magnitude among them.
inline constexpr int64_t kCodeBlock = 256;

/// Values of the 256 codes, ascending, from -0.993 (signed) or 0 (unsigned) to 1. Seven decades: [10^(i-7), 10^(i-6)]
/// for i = 0..6 is cut into 2^i equal parts (unsigned 2^(i+1)), whose midpoints are the values, with both signs in the
/// signed map; 0 and 1 are the other two. Rounded to fp32.
const std::array<float, 256>& signed_code_map();
const std::array<float, 256>& unsigned_code_map();

/// Code of the value nearest to `value`; the lower of two that are equally near.
uint8_t nearest_code(const std::array<float, 256>& map, double value);

}  // namespace stepbench
