// AdamW candidates as host functions on FakeDevice, and the evaluation of one of them: the checks run as they do on a
// real device, without compiler and VM.
#pragma once

#include <atomic>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/checks.h"
#include "tests/fakes.h"

namespace stepbench::testing {

/// What one launch of the default AdamW kernel sees.
struct AdamwLaunch {
  float* param;
  float* grad;
  float* exp_avg;
  float* exp_avg_sq;
  int64_t n;
  int64_t launch;  ///< 1-based count of launches on this device
  const TaskSpec* task;
  const std::byte* hyper;

  float f(const char* name) const {
    float value;
    std::memcpy(&value, hyper + offset(name), sizeof(value));
    return value;
  }
  int32_t i(const char* name) const {
    int32_t value;
    std::memcpy(&value, hyper + offset(name), sizeof(value));
    return value;
  }
  size_t offset(const char* name) const {
    for (size_t k = 0; k < task->hyper.size(); ++k) {
      if (task->hyper[k].name == name) return 4 * k;
    }
    SB_ASSERT(false);
    return 0;
  }
};
using AdamwBody = std::function<void(const AdamwLaunch&)>;

/// The update of one element in fp32; hooks of the wrong kernels are fields.
struct Fp32Adamw {
  float lr, beta1, beta2, eps, weight_decay, grad_scale;
  double bias1, bias2;
  bool eps_inside = false;

