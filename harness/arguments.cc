// Kernel arguments: parsing their text, checking them against the kernel's parameters, and writing the bytes.
#include "harness/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "harness/expression.h"
#include "harness/plan_json.h"
#include "harness/plan_messages.h"
#include "harness/stages.h"

namespace stepbench {

namespace {

constexpr const char* kSizeTableNames[] = {"n", "rows", "cols", "offset"};

Error argument_error(std::string message, std::string found = "") {
  return Error{ErrorCode::kInvalidInput, std::move(message), "", "", std::move(found)};
}

bool is_name_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

/// Decimal or hexadecimal integer with optional sign; false when the text is something else or beyond 64 bits.
bool read_integer(std::string_view text, int64_t& value) {
  const bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  const bool hex = text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
  if (hex) text.remove_prefix(2);
  uint64_t magnitude = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), magnitude, hex ? 16 : 10);
  if (text.empty() || status != std::errc{} || end != text.data() + text.size()) return false;
  if (magnitude > static_cast<uint64_t>(kMaxExpressionValue)) return false;
  value = negative ? -static_cast<int64_t>(magnitude) : static_cast<int64_t>(magnitude);
  return true;
}

/// C floating literal with optional sign: has a point or an exponent, may end in f.
bool read_float(std::string_view text, double& value) {
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  if (text.empty() || text.find_first_not_of("0123456789.eE+-fF") != std::string_view::npos) return false;
  if (text.find_first_of(".eE") == std::string_view::npos) return false;
  const bool single = text.back() == 'f' || text.back() == 'F';
  if (single) text.remove_suffix(1);
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || end != text.data() + text.size()) return false;
  if (single) {
    if (std::fabs(value) > static_cast<double>(std::numeric_limits<float>::max())) return false;
    value = static_cast<double>(static_cast<float>(value));
  }
  if (negative) value = -value;
  return true;
}

int32_t find_buffer(const TaskSpec& task, std::string_view name) {
  for (size_t i = 0; i < task.buffers.size(); ++i)
    if (task.buffers[i].name == name) return static_cast<int32_t>(i);
  return -1;
}
int32_t find_hyper(const TaskSpec& task, std::string_view name) {
  for (size_t i = 0; i < task.hyper.size(); ++i)
    if (task.hyper[i].name == name) return static_cast<int32_t>(i);
  return -1;
}
int32_t find_scratch(const Plan& plan, std::string_view name) {
  for (size_t i = 0; i < plan.scratch.size(); ++i)
    if (plan.scratch[i].first == name) return static_cast<int32_t>(i);
  return -1;
}

/// Every name an argument may begin with, as an author writes it.
std::vector<std::string> known_arguments(const TaskSpec& task, const Plan& plan) {
  std::vector<std::string> known;
  for (const BufferSpec& buffer : task.buffers) known.push_back(buffer.name);
  for (const HyperField& field : task.hyper) known.push_back(field.name);
  for (const char* name :
       {"n", "rows", "cols", "tensors", "total", "index", "iteration", "count", "max_n", "sms", "hyper", "hyper.value"})
    known.emplace_back(name);
  for (const auto& [name, bytes] : plan.scratch) known.push_back("scratch." + name);
  for (const auto& [name, value] : plan.defines) known.push_back(name);
  return known;
}

/// What follows a pointer: nothing or "+ bytes".
std::optional<Error> read_offset(std::string_view rest, Argument& argument) {
  const size_t first = rest.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return std::nullopt;
  const size_t start = argument.text.size() - rest.size() + first;
  if (rest[first] != '+')
    return argument_error(fmt::format("only `+ bytes` may follow the pointer in `{}`, found `{}` at column {}",
                                      shortened(argument.text), shortened(rest.substr(first), 20), start + 1));
  argument.expression = std::string(rest.substr(first + 1));
  argument.expression_column = start + 2;
  return std::nullopt;
}

