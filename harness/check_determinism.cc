// The check `determinism`: the same case twice, each time on a fresh device with other poison in the scratch memory;
// all state buffers must agree bit by bit. Whether they are right is for the other checks.
#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "harness/checks.h"

namespace stepbench {
namespace {

struct RunOutcome {
  std::optional<Failure> failure;
  int64_t step = -1;
  BufferBytes states;
};

Result<RunOutcome> run_once(const CheckContext& context, const CaseSpec& spec, const CaseData& data, uint64_t run,
                            const CancelFlag& cancel) {
  const TaskSpec& task = context.task;
  RunOutcome outcome;
  Result<Judged<Rig>> opened = open_rig(context, spec.tensors, spec.offset_elements);
  if (!opened.ok()) return opened.error();
  if (!opened.value().ok()) {
    outcome.failure = opened.value().failure;
    return outcome;
  }
  Rig rig = std::move(*opened.value().value);
  const Result<HyperTrajectory> trajectory = draw_hyper(task, spec.family, derive_seed(data.seed, "hyper"));
  if (!trajectory.ok()) return trajectory.error();
  const bool starts_fresh = spec.first_step == 1 && has_draw(task, "first_step");
  BufferBytes bytes;
  fill_states(task, spec.tensors, spec.family, data, starts_fresh, bytes);
  const Result<void> states_written = write_buffers(rig, task, Role::kInOut, bytes);
  if (!states_written.ok()) return states_written.error();
  for (int64_t k = 0; k < spec.steps && !cancel.now(); ++k) {
    fill_inputs(task, spec.tensors, spec.family, data, k, bytes);
    const Result<void> inputs_written = write_buffers(rig, task, Role::kIn, bytes);
    if (!inputs_written.ok()) return inputs_written.error();
    outcome.step = spec.first_step + k;
    const Result<HyperValues> hyper = hyper_at(trajectory.value(), outcome.step, starts_fresh && k == 0, false);
    if (!hyper.ok()) return hyper.error();
    Result<StepReport> report =
        run_step(*rig.session, hyper.value(), derive_seed(data.seed, "scratch", static_cast<uint64_t>(k), run));
    if (!report.ok()) return report.error();
    if (report.value().failure) {
      outcome.failure = std::move(report.value().failure);
      return outcome;
    }
  }
  const Result<void> read = read_buffers(rig, task, spec.tensors, Role::kInOut, outcome.states);
  if (!read.ok()) return read.error();
  return outcome;
}

Result<CaseOutcome> run_case(const CheckContext& context, const std::string& check, const CaseSpec& spec,
                             const CancelFlag& cancel) {
  const auto start = std::chrono::steady_clock::now();
  const TaskSpec& task = context.task;
  const CaseData data = case_data(context, check, spec);
  CaseOutcome outcome;
  outcome.report.check = check;
  outcome.report.case_name = spec.name;
  std::array<RunOutcome, 2> runs;
  for (size_t run = 0; run < runs.size() && !outcome.failure; ++run) {
    Result<RunOutcome> result = run_once(context, spec, data, run, cancel);
    if (!result.ok()) return result.error();
    runs[run] = std::move(result.value());
    if (runs[run].failure) {
      outcome.failure = in_case(std::move(*runs[run].failure), check, spec.name, data.seed, runs[run].step);
    }
  }
  if (!outcome.failure && !cancel.now()) {
    for (size_t b = 0; b < task.buffers.size(); ++b) {
      if (task.buffers[b].role != Role::kInOut) continue;
      for (const TensorShape& shape : spec.tensors) {
        outcome.report.elements_checked += buffer_elements(task.buffers[b], shape);
      }
    }
    if (const auto difference = first_difference(task, Role::kInOut, runs[0].states, runs[1].states)) {
      outcome.failure = in_case(
          difference_failure(task, *difference, Verdict::kNondeterministic,
                             fmt::format("the same input gave two results: {} tensor {} element {} is {:.9g} in the "
                                         "first run and {:.9g} in the second, after {} steps",
                                         task.buffers[difference->buffer].name, difference->tensor, difference->element,
                                         difference->first, difference->second, spec.steps)),
          check, spec.name, data.seed, runs[1].step);
    }
  }
  if (outcome.failure) outcome.report.verdict = outcome.failure->verdict;
  outcome.report.wall_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return outcome;
}

}  // namespace

Result<CheckOutcome> check_determinism(const CheckContext& context, std::span<const CaseGroup> groups) {
  const std::string check = "determinism";
  if (!context.task.bitwise_deterministic) {
    CheckOutcome outcome;
    outcome.notes.push_back("determinism not checked: the task allows results that differ from run to run");
    return outcome;
  }
  Result<std::vector<CaseSpec>> expanded = expand_cases(context.task, groups);
  if (!expanded.ok()) return expanded.error();
  std::vector<CaseSpec>& cases = expanded.value();
  const Result<void> selected = select_case(context, check, cases);
  if (!selected.ok()) return selected.error();
  return run_cases(context, check, cases.size(), [&](size_t index, const CancelFlag& cancel, int) {
    return run_case(context, check, cases[index], cancel);
  });
}

}  // namespace stepbench
