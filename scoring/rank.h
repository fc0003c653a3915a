// Scores -> ranks. A pure function: what has no valid score is listed with its reason and never takes a rank.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/model.h"

namespace stepbench {

struct ScoredEntry {
  std::string name;
  Verdict verdict = Verdict::kHarnessError;
  double score = 0;  ///< larger is better; means nothing unless the verdict is `passed`
};

struct RankedEntry {
  std::string name;
  double score = 0;
  int64_t rank = 0;  ///< from 1; equal scores share a rank and the next one counts them all (1, 1, 3)
};

struct UnrankedEntry {
  std::string name;
  std::string reason;  ///< one clause: "verdict wrong_result", "score is not a number"
};

struct Ranking {
  std::vector<RankedEntry> ranked;      ///< best first; equal scores in the order given
  std::vector<UnrankedEntry> unranked;  ///< in the order given
};

/// Ranked are passed entries with a finite, positive score and nothing else.
Ranking rank_scores(std::span<const ScoredEntry> entries);

}  // namespace stepbench
