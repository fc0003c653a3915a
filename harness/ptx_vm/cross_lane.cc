// Cross-lane instructions. Sources are copied before anything is written, since a destination may be a source.
#include "harness/ptx_vm/cross_lane.h"

#include <array>
#include <cstring>

namespace stepbench::vm {
namespace {

template <class T>
std::array<T, kLanes> copy_of(LaneState& state, uint32_t offset) {
  std::array<T, kLanes> values;
  std::memcpy(values.data(), state.registers + offset, sizeof values);
  return values;
}

bool is_active(const LaneState& state, int lane) { return state.active[lane] != 0; }

}  // namespace

void shuffle(LaneState& lanes, const Decoded& instruction) {
  ExecState& state = static_cast<ExecState&>(lanes);
  const auto a = copy_of<uint32_t>(state, instruction.a);
  const auto b = copy_of<uint32_t>(state, instruction.b);
  const auto c = copy_of<uint32_t>(state, instruction.c);
  const auto masks = copy_of<uint32_t>(state, instruction.e);
  uint32_t* d = instruction.d == kNoSlot ? nullptr : slot<uint32_t>(state, instruction.d);
  uint32_t* p = instruction.d2 == kNoSlot ? nullptr : slot<uint32_t>(state, instruction.d2);
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!is_active(state, lane)) continue;
    const int distance = static_cast<int>(b[static_cast<size_t>(lane)] & 31);
    const int clamp = static_cast<int>(c[static_cast<size_t>(lane)] & 31);
    const int segment = static_cast<int>(c[static_cast<size_t>(lane)] >> 8 & 31);
    const int max_lane = (lane & segment) | (clamp & ~segment);
    const int min_lane = lane & segment;
    int source = lane;
    bool in_range = false;
    switch (static_cast<ShuffleMode>(instruction.flags)) {
      case ShuffleMode::kUp:
        source = lane - distance;
        in_range = source >= max_lane;
        break;
      case ShuffleMode::kDown:
        source = lane + distance;
        in_range = source <= max_lane;
        break;
      case ShuffleMode::kButterfly:
        source = lane ^ distance;
        in_range = source <= max_lane;
        break;
      case ShuffleMode::kIndex:
        source = min_lane | (distance & ~segment);
        in_range = source <= max_lane;
        break;
    }
    if (!in_range) source = lane;
    if (!is_active(state, source) || (masks[static_cast<size_t>(lane)] >> source & 1) == 0) {
      state.faulted = true;
      state.fault = FaultRecord{};
      state.fault.reason = FaultReason::kLaneAbsent;
      state.fault.lane = lane;
      state.fault.other_lane = source;
      return;
    }
    if (d != nullptr) d[lane] = a[static_cast<size_t>(source)];
    if (p != nullptr) p[lane] = in_range ? 1 : 0;
  }
}

// Groups: lanes with the same member mask vote together.
void vote(LaneState& state, const Decoded& instruction) {
  const auto a = copy_of<uint32_t>(state, instruction.a);
  const auto masks = copy_of<uint32_t>(state, instruction.e);
  uint32_t* d = slot<uint32_t>(state, instruction.d);
  uint32_t set = 0, present = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!is_active(state, lane)) continue;
    present |= 1u << lane;
    if (a[static_cast<size_t>(lane)] != 0) set |= 1u << lane;
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!is_active(state, lane)) continue;
    const uint32_t members = masks[static_cast<size_t>(lane)] & present;
    const uint32_t yes = set & members;
    switch (static_cast<VoteMode>(instruction.flags)) {
      case VoteMode::kAll: d[lane] = yes == members; break;
      case VoteMode::kAny: d[lane] = yes != 0; break;
      case VoteMode::kUniform: d[lane] = yes == 0 || yes == members; break;
      case VoteMode::kBallot: d[lane] = yes; break;
    }
  }
}

