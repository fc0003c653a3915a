// Scores of records: known answers, records without a score, contradictions, pass rates, the fast_p curve.
#include "scoring/score.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/scoring/records.h"

using namespace stepbench;
using stepbench::test::filled_in;
using stepbench::test::passed_record;
using stepbench::test::timed_list;

TEST_CASE("geometric mean with its interval, worked out by hand") {
  // numpy: m = mean(log x); low = exp(m - sqrt(sum((log x - log low)^2)) / 2), high alike:
  //   x = [2, 8], low = [1.6, 7.2], high = [2.2, 10]
  // m = (ln 2 + ln 8) / 2 = ln 4; below = hypot(ln(2/1.6), ln(8/7.2)) = hypot(0.2231436, 0.1053605) = 0.2467662
  // above = hypot(ln 1.1, ln 1.25) = hypot(0.0953102, 0.2231436) = 0.2426465
  const Speedup lists[] = {{2, 1.6, 2.2, SpeedWord::kFaster, 30}, {8, 7.2, 10, SpeedWord::kFaster, 40}};
  const Speedup mean = geometric_mean(lists, {});
  CHECK(mean.speedup == Approx(4).epsilon(1e-14));
  CHECK(std::log(mean.low) == Approx(std::log(4.0) - 0.2467662 / 2).margin(1e-7));
  CHECK(std::log(mean.high) == Approx(std::log(4.0) + 0.2426465 / 2).margin(1e-7));
  CHECK(mean.pairs == 70);
  CHECK(mean.word == SpeedWord::kFaster);
  // One list: its own interval.
  const Speedup alone = geometric_mean({lists, 1}, {});
  CHECK(alone.speedup == Approx(2).epsilon(1e-14));
  CHECK(alone.low == Approx(1.6).epsilon(1e-14));
  CHECK(alone.high == Approx(2.2).epsilon(1e-14));
}

TEST_CASE("the joined interval holds the true mean in 95 % +- 2 of all cases") {
  for (const size_t lists : {size_t{2}, size_t{5}}) {
    INFO(lists << " lists");
    constexpr int kTrials = 1500;
    test::Exponential noise(lists);
    int held = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      std::vector<Speedup> speedups;
      for (size_t i = 0; i < lists; ++i) {
        std::vector<TimedPair> pairs(40);  // skewed, the more so in later lists; every list is 1.2 times as fast
        for (TimedPair& pair : pairs)
          pair = {1.2e5 * std::exp(0.01 * static_cast<double>(i + 1) * noise.centred()), 1e5};
        speedups.push_back(speedup_of(pairs).value());
      }
      const Speedup mean = geometric_mean(speedups, {});
      held += mean.low <= 1.2 && 1.2 <= mean.high;
    }
    CHECK(100.0 * held / kTrials >= 93);
    CHECK(100.0 * held / kTrials <= 97);
  }
}

TEST_CASE("the score of a passed record: geometric mean, retention, floor") {
  EvalRecord record = passed_record("adamw", "a.cu");
  record.timing = {timed_list("small", 1.5), timed_list("large", 1.2), timed_list("varied", 1.1, true)};
  record.timing[0].floor_ns = 40'000;  // the candidate takes 100'000 / 1.5 and 100'000 / 1.2 ns
  record.timing[1].floor_ns = 50'000;
  const Score score = score_of(record);
  REQUIRE(score.speedup);
  CHECK(score.version == kScoreVersion);
  CHECK(*score.speedup == Approx(std::sqrt(1.5 * 1.2)).epsilon(1e-6));
  CHECK(*score.low < *score.speedup);
  CHECK(*score.high > *score.speedup);
  CHECK(*score.low > 1.33);
  CHECK(score.word == SpeedWord::kFaster);
  REQUIRE(score.retention_ratio);
  CHECK(*score.hidden_speedup == Approx(1.1).epsilon(1e-6));
  CHECK(*score.retention_ratio == Approx(1.1 / std::sqrt(1.8)).epsilon(1e-6));
  REQUIRE(score.floor_ratio);
  CHECK(*score.floor_ratio == Approx((0.4 * 1.5 + 0.5 * 1.2) / 2).epsilon(1e-3));
  CHECK(score.why_not.empty());
  CHECK(fast_share(score, 1.0) == 1.0);
  CHECK(fast_share(score, 1.3) == 0.5);
  CHECK(fast_share(score, 1.6) == 0.0);
}