Result<Argument> table_argument(Argument argument, std::string_view name, std::string_view rest, const TaskSpec& task) {
  argument.index = find_buffer(task, name);
  argument.kind = ArgumentKind::kBufferTable;
  if (argument.index < 0) {
    argument.kind = ArgumentKind::kSizeTable;
    for (int32_t i = 0; i < 4; ++i)
      if (name == kSizeTableNames[i]) argument.index = i;
  }
  if (argument.index < 0) {
    std::vector<std::string> known(std::begin(kSizeTableNames), std::end(kSizeTableNames));
    for (const BufferSpec& buffer : task.buffers) known.push_back(buffer.name);
    for (std::string& word : known) word += "[]";
    const std::string written = std::string(name) + "[]";
    return argument_error(fmt::format("unknown table `{}`{}", shortened(written), did_you_mean(written, known)),
                          written);
  }
  if (std::optional<Error> error = read_offset(rest, argument)) return *error;
  return argument;
}

Result<Argument> member_argument(Argument argument, std::string_view owner, std::string_view name,
                                 std::string_view rest, const TaskSpec& task, const Plan& plan) {
  if (owner == "hyper") {
    argument.kind = ArgumentKind::kHyperStruct;
    if (name == "value" && trimmed(rest).empty()) return argument;
    if (find_hyper(task, name) >= 0)
      return argument_error(
          fmt::format("`hyper.{}` is not an argument; write `{}` for the value, `hyper` for the pointer", name, name));
    return argument_error(fmt::format("unknown argument `{}`, known: hyper, hyper.value", shortened(argument.text)));
  }
  if (owner == "scratch") {
    argument.kind = ArgumentKind::kScratch;
    argument.index = find_scratch(plan, name);
    if (argument.index < 0) {
      std::vector<std::string> known;
      for (const auto& [word, bytes] : plan.scratch) known.push_back("scratch." + word);
      const std::string written = fmt::format("scratch.{}", name);
      return argument_error(
          fmt::format("`{}` is not defined in \"scratch\"{}", shortened(written), did_you_mean(written, known)),
          written);
    }
    if (std::optional<Error> error = read_offset(rest, argument)) return *error;
    return argument;
  }
  return argument_error(fmt::format("unknown argument `{}`{}", shortened(argument.text),
                                    did_you_mean(argument.text, known_arguments(task, plan))));
}

Result<Argument> map_argument(Argument argument, std::string_view json, const TaskSpec& task, const Plan& plan) {
  argument.kind = ArgumentKind::kTensorMap;
  Result<PlanTensorMap> parsed = parse_tensor_map_json(json);
  if (!parsed.ok()) return parsed.error();
  PlanTensorMap& map = argument.map.emplace(std::move(parsed).value());
  constexpr std::string_view kScratch = "scratch.";
  argument.map_of_scratch = map.of.compare(0, kScratch.size(), kScratch) == 0;
  argument.index = argument.map_of_scratch ? find_scratch(plan, std::string_view(map.of).substr(kScratch.size()))
                                           : find_buffer(task, map.of);
  if (argument.index < 0) {
    std::vector<std::string> known;
    for (const BufferSpec& buffer : task.buffers) known.push_back(buffer.name);
    for (const auto& [name, bytes] : plan.scratch) known.push_back("scratch." + name);
    return argument_error(fmt::format("a tensor map is of a buffer or of scratch.<name>, found `{}`{}",
                                      shortened(map.of), did_you_mean(map.of, known)),
                          map.of);
  }
  if (!map.dtype && argument.map_of_scratch)
    return argument_error(fmt::format("the tensor map of `{}` needs a \"dtype\": scratch is bytes", map.of));
  if (!map.dtype) map.dtype = task.buffers[static_cast<size_t>(argument.index)].dtype;
  const bool real = *map.dtype == DType::kF32 || *map.dtype == DType::kBf16 || *map.dtype == DType::kF16;
  if (map.nan_outside && !real)
    return argument_error(fmt::format("\"oob\": \"nan\" is for f32, bf16 and f16; the tensor map of `{}` is of {}",
                                      map.of, to_text(*map.dtype)));
  return argument;
}

