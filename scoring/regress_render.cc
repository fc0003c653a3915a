// The forms that people read: terminal, pull request, annotations.
#include "scoring/regress_render.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "harness/stages.h"
#include "scoring/board_text.h"

namespace stepbench {
namespace {

std::string counted(size_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

/// One line without control characters: names come from others, and a terminal obeys what it is sent.
std::string plain(const std::string& text) {
  const std::string valid = valid_utf8(text);
  std::string line;
  for (size_t i = 0; i < valid.size(); ++i) {
    const auto byte = static_cast<unsigned char>(valid[i]);
    const bool c1 = byte == 0xC2 && i + 1 < valid.size() && static_cast<unsigned char>(valid[i + 1]) < 0xA0;
    if (byte < 0x20 || byte == 0x7F || c1) {
      line += byte == '\n' || byte == '\t' ? " " : "\xEF\xBF\xBD";
      i += c1;
    } else {
      line += valid[i];
    }
  }
  return line;
}

/// The words for people; the names of Change are for programs.
const char* word_of(Change change) {
  switch (change) {
    case Change::kSame: return "same";
    case Change::kBetter: return "better";
    case Change::kWorse: return "WORSE";
    case Change::kNoted: return "noted";
    case Change::kNotCompared: return "not compared";
  }
  SB_ASSERT(false);
  return "";
}

bool is_quiet(const CandidateComparison& candidate) {
  return std::all_of(candidate.findings.begin(), candidate.findings.end(),
                     [](const RegressFinding& finding) { return finding.change == Change::kSame; });
}

std::string shown_value(const std::string& value) { return value.empty() ? "none" : value; }

std::string environment_line(const EnvironmentDifference& difference) {
  std::string line =
      fmt::format("{}: {}, was {} ({})", difference.field, shown_value(difference.after),
                  shown_value(difference.before), counted(difference.candidates, "candidate", "candidates"));
  if (!difference.consequence.empty()) line += "; " + difference.consequence;
  return line;
}

/// "%", line ends and, in properties, the separators, as the toolkit of GitHub's actions escapes them.
std::string command_text(const std::string& text, bool is_property) {
  std::string escaped;
  for (const char c : valid_utf8(text)) {
    switch (c) {
      case '%': escaped += "%25"; break;
      case '\r': escaped += "%0D"; break;
      case '\n': escaped += "%0A"; break;
      case ':': escaped += is_property ? "%3A" : ":"; break;
      case ',': escaped += is_property ? "%2C" : ","; break;
      default: escaped += c;
    }
  }
  return escaped;
}

}  // namespace

std::string regress_summary(const RegressReport& report) {
  std::string text = fmt::format("{} compared, {} only old, {} only new: {}, {}, {} noted, {} not compared",
                                 counted(report.matched, "candidate", "candidates"), report.missing, report.added,
                                 counted(report.count(Change::kWorse), "regression", "regressions"),
                                 counted(report.count(Change::kBetter), "improvement", "improvements"),
                                 report.count(Change::kNoted), report.count(Change::kNotCompared));
  if (report.not_judged > 0)
    text += fmt::format("; {} could not be judged", counted(report.not_judged, "candidate", "candidates"));
  return text;
}

std::string render_regress_table(const RegressReport& report, bool all) {
  std::string text;
  for (const EnvironmentDifference& difference : report.environment)
    text += "environment  " + plain(environment_line(difference)) + "\n";
  if (!report.environment.empty()) text += "\n";
  for (const CandidateComparison& candidate : report.candidates) {
    const bool quiet = is_quiet(candidate);
    text += fmt::format("{}  {}{}\n", plain(candidate.task), plain(candidate.name),
                        candidate.source_changed ? "  (its text has changed)" : "");
    bool worse = false;
    for (const RegressFinding& finding : candidate.findings) {
      // Of a candidate without changes one line is enough: its verdict.
      if (finding.change == Change::kSame && !all && !(quiet && finding.aspect == Aspect::kVerdict)) continue;
      text += fmt::format("  {:<13}{:<10}{}{}\n", word_of(finding.change), to_text(finding.aspect),
                          finding.subject.empty() ? "" : plain(finding.subject) + ": ", plain(finding.message));
      worse = worse || (finding.change == Change::kWorse && finding.aspect == Aspect::kVerdict);
    }
    if (worse && !candidate.replay_command.empty())
      text += fmt::format("  {:<13}{:<10}{}\n", "", "replay", plain(candidate.replay_command));
  }
  if (!report.candidates.empty()) text += "\n";
  return text + regress_summary(report) + "\n";
}

std::string render_regress_markdown(const RegressReport& report) {
  const size_t worse = report.count(Change::kWorse);
  std::string text =
      fmt::format("### StepBench: {}\n\n", worse == 0 ? "no regression" : counted(worse, "regression", "regressions"));
  text += regress_summary(report) + ".\n\n";
  for (const EnvironmentDifference& difference : report.environment)
    text += "- " + markdown_cell(environment_line(difference)) + "\n";
  if (!report.environment.empty()) text += "\n";

  const char* const kHeader = "| | task | candidate | aspect | where | what |\n|---|---|---|---|---|---|\n";
  std::string changed, same;
  // Regressions first: a reader stops early.
  for (const Change change : {Change::kWorse, Change::kBetter, Change::kNoted, Change::kNotCompared, Change::kSame})
    for (const CandidateComparison& candidate : report.candidates)
      for (const RegressFinding& finding : candidate.findings) {
        if (finding.change != change) continue;
        const bool bold = change == Change::kWorse;
        (change == Change::kSame ? same : changed) +=
            fmt::format("| {}{}{} | {} | {} | {} | {} | {} |\n", bold ? "**" : "", bold ? "worse" : word_of(change),
                        bold ? "**" : "", markdown_cell(candidate.task), markdown_cell(candidate.name),
                        to_text(finding.aspect), markdown_cell(finding.subject), markdown_cell(finding.message));
      }
  if (!changed.empty()) text += kHeader + changed + "\n";
  if (!same.empty())
    text += fmt::format("<details><summary>{} without a change</summary>\n\n{}{}\n</details>\n",
                        counted(report.count(Change::kSame), "aspect", "aspects"), kHeader, same);
  return text;
}

std::string render_regress_annotations(const RegressReport& report) {
  std::string text;
  for (const CandidateComparison& candidate : report.candidates) {
    const auto annotate = [&](const char* command, const RegressFinding& finding) {
      const std::string title = fmt::format("{}: {}", candidate.task, to_text(finding.aspect));
      const std::string message = (finding.subject.empty() ? "" : finding.subject + ": ") + finding.message +
                                  (candidate.replay_command.empty() ? "" : "\nreplay: " + candidate.replay_command);
      text += fmt::format("::{} file={},line={},title={}::{}\n", command, command_text(candidate.path, true),
                          candidate.line, command_text(title, true), command_text(message, false));
    };
    for (const RegressFinding& finding : candidate.findings) {
      if (finding.change == Change::kWorse) annotate("error", finding);
      if (candidate.new_verdict == Verdict::kHarnessError && finding.aspect == Aspect::kVerdict &&
          finding.change != Change::kWorse)
        annotate("warning", finding);
    }
  }
  return text + fmt::format("::notice title=StepBench::{}\n", command_text(regress_summary(report), false));
}

}  // namespace stepbench