TEST_CASE("what has no measurement has no number") {
  const struct {
    const char* name;
    void (*edit)(EvalRecord&);
    bool scored, retention, floor;
    const char* why_not;
  } rows[] = {
      {"control", [](EvalRecord&) {}, true, true, true, ""},
      {"a single list", [](EvalRecord& r) { r.timing.resize(1); }, true, false, true, ""},
      {"nothing timed (vm)", [](EvalRecord& r) { r.timing.clear(); }, false, false, false, "nothing was timed"},
      {"hidden lists only", [](EvalRecord& r) { r.timing.erase(r.timing.begin(), r.timing.begin() + 2); }, false, false,
       false, "no scored list was timed"},
      {"a failing shape", [](EvalRecord& r) { r.verdict = Verdict::kWrongResult; }, false, false, false,
       "verdict wrong_result"},
      {"an impossible time", [](EvalRecord& r) { r.verdict = Verdict::kImpossibleTime; }, false, false, false,
       "verdict impossible_time"},
      {"unsupported", [](EvalRecord& r) { r.verdict = Verdict::kUnsupported; }, false, false, false,
       "verdict unsupported"},
      {"harness_error", [](EvalRecord& r) { r.verdict = Verdict::kHarnessError; }, false, false, false,
       "verdict harness_error"},
      {"too few pairs in one scored list", [](EvalRecord& r) { r.timing[1].pairs.resize(5); }, false, false, false,
       "list large: too few pairs of times (expected at least 6, found 5)"},
      {"all pairs of a scored list dropped",
       [](EvalRecord& r) {
         for (TimingPair& pair : r.timing[0].pairs) pair.dropped = "clock";
       },
       false, false, false, "list small: too few pairs of times (expected at least 6, found 0)"},
      {"a time of zero", [](EvalRecord& r) { r.timing[0].pairs[3].candidate_ns = 0; }, false, false, false,
       "list small: pair 3: a time is unusable (expected finite and above 0 ns, found 0 ns)"},
      {"a hidden list without pairs", [](EvalRecord& r) { r.timing[2].pairs.clear(); }, true, false, true, ""},
      {"a floor unknown", [](EvalRecord& r) { r.timing[1].floor_ns = 0; }, true, true, false, ""},
      {"a floor that is no number", [](EvalRecord& r) { r.timing[1].floor_ns = std::nan(""); }, true, true, false, ""},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    EvalRecord record = passed_record("adamw", "a.cu");
    record.timing = {timed_list("small", 1.5), timed_list("large", 1.2), timed_list("varied", 1.1, true)};
    for (TimingReport& report : record.timing) report.floor_ns = 40'000;
    row.edit(record);
    const Score score = score_of(record);
    CHECK(score.why_not == row.why_not);
    CHECK(score.speedup.has_value() == row.scored);
    CHECK(score.low.has_value() == row.scored);
    CHECK(score.high.has_value() == row.scored);
    CHECK(score.word.has_value() == row.scored);
    CHECK(score.retention_ratio.has_value() == row.retention);
    CHECK(score.hidden_speedup.has_value() == row.retention);
    CHECK(score.floor_ratio.has_value() == row.floor);
    CHECK(fast_share(score, 1.0).has_value() == row.scored);
    CHECK(score.verdict == record.verdict);
  }
}

TEST_CASE("dropped pairs do not count, and nothing stored is believed") {
  EvalRecord record = passed_record("adamw", "a.cu");
  record.timing = {timed_list("small", 1.5)};
  const Score clean = score_of(record);
  TimingReport& report = record.timing[0];
  for (int i = 0; i < 30; ++i) {
    TimingPair pair = report.pairs[0];
    pair.candidate_ns /= 100;
    pair.dropped = "SM clocks differ";
    report.pairs.push_back(pair);
  }
  report.speedup = 150;
  report.speedup_low = 149;
  report.candidate_ns = 1;
  report.word = SpeedWord::kSlower;
  const Score score = score_of(record);
  CHECK(*score.speedup == *clean.speedup);
  CHECK(*score.low == *clean.low);
  CHECK(*score.high == *clean.high);
  CHECK(score.lists[0].dropped == 30);
  CHECK(score.lists[0].speedup->pairs == report.pairs.size() - 30);
}

