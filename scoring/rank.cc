// Validity first, order second: a comparison never sees NaN, so that sorting is well defined.
#include "scoring/rank.h"

#include <algorithm>
#include <cmath>

#include "harness/stages.h"

namespace stepbench {
namespace {

std::string reason_against(const ScoredEntry& entry) {
  if (entry.verdict != Verdict::kPassed) return "verdict " + std::string(to_text(entry.verdict));
  if (!entry.why_not.empty()) return entry.why_not;
  if (std::isnan(entry.score)) return "score is not a number";
  if (std::isinf(entry.score)) return "score is infinite";
  if (!(entry.score > 0)) return "score is not positive";
  if (entry.low.has_value() != entry.high.has_value()) return "score has one bound";
  if (!entry.low) return "";
  if (!std::isfinite(*entry.low) || !std::isfinite(*entry.high) || !(*entry.low > 0)) return "a bound is unusable";
  if (*entry.low > entry.score || *entry.high < entry.score) return "score is outside its bounds";
  return "";
}

}  // namespace

Ranking rank_scores(std::span<const ScoredEntry> entries) {
  Ranking ranking;
  for (const ScoredEntry& entry : entries) {
    std::string reason = reason_against(entry);
    if (reason.empty())
      ranking.ranked.push_back(
          {entry.name, entry.score, entry.low.value_or(entry.score), entry.high.value_or(entry.score), 0});
    else
      ranking.unranked.push_back({entry.name, std::move(reason)});
  }
  std::stable_sort(ranking.ranked.begin(), ranking.ranked.end(), [](const RankedEntry& a, const RankedEntry& b) {
    return a.low != b.low ? a.low > b.low : a.score > b.score;
  });
  size_t leader = 0;
  for (size_t i = 0; i < ranking.ranked.size(); ++i) {
    if (ranking.ranked[i].high < ranking.ranked[leader].low) leader = i;
    ranking.ranked[i].rank = static_cast<int64_t>(leader) + 1;
  }
  return ranking;
}

}  // namespace stepbench
