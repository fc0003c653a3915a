// Runs one form on 32 lanes of a register block: full, masked, or with the destination in the first source's slot.
#pragma once

#include <cstring>
#include <sstream>
#include <string>

#include "harness/ptx_vm/lanes.h"

namespace stepbench::vm {

struct LaneInputs {
  uint64_t source[kLanes][4];
  uint32_t carry[kLanes];
  bool active[kLanes];
};
struct LaneOutputs {
  uint64_t destination[kLanes][4];
  uint32_t carry[kLanes];
};
enum class Variant { kFull, kMasked, kAliased };

/// What the destination slots hold beforehand.
inline uint64_t kUntouched(int bytes) {
  return bytes == 8 ? 0xa5a5a5a5a5a5a5a5ull : bytes == 4 ? 0xa5a5a5a5u : 0xa5a5u;
}

inline LaneOutputs run_lanes(const ArithmeticForm& form, const LaneInputs& inputs, Variant variant) {
  constexpr uint32_t kSlot = 256;
  alignas(64) std::byte block[16 * kSlot];
  std::memset(block, 0xa5, sizeof(block));
  Decoded in;
  in.a = 0, in.b = kSlot, in.c = 2 * kSlot, in.e = 3 * kSlot;
  uint32_t destination[4];
  for (uint32_t k = 0; k < 4; ++k) destination[k] = (4 + k) * kSlot;
  // With another element size the destination overlaps the source only in part; the results must be the same.
  if (variant == Variant::kAliased) destination[0] = form.sources > 1 ? in.b : in.a;
  in.d = destination[0], in.d2 = destination[1];
  for (uint32_t k = 0; k < 4; ++k) in.v[k] = destination[k];
  const uint32_t source[4] = {in.a, in.b, in.c, in.e};
  LaneState state;
  state.registers = block;
  for (int i = 0; i < kLanes; ++i) {
    for (int s = 0; s < form.sources; ++s) {
      std::memcpy(block + source[s] + i * form.source_bytes[s], &inputs.source[i][s], form.source_bytes[s]);
    }
    state.carry[i] = inputs.carry[i];
    state.active[i] = variant != Variant::kMasked || inputs.active[i] ? 0xffffffffu : 0;
  }
  (variant == Variant::kMasked ? form.masked : form.full)(state, in);
  LaneOutputs out{};
  for (int i = 0; i < kLanes; ++i) {
    for (int k = 0; k < form.destinations; ++k) {
      const int bytes = form.destination_bytes[form.destinations == 4 ? 0 : k];
      std::memcpy(&out.destination[i][k], block + destination[k] + i * bytes, static_cast<size_t>(bytes));
    }
    out.carry[i] = state.carry[i];
  }
  return out;
}

inline std::string describe(const char* level, Variant variant, const ArithmeticForm& form, const LaneInputs& inputs,
                            int lane, const LaneOutputs& got, const uint64_t* expected, uint32_t carry) {
  std::ostringstream text;
  text << level
       << (variant == Variant::kFull     ? " full"
           : variant == Variant::kMasked ? " masked"
                                         : " aliased")
       << " lane " << lane << std::hex;
  for (int s = 0; s < form.sources; ++s) text << (s == 0 ? " sources " : ", ") << inputs.source[lane][s];
  text << ": got";
  for (int k = 0; k < form.destinations; ++k) text << ' ' << got.destination[lane][k];
  text << " carry " << got.carry[lane] << ", expected";
  for (int k = 0; k < form.destinations; ++k) text << ' ' << expected[k];
  text << " carry " << carry;
  return text.str();
}

}  // namespace stepbench::vm
