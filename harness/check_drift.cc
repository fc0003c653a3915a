// The check `drift`: a long free-running trajectory of the candidate beside the oracle's own in double. At hidden steps
// both the distance of the two and the single step taken there are judged; after a failure the run is repeated with
// every step judged, which names the first step and element that left the band.
//
// The candidate's state is read at the hidden steps only. Gradients and the oracle's trajectory are produced ahead on a
// second thread when there is one to spare (StepFeed).
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "harness/checks.h"

namespace stepbench {
namespace {

// 0.9^t leaves the normal fp32 range at t = 829: a step beyond it shows divisors that underflow.
constexpr int64_t kUnderflowStep = 829;
constexpr size_t kStepsAhead = 8;

/// One drift case, expanded.
struct DriftCase {
  std::string name;
  std::string family;
  std::vector<TensorShape> tensors;
  int64_t steps = 0;
  CaseData data;
  std::vector<int64_t> checkpoints;
};

/// What the device side needs for one step.
struct FedStep {
  int64_t t = 0;
  bool judged = false;
  HyperValues hyper;
  BufferBytes inputs;
  HostState expected;  ///< oracle's own trajectory after this step; filled only when judged
  std::optional<Error> error;
};

/// Steps 1..last in order: gradients, hyperparameters and the oracle's trajectory.
class StepFeed {
 public:
  StepFeed(const TaskSpec& task, const DriftCase& one, const BufferBytes& initial, HyperTrajectory trajectory,
           int64_t last, bool judge_all, bool ahead)
      : task_(task), case_(one), trajectory_(std::move(trajectory)), last_(last), judge_all_(judge_all) {
    to_host(task_, Role::kInOut, initial, state_);
    first_step_field_ = has_draw(task_, "first_step");
    if (ahead) thread_ = std::jthread([this](const std::stop_token& stop) { run_ahead(stop); });
  }

  /// The next step; `reuse` gives its memory back.
  void next(FedStep& reuse) {
    if (!thread_.joinable()) {
      produce(reuse);
      return;
    }
    std::unique_lock lock(mutex_);
    if (reuse.t > 0) free_.push_back(std::move(reuse));
    changed_.wait(lock, [this] { return !ready_.empty(); });
    reuse = std::move(ready_.front());
    ready_.pop_front();
    lock.unlock();
    changed_.notify_all();
  }

 private:
  void produce(FedStep& step) {
    const int64_t t = ++produced_;
    step.t = t;
    step.judged = judge_all_ || std::binary_search(case_.checkpoints.begin(), case_.checkpoints.end(), t);
    fill_inputs(task_, case_.tensors, case_.family, case_.data, t, step.inputs);
    Result<HyperValues> hyper = hyper_at(trajectory_, t, first_step_field_ && t == 1, false);
    if (!hyper.ok()) {
      step.error = hyper.error();
      return;
    }
    step.hyper = std::move(hyper.value());
    to_host(task_, Role::kIn, step.inputs, state_);
    const Result<void> stepped = oracle_step(task_, case_.tensors, step.hyper, state_, nullptr, 1);
    if (!stepped.ok()) step.error = stepped.error();
    if (step.judged) step.expected = state_;
  }

  void run_ahead(const std::stop_token& stop) {
    for (int64_t i = 0; i < last_; ++i) {
      FedStep step;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, stop, [this] { return ready_.size() < kStepsAhead; });
        if (stop.stop_requested()) return;
        if (!free_.empty()) {
          step = std::move(free_.front());
          free_.pop_front();
        }
      }
      produce(step);
      const bool ended = step.error.has_value();
      {
        const std::lock_guard lock(mutex_);
        ready_.push_back(std::move(step));
      }
      changed_.notify_all();
      if (ended) return;
    }
  }

  const TaskSpec& task_;
  const DriftCase& case_;
  HyperTrajectory trajectory_;
  int64_t last_;
  bool judge_all_;
  bool first_step_field_ = false;
  HostState state_;
  int64_t produced_ = 0;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<FedStep> ready_, free_;
  std::jthread thread_;  // last: stops before what it uses goes away
};

/// Distance of candidate and oracle in one buffer at one step, over all tensors.
struct Distance {
  DriftPoint point;
  double rms_error = 0;
  double rounding_share = 0;  ///< of the limit, in units of the movement: roundings to the storage format
  int64_t worst_tensor = -1, worst_element = -1;
  double worst_expected = 0, worst_got = 0;
};

