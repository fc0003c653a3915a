// The state of a running launch and what its parts do with it. Internal to the executor: launch_slots.cc fills what no
// instruction writes, fragments.cc keeps warps and their fragments, barriers.cc the barriers of a block, warp_run.cc is
// the instruction loop, execute.cc runs blocks and the grid.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/device.h"
#include "harness/ptx_vm/bulk_copy.h"
#include "harness/ptx_vm/execute.h"
#include "harness/ptx_vm/memory.h"
#include "harness/ptx_vm/program.h"
#include "harness/ptx_vm/race.h"

namespace stepbench::vm {

inline constexpr uint32_t kAllLanes = 0xffffffffu;
inline constexpr int kBarriers = 16;  // PTX ISA "barrier": resources 0..15
inline constexpr int kMaxWarps = 32;
inline constexpr uint64_t kModelledSms = 132;  // H200, for the number of resident blocks

enum class Wait : uint8_t { kNone, kConverge, kBarrier, kBarrierBusy };

struct Fragment {
  int32_t pc = 0;
  uint32_t mask = 0;
  int32_t stack = 0;  // Machine::stacks
  Wait wait = Wait::kNone;
  uint8_t barrier = 0;
  uint64_t last_run = 0;
};

// A return address and what lies below it. Equal stacks have equal indices.
struct StackNode {
  int32_t parent = -1, return_pc = -1, depth = 0;
};

struct AlignedDeleter {
  void operator()(std::byte* storage) const { std::free(storage); }
};
using AlignedBytes = std::unique_ptr<std::byte[], AlignedDeleter>;

/// 64-byte aligned.
AlignedBytes aligned_bytes(size_t bytes);

// What a warp needs while it has not finished: registers and local memory.
struct WarpStorage {
  AlignedBytes registers;
  size_t register_capacity = 0;
  AlignedBytes local;
  size_t local_capacity = 0;
  std::vector<uint8_t> local_initialised;
  uint64_t launch = 0, block = 0;  // whose constants are in `registers`
  uint32_t carry[kLanes] = {};
};

struct Warp {
  Fragment fragments[kLanes];
  int count = 0;
  uint32_t live = 0;
  bool started = false;
  std::unique_ptr<WarpStorage> storage;
};

struct BarrierState {
  uint32_t arrived[kMaxWarps] = {};
  bool busy = false;
  int32_t count = -1;  // threads, -1: all
  int32_t first_pc = 0;
  uint32_t popc = 0;
  bool all = true, any = false;
};

struct Block {
  std::vector<Warp> warps;
  int warp_count = 0, warps_left = 0;
  AlignedBytes shared;
  size_t shared_capacity = 0;
  std::vector<uint8_t> shared_initialised;
  std::vector<ShadowWord> shared_shadow;
  uint32_t epoch = 1;
  uint64_t warp_strong[kMaxWarps] = {};  // RaceShadow::warp_strong while parked
  std::array<uint32_t, 3> index{};
  uint32_t linear = 0;
  uint64_t serial = 0;  // unique per device
  BarrierState barriers[kBarriers];
  BulkCopies bulk;
};

enum class Turn : uint8_t { kFinished, kBlocked, kTurnOver, kFault };

struct Machine {
  AddressSpace* memory = nullptr;
  bool check_races = false;
  ExecState state;
  RaceShadow races;
  std::vector<AccessCache> caches;
  AlignedBytes image;
  size_t image_capacity = 0;
  std::vector<StackNode> stacks;
  std::vector<std::unique_ptr<WarpStorage>> free_storage;
  std::vector<std::unique_ptr<Block>> free_blocks;
  uint32_t parameter_allocation = 0;  // 0: not made yet
  uint64_t launch_serial = 0, block_serial = 0, fragment_clock = 0;

  // The launch in progress.
  const Program* program = nullptr;
  const LaunchSpec* spec = nullptr;
  uint32_t threads = 0, block_shared_bytes = 0;
  int64_t budget_left = 0;
  uint64_t budget = 0;
  uint64_t issued = 0, lane_instructions = 0, divergent_branches = 0, barriers = 0;
  std::optional<Fault> fault;
};

// launch_slots.cc
/// The launch's part of every register block, once per launch.
void make_image(Machine& m);
void fill_block_slots(const Program& program, const Block& block, std::byte* registers);
void fill_warp_slots(const Machine& m, uint32_t warp, std::byte* registers);

// fragments.cc
uint32_t local_stride(const Program& program);
void start_warp(Machine& m, Block& block, uint32_t index);
void finish_warp(Machine& m, Block& block, Warp& warp);
/// Points the execution state at a warp's registers and local memory.
void bind_warp(Machine& m, Block& block, uint32_t index);
bool can_run(const Warp& warp);
int first_lane(uint32_t mask);
/// Records the launch's fault; returns Turn::kFault.
Turn fail(Machine& m, const Block& block, uint32_t warp, int lane, Fault fault);
/// Index of the stack with `return_pc` on top of `parent`.
int32_t push_stack(Machine& m, int32_t parent, int32_t return_pc);
void add_fragment(Warp& warp, const Fragment& from, int32_t pc, uint32_t mask);
void remove_fragment(Warp& warp, int index);
void merge_fragments(Warp& warp);
/// Whoever waits for lanes of this warp looks again.
void wake_converging(Warp& warp);
/// Bits of a predicate slot.
uint32_t predicate_bits(const std::byte* registers, uint32_t offset);
void set_mask(ExecState& state, uint32_t mask);

// barriers.cc
enum class Arrival : uint8_t { kPassed, kWaits, kFault };
/// The lanes of `fragment` arrive at the barrier instruction it stands at.
Arrival arrive(Machine& m, Block& block, uint32_t index, Fragment& fragment, const Decoded& instruction);
/// `lanes` of the warp have exited: barriers and waiting lanes need not count on them.
void exit_lanes(Machine& m, Block& block, Warp& warp, uint32_t lanes);
/// Reports that no fragment of warps [first_warp, end_warp) can ever run again.
Turn stuck(Machine& m, Block& block, uint32_t first_warp, uint32_t end_warp);

// warp_run.cc
/// Runs one warp until it ends, waits, has used up its turn or faults.
Turn run_warp(Machine& m, Block& block, uint32_t index);

}  // namespace stepbench::vm
