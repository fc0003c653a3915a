// Interleaved pairs of times -> one speedup with its spread. A pure function over samples; it measures nothing and
// draws no conclusion about significance (speedup.h does).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "harness/result.h"

namespace stepbench {

/// Baseline and candidate timed next to each other, so that both saw nearly the same clock.
struct TimedPair {
  double baseline_ns = 0;
  double candidate_ns = 0;
};

struct PairedRatio {
  double speedup = 0;       ///< exp(median(log(baseline / candidate))); above 1: the candidate is faster
  double spread_ratio = 0;  ///< robust relative spread of single pairs: exp(1.4826 * MAD of the logs) - 1
  bool unstable = false;    ///< spread_ratio is above the limit: repeat the measurement before believing it
  size_t pairs = 0;
};

inline constexpr double kDefaultSpreadLimitRatio = 0.05;
inline constexpr size_t kMinPairs = 3;

/// kInvalidInput for fewer than kMinPairs pairs, and for a time that is not finite and positive (its index is named):
/// dropping samples is the caller's decision, with a reason.
Result<PairedRatio> paired_ratio(std::span<const TimedPair> pairs,
                                 double spread_limit_ratio = kDefaultSpreadLimitRatio);

/// log(baseline / candidate) of each pair. kInvalidInput for fewer than `least` pairs and for unusable times, as above.
Result<std::vector<double>> log_ratios(std::span<const TimedPair> pairs, size_t least);

/// Mean of the two in the middle for an even count. At least one value.
double median_of(std::vector<double> values);

}  // namespace stepbench
