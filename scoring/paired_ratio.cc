// Medians of logarithms: a ratio and its inverse weigh the same, and a few disturbed pairs move nothing.
#include "scoring/paired_ratio.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace stepbench {
namespace {

/// Makes the median absolute deviation of a normal distribution its standard deviation: 1 / quantile(3/4).
constexpr double kMadToSigma = 1.4826;

bool usable(double time_ns) { return std::isfinite(time_ns) && time_ns > 0; }

}  // namespace

double median_of(std::vector<double> values) {
  SB_ASSERT(!values.empty());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

Result<std::vector<double>> log_ratios(std::span<const TimedPair> pairs, size_t least) {
  if (pairs.size() < least) {
    return Error{ErrorCode::kInvalidInput, "too few pairs of times", "", fmt::format("at least {}", least),
                 fmt::format("{}", pairs.size())};
  }
  std::vector<double> logs;
  logs.reserve(pairs.size());
  for (size_t i = 0; i < pairs.size(); ++i) {
    for (const double time_ns : {pairs[i].baseline_ns, pairs[i].candidate_ns}) {
      if (!usable(time_ns))
        return Error{ErrorCode::kInvalidInput, "a time is unusable", fmt::format("pair {}", i), "finite and above 0 ns",
                     fmt::format("{} ns", time_ns)};
    }
    // Not the logarithm of the quotient, which may leave the range of double.
    logs.push_back(std::log(pairs[i].baseline_ns) - std::log(pairs[i].candidate_ns));
  }
  return logs;
}

Result<PairedRatio> paired_ratio(std::span<const TimedPair> pairs, double spread_limit_ratio) {
  Result<std::vector<double>> ratios = log_ratios(pairs, kMinPairs);
  if (!ratios.ok()) return ratios.error();
  std::vector<double>& logs = ratios.value();
  PairedRatio result;
  result.pairs = logs.size();
  const double middle = median_of(logs);
  result.speedup = std::exp(middle);
  for (double& value : logs) value = std::fabs(value - middle);
  result.spread_ratio = std::expm1(kMadToSigma * median_of(logs));
  result.unstable = !(result.spread_ratio <= spread_limit_ratio);
  return result;
}

}  // namespace stepbench
