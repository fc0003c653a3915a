// Barriers of a block (PTX ISA "bar", "barrier"), and the report when everybody waits for somebody else.
#include <utility>

#include <fmt/format.h>

#include "harness/ptx_vm/fault.h"
#include "harness/ptx_vm/machine.h"

namespace stepbench::vm {
namespace {

uint64_t popcount(uint32_t mask) { return static_cast<uint64_t>(std::popcount(mask)); }

void release_barrier(Machine& m, Block& block, int id) {
  BarrierState& barrier = block.barriers[id];
  for (int w = 0; w < block.warp_count; ++w) {
    Warp& warp = block.warps[static_cast<size_t>(w)];
    for (int k = 0; k < warp.count; ++k) {
      Fragment& fragment = warp.fragments[k];
      if (fragment.barrier != id) continue;
      if (fragment.wait == Wait::kBarrierBusy) fragment.wait = Wait::kNone;
      if (fragment.wait != Wait::kBarrier) continue;
      const Decoded& instruction = m.program->code[static_cast<size_t>(fragment.pc)];
      if ((instruction.flags & kBarrierReduce) != 0) {
        const uint32_t result = (instruction.flags & kBarrierAnd) != 0  ? (barrier.all ? 1 : 0)
                                : (instruction.flags & kBarrierOr) != 0 ? (barrier.any ? 1 : 0)
                                                                        : barrier.popc;
        uint32_t* lanes = reinterpret_cast<uint32_t*>(warp.storage->registers.get() + instruction.d);
        for (int i = 0; i < kLanes; ++i) {
          if ((fragment.mask >> i & 1) != 0) lanes[i] = result;
        }
      }
      ++fragment.pc;
      fragment.wait = Wait::kNone;
    }
  }
  barrier = BarrierState{};
  ++block.epoch;
  m.races.shared_epoch = block.epoch;
  ++m.barriers;
}

// Without a count all threads that have not exited must have arrived; with one, that many threads, a warp whose live
// lanes have all arrived counting as 32 (PTX ISA "barrier": the count advances by the warp size).
void try_barrier(Machine& m, Block& block, int id) {
  BarrierState& barrier = block.barriers[id];
  if (!barrier.busy) return;
  uint64_t total = 0;
  for (int w = 0; w < block.warp_count; ++w) {
    const uint32_t arrived = barrier.arrived[w], live = block.warps[static_cast<size_t>(w)].live;
    const bool whole = (live & ~arrived) == 0;
    if (barrier.count < 0 && !whole) return;
    if (arrived != 0) total += whole ? kLanes : popcount(arrived);
  }
  if (barrier.count >= 0 && total < static_cast<uint64_t>(barrier.count)) return;
  release_barrier(m, block, id);
}

const char* waiting_for(Wait wait) {
  return wait == Wait::kConverge ? "waits for lanes of its warp" : wait == Wait::kNone ? "runs" : "waits at a barrier";
}

}  // namespace

void exit_lanes(Machine& m, Block& block, Warp& warp, uint32_t lanes) {
  warp.live &= ~lanes;
  m.state.live = warp.live;
  wake_converging(warp);
  for (int id = 0; id < kBarriers; ++id) try_barrier(m, block, id);
}

// Lanes `mask` of `fragment` arrive at the barrier instruction it stands at.
Arrival arrive(Machine& m, Block& block, uint32_t index, Fragment& fragment, const Decoded& instruction) {
  Warp& warp = block.warps[index];
  const int lane = first_lane(fragment.mask);
  const uint32_t* ids = slot<uint32_t>(m.state, instruction.a);
  const uint32_t* counts = instruction.b == kNoSlot ? nullptr : slot<uint32_t>(m.state, instruction.b);
  const auto fault = [&](std::string message) {
    fail(m, block, index, lane, fault_at(*m.program, fragment.pc, FaultKind::kBarrierDivergence, std::move(message)));
    return Arrival::kFault;
  };
  for (int i = 0; i < kLanes; ++i) {
    if ((fragment.mask >> i & 1) == 0) continue;
    if (ids[i] != ids[lane] || (counts != nullptr && counts[i] != counts[lane])) {
      return fault("lanes of one warp name different barriers or thread counts");
    }
  }
  if (ids[lane] >= kBarriers)
    return fault(fmt::format("barrier {} does not exist: there are {}", ids[lane], kBarriers));
  const int id = static_cast<int>(ids[lane]);
  int32_t count = -1;
  if (counts != nullptr) {
    if (counts[lane] == 0 || counts[lane] % kLanes != 0 || counts[lane] > 1024) {
      return fault(fmt::format("thread count {} of barrier {} is not a multiple of 32 up to 1024", counts[lane], id));
    }
    count = static_cast<int32_t>(counts[lane]);
  }
  BarrierState& barrier = block.barriers[id];
  fragment.barrier = static_cast<uint8_t>(id);
  if (barrier.busy && barrier.count != count) {
    return fault(fmt::format("barrier {} is used with different thread counts at once: here and at {}", id,
                             describe_site(*m.program, barrier.first_pc)));
  }
  if ((barrier.arrived[index] & fragment.mask) != 0) {
    fragment.wait = Wait::kBarrierBusy;
    return Arrival::kWaits;
  }
  if (!barrier.busy) {
    barrier.busy = true;
    barrier.count = count;
    barrier.first_pc = fragment.pc;
  }
  barrier.arrived[index] |= fragment.mask;
  if ((instruction.flags & kBarrierReduce) != 0) {
    const uint32_t yes = predicate_bits(m.state.registers, instruction.c) & fragment.mask;
    barrier.popc += static_cast<uint32_t>(std::popcount(yes));
    barrier.all = barrier.all && yes == fragment.mask;
    barrier.any = barrier.any || yes != 0;
  }
  const bool passes = (instruction.flags & kBarrierArrive) != 0;
  if (!passes) fragment.wait = Wait::kBarrier;
  const int32_t here = fragment.pc;
  try_barrier(m, block, id);
  (void)warp;
  if (passes) {
    fragment.pc = here + 1;
    return Arrival::kPassed;
  }
  return fragment.wait == Wait::kNone ? Arrival::kPassed : Arrival::kWaits;
}

// No fragment of the warp (or block) can run again.
Turn stuck(Machine& m, Block& block, uint32_t first_warp, uint32_t end_warp) {
  const Fragment* one = nullptr;
  const Fragment* other = nullptr;
  uint32_t warp_of_one = first_warp;
  for (const bool converging : {true, false}) {  // a lane that waits for its own warp is the better witness
    for (uint32_t w = first_warp; w < end_warp; ++w) {
      const Warp& warp = block.warps[w];
      for (int k = 0; k < warp.count; ++k) {
        const Fragment& fragment = warp.fragments[k];
        if ((fragment.wait == Wait::kConverge) != converging) continue;
        if (one == nullptr) {
          one = &fragment;
          warp_of_one = w;
        } else if (other == nullptr && fragment.pc != one->pc) {
          other = &fragment;
        }
      }
    }
  }
  SB_ASSERT(one != nullptr);
  const std::string here = describe_site(*m.program, one->pc);
  const int lane = first_lane(one->mask);
  if (other != nullptr) {
    return fail(
        m, block, warp_of_one, lane,
        fault_at(*m.program, one->pc, FaultKind::kBarrierDivergence,
                 fmt::format("threads wait for each other at different places: {} {}, {} {}", here,
                             waiting_for(one->wait), describe_site(*m.program, other->pc), waiting_for(other->wait))));
  }
  const BarrierState& barrier = block.barriers[one->barrier];
  std::string message = fmt::format("threads wait forever at {}", here);
  if (one->wait == Wait::kBarrier && barrier.count >= 0) {
    message += fmt::format(": barrier {} needs {} threads and no other can arrive", one->barrier, barrier.count);
  }
  return fail(m, block, warp_of_one, lane, fault_at(*m.program, one->pc, FaultKind::kDeadlock, message));
}

}  // namespace stepbench::vm
