// How far drift is from its limit.
#pragma once

#include <optional>

#include "harness/model.h"

namespace stepbench {

/// Error at one point of a drift curve of `record`, in units of its whole limit. Nothing where the drift of that buffer
/// is not judged. Records that do not say it (see DriftPoint) give an upper bound: the share of roundings in the limit
/// is not known there, but no error of a case is larger than its worst.
std::optional<double> drift_error_ratio(const EvalRecord& record, const DriftCurve& curve, const DriftPoint& point);

/// The largest over all curves and points; nothing without a judged one. A value that is not a number is the worst.
std::optional<double> worst_drift_error_ratio(const EvalRecord& record);

}  // namespace stepbench
