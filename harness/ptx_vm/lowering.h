// Between the syntax tree and the program: operations on values. decode.cc makes them from PTX, registers.cc folds what
// does not change, gives every value a slot and writes the program. Internal to the decoder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/ptx_vm/program.h"

namespace stepbench::vm {

/// A register, a temporary of the decoder, or something filled in advance.
struct Value {
  uint8_t bytes = 4;  ///< per lane
  Level level = Level::kRegister;
  int32_t function = -1;  ///< of a register or temporary
  int32_t definitions = 0;
  int32_t alias = -1;      ///< another value that this one always equals
  int32_t filled = -1;     ///< index in Lowered::filled
  bool temporary = false;  ///< defined and used under one guard
  bool used = false;
  uint32_t slot = kNoSlot;
};

enum class VectorRole : uint8_t { kNone, kRaw, kSources, kDestinations };

struct Operation {
  Handler full = nullptr, masked = nullptr;
  Kind kind = Kind::kLaneWise;
  bool pure = false;     ///< depends on its sources alone
  bool is_move = false;  ///< d = a
  bool dropped = false;
  Level hoisted = Level::kRegister;                         ///< otherwise: part of the prologue of this level
  int32_t d = -1, d2 = -1, a = -1, b = -1, c = -1, e = -1;  ///< values
  VectorRole role = VectorRole::kNone;
  uint8_t vector_count = 0;
  int32_t v[8] = {-1, -1, -1, -1, -1, -1, -1, -1};  ///< values
  uint32_t raw[8] = {};
  int64_t immediate = 0;
  uint16_t flags = 0;
  int32_t predicate = -1;  ///< value
  bool predicate_negated = false;
  int32_t target = -1;  ///< operation index once the function is lowered
  uint32_t weight = 0;  ///< PTX instructions it stands for
  Site site;
};

struct FunctionRange {
  int32_t first = 0, end = 0;    ///< operations
  std::vector<int32_t> callers;  ///< function indices, all smaller
};

struct Lowered {
  std::vector<Value> values;
  std::vector<Operation> operations;
  std::vector<FilledSlot> filled;                   ///< slots without a place yet
  std::vector<FunctionRange> functions;             ///< [0] is the entry; callers come before callees
  std::vector<std::vector<int32_t>> branch_tables;  ///< operation indices
};

/// Folds, assigns slots and writes code, slots, prologues and sizes of `program`.
void assign_registers(Lowered& lowered, Program& program);

}  // namespace stepbench::vm
