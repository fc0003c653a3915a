// What a record says of single lines of its candidate's source: where it failed, what the compiler and the VM remarked.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "harness/model.h"

namespace stepbench {

enum class FindingKind : uint8_t { kError, kWarning, kNote };

struct LineFinding {
  FindingKind kind = FindingKind::kNote;
  std::string text;
};

/// By line, from 1; within a line errors first and nothing twice. Lines that the source does not have are left out. A
/// place in the plan is shown at the plan's first line.
std::map<int64_t, std::vector<LineFinding>> line_findings(const EvalRecord& record);

/// Lines of a text; a last line feed ends the last line.
std::vector<std::string_view> lines_of(std::string_view text);

/// "kernel.cu" of "some/folder/kernel.cu".
std::string_view base_name(std::string_view path);

}  // namespace stepbench
