// `stepbench eval`: candidates in, reports and records out. Judging and running are evaluate_each's; this file
// keeps the records in their folder and prints.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "harness/commands.h"
#include "harness/evaluate_files.h"
#include "harness/record.h"
#include "harness/record_folder.h"
#include "harness/report.h"
#include "harness/resume.h"
#include "harness/shell_word.h"
#include "harness/stages.h"
#include "scoring/summary.h"

namespace stepbench {
namespace {

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

Result<std::vector<EvaluatedFile>> evaluate_files(const EvalArguments& arguments) {
  const Result<EvalOptions> options = make_eval_options(arguments);
  if (!options.ok()) return options.error();
  const Result<std::string> folder = records_folder(arguments.records);
  if (!folder.ok()) return folder.error();
  if (!arguments.task.empty())
    if (const Result<TaskSpec> task = load_task(arguments.task); !task.ok()) return task.error();

  FinishedRecords finished;
  if (arguments.resume) {
    if (!arguments.only.empty()) return Error{ErrorCode::kUsage, "--resume and --only exclude each other", "", "", ""};
    Result<FinishedRecords> found =
        find_finished(folder.value(), arguments.salt.empty() ? "" : hex16(options.value().salt));
    if (!found.ok()) return found.error();
    finished = std::move(found.value());
    if (finished.ignored > 0) fmt::print(stderr, "stepbench: {}\n", ignored_text(finished, folder.value()));
  }
  std::vector<EvaluatedFile> outcomes(arguments.files.size());
  EvaluateHooks hooks;
  hooks.find_finished = [&](const ResumeKey& key) { return finished_record(finished, key); };
  hooks.take = [&](size_t index, EvaluatedFile outcome) {
    if (outcome.record && !outcome.resumed)
      if (const Result<std::string> saved = save_record(folder.value(), *outcome.record); !saved.ok())
        outcome.save_error = saved.error();
    outcomes[index] = std::move(outcome);
  };
  evaluate_each(arguments, options.value(), hooks);
  return outcomes;
}

int run_eval(const EvalArguments& arguments) {
  const Result<std::vector<EvaluatedFile>> evaluated = evaluate_files(arguments);
  if (!evaluated.ok()) return report_error(evaluated.error());
  const std::vector<EvaluatedFile>& outcomes = evaluated.value();

  std::FILE* text_out = arguments.json == "-" ? stderr : stdout;
  const ReportStyle style{wants_colour(::fileno(text_out)), arguments.profile, terminal_width(::fileno(text_out))};
  int exit_code = kExitDone;
  std::vector<EvalRecord> records, printed;  // what is printed says where a replay finds the record
  for (const EvaluatedFile& outcome : outcomes) {
    if (outcome.error) exit_code = std::max(exit_code, report_error(*outcome.error));
    if (outcome.save_error) exit_code = std::max(exit_code, report_error(*outcome.save_error));
    if (!outcome.record) continue;
    records.push_back(*outcome.record);
    EvalRecord& told = printed.emplace_back(*outcome.record);
    if (!arguments.records.empty() && !told.replay_command.empty())
      told.replay_command += " --records " + shell_word(arguments.records);
    exit_code = std::max(exit_code, exit_code_of(told.verdict));
    if (outcome.resumed && !arguments.quiet)
      fmt::print(text_out, "{}  {}  finished before, record {}\n", told.candidate.path, to_text(told.verdict), told.id);
    if (!outcome.resumed && !arguments.quiet) fmt::print(text_out, "{}\n", render_report(told, style));
  }
  if (arguments.files.size() > 1 && !printed.empty())
    fmt::print(text_out, "{}", render_table(summarize(printed)));
  else if (arguments.quiet && !printed.empty())
    fmt::print(text_out, "{}", render_line(printed.front()));
  if (!arguments.json.empty()) {
    const Result<void> written = write_json(arguments.json, records, arguments.files.size() == 1);
    if (!written.ok()) exit_code = std::max(exit_code, report_error(written.error()));
  }
  return exit_code;
}

}  // namespace stepbench
