// `stepbench submit`: evaluate candidates under a name and keep every record in the store the moment it is there.
// Running it again goes on where it stopped.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "harness/candidate_files.h"
#include "harness/commands.h"
#include "harness/evaluate_files.h"
#include "harness/record.h"
#include "harness/record_folder.h"
#include "harness/report.h"
#include "harness/shell_word.h"
#include "harness/store.h"
#include "scoring/summary.h"

namespace stepbench {
namespace {

constexpr size_t kMaxNameBytes = 100;

/// Names stand in tables and file names of boards: one line of text.
Result<void> check_name(const char* option, const std::string& name) {
  const bool is_line = std::none_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7F;
  });
  if (is_line && name.size() <= kMaxNameBytes && name == replace_invalid_utf8(name) && !name.starts_with(' ') &&
      !name.ends_with(' '))
    return {};
  return Error{ErrorCode::kUsage, "not a name", option,
               fmt::format("one line of UTF-8, {} bytes at most", kMaxNameBytes),
               replace_invalid_utf8(name).substr(0, kMaxNameBytes)};
}

Result<void> check_arguments(const SubmitArguments& arguments, size_t files) {
  const Submission& submission = arguments.submission;
  if (submission.name.empty()) return Error{ErrorCode::kUsage, "a submission needs a name", "--as", "a name", "none"};
  if (Result<void> name = check_name("--as", submission.name); !name.ok()) return name;
  if (Result<void> model = check_name("--model", submission.model); !model.ok()) return model;
  if (submission.note != replace_invalid_utf8(submission.note))
    return Error{ErrorCode::kUsage, "not a text in UTF-8", "--note", "", ""};
  if (!std::isfinite(submission.cost_usd))
    return Error{ErrorCode::kUsage, "not a cost", "--cost", "a number", fmt::format("{}", submission.cost_usd)};
  const bool has_costs = submission.prompt_tokens > 0 || submission.completion_tokens > 0 || submission.cost_usd > 0;
  if (has_costs && files > 1)
    return Error{ErrorCode::kUsage, "tokens and cost are those of one candidate",
                 "--tokens-prompt, --tokens-completion, --cost", "one file", fmt::format("{} files", files)};
  return {};
}

/// What makes two submissions the same, beside the evaluation itself.
bool is_same_submission(const StoreRow& row, const Submission& submission) {
  return row.submission == submission.name && row.model == submission.model && row.round == submission.round;
}

/// One run of the command: the store, and what became of the files so far.
class SubmitRun {
 public:
  SubmitRun(const SubmitArguments& arguments, StorePtr store, size_t files, std::string salt)
      : arguments_(arguments), store_(std::move(store)), rows_(files), salt_(std::move(salt)) {}

  /// The newest record of this submission. With a salt given, only one of that salt counts.
  Result<std::optional<EvalRecord>> find_finished(const ResumeKey& key);
  void take(size_t index, EvaluatedFile outcome);
  /// Table and totals; the exit code.
  int finish();

 private:
  void keep(EvalRecord& record);
  void tell(const EvalRecord& record, bool resumed);

  const SubmitArguments& arguments_;
  StorePtr store_;
  std::vector<std::optional<SummaryRow>> rows_;
  std::string salt_;  ///< empty: any
  int64_t added_ = 0, finished_before_ = 0, passed_ = 0, failed_ = 0, not_judged_ = 0;
  size_t done_ = 0;
  int exit_code_ = kExitDone;
};

Result<std::optional<EvalRecord>> SubmitRun::find_finished(const ResumeKey& key) {
  if (arguments_.again) return std::optional<EvalRecord>();
  StoreFilter filter;
  filter.candidate_sha256 = key.candidate_sha256;
  filter.newest_first = true;
  std::string id;
  const Result<int64_t> visited = for_each_row(*store_, filter, [&](const StoreRow& row) {
    const ResumeKey found = {row.candidate_sha256, row.task, row.task_version, row.suite, row.device,
                             row.stepbench_version};
    const bool is_wanted = row.whole && found == key && is_same_submission(row, arguments_.submission) &&
                           (salt_.empty() || row.salt == salt_);
    if (is_wanted) id = row.id;
    return !is_wanted;
  });
  if (!visited.ok()) return visited.error();
  if (id.empty()) return std::optional<EvalRecord>();
  Result<EvalRecord> record = load_record(*store_, id);
  if (!record.ok()) return record.error();
  return std::optional<EvalRecord>(std::move(record).value());
}

