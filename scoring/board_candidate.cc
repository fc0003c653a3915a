// The page of one record: all that it says of its candidate, in the order in which a person asks. Nothing is computed
// here that is not in the record; times and speedups come from its raw samples (score.h).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "harness/stages.h"
#include "scoring/board_candidate.h"
#include "scoring/board_findings.h"
#include "scoring/board_plots.h"
#include "scoring/board_site.h"
#include "scoring/board_text.h"
#include "scoring/board_units.h"
#include "scoring/drift_error.h"
#include "scoring/score.h"

namespace stepbench {
namespace {

constexpr size_t kMaxOthers = 20;
constexpr size_t kMaxSourceLines = 4000;
constexpr size_t kMaxSourceBytes = 256 << 10;
constexpr size_t kMaxTextBytes = 32 << 10;  // of a log, a plan, a detail

/// The verdicts whose failures carry two values; a fault names an element without them.
bool compares_values(Verdict verdict) {
  return verdict == Verdict::kWrongResult || verdict == Verdict::kDrift || verdict == Verdict::kNondeterministic;
}

std::string first_bytes(const std::string& text, size_t limit) {
  if (text.size() <= limit) return text;
  size_t end = limit;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // whole characters
  return text.substr(0, end) + "\n... (the record has the rest)";
}

View fact(const char* key, std::string value) { return View().text("key", key).text("value", std::move(value)); }

void add_fact(std::vector<View>& facts, const char* key, const std::string& value) {
  if (!value.empty()) facts.push_back(fact(key, shortened(value, 400)));
}

// ---------------------------------------------------------------------------------------------- in short

View figure(std::string value, std::string what) {
  return View().text("value", std::move(value)).text("what", std::move(what));
}

std::vector<View> figures_of(const Site& site, size_t row, const EvalRecord& record, const Score& score) {
  std::vector<View> figures;
  if (score.speedup) {
    figures.push_back(figure(speedup_text(*score.speedup),
                             fmt::format("speedup, 95 % interval {}", interval_text(*score.low, *score.high))));
    if (score.floor_ratio) figures.push_back(figure(percent_text(*score.floor_ratio), "of the floor"));
    if (score.retention_ratio)
      figures.push_back(figure(percent_text(*score.retention_ratio), "of the speedup is kept on hidden shapes"));
  }
  if (const auto rank = site.ranks.find(row); rank != site.ranks.end())
    figures.push_back(figure(fmt::format("#{}", rank->second.rank),
                             fmt::format("of {} in its ranking", count_text(rank->second.entries))));
  double worst = 0;
  int64_t compared = 0;
  for (const CaseReport& report : record.cases) {
    compared += report.elements_checked;
    if (is_worse(report.worst_error_ratio, worst)) worst = report.worst_error_ratio;
  }
  if (!record.cases.empty()) {
    const auto passed = std::count_if(record.cases.begin(), record.cases.end(),
                                      [](const CaseReport& report) { return report.verdict == Verdict::kPassed; });
    figures.push_back(figure(fmt::format("{} of {}", passed, record.cases.size()), "cases passed"));
    if (compared > 0) figures.push_back(figure(number_text(worst), "worst error, 1 is at the limit"));
  }
  if (const std::optional<double> drift = worst_drift_error_ratio(record))
    figures.push_back(figure(number_text(*drift), "worst drift, 1 is at the limit"));
  if (record.modelled_bytes_per_param > 0)
    figures.push_back(
        figure(fmt::format("{:.2f} B", record.modelled_bytes_per_param),
               fmt::format("modelled traffic per parameter, floor {:.2f} B", record.ideal_bytes_per_param)));
  return figures;
}

// ---------------------------------------------------------------------------------------------- failure

/// The first line that the failure is about.
std::optional<int64_t> failing_line(const std::map<int64_t, std::vector<LineFinding>>& findings) {
  for (const auto& [line, list] : findings)
    if (list.front().kind == FindingKind::kError) return line;
  return {};
}

View failure_view(const EvalRecord& record, std::optional<int64_t> line) {
  const Failure& failure = *record.failure;
  std::vector<View> facts;
  add_fact(facts, "Where", failure.place);
  add_fact(facts, "Check", failure.check);
  add_fact(facts, "Case", failure.case_name);
  if (failure.step >= 0) add_fact(facts, "Optimizer step", fmt::format("{}", failure.step));
  if (!failure.case_name.empty()) add_fact(facts, "Seed of the data", fmt::format("{:016x}", failure.seed));
  add_fact(facts, "Buffer", failure.buffer);
  if (failure.tensor >= 0) add_fact(facts, "Tensor of the list", fmt::format("{}", failure.tensor));
  if (failure.element >= 0) add_fact(facts, "Element of the tensor", count_text(failure.element));
  if (failure.element >= 0 && compares_values(failure.verdict)) {
    add_fact(facts, "Expected", exact_text(failure.expected));
    add_fact(facts, "Found", exact_text(failure.got));
  }
  if (failure.error_ratio != 0) add_fact(facts, "Error", limit_text(failure.error_ratio));  // NaN is shown too
  const std::string detail = first_bytes(failure.detail, kMaxTextBytes);
  const bool is_judged = record.verdict != Verdict::kUnsupported && record.verdict != Verdict::kHarnessError;
  View view;
  view.text("failure_class", is_judged ? "" : "unjudged")
      .text("why_title", !is_judged ? "Why it was not judged" : "Why it failed")
      .text("message", shortened(failure.message, 2000))
      .text("verdict_meaning", verdict_meaning(record.verdict))
      .flag("has_line", line.has_value())
      .text("line", line ? fmt::format("{}", *line) : "")
      .list("facts", std::move(facts))
      .flag("has_detail", !detail.empty())
      .flag("wide", failure.check == "compile")  // carets point at columns
      .text("detail", detail)
      .text("replay", fmt::format("stepbench replay {}.json", page_name(record.id)))
      .flag("has_command", !record.replay_command.empty())
      .text("command", shortened(record.replay_command, 2000));
  return view;
}

// ---------------------------------------------------------------------------------------------- source

const char* class_of(FindingKind kind) { return kind == FindingKind::kError ? "hit" : "remark"; }

const char* word_of(FindingKind kind) {
  switch (kind) {
    case FindingKind::kError: return "Fault";
    case FindingKind::kWarning: return "Warning";
    case FindingKind::kNote: return "Remark";
  }
  SB_ASSERT(false);
  return "";
}

std::string source_html(const std::vector<std::string_view>& lines,
                        const std::map<int64_t, std::vector<LineFinding>>& findings) {
  std::string html;
  for (size_t i = 0; i < lines.size(); ++i) {
    const auto number = static_cast<int64_t>(i) + 1;
    const auto found = findings.find(number);
    std::string remarks, css;
    if (found != findings.end()) {
      css = fmt::format(" class=\"{}\"", class_of(found->second.front().kind));
      for (const LineFinding& finding : found->second)
        remarks += fmt::format("<span class=\"finding\">{}: <bdi>{}</bdi></span>", word_of(finding.kind),
                               html_text(shortened(finding.text, 500)));
    }
    html += fmt::format("<tr id=\"L{}\"{}><th scope=\"row\">{}</th><td><code>{}</code>{}</td></tr>\n", number, css,
                        number, html_source(lines[i]), remarks);
  }
  return html;
}

void add_source(View& view, const EvalRecord& record, const std::map<int64_t, std::vector<LineFinding>>& findings) {
  const std::string& source = record.candidate.source;
  std::vector<std::string_view> lines = lines_of(std::string_view(source).substr(0, kMaxSourceBytes));
  const size_t all = lines_of(source).size();
  if (lines.size() > kMaxSourceLines) lines.resize(kMaxSourceLines);
  std::string words = fmt::format("{} lines, {}.", count_text(static_cast<int64_t>(all)),
                                  bytes_text(static_cast<double>(source.size())));
  if (record.candidate.default_plan) words += " It has no plan of its own: the task's default plan was used.";
  if (record.candidate.is_ptx) words += " It is PTX.";
  if (lines.size() < all || source.size() > kMaxSourceBytes)
    words += fmt::format(" The first {} are shown; the record has the rest.",
                         count_text(static_cast<int64_t>(lines.size())));
  words += " Characters that are not seen but act are shown by their number.";
  std::vector<View> notes;
  for (const std::string& note : record.notes) notes.push_back(View().text("text", shortened(note, 500)));
  view.text("source_words", words)
      .markup("source", source_html(lines, findings))
      .flag("has_plan_text", !record.candidate.plan_text.empty())
      .text("plan_text", first_bytes(record.candidate.plan_text, kMaxTextBytes))
      .flag("has_log", !record.compile_log.empty())
      .text("log", first_bytes(record.compile_log, kMaxTextBytes))
      .flag("has_notes", !notes.empty())
      .list("notes", std::move(notes));
}

// ---------------------------------------------------------------------------------------------- environment

std::vector<View> environment_facts(const EvalRecord& record) {
  const Environment& e = record.environment;
  std::vector<View> facts;
  const auto number = [&](const char* key, double value, const char* unit) {
    if (value > 0) add_fact(facts, key, fmt::format("{:g} {}", value, unit));
  };
  add_fact(facts, "Record", record.id);
  add_fact(facts, "Made", record.created_utc);
  add_fact(facts, "Task", fmt::format("{}, version {}", record.task, record.task_version));
  add_fact(facts, "Suite", record.suite);
  add_fact(facts, "Salt", record.salt);
  add_fact(facts, "Hash of source and plan (SHA-256)", record.candidate.sha256);
  add_fact(facts, "File", std::string(base_name(record.candidate.path)));
  add_fact(facts, "StepBench", e.stepbench_version);
  add_fact(facts, "Device", e.device);
  add_fact(facts, "About the device", e.device_detail);
  add_fact(facts, "Compiler", e.compiler);
  add_fact(facts, "Driver", e.driver);
  add_fact(facts, "GPU", e.gpu_uuid);
  number("Highest SM clock", e.sm_clock_mhz, "MHz");
  number("Power limit", e.power_limit_w, "W");
  number("Temperature at the end", e.temperature_c, "°C");
  if (e.other_processes >= 0) add_fact(facts, "Other programs on the GPU", fmt::format("{}", e.other_processes));
  if (record.calibration) {
    const Calibration& calibration = *record.calibration;
    add_fact(facts, "Measured copy rate", rate_text(calibration.copy_bytes_per_s));
    add_fact(facts, "Measured read rate", rate_text(calibration.read_bytes_per_s));
    if (calibration.fp32_flops_per_s > 0)
      add_fact(facts, "Measured arithmetic in fp32", flops_text(calibration.fp32_flops_per_s));
    if (calibration.tensor_flops_per_s > 0)
      add_fact(facts, "Measured products in bf16", flops_text(calibration.tensor_flops_per_s));
    add_fact(facts, "Measured empty launch", time_text(calibration.launch_ns));
    add_fact(facts, "L2 cache", bytes_text(static_cast<double>(calibration.l2_bytes)));
    add_fact(facts, "Rates measured", calibration.measured_utc);
  }
  add_fact(facts, "Host", e.host);
  add_fact(facts, "System", e.os);
  if (record.submission) {
    const Submission& submission = *record.submission;
    add_fact(facts, "Submitted by", submission.name);
    add_fact(facts, "Agent's model", submission.model);
    if (submission.round > 0) add_fact(facts, "Round of the dialogue", fmt::format("{}", submission.round));
    if (submission.prompt_tokens > 0) add_fact(facts, "Prompt tokens", count_text(submission.prompt_tokens));
    if (submission.completion_tokens > 0)
      add_fact(facts, "Completion tokens", count_text(submission.completion_tokens));
    if (submission.cost_usd > 0) add_fact(facts, "Cost", fmt::format("{:.4g} US dollars", submission.cost_usd));
    add_fact(facts, "Note with the submission", submission.note);
  }
  std::string stages = wall_text(record.wall_ms);
  for (const auto& [stage, ms] : record.stage_ms) stages += fmt::format("; {} {}", stage, wall_text(ms));
  add_fact(facts, "The evaluation took, on the host", stages);
  return facts;
}

void add_others(View& view, const Site& site, size_t index, const std::string& root) {
  std::vector<View> others;
  const std::vector<size_t>& same = site.same_candidate.at(site.row(index).candidate_sha256);
  for (const size_t other : same)
    if (other != index && others.size() < kMaxOthers) others.push_back(record_view(site, other, root));
  const size_t count = same.size() - 1;
  view.flag("has_others", !others.empty())
      .text("others_caption", count > kMaxOthers
                                  ? fmt::format("The newest {} of {} other records of the same source and plan.",
                                                kMaxOthers, count_text(static_cast<int64_t>(count)))
                                  : "Other records of the same source and plan.")
      .list("others", std::move(others));
}

}  // namespace

SitePage candidate_page(const Site& site, size_t index, const EvalRecord& record, size_t json_bytes) {
  const BoardRow& row = site.row(index);
  const std::string path = record_path(site, index);
  const Score score = score_of(record);
  const std::map<int64_t, std::vector<LineFinding>> findings = line_findings(record);
  const std::string note = shortened(record.candidate.note, 400);

  View view;
  view.text("id", shortened(row.id, 40))
      .text("task", task_name(row.task))
      .text("task_href", task_path(row.task))
      .text("task_version", fmt::format("{}", row.task_version))
      .text("name", row.path.empty() ? "(no name)" : shortened(base_name(row.path), 200))
      .text("verdict", std::string(to_text(row.verdict)))
      .text("verdict_class", verdict_class(row.verdict))
      .text("suite", shortened(row.suite, 40))
      .text("device", shortened(row.device, 80))
      .text("date", minute_text(shortened(row.created_utc, 40)))
      .flag("has_author", !author_text(row).empty())
      .text("author", author_text(row))
      .flag("has_note", !note.empty())
      .text("note", note)
      .list("figures", figures_of(site, index, record, score));

  std::vector<View> failure;
  if (record.failure) failure.push_back(failure_view(record, failing_line(findings)));
  view.list("failure", std::move(failure));
  add_speed(view, row, record, score);
  add_checks(view, record);
  add_drift(view, record);
  add_work(view, record);
  add_source(view, record, findings);
  const std::string json_path = record_json_path(row);
  view.text("json_href", "../" + json_path)
      .text("json_name", std::string(base_name(json_path)))
      .text("json_size", bytes_text(static_cast<double>(json_bytes)))
      .list("environment", environment_facts(record));
  add_others(view, site, index, "../");
  const std::string title = fmt::format("{}: {} on {}", candidate_name(row), to_text(row.verdict), task_name(row.task));
  return {path, finish_page(site, path, title, site.templates.candidate.render(view))};
}

}  // namespace stepbench