const char* kind_word(ScalarKind kind) {
  switch (kind) {
    case ScalarKind::kInteger: return "integer";
    case ScalarKind::kFloat: return "floating-point";
    case ScalarKind::kBytes: return "struct";
  }
  return "";
}

std::string describe(const Argument& argument, const TaskSpec& task) {
  switch (argument.kind) {
    case ArgumentKind::kBuffer:
    case ArgumentKind::kBufferTable:
    case ArgumentKind::kSizeTable:
    case ArgumentKind::kHyperPointer:
    case ArgumentKind::kScratch: return "a pointer (8 bytes)";
    case ArgumentKind::kInteger: return "an integer";
    case ArgumentKind::kHyperValue:
      return task.hyper[static_cast<size_t>(argument.index)].type == HyperType::kF32 ? "a float hyperparameter"
                                                                                     : "an integer hyperparameter";
    case ArgumentKind::kHyperStruct: return fmt::format("the Hyper struct ({} bytes)", 4 * task.hyper.size());
    case ArgumentKind::kIntegerLiteral: return argument.is_boolean ? "a boolean" : "an integer";
    case ArgumentKind::kFloatLiteral: return "a floating-point number";
    case ArgumentKind::kTensorMap: return "a tensor map (128 bytes)";
  }
  return "";
}

template <class T>
void put(const KernelParameter& parameter, T value, std::span<std::byte> bytes) {
  SB_ASSERT(parameter.offset_bytes + sizeof(T) <= bytes.size());
  std::memcpy(bytes.data() + parameter.offset_bytes, &value, sizeof(T));
}

void put_width(const KernelParameter& parameter, int64_t value, std::span<std::byte> bytes) {
  switch (parameter.bytes) {
    case 1: put(parameter, static_cast<uint8_t>(value & 0xFF), bytes); return;
    case 2: put(parameter, static_cast<uint16_t>(value & 0xFFFF), bytes); return;
    case 4: put(parameter, static_cast<uint32_t>(value & 0xFFFFFFFF), bytes); return;
    case 8: put(parameter, value, bytes); return;
    default: SB_ASSERT(false);
  }
}

void put_real(const KernelParameter& parameter, double value, std::span<std::byte> bytes) {
  if (parameter.bytes == 8)
    put(parameter, value, bytes);
  else
    put(parameter, static_cast<float>(value), bytes);
}

}  // namespace

bool is_pointer(ArgumentKind kind) {
  return kind == ArgumentKind::kBuffer || kind == ArgumentKind::kBufferTable || kind == ArgumentKind::kSizeTable ||
         kind == ArgumentKind::kHyperPointer || kind == ArgumentKind::kScratch;
}