/// A record that the store cannot take (a full disk, say) is not lost with the evaluation's time.
void SubmitRun::keep(EvalRecord& record) {
  record.submission = arguments_.submission;
  const Result<Appended> appended = append_record(*store_, record);
  if (appended.ok()) {
    ++added_;
    return;
  }
  exit_code_ = std::max(exit_code_, report_error(appended.error()));
  const Result<std::string> folder = records_folder(arguments_.eval.records);
  const Result<std::string> saved = folder.ok() ? save_record(folder.value(), record) : folder;
  if (saved.ok())
    fmt::print(stderr, "stepbench: the record is in {}; `stepbench store import` takes it from there\n", saved.value());
  else
    exit_code_ = std::max(exit_code_, report_error(saved.error()));
}

void SubmitRun::tell(const EvalRecord& record, bool resumed) {
  const ReportStyle style{wants_colour(STDOUT_FILENO), false, terminal_width(STDOUT_FILENO)};
  if (rows_.size() == 1 && !arguments_.eval.quiet && !resumed)
    fmt::print("{}", render_report(record, style));
  else if (resumed)
    fmt::print("[{}/{}] {}  {}  finished before, record {}\n", done_, rows_.size(), record.candidate.path,
               to_text(record.verdict), record.id);
  else
    fmt::print("[{}/{}] {}", done_, rows_.size(), render_line(record));
  std::fflush(stdout);  // so that whoever reads a pipe sees how far it is
}

void SubmitRun::take(size_t index, EvaluatedFile outcome) {
  ++done_;
  if (outcome.error) exit_code_ = std::max(exit_code_, report_error(*outcome.error));
  if (!outcome.record) return;
  EvalRecord& record = *outcome.record;
  if (outcome.resumed)
    ++finished_before_;
  else
    keep(record);
  const int code = exit_code_of(record.verdict);
  ++(code == kExitDone ? passed_ : code == kExitFailed ? failed_ : not_judged_);
  exit_code_ = std::max(exit_code_, code);
  if (!arguments_.store.empty() && !record.replay_command.empty())
    record.replay_command += " --store " + shell_word(arguments_.store);  // in what is printed only
  tell(record, outcome.resumed);
  rows_[index] = summarize(std::span(&record, 1)).front();
}

int SubmitRun::finish() {
  std::vector<SummaryRow> table;
  for (std::optional<SummaryRow>& row : rows_)
    if (row) table.push_back(std::move(*row));
  if (rows_.size() > 1 && !table.empty() && !arguments_.eval.quiet) fmt::print("\n{}\n", render_table(table));
  std::string totals =
      fmt::format("{} new, {} finished before; {} passed, {} failed", added_, finished_before_, passed_, failed_);
  if (not_judged_ > 0) totals += fmt::format(", {} not judged", not_judged_);
  if (const size_t unread = rows_.size() - table.size(); unread > 0) totals += fmt::format(", {} not read", unread);
  if (!arguments_.eval.quiet) fmt::print("{}; store {}\n", totals, path_of(*store_));
  return exit_code_;
}

}  // namespace

int run_submit(const SubmitArguments& given) {
  SubmitArguments arguments = given;
  Result<std::vector<std::string>> files = candidate_files(given.eval.files);
  if (!files.ok()) return report_error(files.error());
  arguments.eval.files = std::move(files).value();
  if (const Result<void> checked = check_arguments(arguments, arguments.eval.files.size()); !checked.ok())
    return report_error(checked.error());
  if (arguments.engine != "local" && arguments.engine != "slurm")
    return report_error(
        {ErrorCode::kUsage, "unknown engine", "--engine", "local or slurm", replace_invalid_utf8(arguments.engine)});
  if (arguments.engine == "slurm") return start_slurm(arguments);
  const Result<EvalOptions> options = make_eval_options(arguments.eval);
  if (!options.ok()) return report_error(options.error());
  if (!arguments.eval.task.empty())
    if (const Result<TaskSpec> task = load_task(arguments.eval.task); !task.ok()) return report_error(task.error());
  const Result<std::string> path = store_path(arguments.store);
  if (!path.ok()) return report_error(path.error());
  Result<StorePtr> store = open_store(path.value(), {StoreMode::kWrite});
  if (!store.ok()) return report_error(store.error());

  SubmitRun run(arguments, std::move(store).value(), arguments.eval.files.size(),
                arguments.eval.salt.empty() ? "" : hex16(options.value().salt));
  EvaluateHooks hooks;
  hooks.find_finished = [&](const ResumeKey& key) { return run.find_finished(key); };
  hooks.take = [&](size_t index, EvaluatedFile outcome) { run.take(index, std::move(outcome)); };
  evaluate_each(arguments.eval, options.value(), hooks);
  return run.finish();
}

}  // namespace stepbench
