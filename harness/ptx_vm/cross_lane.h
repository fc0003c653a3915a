// Instructions that exchange values between the lanes of a warp (PTX ISA "shfl.sync", "vote.sync", "match.sync",
// "redux.sync", "elect.sync", "activemask"). The executor has already waited for all lanes that the member mask names;
// here `active` holds exactly the lanes that take part.
#pragma once

#include "harness/ptx_vm/memory_ops.h"

namespace stepbench::vm {

/// Decoded::flags of shfl.
enum class ShuffleMode : uint16_t { kUp, kDown, kButterfly, kIndex };
/// d = value, d2 = in range (either may be kNoSlot for d2); sources a, b, c; mask e.
void shuffle(LaneState& state, const Decoded& instruction);

/// Decoded::flags of vote: source predicate a; mask e.
enum class VoteMode : uint16_t { kAll, kAny, kUniform, kBallot };
void vote(LaneState& state, const Decoded& instruction);

/// Decoded::flags of match: bit 0 all (else any), bit 1 64-bit source.
void match(LaneState& state, const Decoded& instruction);

enum class ReduxMode : uint16_t { kAdd, kMinUnsigned, kMinSigned, kMaxUnsigned, kMaxSigned, kAnd, kOr, kXor };
void redux(LaneState& state, const Decoded& instruction);

void elect(LaneState& state, const Decoded& instruction);
void activemask(LaneState& state, const Decoded& instruction);
/// bar.warp.sync: waiting was all there is to it.
void no_exchange(LaneState& state, const Decoded& instruction);

}  // namespace stepbench::vm
