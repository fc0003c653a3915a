// Runs launches: blocks, warps, fragments, barriers. Single-threaded and deterministic; everything that lives between
// two instructions is in plain structures, so a block is parked and resumed by keeping it in a list.
#pragma once

#include <cstdint>
#include <memory>

#include "harness/device.h"
#include "harness/ptx_vm/memory.h"
#include "harness/ptx_vm/program.h"

namespace stepbench::vm {

/// Register blocks, blocks and warps of one device, kept between launches.
struct Machine;
struct MachineDeleter {
  void operator()(Machine* machine) const;
};
using MachinePtr = std::unique_ptr<Machine, MachineDeleter>;

/// `memory` must outlive the machine.
MachinePtr make_machine(AddressSpace& memory, bool check_races);

/// Runs one valid launch to its end or first fault. `budget` in warp instructions. `parameters` has the program's size.
LaunchReport run_launch(Machine& machine, const Program& program, const LaunchSpec& spec, uint64_t budget);

}  // namespace stepbench::vm
