// What the decoder makes of one entry and the executor runs: dense instructions, the slots to fill in advance, and
// the layout of shared and local memory. No behaviour.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/device.h"
#include "harness/ptx_vm/lanes.h"

namespace stepbench::vm {

/// Decoded::kind. What the executor does with an instruction.
enum class Kind : uint8_t {
  kLaneWise,       ///< call the handler; cannot fail
  kGuarded,        ///< the same under a predicate
  kMemory,         ///< call the handler, then look for a fault
  kPoll,           ///< memory access that may wait for somebody else: volatile, relaxed, acquire, atomic
  kNothing,        ///< counted, does nothing
  kBranch,         ///< to `target`
  kBranchIndexed,  ///< to Program::branch_tables[immediate][a]
  kCall,           ///< to `target`, returns to the next instruction
  kReturn,
  kExit,
  kTrap,
  kConverge,  ///< waits until all live lanes named in the mask (slot e) are here, then calls the handler
  kBarrier,   ///< barrier of the block; flags below
  kClock,     ///< handler that needs the number of instructions issued so far
  kYield,     ///< ends the block's turn: nanosleep
};

/// Decoded::flags of kBarrier.
inline constexpr uint16_t kBarrierArrive = 1, kBarrierReduce = 2, kBarrierAligned = 4;
inline constexpr uint16_t kBarrierAnd = 8, kBarrierOr = 16;  ///< neither: popc

/// Where the value of a slot that no instruction writes comes from.
enum class Special : uint8_t {
  kBits,
  kParameter,
  // per launch
  kNtidX,
  kNtidY,
  kNtidZ,
  kNctaidX,
  kNctaidY,
  kNctaidZ,
  kNwarpid,
  kDynamicShared,
  kTotalShared,
  // the same in every launch
  kLaneid,
  kLanemaskEq,
  kLanemaskLt,
  kLanemaskLe,
  kLanemaskGt,
  kLanemaskGe,
  // per block
  kCtaidX,
  kCtaidY,
  kCtaidZ,
  kSmid,
  // per warp
  kTidX,
  kTidY,
  kTidZ,
  kWarpid,
};

/// How often a slot must be filled again.
enum class Level : uint8_t { kLaunch, kBlock, kWarp, kRegister };

/// One slot filled in advance.
struct FilledSlot {
  uint32_t slot = 0;
  uint8_t bytes = 4;  ///< 2, 4 or 8 per lane
  Special special = Special::kBits;
  uint64_t bits = 0;              ///< kBits
  uint32_t parameter_offset = 0;  ///< kParameter
  uint8_t parameter_bytes = 0;
  bool sign_extend = false;
};

/// What a fault message says of an instruction.
struct Site {
  int32_t ptx_line = 0;
  int32_t source_line = 0;
  uint32_t text = 0;  ///< index in Program::texts
};

struct ZeroedSlot {
  uint32_t slot = 0, bytes = 0;  ///< whole slot
};

/// One entry, ready to run. Never changes after decoding; may be shared by threads.
struct Program {
  KernelInfo info;
  std::array<int32_t, 3> max_threads{}, required_threads{};
  std::vector<Decoded> code;
  std::vector<Site> sites;  ///< parallel to `code`
  std::vector<std::string> texts;
  std::vector<uint64_t> weight_sum;  ///< [i] = PTX instructions that code[0..i) stands for; size + 1
  std::vector<std::vector<int32_t>> branch_tables;
  std::vector<FilledSlot> launch_slots, block_slots, warp_slots;
  std::vector<Decoded> launch_prologue, block_prologue;  ///< instructions that depend on these slots alone
  std::vector<ZeroedSlot> zeroed;                        ///< registers that may be read before they are written
  uint32_t image_bytes = 0;                              ///< launch slots lie in [0, image_bytes) of a register block
  uint32_t block_bytes = 0;                              ///< of a warp's register block
  uint32_t static_shared_bytes = 0;
  uint32_t dynamic_shared_offset = 0;  ///< from the start of the block's shared memory
  uint32_t local_bytes = 0;            ///< per thread
  bool uses_parameter_window = false;
  bool partial_barriers = false;  ///< some barrier names a thread count
};

}  // namespace stepbench::vm
