// The instruction loop of one warp.
//
// A warp is a list of fragments (lanes at one place), normally one. The deepest call, and in it the lowest place, runs
// first, which brings compiler-ordered code together again without any analysis; fragments at one place merge. For
// progress a fragment that has taken 64 backward branches in a polling loop (4096 in another) while another could run
// lets the one that waited longest run. A warp's turn is counted in backward branches, too, dearer for loops that poll
// memory.
#include <algorithm>
#include <climits>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "harness/ptx_vm/fault.h"
#include "harness/ptx_vm/machine.h"

namespace stepbench::vm {
namespace {

constexpr int kFairness = 4096;     // backward branches before another fragment gets a turn ...
constexpr int kPollFairness = 64;   // ... of which one in a loop that polls counts for this many
constexpr int64_t kTurn = 65536;    // backward branches of a warp's turn
constexpr int64_t kPollCost = 256;  // of a backward branch in a loop that polls

uint64_t popcount(uint32_t mask) { return static_cast<uint64_t>(std::popcount(mask)); }

// Runs one warp until it ends, waits or has used up its turn.
class WarpRun {
 public:
  WarpRun(Machine& machine, Block& block, uint32_t index)
      : m_(machine),
        block_(block),
        index_(index),
        warp_(block.warps[index]),
        state_(machine.state),
        code_(machine.program->code.data()),
        weights_(machine.program->weight_sum.data()) {}

  Turn run() {
    if (!warp_.started) start_warp(m_, block_, index_);
    bind_warp(m_, block_, index_);
    state_.live = warp_.live;
    Turn turn = Turn::kBlocked;
    while (pick(turn)) {
      if (!run_fragment(turn)) break;
    }
    if (warp_.storage != nullptr) std::memcpy(warp_.storage->carry, state_.carry, sizeof state_.carry);
    if (turn == Turn::kFinished) finish_warp(m_, block_, warp_);
    return turn;
  }

 private:
  int32_t depth(const Fragment& fragment) const { return m_.stacks[static_cast<size_t>(fragment.stack)].depth; }

  // Chooses current_ and limit_. False: nothing can run; `turn` says why.
  bool pick(Turn& turn) {
    if (warp_.count > 1) merge_fragments(warp_);
    if (warp_.count == 0) {
      turn = Turn::kFinished;
      return false;
    }
    int best = -1;
    for (int k = 0; k < warp_.count; ++k) {
      const Fragment& f = warp_.fragments[k];
      if (f.wait != Wait::kNone) continue;
      if (best < 0) {
        best = k;
        continue;
      }
      const Fragment& b = warp_.fragments[best];
      if (rotate_) {
        if (f.last_run < b.last_run) best = k;
      } else if (depth(f) != depth(b) ? depth(f) > depth(b) : f.pc < b.pc) {
        best = k;
      }
    }
    if (best < 0) {
      bool at_barrier = false;
      for (int k = 0; k < warp_.count; ++k) at_barrier = at_barrier || warp_.fragments[k].wait != Wait::kConverge;
      turn = at_barrier ? Turn::kBlocked : stuck(m_, block_, index_, index_ + 1);
      return false;
    }
    if (rotate_) {
      sticky_ = best;
      backward_left_ = kFairness;
      rotate_ = false;
    } else if (sticky_ >= 0 && sticky_ < warp_.count && warp_.fragments[sticky_].wait == Wait::kNone &&
               warp_.count == sticky_count_) {
      best = sticky_;
    } else {
      sticky_ = -1;
    }
    sticky_count_ = warp_.count;
    current_ = best;
    Fragment& fragment = warp_.fragments[current_];
    fragment.last_run = ++m_.fragment_clock;
    limit_ = INT32_MAX;
    for (int k = 0; k < warp_.count; ++k) {
      const Fragment& f = warp_.fragments[k];
      if (k != current_ && f.wait <= Wait::kConverge && f.pc > fragment.pc) limit_ = std::min(limit_, f.pc);
    }
    return true;
  }

  void count(const Fragment& fragment, int32_t end) {
    const uint64_t n = weights_[end] - weights_[start_];
    m_.issued += n;
    m_.lane_instructions += n * popcount(fragment.mask);
    m_.budget_left -= static_cast<int64_t>(n);
    start_ = end;
  }

