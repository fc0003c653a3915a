// Text of a record for people. Nothing is computed here that is not in the record; numbers that come from a model say
// so.
#include "harness/report.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace stepbench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxDetailLines = 24;
constexpr size_t kMaxProfileCases = 5;

std::string paint(const std::string& text, const char* code, const ReportStyle& style) {
  return style.colour ? fmt::format("\033[{}m{}\033[0m", code, text) : text;
}

std::string paint_verdict(Verdict verdict, const ReportStyle& style) {
  const bool judged = verdict != Verdict::kUnsupported && verdict != Verdict::kHarnessError;
  const char* code = verdict == Verdict::kPassed ? "1;32" : judged ? "1;31" : "1;33";
  return paint(std::string(to_text(verdict)), code, style);
}

/// One labelled line; further lines of the value are indented to the same column.
std::string line(const std::string& label, const std::string& value) {
  std::string text = fmt::format("  {:<10}", label);
  size_t begin = 0;
  while (true) {
    const size_t end = value.find('\n', begin);
    text += value.substr(begin, end == std::string::npos ? end : end - begin) + "\n";
    if (end == std::string::npos) return text;
    begin = end + 1;
    text += std::string(12, ' ');
  }
}

std::string first_lines(const std::string& text, size_t count) {
  size_t end = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t next = text.find('\n', end);
    if (next == std::string::npos || next + 1 == text.size()) return text.substr(0, next);
    end = next + 1;
  }
  return text.substr(0, end) + "... (the record has the rest)";
}

/// Characters that take a column: escape sequences (ESC [ ... m) and the later bytes of UTF-8 do not.
size_t columns_of(std::string_view text) {
  size_t columns = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\033') {
      i = std::min(text.find('m', i), text.size());
    } else if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) {
      ++columns;
    }
  }
  return columns;
}

/// Breaks lines at spaces, continued two columns behind the values. What the compiler printed of the source, which is
/// indented further than any value, stays as it is: a caret below it points at a column.
std::string wrapped(const std::string& text, int width) {
  if (width <= 0) return text;
  const size_t limit = std::max<size_t>(static_cast<size_t>(width), 40);
  const std::string indent(14, ' ');
  std::string result;
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const bool is_whole = line.starts_with(indent) || line.starts_with("  replay ");  // a command to be copied
    size_t room = limit;
    while (!is_whole && columns_of(line) > room) {
      size_t end = std::string_view::npos;
      for (size_t at = line.find(' ', room == limit ? indent.size() : 0); at != std::string_view::npos;
           at = line.find(' ', at + 1)) {
        if (end != std::string_view::npos && columns_of(line.substr(0, at)) > room) break;
        end = at;  // the first one at least, behind a word that is too long by itself
      }
      if (end == std::string_view::npos) break;
      result.append(room == limit ? "" : indent).append(line.substr(0, end)).append("\n");
      line.remove_prefix(std::min(line.find_first_not_of(' ', end), line.size()));
      room = limit - indent.size();
    }
    result.append(room == limit ? "" : indent).append(line).append("\n");
  }
  return result;
}

std::string number(double value) { return fmt::format("{:.9g}", value); }

std::string in_limits(double ratio) {
  if (std::isfinite(ratio)) return fmt::format("{:.3g} x the limit", ratio);
  return fmt::format("{} (a value that is not finite where the oracle's is, or the other way round)", ratio);
}

/// NaN is worse than any number.
bool is_worse(double a, double b) { return std::isnan(a) ? !std::isnan(b) : a > b; }

/// The verdicts whose failures carry two values; a fault names an element without them.
bool compares_values(Verdict verdict) {
  return verdict == Verdict::kWrongResult || verdict == Verdict::kDrift || verdict == Verdict::kNondeterministic;
}

std::string seconds(double ms) { return ms < 1000 ? fmt::format("{:.0f} ms", ms) : fmt::format("{:.1f} s", ms / 1000); }

// ---------------------------------------------------------------------------------------------- parts of a report

std::string render_checks(const EvalRecord& record) {
  std::vector<std::string> names;  // in the order they ran
  for (const CaseReport& report : record.cases)
    if (std::find(names.begin(), names.end(), report.check) == names.end()) names.push_back(report.check);

  std::string text;
  for (const std::string& name : names) {
    int cases = 0;
    int64_t elements = 0;
    double wall_ms = 0;
    const CaseReport* worst = nullptr;
    for (const CaseReport& report : record.cases) {
      if (report.check != name) continue;
      ++cases;
      elements += report.elements_checked;
      wall_ms += report.wall_ms;
      if (!worst || is_worse(report.worst_error_ratio, worst->worst_error_ratio)) worst = &report;
    }
    std::string value = fmt::format("{:<12} {} case{}, {} elements", name, cases, cases == 1 ? "" : "s", elements);
    if (worst && !worst->worst_buffer.empty())
      value += fmt::format(", worst {} in {} ({})", in_limits(worst->worst_error_ratio), worst->worst_buffer,
                           worst->case_name);
    text += line(text.empty() ? "checks" : "", value + fmt::format(", {}", seconds(wall_ms)));
  }
  return text;
}

