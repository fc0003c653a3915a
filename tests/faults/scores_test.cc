// C16, C20, C21, C26: scores, ratios and times from samples that are disturbed, missing or not numbers.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "scoring/paired_ratio.h"
#include "scoring/rank.h"
#include "scoring/sample_time.h"

using namespace stepbench;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Deterministic noise in [-1, 1) (Numerical Recipes' 32-bit generator).
class Noise {
 public:
  double next() {
    state_ = state_ * 1664525u + 1013904223u;
    return static_cast<double>(state_) * 0x1p-31 - 1;
  }

 private:
  uint32_t state_ = 12345;
};

/// Two equally fast kernels on a machine that slows down by 20 % over the run, one percent of noise on each sample.
class DriftingClock {
 public:
  explicit DriftingClock(int samples) : samples_(samples) {}
  double sample_ns() {
    const double drift = 1 + 0.2 * taken_++ / (samples_ - 1);
    return 100'000 * drift * (1 + 0.01 * noise_.next());
  }

 private:
  double samples_;
  int taken_ = 0;
  Noise noise_;
};

}  // namespace

TEST_CASE("C16: interleaved pairs see through a drifting clock, one after the other does not") {
  constexpr int kPairs = 100;
  DriftingClock clock(2 * kPairs);
  std::vector<TimedPair> interleaved(kPairs);
  for (int i = 0; i < kPairs; ++i) {  // the order changes from pair to pair
    TimedPair& pair = interleaved[static_cast<size_t>(i)];
    double& first = i % 2 == 0 ? pair.baseline_ns : pair.candidate_ns;
    double& second = i % 2 == 0 ? pair.candidate_ns : pair.baseline_ns;
    first = clock.sample_ns();
    second = clock.sample_ns();
  }
  const Result<PairedRatio> paired = paired_ratio(interleaved);
  REQUIRE(paired.ok());
  CHECK(paired.value().speedup == Approx(1.0).margin(0.02));
  CHECK(paired.value().pairs == kPairs);
  CHECK(paired.value().spread_ratio > 0);
  CHECK(paired.value().spread_ratio < 0.02);
  CHECK_FALSE(paired.value().unstable);

  DriftingClock again(2 * kPairs);
  std::vector<TimedPair> sequential(kPairs);
  for (TimedPair& pair : sequential) pair.baseline_ns = again.sample_ns();
  for (TimedPair& pair : sequential) pair.candidate_ns = again.sample_ns();
  const Result<PairedRatio> apart = paired_ratio(sequential);
  REQUIRE(apart.ok());
  CHECK(std::fabs(apart.value().speedup - 1) > 0.05);  // 1.05 / 1.15 in the middle
}

TEST_CASE("C16: a spread over the limit is flagged, a few outliers are not") {
  Noise noise;
  std::vector<TimedPair> pairs(101);
  for (TimedPair& pair : pairs) pair = {1000 * (1 + 0.4 * noise.next()), 1000 * (1 + 0.4 * noise.next())};
  const Result<PairedRatio> noisy = paired_ratio(pairs);
  REQUIRE(noisy.ok());
  CHECK(noisy.value().unstable);
  CHECK(noisy.value().spread_ratio > 0.1);

  for (size_t i = 0; i < pairs.size(); ++i) pairs[i] = {1500, i % 5 == 0 ? 1e6 : 1000};
  const Result<PairedRatio> outliers = paired_ratio(pairs);
  REQUIRE(outliers.ok());
  CHECK(outliers.value().speedup == Approx(1.5).epsilon(1e-12));
  CHECK(outliers.value().spread_ratio == 0);
  CHECK_FALSE(outliers.value().unstable);
}

