// The interval, the clock's step, the words. Nothing here reads a clock or a device.
#include "scoring/speedup.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace stepbench {
namespace {

/// Two times that differ by less than this share are one reading: event times come as float, whose spacing is
/// 2^-23 = 1.2e-7 of the value.
constexpr double kSameReadingRatio = 4e-7;

/// Number `index` of the stream `seed`, uniform on the multiples of 2^-53 in [-1/2, 1/2): the finaliser of SplitMix64
/// (Steele, Lea, Flood, OOPSLA 2014) over a counter.
double centred(uint64_t seed, uint64_t index) {
  uint64_t x = seed * 0xd1342543de82ef95u + index * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  return static_cast<double>(x >> 11) * 0x1p-53 - 0.5;
}

/// Smallest distance between two different readings; infinite when all are one reading.
double smallest_gap(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  double gap = std::numeric_limits<double>::infinity();
  for (size_t i = 1; i < times.size(); ++i)
    if (const double d = times[i] - times[i - 1]; d > kSameReadingRatio * times[i]) gap = std::min(gap, d);
  return gap;
}

/// The clock's step as far as the samples show it. On a clock without visible steps this is a distance between
/// neighbours among all the samples, which is nothing beside their spread.
double clock_step_ns(std::span<const TimedPair> pairs, double max_step_ns) {
  std::vector<double> baseline, candidate;
  for (const TimedPair& pair : pairs) {
    baseline.push_back(pair.baseline_ns);
    candidate.push_back(pair.candidate_ns);
  }
  const double shortest = std::min(*std::min_element(baseline.begin(), baseline.end()),
                                   *std::min_element(candidate.begin(), candidate.end()));
  const double gap = std::min(smallest_gap(std::move(baseline)), smallest_gap(std::move(candidate)));
  return std::min({gap, max_step_ns, shortest});  // a time has at least one step
}

/// Share of a sample of n that lies between its order statistics k and n + 1 - k, k = 1 .. n / 2, as the coverage of
/// the median: 1 - 2 P(Binomial(n, 1/2) < k).
class Coverage {
 public:
  explicit Coverage(size_t n) : below_(n / 2 + 1, 0) {
    // Binomial weights from the middle outwards, relative to the largest: 2^-n would vanish for n > 1074.
    std::vector<double> weights(n / 2 + 1);
    weights[n / 2] = 1;
    for (size_t j = n / 2; j > 0; --j)
      weights[j - 1] = weights[j] * static_cast<double>(j) / static_cast<double>(n - j + 1);
    double half = 0;
    for (const double weight : weights) half += weight;
    const double total = n % 2 == 1 ? 2 * half : 2 * half - weights[n / 2];
    for (size_t k = 1; k < below_.size(); ++k) below_[k] = below_[k - 1] + weights[k - 1] / total;
  }
  double of(size_t k) const { return 1 - 2 * below_[k]; }

 private:
  std::vector<double> below_;  ///< P(B < k)
};

bool valid(const SpeedRule& rule) {
  const auto ratio = [](double value) { return std::isfinite(value) && value >= 0; };
  return ratio(rule.same_ratio) && ratio(rule.change_ratio) && ratio(rule.max_clock_step_ns) &&
         rule.confidence >= 0.5 && rule.confidence < 1;
}

}  // namespace

size_t least_pairs(double confidence) {
  SB_ASSERT(confidence >= 0.5 && confidence < 1);
  size_t n = 2;
  for (double missed = 0.5; 1 - missed < confidence; missed /= 2) ++n;
  return n;
}

MedianInterval median_interval(std::span<const double> sorted, double confidence) {
  const size_t n = sorted.size();
  SB_ASSERT(n >= least_pairs(confidence));
  const Coverage coverage(n);
  size_t k = 1;
  while (k + 1 <= n / 2 && coverage.of(k + 1) >= confidence) ++k;
  // Order statistics k and n + 1 - k cover at least what is asked for, the next ones inward less; in between the ends
  // are interpolated by Hettmansperger and Sheather's equation (2.4), exact for the Laplace distribution.
  const double outer = coverage.of(k);
  const double inner = k + 1 <= n / 2 ? coverage.of(k + 1) : 0;
  const double share = (outer - confidence) / (outer - inner);
  const auto rank = static_cast<double>(k), count = static_cast<double>(n);
  const double inward = (count - rank) * share / (rank + (count - 2 * rank) * share);
  const auto mix = [&](double outside, double inside) { return outside + inward * (inside - outside); };
  return {mix(sorted[k - 1], sorted[k]), mix(sorted[n - k], sorted[n - k - 1])};
}

SpeedWord speed_word(double low, double high, const SpeedRule& rule) {
  SB_ASSERT(low <= high);
  const double change = 1 + rule.change_ratio, same = 1 + rule.same_ratio;
  if (high < 1 / change) return SpeedWord::kSlower;
  if (low > change) return SpeedWord::kFaster;
  if (low >= 1 / same && high <= same) return SpeedWord::kSame;
  return SpeedWord::kUndecided;
}

Result<Speedup> speedup_of(std::span<const TimedPair> pairs, const SpeedRule& rule) {
  if (!valid(rule))
    return Error{
        ErrorCode::kInvalidInput, "the rule for speedups is unusable", "",
        "ratios of at least 0 and a confidence from 0.5, below 1",
        fmt::format("{}, {}, {} ns, {}", rule.same_ratio, rule.change_ratio, rule.max_clock_step_ns, rule.confidence)};
  const Result<std::vector<double>> logs = log_ratios(pairs, least_pairs(rule.confidence));
  if (!logs.ok()) return logs.error();

  const double step_ns = clock_step_ns(pairs, rule.max_clock_step_ns);
  std::vector<double> spread;
  std::vector<double> rounding;  // half a step of either reading, in units of the logarithm
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto [baseline_ns, candidate_ns] = pairs[i];
    spread.push_back(std::log(baseline_ns + step_ns * centred(rule.seed, 2 * i)) -
                     std::log(candidate_ns + step_ns * centred(rule.seed, 2 * i + 1)));
    rounding.push_back(step_ns / 2 / baseline_ns + step_ns / 2 / candidate_ns);
  }
  std::sort(spread.begin(), spread.end());
  MedianInterval interval = median_interval(spread, rule.confidence);
  const double rounding_error = median_of(std::move(rounding));
  // Rounding averages out once the noise is at least about half a step; then half of the pairs spread over more than
  // this.
  if (spread[spread.size() * 3 / 4] - spread[spread.size() / 4] < 1.5 * rounding_error) {
    interval.low -= rounding_error;
    interval.high += rounding_error;
  }
  const double middle = median_of(logs.value());
  Speedup result;
  result.pairs = pairs.size();
  result.speedup = std::exp(middle);
  result.low = std::exp(std::min(interval.low, middle));
  result.high = std::exp(std::max(interval.high, middle));
  result.word = speed_word(result.low, result.high, rule);
  return result;
}

}  // namespace stepbench
