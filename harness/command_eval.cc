// `stepbench eval`: candidates in, reports and records out. Judging is evaluate_isolated's; this file reads the files,
// keeps the records and prints.
#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <optional>
#include <thread>

#include "harness/commands.h"
#include "harness/plan.h"
#include "harness/record.h"
#include "harness/record_folder.h"
#include "harness/report.h"
#include "harness/resume.h"
#include "harness/stages.h"
#include "harness/worker.h"
#include "scoring/summary.h"

namespace stepbench {
namespace {

constexpr uint64_t kMaxCandidateBytes = 1ull << 20;

/// What became of one file: a record, or an error that is not about the candidate.
struct Outcome {
  std::optional<EvalRecord> record;
  std::optional<Error> error;
  std::optional<Error> save_error;  ///< the record exists but could not be kept
  bool resumed = false;             ///< the record is from an earlier run
};

Result<EvalOptions> make_options(const EvalArguments& arguments) {
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
  return options;
}

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

Result<EvalRecord> evaluate_file(const std::string& path, const EvalArguments& arguments, const EvalOptions& options,
                                 const FinishedRecords& finished, const std::string& device_name,
                                 ProgressLine& progress, bool& resumed) {
  const Result<Judged<Candidate>> loaded = load_candidate(path, arguments.task);
  if (!loaded.ok()) return loaded.error();
  if (!loaded.value().ok()) return record_of_bad_file(path, arguments.task, options, *loaded.value().failure);
  const Candidate& candidate = *loaded.value().value;
  const Result<TaskSpec> task = load_task(candidate.task);
  if (!task.ok()) {
    const std::optional<Failure> failure = unknown_task_failure(candidate, task.error());
    if (!failure) return task.error();
    TaskSpec unknown;
    unknown.id = candidate.task;
    return make_stopped_record(candidate, unknown, options, *failure);
  }
  Result<std::optional<EvalRecord>> earlier = finished_record(
      finished,
      {candidate.sha256, task.value().id, task.value().version, options.suite, device_name, STEPBENCH_VERSION});
  if (!earlier.ok()) return earlier.error();
  if (earlier.value()) {
    resumed = true;
    earlier.value()->candidate.path = path;  // the same text may lie elsewhere now
    return std::move(*earlier.value());
  }
  return evaluate_isolated(candidate, task.value(), options, wall_limit_s(arguments.timeout_s, options.suite),
                           [&](const Progress& report) { progress.show(path, report); });
}

/// All files, up to `jobs` at a time; each record is kept as soon as it is there.
std::vector<Outcome> evaluate_files(const EvalArguments& arguments, const EvalOptions& options,
                                    const std::string& folder, const FinishedRecords& finished) {
  std::vector<Outcome> outcomes(arguments.files.size());
  const Result<DeviceSource> source = device_source(options.device, nullptr);
  const std::string device_name = source.ok() ? source.value().info.name : options.device;  // as records have it
  std::atomic<size_t> next{0};
  ProgressLine progress(arguments.quiet);
  const auto work = [&] {
    for (size_t i = next++; i < outcomes.size(); i = next++) {
      Result<EvalRecord> record =
          evaluate_file(arguments.files[i], arguments, options, finished, device_name, progress, outcomes[i].resumed);
      if (!record.ok()) {
        outcomes[i].error = record.error();
        continue;
      }
      if (!outcomes[i].resumed) {
        const Result<std::string> saved = save_record(folder, record.value());
        if (!saved.ok()) outcomes[i].save_error = saved.error();
      }
      outcomes[i].record = std::move(record).value();
    }
  };
  // A worker dies with the thread that started it (PR_SET_PDEATHSIG), so each thread stays until its evaluation ends.
  const size_t count = std::min(static_cast<size_t>(arguments.jobs), outcomes.size());
  std::vector<std::thread> threads;
  for (size_t i = 1; i < count; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

Result<void> write_json(const std::string& target, std::span<const EvalRecord> records, bool one_file) {
  std::string text;
  if (one_file && records.size() == 1) {
    text = record_to_json(records[0], 1);
  } else {
    for (const EvalRecord& record : records) text += (text.empty() ? "[\n" : ",\n") + record_to_json(record, 1);
    text += text.empty() ? "[]" : "\n]";
  }
  text += "\n";
  if (target != "-") return write_file_atomically(target, text);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    return Error{ErrorCode::kIo, "cannot write to standard output", "", "", ""};
  return {};
}

}  // namespace

std::optional<Failure> unknown_task_failure(const Candidate& candidate, const Error& error) {
  if (error.code != ErrorCode::kNotFound || !list_tasks().ok()) return std::nullopt;  // no tasks at all: the machine's
  Failure failure;
  failure.verdict = Verdict::kBadCandidate;
  failure.message = to_text(error);
  failure.place = plan_path(candidate) + ": /task";
  failure.check = "plan";
  return failure;
}

int run_eval(const EvalArguments& arguments) {
  const Result<EvalOptions> options = make_options(arguments);
  if (!options.ok()) return report_error(options.error());
  const Result<std::string> folder = records_folder(arguments.records);
  if (!folder.ok()) return report_error(folder.error());
  if (!arguments.task.empty())
    if (const Result<TaskSpec> task = load_task(arguments.task); !task.ok()) return report_error(task.error());

  FinishedRecords finished;
  if (arguments.resume) {
    if (!arguments.only.empty())
      return report_error({ErrorCode::kUsage, "--resume and --only exclude each other", "", "", ""});
    Result<FinishedRecords> found =
        find_finished(folder.value(), arguments.salt.empty() ? "" : hex16(options.value().salt));
    if (!found.ok()) return report_error(found.error());
    finished = std::move(found.value());
    if (finished.ignored > 0) fmt::print(stderr, "stepbench: {}\n", ignored_text(finished, folder.value()));
  }
  const std::vector<Outcome> outcomes = evaluate_files(arguments, options.value(), folder.value(), finished);

  std::FILE* text_out = arguments.json == "-" ? stderr : stdout;
  const ReportStyle style{wants_colour(::fileno(text_out)), arguments.profile, terminal_width(::fileno(text_out))};
  int exit_code = kExitDone;
  std::vector<EvalRecord> records;
  for (const Outcome& outcome : outcomes) {
    if (outcome.error) exit_code = std::max(exit_code, report_error(*outcome.error));
    if (outcome.save_error) exit_code = std::max(exit_code, report_error(*outcome.save_error));
    if (!outcome.record) continue;
    exit_code = std::max(exit_code, exit_code_of(outcome.record->verdict));
    if (outcome.resumed && !arguments.quiet)
      fmt::print(text_out, "{}  {}  finished before, record {}\n", outcome.record->candidate.path,
                 to_text(outcome.record->verdict), outcome.record->id);
    if (!outcome.resumed && !arguments.quiet) fmt::print(text_out, "{}\n", render_report(*outcome.record, style));
    records.push_back(*outcome.record);
  }
  if (arguments.files.size() > 1 && !records.empty())
    fmt::print(text_out, "{}", render_table(summarize(records)));
  else if (arguments.quiet && !records.empty())
    fmt::print(text_out, "{}", render_line(records.front()));
  if (!arguments.json.empty()) {
    const Result<void> written = write_json(arguments.json, records, arguments.files.size() == 1);
    if (!written.ok()) exit_code = std::max(exit_code, report_error(written.error()));
  }
  return exit_code;
}

}  // namespace stepbench