/// Units in the last place of all elements, summed.
struct Ulps {
  double squares = 0, fourth_powers = 0, most_square = 0;
  void add(double ulp) {
    const double square = ulp * ulp;
    squares += square;
    fourth_powers += square * square;
    most_square = std::max(most_square, square);
  }
};

/// Sum of squared errors, over all elements, that nobody can avoid after so many steps.
double unavoidable(const BufferSpec& buffer, const Ulps& ulps, int64_t step) {
  const auto t = static_cast<double>(step);
  switch (buffer.rounding) {
    // Every step rounds the stored value by up to half an ulp, and two or three times where decay and update are
    // applied one after the other: a quarter of what one step is allowed. Such roundings add up like a random walk.
    // Without this share a tiny learning rate would charge the number format to the candidate.
    case Rounding::kNone: {
      const double per_step = std::max(0.5, 0.25 * buffer.tolerance.step_ulp);
      return per_step * per_step * t * ulps.squares;
    }
    // A random walk too, of at most f (1 - f) <= 1/4 ulp^2 per step. Four times that, and as much again as a few large
    // elements may make it vary, for it is chance.
    case Rounding::kStochastic: return t * (ulps.squares + 4 * std::sqrt(ulps.fourth_powers));
    // The oracle rounds alike. Errors of a few ulp of fp32 put a value on the other side of a boundary once in about
    // 2^15 steps, and then it is a whole ulp away, perhaps for good. So many of these are expected; four standard
    // deviations more and the twelve largest elements are left to chance (two of them were seen to cross in 200
    // steps). Elements that are all alike would cross together: a task with a rounding has no long runs of the family
    // "constant" over its rounded states.
    case Rounding::kNearest: {
      constexpr double kCrossings = 0x1p-15, kLargest = 12;
      return kCrossings * t * ulps.squares + 4 * std::sqrt(kCrossings * t * ulps.fourth_powers) +
             kLargest * ulps.most_square;
    }
  }
  SB_ASSERT(false);
  return 0;
}

Distance measure(const BufferSpec& buffer, const std::vector<std::vector<double>>& start,
                 const std::vector<std::vector<double>>& expected, const std::vector<std::vector<double>>& got,
                 int64_t step) {
  Distance distance;
  double error_squares = 0, movement_squares = 0, signed_sum = 0, signed_squares = 0;
  Ulps ulps;
  double worst = -1;
  int64_t count = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    for (size_t e = 0; e < expected[i].size(); ++e) {
      const double error = got[i][e] - expected[i][e];
      const double movement = expected[i][e] - start[i][e];
      const double along = movement > 0 ? error : movement < 0 ? -error : 0;
      ulps.add(ulp_of(buffer.dtype, expected[i][e]));
      error_squares += error * error;
      movement_squares += movement * movement;
      signed_sum += along;
      signed_squares += along * along;
      if (!(std::fabs(error) <= worst)) {  // also true for NaN
        if (!std::isnan(worst)) {
          distance.worst_tensor = static_cast<int64_t>(i);
          distance.worst_element = static_cast<int64_t>(e);
          distance.worst_expected = expected[i][e];
          distance.worst_got = got[i][e];
          worst = std::fabs(error);
        }
      }
      ++count;
    }
  }
  distance.point.step = step;
  if (count == 0) return distance;
  const double n = static_cast<double>(count);
  const double movement = std::sqrt(movement_squares / n);
  distance.rms_error = std::sqrt(error_squares / n);
  const double rounding = std::sqrt(unavoidable(buffer, ulps, step) / n);
  const double limit = buffer.tolerance.drift_ratio * movement + rounding;
  if (buffer.tolerance.drift_ratio > 0) distance.point.error_ratio = distance.rms_error / limit;
  const double mean = signed_sum / n;
  if (movement > 0) {
    distance.rounding_share = rounding / movement;
    distance.point.rms_ratio = distance.rms_error / movement;
    distance.point.bias_ratio = mean / movement;
  } else {
    distance.point.rms_ratio = distance.rms_error > 0 ? HUGE_VAL : 0;
  }
  if (count > 1 && mean != 0) {
    const double variance = std::max(0.0, (signed_squares - n * mean * mean) / (n - 1));
    // All elements alike up to the rounding of these sums: no chance is left in it.
    const bool alike = variance <= 1e-12 * mean * mean;
    distance.point.bias_sigma = alike ? HUGE_VAL : std::fabs(mean) / std::sqrt(variance / n);
  }
  return distance;
}

