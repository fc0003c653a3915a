// Scores from raw samples. stages.h is included for the verdicts' words only.
#include "scoring/score.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/stages.h"

namespace stepbench {
namespace {

constexpr double kAgreement = 1e-9;

bool says_nothing(Verdict verdict) { return verdict == Verdict::kUnsupported || verdict == Verdict::kHarnessError; }

ListScore score_list(const TimingReport& report, const SpeedRule& rule) {
  ListScore score;
  score.list = report.list;
  score.hidden = report.hidden;
  score.params = report.params;
  const std::vector<TimedPair> pairs = used_pairs(report);
  score.dropped = report.pairs.size() - pairs.size();
  const Result<Speedup> speedup = speedup_of(pairs, rule);
  if (!speedup.ok()) {
    score.why_not = to_text(speedup.error());
    return score;
  }
  score.speedup = speedup.value();
  std::vector<double> baseline, candidate;
  for (const TimedPair& pair : pairs) {
    baseline.push_back(pair.baseline_ns);
    candidate.push_back(pair.candidate_ns);
  }
  score.baseline_ns = median_of(std::move(baseline));
  score.candidate_ns = median_of(std::move(candidate));
  if (std::isfinite(report.floor_ns) && report.floor_ns > 0) score.floor_ratio = report.floor_ns / *score.candidate_ns;
  return score;
}

/// Speedups of the lists of one kind; empty as soon as one of them has none. `why_not` names that list.
std::vector<Speedup> speedups_of(std::span<const ListScore> lists, bool hidden, std::string& why_not) {
  std::vector<Speedup> speedups;
  for (const ListScore& list : lists) {
    if (list.hidden != hidden) continue;
    if (!list.speedup) {
      why_not = fmt::format("list {}: {}", list.list, list.why_not);
      return {};
    }
    speedups.push_back(*list.speedup);
  }
  if (speedups.empty()) why_not = lists.empty() ? "nothing was timed" : "no scored list was timed";
  return speedups;
}

std::optional<double> mean_floor_ratio(std::span<const ListScore> lists) {
  double sum = 0;
  int count = 0;
  for (const ListScore& list : lists) {
    if (list.hidden) continue;
    if (!list.floor_ratio) return std::nullopt;
    sum += *list.floor_ratio;
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / count;
}

bool agree(double stored, double computed) {
  return std::fabs(stored - computed) <= kAgreement * std::max(std::fabs(stored), std::fabs(computed));
}

}  // namespace

std::vector<TimedPair> used_pairs(const TimingReport& report) {
  std::vector<TimedPair> pairs;
  for (const TimingPair& pair : report.pairs)
    if (pair.dropped.empty()) pairs.push_back({pair.baseline_ns, pair.candidate_ns});
  return pairs;
}

Speedup geometric_mean(std::span<const Speedup> speedups, const SpeedRule& rule) {
  SB_ASSERT(!speedups.empty());
  double sum = 0, below = 0, above = 0;
  Speedup mean;
  for (const Speedup& one : speedups) {
    const double middle = std::log(one.speedup);
    sum += middle;
    below += (middle - std::log(one.low)) * (middle - std::log(one.low));
    above += (std::log(one.high) - middle) * (std::log(one.high) - middle);
    mean.pairs += one.pairs;
  }
  const auto count = static_cast<double>(speedups.size());
  mean.speedup = std::exp(sum / count);
  mean.low = std::exp((sum - std::sqrt(below)) / count);
  mean.high = std::exp((sum + std::sqrt(above)) / count);
  mean.word = speed_word(mean.low, mean.high, rule);
  return mean;
}

Score score_of(const EvalRecord& record, const SpeedRule& rule) {
  Score score;
  score.verdict = record.verdict;
  for (const TimingReport& report : record.timing) score.lists.push_back(score_list(report, rule));
  if (record.verdict != Verdict::kPassed) {
    score.why_not = fmt::format("verdict {}", to_text(record.verdict));
    return score;
  }
  const std::vector<Speedup> scored = speedups_of(score.lists, false, score.why_not);
  if (scored.empty()) return score;
  const Speedup mean = geometric_mean(scored, rule);
  score.speedup = mean.speedup;
  score.low = mean.low;
  score.high = mean.high;
  score.word = mean.word;
  score.floor_ratio = mean_floor_ratio(score.lists);
  std::string why_no_retention;  // it stands in the list concerned
  if (const std::vector<Speedup> hidden = speedups_of(score.lists, true, why_no_retention); !hidden.empty()) {
    score.hidden_speedup = geometric_mean(hidden, rule).speedup;
    score.retention_ratio = *score.hidden_speedup / mean.speedup;
  }
  return score;
}

std::vector<std::string> contradictions(const EvalRecord& record, const SpeedRule& rule) {
  std::vector<std::string> found;
  for (const TimingReport& report : record.timing) {
    const ListScore list = score_list(report, rule);
    if (!list.speedup) {
      found.push_back(
          fmt::format("list {}: a speedup of {} is stored, but {}", report.list, report.speedup, list.why_not));
      continue;
    }
    const struct {
      const char* name;
      double stored, computed;
    } rows[] = {{"speedup", report.speedup, list.speedup->speedup},
                {"speedup_low", report.speedup_low, list.speedup->low},
                {"speedup_high", report.speedup_high, list.speedup->high},
                {"baseline_ns", report.baseline_ns, *list.baseline_ns},
                {"candidate_ns", report.candidate_ns, *list.candidate_ns},
                {"floor_ratio", report.floor_ratio, list.floor_ratio.value_or(0)}};
    for (const auto& row : rows)
      if (!agree(row.stored, row.computed))
        found.push_back(fmt::format("list {}: {} {} is stored, the samples give {}", report.list, row.name, row.stored,
                                    row.computed));
    if (report.word != list.speedup->word)
      found.push_back(fmt::format("list {}: the word {} is stored, the samples say {}", report.list,
                                  to_text(report.word), to_text(list.speedup->word)));
    if (record.verdict == Verdict::kPassed && *list.candidate_ns < report.gate_ns)
      found.push_back(fmt::format("list {}: passed, but the samples' median of {} ns is below the gate of {} ns",
                                  report.list, *list.candidate_ns, report.gate_ns));
  }
  return found;
}

std::optional<double> fast_share(const Score& score, double threshold) {
  if (!score.speedup) return std::nullopt;
  int fast = 0, count = 0;
  for (const ListScore& list : score.lists) {
    if (list.hidden) continue;
    ++count;
    if (list.speedup->speedup >= threshold) ++fast;
  }
  return static_cast<double>(fast) / count;
}

FastCurve fast_curve(std::span<const Score> scores, std::span<const double> thresholds) {
  FastCurve curve;
  for (const Score& score : scores) {
    const bool failed = score.verdict != Verdict::kPassed && !says_nothing(score.verdict);
    if (failed || score.speedup)
      ++curve.judged;
    else
      ++curve.unmeasured;
  }
  for (const double threshold : thresholds) {
    FastPoint point;
    point.threshold = threshold;
    for (const Score& score : scores)
      if (score.speedup && *score.speedup >= threshold) ++point.fast;
    if (curve.judged > 0) point.share = static_cast<double>(point.fast) / static_cast<double>(curve.judged);
    curve.points.push_back(point);
  }
  return curve;
}

PassRates pass_rates(std::span<const Verdict> verdicts) {
  PassRates rates;
  for (const Verdict verdict : verdicts) {
    ++rates.counts[static_cast<size_t>(verdict)];
    ++rates.total;
    if (!says_nothing(verdict)) ++rates.judged;
  }
  if (rates.judged > 0)
    rates.pass_rate =
        static_cast<double>(rates.counts[static_cast<size_t>(Verdict::kPassed)]) / static_cast<double>(rates.judged);
  return rates;
}

ScoredEntry entry_of(const std::string& name, const Score& score) {
  ScoredEntry entry;
  entry.name = name;
  entry.verdict = score.verdict;
  if (!score.speedup) {
    entry.why_not = score.why_not;
    return entry;
  }
  entry.score = *score.speedup;
  entry.low = score.low;
  entry.high = score.high;
  return entry;
}

}  // namespace stepbench
