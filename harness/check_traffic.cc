// The traffic case: one step over one aligned tensor, whose exact counts of work go into the record. Judges nothing but
// faults; whether the result is right was settled by the checks before.
#include <fmt/format.h>

#include <array>
#include <utility>

#include "harness/checks.h"

namespace stepbench {

namespace {
constexpr int64_t kTrafficMatrixSide = 32;
static_assert(256 * 256 == kTrafficElements);
}  // namespace

Result<TrafficOutcome> measure_traffic(const CheckContext& context) {
  constexpr int64_t kStep = 10;
  const std::string family = "gaussian";
  const TaskSpec& task = context.task;
  const CaseData data{derive_seed(context.salt, "traffic"), {0}};
  // A square, so that a task over matrices gets one and an element-wise task does not mind; a small one where the work
  // grows faster than the elements.
  const int64_t side = task.family == "matrix" ? kTrafficMatrixSide : 256;
  const std::array<TensorShape, 1> tensors = {make_shape({side, side})};
  TrafficOutcome outcome;
  outcome.params = side * side;
  const std::string name = fmt::format("one tensor of {}", outcome.params);

  Result<Judged<Rig>> opened = open_rig(context, tensors, {});
  if (!opened.ok()) return opened.error();
  if (!opened.value().ok()) {
    outcome.failure = in_case(*opened.value().failure, "traffic", name, data.seed, -1);
    return outcome;
  }
  Rig rig = std::move(*opened.value().value);
  BufferBytes bytes;
  fill_states(task, tensors, family, data, false, bytes);
  fill_inputs(task, tensors, family, data, 0, bytes);
  for (const Role role : {Role::kIn, Role::kInOut}) {
    const Result<void> written = write_buffers(rig, task, role, bytes);
    if (!written.ok()) return written.error();
  }
  const Result<HyperTrajectory> trajectory = draw_hyper(task, family, derive_seed(data.seed, "hyper"));
  if (!trajectory.ok()) return trajectory.error();
  const Result<HyperValues> hyper = hyper_at(trajectory.value(), kStep, false, false);
  if (!hyper.ok()) return hyper.error();
  Result<StepReport> report = run_step(*rig.session, hyper.value(), derive_seed(data.seed, "scratch"));
  if (!report.ok()) return report.error();
  outcome.counters = report.value().counters;
  if (report.value().failure) {
    outcome.failure = in_case(std::move(*report.value().failure), "traffic", name, data.seed, kStep);
  }
  return outcome;
}

}  // namespace stepbench