TEST_CASE("C16: exact ratios, and their inverses when baseline and candidate change places") {
  const std::vector<TimedPair> even = {{2, 1}, {4, 1}, {8, 1}, {16, 1}};
  CHECK(paired_ratio(even, 10).value().speedup == Approx(std::sqrt(4.0 * 8.0)).epsilon(1e-14));
  std::vector<TimedPair> swapped;
  for (const TimedPair& pair : even) swapped.push_back({pair.candidate_ns, pair.baseline_ns});
  CHECK(paired_ratio(swapped).value().speedup * paired_ratio(even).value().speedup == Approx(1).epsilon(1e-14));
  // Median of the deviations of 1, 2, 3, 4 from 2.5 in units of log 2: 1.
  CHECK(paired_ratio(even).value().spread_ratio == Approx(std::expm1(1.4826 * std::log(2.0))).epsilon(1e-12));
  // The quotient itself would be infinite.
  const std::vector<TimedPair> extreme(3, {1e300, 1e-300});
  CHECK(paired_ratio(extreme).ok());
}

TEST_CASE("C20: no ratio comes from a time that is none") {
  for (const double bad : {0.0, -1.0, kNan, kInfinity, -kInfinity}) {
    INFO(bad);
    std::vector<TimedPair> pairs(5, {100, 100});
    CHECK(paired_ratio(pairs).ok());
    pairs[3].candidate_ns = bad;
    const Result<PairedRatio> result = paired_ratio(pairs);
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().code == ErrorCode::kInvalidInput);
    CHECK(result.error().place == "pair 3");
  }
  const std::vector<TimedPair> few(2, {100, 100});
  CHECK_FALSE(paired_ratio(few).ok());
  CHECK_FALSE(paired_ratio({}).ok());
}

TEST_CASE("C21: entries without a valid score are never ranked") {
  const ScoredEntry entries[] = {{"a", Verdict::kPassed, 1.5},       {"b", Verdict::kPassed, kNan},
                                 {"c", Verdict::kWrongResult, 99.0}, {"d", Verdict::kPassed, kInfinity},
                                 {"e", Verdict::kPassed, 1.2},       {"f", Verdict::kUnsupported, 3.0},
                                 {"g", Verdict::kHarnessError, 2.0}, {"h", Verdict::kPassed, 0.0},
                                 {"i", Verdict::kPassed, -2.0},      {"j", Verdict::kImpossibleTime, 50.0}};
  const Ranking ranking = rank_scores(entries);
  REQUIRE(ranking.ranked.size() == 2);
  CHECK(ranking.ranked[0].name == "a");
  CHECK(ranking.ranked[0].rank == 1);
  CHECK(ranking.ranked[1].name == "e");
  CHECK(ranking.ranked[1].rank == 2);
  const std::vector<std::pair<std::string, std::string>> reasons = {
      {"b", "score is not a number"}, {"c", "verdict wrong_result"},   {"d", "score is infinite"},
      {"f", "verdict unsupported"},   {"g", "verdict harness_error"},  {"h", "score is not positive"},
      {"i", "score is not positive"}, {"j", "verdict impossible_time"}};
  REQUIRE(ranking.unranked.size() == reasons.size());
  for (size_t i = 0; i < reasons.size(); ++i) {
    CHECK(ranking.unranked[i].name == reasons[i].first);
    CHECK(ranking.unranked[i].reason == reasons[i].second);
  }
}

TEST_CASE("C21: every verdict but passed is unranked, whatever its score") {
  for (int i = 0; i < kVerdictCount; ++i) {
    const auto verdict = static_cast<Verdict>(i);
    const ScoredEntry entry{"x", verdict, 1.0};
    const Ranking ranking = rank_scores({&entry, 1});
    CHECK(ranking.ranked.size() == (verdict == Verdict::kPassed ? 1 : 0));
    CHECK(ranking.ranked.size() + ranking.unranked.size() == 1);
  }
  CHECK(rank_scores({}).ranked.empty());
}

