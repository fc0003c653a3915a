// Intervals and words from pairs of times: known answers, coverage by simulation, clocks with steps, unusable input.
#include "scoring/speedup.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>
#include <string>
#include <vector>

using namespace stepbench;

namespace {

/// Noise whose median is 0, from the raw words of a generator that the standard fixes (no std distribution: they differ
/// between libraries).
class Noise {
 public:
  explicit Noise(uint64_t seed) : words_(seed) {}
  double uniform() { return (static_cast<double>(words_() >> 12) + 0.5) * 0x1p-52; }
  double normal() { return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform()); }
  double t2() {  // normal / sqrt(chi2(2) / 2), and chi2(2) / 2 is exponential
    const double z = normal();
    return z / std::sqrt(-std::log(uniform()));
  }
  double cauchy() {  // cut off far out, where exp() of it would be no time
    return std::clamp(std::tan(std::numbers::pi * (uniform() - 0.5)), -1e3, 1e3);
  }
  /// 60 % around -1, 40 % around +1, sigma 0.5; its median from scipy.optimize.brentq on the mixture's norm.cdf.
  double two_humps() { return (uniform() < 0.6 ? -1 : 1) + 0.5 * normal() - kTwoHumpsMedian; }
  double exponential() { return -std::log(uniform()) - std::numbers::ln2; }
  double log_normal() { return std::exp(normal()) - 1; }

 private:
  static constexpr double kTwoHumpsMedian = -0.5178871602309044;
  std::mt19937_64 words_;
};

/// Share of trials, in percent, in which the interval holds `truth`.
template <class Make>
double coverage_percent(int trials, double truth, const Make& make) {
  int held = 0;
  for (int i = 0; i < trials; ++i) {
    const Result<Speedup> result = speedup_of(make());
    REQUIRE(result.ok());
    const Speedup& s = result.value();
    REQUIRE(s.low <= s.speedup);
    REQUIRE(s.speedup <= s.high);
    held += s.low <= truth && truth <= s.high;
  }
  return 100.0 * held / trials;
}

std::vector<TimedPair> pairs_of_logs(const std::vector<double>& logs) {
  std::vector<TimedPair> pairs;
  for (const double value : logs) pairs.push_back({1e5 * std::exp(value), 1e5});
  return pairs;
}

}  // namespace

TEST_CASE("interpolated order statistics: values worked out in exact fractions") {
  // Values i^2, i = 0 .. n-1. Expected: Python's fractions.Fraction, coverage 1 - 2 sum_{j<k} C(n,j) / 2^n for the
  // largest k that covers the confidence, ends interpolated by (n-k) I / (k + (n-2k) I), I = (g0 - c) / (g0 - g1).
  const struct {
    const char* name;
    size_t n;
    double confidence, low, high;
  } rows[] = {
      {"six, the fewest for 95 %", 6, 0.95, 0.35714285714285715, 21.785714285714285},
      {"seven", 7, 0.95, 0.7333333333333333, 27.933333333333334},
      {"ten", 10, 0.95, 2.972972972972973, 54.13513513513514},
      {"twenty", 20, 0.95, 27.587576374745417, 189.64867617107942},
      {"odd", 21, 0.95, 32.40861291937907, 205.46820230345517},
      {"a hundred", 100, 0.95, 1581.2928486908677, 3509.1791266555288},
      {"a thousand", 1000, 0.95, 219523.50214579402, 281395.395115595},
      {"2^-n below the range of double", 2001, 0.95, 914269.3099164693, 1089572.373342566},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    std::vector<double> values;
    for (size_t i = 0; i < row.n; ++i) values.push_back(static_cast<double>(i * i));
    const MedianInterval interval = median_interval(values, row.confidence);
    CHECK(interval.low == Approx(row.low).epsilon(1e-9));
    CHECK(interval.high == Approx(row.high).epsilon(1e-9));
  }
  std::vector<double> fifty;
  for (int i = 0; i < 50; ++i) fifty.push_back(i);
  CHECK(median_interval(fifty, 0.9).low == Approx(18.751617842180913).epsilon(1e-12));
  CHECK(median_interval(fifty, 0.9).high == Approx(30.248382157819087).epsilon(1e-12));
  CHECK(median_interval(fifty, 0.99).low == Approx(15.574672308200803).epsilon(1e-12));
  CHECK(median_interval(fifty, 0.99).high == Approx(33.4253276917992).epsilon(1e-12));
}

