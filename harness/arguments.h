// Kernel arguments: their text in a plan -> what they mean -> bytes in a kernel's parameter buffer.
// Addresses and integer values are given by the caller; nothing here allocates on a device.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "harness/device.h"
#include "harness/model.h"
#include "harness/plan_tensor_map.h"
#include "harness/result.h"

namespace stepbench {

enum class ArgumentKind : uint8_t {
  kBuffer,        ///< `param`: this tensor's pointer
  kBufferTable,   ///< `param[]`: device table of pointers
  kSizeTable,     ///< `n[]`, `rows[]`, `cols[]`, `offset[]`: device table of i64
  kInteger,       ///< `n`, `rows * cols`: integer expression
  kHyperValue,    ///< `lr`: hyperparameter by value
  kHyperPointer,  ///< `hyper`: device pointer to the Hyper struct
  kHyperStruct,   ///< `hyper.value`: the struct by value
  kScratch,       ///< `scratch.name`
  kIntegerLiteral,
  kFloatLiteral,
  kTensorMap,  ///< `tensor_map{...}`: host-made TMA descriptor
};

enum class SizeTable : uint8_t { kN, kRows, kCols, kOffset };

struct Argument {
  ArgumentKind kind = ArgumentKind::kInteger;
  std::string text;              ///< as written, trimmed
  int32_t index = -1;            ///< of the buffer, hyperparameter or scratch; SizeTable for kSizeTable
  std::string expression;        ///< kInteger: the value; pointers: bytes added, empty for none
  size_t expression_column = 1;  ///< of the expression in the text
  int64_t integer = 0;           ///< literals (true is 1)
  double real = 0;
  bool is_boolean = false;
  std::optional<PlanTensorMap> map{};  ///< kTensorMap, with its dtype; `index` is of the buffer or scratch it is of
  bool map_of_scratch = false;
};

bool is_pointer(ArgumentKind kind);

/// Reads one argument. kInvalidInput: unknown names carry the nearest known one.
Result<Argument> parse_argument(const std::string& text, const TaskSpec& task, const Plan& plan);
/// Refuses arguments that have no meaning in a launch of this scope: one tensor's pointer in a step or shape launch.
std::optional<Error> check_argument_scope(const Argument& argument, LaunchFor scope);
/// Refuses an argument whose width or kind contradicts the kernel's declaration. PTX declares widths and kinds only: it
/// cannot tell a float* from an int64_t. `position` counts from 1.
std::optional<Error> check_parameter(const Argument& argument, const KernelParameter& parameter, size_t position,
                                     const std::string& kernel, const TaskSpec& task);

/// Writes an address, an integer or a literal into its place in `bytes`, after check_parameter. kInvalidInput when an
/// integer does not fit.
void put_address(const KernelParameter& parameter, uint64_t address, std::span<std::byte> bytes);
std::optional<Error> put_integer(const Argument& argument, const KernelParameter& parameter, size_t position,
                                 int64_t value, std::span<std::byte> bytes);
void put_tensor_map(const KernelParameter& parameter, const TensorMapBytes& map, std::span<std::byte> bytes);
void put_literal(const Argument& argument, const KernelParameter& parameter, std::span<std::byte> bytes);
/// Writes a hyperparameter or the whole struct from the packed Hyper struct (4 bytes per field).
void put_hyper(const Argument& argument, const KernelParameter& parameter, HyperType type,
               std::span<const std::byte> packed, std::span<std::byte> bytes);

}  // namespace stepbench
