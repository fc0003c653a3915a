// Warps and their fragments: storage, lane masks, splitting and merging.
#include <emmintrin.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "harness/ptx_vm/machine.h"

namespace stepbench::vm {
namespace {

std::array<uint32_t, 3> thread_index(const Machine& m, uint32_t warp, int lane) {
  const uint32_t nx = static_cast<uint32_t>(m.spec->block[0]), ny = static_cast<uint32_t>(m.spec->block[1]);
  const uint32_t thread = warp * kLanes + static_cast<uint32_t>(lane);
  return {thread % nx, thread / nx % ny, thread / nx / ny};
}

bool can_merge(const Fragment& x, const Fragment& y) {
  const bool both_free = x.wait <= Wait::kConverge && y.wait <= Wait::kConverge;
  return both_free && x.pc == y.pc && x.stack == y.stack;
}

}  // namespace

AlignedBytes aligned_bytes(size_t bytes) {
  void* storage = std::aligned_alloc(64, (bytes + 127) / 64 * 64);
  SB_ASSERT(storage != nullptr);
  return AlignedBytes(static_cast<std::byte*>(storage));
}

// Bits of a predicate slot; elements are 0 or 1.
uint32_t predicate_bits(const std::byte* registers, uint32_t offset) {
  const __m128i* from = reinterpret_cast<const __m128i*>(registers + offset);
  uint32_t bits = 0;
  for (int k = 0; k < 8; ++k) {
    const __m128i shifted = _mm_slli_epi32(_mm_load_si128(from + k), 31);
    bits |= static_cast<uint32_t>(_mm_movemask_ps(_mm_castsi128_ps(shifted))) << (4 * k);
  }
  return bits;
}

void set_mask(ExecState& state, uint32_t mask) {
  state.mask = mask;
  const __m128i select = _mm_setr_epi32(1, 2, 4, 8);
  __m128i* to = reinterpret_cast<__m128i*>(state.active);
  for (int k = 0; k < 8; ++k) {
    const __m128i bits = _mm_and_si128(_mm_set1_epi32(static_cast<int>(mask >> (4 * k))), select);
    _mm_store_si128(to + k, _mm_cmpeq_epi32(bits, select));
  }
}

uint32_t local_stride(const Program& program) { return (program.local_bytes + 63) / 64 * 64; }

void start_warp(Machine& m, Block& block, uint32_t index) {
  Warp& warp = block.warps[index];
  const Program& program = *m.program;
  if (m.free_storage.empty()) {
    warp.storage = std::make_unique<WarpStorage>();
  } else {
    warp.storage = std::move(m.free_storage.back());
    m.free_storage.pop_back();
  }
  WarpStorage& storage = *warp.storage;
  if (storage.register_capacity < program.block_bytes || storage.registers == nullptr) {
    storage.registers = aligned_bytes(program.block_bytes);
    storage.register_capacity = program.block_bytes;
    storage.launch = 0;
  }
  std::byte* registers = storage.registers.get();
  if (storage.launch != m.launch_serial) {
    std::memcpy(registers, m.image.get(), program.image_bytes);
    storage.launch = m.launch_serial;
    storage.block = 0;
  }
  if (storage.block != block.serial) {
    fill_block_slots(program, block, registers);
    storage.block = block.serial;
  }
  fill_warp_slots(m, index, registers);
  for (const ZeroedSlot& zeroed : program.zeroed) std::memset(registers + zeroed.slot, 0, zeroed.bytes);
  if (program.local_bytes > 0) {
    const size_t bytes = static_cast<size_t>(local_stride(program)) * kLanes;
    if (storage.local_capacity < bytes) {
      storage.local = aligned_bytes(bytes);
      storage.local_capacity = bytes;
    }
    storage.local_initialised.assign(bytes / 8 + 16, 0);
  }
  std::memset(storage.carry, 0, sizeof storage.carry);
  warp.started = true;
}

void finish_warp(Machine& m, Block& block, Warp& warp) {
  m.free_storage.push_back(std::move(warp.storage));
  --block.warps_left;
}

void bind_warp(Machine& m, Block& block, uint32_t index) {
  ExecState& state = m.state;
  WarpStorage& storage = *block.warps[index].storage;
  state.registers = storage.registers.get();
  state.local = storage.local.get();
  state.local_initialised = storage.local_initialised.data();
  state.local_stride = local_stride(*m.program);
  state.local_bytes = m.program->local_bytes;
  state.warp = index;
  std::memcpy(state.carry, storage.carry, sizeof state.carry);
}

bool can_run(const Warp& warp) {
  for (int k = 0; k < warp.count; ++k) {
    if (warp.fragments[k].wait == Wait::kNone) return true;
  }
  return false;
}

Turn fail(Machine& m, const Block& block, uint32_t warp, int lane, Fault fault) {
  fault.block = block.index;
  fault.thread = thread_index(m, warp, lane);
  m.fault = std::move(fault);
  return Turn::kFault;
}

int first_lane(uint32_t mask) { return mask == 0 ? 0 : std::countr_zero(mask); }

int32_t push_stack(Machine& m, int32_t parent, int32_t return_pc) {
  for (size_t k = 1; k < m.stacks.size(); ++k) {
    if (m.stacks[k].parent == parent && m.stacks[k].return_pc == return_pc) return static_cast<int32_t>(k);
  }
  m.stacks.push_back({parent, return_pc, m.stacks[static_cast<size_t>(parent)].depth + 1});
  return static_cast<int32_t>(m.stacks.size()) - 1;
}

void remove_fragment(Warp& warp, int index) {
  for (int k = index; k + 1 < warp.count; ++k) warp.fragments[k] = warp.fragments[k + 1];
  --warp.count;
}

// Whoever waits for lanes of this warp looks again.
void wake_converging(Warp& warp) {
  for (int k = 0; k < warp.count; ++k) {
    if (warp.fragments[k].wait == Wait::kConverge) warp.fragments[k].wait = Wait::kNone;
  }
}

void merge_fragments(Warp& warp) {
  for (int i = 0; i + 1 < warp.count; ++i) {
    for (int j = i + 1; j < warp.count;) {
      if (!can_merge(warp.fragments[i], warp.fragments[j])) {
        ++j;
        continue;
      }
      warp.fragments[i].mask |= warp.fragments[j].mask;
      warp.fragments[i].wait = Wait::kNone;
      warp.fragments[i].last_run = std::min(warp.fragments[i].last_run, warp.fragments[j].last_run);
      remove_fragment(warp, j);
    }
  }
}

void add_fragment(Warp& warp, const Fragment& from, int32_t pc, uint32_t mask) {
  SB_ASSERT(warp.count < kLanes);
  Fragment fragment = from;
  fragment.pc = pc;
  fragment.mask = mask;
  fragment.wait = Wait::kNone;
  warp.fragments[warp.count++] = fragment;
}

}  // namespace stepbench::vm