TEST_CASE("fewest pairs for a confidence: 1 - 2^(1-n)") {
  CHECK(least_pairs(0.5) == 2);
  CHECK(least_pairs(0.75) == 3);
  CHECK(least_pairs(0.9375) == 5);
  CHECK(least_pairs(0.95) == 6);
  CHECK(least_pairs(0.99) == 8);
}

TEST_CASE("a clock without steps: the speedup is exp of the median and the interval that of the order statistics") {
  std::vector<double> logs;
  for (int i = 0; i < 20; ++i) logs.push_back(0.001 * i * i);
  std::vector<TimedPair> pairs = pairs_of_logs(logs);
  // The one gap of these samples is 0.001 * 1e5 = 100 ns, which a clock may have; one more digit shows that it has not.
  for (size_t i = 0; i < pairs.size(); ++i) {
    const double factor = 1 + 1e-5 * static_cast<double>(i);
    pairs[i].baseline_ns *= factor;
    pairs[i].candidate_ns *= factor;
  }
  const Result<Speedup> result = speedup_of(pairs);
  REQUIRE(result.ok());
  CHECK(result.value().pairs == 20);
  CHECK(result.value().speedup == Approx(std::exp(0.0905)).epsilon(1e-12));  // (81 + 100) / 2 / 1000
  CHECK(result.value().low == Approx(std::exp(0.027587576374745417)).epsilon(2e-5));
  CHECK(result.value().high == Approx(std::exp(0.18964867617107942)).epsilon(2e-5));
  CHECK(result.value().word == SpeedWord::kFaster);
}

TEST_CASE("the interval holds the truth in 95 % +- 2 of all cases, whatever the noise") {
  const struct {
    const char* name;
    double (Noise::*draw)();
  } noises[] = {{"normal", &Noise::normal},           {"t(2)", &Noise::t2},
                {"cauchy", &Noise::cauchy},           {"two humps", &Noise::two_humps},
                {"exponential", &Noise::exponential}, {"log-normal", &Noise::log_normal}};
  const struct { int pairs, trials; } sizes[] = {{20, 2500}, {21, 2500}, {57, 2000}, {200, 1500}};
  for (const auto& noise : noises)
    for (const auto& size : sizes) {
      INFO(noise.name << ", " << size.pairs << " pairs");
      Noise source(static_cast<uint64_t>(size.pairs));
      std::vector<double> logs(static_cast<size_t>(size.pairs));
      const double percent = coverage_percent(size.trials, 1.25, [&] {
        for (double& value : logs) value = std::log(1.25) + 0.02 * (source.*noise.draw)();
        return pairs_of_logs(logs);
      });
      CHECK(percent >= 93);
      CHECK(percent <= 97);
    }
  for (const auto& noise : noises) {
    INFO(noise.name << ", 1000 values, the interval of their median alone");
    Noise source(1000);
    constexpr int kTrials = 1500;
    int held = 0;
    std::vector<double> values(1000);
    for (int trial = 0; trial < kTrials; ++trial) {
      for (double& value : values) value = (source.*noise.draw)();
      std::sort(values.begin(), values.end());
      const MedianInterval interval = median_interval(values, 0.95);
      held += interval.low <= 0 && 0 <= interval.high;
    }
    CHECK(100.0 * held / kTrials >= 93);
    CHECK(100.0 * held / kTrials <= 97);
  }
}

TEST_CASE("noise above the clock's step: 95 % +- 2 of what the clock hides") {
  constexpr double kStep = 32;
  for (const double sigma_steps : {1.5, 5.0})
    for (const int count : {20, 100, 1000}) {
      INFO("sigma " << sigma_steps << " steps, " << count << " pairs");
      Noise source(static_cast<uint64_t>(count));
      const int trials = count == 1000 ? 1100 : 2000;
      int held = 0;
      for (int trial = 0; trial < trials; ++trial) {
        const double baseline = 5000 + kStep * source.uniform(), candidate = 4900 + kStep * source.uniform();
        std::vector<TimedPair> pairs(static_cast<size_t>(count));
        for (TimedPair& pair : pairs)
          pair = {kStep * std::round((baseline + sigma_steps * kStep * source.normal()) / kStep),
                  kStep * std::round((candidate + sigma_steps * kStep * source.normal()) / kStep)};
        const Speedup s = speedup_of(pairs).value();
        held += s.low <= baseline / candidate && baseline / candidate <= s.high;
      }
      CHECK(100.0 * held / trials >= 93);
      CHECK(100.0 * held / trials <= 97);
    }
}

