// Admission: what a candidate's PTX may not hold, decided before anything runs. Looks at the text only; what a kernel
// does with the memory it was given is the checks' business, instructions that the VM does not have are the VM's.
#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <set>

#include "harness/address_flow.h"
#include "harness/ptx_vm/ptx.h"
#include "harness/stages.h"

namespace stepbench {

namespace {

constexpr uint64_t kMaxEmbeddedBytes = 1u << 20;

// ------------------------------------------------------------------------------------------ names and places

/// A name as its author wrote it: demangled, without the scopes that compilers add.
std::string readable(const std::string& name) {
  constexpr size_t kLongestName = 200;
  const std::string plain = name.substr(0, name.find('#'));  // the parser's suffix of function-scope variables
  if (plain.size() > 2048) return plain.substr(0, kLongestName) + "...";
  if (plain.compare(0, 2, "_Z") != 0)
    return plain.size() > kLongestName ? plain.substr(0, kLongestName) + "..." : plain;
  int status = 0;  // without the prefix check 'n' would be read as the type __int128
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(plain.c_str(), nullptr, nullptr, &status),
                                                         &std::free);
  std::string shown = status == 0 && text != nullptr ? text.get() : plain;
  for (const std::string_view internal : {"_INTERNAL_", "(anonymous namespace)::", "_GLOBAL__N_"})
    for (size_t at = shown.find(internal); at != std::string::npos; at = shown.find(internal)) {
      const size_t end = shown.find("::", at);
      if (end == std::string::npos) break;
      shown.erase(at, end + 2 - at);
    }
  return shown.size() > kLongestName ? shown.substr(0, kLongestName) + "..." : shown;
}

/// The identifier alone: "step(float*)::calls" -> "calls".
std::string last_identifier(const std::string& shown) {
  size_t end = shown.size();
  for (int depth = 0; end > 0; --end) {  // template arguments at the end do not belong to it
    const char c = shown[end - 1];
    if (c == '>' || c == ')') ++depth;
    if (depth == 0) break;
    if (c == '<' || c == '(') --depth;
  }
  size_t begin = end;
  while (begin > 0 && (std::isalnum(static_cast<unsigned char>(shown[begin - 1])) != 0 || shown[begin - 1] == '_'))
    --begin;
  return shown.substr(begin, end - begin);
}

struct SourceToken {
  std::string_view text;
  int32_t line = 0;
};

/// Words and punctuation of C++ text; comments, literals and preprocessor lines are left out.
std::vector<SourceToken> source_tokens(std::string_view source) {
  std::vector<SourceToken> tokens;
  int32_t line = 1;
  bool at_line_start = true;
  const auto skip_to = [&](size_t from, size_t to) {
    line += static_cast<int32_t>(std::count(source.begin() + static_cast<std::ptrdiff_t>(from),
                                            source.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    return to;
  };
  const auto end_of = [&](std::string_view mark, size_t from) {
    const size_t found = from <= source.size() ? source.find(mark, from) : std::string_view::npos;
    return found == std::string_view::npos ? source.size() : found + mark.size();
  };
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (size_t i = 0; i < source.size();) {
    const char c = source[i];
    if (c == '\n') {
      at_line_start = true;
      i = skip_to(i, i + 1);
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++i;
    } else if (source.substr(i, 2) == "//") {
      i = std::min(source.find('\n', i), source.size());
    } else if (source.substr(i, 2) == "/*") {
      i = skip_to(i, end_of("*/", i + 2));
    } else if (c == '#' && at_line_start) {
      size_t end = i;
      do {
        end = std::min(source.find('\n', end + 1), source.size());
      } while (end < source.size() && source[end - 1] == '\\');
      i = skip_to(i, end);
    } else if (source.substr(i, 2) == "R\"") {
      const size_t open = std::min(source.find('(', i), source.size());
      const std::string close = fmt::format("){}\"", source.substr(i + 2, open - std::min(open, i + 2)));
      i = skip_to(i, end_of(close, open));
    } else if (c == '"' || c == '\'') {
      size_t end = i + 1;
      while (end < source.size() && source[end] != c && source[end] != '\n') end += source[end] == '\\' ? 2 : 1;
      i = skip_to(i, std::min(end + 1, source.size()));
    } else {
      at_line_start = false;
      size_t end = i + 1;
      if (is_word(c))
        while (end < source.size() && is_word(source[end])) ++end;
      tokens.push_back({source.substr(i, end - i), line});
      i = end;
    }
  }
  return tokens;
}

/// Line of the source that declares a module-scope variable: the first use of its name in a statement that says
/// __device__,
/// __constant__, __managed__ or static before it. 0 when there is none.
int32_t declaration_line(std::string_view source, const std::string& identifier) {
  if (identifier.empty()) return 0;
  bool is_declaration = false;
  for (const SourceToken& token : source_tokens(source)) {
    if (token.text == ";" || token.text == "{" || token.text == "}") is_declaration = false;
    if (token.text == "__device__" || token.text == "__constant__" || token.text == "__managed__" ||
        token.text == "static")
      is_declaration = true;
    if (is_declaration && token.text == identifier) return token.line;
  }
  return 0;
}

/// Names places in the author's words. A PTX candidate's source is the PTX.
struct Author {
  const ptx::Module& module;
  const Candidate& candidate;
  int32_t file = 0;  ///< `.file` of the candidate: that of the first kernel with a line

  Author(const ptx::Module& m, const Candidate& c) : module(m), candidate(c) {
    for (const ptx::Function& function : m.functions)
      if (function.is_entry && function.place.author_file != 0) {
        file = function.place.author_file;
        break;
      }
  }

  std::string ptx_line(int32_t line) const {
    return candidate.is_ptx ? fmt::format("{}:{}", candidate.path, line) : fmt::format("ptx line {}", line);
  }

  std::string place(const ptx::Place& at) const {
    if (candidate.is_ptx || at.author_line == 0) return ptx_line(at.ptx_line);
    if (at.author_file == file) return fmt::format("{}:{}", candidate.path, at.author_line);
    const auto name = module.files.find(at.author_file);
    return name == module.files.end() ? ptx_line(at.ptx_line) : fmt::format("{}:{}", name->second, at.author_line);
  }

  /// Of an instruction if it has a line of the source, else of the variable it is about.
  std::string place(const ptx::Instruction* instruction, const ptx::Variable& variable) const {
    if (instruction != nullptr && !candidate.is_ptx && instruction->place.author_line != 0)
      return place(instruction->place);
    if (!candidate.is_ptx)
      if (const int32_t line = declaration_line(candidate.source, last_identifier(readable(variable.name))); line > 0)
        return fmt::format("{}:{}", candidate.path, line);
    return ptx_line(instruction != nullptr ? instruction->place.ptx_line : variable.place.ptx_line);
  }
};

// ------------------------------------------------------------------------------------------ refusals

struct Refusal {
  int32_t ptx_line = 0;  ///< the first of several is reported
  std::string message, place, detail;
};

bool starts_with_any(const std::string& name, std::initializer_list<std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return name.compare(0, prefix.size(), prefix) == 0; });
}

/// Why a function without a body may not be called.
std::string import_message(const std::string& name) {
  if (name == "vprintf") return "calls printf, which a candidate must not";
  if (name == "malloc" || name == "_Znwm" || name == "_Znam")
    return "allocates device memory, which survives the launch; use scratch";
  if (name == "free" || name == "_ZdlPv" || name == "_ZdaPv" || name == "_ZdlPvm" || name == "_ZdaPvm")
    return "frees device memory; use scratch instead of device allocation";
  if (name == "__assertfail" || name == "__assert_fail") return "uses assert, which a candidate must not";
  if (starts_with_any(name, {"cudaLaunchDevice", "cudaGetParameterBuffer", "cudaDeviceSynchronize", "cudaStream",
                             "cudaEvent", "cudaGraph", "__cudaCDP2"}))
    return fmt::format("launches work from the device (dynamic parallelism, '{}')", name);
  if (starts_with_any(name, {"cuda", "__cuda"}))
    return fmt::format("calls the device runtime ('{}'), which a candidate must not", name);
  return fmt::format("calls '{}', which the file does not define", readable(name));
}

std::string write_message(const ptx::Variable& variable, AddressUse use) {
  const std::string name = readable(variable.name);
  switch (use) {
    case AddressUse::kWritten: break;
    case AddressUse::kStored:
      return fmt::format(
          "stores the address of module-scope variable '{}', through which it may keep state between launches", name);
    case AddressUse::kPassed:
      return fmt::format(
          "passes the address of module-scope variable '{}' to an unknown function, which may keep state in it between "
          "launches",
          name);
  }
  return fmt::format("keeps state between launches in module-scope variable '{}'", name);
}

std::optional<Refusal> first_refusal(const ptx::Module& module, const AddressFlow& flow, const Author& author) {
  std::vector<Refusal> refusals;
  for (const Mention& mention : flow.undefined_functions) {
    const ptx::Function& function = module.functions[mention.index];
    const ptx::Place& at = mention.instruction != nullptr ? mention.instruction->place : function.place;
    refusals.push_back({at.ptx_line, import_message(function.name), author.place(at),
                        mention.instruction != nullptr ? mention.instruction->text : ""});
  }
  for (const Mention& mention : flow.variables) {
    const ptx::Variable& variable = module.variables[mention.index];
    if (!variable.is_extern || variable.space == ptx::Space::kShared) continue;
    const int32_t line = mention.instruction != nullptr ? mention.instruction->place.ptx_line : variable.place.ptx_line;
    refusals.push_back(
        {line, fmt::format("uses extern variable '{}', which the file does not define", readable(variable.name)),
         author.place(mention.instruction, variable), mention.instruction != nullptr ? mention.instruction->text : ""});
  }
  for (const VariableWrite& write : flow.writes) {
    const ptx::Variable& variable = module.variables[write.variable];
    if (variable.is_extern) continue;
    refusals.push_back({write.instruction->place.ptx_line, write_message(variable, write.use),
                        author.place(write.instruction, variable), write.instruction->text});
  }
  for (const size_t index : flow.functions) {
    for (const ptx::Instruction& instruction : module.functions[index].body) {
      const bool counts_launches =
          std::any_of(instruction.operands.begin(), instruction.operands.end(), [](const ptx::Operand& operand) {
            return operand.kind == ptx::OperandKind::kSpecial && operand.name == "%gridid";
          });
      // PTX ISA, "tensormap.replace", "tensormap.cp_fenceproxy": a descriptor of the kernel's own, which the checks of
      // the plan's maps have not seen.
      if (instruction.opcode == "tensormap")
        refusals.push_back({instruction.place.ptx_line,
                            "changes a tensor map on the device; maps come from the plan (\"tensor_map\") alone",
                            author.place(instruction.place), instruction.text});
      if (counts_launches)
        refusals.push_back({instruction.place.ptx_line, "reads %gridid, which tells one launch from another",
                            author.place(instruction.place), instruction.text});
    }
  }
  uint64_t embedded_bytes = 0;
  const ptx::Variable* largest = nullptr;
  for (const Mention& mention : flow.variables) {
    const ptx::Variable& variable = module.variables[mention.index];
    const bool is_table =
        variable.space == ptx::Space::kConst || (variable.space == ptx::Space::kGlobal && !variable.initial.empty());
    if (!is_table) continue;
    embedded_bytes += variable.bytes;
    if (largest == nullptr || variable.bytes > largest->bytes) largest = &variable;
  }
  if (embedded_bytes > kMaxEmbeddedBytes)
    refusals.push_back(
        {largest->place.ptx_line,
         fmt::format("embedded data: {} bytes of constants and tables, the largest '{}', are above the limit "
                     "of {} bytes",
                     embedded_bytes, readable(largest->name), kMaxEmbeddedBytes),
         author.place(nullptr, *largest), ""});
  if (refusals.empty()) return std::nullopt;
  return *std::min_element(refusals.begin(), refusals.end(),
                           [](const Refusal& a, const Refusal& b) { return a.ptx_line < b.ptx_line; });
}

// ------------------------------------------------------------------------------------------ notes

bool has_modifier(const ptx::Instruction& instruction, std::string_view part) {
  return std::any_of(instruction.modifiers.begin(), instruction.modifiers.end(),
                     [&](const std::string& modifier) { return modifier.find(part) != std::string::npos; });
}

/// What a reader of the record should know of one instruction; one kind of note is given once, with its first place.
void note_instruction(const ptx::Instruction& instruction, const Author& author, std::set<std::string>* given,
                      std::vector<std::string>* notes) {
  const auto note = [&](const std::string& what) {
    if (given->insert(what).second) notes->push_back(fmt::format("{} ({})", what, author.place(instruction.place)));
  };
  for (const ptx::Operand& operand : instruction.operands) {
    if (operand.kind != ptx::OperandKind::kSpecial) continue;
    const std::string& name = operand.name;
    if (starts_with_any(name, {"%clock", "%globaltimer", "%pm"})) note("reads a clock: " + name);
    if (name == "%smid" || name == "%nsmid" || name == "%warpid" || name == "%nwarpid")
      note("reads where it runs: " + name);
  }
  if (instruction.opcode == "createpolicy" || has_modifier(instruction, "evict_last") ||
      has_modifier(instruction, "cache_hint"))
    note("uses cache eviction policies");
  if ((instruction.opcode == "ld" || instruction.opcode == "st") && has_modifier(instruction, "volatile"))
    note("uses volatile accesses");
  if (instruction.opcode == "trap" || instruction.opcode == "brkpt") note("may stop itself: " + instruction.opcode);
  if (instruction.opcode == "nanosleep") note("sleeps: nanosleep");
}

std::vector<std::string> make_notes(const ptx::Module& module, const AddressFlow& flow, const Author& author) {
  std::vector<std::string> notes;
  std::set<std::string> given;
  for (const Mention& mention : flow.variables) {
    const ptx::Variable& variable = module.variables[mention.index];
    if (variable.space == ptx::Space::kGlobal)
      notes.push_back(fmt::format("reads module-scope table '{}', {} bytes", readable(variable.name), variable.bytes));
    if (variable.space == ptx::Space::kConst)
      notes.push_back(fmt::format("reads constant table '{}', {} bytes", readable(variable.name), variable.bytes));
  }
  for (const size_t index : flow.functions) {
    const ptx::Function& function = module.functions[index];
    uint64_t local_bytes = 0;
    for (const ptx::Variable& variable : function.variables)
      if (variable.space == ptx::Space::kLocal) local_bytes += variable.bytes;
    if (local_bytes > 0)
      notes.push_back(
          fmt::format("uses local memory: {} bytes per thread in '{}'", local_bytes, readable(function.name)));
    for (const ptx::Instruction& instruction : function.body) note_instruction(instruction, author, &given, &notes);
  }
  return notes;
}

Failure failure(Verdict verdict, std::string message, std::string place, std::string detail) {
  Failure result;
  result.verdict = verdict;
  result.check = "admission";
  result.message = std::move(message);
  result.place = std::move(place);
  result.detail = std::move(detail);
  return result;
}

}  // namespace

Judged<Admission> admit(const CompiledModule& module, const Candidate& candidate) {
  const Result<ptx::Module> parsed = ptx::parse(module.ptx);
  if (!parsed.ok()) {
    Error error = parsed.error();
    const std::string line = error.place.compare(0, 5, "line ") == 0 ? error.place.substr(5) : "";
    error.place.clear();
    std::string place;
    if (!line.empty()) place = candidate.is_ptx ? candidate.path + ":" + line : "ptx line " + line;
    return failure(Verdict::kUnsupported, "the PTX cannot be read: " + to_text(error), place, "");
  }
  const ptx::Module& tree = parsed.value();
  const Author author(tree, candidate);
  const AddressFlow flow = follow_addresses(tree);
  if (!flow.is_complete)
    return failure(Verdict::kUnsupported, "addresses of module-scope variables spread too far to be followed", "", "");
  if (const auto refusal = first_refusal(tree, flow, author))
    return failure(Verdict::kRefused, refusal->message, refusal->place, refusal->detail);
  return Admission{make_notes(tree, flow, author)};
}

}  // namespace stepbench