  explicit Fp32Adamw(const AdamwLaunch& launch)
      : lr(launch.f("lr")),
        beta1(launch.f("beta1")),
        beta2(launch.f("beta2")),
        eps(launch.f("eps")),
        weight_decay(launch.f("weight_decay")),
        grad_scale(launch.f("grad_scale")) {
    const double t = launch.i("step");
    bias1 = 1 - std::pow(static_cast<double>(beta1), t);
    bias2 = 1 - std::pow(static_cast<double>(beta2), t);
  }
  /// In the order of the formula.
  void update(const AdamwLaunch& a, int64_t k) const {
    const float g = a.grad[k] / grad_scale;
    const float m = beta1 * a.exp_avg[k] + (1 - beta1) * g;
    const float v = beta2 * a.exp_avg_sq[k] + (1 - beta2) * g * g;
    const float corrected = v / static_cast<float>(bias2);
    const float root = eps_inside ? std::sqrt(corrected + eps) : std::sqrt(corrected) + eps;
    const float u = m / static_cast<float>(bias1) / root + weight_decay * a.param[k];
    a.param[k] -= lr * u;
    a.exp_avg[k] = m;
    a.exp_avg_sq[k] = v;
  }
  /// Another order: averages by their difference, root of the bias correction taken apart.
  void update_other_order(const AdamwLaunch& a, int64_t k) const {
    const float g = a.grad[k] / grad_scale;
    const float p = a.param[k];
    const float m = std::fma(1 - beta1, g - a.exp_avg[k], a.exp_avg[k]);
    const float v = std::fma(1 - beta2, g * g - a.exp_avg_sq[k], a.exp_avg_sq[k]);
    const float root = std::sqrt(v) / static_cast<float>(std::sqrt(bias2)) + eps;
    const float decayed = std::fma(-lr * weight_decay, p, p);
    a.param[k] = decayed - static_cast<float>(static_cast<double>(lr) / bias1) * (m / root);
    a.exp_avg[k] = m;
    a.exp_avg_sq[k] = v;
  }
};

inline bool skipped(const AdamwLaunch& launch) { return launch.i("found_inf") != 0; }

/// Right from the first element to `last`.
inline void right_until(const AdamwLaunch& launch, int64_t last) {
  if (skipped(launch)) return;
  const Fp32Adamw adamw(launch);
  for (int64_t k = 0; k < last; ++k) adamw.update(launch, k);
}
inline void right(const AdamwLaunch& launch) { right_until(launch, launch.n); }
inline void right_other_order(const AdamwLaunch& launch) {
  if (skipped(launch)) return;
  const Fp32Adamw adamw(launch);
  for (int64_t k = 0; k < launch.n; ++k) adamw.update_other_order(launch, k);
}

inline TaskSpec adamw_task() {
  Result<TaskSpec> task = load_task("adamw");
  if (!task.ok()) FAIL(to_text(task.error()));
  return task.value();
}

/// adamw with a suite of a few small cases, so that a table of kernels takes no time.
inline TaskSpec small_adamw_task() {
  TaskSpec task = adamw_task();
  const auto group = [](std::vector<std::string> lists, std::vector<std::string> families,
                        std::vector<int64_t> first_steps, int32_t steps) {
    CaseGroup made;
    made.lists = std::move(lists);
    made.families = std::move(families);
    made.first_steps = std::move(first_steps);
    made.steps = steps;
    return made;
  };
  Suite suite;
  suite.edges = {group({"[0]", "[1]", "[7]", "[33]", "[7,0,5]"}, {"gaussian"}, {1, 5, 1000}, 2)};
  suite.families = {group({"[1500]", "[64,3,257]"}, {"gaussian", "tiny", "huge", "zero"}, {1, 10, 100000}, 3)};
  suite.determinism = {group({"[300,7]"}, {"gaussian"}, {3}, 3)};
  suite.drift = {DriftSpec{"[96,5]", {"gaussian"}, 1000, 8}};
  task.suites = {{"smoke", suite}};
  return task;
}

inline Candidate adamw_candidate() {
  const std::string source =
      "/*stepbench\n"
      "{\"task\": \"adamw\", \"launches\": [{\"for\": \"tensor\", \"kernel\": \"adamw_step\", \"grid\": \"1\",\n"
      " \"block\": \"32\", \"args\": [\"param\", \"grad\", \"exp_avg\", \"exp_avg_sq\", \"n\", \"hyper\"]}]}\n"
      "*/\n"
      "extern \"C\" __global__ void adamw_step() {}\n";
  Result<Judged<Candidate>> candidate = parse_candidate("kernel.cu", source, "", false, "");
  if (!candidate.ok()) FAIL(to_text(candidate.error()));
  if (!candidate.value().ok()) FAIL(candidate.value().failure->message);
  return *candidate.value().value;
}

inline CompiledModule fake_module() {
  CompiledModule module;
  module.compiler = "none";
  module.entries = {{"adamw_step", "adamw_step"}};
  return module;
}

/// Devices with this kernel. `task` must outlive them.
inline OpenDevice fake_devices(const TaskSpec& task, AdamwBody body) {
  return [&task, body = std::move(body)]() -> Result<std::unique_ptr<Device>> {
    auto device = std::make_unique<FakeDevice>();
    device->record_launches = false;
    device->counters_per_launch.global_load_sectors = 4 * 8192;   // 16 bytes of 65,536 elements
    device->counters_per_launch.global_store_sectors = 3 * 8192;  // 12 bytes
    auto launches = std::make_shared<int64_t>(0);
    device->add_kernel(
        "adamw_step", {"ptr", "ptr", "ptr", "ptr", "i64", "ptr"},
        [&task, body, launches](const LaunchSpec& spec, FakeDevice& fake) -> std::optional<Fault> {
          const auto floats = [&](size_t i) { return FakeDevice::pointer<float>(fake.parameter<uint64_t>(spec, i)); };
          ++*launches;
          body(AdamwLaunch{floats(0), floats(1), floats(2), floats(3), fake.parameter<int64_t>(spec, 4), *launches,
                           &task, FakeDevice::pointer<std::byte>(fake.parameter<uint64_t>(spec, 5))});
          return std::nullopt;
        });
    return std::unique_ptr<Device>(std::move(device));
  };
}

inline EvalRecord evaluate_fake(const TaskSpec& task, const AdamwBody& body, const EvalOptions& options = {}) {
  Result<EvalRecord> record =
      evaluate_compiled(adamw_candidate(), task, fake_module(), fake_devices(task, body), options, nullptr);
  if (!record.ok()) FAIL(to_text(record.error()));
  return record.value();
}

/// Everything in a record that must not depend on the clock, as text.
std::string inline timeless(const EvalRecord& record) {
  std::string text = std::string(to_text(record.verdict)) + "\n";
  const auto bits = [](double value) { return std::to_string(std::bit_cast<uint64_t>(value)) + " "; };
  if (record.failure) {
    const Failure& f = *record.failure;
    text += f.message + "|" + f.check + "|" + f.case_name + "|" + std::to_string(f.seed) + "|" +
            std::to_string(f.step) + "|" + f.buffer + "|" + std::to_string(f.tensor) + "|" + std::to_string(f.element) +
            "|" + bits(f.expected) + bits(f.got) + bits(f.error_ratio) + f.detail + "\n";
  }
  for (const CaseReport& c : record.cases) {
    text += c.check + " " + c.case_name + " " + std::string(to_text(c.verdict)) + " " +
            std::to_string(c.elements_checked) + " " + bits(c.worst_error_ratio) + c.worst_buffer + "\n";
  }
  for (const DriftCurve& curve : record.drift) {
    text += curve.case_name + " " + curve.buffer + " " + bits(curve.growth_exponent);
    for (const DriftPoint& p : curve.points) {
      text += std::to_string(p.step) + ":" + bits(p.rms_ratio) + bits(p.bias_ratio) + bits(p.bias_sigma);
    }
    text += "\n";
  }
  for (const std::string& note : record.notes) text += note + "\n";
  return text + record.replay_command;
}

}  // namespace stepbench::testing
