// The closed lists of value families, shared by the generator (inputs.cc) and the reader of task files (task.cc).
#pragma once

#include <span>
#include <string_view>

namespace stepbench {

/// Families that a task may list. The extra family "nonfinite" (inf, -inf and NaN among normal gradients) is for steps
/// with found_inf and is no family of a case.
std::span<const std::string_view> input_family_names();
/// BufferSpec::initial: "parameter", "gradient", "moment", "second_moment".
std::span<const std::string_view> initial_names();

}  // namespace stepbench
