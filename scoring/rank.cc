// Validity first, order second: a comparison never sees NaN, so that sorting is well defined.
#include "scoring/rank.h"

#include <algorithm>
#include <cmath>

#include "harness/stages.h"

namespace stepbench {
namespace {

std::string reason_against(const ScoredEntry& entry) {
  if (entry.verdict != Verdict::kPassed) return "verdict " + std::string(to_text(entry.verdict));
  if (std::isnan(entry.score)) return "score is not a number";
  if (std::isinf(entry.score)) return "score is infinite";
  if (!(entry.score > 0)) return "score is not positive";
  return "";
}

}  // namespace

Ranking rank_scores(std::span<const ScoredEntry> entries) {
  Ranking ranking;
  for (const ScoredEntry& entry : entries) {
    std::string reason = reason_against(entry);
    if (reason.empty())
      ranking.ranked.push_back({entry.name, entry.score, 0});
    else
      ranking.unranked.push_back({entry.name, std::move(reason)});
  }
  std::stable_sort(ranking.ranked.begin(), ranking.ranked.end(),
                   [](const RankedEntry& a, const RankedEntry& b) { return a.score > b.score; });
  for (size_t i = 0; i < ranking.ranked.size(); ++i) {
    const bool tie = i > 0 && ranking.ranked[i].score == ranking.ranked[i - 1].score;
    ranking.ranked[i].rank = tie ? ranking.ranked[i - 1].rank : static_cast<int64_t>(i) + 1;
  }
  return ranking;
}

}  // namespace stepbench
