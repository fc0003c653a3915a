// Records for tests and for measurements of scale: small, consistent in themselves, and the same for the same number on
// every machine. What they say of tasks and speeds is made up.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "harness/model.h"
#include "harness/stages.h"

namespace stepbench {

inline constexpr const char* kGeneratedTasks[] = {"adamw", "sgd_momentum", "lion", "adafactor", "muon", "shampoo"};
inline constexpr const char* kGeneratedNames[] = {"ada", "bo", "cy", "dee", "eli", "fay", "gus", "hal", "ivy", "jo"};
inline constexpr const char* kGeneratedModels[] = {"", "model-a", "model-b", "model-c"};
inline constexpr int kGeneratedPairs = 9;

namespace generated {

/// A number in [0, 1) from the generator's bits alone: distributions of the standard library differ between libraries.
inline double uniform(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

inline uint64_t below(std::mt19937_64& random, uint64_t limit) { return random() % limit; }

template <size_t N>
const char* pick(std::mt19937_64& random, const char* const (&from)[N]) {
  return from[below(random, N)];
}

inline std::string minutes_after_new_year(int64_t minutes) {
  // Months of 28 days keep the arithmetic plain; the texts still sort by time.
  const int64_t days = minutes / 1440, months = days / 28;
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:00Z", 2026 + months / 12, months % 12 + 1, days % 28 + 1,
                     minutes / 60 % 24, minutes % 60);
}

/// Medians and speed from the pairs, as a reader of the record would compute them. The interval is that of the order
/// statistics 2 and 8 of 9, which holds the median with probability 1 - 2 * (1 + 9) / 2^9 = 96 %.
inline TimingReport timing(std::mt19937_64& random, const std::string& list, double speedup) {
  TimingReport report;
  report.list = list;
  report.tensors = 148;
  report.params = 124'000'000;
  report.baseline = "float4.cu";
  report.baseline_sha256 = std::string(64, 'b');
  report.method = "generated";
  std::vector<double> baseline, candidate, logs;
  for (int i = 0; i < kGeneratedPairs; ++i) {
    TimingPair pair;
    pair.baseline_ns = 1e6 * (1 + 0.02 * uniform(random));
    pair.candidate_ns = pair.baseline_ns / speedup * (1 + 0.02 * (uniform(random) - 0.5));
    pair.baseline_counter_ns = pair.baseline_ns + 4000;
    pair.candidate_counter_ns = pair.candidate_ns + 4000;
    pair.baseline_sm_mhz = pair.candidate_sm_mhz = 1980;
    pair.candidate_first = i % 2 == 1;
    baseline.push_back(pair.baseline_ns);
    candidate.push_back(pair.candidate_ns);
    logs.push_back(std::log(pair.baseline_ns / pair.candidate_ns));
    report.pairs.push_back(pair);
  }
  for (std::vector<double>* values : {&baseline, &candidate, &logs}) std::sort(values->begin(), values->end());
  report.baseline_ns = baseline[kGeneratedPairs / 2];
  report.candidate_ns = candidate[kGeneratedPairs / 2];
  report.speedup = std::exp(logs[kGeneratedPairs / 2]);
  report.speedup_low = std::exp(logs[1]);
  report.speedup_high = std::exp(logs[kGeneratedPairs - 2]);
  report.word = report.speedup_low > 1    ? SpeedWord::kFaster
                : report.speedup_high < 1 ? SpeedWord::kSlower
                                          : SpeedWord::kUndecided;
  report.floor_ns = 0.8e6;
  report.gate_ns = 0.6e6;
  report.floor_ratio = report.floor_ns / report.candidate_ns;
  report.verified_steps = 40;
  report.verified_elements = 40 * report.params;
  return report;
}

}  // namespace generated

/// Record number `index` (from 0) of the series `seed`. About 6 in 10 passed; about half were timed on one of two GPUs;
/// created one minute after the one before.
inline EvalRecord generated_record(uint64_t seed, int64_t index) {
  std::mt19937_64 random(seed * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(index));
  EvalRecord record;
  record.id = sha256_hex(fmt::format("generated {} {}", seed, index)).substr(0, 16);
  record.created_utc = generated::minutes_after_new_year(index);
  record.task = generated::pick(random, kGeneratedTasks);
  record.suite = generated::below(random, 4) == 0 ? "full" : "standard";
  record.salt = fmt::format("{:016x}", random());

  Submission submission;
  submission.name = generated::pick(random, kGeneratedNames);
  submission.model = generated::pick(random, kGeneratedModels);
  if (!submission.model.empty()) {
    submission.round = static_cast<int32_t>(1 + generated::below(random, 8));
    submission.prompt_tokens = static_cast<int64_t>(2000 + generated::below(random, 20'000));
    submission.completion_tokens = static_cast<int64_t>(500 + generated::below(random, 8000));
    submission.cost_usd = static_cast<double>(submission.completion_tokens) * 1e-5;
  }
  record.submission = submission;

  Candidate& candidate = record.candidate;
  candidate.path = fmt::format("{}/{}_{}.cu", submission.name, record.task, index);
  candidate.task = record.task;
  candidate.note = "generated";
  candidate.source = fmt::format("// number {}\nextern \"C\" __global__ void step(float* param, long n) {{\n", index);
  for (int line = 0; line < 12; ++line) candidate.source += fmt::format("  // {:016x} {:016x}\n", random(), random());
  candidate.source += "}\n";
  candidate.sha256 = sha256_hex(candidate.source);
  PlanLaunch launch;
  launch.each = LaunchFor::kTensor;
  launch.pointer = "/launches/0";
  launch.kernel = "step";
  launch.grid[0] = "ceil_div(n, 256)";
  launch.block[0] = "256";
  launch.args = {"param", "n"};
  candidate.plan.launches = {launch};

  const bool on_gpu = generated::below(random, 6) != 0;
  record.environment.stepbench_version = STEPBENCH_VERSION;
  record.environment.compiler = "NVRTC 13.0";
  record.environment.host = "a processor";
  record.environment.os = "Linux 6.1 x86_64";
  record.environment.device = on_gpu ? "NVIDIA H200" : "vm";
  if (on_gpu) {
    record.environment.gpu_uuid = generated::below(random, 2) == 0 ? "GPU-0000" : "GPU-0001";
    record.environment.driver = "580.65";
    record.environment.sm_clock_mhz = 1980;
    record.environment.power_limit_w = 700;
    record.environment.temperature_c = 40 + static_cast<double>(generated::below(random, 20));
    record.environment.other_processes = 0;
  }
  for (const char* check : {"edges", "families", "determinism", "drift"})
    for (int i = 0; i < 3; ++i)
      record.cases.push_back({check, fmt::format("list{}/gaussian/t{}", i, 10 * i + 1), Verdict::kPassed, 65536,
                              generated::uniform(random), "param", 10 * generated::uniform(random)});
  record.resources = {{"step", static_cast<int32_t>(16 + generated::below(random, 48)), 0, 0, 0, 0, 568}};
  record.counters.launches = 1;
  record.ideal_bytes_per_param = 28;
  record.wall_ms = 500 + 1000 * generated::uniform(random);
  record.stage_ms = {{"compile", 300}, {"families", 100}};

  record.verdict = generated::below(random, 10) < 6 ? Verdict::kPassed : Verdict::kWrongResult;
  if (record.verdict == Verdict::kPassed) {
    record.traffic_params = 65536;
    record.modelled_bytes_per_param = 28 + 10 * generated::uniform(random);
    const double speedup = std::exp(0.6 * (generated::uniform(random) - 0.5));
    if (on_gpu) {
      record.timing.push_back(generated::timing(random, "gpt2_124m", speedup));
      record.timing.push_back(generated::timing(random, "llama_1b", speedup * 1.05));
      record.timing.back().hidden = true;
      record.calibration =
          Calibration{record.environment.gpu_uuid, "2026-01-01T00:00:00Z", 4.4e12, 4.2e12, 1800, 60u << 20};
    }
    return record;
  }
  record.cases.back().verdict = record.verdict;
  record.cases.back().worst_error_ratio = 1 + 100 * generated::uniform(random);
  Failure failure;
  failure.verdict = record.verdict;
  failure.message = "param differs at tensor 0 element 5";
  failure.check = record.cases.back().check;
  failure.case_name = record.cases.back().case_name;
  failure.seed = random();
  failure.step = 20;
  failure.buffer = "param";
  failure.tensor = 0;
  failure.element = 5;
  failure.expected = 1;
  failure.got = 1 + generated::uniform(random);
  failure.error_ratio = record.cases.back().worst_error_ratio;
  record.failure = failure;
  record.replay_command = fmt::format("stepbench replay {}", record.id);
  return record;
}

}  // namespace stepbench
