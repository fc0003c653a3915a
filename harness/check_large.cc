// The check `large`: the lists of real models, and one beyond 2^31 elements, over a few steps. How much is judged
// depends on the size (LargeRule); data are made on the device (check_window.cc), so that the host keeps little.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "harness/checks.h"

namespace stepbench {
namespace {

constexpr int64_t kFirstStep = 10;  // valid non-zero states
constexpr double kMemoryShare = 0.9;

struct LargeCase {
  std::string name;
  std::vector<TensorShape> tensors;
  int32_t steps = 0;
};

double bytes_of(const TaskSpec& task, std::span<const TensorShape> tensors) {
  double bytes = 0;
  for (const BufferSpec& buffer : task.buffers)
    for (const TensorShape& shape : tensors)
      bytes += static_cast<double>(buffer_elements(buffer, shape)) * dtype_bytes(buffer.dtype);
  return bytes;
}

std::optional<Failure> judge_inputs(const TaskSpec& task, std::span<const Window> windows, const BufferBytes& made,
                                    const BufferBytes& read) {
  std::optional<BitDifference> difference = first_difference(task, Role::kIn, made, read);
  if (!difference) return std::nullopt;
  const Window& window = windows[difference->tensor];
  difference->tensor = static_cast<size_t>(window.tensor);
  difference->element += window.first;
  return difference_failure(
      task, *difference, Verdict::kWrongResult,
      fmt::format("input buffer {} was changed at tensor {} element {}", task.buffers[difference->buffer].name,
                  difference->tensor, difference->element));
}

Result<CaseOutcome> run_case(const CheckContext& context, const LargeCase& one, const LargeRule& rule, int threads) {
  const auto begin = std::chrono::steady_clock::now();
  const TaskSpec& task = context.task;
  CaseOutcome outcome;
  outcome.report.check = "large";
  outcome.report.case_name = one.name;
  const LargeData data{derive_seed(context.salt, "large/" + one.name)};
  const auto finish = [&](std::optional<Failure> failure, int64_t t) {
    if (failure) {
      outcome.report.verdict = failure->verdict;
      outcome.failure = in_case(std::move(*failure), "large", one.name, data.seed, t);
    }
    outcome.report.wall_ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    return outcome;
  };
  Result<Judged<Rig>> opened = open_rig(context, one.tensors, {});
  if (!opened.ok()) return opened.error();
  if (!opened.value().ok()) return finish(opened.value().failure, -1);
  Rig rig = std::move(*opened.value().value);
  const Result<HyperTrajectory> trajectory = draw_hyper(task, "gaussian", derive_seed(data.seed, "hyper"));
  if (!trajectory.ok()) return trajectory.error();
  Result<void> made = generate_buffers(rig, task, one.tensors, Role::kInOut, data, 0, threads);
  if (!made.ok()) return made.error();

  const bool in_parts = judged_in_parts(task);
  const bool every_element = !in_parts || total_elements(one.tensors) <= rule.every_element_limit;
  // In full, where a state before the step must be kept: read after the step before it.
  const std::vector<Window> full = in_parts ? all_windows(one.tensors) : whole_tensors(one.tensors);
  BufferBytes kept, before, after, inputs;
  JudgeSpaces spaces;
  for (int64_t k = 0; k < one.steps; ++k) {
    const int64_t t = kFirstStep + k;
    made = generate_buffers(rig, task, one.tensors, Role::kIn, data, k, threads);
    if (!made.ok()) return made.error();
    const Result<HyperValues> hyper = hyper_at(trajectory.value(), t, false, false);
    if (!hyper.ok()) return hyper.error();
    const std::vector<Window> audit = in_parts
                                          ? audit_windows(one.tensors, rule.audit_elements,
                                                          derive_seed(data.seed, "windows", static_cast<uint64_t>(k)))
                                          : full;
    const bool in_full = every_element || k == 0;
    const std::span<const Window> windows = in_full ? std::span<const Window>(full) : std::span<const Window>(audit);
    if (k > 0 && every_element) {
      std::swap(before, kept);
    } else if (k > 0) {
      const Result<void> read = read_windows(rig, task, one.tensors, Role::kInOut, windows, before);
      if (!read.ok()) return read.error();
    }
    Result<StepReport> report =
        run_step(*rig.session, hyper.value(), derive_seed(data.seed, "scratch", static_cast<uint64_t>(k)));
    if (!report.ok()) return report.error();
    if (report.value().failure) return finish(report.value().failure, t);

    Result<StepJudgement> judged = StepJudgement();
    if (k == 0) {
      judged = judge_first_step(rig, task, one.tensors, hyper.value(), data, threads, spaces);
    } else {
      generate_windows(task, one.tensors, Role::kIn, windows, data, k, threads, before);
      const Result<void> read = read_windows(rig, task, one.tensors, Role::kInOut, windows, after);
      if (!read.ok()) return read.error();
      const Result<std::vector<double>> totals = list_totals(task, one.tensors, hyper.value(), data, k, threads);
      if (!totals.ok()) return totals.error();
      judged = judge_windows(task, one.tensors, windows, hyper.value(), totals.value(), before, after, threads, spaces);
    }
    if (!judged.ok()) return judged.error();
    StepJudgement& judgement = judged.value();
    outcome.report.elements_checked += judgement.elements_checked;
    if (!(judgement.worst_ratio <= outcome.report.worst_error_ratio)) {  // also true for NaN
      outcome.report.worst_error_ratio = judgement.worst_ratio;
      outcome.report.worst_buffer = judgement.worst_buffer;
    }
    if (judgement.failure) return finish(judgement.failure, t);
    generate_windows(task, one.tensors, Role::kIn, audit, data, k, threads, inputs);
    BufferBytes read_back;
    const Result<void> inputs_read = read_windows(rig, task, one.tensors, Role::kIn, audit, read_back);
    if (!inputs_read.ok()) return inputs_read.error();
    if (std::optional<Failure> failure = judge_inputs(task, audit, inputs, read_back)) return finish(failure, t);
    if (every_element && k + 1 < one.steps) {
      if (k == 0) {
        const Result<void> read = read_windows(rig, task, one.tensors, Role::kInOut, full, kept);
        if (!read.ok()) return read.error();
      } else {
        std::swap(kept, after);
      }
    }
  }
  return finish(std::nullopt, kFirstStep + one.steps - 1);
}

}  // namespace

Result<CheckOutcome> check_large(const CheckContext& context, std::span<const LargeSpec> specs, const LargeRule& rule,
                                 const DeviceInfo& info) {
  std::vector<LargeCase> cases;
  std::vector<std::string> notes;
  for (const LargeSpec& spec : specs) {
    if (!context.only_case.empty() && spec.list != context.only_case) continue;
    Result<std::vector<TensorShape>> tensors = tensor_list(spec.list);
    if (!tensors.ok()) return tensors.error();
    const double needed = bytes_of(context.task, tensors.value());
    if (needed > kMemoryShare * static_cast<double>(info.memory_bytes)) {
      notes.push_back(fmt::format("large: the list {} was left out: {:.1f} GiB of buffers, the device has {:.1f}",
                                  spec.list, needed / 0x1p30, static_cast<double>(info.memory_bytes) / 0x1p30));
      continue;
    }
    cases.push_back({spec.list, std::move(tensors.value()), spec.steps});
  }
  if (!context.only_case.empty() && cases.empty() && notes.empty())
    return Error{ErrorCode::kNotFound, "the check large has no such case", "", "the name of a list of the suite",
                 context.only_case};
  Result<CheckOutcome> outcome = run_cases(
      context, "large", cases.size(),
      [&](size_t index, const CancelFlag&, int threads) { return run_case(context, cases[index], rule, threads); });
  if (outcome.ok()) std::move(notes.begin(), notes.end(), std::back_inserter(outcome.value().notes));
  return outcome;
}

}  // namespace stepbench