TEST_CASE("C21: any order of NaN among the entries gives the same ranks, and ties share one") {
  std::vector<ScoredEntry> entries = {{"1", Verdict::kPassed, 2}, {"2", Verdict::kPassed, kNan},
                                      {"3", Verdict::kPassed, 3}, {"4", Verdict::kPassed, 2},
                                      {"5", Verdict::kPassed, 1}, {"6", Verdict::kPassed, -kNan}};
  std::sort(entries.begin(), entries.end(), [](const ScoredEntry& a, const ScoredEntry& b) { return a.name < b.name; });
  do {
    const Ranking ranking = rank_scores(entries);
    REQUIRE(ranking.ranked.size() == 4);
    REQUIRE(ranking.ranked[0].name == "3");
    REQUIRE(ranking.ranked[3].name == "5");
    const int64_t ranks[] = {1, 2, 2, 4};
    for (size_t i = 0; i < 4; ++i) REQUIRE(ranking.ranked[i].rank == ranks[i]);
  } while (std::next_permutation(entries.begin(), entries.end(),
                                 [](const ScoredEntry& a, const ScoredEntry& b) { return a.name < b.name; }));
}

TEST_CASE("C26: a launch shorter than a timer step gets a positive time with its resolution") {
  const SampleRule rule{500, 20'000, 0.01, 1 << 20};  // steps of 0.5 us: a batch takes 50 us at least
  for (const double launch_ns : {900.0, 40.0, 2.5, 499.0, 19'000.0, 49'000.0, 51'000.0, 1e7}) {
    INFO(launch_ns);
    const auto timed = [&](int64_t launches) {
      return rule.timer_step_ns * std::floor(launch_ns * static_cast<double>(launches) / rule.timer_step_ns);
    };
    int64_t launches = 1;
    int rounds = 0;
    for (;; ++rounds) {
      REQUIRE(rounds < 20);
      const Result<int64_t> next = launches_for_sample(timed(launches), launches, rule);
      REQUIRE(next.ok());
      REQUIRE(next.value() >= launches);
      REQUIRE(next.value() <= 10 * launches);
      if (next.value() == launches) break;
      launches = next.value();
    }
    CHECK(timed(launches) >= 50'000);
    CHECK(timed(launches) <= std::max(launch_ns, 50'000 * 13.0));
    CHECK((launches > 1) == (launch_ns < 50'000));
    const Result<LaunchTime> time = time_of_launch(timed(launches), launches, rule);
    REQUIRE(time.ok());
    CHECK_FALSE(time.value().is_upper_bound);
    CHECK(time.value().time_ns == Approx(launch_ns).epsilon(0.011));
    CHECK(std::fabs(time.value().time_ns - launch_ns) <= time.value().resolution_ns);
    CHECK(time.value().resolution_ns == rule.timer_step_ns / static_cast<double>(launches));
  }
}

TEST_CASE("C26: a batch that reads zero is a bound, not a time of zero") {
  const SampleRule rule{500, 20'000, 0.01, 64};
  const Result<LaunchTime> one = time_of_launch(0, 1, rule);
  REQUIRE(one.ok());
  CHECK(one.value().is_upper_bound);
  CHECK(one.value().time_ns == 500);
  CHECK(std::isfinite(1 / one.value().time_ns));
  CHECK(launches_for_sample(0, 1, rule).value() == 10);
  CHECK(launches_for_sample(0, 10, rule).value() == 64);
  CHECK(launches_for_sample(0, 64, rule).value() == 64);  // the limit: the bound is all that can be said
  CHECK(time_of_launch(0, 64, rule).value().time_ns == 500.0 / 64);
  CHECK_FALSE(time_of_launch(500, 1, rule).value().is_upper_bound);
}

TEST_CASE("C26: what is no time is refused") {
  const SampleRule rule;
  for (const double bad : {-1.0, kNan, kInfinity}) {
    CHECK(launches_for_sample(bad, 1, rule).error().code == ErrorCode::kInvalidInput);
    CHECK(time_of_launch(bad, 1, rule).error().code == ErrorCode::kInvalidInput);
    CHECK_FALSE(time_of_launch(1, 1, {bad, 1, 1, 1}).ok());
    CHECK_FALSE(time_of_launch(1, 1, {1, bad, 1, 1}).ok());
    CHECK_FALSE(time_of_launch(1, 1, {1, 1, bad, 1}).ok());
  }
  CHECK_FALSE(time_of_launch(1, 0, rule).ok());
  CHECK_FALSE(launches_for_sample(1, 1, {1, 1, 1, 0}).ok());
}
