// Choice of the instruction-set level and look-up of arithmetic forms by name. The handlers are in arithmetic_*.cc.
#include "harness/ptx_vm/arithmetic.h"

#include <cstdlib>
#include <string>
#include <unordered_map>

#include "harness/ptx_vm/arithmetic_forms.h"

namespace stepbench::vm {
namespace {

using Forms = std::unordered_map<std::string_view, ArithmeticForm>;

struct Level {
  const char* name;
  std::vector<FormTable> tables;
};

Level level_v2() {
  using namespace isa_v2;
  return {
      "x86-64-v2",
      {forms_f32(), forms_f64(), forms_half(), forms_integer(), forms_bits(), forms_move(), forms_approx(),
       forms_compare_int(), forms_compare_float(), forms_compare_half(), forms_convert_int(), forms_convert_float()}};
}
Level level_v3() {
  using namespace isa_v3;
  return {
      "x86-64-v3",
      {forms_f32(), forms_f64(), forms_half(), forms_integer(), forms_bits(), forms_move(), forms_approx(),
       forms_compare_int(), forms_compare_float(), forms_compare_half(), forms_convert_int(), forms_convert_float()}};
}

Forms collect(const Level& level) {
  Forms forms;
  for (const FormTable& table : level.tables) {
    for (std::size_t i = 0; i < table.count; ++i) forms.emplace(table.rows[i].name, table.rows[i].form);
  }
  return forms;
}

const Forms& forms_of_v2() {
  static const Forms forms = collect(level_v2());
  return forms;
}
const Forms& forms_of_v3() {
  static const Forms forms = collect(level_v3());
  return forms;
}

bool cpu_has_v3() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("f16c") && __builtin_cpu_supports("lzcnt") &&
         __builtin_cpu_supports("movbe");
}

bool use_v3() {
  static const bool v3 = [] {
    const char* forced = std::getenv("STEPBENCH_VM_ISA");
    return cpu_has_v3() && !(forced != nullptr && std::string_view(forced) == "v2");
  }();
  return v3;
}

std::optional<ArithmeticForm> find(const Forms& forms, std::string_view name) {
  const auto found = forms.find(name);
  if (found == forms.end()) return std::nullopt;
  return found->second;
}

}  // namespace

std::string arithmetic_form_name(const ptx::Instruction& instruction) {
  std::string name = instruction.opcode;
  // The CUDA headers write min.s32.relu and min.s16x2.relu; the manual puts .relu in front of the type.
  const bool relu_last =
      (name == "min" || name == "max") && instruction.modifiers.size() == 2 && instruction.modifiers[1] == "relu";
  if (relu_last) return name + ".relu." + instruction.modifiers[0];
  for (const std::string& modifier : instruction.modifiers) name += "." + modifier;
  const auto& operands = instruction.operands;
  const auto vector_size = [&](std::size_t i) {
    return operands.size() > i && operands[i].kind == ptx::OperandKind::kVector ? operands[i].elements.size() : 0;
  };
  if (instruction.opcode == "setp" && !operands.empty() && operands[0].kind == ptx::OperandKind::kPair) name += " d|p";
  if (instruction.opcode == "mov" && vector_size(0) != 0) name += " unpack" + std::to_string(vector_size(0));
  if (instruction.opcode == "mov" && vector_size(1) != 0) name += " pack" + std::to_string(vector_size(1));
  if ((instruction.opcode == "min" || instruction.opcode == "max") && operands.size() == 4) name += " 3";
  return name;
}

std::optional<ArithmeticForm> select_arithmetic(const ptx::Instruction& instruction) {
  return find(use_v3() ? forms_of_v3() : forms_of_v2(), arithmetic_form_name(instruction));
}

const char* arithmetic_level() { return use_v3() ? "x86-64-v3" : "x86-64-v2"; }

std::vector<std::string_view> arithmetic_forms() {
  std::vector<std::string_view> names;
  for (const FormTable& table : level_v2().tables) {
    for (std::size_t i = 0; i < table.count; ++i) names.emplace_back(table.rows[i].name);
  }
  return names;
}

bool arithmetic_level_available(std::string_view level) {
  return level == "x86-64-v2" || (level == "x86-64-v3" && cpu_has_v3());
}

std::optional<ArithmeticForm> arithmetic_form(std::string_view name, std::string_view level) {
  if (level == "x86-64-v2") return find(forms_of_v2(), name);
  if (level == "x86-64-v3") return find(forms_of_v3(), name);
  return std::nullopt;
}

}  // namespace stepbench::vm
