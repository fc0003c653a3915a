// A record -> its score; many records -> pass rates and the fast_p curve. Pure functions: they use the raw pairs of
// times in a record and no number that was computed from them before, so that anyone can compute a score again.
//
// What has no measurement has no number: every figure is optional, never 0 or 1 in its place.
//
// The rules of score_version 1, for one record:
//   - a record with a verdict other than `passed` has no score, whatever was timed: one failing shape fails the task;
//   - scored lists are those that are not hidden. Each needs its pairs (those not dropped); one list that cannot be
//     evaluated leaves the record without a score, because leaving it out could only flatter;
//   - score = geometric mean of the scored lists' speedups. Its interval joins the lists' intervals in log space:
//     mean - sqrt(sum (x_i - low_i)^2) / k and mean + sqrt(sum (high_i - x_i)^2) / k. This is the method of variance
//     estimates recovery for a sum of independent estimates (Zou and Donner, Statistics in Medicine 27, 2008), which
//     needs no bootstrap and keeps each list's asymmetry. With one list it is that list's interval;
//   - retention = geometric mean of the hidden lists' speedups / score. Above 1 is possible;
//   - fraction of the floor = arithmetic mean over the scored lists of floor / the candidate's median time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/model.h"
#include "scoring/rank.h"
#include "scoring/speedup.h"

namespace stepbench {

/// Raised when any of the rules above or in speedup.h gives another number for the same samples.
inline constexpr int kScoreVersion = 1;

struct ListScore {
  std::string list;
  bool hidden = false;
  int64_t params = 0;
  std::optional<Speedup> speedup;
  std::string why_not;                ///< why `speedup` is empty
  size_t dropped = 0;                 ///< pairs not used
  std::optional<double> baseline_ns;  ///< medians of the pairs used
  std::optional<double> candidate_ns;
  std::optional<double> floor_ratio;  ///< floor / candidate_ns; empty when the floor is unknown
};

struct Score {
  int version = kScoreVersion;
  Verdict verdict = Verdict::kHarnessError;
  std::optional<double> speedup, low, high;  ///< all three or none
  std::optional<SpeedWord> word;             ///< of [low, high]
  std::string why_not;                       ///< why there is no score; empty when there is one
  std::optional<double> hidden_speedup;      ///< geometric mean of the hidden lists; empty with a reason in `lists`
  std::optional<double> retention_ratio;
  std::optional<double> floor_ratio;  ///< empty unless every scored list has one
  std::vector<ListScore> lists;       ///< in the record's order
};

Score score_of(const EvalRecord& record, const SpeedRule& rule = {});

/// The pairs that count: those without a reason in `dropped`.
std::vector<TimedPair> used_pairs(const TimingReport& report);

/// Geometric mean of independent speedups with its interval, as above. At least one.
Speedup geometric_mean(std::span<const Speedup> speedups, const SpeedRule& rule);

/// Sentences about stored figures of a record that its own raw samples contradict; empty when they agree. A relative
/// difference of 1e-9 is allowed: logarithms differ in the last bit between C libraries.
std::vector<std::string> contradictions(const EvalRecord& record, const SpeedRule& rule = {});

/// Share of the record's scored lists whose speedup is `threshold` or more; empty without a score.
std::optional<double> fast_share(const Score& score, double threshold);

/// fast_p over many records (Ouyang et al., "KernelBench", 2025, section 3.2): the share of attempts that are correct
/// and at least p times as fast as the baseline.
struct FastPoint {
  double threshold = 0;
  size_t fast = 0;              ///< passed, and speedup >= threshold
  std::optional<double> share;  ///< of `judged`; empty when nothing was judged
};
struct FastCurve {
  size_t judged = 0;      ///< candidates that failed by their own fault, and passed ones with a score
  size_t unmeasured = 0;  ///< passed without a score (no clock), `unsupported`, `harness_error`: not in any share
  std::vector<FastPoint> points;
};
FastCurve fast_curve(std::span<const Score> scores, std::span<const double> thresholds);

struct PassRates {
  std::array<size_t, kVerdictCount> counts{};  ///< by Verdict
  size_t total = 0;
  size_t judged = 0;                ///< without `unsupported` and `harness_error`, which say nothing of a candidate
  std::optional<double> pass_rate;  ///< passed / judged; empty when nothing was judged
};
PassRates pass_rates(std::span<const Verdict> verdicts);

/// For rank_scores(): the score with its bounds, or the reason why there is none.
ScoredEntry entry_of(const std::string& name, const Score& score);

}  // namespace stepbench