  Turn memory_fault(const Fragment& fragment, int32_t pc) {
    count(fragment, pc + 1);
    state_.faulted = false;
    Fault fault = fault_of(*m_.program, pc, state_.fault, *m_.memory, state_);
    return fail(m_, block_, index_, state_.fault.lane, std::move(fault));
  }

  // Runs the current fragment. True: pick again; false: the warp's turn ends with `turn`.
  bool run_fragment(Turn& turn) {
    Fragment& fragment = warp_.fragments[current_];
    set_mask(state_, fragment.mask);
    bool full = fragment.mask == kAllLanes;
    int32_t pc = fragment.pc;
    start_ = pc;
    const int32_t limit = limit_;
    for (;;) {
      if (pc >= limit) {
        count(fragment, pc);
        fragment.pc = pc;
        return true;
      }
      const Decoded& instruction = code_[pc];
      switch (static_cast<Kind>(instruction.kind)) {
        case Kind::kLaneWise:
          (full ? instruction.full : instruction.masked)(state_, instruction);
          ++pc;
          continue;
        case Kind::kGuarded: {
          const uint32_t lanes = guarded(fragment.mask, instruction);
          if (lanes == fragment.mask) {
            (full ? instruction.full : instruction.masked)(state_, instruction);
          } else if (lanes != 0) {
            set_mask(state_, lanes);
            instruction.masked(state_, instruction);
            set_mask(state_, fragment.mask);
          }
          ++pc;
          continue;
        }
        case Kind::kPoll: polls_ = true; [[fallthrough]];
        case Kind::kMemory: {
          if (instruction.predicate == kNoSlot) {
            (full ? instruction.full : instruction.masked)(state_, instruction);
          } else {
            const uint32_t lanes = guarded(fragment.mask, instruction);
            if (lanes == fragment.mask) {
              (full ? instruction.full : instruction.masked)(state_, instruction);
            } else if (lanes != 0) {
              set_mask(state_, lanes);
              instruction.masked(state_, instruction);
              set_mask(state_, fragment.mask);
            }
          }
          if (state_.faulted) {
            turn = memory_fault(fragment, pc);
            return false;
          }
          ++pc;
          continue;
        }
        case Kind::kNothing: ++pc; continue;
        case Kind::kClock:
          count(fragment, pc);
          state_.clock = m_.issued;
          instruction.masked(state_, instruction);
          ++pc;
          continue;
        case Kind::kBranch: {
          count(fragment, pc + 1);
          if (m_.budget_left < 0) {
            turn = out_of_budget(fragment, pc);
            return false;
          }
          const uint32_t taken = instruction.predicate == kNoSlot ? fragment.mask : guarded(fragment.mask, instruction);
          if (taken == 0) {
            start_ = ++pc;
            continue;
          }
          const bool backward = instruction.target <= pc;
          if (taken != fragment.mask) {
            ++m_.divergent_branches;
            add_fragment(warp_, fragment, instruction.target, taken);
            fragment.mask &= ~taken;
            fragment.pc = pc + 1;
            sticky_ = -1;
            return !backward || after_backward(turn);
          }
          pc = start_ = instruction.target;
          if (warp_.count == 1 && !backward) continue;
          fragment.pc = pc;
          if (backward && !after_backward(turn)) return false;
          if (warp_.count > 1) return true;
          continue;
        }
        case Kind::kBranchIndexed: {
          count(fragment, pc + 1);
          if (m_.budget_left < 0) {
            turn = out_of_budget(fragment, pc);
            return false;
          }
          fragment.pc = pc;
          turn = branch_indexed(fragment, instruction);
          return turn != Turn::kFault;
        }
        case Kind::kCall: {
          count(fragment, pc + 1);
          const uint32_t lanes = guarded(fragment.mask, instruction);
          if (lanes != 0 && lanes != fragment.mask) {
            ++m_.divergent_branches;
            add_fragment(warp_, fragment, pc + 1, fragment.mask & ~lanes);
            fragment.mask = lanes;
          }
          fragment.pc = pc + 1;
          if (lanes != 0) {
            fragment.stack = push_stack(m_, fragment.stack, pc + 1);
            fragment.pc = instruction.target;
          }
          sticky_ = -1;
          return true;
        }
        case Kind::kReturn: {
          count(fragment, pc + 1);
          const uint32_t lanes = guarded(fragment.mask, instruction);
          if (lanes != 0 && lanes != fragment.mask) {
            ++m_.divergent_branches;
            add_fragment(warp_, fragment, pc + 1, fragment.mask & ~lanes);
            fragment.mask = lanes;
          }
          fragment.pc = pc + 1;
          if (lanes != 0) {
            const StackNode& node = m_.stacks[static_cast<size_t>(fragment.stack)];
            fragment.pc = node.return_pc;
            fragment.stack = node.parent;
          }
          sticky_ = -1;
          return true;
        }
        case Kind::kExit: {
          count(fragment, pc + 1);
          const uint32_t lanes = guarded(fragment.mask, instruction);
          fragment.mask &= ~lanes;
          fragment.pc = pc + 1;
          if (fragment.mask == 0) {
            remove_fragment(warp_, current_);
            current_ = -1;
            sticky_ = -1;
          }
          if (lanes != 0) exit_lanes(m_, block_, warp_, lanes);
          return true;
        }
        case Kind::kTrap: {
          count(fragment, pc + 1);
          const uint32_t lanes = guarded(fragment.mask, instruction);
          if (lanes == 0) {
            ++pc;
            continue;
          }
          turn = fail(m_, block_, index_, first_lane(lanes),
                      fault_at(*m_.program, pc, FaultKind::kTrap, "the kernel executed trap"));
          return false;
        }
        case Kind::kConverge: {
          count(fragment, pc);
          fragment.pc = pc;
          const Step step = converge(fragment, instruction);
          if (step == Step::kFault) {
            turn = Turn::kFault;
            return false;
          }
          if (step == Step::kPick) return true;
          count(fragment, pc + 1);
          ++pc;
          full = fragment.mask == kAllLanes;
          if (warp_.count > 1) {  // may have split
            fragment.pc = pc;
            return true;
          }
          continue;
        }
        case Kind::kBarrier: {
          count(fragment, pc);
          fragment.pc = pc;
          const Step step = barrier(fragment, instruction);
          if (step == Step::kFault) {
            turn = Turn::kFault;
            return false;
          }
          return true;
        }
        case Kind::kYield:
          count(fragment, pc + 1);
          fragment.pc = pc + 1;
          if (m_.budget_left < 0) {
            turn = out_of_budget(fragment, pc);
            return false;
          }
          rotate_ = warp_.count > 1;
          turn_left_ -= kPollCost;
          if (rotate_ && turn_left_ > 0) return true;
          turn = Turn::kTurnOver;
          return false;
      }
    }
  }