/// Infinite where all elements err by the same amount: nothing is left to chance, and no number says so.
std::string sigmas(double value) {
  return std::isfinite(value) ? fmt::format("{:.1f} sigma", value) : "the same in every element";
}

std::string drift_limit(const DriftCurve& curve, const DriftPoint& point) {
  if (!(curve.limit_ratio > 0)) return ", not judged";
  if (point.error_ratio) return fmt::format(", {:.3g} x the limit", *point.error_ratio);
  return fmt::format(", limit {:.2e} and roundings", curve.limit_ratio);
}

std::string render_drift(const EvalRecord& record) {
  std::string text;
  for (const DriftCurve& curve : record.drift) {
    if (curve.points.empty()) continue;
    const DriftPoint& last = curve.points.back();
    text += line(text.empty() ? "drift" : "",
                 fmt::format("{:<12} {} steps ({}): {:.2e} of the movement{}, grows as step^{:.2f}, bias {:+.1e} ({})",
                             curve.buffer, last.step, curve.case_name, last.rms_ratio, drift_limit(curve, last),
                             curve.growth_exponent, last.bias_ratio, sigmas(last.bias_sigma)));
  }
  return text;
}

std::string time_text(double ns) {
  if (ns < 1e6) return fmt::format("{:.2f} us", ns / 1e3);
  return fmt::format("{:.3f} ms", ns / 1e6);
}

/// Memory is the common case and goes without saying.
std::string_view floor_text(FloorBy by) {
  switch (by) {
    case FloorBy::kMemory: return "";
    case FloorBy::kFp32: return " (fp32 arithmetic)";
    case FloorBy::kTensor: return " (products)";
  }
  SB_ASSERT(false);
  return "";
}

std::string render_timing(const EvalRecord& record) {
  std::string text;
  for (const TimingReport& timing : record.timing) {
    const std::string list = timing.list + (timing.hidden ? " (varied)" : "");
    if (timing.candidate_ns <= 0) {
      text += line(text.empty() ? "speed" : "", fmt::format("{}: no usable sample", list));
      continue;
    }
    text += line(text.empty() ? "speed" : "",
                 fmt::format("{}: {} {:.4f} x [{:.4f}, {:.4f}] of {}; {} against {}, {:.1f} % of the floor's rate{}",
                             list, to_text(timing.word), timing.speedup, timing.speedup_low, timing.speedup_high,
                             timing.baseline, time_text(timing.candidate_ns), time_text(timing.baseline_ns),
                             100 * timing.floor_ratio, floor_text(timing.floor_by)));
  }
  return text;
}

std::string render_resources(const EvalRecord& record) {
  std::string text;
  for (const KernelResources& kernel : record.resources) {
    if (kernel.registers < 0) continue;
    text += line(text.empty() ? "resources" : "",
                 fmt::format("{}: {} registers, {} bytes spilled, {} bytes shared", kernel.entry, kernel.registers,
                             std::max(0, kernel.spill_store_bytes) + std::max(0, kernel.spill_load_bytes),
                             std::max(0, kernel.shared_bytes)));
  }
  return text;
}

std::string render_traffic(const EvalRecord& record) {
  if (record.modelled_bytes_per_param <= 0) return "";
  std::string value = fmt::format("modelled {:.2f} bytes per parameter", record.modelled_bytes_per_param);
  if (record.ideal_bytes_per_param > 0)
    value += fmt::format(", floor {:.2f} ({:.2f} x the floor)", record.ideal_bytes_per_param,
                         record.modelled_bytes_per_param / record.ideal_bytes_per_param);
  return line("traffic",
              value + fmt::format("; one step over {} parameters on the VM, not a measurement", record.traffic_params));
}

