// <stepbench.cuh>: what a candidate may know of its task, as device code. Made from the task, so that names, order and
// types cannot differ from what the harness passes.
#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <string_view>

#include "harness/stages.h"

namespace stepbench {

namespace {

std::string_view device_type(DType dtype) {
  switch (dtype) {
    case DType::kF32: return "float";
    case DType::kBf16: return "__nv_bfloat16";
    case DType::kF16: return "__half";
    case DType::kU8: return "uint8_t";
    case DType::kI32: return "int32_t";
    case DType::kI16: return "int16_t";
  }
  SB_ASSERT(false);
  return "";
}

/// Text that stays within its // comment.
std::string comment(std::string_view text) {
  std::string line;
  for (const char c : text) line += static_cast<unsigned char>(c) < 32 || c == '\\' ? ' ' : c;
  return line;
}

/// `<buffer>_t`, unless C++ or the fixed-width integers own that name.
std::string type_name(const std::string& buffer) {
  constexpr std::array<std::string_view, 18> kTaken = {"size",  "ssize",  "ptrdiff", "max_align", "nullptr", "wchar",
                                                       "char8", "char16", "char32",  "int8",      "int16",   "int32",
                                                       "int64", "uint8",  "uint16",  "uint32",    "uint64",  "float"};
  const bool taken = std::find(kTaken.begin(), kTaken.end(), buffer) != kTaken.end();
  return buffer + (taken ? "_value_t" : "_t");
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

std::string padded(std::string text, size_t width) {
  if (text.size() < width) text.resize(width, ' ');
  return text;
}

}  // namespace

std::string task_header(const TaskSpec& task) {
  const auto uses = [&](DType dtype) {
    return std::any_of(task.buffers.begin(), task.buffers.end(),
                       [&](const BufferSpec& buffer) { return buffer.dtype == dtype; });
  };
  std::string text = "// Task " + comment(task.id) + ", version " + std::to_string(task.version) + ": " +
                     comment(task.title) +
                     ".\n// Made from the task's description; nothing here is hidden from the plan.\n";
  text += "#ifndef STEPBENCH_CUH\n#define STEPBENCH_CUH\n\n#include <stdint.h>\n";
  if (uses(DType::kBf16)) text += "#include <cuda_bf16.h>\n";
  if (uses(DType::kF16)) text += "#include <cuda_fp16.h>\n";

  text += "\n// Element types of the buffers.\n";
  for (const BufferSpec& buffer : task.buffers) {
    const std::string line = "using " + type_name(buffer.name) + " = " + std::string(device_type(buffer.dtype)) + ";";
    text += padded(line, 40) + "// " + (buffer.role == Role::kIn ? "input, " : "updated in place, ") +
            comment(buffer.shape) + (buffer.shape == "1" ? " element" : " elements") + " per tensor\n";
  }

  text +=
      "\n// What a \"tensor_map\" argument is, as a parameter `const __grid_constant__ TensorMap map`: 128 opaque "
      "bytes\n"
      "// for cp.async.bulk.tensor. With \"or_null\" it may be null: this tensor cannot carry the map.\n"
      "struct alignas(64) TensorMap {\n"
      "  unsigned long long opaque[16];\n"
      "  __device__ bool is_null() const {\n"
      "    unsigned long long any = 0;\n"
      "    for (int i = 0; i < 16; ++i) any |= opaque[i];\n"
      "    return any == 0;\n"
      "  }\n"
      "};\n";

  text +=
      "\n// Values of one step; they change from step to step. Argument \"hyper\" is a device pointer to it,\n"
      "// \"hyper.value\" passes it by value.\n";
  if (task.hyper.empty()) {
    text += "struct Hyper {};\n";
  } else {
    text += "struct Hyper {\n";
    for (const HyperField& field : task.hyper) {
      const std::string line = (field.type == HyperType::kI32 ? "  int " : "  float ") + field.name + ";";
      text += padded(line, 40) + "// " + comment(field.meaning);
      if (!field.derived.empty())
        text += field.derived == field.meaning ? std::string(", computed in double")
                                               : " (= " + comment(field.derived) + ", computed in double)";
      else if (field.min < field.max)
        text += " (" + number(field.min) + " to " + number(field.max) + ")";
      if (field.scheduled) text += ", changes every step";
      text += "\n";
    }
    text += "};\nstatic_assert(sizeof(Hyper) == " + std::to_string(4 * task.hyper.size()) +
            ", \"four bytes per field\");\n";
  }
  return text + "\n#endif\n";
}

}  // namespace stepbench
