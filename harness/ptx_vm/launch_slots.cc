// Fills the slots that no instruction writes: immediates, parameters, special registers; and runs the prologues that
// depend on them alone.
#include <cstring>
#include <span>

#include "harness/ptx_vm/machine.h"

namespace stepbench::vm {
namespace {

template <class T>
void fill_lanes(std::byte* registers, uint32_t offset, T value) {
  T* lanes = reinterpret_cast<T*>(registers + offset);
  for (int i = 0; i < kLanes; ++i) lanes[i] = value;
}

void fill_uniform(std::byte* registers, const FilledSlot& filled, uint64_t value) {
  if (filled.bytes == 2) {
    fill_lanes(registers, filled.slot, static_cast<uint16_t>(value));
  } else if (filled.bytes == 4) {
    fill_lanes(registers, filled.slot, static_cast<uint32_t>(value));
  } else {
    fill_lanes(registers, filled.slot, value);
  }
}

uint64_t parameter_bits(const FilledSlot& filled, std::span<const std::byte> parameters) {
  uint64_t value = 0;
  std::memcpy(&value, parameters.data() + filled.parameter_offset, filled.parameter_bytes);
  if (filled.sign_extend && filled.parameter_bytes < 8) {
    const int shift = 64 - 8 * filled.parameter_bytes;
    value = static_cast<uint64_t>(static_cast<int64_t>(value << shift) >> shift);
  }
  return value;
}

uint32_t lane_pattern(Special special, uint32_t lane) {
  const uint32_t own = 1u << lane;
  if (special == Special::kLanemaskEq) return own;
  if (special == Special::kLanemaskLt) return own - 1;
  if (special == Special::kLanemaskLe) return own | (own - 1);
  if (special == Special::kLanemaskGt) return ~(own | (own - 1));
  if (special == Special::kLanemaskGe) return ~(own - 1);
  return lane;
}

}  // namespace

// The launch's part of every register block.
void make_image(Machine& m) {
  const Program& program = *m.program;
  if (m.image_capacity < program.image_bytes || m.image == nullptr) {
    m.image = aligned_bytes(program.image_bytes);
    m.image_capacity = program.image_bytes;
  }
  const LaunchSpec& spec = *m.spec;
  std::byte* image = m.image.get();
  for (const FilledSlot& filled : program.launch_slots) {
    uint64_t value = filled.bits;
    switch (filled.special) {
      case Special::kBits: break;
      case Special::kParameter: value = parameter_bits(filled, spec.parameters); break;
      case Special::kNtidX: value = static_cast<uint64_t>(spec.block[0]); break;
      case Special::kNtidY: value = static_cast<uint64_t>(spec.block[1]); break;
      case Special::kNtidZ: value = static_cast<uint64_t>(spec.block[2]); break;
      case Special::kNctaidX: value = static_cast<uint64_t>(spec.grid[0]); break;
      case Special::kNctaidY: value = static_cast<uint64_t>(spec.grid[1]); break;
      case Special::kNctaidZ: value = static_cast<uint64_t>(spec.grid[2]); break;
      case Special::kNwarpid: value = (m.threads + 31) / 32; break;
      case Special::kDynamicShared: value = spec.shared_bytes; break;
      case Special::kTotalShared: value = m.block_shared_bytes; break;
      case Special::kLaneid:
      case Special::kLanemaskEq:
      case Special::kLanemaskLt:
      case Special::kLanemaskLe:
      case Special::kLanemaskGt:
      case Special::kLanemaskGe: {
        uint32_t* lanes = reinterpret_cast<uint32_t*>(image + filled.slot);
        for (uint32_t i = 0; i < kLanes; ++i) lanes[i] = lane_pattern(filled.special, i);
        continue;
      }
      case Special::kCtaidX:
      case Special::kCtaidY:
      case Special::kCtaidZ:
      case Special::kSmid:
      case Special::kTidX:
      case Special::kTidY:
      case Special::kTidZ:
      case Special::kWarpid: SB_ASSERT(false);
    }
    fill_uniform(image, filled, value);
  }
  if (program.launch_prologue.empty()) return;
  LaneState state;
  state.registers = image;
  for (uint32_t& lane : state.active) lane = kAllLanes;
  for (const Decoded& instruction : program.launch_prologue) instruction.full(state, instruction);
}

void fill_block_slots(const Program& program, const Block& block, std::byte* registers) {
  for (const FilledSlot& filled : program.block_slots) {
    uint64_t value = 0;
    if (filled.special == Special::kCtaidX) value = block.index[0];
    if (filled.special == Special::kCtaidY) value = block.index[1];
    if (filled.special == Special::kCtaidZ) value = block.index[2];
    if (filled.special == Special::kSmid) value = block.linear % kModelledSms;
    fill_uniform(registers, filled, value);
  }
  if (program.block_prologue.empty()) return;
  LaneState state;
  state.registers = registers;
  for (uint32_t& lane : state.active) lane = kAllLanes;
  for (const Decoded& instruction : program.block_prologue) instruction.full(state, instruction);
}

void fill_warp_slots(const Machine& m, uint32_t warp, std::byte* registers) {
  const uint32_t nx = static_cast<uint32_t>(m.spec->block[0]), ny = static_cast<uint32_t>(m.spec->block[1]);
  const bool flat = m.threads == nx;
  for (const FilledSlot& filled : m.program->warp_slots) {
    uint32_t* lanes = reinterpret_cast<uint32_t*>(registers + filled.slot);
    const uint32_t first = warp * kLanes;
    for (uint32_t i = 0; i < kLanes; ++i) {
      const uint32_t thread = first + i;
      if (filled.special == Special::kWarpid) {
        lanes[i] = warp;
      } else if (filled.special == Special::kTidX) {
        lanes[i] = flat ? thread : thread % nx;
      } else if (filled.special == Special::kTidY) {
        lanes[i] = flat ? 0 : thread / nx % ny;
      } else {
        lanes[i] = flat ? 0 : thread / nx / ny;
      }
    }
  }
}

}  // namespace stepbench::vm