Failure drift_failure(const BufferSpec& buffer, const Distance& distance) {
  Failure failure;
  failure.verdict = Verdict::kDrift;
  const std::string share =
      distance.rounding_share > 0.01 * buffer.tolerance.drift_ratio
          ? fmt::format(", with {:.2g} for roundings that nobody can avoid", distance.rounding_share)
          : std::string();
  failure.message = fmt::format(
      "{} drifted: RMS error is {:.3g} of the RMS movement at step {} (limit {:.3g}{}), though no single step is "
      "wrong; "
      "furthest at tensor {} element {}: expected {:.9g}, got {:.9g}",
      buffer.name, distance.point.rms_ratio, distance.point.step,
      buffer.tolerance.drift_ratio + distance.rounding_share, share, distance.worst_tensor, distance.worst_element,
      distance.worst_expected, distance.worst_got);
  failure.detail = fmt::format("error along the movement: {:.3g} of the movement, {}", distance.point.bias_ratio,
                               std::isinf(distance.point.bias_sigma)
                                   ? std::string("the same in every element")
                                   : fmt::format("{:.1f} standard errors from zero", distance.point.bias_sigma));
  failure.step = distance.point.step;
  failure.buffer = buffer.name;
  failure.tensor = distance.worst_tensor;
  failure.element = distance.worst_element;
  failure.expected = distance.worst_expected;
  failure.got = distance.worst_got;
  failure.error_ratio = *distance.point.error_ratio;
  return failure;
}

struct RunOutcome {
  std::optional<Failure> failure;
  std::vector<DriftCurve> curves;
  int64_t elements_checked = 0;
  double worst_ratio = 0;
  std::string worst_buffer;
};

void note_ratio(RunOutcome& outcome, double ratio, const std::string& buffer) {
  if (ratio <= outcome.worst_ratio) return;  // false for NaN, which is the worst of all
  outcome.worst_ratio = ratio;
  outcome.worst_buffer = buffer;
}

/// What was read at one judged step.
struct Readings {
  BufferBytes before, after;
  JudgeSpace space;
  HostState got;
};

/// Judges one step: the step itself first, then how far the trajectory is from the oracle's.
Result<void> judge(const TaskSpec& task, const DriftCase& one, const FedStep& step, const HostState& start,
                   Readings& readings, RunOutcome& outcome, std::vector<std::vector<double>>& rms_errors) {
  Result<StepJudgement> judged =
      judge_step(task, one.tensors, step.hyper, readings.before, readings.after, 1, readings.space);
  if (!judged.ok()) return judged.error();
  outcome.elements_checked += judged.value().elements_checked;
  note_ratio(outcome, judged.value().worst_ratio, judged.value().worst_buffer);
  if (judged.value().failure) {
    outcome.failure = std::move(judged.value().failure);
    outcome.failure->step = step.t;
  }
  to_host(task, Role::kInOut, readings.after, readings.got);
  size_t curve = 0;
  for (size_t b = 0; b < task.buffers.size(); ++b) {
    const BufferSpec& buffer = task.buffers[b];
    if (buffer.role != Role::kInOut) continue;
    const Distance distance = measure(buffer, start.values[b], step.expected.values[b], readings.got.values[b], step.t);
    outcome.curves[curve].points.push_back(distance.point);
    rms_errors[curve].push_back(distance.rms_error);
    ++curve;
    if (!distance.point.error_ratio) continue;  // not judged
    note_ratio(outcome, *distance.point.error_ratio, buffer.name);
    if (!outcome.failure && !(*distance.point.error_ratio <= 1)) outcome.failure = drift_failure(buffer, distance);
  }
  return {};
}

