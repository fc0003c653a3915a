// The closed lists of value families, shared by the generator (inputs.cc) and the reader of task files (task.cc).
#pragma once

#include <span>
#include <string_view>

namespace stepbench {

/// Families that a task may list. The extra family "nonfinite" (inf, -inf and NaN among normal gradients) is for steps
/// with found_inf and is no family of a case.
std::span<const std::string_view> input_family_names();
/// BufferSpec::initial: "parameter", "gradient", "moment", "second_moment", "bounded_moment" (its square is below every
/// second moment), and shares of values that lie in several buffers: "parameter_copy" (in a narrower format),
/// "parameter_low" (i16, the low half of the fp32 pattern beside its rounded high half), "parameter_error" (what
/// rounding to bf16 takes away), "moment_code" and "moment_scale" (u8 codes and fp32 scales of blocks of 256), the same
/// for "second_moment". For matrices: "orthogonal" (rows*rows or cols*cols), "left_factor" (rows*rows) and
/// "right_factor" (cols*cols), averages of G G^T and G^T G, and "left_factor_root" and "right_factor_root", about their
/// inverse fourth roots. "parameter_or_zero" and "moment_or_zero": one tensor in four is zero throughout.
std::span<const std::string_view> initial_names();
/// For a share, the value that it is a share of; empty for a whole value. Shares of one value are made from the same
/// random numbers: the same seed.
std::string_view shared_value(std::string_view initial);

}  // namespace stepbench
