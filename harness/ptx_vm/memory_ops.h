// Loads, stores and register moves of the VM, compiled once per instruction-set level; and the execution state that
// every handler sees. Plain data and plain functions only: this header is seen by code built for different
// instruction sets, so anything inline here must be always inlined.
//
// Division of labour: a fast handler does an access that is right in every respect (one allocation, aligned,
// initialised, writable) and hands everything else to access_slowly (memory.cc), which goes lane by lane and is the
// only place that reports faults.
#pragma once

#include <cstddef>
#include <cstdint>

#include "harness/ptx_vm/lanes.h"

namespace stepbench::vm {

class AddressSpace;
struct RaceShadow;
struct BulkCopies;

enum class MemorySpace : uint8_t { kGeneric, kGlobal, kShared, kLocal, kConst, kParam };

/// Windows of the generic address space. Global allocations start at kGlobalBase; shared and local state-space
/// addresses are 32-bit offsets into their windows and never 0.
inline constexpr uint64_t kSharedWindow = 0x0000010000000000ull;
inline constexpr uint64_t kLocalWindow = 0x0000020000000000ull;
inline constexpr uint64_t kWindowBytes = 0x0000000001000000ull;
inline constexpr uint64_t kParameterBase = 0x0000030000000000ull;  ///< entry parameters that have their address taken
inline constexpr uint64_t kConstBase = 0x0000040000000000ull;      ///< module variables of .const
inline constexpr uint64_t kConstEnd = 0x0000050000000000ull;
inline constexpr uint64_t kGlobalBase = 0x00007f0000000000ull;
inline constexpr uint32_t kSharedBase = 1024;  ///< Hopper reserves the first KiB
inline constexpr uint32_t kLocalBase = 16;

/// Decoded::flags of loads and stores.
inline constexpr uint16_t kAccessSigned = 1 << 4, kAccessStore = 1 << 5;
inline constexpr uint16_t kAccessStrong = 1 << 9;  ///< volatile, relaxed, acquire, release: no data race
inline constexpr int kAccessSpaceShift = 6;
// bits 0-1: log2 of the element's bytes; bits 2-3: log2 of the number of elements

/// Inline cache of one memory instruction: the allocation it hit last.
struct AccessCache {
  uint64_t lo = 1, bytes = 0;      ///< device address range, exact
  std::byte* host = nullptr;       ///< host address of `lo`
  uint8_t* initialised = nullptr;  ///< one bit per byte
  uint64_t bit_base = 0;           ///< device address of bit 0
};

enum class FaultReason : uint8_t {
  kNone,
  kOutOfBounds,
  kNull,
  kReadOnly,
  kMisaligned,
  kUninitialised,
  kFreed,
  kLaneNotInMask,  ///< executing lane is not in its own member mask
  kLaneAbsent,     ///< shfl reads a lane that does not take part
  kRace,
  kOther,  ///< `other_kind` and `sentence` say all
};

/// First defect seen by a handler; turned into a Fault by fault.cc.
struct FaultRecord {
  FaultReason reason = FaultReason::kNone;
  MemorySpace space = MemorySpace::kGlobal;
  bool is_store = false;
  bool is_atomic = false;
  int32_t lane = 0;
  int32_t other_lane = -1;  ///< kLaneAbsent
  uint64_t address = 0;     ///< generic for global, offset for shared and local
  uint32_t bytes = 0;
  int32_t other_site = -1;  ///< kRace: the other side's instruction
  bool other_is_store = false;
  uint32_t other_owner = 0;  ///< kRace: warp of the block, or linear block
  uint8_t other_kind = 0;    ///< kOther: a FaultKind
  const char* sentence = nullptr;
  uint32_t taken_along_bytes = 0;  ///< kOutOfBounds: of `bytes`, those that nobody asked for (pieces of a map's store)
};

struct MemoryCounters {
  uint64_t global_load_bytes = 0, global_store_bytes = 0;
  uint64_t global_load_sectors = 0, global_store_sectors = 0;
  uint64_t shared_wavefronts = 0;
  uint64_t atomics = 0;
  uint64_t local_bytes = 0;
};

/// Everything a handler may touch while one warp runs.
struct ExecState : LaneState {
  uint32_t mask = 0;  ///< `active` as bits
  bool faulted = false;
  AccessCache* caches = nullptr;  ///< per instruction
  std::byte* shared = nullptr;    ///< of the running block; address kSharedBase is shared[0]
  uint8_t* shared_initialised = nullptr;
  uint32_t shared_bytes = 0;
  std::byte* local = nullptr;  ///< of the running warp: lane-major, local_stride each; address kLocalBase is [0]
  uint8_t* local_initialised = nullptr;
  uint32_t local_stride = 0;  ///< multiple of 64
  uint32_t local_bytes = 0;   ///< per thread
  uint32_t live = 0;          ///< lanes of the running warp that have not exited
  uint64_t clock = 0;         ///< for %clock
  MemoryCounters counters;
  FaultRecord fault;
  AddressSpace* memory = nullptr;
  RaceShadow* races = nullptr;  ///< null unless races are checked
  BulkCopies* bulk = nullptr;   ///< of the running block
  uint32_t warp = 0;
  uint32_t block = 0;  ///< linear, modulo 2^32
};

/// Fills `cache` with the allocation that holds `address`; false if none does, it is freed or (for stores) read-only.
bool fill_cache(ExecState& state, AccessCache& cache, uint64_t address, bool for_store);
/// The general access: every lane alone, all checks, all spaces.
void access_slowly(ExecState& state, const Decoded& instruction);
/// Bits [first, first + count).
bool bits_set(const uint8_t* bits, uint64_t first, uint64_t count);
void set_bits(uint8_t* bits, uint64_t first, uint64_t count);
void clear_bits(uint8_t* bits, uint64_t first, uint64_t count);

/// Handlers of one instruction-set level. Index [element][vector][masked]: element u8, s8, b16, b32, b64; vector 1,
/// 2, 4.
struct MemoryOps {
  Handler load_global[5][3][2];
  Handler store_global[5][3][2];
  Handler load_shared[5][3][2];
  Handler store_shared[5][3][2];
  Handler move[3][2];           ///< 2, 4, 8 bytes: d = a
  Handler convert[3][3][2][2];  ///< [from][to][signed][masked]: 2, 4, 8 bytes
  Handler add_constant[2];      ///< d = a + immediate, 8 bytes
  Handler not_predicate[2];     ///< d = 1 - a
  Handler extract[3][3][2];     ///< [from][to]: d = low part of (a >> immediate)
  Handler insert[3][3][2];      ///< [from][to]: d = (d without the part at `immediate`) | a << immediate
  Handler in_range[2];          ///< d = immediate <= a < v[0] | v[1] << 32, a 8 bytes: isspacep
};

namespace isa_v2 {
const MemoryOps& memory_ops();
}
namespace isa_v3 {
const MemoryOps& memory_ops();
}

template <class T>
[[gnu::always_inline]] inline T* slot(LaneState& state, uint32_t offset) {
  return reinterpret_cast<T*>(state.registers + offset);
}

}  // namespace stepbench::vm
