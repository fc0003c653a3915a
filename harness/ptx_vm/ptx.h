// The PTX syntax tree: what parse.cc makes of PTX text. Plain data, no behaviour. Names of inner scopes
// ({ } blocks of inline asm and call sequences) are already made unique, so a function has one flat table of
// registers and labels. Reference: PTX ISA (the manual shipped with CUDA 13.0), sections named in comments.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "harness/result.h"

namespace stepbench::ptx {

/// State spaces, PTX ISA section 5.1. kGeneric is the absence of one.
enum class Space : uint8_t { kGeneric, kReg, kParam, kGlobal, kShared, kLocal, kConst };

/// Where a statement stands: line of the PTX text and, when the compiler wrote `.loc`, of the source.
struct Place {
  int32_t ptx_line = 0;     ///< 1-based
  int32_t file = 0;         ///< index of `.file`; 0 unknown
  int32_t source_line = 0;  ///< 1-based; 0 unknown
  int32_t author_file = 0;  ///< file of the function that this line was inlined into, else `file`
  int32_t author_line = 0;  ///< innermost line of the inlining chain in `author_file`: the one to show to an author
};

struct Register {
  std::string name;  ///< unique in the function
  std::string type;  ///< "b32", "f32", "pred" ... ; only its width matters, never its kind
};

enum class OperandKind : uint8_t {
  kRegister,  ///< `reg`
  kSpecial,   ///< `name`: "%tid.x", "%laneid", "%clock64" ...
  kInteger,   ///< `integer` (two's complement of the literal, sign kept for -1)
  kFloat,     ///< `float_bits`; `float_is_double` tells 0d from 0f; decimal floats are doubles
  kSymbol,    ///< `name` (+ `displacement`): address of a variable, function or parameter
  kMemory,    ///< [base + displacement]: base is `reg` >= 0, or `name` (variable/parameter), or absolute if neither;
              ///< `elements` are further parts, as in [map, {x, y}]
  kVector,    ///< { elements }
  kPair,      ///< d|p : elements[0] | elements[1]
  kSink,      ///< _
  kLabel,     ///< `name`, key of Function::labels, of branch_targets (brx.idx) or of a call's prototype or targets
};

struct Operand {
  OperandKind kind = OperandKind::kSink;
  bool negated = false;  ///< !p on a predicate operand
  int32_t reg = -1;      ///< index in Function::registers
  std::string name;
  int64_t integer = 0;
  uint64_t float_bits = 0;
  bool float_is_double = false;
  int64_t displacement = 0;
  std::vector<Operand> elements;
};

struct Instruction {
  Place place;
  int32_t predicate = -1;  ///< register index; -1 unguarded
  bool predicate_negated = false;
  std::string opcode;                  ///< "ld"
  std::vector<std::string> modifiers;  ///< {"global", "cs", "v4", "f32"}; "L1::no_allocate" is one modifier
  std::vector<Operand> operands;       ///< for call: see below
  // call only (PTX ISA "call"): operands hold [0] the callee (symbol or register), for an indirect call [1] the label
  // of its prototype or `.calltargets`
  std::vector<Operand> call_returns, call_arguments;
  std::string text;  ///< the statement as written, white space folded, for messages
};

/// An address inside an initialiser: 8 bytes at `offset` hold the address of `symbol` + `addend`.
struct InitializerAddress {
  uint64_t offset_bytes = 0;
  std::string symbol;
  int64_t addend = 0;
};

struct Variable {
  Place place;
  Space space = Space::kGlobal;
  std::string name;  ///< unique in its scope
  std::string type;  ///< "b8", "u32" ...
  uint32_t align_bytes = 1;
  uint64_t bytes = 0;  ///< 0 for an unsized extern array
  bool is_extern = false;
  std::vector<uint8_t> initial;  ///< empty, or exactly `bytes` long
  std::vector<InitializerAddress> addresses;
};

struct Function {
  Place place;
  std::string name;
  bool is_entry = false;
  bool is_declaration = false;       ///< .extern or prototype without a body
  std::vector<Variable> parameters;  ///< space kParam (or kReg in old style)
  std::vector<Variable> returns;
  std::vector<Register> registers;
  std::vector<Variable> variables;  ///< .local / .shared / .param declared inside (call sequences too)
  std::vector<Instruction> body;
  std::map<std::string, int32_t> labels;                           ///< -> index in body (may equal body.size())
  std::map<std::string, std::vector<std::string>> branch_targets;  ///< name of `.branchtargets` -> labels
  std::map<std::string, std::vector<std::string>> call_targets;    ///< name of `.calltargets` -> functions
  std::array<int32_t, 3> max_threads{0, 0, 0};                     ///< .maxntid; 0 = absent
  std::array<int32_t, 3> required_threads{0, 0, 0};                ///< .reqntid
  std::array<int32_t, 3> required_cluster{0, 0, 0};                ///< .reqnctapercluster
};

struct Module {
  std::string version, target;  ///< "9.0", "sm_90a"
  int32_t address_bits = 64;
  std::map<int32_t, std::string> files;
  std::vector<Variable> variables;
  std::vector<Function> functions;
};

/// PTX text -> Module. kInvalidInput with place "line N", what was expected and the token found. Never crashes,
/// never recurses without bound, and refuses text over 64 MiB.
Result<Module> parse(std::string_view text);

}  // namespace stepbench::ptx