/// Steps 1..last on a fresh device. `judge_all`: every step, not only the checkpoints; for the bisection.
Result<RunOutcome> run_trajectory(const CheckContext& context, const DriftCase& one, int64_t last, bool judge_all,
                                  bool stop_at_drift, const CancelFlag& cancel, bool ahead) {
  const TaskSpec& task = context.task;
  RunOutcome outcome;
  for (const BufferSpec& buffer : task.buffers) {
    if (buffer.role != Role::kInOut) continue;
    DriftCurve curve;
    curve.case_name = one.name;
    curve.buffer = buffer.name;
    curve.limit_ratio = buffer.tolerance.drift_ratio;
    outcome.curves.push_back(std::move(curve));
  }
  Result<Judged<Rig>> opened = open_rig(context, one.tensors, {});
  if (!opened.ok()) return opened.error();
  if (!opened.value().ok()) {
    outcome.failure = opened.value().failure;
    return outcome;
  }
  Rig rig = std::move(*opened.value().value);
  Result<HyperTrajectory> trajectory = draw_hyper(task, one.family, derive_seed(one.data.seed, "hyper"));
  if (!trajectory.ok()) return trajectory.error();
  BufferBytes initial;
  fill_states(task, one.tensors, one.family, one.data, true, initial);
  const Result<void> states_written = write_buffers(rig, task, Role::kInOut, initial);
  if (!states_written.ok()) return states_written.error();
  HostState start;
  to_host(task, Role::kInOut, initial, start);

  StepFeed feed(task, one, initial, std::move(trajectory.value()), last, judge_all, ahead);
  Readings readings;
  FedStep step;
  std::vector<std::vector<double>> rms_errors(outcome.curves.size());
  std::vector<int64_t> judged_steps;
  std::optional<Failure> first_drift;
  for (int64_t t = 1; t <= last && !cancel.now(); ++t) {
    feed.next(step);
    if (step.error) return *step.error;
    const Result<void> inputs_written = write_buffers(rig, task, Role::kIn, step.inputs);
    if (!inputs_written.ok()) return inputs_written.error();
    if (step.judged) {
      const Result<void> read = read_buffers(rig, task, one.tensors, Role::kInOut, readings.before);
      if (!read.ok()) return read.error();
      for (size_t b = 0; b < task.buffers.size(); ++b) {
        if (task.buffers[b].role == Role::kIn) readings.before[b] = step.inputs[b];
      }
    }
    Result<StepReport> report =
        run_step(*rig.session, step.hyper, derive_seed(one.data.seed, "scratch", static_cast<uint64_t>(t)));
    if (!report.ok()) return report.error();
    if (report.value().failure) {
      outcome.failure = std::move(report.value().failure);
      outcome.failure->step = t;
      return outcome;
    }
    if (!step.judged) continue;
    const Result<void> read = read_buffers(rig, task, one.tensors, Role::kInOut, readings.after);
    if (!read.ok()) return read.error();
    judged_steps.push_back(t);
    const Result<void> done = judge(task, one, step, start, readings, outcome, rms_errors);
    if (!done.ok()) return done.error();
    if (!outcome.failure) continue;
    if (outcome.failure->verdict != Verdict::kDrift || stop_at_drift) break;
    if (!first_drift) first_drift = std::move(outcome.failure);
    outcome.failure.reset();
  }
  if (!outcome.failure) outcome.failure = std::move(first_drift);
  for (size_t c = 0; c < outcome.curves.size(); ++c) {
    outcome.curves[c].growth_exponent = growth_exponent(judged_steps, rms_errors[c]);
  }
  return outcome;
}

/// Repeats the run up to the step where the failure was seen, judging every step.
Result<Failure> bisect(const CheckContext& context, const DriftCase& one, const Failure& seen,
                       const CancelFlag& cancel) {
  Result<RunOutcome> again = run_trajectory(context, one, seen.step, true, false, cancel, context.threads > 1);
  if (!again.ok()) return again.error();
  if (!again.value().failure) {
    Failure failure = seen;
    failure.detail += (failure.detail.empty() ? "" : "\n");
    failure.detail += "a second run from the start did not show it: the candidate's results differ from run to run";
    return failure;
  }
  Failure failure = std::move(*again.value().failure);
  if (failure.verdict == Verdict::kWrongResult) {
    failure.message = fmt::format("left the band at step {}: {}", failure.step, failure.message);
  }
  if (failure.step != seen.step) {
    failure.detail += (failure.detail.empty() ? "" : "\n") + fmt::format("first seen at the hidden step {}", seen.step);
  }
  return failure;
}

