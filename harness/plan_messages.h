// Sentences about a plan that is wrong: the Failure with its place, and the nearest known name to one that is unknown.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/model.h"

namespace stepbench {

/// A `bad_candidate` failure at a JSON pointer of the plan: place is "adamw.cu: /launches/0/grid".
inline Failure plan_failure(const std::string& path, const std::string& pointer, std::string message) {
  Failure failure;
  failure.verdict = Verdict::kBadCandidate;
  failure.check = "plan";
  failure.place = pointer.empty() ? path : path + ": " + pointer;
  failure.message = std::move(message);
  return failure;
}

/// Number of insertions, deletions and replacements between two words (Levenshtein).
inline size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

/// ", did you mean `grid`?" for the closest known name, or "" when none is close. Long words are not compared.
inline std::string did_you_mean(std::string_view name, std::span<const std::string> known) {
  if (name.empty() || name.size() > 64) return "";
  const std::string* best = nullptr;
  size_t best_distance = std::max<size_t>(1, std::min<size_t>(3, name.size() / 2)) + 1;
  for (const std::string& candidate : known) {
    const size_t distance = edit_distance(name, candidate);
    if (distance >= best_distance || distance >= name.size()) continue;
    best_distance = distance;
    best = &candidate;
  }
  return best == nullptr ? "" : ", did you mean `" + *best + "`?";
}

/// At most `limit` bytes of text for a one-line message: cut between characters and marked with "...", control
/// characters shown as ?.
inline std::string shortened(std::string_view text, size_t limit = 80) {
  size_t end = std::min(text.size(), limit);
  while (end > 0 && end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  std::string result(text.substr(0, end));
  for (char& c : result)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  if (end < text.size()) result += "...";
  return result;
}

}  // namespace stepbench