std::string render_profile(const EvalRecord& record) {
  std::vector<std::pair<double, std::string>> stages;
  for (const auto& [name, ms] : record.stage_ms) stages.emplace_back(ms, name);
  std::sort(stages.rbegin(), stages.rend());
  std::string text;
  for (const auto& [ms, name] : stages)
    text += line(text.empty() ? "time" : "", fmt::format("{:<12} {}", name, seconds(ms)));

  std::vector<const CaseReport*> cases;
  for (const CaseReport& report : record.cases) cases.push_back(&report);
  std::sort(cases.begin(), cases.end(),
            [](const CaseReport* a, const CaseReport* b) { return a->wall_ms > b->wall_ms; });
  cases.resize(std::min(cases.size(), kMaxProfileCases));
  for (const CaseReport* report : cases)
    text += line(report == cases.front() ? "slowest" : "",
                 fmt::format("{:<12} {} {}", seconds(report->wall_ms), report->check, report->case_name));
  return text;
}

}  // namespace

std::string render_failure(const Failure& failure, const std::string& replay_command, const ReportStyle& style) {
  std::string text = line("why", failure.message);
  if (!failure.place.empty()) text += line("where", failure.place);
  if (!failure.check.empty()) {
    std::string value = failure.check;
    if (!failure.case_name.empty()) value += ", case " + failure.case_name;
    if (failure.step >= 0) value += fmt::format(", step {}", failure.step);
    if (!failure.case_name.empty()) value += fmt::format(", seed {:016x}", failure.seed);
    text += line("check", value);
  }
  if (!failure.buffer.empty()) {
    std::string value = "buffer " + failure.buffer;
    if (failure.tensor >= 0) value += fmt::format(", tensor {}", failure.tensor);
    if (failure.element >= 0) value += fmt::format(", element {}", failure.element);
    text += line("element", value);
  }
  if (failure.element >= 0 && compares_values(failure.verdict)) {
    text += line("expected", number(failure.expected));
    text += line("got", number(failure.got));
  }
  if (failure.error_ratio != 0) text += line("error", in_limits(failure.error_ratio));  // NaN is printed too
  if (!failure.detail.empty()) text += line("detail", first_lines(failure.detail, kMaxDetailLines));
  if (!replay_command.empty()) text += line("replay", paint(replay_command, "1", style));
  return wrapped(text, style.width);
}

std::string render_report(const EvalRecord& record, const ReportStyle& style) {
  std::string text = fmt::format("{}  {}  task {}, suite {}, device {}, salt {}\n", record.candidate.path,
                                 paint_verdict(record.verdict, style), record.task.empty() ? "unknown" : record.task,
                                 record.suite, record.environment.device, record.salt);
  if (record.failure) text += render_failure(*record.failure, record.replay_command, style);
  text += render_checks(record);
  text += render_drift(record);
  text += render_timing(record);
  text += render_traffic(record);
  text += render_resources(record);
  for (const std::string& note : record.notes) text += line(&note == &record.notes.front() ? "notes" : "", note);
  if (style.profile) text += render_profile(record);
  text += line("took", fmt::format("{} on this host; record {}", seconds(record.wall_ms), record.id));
  return wrapped(text, style.width);
}

std::string render_line(const EvalRecord& record) {
  std::string text = fmt::format("{}  {}", record.candidate.path, to_text(record.verdict));
  if (record.failure && !record.failure->place.empty()) text += fmt::format("  {}:", record.failure->place);
  if (record.failure) text += "  " + record.failure->message;
  if (!record.replay_command.empty()) text += "  (" + record.replay_command + ")";
  return text + "\n";
}

int terminal_width(int descriptor) {
  winsize size{};
  return ::isatty(descriptor) == 1 && ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

bool wants_colour(int descriptor) {
  const char* no_colour = std::getenv("NO_COLOR");  // https://no-color.org: set and not empty
  return ::isatty(descriptor) == 1 && !(no_colour && *no_colour);
}

ProgressLine::ProgressLine(bool quiet)
    : active_(!quiet && ::isatty(STDERR_FILENO) == 1), start_(Clock::now()), last_(start_) {}

ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::show(const std::string& subject, const Progress& progress) {
  if (!active_) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  const Clock::time_point now = Clock::now();
  if (now - start_ < std::chrono::seconds(1) || (shown_ && now - last_ < std::chrono::milliseconds(100))) return;
  last_ = now;
  shown_ = true;
  const std::string count = progress.total > 0 ? fmt::format(" {}/{}", progress.done, progress.total) : "";
  std::string text = fmt::format("{}: {}{}", subject, progress.stage, count);
  if (text.size() > 78) text = "..." + text.substr(text.size() - 75);
  fmt::print(stderr, "\r\033[K{}", text);
}

void ProgressLine::clear() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (shown_) fmt::print(stderr, "\r\033[K");
  shown_ = false;
}

}  // namespace stepbench