TEST_CASE("stored figures that the samples contradict are named") {
  const struct {
    const char* name;
    void (*edit)(EvalRecord&);
    const char* says;  ///< part of the only sentence; empty: none
  } rows[] = {
      {"control", [](EvalRecord&) {}, ""},
      {"the last bits", [](EvalRecord& r) { r.timing[0].speedup *= 1 + 1e-12; }, ""},
      {"speedup", [](EvalRecord& r) { r.timing[0].speedup *= 1.001; }, "list small: speedup "},
      {"low", [](EvalRecord& r) { r.timing[0].speedup_low *= 1.001; }, "list small: speedup_low "},
      {"high", [](EvalRecord& r) { r.timing[0].speedup_high *= 1.001; }, "list small: speedup_high "},
      {"baseline", [](EvalRecord& r) { r.timing[0].baseline_ns *= 1.001; }, "list small: baseline_ns "},
      {"candidate", [](EvalRecord& r) { r.timing[0].candidate_ns = std::nan(""); }, "list small: candidate_ns nan"},
      {"floor", [](EvalRecord& r) { r.timing[0].floor_ratio += 0.01; }, "list small: floor_ratio "},
      {"word", [](EvalRecord& r) { r.timing[0].word = SpeedWord::kSame; },
       "the word same is stored, the samples say fas"},
      {"gate", [](EvalRecord& r) { r.timing[0].gate_ns = 1e5; }, "is below the gate of 100000 ns"},
      {"no samples", [](EvalRecord& r) { r.timing[0].pairs.clear(); }, "is stored, but too few pairs of times"},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    EvalRecord record = passed_record("adamw", "a.cu");
    record.timing = {timed_list("small", 1.5)};
    record.timing[0].floor_ns = 40'000;
    filled_in(record.timing[0]);
    row.edit(record);
    const std::vector<std::string> found = contradictions(record);
    REQUIRE(found.size() == (row.says[0] == '\0' ? 0 : 1));
    if (!found.empty()) {
      INFO(found[0]);
      CHECK(found[0].find(row.says) != std::string::npos);
    }
  }
}

TEST_CASE("pass rates leave out what says nothing of a candidate") {
  const Verdict verdicts[] = {Verdict::kPassed,      Verdict::kPassed,       Verdict::kPassed,
                              Verdict::kWrongResult, Verdict::kCompileError, Verdict::kUnsupported,
                              Verdict::kHarnessError};
  const PassRates rates = pass_rates(verdicts);
  CHECK(rates.total == 7);
  CHECK(rates.judged == 5);
  CHECK(rates.counts[static_cast<size_t>(Verdict::kPassed)] == 3);
  CHECK(rates.counts[static_cast<size_t>(Verdict::kUnsupported)] == 1);
  CHECK(rates.pass_rate == 0.6);
  CHECK_FALSE(pass_rates({}).pass_rate);
  CHECK_FALSE(pass_rates({verdicts + 5, 2}).pass_rate);
  CHECK(pass_rates({verdicts + 3, 2}).pass_rate == 0.0);  // judged, and none passed: that is a measurement
}

TEST_CASE("fast_p: failed attempts count against it, unmeasured ones not at all") {
  const auto scored = [](double speedup) {
    EvalRecord record = passed_record("adamw", "a.cu");
    record.timing = {timed_list("small", speedup)};
    return score_of(record);
  };
  const auto stopped = [](Verdict verdict) {
    EvalRecord record = passed_record("adamw", "a.cu");
    record.verdict = verdict;
    return score_of(record);
  };
  const std::vector<Score> scores = {scored(1.5),
                                     scored(1.05),
                                     scored(0.7),
                                     stopped(Verdict::kWrongResult),
                                     stopped(Verdict::kUnsupported),
                                     stopped(Verdict::kHarnessError),
                                     stopped(Verdict::kPassed)};  // without times
  const double thresholds[] = {0, 0.8, 1, 1.2, 2};
  const FastCurve curve = fast_curve(scores, thresholds);
  CHECK(curve.judged == 4);
  CHECK(curve.unmeasured == 3);
  const size_t fast[] = {3, 2, 2, 1, 0};
  REQUIRE(curve.points.size() == 5);
  for (size_t i = 0; i < 5; ++i) {
    CHECK(curve.points[i].threshold == thresholds[i]);
    CHECK(curve.points[i].fast == fast[i]);
    CHECK(curve.points[i].share == static_cast<double>(fast[i]) / 4);
  }
  CHECK_FALSE(fast_curve({scores.data() + 4, 3}, thresholds).points[0].share);
}
