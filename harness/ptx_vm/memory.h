// Device memory of the VM: allocations at fixed, repeatable device addresses, their init bits, and the general memory
// access that makes every check. Device addresses are not host addresses: each allocation knows its own host storage,
// so a candidate can neither see nor reach the host's memory, and addresses are the same in every run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "harness/device.h"
#include "harness/ptx_vm/memory_ops.h"
#include "harness/result.h"

namespace stepbench::vm {

/// Shadow of one 4-byte word for the race check: who read and wrote it last in the current epoch or launch.
struct ShadowWord {
  uint32_t write_epoch = 0, write_owner = 0;
  int32_t write_site = -1;
  uint32_t read_epoch = 0, read_owner = 0;
  int32_t read_site = -1;
  uint64_t write_time = 0, read_time = 0;  ///< RaceShadow::time then
  uint8_t write_atomic = 0, read_atomic = 0;
  uint8_t read_several = 0;  ///< more than one owner read it
};

struct StorageDeleter {
  void operator()(std::byte* storage) const;
};

struct Allocation {
  uint64_t lo = 0, bytes = 0;  ///< device address range, exact
  uint64_t bit_base = 0;       ///< 256-byte aligned device address of bit 0
  std::byte* host = nullptr;   ///< host address of `lo`
  std::unique_ptr<std::byte[], StorageDeleter> storage;
  std::vector<uint8_t> initialised;
  bool read_only = false;
  bool freed = false;
  std::string label;
  uint32_t id = 0;
  std::vector<ShadowWord> shadow;  ///< only when races are checked; indexed by (address - bit_base) / 4
};

/// The allocations of one device in ascending device addresses. Addresses are never reused.
class AddressSpace {
 public:
  /// Storage starts poisoned. kResource when the host has no memory.
  Result<uint32_t> allocate(const AllocationSpec& spec);
  /// The same at an address of the caller's choice below kGlobalBase (parameters, constants).
  Result<uint32_t> allocate_at(uint64_t address, const AllocationSpec& spec);
  void release(uint32_t id);
  /// Drops what is known of freed allocations below `address`, so that their addresses may be used again.
  void forget_freed_below(uint64_t address);
  Allocation& get(uint32_t id);
  const Allocation& get(uint32_t id) const;

  /// The allocation whose range holds `address`, freed ones included; null if none.
  Allocation* find(uint64_t address);
  /// The allocation nearest to `address` that is not freed; null if there is none.
  const Allocation* nearest(uint64_t address) const;

 private:
  std::vector<std::unique_ptr<Allocation>> sorted_;
  std::unordered_map<uint32_t, Allocation*> by_id_;
  uint64_t next_address_ = kGlobalBase + 256;
  uint32_t next_id_ = 1;
  size_t freed_count_ = 0;
};

/// Fills the allocation with the poison pattern of `seed` and clears its init bits.
void poison(Allocation& allocation, uint64_t seed);

/// One lane's access after all checks.
struct Resolved {
  std::byte* host = nullptr;
  uint8_t* initialised = nullptr;
  uint64_t bit = 0;
  MemorySpace space = MemorySpace::kGlobal;  ///< never kGeneric
  ShadowWord* shadow = nullptr;              ///< of the word that holds the first byte; null when races are not checked
};

enum class Access : uint8_t { kLoad, kStore, kAtomic };

/// Checks one lane's access; on a defect fills state.fault, sets state.faulted and returns false.
bool resolve(ExecState& state, const Decoded& instruction, int lane, MemorySpace space, uint64_t address,
             uint32_t bytes, Access access, Resolved& out);

/// The same for any number of bytes at a multiple of `align`.
bool resolve_range(ExecState& state, const Decoded& instruction, int lane, MemorySpace space, uint64_t address,
                   uint32_t bytes, uint32_t align, Access access, Resolved& out);

/// Race check of one lane's access (race.cc); only called when state.races is set.
bool check_race(ExecState& state, const Decoded& instruction, int lane, uint64_t address, uint32_t bytes, Access access,
                const Resolved& at);

/// Handler form of access_slowly.
void slow_access(LaneState& state, const Decoded& instruction);
/// Copies v[1] bytes per lane inside local memory from offset v[0] to offset `immediate`, init bits too: call
/// arguments.
void copy_local(LaneState& state, const Decoded& instruction);
/// Forgets that local memory [v[0], v[1]) was written: a called function's frame.
void clear_local(LaneState& state, const Decoded& instruction);

}  // namespace stepbench::vm
