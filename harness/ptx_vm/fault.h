// Faults as people read them: kind, sentence, place.
#pragma once

#include "harness/device.h"
#include "harness/ptx_vm/memory.h"
#include "harness/ptx_vm/program.h"

namespace stepbench::vm {

/// "line 12 (ld.global.f32 %f1, [%rd4])", with the source line when known.
std::string describe_site(const Program& program, int32_t pc);

/// Kernel and lines of instruction `pc` filled in.
Fault fault_at(const Program& program, int32_t pc, FaultKind kind, std::string message);

/// What a handler recorded, in words.
Fault fault_of(const Program& program, int32_t pc, const FaultRecord& record, AddressSpace& memory,
               const ExecState& state);

}  // namespace stepbench::vm
