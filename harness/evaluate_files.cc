// Reading candidates, asking for earlier records, and running evaluations side by side.
#include "harness/evaluate_files.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "harness/plan.h"
#include "harness/record.h"
#include "harness/record_folder.h"
#include "harness/report.h"
#include "harness/worker.h"

namespace stepbench {
namespace {

constexpr uint64_t kMaxCandidateBytes = 1ull << 20;

/// A candidate of which not even the plan could be read still gets a record: source, failure and nothing else.
Result<EvalRecord> record_of_bad_file(const std::string& path, const std::string& task_id, const EvalOptions& options,
                                      const Failure& failure) {
  Candidate candidate;
  candidate.path = path;
  candidate.is_ptx = path.ends_with(".ptx");
  candidate.task = task_id;
  Result<std::string> source = read_file(path, kMaxCandidateBytes);
  if (!source.ok()) return source.error();
  candidate.source = replace_invalid_utf8(source.value());
  if (candidate.is_ptx) {
    Result<std::string> plan = read_file(path.substr(0, path.size() - 4) + ".json", kMaxCandidateBytes);
    if (plan.ok()) candidate.plan_text = replace_invalid_utf8(plan.value());
  }
  TaskSpec task;  // often the task itself is what could not be read
  task.id = task_id;
  return make_stopped_record(candidate, task, options, failure);
}

/// The work on one file, with the hooks and the progress line behind one lock.
class FileEvaluation {
 public:
  FileEvaluation(const EvalArguments& arguments, const EvalOptions& options, const EvaluateHooks& hooks);
  /// Until no file is left; for several threads.
  void work();

 private:
  Result<EvalRecord> evaluate_file(const std::string& path, bool& resumed);
  Result<std::optional<EvalRecord>> find_finished(const ResumeKey& key, const std::string& path);
  /// A record of a stop before the evaluation, or an earlier one of the same stop.
  Result<EvalRecord> stopped_or_finished(EvalRecord record, bool& resumed);

