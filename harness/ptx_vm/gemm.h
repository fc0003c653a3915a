// Products of the harness's own on the VM (PlanGemm): computed by the host, with the checks of a kernel's accesses.
#pragma once

#include <cstdint>

#include "harness/device.h"
#include "harness/ptx_vm/memory.h"

namespace stepbench::vm {

/// Faults: bounds, read-only result, uninitialised operands, and more than `budget` warp instructions, counted as 32
/// multiply-adds each. Counters: one launch, and the bytes of every matrix once.
LaunchReport run_gemm(AddressSpace& memory, const GemmSpec& spec, uint64_t budget);

}  // namespace stepbench::vm