Result<CaseOutcome> run_case(const CheckContext& context, const DriftCase& one, const CancelFlag& cancel, int threads) {
  const auto begin = std::chrono::steady_clock::now();
  CaseOutcome outcome;
  Result<RunOutcome> run = run_trajectory(context, one, one.steps, false, true, cancel, threads > 1);
  if (!run.ok()) return run.error();
  outcome.report.check = "drift";
  outcome.report.case_name = one.name;
  outcome.report.elements_checked = run.value().elements_checked;
  outcome.report.worst_error_ratio = run.value().worst_ratio;
  outcome.report.worst_buffer = run.value().worst_buffer;
  outcome.drift = std::move(run.value().curves);
  if (run.value().failure) {
    Failure failure = std::move(*run.value().failure);
    const bool judged = failure.verdict == Verdict::kWrongResult || failure.verdict == Verdict::kDrift;
    if (judged && !cancel.now()) {
      Result<Failure> refined = bisect(context, one, failure, cancel);
      if (!refined.ok()) return refined.error();
      failure = std::move(refined.value());
    }
    outcome.report.verdict = failure.verdict;
    outcome.failure = in_case(std::move(failure), "drift", one.name, one.data.seed, -1);
  }
  outcome.report.wall_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  return outcome;
}

}  // namespace

std::vector<int64_t> draw_checkpoints(int64_t steps, int32_t hidden, uint64_t seed) {
  std::vector<int64_t> points;
  if (steps <= 0) return points;
  const double log_steps = std::log(static_cast<double>(steps));
  const auto draw = [&](int64_t low, int64_t high, uint64_t stratum) {  // in [low, high]
    const uint64_t width = static_cast<uint64_t>(high - low + 1);
    return low + static_cast<int64_t>(derive_seed(seed, "checkpoint", stratum) % width);
  };
  for (int32_t i = 0; i < hidden; ++i) {
    const auto edge = [&](int32_t k) {
      return static_cast<int64_t>(std::exp(log_steps * static_cast<double>(k) / static_cast<double>(hidden)));
    };
    const int64_t low = std::clamp<int64_t>(edge(i), 1, steps);
    const int64_t high = std::clamp<int64_t>(edge(i + 1) - 1, low, steps);
    points.push_back(draw(low, high, static_cast<uint64_t>(i)));
  }
  if (hidden > 0 && steps > kUnderflowStep + 1) {
    points.push_back(draw(kUnderflowStep + 1, steps - 1, static_cast<uint64_t>(hidden)));
  }
  points.push_back(steps);
  std::sort(points.begin(), points.end());
  points.erase(std::unique(points.begin(), points.end()), points.end());
  return points;
}

double growth_exponent(std::span<const int64_t> steps, std::span<const double> rms_errors) {
  double n = 0, sum_x = 0, sum_y = 0, sum_xx = 0, sum_xy = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!(rms_errors[i] > 0) || !std::isfinite(rms_errors[i])) continue;
    const double x = std::log(static_cast<double>(steps[i]));
    const double y = std::log(rms_errors[i]);
    n += 1;
    sum_x += x;
    sum_y += y;
    sum_xx += x * x;
    sum_xy += x * y;
  }
  const double spread = n * sum_xx - sum_x * sum_x;
  return n >= 2 && spread > 0 ? (n * sum_xy - sum_x * sum_y) / spread : 0;
}

Result<CheckOutcome> check_drift(const CheckContext& context, std::span<const DriftSpec> specs) {
  const std::string check = "drift";
  std::vector<DriftCase> cases;
  std::string known;
  for (const DriftSpec& spec : specs) {
    CaseGroup group;  // for tensors and names like those of the other checks
    group.lists = {spec.list};
    group.families = spec.families;
    group.first_steps = {1};
    Result<std::vector<CaseSpec>> expanded = expand_cases(context.task, std::span<const CaseGroup>(&group, 1));
    if (!expanded.ok()) return expanded.error();
    for (CaseSpec& named : expanded.value()) {
      named.name += fmt::format("-{}", spec.steps);
      known += (known.empty() ? "" : ", ") + named.name;
      if (!context.only_case.empty() && named.name != context.only_case) continue;
      DriftCase one;
      one.data = case_data(context, check, named);
      one.name = std::move(named.name);
      one.family = std::move(named.family);
      one.tensors = std::move(named.tensors);
      one.steps = spec.steps;
      one.checkpoints = draw_checkpoints(spec.steps, spec.hidden_checkpoints, one.data.seed);
      cases.push_back(std::move(one));
    }
  }
  if (!context.only_case.empty() && cases.empty()) {
    return Error{ErrorCode::kNotFound, "the check drift has no such case", "", known, context.only_case};
  }
  return run_cases(context, check, cases.size(), [&](size_t index, const CancelFlag& cancel, int threads) {
    return run_case(context, cases[index], cancel, threads);
  });
}

}  // namespace stepbench