Result<Argument> parse_argument(const std::string& text, const TaskSpec& task, const Plan& plan) {
  Argument argument;
  argument.text = std::string(trimmed(text));
  const std::string_view view = argument.text;
  if (view.empty()) return argument_error("the argument is empty");
  if (view == "true" || view == "false") {
    argument.kind = ArgumentKind::kIntegerLiteral;
    argument.integer = view == "true" ? 1 : 0;
    argument.is_boolean = true;
    return argument;
  }
  if (read_integer(view, argument.integer)) {
    argument.kind = ArgumentKind::kIntegerLiteral;
    return argument;
  }
  if (read_float(view, argument.real)) {
    argument.kind = ArgumentKind::kFloatLiteral;
    return argument;
  }

  size_t end = 0;
  while (end < view.size() && is_name_char(view[end])) ++end;
  const std::string_view name = view.substr(0, end);
  const std::string_view rest = view.substr(end);
  if (is_identifier(name)) {
    if (name == "tensor_map" && !trimmed(rest).empty() && trimmed(rest)[0] == '{') {
      if (view.back() != '}') return argument_error("the `tensor_map{` is not closed by `}`");
      return map_argument(argument, trimmed(rest), task, plan);
    }
    if (rest.substr(0, 2) == "[]") return table_argument(argument, name, rest.substr(2), task);
    if (!rest.empty() && rest[0] == '.') {
      size_t member_end = 1;
      while (member_end < rest.size() && is_name_char(rest[member_end])) ++member_end;
      return member_argument(argument, name, rest.substr(1, member_end - 1), rest.substr(member_end), task, plan);
    }
    if (const int32_t buffer = find_buffer(task, name); buffer >= 0) {
      argument.kind = ArgumentKind::kBuffer;
      argument.index = buffer;
      if (std::optional<Error> error = read_offset(rest, argument)) return *error;
      return argument;
    }
    if (name == "hyper") {
      argument.kind = ArgumentKind::kHyperPointer;
      if (std::optional<Error> error = read_offset(rest, argument)) return *error;
      return argument;
    }
    if (const int32_t field = find_hyper(task, name); field >= 0) {
      if (!trimmed(rest).empty())
        return argument_error(fmt::format("hyperparameter `{}` stands alone; expressions are of integers", name));
      argument.kind = ArgumentKind::kHyperValue;
      argument.index = field;
      return argument;
    }
    const std::span<const std::string> sizes = expression_names();
    bool known = std::find(sizes.begin(), sizes.end(), name) != sizes.end();
    for (const auto& [define, value] : plan.defines) known = known || define == name;
    if (!known)
      return argument_error(
          fmt::format("unknown argument `{}`{}", shortened(name), did_you_mean(name, known_arguments(task, plan))),
          std::string(shortened(name)));
  }
  argument.kind = ArgumentKind::kInteger;
  argument.expression = argument.text;
  return argument;
}

std::optional<Error> check_argument_scope(const Argument& argument, LaunchFor scope) {
  if (scope == LaunchFor::kTensor) return std::nullopt;
  if (argument.kind == ArgumentKind::kTensorMap && !argument.map_of_scratch)
    return argument_error(
        fmt::format("a tensor map of `{}` is of one tensor and the launch is for {}: use \"for\": \"tensor\"",
                    argument.map->of, scope == LaunchFor::kStep ? "the whole step" : "all tensors of a shape"));
  if (argument.kind != ArgumentKind::kBuffer) return std::nullopt;
  const std::string_view name = std::string_view(argument.text).substr(0, argument.text.find_first_of(" \t\r\n+"));
  if (scope == LaunchFor::kStep)
    return argument_error(fmt::format(
        "`{}` is one tensor's pointer and the launch is for the whole step: use `{}[]` or \"for\": \"tensor\"", name,
        name));
  return argument_error(
      fmt::format("`{}` is one tensor's pointer and the launch is for all tensors of a shape: use `{}[]`", name, name));
}

