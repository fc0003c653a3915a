// The worker process of one candidate: evaluate_isolated (stages.h) starts it, worker_main is what it runs.
#pragma once

#include <string>

#include "harness/model.h"
#include "harness/stages.h"

namespace stepbench {

/// `stepbench __worker`: reads a request on standard input, evaluates, answers on descriptor 3. Returns the exit code.
int worker_main();

/// A record of an evaluation that stopped before or outside of evaluate(): the plan was wrong, or the worker died.
EvalRecord make_stopped_record(const Candidate& candidate, const TaskSpec& task, const EvalOptions& options,
                               const Failure& failure);

}  // namespace stepbench
