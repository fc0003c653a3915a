// `stepbench replay`: the failing case of a record once more, from the record alone, which lies in the folder of
// records or in the store.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <string_view>
#include <thread>

#include "harness/commands.h"
#include "harness/record.h"
#include "harness/record_folder.h"
#include "harness/report.h"
#include "harness/stages.h"
#include "harness/store.h"
#include "harness/worker.h"

namespace stepbench {
namespace {

/// Checks that run cases, and so can be run alone; all other stages run in every evaluation.
constexpr std::string_view kChecks[] = {"edges", "families", "determinism", "drift", "large", "timing"};

bool same_number(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b) || (a != a && b != b);
}

/// Names of what differs between the two failures; empty when they are the same. Free text (`message`, `detail`) is not
/// compared: everything that a candidate computes is in the other fields.
std::string differences(const Failure& before, const Failure& now) {
  std::string names;
  const auto note = [&](bool same, const char* name) {
    if (!same) names += (names.empty() ? "" : ", ") + std::string(name);
  };
  note(before.verdict == now.verdict, "verdict");
  note(before.check == now.check, "check");
  note(before.case_name == now.case_name, "case");
  note(before.seed == now.seed, "seed");
  note(before.step == now.step, "step");
  note(before.place == now.place, "place");
  note(before.buffer == now.buffer, "buffer");
  note(before.tensor == now.tensor, "tensor");
  note(before.element == now.element, "element");
  note(same_number(before.expected, now.expected), "expected");
  note(same_number(before.got, now.got), "got");
  note(same_number(before.error_ratio, now.error_ratio), "error");
  return names;
}

/// Everything from the record. A plan that could not be read is read again.
Result<Judged<Candidate>> candidate_of(const EvalRecord& record) {
  const Candidate& candidate = record.candidate;
  const bool was_read = !candidate.plan.launches.empty() || candidate.default_plan;
  if (was_read) return Judged<Candidate>(candidate);
  return parse_candidate(candidate.path, candidate.source, candidate.plan_text, candidate.is_ptx, candidate.task);
}

EvalOptions options_of(const EvalRecord& record, uint64_t salt) {
  EvalOptions options;
  options.device = record.environment.device == "vm" ? "vm" : "cuda";
  options.suite = record.suite;
  options.salt = salt;
  options.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  if (!record.failure) return options;
  for (const std::string_view check : kChecks) {
    if (record.failure->check != check) continue;
    options.only_check = check;
    options.only_case = record.failure->case_name;
  }
  return options;
}

Result<EvalRecord> run_again(const EvalRecord& before, const EvalOptions& options, double limit_s,
                             ProgressLine& progress) {
  const Result<Judged<Candidate>> candidate = candidate_of(before);
  if (!candidate.ok()) return candidate.error();
  if (!candidate.value().ok()) {
    TaskSpec task;
    task.id = before.task;
    task.version = before.task_version;
    return make_stopped_record(before.candidate, task, options, *candidate.value().failure);
  }
  const Result<TaskSpec> task = load_task(candidate.value().value->task);
  if (!task.ok()) {
    const std::optional<Failure> failure = unknown_task_failure(*candidate.value().value, task.error());
    // Otherwise the task was there when the record was made, and what is missing now is not the candidate's mistake.
    const bool was_unknown = before.failure && before.failure->check == "plan" && before.cases.empty() &&
                             before.failure->place.ends_with(": /task");
    if (!failure || !was_unknown) return task.error();
    TaskSpec unknown;
    unknown.id = before.task;
    return make_stopped_record(*candidate.value().value, unknown, options, *failure);
  }
  if (task.value().version != before.task_version)
    fmt::print(stderr, "stepbench: the record is of version {} of task {}, this program has version {}\n",
               before.task_version, before.task, task.value().version);
  return evaluate_isolated(*candidate.value().value, task.value(), options, limit_s,
                           [&](const Progress& report) { progress.show("replay", report); });
}

/// In the store when one is named; else as a file or in the folder of records, and then in the default store.
Result<EvalRecord> find_anywhere(const ReplayArguments& arguments) {
  if (!arguments.store.empty()) {
    const Result<StorePtr> store = open_store(arguments.store, {});
    if (!store.ok()) return store.error();
    return load_record(*store.value(), arguments.record);
  }
  const Result<std::string> folder = records_folder(arguments.records);
  if (!folder.ok()) return folder.error();
  Result<EvalRecord> in_folder = find_record(folder.value(), arguments.record);
  const bool is_path = arguments.record.find('/') != std::string::npos || arguments.record.ends_with(".json");
  if (in_folder.ok() || in_folder.error().code != ErrorCode::kNotFound || is_path) return in_folder;
  const Result<std::string> path = store_path("");
  if (!path.ok()) return in_folder;
  const Result<StorePtr> store = open_store(path.value(), {});
  if (!store.ok() && store.error().code == ErrorCode::kNotFound) return in_folder;
  if (!store.ok()) return store.error();
  Result<EvalRecord> in_store = load_record(*store.value(), arguments.record);
  if (in_store.ok() || in_store.error().code != ErrorCode::kNotFound) return in_store;
  Error neither = in_folder.error();
  neither.place += fmt::format(" and {}", path.value());
  return neither;
}

}  // namespace

int run_replay(const ReplayArguments& arguments) {
  const Result<EvalRecord> found = find_anywhere(arguments);
  if (!found.ok()) return report_error(found.error());
  const EvalRecord& before = found.value();
  const Result<uint64_t> salt = parse_hex(before.salt);
  if (!salt.ok()) return report_error({ErrorCode::kInvalidRecord, "wrong salt", "/salt", "16 hex digits", before.salt});

  ProgressLine progress(arguments.quiet);
  const EvalOptions options = options_of(before, salt.value());
  const Result<EvalRecord> again =
      run_again(before, options, wall_limit_s(arguments.timeout_s, before.suite), progress);
  progress.clear();
  if (!again.ok()) return report_error(again.error());
  const EvalRecord& now = again.value();

  const std::string what = options.only_check.empty()  ? "the whole evaluation"
                           : options.only_case.empty() ? "check " + options.only_check
                                                       : options.only_check + " " + options.only_case;
  const ReportStyle style{wants_colour(STDOUT_FILENO), false, terminal_width(STDOUT_FILENO)};
  if (!now.failure) {
    fmt::print("{}: passes now ({}); it was {} in record {}\n", before.candidate.path, what, to_text(before.verdict),
               before.id);
    return kExitDone;
  }
  if (!arguments.quiet) {
    fmt::print("{}  {}  replay of {} from record {}, salt {}\n", before.candidate.path, to_text(now.verdict), what,
               before.id, before.salt);
    fmt::print("{}", render_failure(*now.failure, "", style));
  }
  const std::string different = before.failure ? differences(*before.failure, *now.failure) : "it passed then";
  if (different.empty())
    fmt::print("{}: {} again, identical to the record\n", before.candidate.path, to_text(now.verdict));
  else
    fmt::print("{}: {} now, not identical to the record: {}\n", before.candidate.path, to_text(now.verdict), different);
  return exit_code_of(now.verdict);
}

}  // namespace stepbench