  uint32_t guarded(uint32_t mask, const Decoded& instruction) const {
    if (instruction.predicate == kNoSlot) return mask;
    const uint32_t bits = predicate_bits(state_.registers, instruction.predicate);
    return mask & (instruction.predicate_negated ? ~bits : bits);
  }

  // Fairness among fragments and the end of the warp's turn. False: the turn is over.
  bool after_backward(Turn& turn) {
    turn_left_ -= polls_ ? kPollCost : 1;
    backward_left_ -= polls_ ? kPollFairness : 1;
    polls_ = false;
    if (warp_.count > 1 && backward_left_ <= 0) rotate_ = true;
    if (turn_left_ > 0) return true;
    turn = Turn::kTurnOver;
    return false;
  }

  Turn out_of_budget(const Fragment& fragment, int32_t pc) {
    return fail(m_, block_, index_, first_lane(fragment.mask),
                fault_at(*m_.program, pc, FaultKind::kBudget,
                         fmt::format("the launch used up its budget of {} warp instructions at {}: an endless loop?",
                                     m_.budget, describe_site(*m_.program, pc))));
  }

  Turn branch_indexed(Fragment& fragment, const Decoded& instruction) {
    const auto& table = m_.program->branch_tables[static_cast<size_t>(instruction.immediate)];
    const uint32_t* indices = slot<uint32_t>(state_, instruction.a);
    const uint32_t active = guarded(fragment.mask, instruction);
    const int32_t pc = fragment.pc;
    std::vector<std::pair<int32_t, uint32_t>> groups;
    if (active != fragment.mask) groups.emplace_back(pc + 1, fragment.mask & ~active);
    bool backward = false;
    for (int i = 0; i < kLanes; ++i) {
      if ((active >> i & 1) == 0) continue;
      if (indices[i] >= table.size()) {
        return fail(
            m_, block_, index_, i,
            fault_at(*m_.program, pc, FaultKind::kTrap,
                     fmt::format("branch index {} is outside its list of {} targets", indices[i], table.size())));
      }
      const int32_t target = table[indices[i]];
      backward = backward || target <= pc;
      const auto found =
          std::find_if(groups.begin(), groups.end(), [&](const auto& group) { return group.first == target; });
      if (found == groups.end()) {
        groups.emplace_back(target, 1u << i);
      } else {
        found->second |= 1u << i;
      }
    }
    if (groups.size() > 1) ++m_.divergent_branches;
    fragment.pc = groups[0].first;
    fragment.mask = groups[0].second;
    for (size_t k = 1; k < groups.size(); ++k) add_fragment(warp_, fragment, groups[k].first, groups[k].second);
    sticky_ = -1;
    if (backward && (backward_left_ -= kPollFairness) <= 0 && warp_.count > 1) rotate_ = true;
    return Turn::kBlocked;
  }