TEST_CASE("noise below the clock's step, or none: the interval has width and holds the truth") {
  constexpr double kStep = 32;
  // Rounding to the nearest step, and the difference of two readings at a random phase (start and stop).
  for (const bool two_readings : {false, true})
    for (const double sigma_steps : {0.0, 0.1, 0.3, 0.5})
      for (const int count : {20, 300}) {
        INFO("sigma " << sigma_steps << " steps, " << count << " pairs, " << (two_readings ? "start and stop" : "one"));
        Noise source(7);
        int held = 0;
        for (int trial = 0; trial < 300; ++trial) {
          const double baseline = 5000 + kStep * source.uniform(), candidate = 5000 + kStep * source.uniform();
          const auto read = [&](double time_ns) {
            time_ns += sigma_steps * kStep * source.normal();
            if (!two_readings) return kStep * std::round(time_ns / kStep);
            const double start = kStep * source.uniform();
            return kStep * (std::floor((start + time_ns) / kStep) - std::floor(start / kStep));
          };
          std::vector<TimedPair> pairs(static_cast<size_t>(count));
          for (TimedPair& pair : pairs) pair = {read(baseline), read(candidate)};
          const Speedup s = speedup_of(pairs).value();
          CHECK(s.high > s.low);
          held += s.low <= baseline / candidate && baseline / candidate <= s.high;
        }
        CHECK(held >= 285);  // 95 %
      }
}

TEST_CASE("identical samples: the longest step the clock may have is what is known") {
  const std::vector<TimedPair> pairs(50, {10'000, 8'000});
  const Speedup s = speedup_of(pairs).value();
  CHECK(s.speedup == Approx(1.25).epsilon(1e-14));
  // Half a step of either reading, and the spread over the step: the ends lie beyond 250/10000 + 250/8000 = 0.05625.
  CHECK(std::log(s.low / 1.25) < -0.05625);
  CHECK(std::log(s.high / 1.25) > 0.05625);
  CHECK(std::log(s.high / s.low) < 0.25);
  SpeedRule fine;
  fine.max_clock_step_ns = 1;
  CHECK(std::log(speedup_of(pairs, fine).value().high / 1.25) < 0.0003);
  SpeedRule exact;
  exact.max_clock_step_ns = 0;
  CHECK(speedup_of(pairs, exact).value().low == Approx(1.25).epsilon(1e-14));
  CHECK(speedup_of(pairs, exact).value().high == Approx(1.25).epsilon(1e-14));
}

TEST_CASE("words of intervals") {
  const SpeedRule rule;  // same within 1 %, change beyond 0.5 %
  const struct {
    const char* name;
    double low, high;
    SpeedWord word;
  } rows[] = {
      {"above", 1.2, 1.3, SpeedWord::kFaster},
      {"just above the change", 1.0051, 1.006, SpeedWord::kFaster},
      {"faster precedes same", 1.006, 1.009, SpeedWord::kFaster},
      {"at the change exactly", 1.005, 1.009, SpeedWord::kSame},
      {"below", 0.8, 0.9, SpeedWord::kSlower},
      {"just below the change", 0.99, 0.995, SpeedWord::kSlower},
      {"slower precedes same", 0.991, 0.994, SpeedWord::kSlower},
      {"around 1", 0.995, 1.004, SpeedWord::kSame},
      {"no width", 1, 1, SpeedWord::kSame},
      {"a hair too wide above", 0.995, 1.0101, SpeedWord::kUndecided},
      {"a hair too wide below", 0.990, 1.004, SpeedWord::kUndecided},
      {"wide", 0.5, 2, SpeedWord::kUndecided},
      {"mostly above", 1.004, 1.5, SpeedWord::kUndecided},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    CHECK(speed_word(row.low, row.high, rule) == row.word);
    // Exchanging baseline and candidate exchanges the words.
    const SpeedWord mirrored = row.word == SpeedWord::kFaster   ? SpeedWord::kSlower
                               : row.word == SpeedWord::kSlower ? SpeedWord::kFaster
                                                                : row.word;
    CHECK(speed_word(1 / row.high, 1 / row.low, rule) == mirrored);
  }
}