void match(LaneState& state, const Decoded& instruction) {
  const bool all = (instruction.flags & 1) != 0;
  std::array<uint64_t, kLanes> a;
  if ((instruction.flags & 2) != 0) {
    a = copy_of<uint64_t>(state, instruction.a);
  } else {
    const auto narrow = copy_of<uint32_t>(state, instruction.a);
    for (size_t i = 0; i < kLanes; ++i) a[i] = narrow[i];
  }
  const auto masks = copy_of<uint32_t>(state, instruction.e);
  uint32_t* d = slot<uint32_t>(state, instruction.d);
  uint32_t* p = instruction.d2 == kNoSlot ? nullptr : slot<uint32_t>(state, instruction.d2);
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!is_active(state, lane)) continue;
    uint32_t equal = 0, members = 0;
    for (int other = 0; other < kLanes; ++other) {
      if (!is_active(state, other) || (masks[static_cast<size_t>(lane)] >> other & 1) == 0) continue;
      members |= 1u << other;
      if (a[static_cast<size_t>(other)] == a[static_cast<size_t>(lane)]) equal |= 1u << other;
    }
    if (all) {
      d[lane] = equal == members ? members : 0;
      if (p != nullptr) p[lane] = equal == members ? 1 : 0;
    } else {
      d[lane] = equal;
    }
  }
}

void redux(LaneState& state, const Decoded& instruction) {
  const auto a = copy_of<uint32_t>(state, instruction.a);
  const auto masks = copy_of<uint32_t>(state, instruction.e);
  uint32_t* d = slot<uint32_t>(state, instruction.d);
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!is_active(state, lane)) continue;
    bool first = true;
    uint32_t value = 0;
    for (int other = 0; other < kLanes; ++other) {
      if (!is_active(state, other) || (masks[static_cast<size_t>(lane)] >> other & 1) == 0) continue;
      const uint32_t x = a[static_cast<size_t>(other)];
      if (first) {
        value = x;
        first = false;
        continue;
      }
      switch (static_cast<ReduxMode>(instruction.flags)) {
        case ReduxMode::kAdd: value += x; break;
        case ReduxMode::kMinUnsigned: value = x < value ? x : value; break;
        case ReduxMode::kMaxUnsigned: value = x > value ? x : value; break;
        case ReduxMode::kMinSigned: value = static_cast<int32_t>(x) < static_cast<int32_t>(value) ? x : value; break;
        case ReduxMode::kMaxSigned: value = static_cast<int32_t>(x) > static_cast<int32_t>(value) ? x : value; break;
        case ReduxMode::kAnd: value &= x; break;
        case ReduxMode::kOr: value |= x; break;
        case ReduxMode::kXor: value ^= x; break;
      }
    }
    d[lane] = value;
  }
}

void elect(LaneState& state, const Decoded& instruction) {
  const auto masks = copy_of<uint32_t>(state, instruction.e);
  uint32_t* d = instruction.d == kNoSlot ? nullptr : slot<uint32_t>(state, instruction.d);
  uint32_t* p = instruction.d2 == kNoSlot ? nullptr : slot<uint32_t>(state, instruction.d2);
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!is_active(state, lane)) continue;
    int leader = 0;
    while (!is_active(state, leader) || (masks[static_cast<size_t>(lane)] >> leader & 1) == 0) ++leader;
    if (d != nullptr) d[lane] = static_cast<uint32_t>(leader);
    if (p != nullptr) p[lane] = leader == lane ? 1 : 0;
  }
}

void activemask(LaneState& lanes, const Decoded& instruction) {
  ExecState& state = static_cast<ExecState&>(lanes);
  uint32_t* d = slot<uint32_t>(state, instruction.d);
  for (int lane = 0; lane < kLanes; ++lane) {
    if (is_active(state, lane)) d[lane] = state.mask;
  }
}

void no_exchange(LaneState&, const Decoded&) {}

}  // namespace stepbench::vm
