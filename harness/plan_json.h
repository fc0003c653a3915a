// The plan's JSON -> Plan: syntax, keys, types and bounds. Names are checked against the task elsewhere (plan.h).
#pragma once

#include <string>
#include <string_view>

#include "harness/model.h"
#include "harness/plan_tensor_map.h"
#include "harness/result.h"

namespace stepbench {

struct ParsedPlan {
  std::string task;  ///< empty when the plan names none
  std::string note;
  bool has_launches = false;  ///< without, the default launch is used
  int32_t first_line = 1;     ///< of the JSON in the file
  Plan plan;
};

/// Parses file[begin, end), which must be valid UTF-8. Failure `bad_candidate`: syntax errors carry "path:line:column"
/// in the file's coordinates (columns count characters), all others "path: <JSON pointer>".
Judged<ParsedPlan> parse_plan_json(const std::string& path, std::string_view file, size_t begin, size_t end);

/// Reads the object of a `tensor_map{...}` argument. kInvalidInput with a JSON pointer into it.
Result<PlanTensorMap> parse_tensor_map_json(std::string_view json);

/// [A-Za-z_][A-Za-z0-9_]*, at most 64 characters.
bool is_identifier(std::string_view text);

}  // namespace stepbench
