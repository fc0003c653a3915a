// `stepbench regress`: two sets of records, or stored ones and a new run, compared and shown. What counts as worse is
// fixed in scoring/regress.h; here records are read, files are evaluated and text is written.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "harness/commands.h"
#include "harness/record.h"
#include "harness/record_folder.h"
#include "harness/record_source.h"
#include "harness/stages.h"
#include "scoring/regress.h"
#include "scoring/regress_render.h"

namespace stepbench {
namespace {

constexpr const char* kFormats = "table, md, junit, sarif, github or json";

/// Where one form of the comparison goes.
struct Output {
  std::string format;
  std::string path;  ///< empty: standard output
};

bool is_format(const std::string& name) {
  static const std::set<std::string> formats = {"table", "md", "junit", "sarif", "github", "json"};
  return formats.contains(name);
}

std::string render(const RegressReport& report, const std::string& format, bool all) {
  if (format == "md") return render_regress_markdown(report);
  if (format == "junit") return render_regress_junit(report);
  if (format == "sarif") return render_regress_sarif(report);
  if (format == "github") return render_regress_annotations(report);
  if (format == "json") return render_regress_json(report);
  return render_regress_table(report, all);
}

Result<std::vector<Output>> outputs_of(const RegressArguments& arguments) {
  std::vector<Output> outputs{{arguments.format, arguments.out}};
  for (const std::string& text : arguments.also) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals + 1 == text.size())
      return Error{ErrorCode::kUsage, "wrong output", "--also", "FORMAT=FILE", replace_invalid_utf8(text)};
    outputs.push_back({text.substr(0, equals), text.substr(equals + 1)});
  }
  for (const Output& output : outputs)
    if (!is_format(output.format))
      return Error{ErrorCode::kUsage, "unknown format", "", kFormats, replace_invalid_utf8(output.format)};
  return outputs;
}

Result<std::vector<EvalRecord>> load_side(const std::string& path, const std::string& task) {
  Result<RecordSource> source = load_records(path, task);
  if (!source.ok()) return source.error();
  const RecordSource& found = source.value();
  if (found.unreadable > 0)
    fmt::print(stderr, "stepbench: {}: {} left out that hold no record, the first: {}\n", path,
               found.unreadable == 1 ? "1 file" : fmt::format("{} files", found.unreadable), found.first_unreadable);
  if (found.partial > 0)
    fmt::print(stderr, "stepbench: {}: {} left out that passed a part of the checks only\n", path,
               found.partial == 1 ? "1 record" : fmt::format("{} records", found.partial));
  return std::move(source.value().records);
}

/// The suite that all old records were made with.
Result<std::string> common_suite(const std::vector<EvalRecord>& records) {
  std::set<std::string> suites;
  for (const EvalRecord& record : records) suites.insert(record.suite);
  if (suites.size() == 1) return *suites.begin();
  if (suites.empty()) return std::string("smoke");
  return Error{ErrorCode::kUsage, "the old records were made with several suites", "", "--suite NAME",
               fmt::format("{}", fmt::join(suites, ", "))};
}

/// The new run. Files that could not be evaluated are told of and raise `exit_code`.
Result<std::vector<EvalRecord>> evaluate_side(const RegressArguments& arguments, const std::vector<EvalRecord>& before,
                                              int& exit_code) {
  EvalArguments eval = arguments.eval;
  if (eval.suite.empty()) {
    const Result<std::string> suite = common_suite(before);
    if (!suite.ok()) return suite.error();
    eval.suite = suite.value();
  }
  if (eval.task.empty()) eval.task = arguments.task;
  Result<std::vector<EvaluatedFile>> evaluated = evaluate_files(eval);
  if (!evaluated.ok()) return evaluated.error();
  std::vector<EvalRecord> records;
  for (EvaluatedFile& file : evaluated.value()) {
    if (file.error) exit_code = std::max(exit_code, report_error(*file.error));
    if (file.save_error) exit_code = std::max(exit_code, report_error(*file.save_error));
    if (file.record) records.push_back(std::move(*file.record));
  }
  return records;
}

Result<void> write_output(const Output& output, const std::string& text) {
  if (!output.path.empty() && output.path != "-") return write_file_atomically(output.path, text);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    return Error{ErrorCode::kIo, "cannot write to standard output", "", "", ""};
  return {};
}

}  // namespace

int run_regress(const RegressArguments& arguments) {
  if (arguments.after.empty() == arguments.eval.files.empty())
    return report_error({ErrorCode::kUsage, "one new side is needed", "", "NEW, or --eval FILE..",
                         arguments.after.empty() ? "neither" : "both"});
  if (!std::isfinite(arguments.tolerance_ratio) || arguments.tolerance_ratio < 0)
    return report_error({ErrorCode::kUsage, "wrong tolerance", "--tolerance", "a share of 0 or more",
                         fmt::format("{}", arguments.tolerance_ratio)});
  const Result<std::vector<Output>> outputs = outputs_of(arguments);
  if (!outputs.ok()) return report_error(outputs.error());

  // The old side first: the new run may add to the same folder.
  const Result<std::vector<EvalRecord>> before = load_side(arguments.before, arguments.task);
  if (!before.ok()) return report_error(before.error());
  int exit_code = kExitDone;
  const Result<std::vector<EvalRecord>> after = arguments.after.empty()
                                                    ? evaluate_side(arguments, before.value(), exit_code)
                                                    : load_side(arguments.after, arguments.task);
  if (!after.ok()) return report_error(after.error());
  if (after.value().empty() && exit_code == kExitDone)
    return report_error({ErrorCode::kUsage, "the new side has no record", arguments.after,
                         arguments.task.empty() ? "records" : "records of task " + arguments.task, "none"});

  RegressRule rule;
  rule.tolerance_ratio = arguments.tolerance_ratio;
  rule.error_factor = arguments.error_factor;
  rule.require_all = arguments.require_all;
  const RegressReport report = compare_records(before.value(), after.value(), rule);
  for (const Output& output : outputs.value())
    if (const Result<void> written = write_output(output, render(report, output.format, arguments.all)); !written.ok())
      exit_code = std::max(exit_code, report_error(written.error()));
  // What is broken precedes what got worse: a comparison with holes is no verdict. Regressions found are in the text.
  if (report.not_judged > 0) exit_code = std::max(exit_code, kExitEnvironment);
  if (report.count(Change::kWorse) > 0) exit_code = std::max(exit_code, kExitFailed);
  return exit_code;
}

}  // namespace stepbench
