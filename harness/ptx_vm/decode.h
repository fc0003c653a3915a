// Syntax tree -> Program. Whatever is not known is refused here, with its place; nothing is discovered at run time.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "harness/model.h"
#include "harness/ptx_vm/program.h"
#include "harness/ptx_vm/ptx.h"

namespace stepbench::vm {

struct DecodeOptions {
  bool check_races = false;  ///< all global and shared accesses take the general path
};

/// Device address of a module variable (.global, .const), allocating it on first use; empty when the host has no
/// memory.
using VariableAddress = std::function<std::optional<uint64_t>(const ptx::Variable&)>;

/// Decodes `entry` and the functions it calls. Failure `unsupported` names the instruction, its PTX line and, when
/// known, the source line.
Judged<Program> decode(const ptx::Module& module, const ptx::Function& entry, const VariableAddress& variable_address,
                       const DecodeOptions& options);

}  // namespace stepbench::vm
