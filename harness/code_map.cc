// The dynamic 8-bit maps. See code_map.h.
#include "harness/code_map.h"

#include <algorithm>

namespace stepbench {

namespace {

std::array<float, 256> make_map(bool is_signed) {
  std::array<float, 256> map{};
  size_t count = 0;
  constexpr double kUpperEnd[] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};
  for (int i = 0; i < 7; ++i) {
    const int parts = is_signed ? 1 << i : 2 << i;
    for (int j = 0; j < parts; ++j) {
      const auto value = static_cast<float>(kUpperEnd[i] * (0.1 + 0.9 * (j + 0.5) / parts));
      map[count++] = value;
      if (is_signed) map[count++] = -value;
    }
  }
  map[count++] = 0;
  map[count] = 1;
  std::sort(map.begin(), map.end());
  return map;
}

}  // namespace

const std::array<float, 256>& signed_code_map() {
  static const std::array<float, 256> map = make_map(true);
  return map;
}

const std::array<float, 256>& unsigned_code_map() {
  static const std::array<float, 256> map = make_map(false);
  return map;
}

uint8_t nearest_code(const std::array<float, 256>& map, double value) {
  // How many entries are below: without a branch, half of which would be mispredicted.
  size_t above = 0;
  for (size_t step = 128; step > 0; step /= 2)
    above += static_cast<size_t>(static_cast<double>(map[above + step - 1]) < value) * step;
  above += static_cast<size_t>(static_cast<double>(map[above]) < value);
  if (above == 0) return 0;
  if (above == map.size()) return 255;
  const bool upper = static_cast<double>(map[above]) - value < value - static_cast<double>(map[above - 1]);
  return static_cast<uint8_t>(upper ? above : above - 1);
}

}  // namespace stepbench