std::optional<Error> check_parameter(const Argument& argument, const KernelParameter& parameter, size_t position,
                                     const std::string& kernel, const TaskSpec& task) {
  const bool integer = parameter.kind == ScalarKind::kInteger;
  const bool real = parameter.kind == ScalarKind::kFloat && (parameter.bytes == 4 || parameter.bytes == 8);
  bool fits = false;
  switch (argument.kind) {
    case ArgumentKind::kBuffer:
    case ArgumentKind::kBufferTable:
    case ArgumentKind::kSizeTable:
    case ArgumentKind::kHyperPointer:
    case ArgumentKind::kScratch: fits = integer && parameter.bytes == 8; break;
    case ArgumentKind::kInteger: fits = integer; break;
    case ArgumentKind::kIntegerLiteral: fits = integer || (real && !argument.is_boolean); break;
    case ArgumentKind::kFloatLiteral:
      fits = real && (parameter.bytes == 8 ||
                      std::fabs(argument.real) <= static_cast<double>(std::numeric_limits<float>::max()));
      break;
    case ArgumentKind::kHyperValue:
      fits = task.hyper[static_cast<size_t>(argument.index)].type == HyperType::kF32 ? real
                                                                                     : integer && parameter.bytes >= 4;
      break;
    case ArgumentKind::kHyperStruct:
      fits = parameter.kind == ScalarKind::kBytes && parameter.bytes == 4 * task.hyper.size();
      break;
    case ArgumentKind::kTensorMap:
      fits = parameter.kind == ScalarKind::kBytes && parameter.bytes == sizeof(TensorMapBytes);
      // cuTensorMapEncodeTiled: a descriptor is aligned to 64 bytes.
      if (fits && parameter.align_bytes < 64)
        return argument_error(
            fmt::format("argument {} is a tensor map, which is aligned to 64 bytes, but kernel `{}` declares a struct "
                        "aligned to {} there: "
                        "use TensorMap of <stepbench.cuh>, as `const __grid_constant__ TensorMap`",
                        position, kernel, parameter.align_bytes));
      break;
  }
  if (fits) return std::nullopt;
  return argument_error(fmt::format("argument {} (`{}`) is {}, but kernel `{}` declares a {}-byte {} parameter there",
                                    position, shortened(argument.text), describe(argument, task), kernel,
                                    parameter.bytes, kind_word(parameter.kind)));
}

void put_address(const KernelParameter& parameter, uint64_t address, std::span<std::byte> bytes) {
  SB_ASSERT(parameter.bytes == 8);
  put(parameter, address, bytes);
}

std::optional<Error> put_integer(const Argument& argument, const KernelParameter& parameter, size_t position,
                                 int64_t value, std::span<std::byte> bytes) {
  // PTX does not tell signed from unsigned. A computed size must fit both; a literal was chosen by the author, who
  // knows.
  if (parameter.bytes < 8) {
    const int64_t signed_limit = (int64_t{1} << (8 * parameter.bytes - 1)) - 1;
    const int64_t limit = argument.kind == ArgumentKind::kIntegerLiteral ? 2 * signed_limit + 1 : signed_limit;
    if (value > limit || value < -signed_limit - 1) {
      const char* advice = parameter.bytes == 4 ? "use a 64-bit parameter" : "use a wider parameter";
      return argument_error(fmt::format("argument {} (`{}`) is {}, more than its {}-bit parameter holds ({} to {}): {}",
                                        position, shortened(argument.text), value, 8 * parameter.bytes,
                                        -signed_limit - 1, limit, advice));
    }
  }
  put_width(parameter, value, bytes);
  return std::nullopt;
}

void put_tensor_map(const KernelParameter& parameter, const TensorMapBytes& map, std::span<std::byte> bytes) {
  SB_ASSERT(parameter.bytes == sizeof map);
  put(parameter, map, bytes);
}

void put_literal(const Argument& argument, const KernelParameter& parameter, std::span<std::byte> bytes) {
  const double value =
      argument.kind == ArgumentKind::kFloatLiteral ? argument.real : static_cast<double>(argument.integer);
  put_real(parameter, value, bytes);
}

void put_hyper(const Argument& argument, const KernelParameter& parameter, HyperType type,
               std::span<const std::byte> packed, std::span<std::byte> bytes) {
  if (argument.kind == ArgumentKind::kHyperStruct) {
    SB_ASSERT(parameter.bytes == packed.size() && parameter.offset_bytes + parameter.bytes <= bytes.size());
    if (!packed.empty()) std::memcpy(bytes.data() + parameter.offset_bytes, packed.data(), packed.size());
    return;
  }
  const size_t at = static_cast<size_t>(argument.index) * 4;
  SB_ASSERT(at + 4 <= packed.size());
  if (type == HyperType::kF32) {
    float value = 0;
    std::memcpy(&value, packed.data() + at, sizeof value);
    put_real(parameter, static_cast<double>(value), bytes);
  } else {
    int32_t value = 0;
    std::memcpy(&value, packed.data() + at, sizeof value);
    put_width(parameter, value, bytes);
  }
}

}  // namespace stepbench
