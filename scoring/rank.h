// Scores -> ranks. A pure function: what has no valid score is listed with its reason and never takes a rank.
//
// Entries are ordered by the lower bound of their scores, so that a lucky measurement does not climb. Going down this
// order, an entry shares the rank of the group above it while its upper bound reaches the lower bound of that group's
// first entry (its leader); the first that does not reach it leads the next group. Each entry is in one group, so
// sharing a rank is transitive, although overlap of intervals is not: two entries of a group overlap with its leader
// and perhaps not with each other. A wide interval far down stays in the group of its lower bound, even where it
// reaches higher groups: more pairs narrow it. Exact scores (no bounds) share a rank when they are equal.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/model.h"

namespace stepbench {

struct ScoredEntry {
  std::string name;
  Verdict verdict = Verdict::kHarnessError;
  double score = 0;                     ///< larger is better; means nothing unless the verdict is `passed`
  std::optional<double> low{}, high{};  ///< bounds of it; both or none: it is exact
  std::string why_not{};                ///< why there is no score; empty: there is one
};

struct RankedEntry {
  std::string name;
  double score = 0;
  double low = 0, high = 0;  ///< `score` itself where no bounds were given
  int64_t rank = 0;          ///< from 1; entries that share a rank all count for the next one (1, 1, 3)
};

struct UnrankedEntry {
  std::string name;
  std::string reason;  ///< one clause: "verdict wrong_result", "score is not a number"
};

struct Ranking {
  std::vector<RankedEntry> ranked;      ///< by lower bound, then score; equal ones in the order given
  std::vector<UnrankedEntry> unranked;  ///< in the order given
};

/// Ranked are passed entries with a finite, positive score, whose bounds, if any, are finite, positive and on either
/// side of it; nothing else.
Ranking rank_scores(std::span<const ScoredEntry> entries);

}  // namespace stepbench
