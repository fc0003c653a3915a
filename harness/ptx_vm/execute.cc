// Runs blocks in ascending order. A block that has used up its turn is parked and another one runs, up to as many
// blocks as an H200 keeps resident, so that blocks may wait for each other as far as they may on a GPU.
#include "harness/ptx_vm/execute.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "harness/ptx_vm/fault.h"
#include "harness/ptx_vm/machine.h"

namespace stepbench::vm {
namespace {

constexpr uint64_t kThreadsPerSm = 2048, kBlocksPerSm = 32, kSharedPerSm = 233472;

std::unique_ptr<Block> start_block(Machine& m, uint64_t linear) {
  std::unique_ptr<Block> block;
  if (m.free_blocks.empty()) {
    block = std::make_unique<Block>();
  } else {
    block = std::move(m.free_blocks.back());
    m.free_blocks.pop_back();
  }
  const uint64_t gx = static_cast<uint64_t>(m.spec->grid[0]), gy = static_cast<uint64_t>(m.spec->grid[1]);
  block->index = {static_cast<uint32_t>(linear % gx), static_cast<uint32_t>(linear / gx % gy),
                  static_cast<uint32_t>(linear / gx / gy)};
  block->linear = static_cast<uint32_t>(linear);
  if (m.check_races) m.races.block_strong.resize(linear + 1);
  block->serial = ++m.block_serial;
  block->epoch = 1;
  std::fill(std::begin(block->warp_strong), std::end(block->warp_strong), uint64_t{0});
  block->warp_count = block->warps_left = static_cast<int>((m.threads + 31) / 32);
  if (block->warps.size() < static_cast<size_t>(block->warp_count))
    block->warps.resize(static_cast<size_t>(block->warp_count));
  for (int w = 0; w < block->warp_count; ++w) {
    Warp& warp = block->warps[static_cast<size_t>(w)];
    const uint32_t left = m.threads - static_cast<uint32_t>(w) * kLanes;
    warp.live = left >= kLanes ? kAllLanes : (1u << left) - 1;
    warp.started = false;
    warp.count = 1;
    warp.fragments[0] = Fragment{};
    warp.fragments[0].mask = warp.live;
  }
  for (BarrierState& barrier : block->barriers) {
    if (barrier.busy) barrier = BarrierState{};
  }
  if (!block->bulk.empty()) block->bulk = BulkCopies();  // of a launch that ended with a fault
  if (m.block_shared_bytes > 0) {
    if (block->shared_capacity < m.block_shared_bytes) {
      block->shared = aligned_bytes(m.block_shared_bytes);
      block->shared_capacity = m.block_shared_bytes;
    }
    block->shared_initialised.assign(m.block_shared_bytes / 8 + 16, 0);
    if (m.check_races) block->shared_shadow.assign(m.block_shared_bytes / 4 + 5, ShadowWord{});
  }
  return block;
}

void bind_block(Machine& m, Block& block) {
  m.state.shared = block.shared.get();
  m.state.shared_initialised = block.shared_initialised.data();
  m.state.shared_bytes = m.block_shared_bytes;
  m.state.block = block.linear;
  m.state.bulk = &block.bulk;
  m.races.shared = m.check_races && !m.program->partial_barriers ? block.shared_shadow.data() : nullptr;
  m.races.shared_epoch = block.epoch;
  std::copy(std::begin(block.warp_strong), std::end(block.warp_strong), std::begin(m.races.warp_strong));
}

Turn run_block(Machine& m, Block& block) {
  bind_block(m, block);
  for (;;) {
    bool ran = false, turn_over = false;
    for (int w = 0; w < block.warp_count; ++w) {
      Warp& warp = block.warps[static_cast<size_t>(w)];
      if (warp.count == 0 || !can_run(warp)) continue;
      ran = true;
      const Turn turn = run_warp(m, block, static_cast<uint32_t>(w));
      if (turn == Turn::kFault) return turn;
      turn_over = turn_over || turn == Turn::kTurnOver;
    }
    if (block.warps_left == 0) {
      if (!block.bulk.empty()) finish_bulk(m.state, block.bulk);
      return Turn::kFinished;
    }
    if (!ran) return stuck(m, block, 0, static_cast<uint32_t>(block.warp_count));
    if (turn_over) return Turn::kTurnOver;
  }
}

void recycle(Machine& m, std::unique_ptr<Block> block) {
  for (int w = 0; w < block->warp_count; ++w) {
    Warp& warp = block->warps[static_cast<size_t>(w)];
    if (warp.storage != nullptr) m.free_storage.push_back(std::move(warp.storage));
  }
  m.free_blocks.push_back(std::move(block));
}

uint64_t resident_blocks(const Machine& m) {
  uint64_t per_sm = std::min(kBlocksPerSm, kThreadsPerSm / std::max<uint64_t>(m.threads, 1));
  const uint64_t shared = m.block_shared_bytes + kSharedBase;
  per_sm = std::min(per_sm, kSharedPerSm / shared);
  return std::max<uint64_t>(per_sm, 1) * kModelledSms;
}

// Blocks in ascending order; parked ones take turns.
void run_grid(Machine& m) {
  const uint64_t total = static_cast<uint64_t>(m.spec->grid[0]) * static_cast<uint64_t>(m.spec->grid[1]) *
                         static_cast<uint64_t>(m.spec->grid[2]);
  const uint64_t resident = resident_blocks(m);
  std::deque<std::unique_ptr<Block>> parked;
  const auto step = [&](std::unique_ptr<Block> block) {
    const Turn turn = run_block(m, *block);
    std::copy(std::begin(m.races.warp_strong), std::end(m.races.warp_strong), std::begin(block->warp_strong));
    if (turn == Turn::kTurnOver) {
      parked.push_back(std::move(block));
    } else {
      recycle(m, std::move(block));
    }
    return turn != Turn::kFault;
  };
  for (uint64_t next = 0; next < total || !parked.empty();) {
    if (next < total && parked.size() < resident) {
      if (!step(start_block(m, next++))) break;
    }
    const size_t waiting = parked.size();
    for (size_t k = 0; k < waiting; ++k) {
      std::unique_ptr<Block> block = std::move(parked.front());
      parked.pop_front();
      if (!step(std::move(block))) {
        for (auto& left : parked) recycle(m, std::move(left));
        return;
      }
    }
  }
  for (auto& left : parked) {
    if (left != nullptr) recycle(m, std::move(left));
  }
}

// Entry parameters that have their address taken lie in memory of their own.
bool place_parameters(Machine& m) {
  if (!m.program->uses_parameter_window) return true;
  if (m.parameter_allocation != 0) {
    m.memory->release(m.parameter_allocation);
    m.parameter_allocation = 0;
    m.memory->forget_freed_below(kConstBase);
  }
  AllocationSpec spec;
  spec.bytes = m.program->info.parameter_bytes;
  spec.read_only = true;
  spec.label = "kernel parameters";
  const Result<uint32_t> id = m.memory->allocate_at(kParameterBase, spec);
  if (!id.ok()) return false;
  m.parameter_allocation = id.value();
  Allocation& allocation = m.memory->get(id.value());
  std::memcpy(allocation.host, m.spec->parameters.data(), spec.bytes);
  set_bits(allocation.initialised.data(), 0, spec.bytes);
  return true;
}

}  // namespace

void MachineDeleter::operator()(Machine* machine) const { delete machine; }

MachinePtr make_machine(AddressSpace& memory, bool check_races) {
  MachinePtr machine(new Machine);
  machine->memory = &memory;
  machine->check_races = check_races;
  return machine;
}

LaunchReport run_launch(Machine& machine, const Program& program, const LaunchSpec& spec, uint64_t budget) {
  Machine& m = machine;
  m.program = &program;
  m.spec = &spec;
  m.threads = static_cast<uint32_t>(spec.block[0] * spec.block[1] * spec.block[2]);
  m.block_shared_bytes =
      spec.shared_bytes > 0 ? program.dynamic_shared_offset + spec.shared_bytes : program.static_shared_bytes;
  m.budget = budget;
  m.budget_left = budget > static_cast<uint64_t>(INT64_MAX) ? INT64_MAX : static_cast<int64_t>(budget);
  m.issued = m.lane_instructions = m.divergent_branches = m.barriers = 0;
  m.fault.reset();
  m.stacks.assign(1, StackNode{});
  m.fragment_clock = 0;
  ++m.launch_serial;
  LaunchReport report;
  if (!place_parameters(m)) {
    report.fault = fault_at(program, 0, FaultKind::kInvalidLaunch, "no host memory for the kernel's parameters");
    return report;
  }
  m.caches.assign(program.code.size(), AccessCache{});
  m.state.caches = m.caches.data();
  m.state.memory = m.memory;
  m.state.counters = MemoryCounters{};
  m.state.faulted = false;
  m.races.launch = static_cast<uint32_t>(m.launch_serial);
  m.races.time = 0;
  m.races.block_strong.clear();  // grows as blocks start: of a grid of 2^31 the budget lets few run
  m.state.races = m.check_races ? &m.races : nullptr;
  make_image(m);
  run_grid(m);
  report.fault = std::move(m.fault);
  Counters& counters = report.counters;
  counters.launches = 1;
  counters.warp_instructions = m.issued;
  counters.lane_instructions = m.lane_instructions;
  counters.divergent_branches = m.divergent_branches;
  counters.barriers = m.barriers;
  counters.global_load_bytes = m.state.counters.global_load_bytes;
  counters.global_store_bytes = m.state.counters.global_store_bytes;
  counters.global_load_sectors = m.state.counters.global_load_sectors;
  counters.global_store_sectors = m.state.counters.global_store_sectors;
  counters.shared_wavefronts = m.state.counters.shared_wavefronts;
  counters.atomics = m.state.counters.atomics;
  counters.local_bytes = m.state.counters.local_bytes;
  return report;
}

}  // namespace stepbench::vm
