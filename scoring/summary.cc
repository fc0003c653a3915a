// Rows and their table. stages.h is included for the verdicts' words only.
#include "scoring/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "harness/stages.h"

namespace stepbench {
namespace {

constexpr size_t kColumns = 6;
using Cells = std::array<std::string, kColumns>;

/// Characters shown, assuming that each code point takes one column.
size_t display_width(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string where_of(const Failure& failure) {
  return failure.case_name.empty() ? failure.check : failure.check + " " + failure.case_name;
}

Cells cells_of(const SummaryRow& row) {
  const auto bytes = [](double value) { return value > 0 ? fmt::format("{:.2f}", value) : std::string("-"); };
  const auto text = [](const std::string& value) { return value.empty() ? std::string("-") : value; };
  return {row.candidate,
          std::string(to_text(row.verdict)),
          fmt::format("{} / {}", bytes(row.modelled_bytes_per_param), bytes(row.ideal_bytes_per_param)),
          row.registers < 0 ? "-" : std::to_string(row.registers),
          text(row.where),
          text(row.replay)};
}

}  // namespace

std::vector<SummaryRow> summarize(std::span<const EvalRecord> records) {
  std::vector<SummaryRow> rows;
  rows.reserve(records.size());
  for (const EvalRecord& record : records) {
    SummaryRow row;
    row.candidate = record.candidate.path;
    row.task = record.task;
    row.verdict = record.verdict;
    if (record.failure) row.where = where_of(*record.failure);
    row.modelled_bytes_per_param = record.modelled_bytes_per_param;
    row.ideal_bytes_per_param = record.ideal_bytes_per_param;
    for (const KernelResources& kernel : record.resources) row.registers = std::max(row.registers, kernel.registers);
    row.replay = record.replay_command;
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string render_table(std::span<const SummaryRow> rows) {
  std::vector<Cells> lines{{"candidate", "verdict", "modelled B/param / floor", "regs", "failed in", "replay"}};
  for (const SummaryRow& row : rows) lines.push_back(cells_of(row));

  std::array<size_t, kColumns> widths{};
  for (const Cells& line : lines)
    for (size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], display_width(line[i]));

  std::string table;
  for (const Cells& line : lines) {
    std::string text;
    for (size_t i = 0; i < kColumns; ++i) text += line[i] + std::string(widths[i] - display_width(line[i]) + 2, ' ');
    text.erase(text.find_last_not_of(' ') + 1);
    table += text + "\n";
  }
  return table;
}

}  // namespace stepbench