  enum class Step : uint8_t { kOn, kPick, kFault };

  // Lanes for which a guard is off go on alone. True if none is left here.
  bool split_guard(Fragment& fragment, const Decoded& instruction) {
    const uint32_t lanes = guarded(fragment.mask, instruction);
    if (lanes == fragment.mask) return false;
    if (lanes == 0) {
      ++fragment.pc;
      return true;
    }
    add_fragment(warp_, fragment, fragment.pc + 1, fragment.mask & ~lanes);
    fragment.mask = lanes;
    sticky_ = -1;
    return false;
  }

  Step converge(Fragment& fragment, const Decoded& instruction) {
    const uint32_t lanes = guarded(fragment.mask, instruction);
    if (lanes == 0) return Step::kOn;
    const uint32_t* masks = slot<uint32_t>(state_, instruction.e);
    uint32_t ready = 0;
    for (int i = 0; i < kLanes; ++i) {
      if ((lanes >> i & 1) == 0) continue;
      if ((masks[i] >> i & 1) == 0) {
        state_.fault = FaultRecord{};
        state_.fault.reason = FaultReason::kLaneNotInMask;
        state_.fault.lane = i;
        memory_fault(fragment, fragment.pc);
        return Step::kFault;
      }
      if ((masks[i] & warp_.live & ~lanes) == 0) ready |= 1u << i;
    }
    if (ready != lanes) {
      if (split_guard(fragment, instruction)) return Step::kPick;
      if (ready == 0) {
        fragment.wait = Wait::kConverge;
        return Step::kPick;
      }
      add_fragment(warp_, fragment, fragment.pc, fragment.mask & ~ready);
      fragment.mask = ready;
      sticky_ = -1;
    }
    set_mask(state_, ready);
    instruction.masked(state_, instruction);
    if (state_.faulted) {
      memory_fault(fragment, fragment.pc);
      return Step::kFault;
    }
    set_mask(state_, fragment.mask);
    if (warp_.count > 1 && ready != lanes) {
      count(fragment, fragment.pc + 1);
      ++fragment.pc;
      // The rest, still at this place, must not be merged with by mistake: it waits until somebody joins it.
      warp_.fragments[warp_.count - 1].wait = Wait::kConverge;
      return Step::kPick;
    }
    return Step::kOn;
  }

  Step barrier(Fragment& fragment, const Decoded& instruction) {
    if (split_guard(fragment, instruction)) return Step::kPick;
    if ((instruction.flags & kBarrierAligned) != 0 && fragment.mask != warp_.live) {
      fragment.wait = Wait::kConverge;
      return Step::kPick;
    }
    const int32_t pc = fragment.pc;
    const Arrival arrival = arrive(m_, block_, index_, fragment, instruction);
    if (arrival == Arrival::kFault) return Step::kFault;
    if (fragment.wait != Wait::kBarrierBusy) count(fragment, pc + 1);
    return Step::kPick;
  }

  Machine& m_;
  Block& block_;
  const uint32_t index_;
  Warp& warp_;
  ExecState& state_;
  const Decoded* const code_;
  const uint64_t* const weights_;
  int current_ = -1;
  int sticky_ = -1, sticky_count_ = 0;  // fragment that fairness lets run on
  int32_t limit_ = INT32_MAX;           // place of the next fragment ahead
  int32_t start_ = 0;                   // first instruction not counted yet
  int backward_left_ = kFairness;
  int64_t turn_left_ = kTurn;
  bool rotate_ = false, polls_ = false;
};

}  // namespace

Turn run_warp(Machine& m, Block& block, uint32_t index) { return WarpRun(m, block, index).run(); }

}  // namespace stepbench::vm
