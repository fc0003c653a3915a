// `stepbench store`: list, show, export, import, verify, upgrade. Everything about the file is store.h's; this file
// reads arguments and prints.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "harness/commands.h"
#include "harness/record.h"
#include "harness/record_folder.h"
#include "harness/report.h"
#include "harness/stages.h"
#include "harness/store.h"

namespace stepbench {
namespace {

namespace fs = std::filesystem;

constexpr size_t kHashDigits = 64;

Result<StoreFilter> filter_of(const StoreArguments& arguments) {
  StoreFilter filter;
  filter.task = arguments.task;
  filter.suite = arguments.suite;
  filter.device = arguments.device;
  filter.submission = arguments.submission;
  filter.model = arguments.model;
  if (arguments.verdict.empty()) return filter;
  filter.verdict = verdict_from_text(arguments.verdict);
  if (filter.verdict) return filter;
  std::string known;
  for (int i = 0; i < kVerdictCount; ++i)
    known += fmt::format("{}{}", i > 0 ? " " : "", to_text(static_cast<Verdict>(i)));
  return Error{ErrorCode::kUsage, "unknown verdict", "--verdict", known, replace_invalid_utf8(arguments.verdict)};
}

StoreProgress progress_on(ProgressLine& line, const std::string& subject, const char* stage) {
  return [&line, subject, stage](int64_t done, int64_t total) {
    line.show(subject, {total > 0 ? stage : fmt::format("{} {}", stage, done), done, total});
  };
}

// ---------------------------------------------------------------------------------------------- list, show

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

using Line = std::vector<std::string>;

Line line_of(const StoreRow& row) {
  const StoreScore& score = row.score;
  return {std::to_string(row.sequence),
          row.created_utc,
          or_dash(row.task),
          row.suite,
          row.device,
          std::string(to_text(row.verdict)),
          score.lists > 0 ? fmt::format("{:.3f} [{:.3f}, {:.3f}]", score.speedup, score.low, score.high) : "-",
          or_dash(row.submission),
          row.id,
          row.path};
}

/// Records come from anywhere: what stands in them must not steer the terminal.
void remove_control_characters(std::string& text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
}

size_t characters_in(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

/// Columns aligned, the last one as it comes.
void print_lines(std::vector<Line>& lines) {
  std::vector<size_t> widths(lines.front().size());
  for (Line& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) {
      remove_control_characters(line[i]);
      widths[i] = std::max(widths[i], characters_in(line[i]));
    }
  }
  for (const Line& line : lines) {
    std::string text;
    for (size_t i = 0; i + 1 < line.size(); ++i)
      text += line[i] + std::string(widths[i] - characters_in(line[i]) + 2, ' ');
    fmt::print("{}{}\n", text, line.back());
  }
}

int run_list(Store& store, const StoreArguments& arguments) {
  Result<StoreFilter> filter = filter_of(arguments);
  if (!filter.ok()) return report_error(filter.error());
  filter.value().newest_first = true;
  filter.value().limit = arguments.limit;
  std::vector<Line> lines = {
      {"row", "created", "task", "suite", "device", "verdict", "speedup [95 %]", "name", "record", "candidate"}};
  const Result<int64_t> count = for_each_row(store, filter.value(), [&](const StoreRow& row) {
    if (arguments.json)
      fmt::print("{}\n", row_to_json(row));
    else
      lines.push_back(line_of(row));
    return true;
  });
  if (!count.ok()) return report_error(count.error());
  if (arguments.json) return kExitDone;
  if (count.value() > 0) print_lines(lines);
  filter.value().limit = 0;
  const Result<int64_t> all = count_rows(store, filter.value());
  if (!all.ok()) return report_error(all.error());
  if (all.value() == 0)
    fmt::print("no records\n");
  else if (all.value() > count.value())
    fmt::print("the newest {} of {} records; --limit 0 lists all\n", count.value(), all.value());
  return kExitDone;
}

std::string submission_text(const Submission& submission) {
  std::string text = "submitted as " + submission.name;
  if (!submission.model.empty()) text += ", model " + submission.model;
  if (submission.round > 0) text += fmt::format(", round {}", submission.round);
  if (submission.prompt_tokens > 0 || submission.completion_tokens > 0)
    text += fmt::format(", {} + {} tokens", submission.prompt_tokens, submission.completion_tokens);
  if (submission.cost_usd > 0) text += fmt::format(", {:.4g} USD", submission.cost_usd);
  if (!submission.note.empty()) text += "\n  note: " + submission.note;
  return text;
}

int run_show_record(Store& store, const StoreArguments& arguments) {
  const Result<std::string> text = load_record_json(store, arguments.id);
  if (!text.ok()) return report_error(text.error());
  if (arguments.json) {
    fmt::print("{}\n", text.value());
    return kExitDone;
  }
  const Result<EvalRecord> record = record_from_json(text.value());
  if (!record.ok()) return report_error(record.error());
  if (arguments.source) {
    fmt::print("{}", record.value().candidate.source);
    return kExitDone;
  }
  const ReportStyle style{wants_colour(STDOUT_FILENO), false, terminal_width(STDOUT_FILENO)};
  fmt::print("{}", render_report(record.value(), style));
  if (record.value().submission) fmt::print("  {}\n", submission_text(*record.value().submission));
  return kExitDone;
}

// ---------------------------------------------------------------------------------------------- export

/// Under another name until it is whole, so that nobody takes the half for all of it.
Result<int64_t> export_to_file(Store& store, const StoreFilter& filter, const std::string& path,
                               const StoreProgress& progress) {
  const std::string temporary = fmt::format("{}.{}.tmp", path, ::getpid());
  std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
  if (!out) return Error{ErrorCode::kIo, "cannot create file", temporary, "", ""};
  Result<int64_t> count = export_records(store, filter, out, progress);
  out.close();
  std::error_code status;
  if (count.ok() && !out) count = Error{ErrorCode::kIo, "cannot write file", temporary, "", ""};
  if (count.ok()) fs::rename(temporary, path, status);
  if (count.ok() && status)
    count = Error{ErrorCode::kIo, fmt::format("cannot name file: {}", status.message()), path, "", ""};
  if (!count.ok()) fs::remove(temporary, status);
  return count;
}

int run_export(Store& store, const StoreArguments& arguments) {
  const Result<StoreFilter> filter = filter_of(arguments);
  if (!filter.ok()) return report_error(filter.error());
  ProgressLine line(arguments.quiet || arguments.out.empty());
  const StoreProgress progress = progress_on(line, path_of(store), "export");
  const Result<int64_t> count = arguments.out.empty() ? export_records(store, filter.value(), std::cout)
                                                      : export_to_file(store, filter.value(), arguments.out, progress);
  line.clear();
  if (!count.ok()) return report_error(count.error());
  if (!arguments.quiet && !arguments.out.empty())
    fmt::print("{} records written to {}\n", count.value(), arguments.out);
  return kExitDone;
}

// ---------------------------------------------------------------------------------------------- import

/// Folders stand for the files in them that can hold records.
Result<std::vector<std::string>> files_to_import(const std::vector<std::string>& given) {
  std::vector<std::string> files;
  for (const std::string& path : given) {
    const Result<std::vector<std::string>> found = files_with_records(path);
    if (!found.ok()) return found;
    if (found.value().empty())
      return Error{ErrorCode::kNotFound, "nothing to import in this folder", path, "files .json, .jsonl or .db", ""};
    files.insert(files.end(), found.value().begin(), found.value().end());
  }
  return files;
}

int run_import(Store& store, const StoreArguments& arguments) {
  const Result<std::vector<std::string>> files = files_to_import(arguments.files);
  if (!files.ok()) return report_error(files.error());
  ProgressLine line(arguments.quiet);
  int exit_code = kExitDone;
  int64_t added = 0, already_there = 0, bad = 0;
  for (const std::string& file : files.value()) {
    const Result<StoreImport> imported = import_path(store, file, progress_on(line, file, "import"));
    line.clear();
    if (!imported.ok()) {
      exit_code = std::max(exit_code, report_error(imported.error()));
      // A file that cannot be read is one of many; a store that takes nothing more is the end.
      if (exit_code == kExitEnvironment) break;
      continue;
    }
    added += imported.value().added;
    already_there += imported.value().already_there;
    for (const Error& error : imported.value().bad_lines) exit_code = std::max(exit_code, report_error(error));
    if (imported.value().more_bad_lines > 0)
      fmt::print(stderr, "stepbench: {}: {} more bad lines\n", file, imported.value().more_bad_lines);
    bad += std::ssize(imported.value().bad_lines) + imported.value().more_bad_lines;
  }
  if (!arguments.quiet)
    fmt::print("{} records added, {} already there, {} not taken; store {}\n", added, already_there, bad,
               path_of(store));
  return exit_code;
}

// ---------------------------------------------------------------------------------------------- verify

int run_verify(Store& store, const StoreArguments& arguments) {
  const bool is_hash =
      arguments.head.empty() || (arguments.head.size() == kHashDigits &&
                                 arguments.head.find_first_not_of("0123456789abcdef") == std::string::npos);
  if (!is_hash)
    return report_error({ErrorCode::kUsage, "not a hash", "--head", "64 lower-case hex digits, as `verify` prints them",
                         replace_invalid_utf8(arguments.head)});
  ProgressLine line(arguments.quiet);
  const Result<StoreVerification> verified =
      verify_store(store, arguments.head, progress_on(line, path_of(store), "verify"));
  line.clear();
  if (!verified.ok()) return report_error(verified.error());
  const StoreVerification& found = verified.value();
  for (const StoreProblem& problem : found.problems) {
    const std::string id = problem.id.empty() ? "" : fmt::format(" (record {})", problem.id);
    fmt::print("{}{}: {}\n", problem.sequence > 0 ? fmt::format("row {}", problem.sequence) : "store", id,
               problem.what);
  }
  if (found.more_problems > 0) fmt::print("and {} more\n", found.more_problems);
  const int64_t problems = std::ssize(found.problems) + found.more_problems;
  if (problems == 0)
    fmt::print("{} records are in the store, as they were written; head {}\n", found.records, found.head);
  else
    fmt::print("the store was changed by other means than StepBench, or damaged: {} found in {} records\n", problems,
               found.records);
  return problems == 0 ? kExitDone : kExitFailed;
}

}  // namespace

int run_store(const StoreArguments& arguments) {
  const Result<std::string> path = store_path(arguments.store);
  if (!path.ok()) return report_error(path.error());
  const bool writes = arguments.action == StoreAction::kImport || arguments.action == StoreAction::kUpgrade;
  std::error_code status;
  if (arguments.action == StoreAction::kUpgrade && !fs::exists(path.value(), status))  // opening would make one
    return report_error({ErrorCode::kNotFound, "no store here", path.value(), "", ""});
  const Result<StorePtr> store = open_store(path.value(), {writes ? StoreMode::kWrite : StoreMode::kRead});
  if (!store.ok()) return report_error(store.error());
  switch (arguments.action) {
    case StoreAction::kList: return run_list(*store.value(), arguments);
    case StoreAction::kShow: return run_show_record(*store.value(), arguments);
    case StoreAction::kExport: return run_export(*store.value(), arguments);
    case StoreAction::kImport: return run_import(*store.value(), arguments);
    case StoreAction::kVerify: return run_verify(*store.value(), arguments);
    case StoreAction::kUpgrade: fmt::print("{} is up to date\n", path.value()); return kExitDone;
  }
  SB_ASSERT(false);
  return kExitEnvironment;
}

}  // namespace stepbench
