// Where the addresses of module-scope variables go: which functions and variables the kernels reach, and which
// variables reachable code may write. Flow-insensitive and conservative: it may say "written" of what is only read,
// never the reverse for addresses that travel through registers, parameters and initialised pointer tables. It does not
// follow an address that is rebuilt bit by bit through branches or guessed as a number.
#pragma once

#include <cstddef>
#include <vector>

#include "harness/ptx_vm/ptx.h"

namespace stepbench {

enum class AddressUse : uint8_t {
  kWritten,  ///< st, atom, red, asynchronous copies with it as their target ...
  kStored,   ///< the address itself is written to memory
  kPassed,   ///< the address goes to a function that cannot be looked into
};

struct VariableWrite {
  size_t variable = 0;  ///< index in Module::variables
  AddressUse use = AddressUse::kWritten;
  const ptx::Instruction* instruction = nullptr;
};

/// First mention of a name in reachable code; `instruction` is null when only an initialiser mentions it.
struct Mention {
  size_t index = 0;  ///< in Module::variables or Module::functions
  const ptx::Instruction* instruction = nullptr;
};

struct AddressFlow {
  std::vector<size_t> functions;             ///< reachable, with a body, in text order
  std::vector<Mention> undefined_functions;  ///< reachable declarations
  std::vector<Mention> variables;            ///< reachable module-scope variables
  std::vector<VariableWrite> writes;         ///< first of each .global variable, in text order
  bool is_complete = true;                   ///< false: the analysis hit its limit; `writes` is then worth nothing
};

/// `module` must outlive the result.
AddressFlow follow_addresses(const ptx::Module& module);

}  // namespace stepbench
