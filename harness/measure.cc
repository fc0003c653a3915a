// Timed trajectories of two kernels side by side (see measure.h). What the samples say is scoring/speedup.h's.
#include "harness/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "harness/plan.h"
#include "scoring/speedup.h"

namespace stepbench {
namespace {

constexpr int64_t kFirstStep = 10;  // valid non-zero states
constexpr const char* kMethod =
    "events around one step, cold L2 (4 x its size read before), queued behind a gate, ABBA pairs";

/// Buffers for one list, and the trajectory that goes through them, whoever makes the next step.
struct Bench {
  Rig rig;  ///< the candidate's
  LargeData data;
  HyperTrajectory trajectory;
  int64_t steps = 0;  ///< run so far
  int threads = 1;
  BufferBytes before, after;  ///< of a judged step; their memory is used again
  std::unique_ptr<JudgeSpaces> spaces = std::make_unique<JudgeSpaces>();
};

/// One of the kernels that take turns.
struct Side {
  std::string name;
  Session* session = nullptr;
  SessionPtr own;           ///< of a baseline; the candidate's is the bench's
  std::set<int64_t> stops;  ///< which of its runs are verified
  int64_t runs = 0, verified_steps = 0, verified_elements = 0;
  bool as_graph = false;
};

struct List {
  const TaskSpec& task;
  std::string name;
  std::vector<TensorShape> tensors;
  const MeasureRule& rule;
};

double median(std::vector<double> values) {
  SB_ASSERT(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

Result<Judged<Bench>> open_bench(const TimedKernel& candidate, const List& list) {
  Result<Judged<Rig>> opened = open_rig(candidate.context, list.tensors, {});
  if (!opened.ok()) return opened.error();
  if (!opened.value().ok()) return Judged<Bench>(*opened.value().failure);
  Bench bench;
  bench.rig = std::move(*opened.value().value);
  bench.threads = candidate.context.threads;
  bench.data.seed = derive_seed(candidate.context.salt, "timing/" + list.name);
  Result<HyperTrajectory> trajectory = draw_hyper(list.task, "gaussian", derive_seed(bench.data.seed, "hyper"));
  if (!trajectory.ok()) return trajectory.error();
  bench.trajectory = std::move(trajectory.value());
  const Result<void> made =
      generate_buffers(bench.rig, list.task, list.tensors, Role::kInOut, bench.data, 0, bench.threads);
  if (!made.ok()) return made.error();
  return Judged<Bench>(std::move(bench));
}

/// Runs the next step of the trajectory with one of the kernels, and judges it where a stop is due.
Result<TimedReport> run_sample(Bench& bench, Side& side, const List& list, std::optional<Failure>& failure) {
  const TaskSpec& task = list.task;
  const int64_t k = bench.steps++;
  const int64_t t = kFirstStep + k;
  const bool verify = side.stops.contains(side.runs++);
  const auto failed = [&](Failure found) {
    failure = in_case(std::move(found), "timing", list.name, bench.data.seed, t);
    return TimedReport();
  };
  const Result<void> made = generate_buffers(bench.rig, task, list.tensors, Role::kIn, bench.data, k, bench.threads);
  if (!made.ok()) return made.error();
  const Result<HyperValues> hyper = hyper_at(bench.trajectory, t, false, false);
  if (!hyper.ok()) return hyper.error();
  const bool in_parts = judged_in_parts(task);
  const bool in_full = k == 0 && (!in_parts || total_elements(list.tensors) <= list.rule.full_first_step_limit);
  std::vector<Window> windows;
  BufferBytes &before = bench.before, &after = bench.after;
  if (verify && !in_full) {
    windows = in_parts ? audit_windows(list.tensors, list.rule.audit_elements,
                                       derive_seed(bench.data.seed, "windows", static_cast<uint64_t>(k)))
                       : whole_tensors(list.tensors);
    const Result<void> read = read_windows(bench.rig, task, list.tensors, Role::kInOut, windows, before);
    if (!read.ok()) return read.error();
    generate_windows(task, list.tensors, Role::kIn, windows, bench.data, k, bench.threads, before);
  }
  Result<TimedStepReport> timed =
      time_step(*side.session, hyper.value(), derive_seed(bench.data.seed, "scratch", static_cast<uint64_t>(k)));
  if (!timed.ok()) return timed.error();
  if (timed.value().failure) return failed(std::move(*timed.value().failure));
  side.as_graph = timed.value().timed.as_graph;
  if (!verify) return timed.value().timed;

  Result<std::optional<Failure>> damage = check_memory(*side.session);
  if (!damage.ok()) return damage.error();
  if (damage.value()) return failed(std::move(*damage.value()));
  Result<StepJudgement> judged = StepJudgement();
  if (in_full) {
    judged = judge_first_step(bench.rig, task, list.tensors, hyper.value(), bench.data, bench.threads, *bench.spaces);
  } else {
    const Result<void> read = read_windows(bench.rig, task, list.tensors, Role::kInOut, windows, after);
    if (!read.ok()) return read.error();
    const Result<std::vector<double>> totals =
        list_totals(task, list.tensors, hyper.value(), bench.data, k, bench.threads);
    if (!totals.ok()) return totals.error();
    judged = judge_windows(task, list.tensors, windows, hyper.value(), totals.value(), before, after, bench.threads,
                           *bench.spaces);
  }
  if (!judged.ok()) return judged.error();
  ++side.verified_steps;
  side.verified_elements += judged.value().elements_checked;
  if (judged.value().failure) {
    Failure wrong = std::move(*judged.value().failure);
    wrong.message = "in a timed step: " + wrong.message;
    return failed(std::move(wrong));
  }
  return timed.value().timed;
}

Error baseline_failed(const std::string& name, const List& list, const Failure& failure) {
  return Error{ErrorCode::kInternal, fmt::format("the baseline {} failed on {}", name, list.name), "timing",
               "a baseline that passes", fmt::format("{}: {}", to_text(failure.verdict), failure.message)};
}

Result<ModuleId> load_baseline(Bench& bench, const TimedKernel& baseline, const List& list) {
  const Result<Judged<ModuleId>> module = bench.rig.device->load(baseline.context.compiled);
  if (!module.ok()) return module.error();
  if (!module.value().ok()) return baseline_failed(baseline.name, list, *module.value().failure);
  return *module.value().value;
}

Result<Side> open_baseline(Bench& bench, const TimedKernel& baseline, ModuleId module, const List& list) {
  const CheckContext& context = baseline.context;
  Result<Judged<SessionPtr>> session = open_session_over(
      *bench.rig.session, *bench.rig.device, module, context.compiled, context.candidate, context.task, list.tensors);
  if (!session.ok()) return session.error();
  if (!session.value().ok()) return baseline_failed(baseline.name, list, *session.value().failure);
  Side side;
  side.name = baseline.name;
  side.own = std::move(*session.value().value);
  side.session = side.own.get();
  return side;
}

/// Event times of `count` steps of an open baseline.
Result<std::vector<double>> sample_baseline(Bench& bench, Side& side, const List& list, int count) {
  std::vector<double> times_ns;
  for (int i = 0; i < count; ++i) {
    std::optional<Failure> failure;
    const Result<TimedReport> timed = run_sample(bench, side, list, failure);
    if (!timed.ok()) return timed.error();
    if (failure) return baseline_failed(side.name, list, *failure);
    times_ns.push_back(timed.value().event_ns);
  }
  return times_ns;
}

/// The fastest of the baselines on this list, ready to run, and its median time.
struct Choice {
  const TimedKernel* kernel = nullptr;
  Side side;
  double time_ns = 0;
};
Result<Choice> choose_baseline(Bench& bench, std::span<const TimedKernel> baselines, const List& list) {
  // A few runs of each tell which are out, in whatever order they come; one at a time is open, for each has scratch.
  const int trial_runs = baselines.size() > 1 ? list.rule.least_runs : 0;
  std::vector<ModuleId> modules;
  std::vector<double> least_ns(baselines.size(), 0);
  for (size_t i = 0; i < baselines.size(); ++i) {
    const Result<ModuleId> module = load_baseline(bench, baselines[i], list);
    if (!module.ok()) return module.error();
    modules.push_back(module.value());
    if (trial_runs == 0) continue;
    Result<Side> side = open_baseline(bench, baselines[i], modules[i], list);
    if (!side.ok()) return side.error();
    const Result<std::vector<double>> times_ns = sample_baseline(bench, side.value(), list, trial_runs);
    if (!times_ns.ok()) return times_ns.error();
    least_ns[i] = *std::min_element(times_ns.value().begin(), times_ns.value().end());
  }
  const double best_ns = *std::min_element(least_ns.begin(), least_ns.end());

  Choice choice;
  for (size_t i = 0; i < baselines.size(); ++i) {
    if (least_ns[i] > list.rule.hopeless_ratio * best_ns) continue;
    Result<Side> side = open_baseline(bench, baselines[i], modules[i], list);
    if (!side.ok()) return side.error();
    const int warm_ups = std::max(list.rule.warm_ups - trial_runs, 0);
    Result<std::vector<double>> times_ns =
        sample_baseline(bench, side.value(), list, warm_ups + list.rule.selection_samples);
    if (!times_ns.ok()) return times_ns.error();
    times_ns.value().erase(times_ns.value().begin(), times_ns.value().begin() + warm_ups);
    const double time_ns = median(std::move(times_ns.value()));
    if (choice.kernel == nullptr || time_ns < choice.time_ns)
      choice = {&baselines[i], std::move(side.value()), time_ns};
  }
  SB_ASSERT(choice.kernel != nullptr);
  return choice;
}

/// Steps of a side that are verified: the first and the last, and some that the salt draws.
std::set<int64_t> draw_stops(int count, int64_t steps, uint64_t seed) {
  std::set<int64_t> stops{0, steps - 1};
  for (uint64_t i = 0; i < static_cast<uint64_t>(count); ++i)
    stops.insert(static_cast<int64_t>(derive_seed(seed, "stop", i) % static_cast<uint64_t>(steps)));
  return stops;
}

std::string reason_to_drop(const TimingPair& pair, const MeasureRule& rule) {
  const auto disagree = [&](double event_ns, double counter_ns) {
    const double slack = rule.counter_slack_ns + rule.counter_ratio * event_ns;
    return !(std::fabs(counter_ns - event_ns) <= slack);
  };
  if (disagree(pair.baseline_ns, pair.baseline_counter_ns) || disagree(pair.candidate_ns, pair.candidate_counter_ns))
    return "the two clocks disagree";
  if (pair.baseline_sm_mhz > 0 && pair.candidate_sm_mhz > 0 &&
      std::fabs(pair.candidate_sm_mhz / pair.baseline_sm_mhz - 1) > rule.clock_ratio)
    return "the SM clocks differ";
  return "";
}

void conclude(TimingReport& report, const MeasureRule& rule, std::vector<std::string>& notes) {
  std::vector<TimedPair> used;
  std::vector<double> baseline_ns, candidate_ns;
  for (const TimingPair& pair : report.pairs) {
    if (!pair.dropped.empty()) continue;
    used.push_back({pair.baseline_ns, pair.candidate_ns});
    baseline_ns.push_back(pair.baseline_ns);
    candidate_ns.push_back(pair.candidate_ns);
  }
  const size_t dropped = report.pairs.size() - used.size();
  if (dropped > 0)
    notes.push_back(fmt::format("timing of {}: {} of {} pairs dropped ({})", report.list, dropped, report.pairs.size(),
                                std::find_if(report.pairs.begin(), report.pairs.end(), [](const TimingPair& pair) {
                                  return !pair.dropped.empty();
                                })->dropped));
  if (used.empty()) return;
  report.baseline_ns = median(std::move(baseline_ns));
  report.candidate_ns = median(std::move(candidate_ns));
  if (report.candidate_ns > 0) report.floor_ratio = report.floor_ns / report.candidate_ns;
  const Result<Speedup> speedup = speedup_of(used, SpeedRule{});
  if (!speedup.ok()) {
    notes.push_back(fmt::format("timing of {}: {}", report.list, to_text(speedup.error())));
    return;
  }
  report.speedup = speedup.value().speedup;
  report.speedup_low = speedup.value().low;
  report.speedup_high = speedup.value().high;
  const bool too_few = static_cast<double>(dropped) > rule.dropped_ratio * static_cast<double>(report.pairs.size());
  report.word = too_few ? SpeedWord::kUndecided : speedup.value().word;
}

}  // namespace

Result<std::vector<TensorShape>> timed_tensors(const TimingSpec& spec, uint64_t salt) {
  Result<std::vector<TensorShape>> tensors = tensor_list(spec.list);
  if (!tensors.ok() || !spec.hidden) return tensors;
  constexpr double kMost = 0.1;
  for (TensorShape& shape : tensors.value()) {
    std::vector<int64_t> dims;
    for (const int64_t dim : shape.dims) {
      const uint64_t draw = derive_seed(salt, "hidden/" + spec.list, static_cast<uint64_t>(dim));
      const double share = static_cast<double>(draw >> 11) * 0x1p-53;  // [0, 1)
      dims.push_back(
          dim <= 1 ? dim
                   : std::max<int64_t>(1, std::llround(static_cast<double>(dim) * (1 - kMost + 2 * kMost * share))));
    }
    shape = make_shape(std::move(dims));
  }
  return tensors;
}

Result<MeasureOutcome> measure(const TimedKernel& candidate, std::span<const TimedKernel> baselines,
                               const TimingSpec& spec, const Calibration& calibration, const MeasureRule& rule,
                               const DeviceInfo& info) {
  SB_ASSERT(!baselines.empty());
  const TaskSpec& task = candidate.context.task;
  Result<std::vector<TensorShape>> tensors = timed_tensors(spec, candidate.context.salt);
  if (!tensors.ok()) return tensors.error();
  const List list{task, spec.hidden ? spec.list + "~hidden" : spec.list, std::move(tensors.value()), rule};
  MeasureOutcome outcome;
  double bytes = 0;
  for (const BufferSpec& buffer : task.buffers)
    for (const TensorShape& shape : list.tensors)
      bytes += static_cast<double>(buffer_elements(buffer, shape)) * dtype_bytes(buffer.dtype);
  constexpr double kMemoryShare = 0.9;
  if (bytes > kMemoryShare * static_cast<double>(info.memory_bytes)) {
    outcome.notes.push_back(
        fmt::format("timing: the list {} was left out: {:.1f} GiB of buffers, the device has {:.1f}", list.name,
                    bytes / 0x1p30, static_cast<double>(info.memory_bytes) / 0x1p30));
    return outcome;
  }
  Result<Judged<Bench>> opened = open_bench(candidate, list);
  if (!opened.ok()) return opened.error();
  if (!opened.value().ok()) {
    outcome.failure = in_case(*opened.value().failure, "timing", list.name, 0, -1);
    return outcome;
  }
  Bench bench = std::move(*opened.value().value);

  // The candidate's first step is the trajectory's first, which can be judged in full without keeping a state.
  Side a;
  a.name = candidate.name;
  a.session = bench.rig.session.get();
  a.stops = {0};
  double candidate_ns = std::numeric_limits<double>::infinity();
  for (int i = 0; i < rule.least_runs; ++i) {
    const Result<TimedReport> first = run_sample(bench, a, list, outcome.failure);
    if (!first.ok()) return first.error();
    if (outcome.failure) return outcome;
    candidate_ns = std::min(candidate_ns, first.value().event_ns);
  }
  Result<Choice> choice = choose_baseline(bench, baselines, list);
  if (!choice.ok()) return choice.error();
  Side& b = choice.value().side;

  TimingReport report;
  report.list = spec.list;
  report.hidden = spec.hidden;
  report.tensors = static_cast<int64_t>(list.tensors.size());
  report.params = total_elements(list.tensors);
  report.baseline = choice.value().kernel->name;
  report.baseline_sha256 = choice.value().kernel->context.candidate.sha256;
  const Result<Floor> floor = floor_of(task, list.tensors, calibration, rule.gate);
  if (!floor.ok()) return floor.error();
  report.floor_ns = floor.value().floor_ns;
  report.floor_by = floor.value().floor_by;
  report.gate_ns = floor.value().gate_ns;
  if (!floor.value().left_out.empty())
    outcome.notes.push_back(fmt::format("timing of {}: the floor leaves out {}: this GPU's rate is not known",
                                        list.name, floor.value().left_out));

  // By the baseline's time alone, so that a candidate cannot choose how often it is sampled; but where it is slower
  // several times over, a few pairs say so.
  constexpr double kOverheadNs = 300'000;  // making data, flush, probe
  const double pair_ns = 2 * (1.6 * choice.value().time_ns + kOverheadNs);
  int pairs = std::clamp(static_cast<int>(rule.target_ms * 1e6 / pair_ns), rule.min_pairs, rule.max_pairs) / 2 * 2;
  if (candidate_ns > rule.slow_ratio * choice.value().time_ns) {
    const double slow_pair_ns = candidate_ns + choice.value().time_ns + 2 * kOverheadNs;
    const double affordable = std::min(rule.target_ms * 1e6 / slow_pair_ns, static_cast<double>(pairs));
    pairs = std::min(pairs, std::max(rule.slow_pairs, static_cast<int>(affordable)) / 2 * 2);
  }
  const int64_t runs = rule.warm_ups + pairs;
  // Where a step can only be judged as a whole, it costs seconds to minutes: fewer of them.
  const bool audited = judged_in_parts(task);
  a.stops = draw_stops(audited ? rule.verified_steps : 1, runs, derive_seed(bench.data.seed, "stops", 0));
  b.stops = audited ? draw_stops(1, runs, derive_seed(bench.data.seed, "stops", 1)) : std::set<int64_t>{runs - 1};
  a.runs = b.runs = 0;
  // The next sample of one side. A baseline's failure is an error.
  const auto sample = [&](bool of_candidate) -> Result<TimedReport> {
    std::optional<Failure> failure;
    Result<TimedReport> timed = run_sample(bench, of_candidate ? a : b, list, failure);
    if (!timed.ok()) return timed;
    if (failure && !of_candidate) return baseline_failed(report.baseline, list, *failure);
    outcome.failure = std::move(failure);
    return timed;
  };
  for (int i = 0; i < rule.warm_ups; ++i) {
    for (const bool of_candidate : {true, false}) {
      const Result<TimedReport> timed = sample(of_candidate);
      if (!timed.ok()) return timed.error();
      if (outcome.failure) return outcome;
    }
  }
  for (int block = 0; block < pairs / 2; ++block) {
    const bool candidate_first = derive_seed(bench.data.seed, "order", static_cast<uint64_t>(block)) % 2 == 0;
    for (const bool first : {candidate_first, !candidate_first}) {
      TimingPair pair;
      pair.candidate_first = first;
      for (const bool of_candidate : {first, !first}) {
        const Result<TimedReport> timed = sample(of_candidate);
        if (!timed.ok()) return timed.error();
        if (outcome.failure) return outcome;
        (of_candidate ? pair.candidate_ns : pair.baseline_ns) = timed.value().event_ns;
        (of_candidate ? pair.candidate_counter_ns : pair.baseline_counter_ns) = timed.value().counter_ns;
        (of_candidate ? pair.candidate_sm_mhz : pair.baseline_sm_mhz) = timed.value().sm_mhz;
      }
      pair.dropped = reason_to_drop(pair, rule);
      report.pairs.push_back(std::move(pair));
    }
    if (candidate.context.progress) candidate.context.progress({"timing " + list.name, 2 * (block + 1), pairs});
  }
  report.method = kMethod;
  if (a.as_graph || b.as_graph)
    report.method += fmt::format("; {} as a graph", a.as_graph && b.as_graph ? "both"
                                                    : a.as_graph             ? "the candidate"
                                                                             : "the baseline");
  report.verified_steps = a.verified_steps;
  report.verified_elements = a.verified_elements;
  conclude(report, rule, outcome.notes);
  if (report.candidate_ns > 0 && report.candidate_ns < report.gate_ns) {
    Failure failure;
    failure.verdict = Verdict::kImpossibleTime;
    failure.message =
        fmt::format("the median time {:.4g} us on {} is below {:.4g} us, in which {}", report.candidate_ns / 1e3,
                    list.name, report.gate_ns / 1e3, floor.value().gate_reason);
    failure.expected = report.gate_ns;
    failure.got = report.candidate_ns;
    failure.error_ratio = report.gate_ns / report.candidate_ns;
    outcome.failure = in_case(std::move(failure), "timing", list.name, bench.data.seed, -1);
  }
  outcome.report = std::move(report);
  return outcome;
}

}  // namespace stepbench