TEST_CASE("a kernel against itself is the same; two percent are seen; few and noisy pairs leave it undecided") {
  Noise source(3);
  const auto measure = [&](double speedup, double sigma, int count) {
    std::vector<double> logs;
    for (int i = 0; i < count; ++i) logs.push_back(std::log(speedup) + sigma * source.normal());
    return speedup_of(pairs_of_logs(logs)).value().word;
  };
  CHECK(measure(1, 0.01, 400) == SpeedWord::kSame);
  CHECK(measure(1.02, 0.01, 400) == SpeedWord::kFaster);
  CHECK(measure(1 / 1.02, 0.01, 400) == SpeedWord::kSlower);
  CHECK(measure(1, 0.1, 20) == SpeedWord::kUndecided);
}

TEST_CASE("the same samples and seed give the same interval; order and scale of the pairs carry nothing else") {
  Noise source(5);
  std::vector<TimedPair> pairs;
  for (int i = 0; i < 100; ++i)
    pairs.push_back({32 * std::round(200 + 3 * source.normal()), 32 * std::round(150 + 3 * source.normal())});
  const Speedup first = speedup_of(pairs).value(), again = speedup_of(pairs).value();
  CHECK(first.low == again.low);
  CHECK(first.high == again.high);
  SpeedRule other;
  other.seed = 2;
  const Speedup elsewhere = speedup_of(pairs, other).value();
  CHECK(elsewhere.low != first.low);
  CHECK(elsewhere.speedup == first.speedup);
  CHECK(std::fabs(std::log(elsewhere.low / first.low)) < 0.25 * std::log(first.high / first.low));
  // A power of two changes no bit of the mantissas, as long as the step is read off the samples.
  std::vector<TimedPair> scaled = pairs;
  for (TimedPair& pair : scaled) pair = {4 * pair.baseline_ns, 4 * pair.candidate_ns};
  CHECK(speedup_of(scaled).value().speedup == Approx(first.speedup).epsilon(1e-14));
  CHECK(speedup_of(scaled).value().low == Approx(first.low).epsilon(1e-12));
}

TEST_CASE("no interval comes from unusable input") {
  const std::vector<TimedPair> good(6, {100, 100});
  CHECK(speedup_of(good).ok());
  const std::vector<TimedPair> few(5, {100, 100});
  REQUIRE_FALSE(speedup_of(few).ok());
  CHECK(speedup_of(few).error().code == ErrorCode::kInvalidInput);
  CHECK(speedup_of(few).error().expected == "at least 6");
  CHECK(speedup_of(few).error().found == "5");
  CHECK_FALSE(speedup_of({}).ok());
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double bad : {0.0, -1.0, std::nan(""), kInfinity, -kInfinity}) {
    INFO(bad);
    std::vector<TimedPair> pairs = good;
    pairs[4].baseline_ns = bad;
    REQUIRE_FALSE(speedup_of(pairs).ok());
    CHECK(speedup_of(pairs).error().place == "pair 4");
  }
  const struct {
    const char* name;
    SpeedRule rule;
  } rules[] = {{"negative", {-0.01, 0.005, 1, 0.95, 500}},
               {"not a number", {0.01, std::nan(""), 1, 0.95, 500}},
               {"certainty", {0.01, 0.005, 1, 1, 500}},
               {"no confidence", {0.01, 0.005, 1, 0.49, 500}},
               {"endless step", {0.01, 0.005, 1, 0.95, kInfinity}}};
  for (const auto& row : rules) {
    INFO(row.name);
    REQUIRE_FALSE(speedup_of(good, row.rule).ok());
    CHECK(speedup_of(good, row.rule).error().code == ErrorCode::kInvalidInput);
  }
  // Extremes of double neither overflow nor trap.
  const std::vector<TimedPair> extreme(6, {1e300, 1e-300});
  CHECK(speedup_of(extreme).ok());
}
