// Values that host and device make alike, element by element: what lists of real size are filled with, since making and
// sending them from the host would take most of an evaluation. Counter-based: element i needs no other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "harness/model.h"

namespace stepbench {

/// Element i is x = s * kGaussUnit * amplitude, or its square; s is the sum of four 16-bit integers from the i-th
/// number of the SplitMix64 sequence with this seed, less its mean: about normal, standard deviation `amplitude`, never
/// beyond 3.47 of it. In fp32 with every product rounded, then rounded to the storage type.
struct GenerateSpec {
  DType dtype = DType::kF32;  ///< a floating-point one
  uint64_t seed = 0;
  float amplitude = 1;
  bool squared = false;
  int64_t count = 0;  ///< elements of the buffer
};

/// Elements [first, first + count) as stored.
std::vector<std::byte> generated_values(const GenerateSpec& spec, int64_t first, int64_t count);
/// The same into memory that is used again; a span has the length already.
void generate_values(const GenerateSpec& spec, int64_t first, int64_t count, std::vector<std::byte>& out);
void generate_values(const GenerateSpec& spec, int64_t first, std::span<std::byte> out);

}  // namespace stepbench
