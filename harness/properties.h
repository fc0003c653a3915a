// What every right result has, measured by the task's oracle on what a candidate stored (TaskSpec::properties). Part of
// the judgement of one step, check_step.cc.
#pragma once

#include <optional>
#include <span>

#include "harness/checks.h"
#include "harness/model.h"
#include "harness/result.h"
#include "harness/stages.h"
#include "tasks/oracle.h"

namespace stepbench {

struct PropertyOracle {
  OracleProperties measure = nullptr;  ///< null for a task without properties
};
/// The task's own measurement. kInvalidTask where task.json and the oracle disagree on whether there are any, or where
/// this build has no oracle.
Result<PropertyOracle> property_oracle(const TaskSpec& task);

struct PropertyJudgement {
  std::optional<Failure> failure;  ///< of the first bad tensor, its worst property
  double worst_ratio = 0;          ///< value / limit; NaN where a value is NaN
  size_t worst_property = 0;       ///< index in TaskSpec::properties
};
/// Measures every tensor that has elements, on up to `threads` threads. `space` is as the oracle's own step left it:
/// `state` with its values and the inputs as they were given, `stored` with the candidate's, `work` with what the step
/// left, or empty. `windows` as in JudgePart: whole tensors of a longer list. `measure` is what property_oracle gave.
PropertyJudgement judge_properties(const TaskSpec& task, OracleProperties measure, std::span<const TensorShape> tensors,
                                   std::span<const Window> windows, const HyperValues& hyper, JudgeSpace& space,
                                   int threads);

}  // namespace stepbench