  const EvalArguments& arguments_;
  const EvalOptions& options_;
  const EvaluateHooks& hooks_;
  std::string device_name_;  ///< as records have it
  std::atomic<size_t> next_{0};
  std::mutex mutex_;
  ProgressLine progress_;
};

FileEvaluation::FileEvaluation(const EvalArguments& arguments, const EvalOptions& options, const EvaluateHooks& hooks)
    : arguments_(arguments), options_(options), hooks_(hooks), progress_(arguments.quiet) {
  const Result<DeviceSource> source = device_source(options.device, nullptr);
  device_name_ = source.ok() ? source.value().info.name : options.device;
}

Result<std::optional<EvalRecord>> FileEvaluation::find_finished(const ResumeKey& key, const std::string& path) {
  if (!hooks_.find_finished) return std::optional<EvalRecord>();
  const std::lock_guard<std::mutex> lock(mutex_);
  Result<std::optional<EvalRecord>> earlier = hooks_.find_finished(key);
  if (earlier.ok() && earlier.value()) earlier.value()->candidate.path = path;  // the same text may lie elsewhere now
  return earlier;
}

Result<EvalRecord> FileEvaluation::stopped_or_finished(EvalRecord record, bool& resumed) {
  Result<std::optional<EvalRecord>> earlier = find_finished(resume_key(record), record.candidate.path);
  if (!earlier.ok()) return earlier.error();
  resumed = earlier.value().has_value();
  return resumed ? std::move(*earlier.value()) : std::move(record);
}

Result<EvalRecord> FileEvaluation::evaluate_file(const std::string& path, bool& resumed) {
  const Result<Judged<Candidate>> loaded = load_candidate(path, arguments_.task);
  if (!loaded.ok()) return loaded.error();
  if (!loaded.value().ok()) {
    Result<EvalRecord> record = record_of_bad_file(path, arguments_.task, options_, *loaded.value().failure);
    if (!record.ok()) return record;
    return stopped_or_finished(std::move(record).value(), resumed);
  }
  const Candidate& candidate = *loaded.value().value;
  const Result<TaskSpec> task = load_task(candidate.task);
  if (!task.ok()) {
    const std::optional<Failure> failure = unknown_task_failure(candidate, task.error());
    if (!failure) return task.error();
    TaskSpec unknown;
    unknown.id = candidate.task;
    return stopped_or_finished(make_stopped_record(candidate, unknown, options_, *failure), resumed);
  }
  Result<std::optional<EvalRecord>> earlier = find_finished(
      {candidate.sha256, task.value().id, task.value().version, options_.suite, device_name_, STEPBENCH_VERSION}, path);
  if (!earlier.ok()) return earlier.error();
  if (earlier.value()) {
    resumed = true;
    return std::move(*earlier.value());
  }
  return evaluate_isolated(candidate, task.value(), options_, wall_limit_s(arguments_.timeout_s, options_.suite),
                           [&](const Progress& report) {
                             const std::lock_guard<std::mutex> lock(mutex_);
                             progress_.show(path, report);
                           });
}

void FileEvaluation::work() {
  const std::vector<std::string>& files = arguments_.files;
  for (size_t i = next_++; i < files.size(); i = next_++) {
    EvaluatedFile outcome;
    Result<EvalRecord> record = evaluate_file(files[i], outcome.resumed);
    if (record.ok())
      outcome.record = std::move(record).value();
    else
      outcome.error = record.error();
    const std::lock_guard<std::mutex> lock(mutex_);
    progress_.clear();
    hooks_.take(i, std::move(outcome));
  }
}

}  // namespace

Result<EvalOptions> make_eval_options(const EvalArguments& arguments) {
  EvalOptions options;
  const bool automatic = arguments.device == "auto";
  if (!automatic && arguments.device != "vm" && arguments.device != "cuda")
    return Error{ErrorCode::kUsage, "unknown device", "--device", "auto, vm or cuda",
                 replace_invalid_utf8(arguments.device)};
  if (arguments.device != "vm") {
    const Result<DeviceSource> gpu = device_source("cuda", nullptr);
    if (gpu.ok()) options.device = "cuda";
    if (!gpu.ok() && !automatic) return gpu.error();
  }
  const std::string& suite = arguments.suite;
  if (suite != "smoke" && suite != "standard" && suite != "full")
    return Error{ErrorCode::kUsage, "unknown suite", "--suite", "smoke, standard or full", replace_invalid_utf8(suite)};
  options.suite = suite;

  if (arguments.salt.empty()) {
    if (::getrandom(&options.salt, sizeof(options.salt), 0) != static_cast<ssize_t>(sizeof(options.salt)))
      return Error{ErrorCode::kUnavailable, "the operating system gives no random numbers", "getrandom", "", ""};
  } else {
    const Result<uint64_t> salt = parse_hex(arguments.salt);
    if (!salt.ok()) return Error{ErrorCode::kUsage, "wrong salt", "--salt", salt.error().expected, salt.error().found};
    options.salt = salt.value();
  }

  const size_t slash = arguments.only.find('/');
  options.only_check = arguments.only.substr(0, slash);
  if (slash != std::string::npos) options.only_case = arguments.only.substr(slash + 1);

  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  options.threads = std::max(1, cores / arguments.jobs);
  options.compile.use_cache = !arguments.no_cache;
  options.baseline = arguments.baseline;
  return options;
}

std::optional<Failure> unknown_task_failure(const Candidate& candidate, const Error& error) {
  if (error.code != ErrorCode::kNotFound || !list_tasks().ok()) return std::nullopt;  // no tasks at all: the machine's
  Failure failure;
  failure.verdict = Verdict::kBadCandidate;
  failure.message = to_text(error);
  failure.place = plan_path(candidate) + ": /task";
  failure.check = "plan";
  return failure;
}

void evaluate_each(const EvalArguments& arguments, const EvalOptions& options, const EvaluateHooks& hooks) {
  FileEvaluation evaluation(arguments, options, hooks);
  // A worker dies with the thread that started it (PR_SET_PDEATHSIG), so each thread stays until its evaluation ends.
  const size_t count = std::min(static_cast<size_t>(arguments.jobs), arguments.files.size());
  std::vector<std::thread> threads;
  for (size_t i = 1; i < count; ++i) threads.emplace_back([&] { evaluation.work(); });
  evaluation.work();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace stepbench
