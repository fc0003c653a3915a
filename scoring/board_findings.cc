// Places in a record are text, written by the parts of the harness in a few forms (harness/README.md, `place`):
// "file:line", "file(line): error: ..." of the compiler, "source line N" within a sentence, "file: /pointer" into the
// plan. A form that is not known here costs a mark beside a line, never the sentence itself, which the page shows too.
#include "scoring/board_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace stepbench {
namespace {

constexpr size_t kMaxPerLine = 8;

/// The whole number at the beginning of the text, and how many characters it takes.
std::optional<std::pair<int64_t, size_t>> number_at(std::string_view text) {
  int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || value < 0) return {};
  return std::pair{value, static_cast<size_t>(end - text.data())};
}

class Collector {
 public:
  explicit Collector(const EvalRecord& record)
      : record_(record), lines_(static_cast<int64_t>(lines_of(record.candidate.source).size())) {}

  std::map<int64_t, std::vector<LineFinding>> collect() {
    if (record_.failure) collect_failure(*record_.failure);
    for (const std::string_view line : lines_of(record_.compile_log)) collect_log_line(line);
    for (const std::string& note : record_.notes) collect_note(note);
    for (auto& [line, findings] : found_) {
      std::stable_sort(findings.begin(), findings.end(),
                       [](const LineFinding& a, const LineFinding& b) { return a.kind < b.kind; });
      if (findings.size() > kMaxPerLine) findings.resize(kMaxPerLine);
    }
    return std::move(found_);
  }

 private:
  void add(int64_t line, FindingKind kind, std::string_view text) {
    if (line < 1 || line > lines_) return;
    std::vector<LineFinding>& findings = found_[line];
    for (const LineFinding& finding : findings)
      if (finding.text == text) return;
    findings.push_back({kind, std::string(text)});
  }

  bool is_this_file(std::string_view file) const {
    return !file.empty() && base_name(file) == base_name(record_.candidate.path);
  }

  /// "file:line" or "file:line:column" of this file.
  std::optional<int64_t> line_of_place(std::string_view place) const {
    for (size_t colon = place.find(':'); colon != std::string_view::npos; colon = place.find(':', colon + 1)) {
      if (!is_this_file(place.substr(0, colon))) continue;
      if (const auto number = number_at(place.substr(colon + 1))) return number->first;
    }
    return {};
  }

  void collect_failure(const Failure& failure) {
    if (const auto line = line_of_place(failure.place)) {
      add(*line, FindingKind::kError, failure.message);
    } else if (const size_t pointer = failure.place.find(": /"); pointer != std::string::npos) {
      add(record_.candidate.plan_line, FindingKind::kError,
          fmt::format("in the plan, {}: {}", failure.place.substr(pointer + 2), failure.message));
    }
    // A race has two sides, and the sentence names the lines of both.
    constexpr std::string_view kWords = "source line ";
    for (size_t at = failure.message.find(kWords); at != std::string::npos; at = failure.message.find(kWords, at + 1))
      if (const auto number = number_at(std::string_view(failure.message).substr(at + kWords.size())))
        add(number->first, FindingKind::kError, failure.message);
  }

  /// "kernel.cu(12): error: text"
  void collect_log_line(std::string_view line) {
    const size_t open = line.find('(');
    if (open == std::string_view::npos || !is_this_file(line.substr(0, open))) return;
    const auto number = number_at(line.substr(open + 1));
    if (!number || !line.substr(open + 1 + number->second).starts_with("): ")) return;
    const std::string_view text = line.substr(open + 1 + number->second + 3);
    add(number->first, text.starts_with("error") ? FindingKind::kError : FindingKind::kWarning, text);
  }

  /// "reads a clock: %clock64 (kernel.cu:7)"
  void collect_note(const std::string& note) {
    const size_t open = note.rfind(" (");
    if (open == std::string::npos || !note.ends_with(")")) return;
    if (const auto line = line_of_place(std::string_view(note).substr(open + 2)))
      add(*line, FindingKind::kNote, std::string_view(note).substr(0, open));
  }

  const EvalRecord& record_;
  int64_t lines_;
  std::map<int64_t, std::vector<LineFinding>> found_;
};

}  // namespace

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string_view base_name(std::string_view path) {
  const size_t slash = path.find_last_of('/');
  return slash == std::string_view::npos || slash + 1 == path.size() ? path : path.substr(slash + 1);
}

std::map<int64_t, std::vector<LineFinding>> line_findings(const EvalRecord& record) {
  return Collector(record).collect();
}

}  // namespace stepbench
