// Records made by hand for the tests of scores and regressions: what an evaluation on a GPU would have left.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <string>

#include "harness/model.h"
#include "scoring/score.h"

namespace stepbench::test {

/// Exponential noise with median 0.
class Exponential {
 public:
  explicit Exponential(uint64_t seed) : words_(seed) {}
  double centred() { return -std::log((static_cast<double>(words_() >> 12) + 0.5) * 0x1p-52) - std::log(2.0); }

 private:
  std::mt19937_64 words_;
};

inline EvalRecord passed_record(const std::string& task, const std::string& path) {
  EvalRecord record;
  record.id = "0123456789abcdef";
  record.created_utc = "2025-01-02T03:04:05Z";
  record.task = task;
  record.suite = "standard";
  record.salt = "00000000000000aa";
  record.candidate.path = path;
  record.candidate.task = task;
  record.candidate.sha256 = std::string(64, 'a');
  record.environment.stepbench_version = "0.1.0";
  record.environment.device = "NVIDIA H200";
  record.environment.compiler = "NVRTC 13.0";
  record.environment.driver = "580.65";
  record.environment.gpu_uuid = "GPU-1";
  record.verdict = Verdict::kPassed;
  record.cases = {{"edges", "[1]/gaussian/t1", Verdict::kPassed, 1, 0.25, "param", 1}};
  record.resources = {{"step", 32, 0, 0, 0, 0, 0}};
  record.modelled_bytes_per_param = 28;
  record.ideal_bytes_per_param = 28;
  return record;
}

/// 101 pairs of a baseline of 100 us whose ratios lie within `spread_ratio` of `speedup`, evenly, the median exact.
inline TimingReport timed_list(const std::string& list, double speedup, bool hidden = false,
                               double spread_ratio = 0.01) {
  TimingReport report;
  report.list = list;
  report.hidden = hidden;
  report.tensors = 1;
  report.params = 1'000'000;
  report.baseline = "fused.cu";
  report.baseline_sha256 = std::string(64, 'b');
  report.method = "events, L2 read";
  for (int i = 0; i < 101; ++i) {
    const int k = (i * 37) % 101 - 50;  // -50 .. 50, shuffled
    TimingPair pair;
    pair.baseline_ns = 100'000 * (1 + 1e-4 * ((i * 13) % 101 - 50) / 50.0);
    pair.candidate_ns = pair.baseline_ns / speedup * std::exp(-spread_ratio * k / 50.0);
    pair.candidate_first = i % 2 == 1;
    report.pairs.push_back(pair);
  }
  return report;
}

/// The figures that an evaluation stores beside the samples.
inline void filled_in(TimingReport& report) {
  const std::vector<TimedPair> pairs = used_pairs(report);
  const Speedup speedup = speedup_of(pairs).value();
  std::vector<double> baseline, candidate;
  for (const TimedPair& pair : pairs) {
    baseline.push_back(pair.baseline_ns);
    candidate.push_back(pair.candidate_ns);
  }
  report.speedup = speedup.speedup;
  report.speedup_low = speedup.low;
  report.speedup_high = speedup.high;
  report.word = speedup.word;
  report.baseline_ns = median_of(baseline);
  report.candidate_ns = median_of(candidate);
  report.floor_ratio = report.floor_ns > 0 ? report.floor_ns / report.candidate_ns : 0;
}

}  // namespace stepbench::test
