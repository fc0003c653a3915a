// One teacher-forced case: a few consecutive steps, each judged from exactly the state the candidate itself had before
// it, so that an error is charged to the step and element that made it.
#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "harness/checks.h"

namespace stepbench {
namespace {

/// A step with the overflow flag set must leave every buffer as it was, bit by bit.
std::optional<Failure> judge_skipped(const TaskSpec& task, const BufferBytes& before, const BufferBytes& after) {
  const std::optional<BitDifference> difference = first_difference(task, Role::kInOut, before, after);
  if (!difference) return std::nullopt;
  return difference_failure(
      task, *difference, Verdict::kWrongResult,
      fmt::format("{} was changed in a step with found_inf = 1 at tensor {} element {}: before {:.9g}, after {:.9g}",
                  task.buffers[difference->buffer].name, difference->tensor, difference->element, difference->first,
                  difference->second));
}

std::optional<Failure> judge_inputs(const TaskSpec& task, const BufferBytes& written, const BufferBytes& read) {
  const std::optional<BitDifference> difference = first_difference(task, Role::kIn, written, read);
  if (!difference) return std::nullopt;
  return difference_failure(task, *difference, Verdict::kWrongResult,
                            fmt::format("input buffer {} was changed at tensor {} element {}: was {:.9g}, is {:.9g}",
                                        task.buffers[difference->buffer].name, difference->tensor, difference->element,
                                        difference->first, difference->second));
}

/// Hyper of a skipped step with every field at the task's default: a flag that is looked at only together with
/// something else (a scale that is not 1, say) shows here.
Result<HyperValues> skipped_at_defaults(const TaskSpec& task, int64_t step, bool is_first) {
  std::vector<std::pair<std::string, double>> flags;
  for (const HyperField& field : task.hyper) {
    if (field.draw == "found_inf") flags.emplace_back(field.name, 1);
    if (field.draw == "first_step") flags.emplace_back(field.name, is_first ? 1 : 0);
  }
  return hyper_from_defaults(task, step, flags);
}

int64_t state_elements(const TaskSpec& task, std::span<const TensorShape> tensors) {
  int64_t sum = 0;
  for (const BufferSpec& buffer : task.buffers) {
    if (buffer.role != Role::kInOut) continue;
    for (const TensorShape& shape : tensors) sum += buffer_elements(buffer, shape);
  }
  return sum;
}

}  // namespace

Result<CaseOutcome> run_teacher_case(const CheckContext& context, const std::string& check, const CaseSpec& spec,
                                     const CaseData& data, const CancelFlag& cancel, int threads) {
  const auto start = std::chrono::steady_clock::now();
  const TaskSpec& task = context.task;
  CaseOutcome outcome;
  outcome.report.check = check;
  outcome.report.case_name = spec.name;
  const auto finish = [&](std::optional<Failure> failure, int64_t step) {
    if (failure) {
      outcome.report.verdict = failure->verdict;
      outcome.failure = in_case(std::move(*failure), check, spec.name, data.seed, step);
    }
    outcome.report.wall_ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    return outcome;
  };

  Result<Judged<Rig>> opened = open_rig(context, spec.tensors, spec.offset_elements);
  if (!opened.ok()) return opened.error();
  if (!opened.value().ok()) return finish(opened.value().failure, -1);
  Rig rig = std::move(*opened.value().value);

  const Result<HyperTrajectory> trajectory = draw_hyper(task, spec.family, derive_seed(data.seed, "hyper"));
  if (!trajectory.ok()) return trajectory.error();
  // A task whose first step is special starts it from momentum zero; all others meet valid non-zero states at any t.
  const bool starts_fresh = spec.first_step == 1 && has_draw(task, "first_step");
  const bool skips = spec.with_found_inf && has_draw(task, "found_inf") && spec.steps > 0;
  const int64_t skipped =
      skips ? static_cast<int64_t>(derive_seed(data.seed, "skipped") % static_cast<uint64_t>(spec.steps)) : -1;
  constexpr int32_t kMinStepsForTwo = 4;  // two skipped steps and as many that are not
  const int64_t skipped_again =
      skips && spec.steps >= kMinStepsForTwo
          ? (skipped + 1 +
             static_cast<int64_t>(derive_seed(data.seed, "skipped_again") % static_cast<uint64_t>(spec.steps - 1))) %
                spec.steps
          : -1;

  BufferBytes before, after;
  fill_states(task, spec.tensors, spec.family, data, starts_fresh, before);
  const Result<void> states_written = write_buffers(rig, task, Role::kInOut, before);
  if (!states_written.ok()) return states_written.error();

  JudgeSpace space;
  int64_t t = spec.first_step;
  bool first_pending = starts_fresh;
  for (int64_t k = 0; k < spec.steps; ++k) {
    if (cancel.now()) return finish(std::nullopt, t);
    const bool found_inf = k == skipped || k == skipped_again;
    fill_inputs(task, spec.tensors, found_inf ? std::string("nonfinite") : spec.family, data, k, before);
    const Result<void> inputs_written = write_buffers(rig, task, Role::kIn, before);
    if (!inputs_written.ok()) return inputs_written.error();
    const Result<HyperValues> hyper = k == skipped_again ? skipped_at_defaults(task, t, first_pending)
                                                         : hyper_at(trajectory.value(), t, first_pending, found_inf);
    if (!hyper.ok()) return hyper.error();

    Result<StepReport> report =
        run_step(*rig.session, hyper.value(), derive_seed(data.seed, "scratch", static_cast<uint64_t>(k)));
    if (!report.ok()) return report.error();
    if (report.value().failure) return finish(report.value().failure, t);

    const Result<void> read = read_buffers(rig, task, spec.tensors, Role::kInOut, after);
    if (!read.ok()) return read.error();
    if (found_inf) {
      outcome.report.elements_checked += state_elements(task, spec.tensors);
      if (std::optional<Failure> failure = judge_skipped(task, before, after)) {
        outcome.report.worst_error_ratio = failure->error_ratio;
        outcome.report.worst_buffer = failure->buffer;
        return finish(failure, t);
      }
    } else {
      Result<StepJudgement> judged = judge_step(task, spec.tensors, hyper.value(), before, after, threads, space);
      if (!judged.ok()) return judged.error();
      StepJudgement& judgement = judged.value();
      outcome.report.elements_checked += judgement.elements_checked;
      if (!(judgement.worst_ratio <= outcome.report.worst_error_ratio)) {  // also true for NaN
        outcome.report.worst_error_ratio = judgement.worst_ratio;
        outcome.report.worst_buffer = judgement.worst_buffer;
      }
      if (judgement.failure) return finish(judgement.failure, t);
    }
    const Result<void> inputs_read = read_buffers(rig, task, spec.tensors, Role::kIn, after);
    if (!inputs_read.ok()) return inputs_read.error();
    if (std::optional<Failure> failure = judge_inputs(task, before, after)) return finish(failure, t);

    std::swap(before, after);
    if (!found_inf) {
      ++t;
      first_pending = false;
    }
  }
  return finish(std::nullopt, t);
}

}  // namespace stepbench
