// Data races (opt-in, "vm:check"): two accesses to one word of which at least one writes and not both are atomic or
// strong, by different warps of a block within one barrier epoch (shared memory), or by different blocks of one launch
// (global memory). Two plain accesses count as ordered when their owners both did an atomic or strong operation in
// between, the earlier one's first: a flag, a ticket, a lock. That forgives some races and accuses no synchronised
// code. Races inside one warp, and programs with partial barriers (shared memory only), are not looked at.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/ptx_vm/memory.h"

namespace stepbench::vm {

/// What check_race needs to know besides the access.
struct RaceShadow {
  ShadowWord* shared = nullptr;        ///< of the running block, one per 4 bytes; null: shared memory is not checked
  uint32_t shared_epoch = 1;           ///< of the running block; steps at every barrier, never 0
  uint32_t launch = 0;                 ///< never 0; epoch of global memory
  uint64_t time = 0;                   ///< strong operations so far
  uint64_t warp_strong[32] = {};       ///< time of each warp's last strong operation (running block)
  std::vector<uint64_t> block_strong;  ///< of each block's
};

}  // namespace stepbench::vm
