// Candidate files in, one outcome each: what `eval`, `regress` and `submit` share. Where records are kept and what is
// printed is theirs.
#pragma once

#include <functional>
#include <optional>

#include "harness/commands.h"
#include "harness/resume.h"
#include "harness/stages.h"

namespace stepbench {

/// Device, suite, salt (drawn when none is given), threads per job. kUsage; kUnavailable when a GPU is asked for and
/// there is none.
Result<EvalOptions> make_eval_options(const EvalArguments& arguments);

/// Both are called by several threads, but never at the same time, nor while progress is shown.
struct EvaluateHooks {
  /// The record of an earlier run of the same evaluation, if there is one. May be empty.
  std::function<Result<std::optional<EvalRecord>>(const ResumeKey& key)> find_finished;
  /// Takes an outcome the moment that it is there: `index` is that of the file.
  std::function<void(size_t index, EvaluatedFile outcome)> take;
};

/// All of `arguments.files`, up to `arguments.jobs` at a time, each in a worker process. A file that cannot be read as
/// a candidate at all gives an error, one with a wrong plan a record.
void evaluate_each(const EvalArguments& arguments, const EvalOptions& options, const EvaluateHooks& hooks);

}  // namespace stepbench
