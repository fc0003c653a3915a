// Records of a made-up but consistent board: a few authors and agents, two GPUs and the VM, passes, failures of several
// kinds, drift curves and raw samples whose stored figures are those that scoring/ computes from them. The numbers are
// invented; they look like those of a bandwidth-bound kernel so that pages and charts are tried on what they are for.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "harness/model.h"
#include "harness/stages.h"
#include "scoring/score.h"

namespace stepbench::sample {

/// In [0, 1), the same with every standard library.
inline double uniform(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

inline std::string source_text(const std::string& task, const std::string& idea, int vec) {
  return fmt::format(R"cu(/*stepbench
{{ "task": "{0}", "note": "{1}",
  "defines": {{"VEC": {2}, "BLOCK": 256}},
  "launches": [{{"for": "tensor", "kernel": "step", "grid": "ceil_div(n, VEC*BLOCK)", "block": "BLOCK",
                "args": ["param", "grad", "exp_avg", "exp_avg_sq", "n", "hyper"]}}] }}
*/
#include <stepbench.cuh>

// {1}
extern "C" __global__ void step(param_t* param, const grad_t* grad, exp_avg_t* exp_avg, exp_avg_sq_t* exp_avg_sq,
                                int64_t n, const Hyper* hyper) {{
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * VEC;
  for (int64_t i = first; i < first + VEC && i < n; ++i) {{
    const float g = grad[i] / hyper->grad_scale;
    const float m = hyper->beta1 * exp_avg[i] + (1.0f - hyper->beta1) * g;
    const float v = hyper->beta2 * exp_avg_sq[i] + (1.0f - hyper->beta2) * g * g;
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
    const float p = param[i] * (1.0f - hyper->lr * hyper->weight_decay);
    param[i] = p - hyper->step_size * m / (sqrtf(v) / hyper->bias_correction2_sqrt + hyper->eps);
  }}
}}
)cu",
                     task, idea, vec);
}

struct Gpu {
  const char *name, *uuid;
  double copy_bytes_per_s, launch_ns;
};
inline constexpr Gpu kGpus[] = {{"NVIDIA H200", "GPU-11111111-2222-3333-4444-555555555555", 4.05e12, 1900},
                                {"NVIDIA L40S", "GPU-66666666-7777-8888-9999-000000000000", 0.72e12, 2300}};

struct List {
  const char* name;
  int64_t tensors, params;
  bool hidden;
};
inline constexpr List kLists[] = {{"small_net", 12, 235'146, false},
                                  {"gpt2_124m", 148, 124'439'808, false},
                                  {"llama_1b", 146, 1'235'814'400, false},
                                  {"gpt2_124m, varied", 148, 117'604'224, true}};

inline TimingReport timing(std::mt19937_64& random, const Gpu& gpu, const List& list, double bytes_per_param,
                           double speedup, const std::string& baseline) {
  TimingReport report;
  report.list = list.name;
  report.hidden = list.hidden;
  report.tensors = list.tensors;
  report.params = list.params;
  report.baseline = baseline;
  report.baseline_sha256 = std::string(64, 'b');
  report.method = "cuda events, cold L2, ABBA pairs";
  report.floor_ns = static_cast<double>(list.params) * bytes_per_param / gpu.copy_bytes_per_s * 1e9;
  report.gate_ns = 0.9 * report.floor_ns;
  const double baseline_ns = std::hypot(report.floor_ns * 1.32, 4 * gpu.launch_ns);
  const double candidate_ns = std::hypot(report.floor_ns * 1.32 / speedup, 4 * gpu.launch_ns / speedup);
  for (int i = 0; i < 40; ++i) {
    TimingPair pair;
    const double common = 1 + 0.02 * uniform(random);
    pair.baseline_ns = baseline_ns * common * (1 + 0.06 * uniform(random));
    pair.candidate_ns = candidate_ns * common * (1 + 0.06 * uniform(random));
    pair.baseline_counter_ns = pair.baseline_ns + 2 * gpu.launch_ns;
    pair.candidate_counter_ns = pair.candidate_ns + 2 * gpu.launch_ns;
    pair.baseline_sm_mhz = pair.candidate_sm_mhz = 1980;
    pair.candidate_first = i % 4 == 1 || i % 4 == 2;
    if (i == 7) {
      pair.dropped = "SM clocks differ by more than 1 %";
      pair.candidate_sm_mhz = 1755;
    }
    report.pairs.push_back(pair);
  }
  EvalRecord one;  // the stored figures are those that the samples give
  one.verdict = Verdict::kPassed;
  one.timing = {report};
  const ListScore score = score_of(one).lists[0];
  report.speedup = score.speedup->speedup;
  report.speedup_low = score.speedup->low;
  report.speedup_high = score.speedup->high;
  report.word = score.speedup->word;
  report.baseline_ns = *score.baseline_ns;
  report.candidate_ns = *score.candidate_ns;
  report.floor_ratio = *score.floor_ratio;
  report.verified_steps = 24;
  report.verified_elements = 24 * list.params * 3;
  return report;
}

struct Maker {
  const char *author, *model, *file, *task, *idea;
  double speedup;
  int gpu;        ///< index in kGpus; -1: vm
  int day, hour;  ///< in June 2026
  double drift;   ///< error / limit at the last checkpoint
  int32_t registers;
};

// clang-format off
inline constexpr Maker kMakers[] = {
    {"ana", "", "ana_vec4.cu", "adamw", "four elements per thread", 1.06, 0, 2, 9, 0.012, 34},
    {"ana", "", "ana_vec8.cu", "adamw", "eight elements per thread", 1.165, 0, 9, 14, 0.012, 48},
    {"bruno", "", "grid_stride.cu", "adamw", "one wave of blocks, grid stride", 1.10, 0, 3, 11, 0.011, 32},
    {"opt-agent", "model-l", "round_1.cu", "adamw", "first try", 0.84, 0, 4, 8, 0.013, 40},
    {"opt-agent", "model-l", "round_4.cu", "adamw", "chunks over all tensors", 1.162, 0, 4, 12, 0.014, 56},
    {"opt-agent", "model-s", "round_3.cu", "adamw", "streaming stores", 0.999, 0, 5, 10, 0.35, 42},
    {"chen", "", "approx_sqrt.cu", "adamw", "approximate square root", 1.121, 0, 12, 16, 0.62, 30},
    {"dora", "", "packed.cu", "adamw", "two tensors per block", 1.02, 0, 13, 9, 0.010, 44},
    {"ana", "", "ana_vec8.cu", "adamw", "eight elements per thread", 1.09, 1, 9, 15, 0.012, 48},
    {"bruno", "", "grid_stride.cu", "adamw", "one wave of blocks, grid stride", 1.01, 1, 3, 12, 0.011, 32},
    {"ana", "", "ana_sgd.cu", "sgd_momentum", "four elements per thread", 1.08, 0, 6, 9, 0.02, 22},
    {"bruno", "", "sgd_stride.cu", "sgd_momentum", "grid stride", 1.081, 0, 7, 10, 0.02, 20},
    {"opt-agent", "model-l", "sgd_round_2.cu", "sgd_momentum", "chunks over all tensors", 1.19, 0, 8, 18, 0.04, 38},
    {"emil", "", "first_kernel.cu", "adamw", "one element per thread", 0, -1, 10, 10, 0.011, 28},
    {"emil", "", "lion_first.cu", "lion", "one element per thread", 0, -1, 11, 10, 0.015, 26},
};
// clang-format on

inline EvalRecord start_record(const std::string& key, const std::string& task, const std::string& file,
                               const std::string& idea, int day, int hour) {
  EvalRecord record;
  record.id = sha256_hex("board sample " + key).substr(0, 16);
  record.created_utc = fmt::format("2026-06-{:02}T{:02}:17:45Z", day, hour);
  record.task = task;
  record.suite = "standard";
  record.salt = sha256_hex("salt " + key).substr(0, 16);
  record.candidate.path = "kernels/" + file;
  record.candidate.task = task;
  record.candidate.note = idea;
  record.candidate.source = source_text(task, fmt::format("{}: {}", file, idea), 4);
  record.candidate.sha256 = sha256_hex(record.candidate.source);
  PlanLaunch launch;
  launch.each = LaunchFor::kTensor;
  launch.pointer = "/launches/0";
  launch.kernel = "step";
  launch.grid[0] = "ceil_div(n, VEC*BLOCK)";
  launch.block[0] = "BLOCK";
  launch.args = {"param", "grad", "exp_avg", "exp_avg_sq", "n", "hyper"};
  record.candidate.plan.defines = {{"VEC", "4"}, {"BLOCK", "256"}};
  record.candidate.plan.launches = {launch};
  record.environment.stepbench_version = "0.1.0";
  record.environment.device = "vm";
  record.environment.device_detail = "PTX virtual machine, sm_90a, x86-64-v3, race check";
  record.environment.compiler = "NVRTC 13.0";
  record.environment.host = "x86-64";
  record.environment.os = "Linux";
  record.ideal_bytes_per_param = task == "adamw" ? 28 : 20;
  record.wall_ms = 41'520;
  record.stage_ms = {{"compile", 412}, {"drift", 30'250}, {"edges", 890}, {"families", 7600}};
  return record;
}

inline void add_checks(EvalRecord& record, std::mt19937_64& random) {
  for (const char* check : {"edges", "families", "determinism", "drift"})
    for (const char* name : {"n1/gaussian/t2", "n257/tiny/t100", "gpt2_124m_div32/mixed/t1000", "ragged/zipf/t5"})
      record.cases.push_back(
          {check, name, Verdict::kPassed, 65'536, 0.05 + 0.4 * uniform(random), "param", 3 + 20 * uniform(random)});
}

inline void add_drift(EvalRecord& record, std::mt19937_64& random, double last) {
  for (const char* name : {"small_net/gaussian/t1-1000", "small_net/zipf/t1-1000"}) {
    int index = 0;
    for (const char* buffer : {"param", "exp_avg", "exp_avg_sq"}) {
      DriftCurve curve;
      curve.case_name = name;
      curve.buffer = buffer;
      curve.limit_ratio = index == 1 ? 1e-5 : 2e-4;
      curve.growth_exponent = 0.45 + 0.1 * uniform(random);
      const double scale = index == 0 ? 1 : 0.3 + 0.4 * uniform(random);
      for (const int64_t step : {3, 17, 68, 141, 333, 520, 804, 1000}) {
        const double ratio = last * scale * std::pow(static_cast<double>(step) / 1000, curve.growth_exponent);
        curve.points.push_back({step, ratio * curve.limit_ratio,
                                ratio * curve.limit_ratio * 1e-2 * (uniform(random) - 0.5), 2 * uniform(random)});
      }
      record.drift.push_back(std::move(curve));
      ++index;
    }
  }
}

inline void add_traffic(EvalRecord& record, int32_t registers) {
  record.resources = {{"step", registers, 0, 0, 0, 0, 568}};
  record.traffic_params = 65'536;
  record.modelled_bytes_per_param = record.ideal_bytes_per_param * 1.04;
  record.counters = {1, 21'504, 688'128, 1'048'576, 786'432, 32'768, 24'576, 0, 2, 0, 0, 0};
}

inline void put_on_gpu(EvalRecord& record, const Gpu& gpu) {
  record.environment.device = gpu.name;
  record.environment.device_detail = "sm_90a, 141 GB";
  record.environment.gpu_uuid = gpu.uuid;
  record.environment.driver = "580.65.06";
  record.environment.sm_clock_mhz = 1980;
  record.environment.power_limit_w = 700;
  record.environment.temperature_c = 46;
  record.environment.other_processes = 0;
  record.calibration = Calibration{
      gpu.uuid, "2026-06-01T08:00:00Z", gpu.copy_bytes_per_s * 1.06, gpu.copy_bytes_per_s, gpu.launch_ns, 50u << 20};
}

inline EvalRecord passed_record(const Maker& maker) {
  const std::string key = fmt::format("{} {} {} {}", maker.author, maker.model, maker.file, maker.gpu);
  EvalRecord record = start_record(key, maker.task, maker.file, maker.idea, maker.day, maker.hour);
  std::mt19937_64 random(std::stoull(record.id, nullptr, 16));
  record.verdict = Verdict::kPassed;
  Submission submission;
  submission.name = maker.author;
  submission.model = maker.model;
  if (*maker.model) {
    submission.round = maker.file[maker.file[0] == 's' ? 10 : 6] - '0';
    submission.prompt_tokens = 18'400;
    submission.completion_tokens = 6210;
    submission.cost_usd = 0.1432;
  }
  record.submission = submission;
  add_checks(record, random);
  add_drift(record, random, maker.drift);
  add_traffic(record, maker.registers);
  if (maker.gpu < 0) return record;
  const Gpu& gpu = kGpus[maker.gpu];
  put_on_gpu(record, gpu);
  for (const List& list : kLists) {
    const double kept = list.hidden ? 0.97 : list.params < 1'000'000 ? 0.995 : 1;
    record.timing.push_back(timing(random, gpu, list, record.ideal_bytes_per_param, maker.speedup * kept,
                                   list.params < 1'000'000 ? "float4.cu" : "multi_tensor.cu"));
  }
  return record;
}

inline EvalRecord failed_record(const std::string& file, const std::string& author, Failure failure, int day) {
  EvalRecord record = start_record("failed " + file, "adamw", file, "a kernel that fails", day, 13);
  std::mt19937_64 random(std::stoull(record.id, nullptr, 16));
  record.verdict = failure.verdict;
  if (!author.empty()) record.submission = Submission{author, "", "", 0, 0, 0, 0};
  if (!failure.case_name.empty()) {
    add_checks(record, random);
    record.cases.resize(6);
    record.cases.push_back(
        {failure.check, failure.case_name, failure.verdict, 771, failure.error_ratio, failure.buffer, 4});
    record.replay_command =
        fmt::format("stepbench eval kernels/{} --task adamw --device vm --suite standard --salt {} --only {}/{}", file,
                    record.salt, failure.check, failure.case_name);
  } else {
    record.replay_command =
        fmt::format("stepbench eval kernels/{} --task adamw --device vm --suite standard --salt {}", file, record.salt);
  }
  record.failure = std::move(failure);
  return record;
}

/// The whole board.
inline std::vector<EvalRecord> records() {
  std::vector<EvalRecord> all;
  for (const Maker& maker : kMakers) all.push_back(passed_record(maker));

  Failure wrong{Verdict::kWrongResult,
                "param differs at tensor 0 element 3: expected -0.0340412698, got -0.0340412445",
                "",
                "families",
                "n257/tiny/t100",
                0x9e3779b97f4a7c15,
                100,
                "param",
                0,
                3,
                -0.0340412698,
                -0.0340412445,
                9.22,
                "failing buffers, worst element of each: param (9.22 x the limit)\nsmallest failing shape found: "
                "one tensor of 1 element"};
  all.push_back(failed_record("eps_inside.cu", "bruno", wrong, 5));

  Failure bounds{
      Verdict::kOutOfBounds,
      "load of 4 bytes at grad[0]+1028, 0 bytes past its end (1028 bytes)",
      "tail_forgotten.cu:14",
      "edges",
      "n257/gaussian/t2",
      0x1234,
      2,
      "grad",
      0,
      -1,
      0,
      0,
      0,
      "kernel step, block (0, 0, 0), thread (64, 0, 0), PTX line 65\nlaunch /launches/0 of the plan, tensor 0"};
  all.push_back(failed_record("tail_forgotten.cu", "emil", bounds, 6));

  Failure drift{Verdict::kDrift,
                "exp_avg_sq left its band at step 680: 1.31 x the limit",
                "",
                "drift",
                "small_net/gaussian/t1-1000",
                0xabcdef,
                680,
                "exp_avg_sq",
                2,
                4711,
                3.1e-7,
                3.4e-7,
                1.31,
                "growth exponent 1.02: a systematic fault, not rounding"};
  EvalRecord drifting = failed_record("bf16_moment.cu", "opt-agent", drift, 7);
  std::mt19937_64 random(7);
  add_drift(drifting, random, 1.31);
  all.push_back(std::move(drifting));

  Failure compile{
      Verdict::kCompileError,
      "typo.cu:15: identifier \"hyperr\" is undefined",
      "typo.cu:15",
      "compile",
      "",
      0,
      -1,
      "",
      -1,
      -1,
      0,
      0,
      0,
      "typo.cu(15): error: identifier \"hyperr\" is undefined\n      const float g = grad[i] / hyperr->grad_scale;\n"
      "                                ^\n\n1 error detected in the compilation of \"typo.cu\".\n"};
  EvalRecord typo = failed_record("typo.cu", "", compile, 8);
  typo.compile_log = typo.failure->detail;
  all.push_back(std::move(typo));

  Failure fast{Verdict::kImpossibleTime,
               "gpt2_124m: a median of 402 µs is below the gate of 774 µs",
               "",
               "timing",
               "",
               0,
               -1,
               "",
               -1,
               -1,
               0,
               0,
               0,
               ""};
  EvalRecord impossible = failed_record("too_good.cu", "chen", fast, 14);
  put_on_gpu(impossible, kGpus[0]);
  all.push_back(std::move(impossible));

  Failure unsupported{Verdict::kUnsupported,
                      "the VM does not implement cp.async.bulk.tensor",
                      "tma.cu:12",
                      "load",
                      "",
                      0,
                      -1,
                      "",
                      -1,
                      -1,
                      0,
                      0,
                      0,
                      ""};
  all.push_back(failed_record("tma.cu", "dora", unsupported, 15));
  return all;
}

// ---------------------------------------------------------------------------------------------- hostile records

inline const std::string kTrick =
    "\"'><script>alert(1)</script><img src=x "
    "onerror=alert(2)>{{body}}{{{body}}}</title></textarea>&lt;b&gt;\u202E\u2066"
    "\u200B\x01\x1b[2J\r\njavascript:alert(3)\xFF\xC3]]>--><!--`=HYPERLINK(1)";

/// The same board with tricks in every text of its records, and lines of ten thousand characters.
inline EvalRecord hostile(EvalRecord record, int number) {
  const std::string trick = kTrick + fmt::format(" {}", number);
  const std::string longer = trick + std::string(10'000, 'W') + trick;
  record.task = trick;
  record.suite = trick;
  record.salt = trick;
  record.created_utc = number % 2 ? trick : record.created_utc;
  record.candidate.path = "kernels/" + longer;
  record.candidate.note = longer;
  record.candidate.source = longer + "\n\n" + trick + "\n\u202E// }\n" + std::string(10'000, '(');
  record.candidate.plan_text = longer;
  record.candidate.sha256 = trick + record.id;
  record.compile_log = longer;
  record.notes = {trick, longer};
  record.replay_command = longer;
  for (std::string* text : {&record.environment.device, &record.environment.device_detail, &record.environment.compiler,
                            &record.environment.host, &record.environment.os, &record.environment.driver,
                            &record.environment.gpu_uuid, &record.environment.stepbench_version})
    *text = trick;
  if (record.submission) {
    record.submission->name = longer;
    record.submission->model = trick;
    record.submission->note = trick;
  }
  if (record.failure) {
    for (std::string* text : {&record.failure->message, &record.failure->place, &record.failure->check,
                              &record.failure->case_name, &record.failure->buffer, &record.failure->detail})
      *text = longer;
  }
  for (CaseReport& report : record.cases) report.check = report.case_name = report.worst_buffer = trick;
  for (DriftCurve& curve : record.drift) {
    curve.case_name = curve.case_name + trick;
    curve.buffer = curve.buffer + trick;
  }
  for (KernelResources& kernel : record.resources) kernel.entry = longer;
  for (TimingReport& report : record.timing) {
    report.list = report.list + trick;
    report.baseline = report.method = trick;
    for (TimingPair& pair : report.pairs)
      if (!pair.dropped.empty()) pair.dropped = trick;
  }
  if (record.calibration) record.calibration->measured_utc = trick;
  record.stage_ms = {{trick, 1}};
  return record;
}

}  // namespace stepbench::sample
