// Counter-based values (see generate.h). The device's twin is sb_generate in own_kernels.cc; a GPU test compares them.
#include "harness/generate.h"

#include <bit>
#include <cstring>

#include "harness/float_words.h"
#include "harness/result.h"

namespace stepbench {
namespace {

constexpr float kGaussUnit = 2.64293e-5f;  // 1 / (65536 * sqrt(4 / 12)): four uniforms of variance 1/12 each

/// The i-th number of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
uint64_t number_at(uint64_t seed, uint64_t i) {
  uint64_t z = seed + (i + 1) * 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

float value_at(const GenerateSpec& spec, uint64_t i) {
  const uint64_t x = number_at(spec.seed, i);
  const auto sum = static_cast<int32_t>((x & 0xffff) + ((x >> 16) & 0xffff) + ((x >> 32) & 0xffff) + (x >> 48));
  const float value = static_cast<float>(sum - 2 * 65535) * kGaussUnit * spec.amplitude;
  return spec.squared ? value * value : value;
}

template <class Stored, class Convert>
void fill(const GenerateSpec& spec, int64_t first, int64_t count, std::vector<std::byte>& bytes, Convert convert) {
  bytes.resize(static_cast<size_t>(count) * sizeof(Stored));
  for (int64_t i = 0; i < count; ++i) {
    const Stored stored = convert(value_at(spec, static_cast<uint64_t>(first + i)));
    std::memcpy(bytes.data() + static_cast<size_t>(i) * sizeof(Stored), &stored, sizeof(Stored));
  }
}

}  // namespace

void generate_values(const GenerateSpec& spec, int64_t first, int64_t count, std::vector<std::byte>& out) {
  SB_ASSERT(first >= 0 && count >= 0);
  switch (spec.dtype) {
    case DType::kF32: fill<float>(spec, first, count, out, [](float value) { return value; }); return;
    case DType::kBf16: fill<uint16_t>(spec, first, count, out, to_bf16); return;
    case DType::kF16: fill<uint16_t>(spec, first, count, out, to_f16); return;
    case DType::kU8:
    case DType::kI32:
    case DType::kI16: break;
  }
  SB_ASSERT(false);
}

std::vector<std::byte> generated_values(const GenerateSpec& spec, int64_t first, int64_t count) {
  std::vector<std::byte> out;
  generate_values(spec, first, count, out);
  return out;
}

}  // namespace stepbench
