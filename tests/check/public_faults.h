// Hand-made trajectories of public fault reports: one tensor of one element, whose right end value was worked out
// independently in double or exact arithmetic.
#pragma once

#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "harness/checks.h"

namespace stepbench::testing {

using Overrides = std::vector<std::pair<std::string, double>>;

/// Initial value by buffer name; a state that is not named starts at zero.
struct PublicFault {
  const char* name;
  const char* task;
  Overrides start;
  std::vector<float> grads;  ///< per step; shorter than `steps`: the last one stays
  int64_t first_step, steps;
  Overrides hyper;
  double right_param, margin;
};

inline Overrides changed(Overrides values, const Overrides& changes) {
  for (const auto& [name, value] : changes) {
    for (auto& [known, old] : values) {
      if (known == name) old = value;
    }
  }
  return values;
}

/// lr 1e-3, betas 0.9 and 0.999, eps 1e-8, no decay, no scale.
inline Overrides plain_adam(const Overrides& changes = {}) {
  return changed(
      {{"lr", 1e-3}, {"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}, {"weight_decay", 0}, {"grad_scale", 1}}, changes);
}

inline std::vector<PublicFault> public_faults() {
  const Overrides sgd = {{"lr", 1},           {"momentum", 0.9}, {"dampening", 0},
                         {"weight_decay", 0}, {"nesterov", 0},   {"grad_scale", 1}};
  return {
      {"A11 step counter beyond 256", "adamw", {{"param", 1}}, {0.1f}, 1, 1000, plain_adam(), 4.2e-7, 1e-5},
      {"A13 first step", "adamw", {{"param", 1}}, {-2}, 1, 1, plain_adam(), 1.000999999995, 1.2e-7},
      {"A14 betas", "adamw", {{"param", 1}}, {1}, 1, 10, plain_adam({{"lr", 1e-2}}), 0.9000000010, 2e-6},
      {"A16 gradient near eps", "adamw", {{"param", 0}}, {1e-8f}, 1, 1, plain_adam(), -5.0e-4, 1e-9},
      {"A17 decay on the weight",
       "adamw",
       {{"param", 2}, {"exp_avg", 0.1}, {"exp_avg_sq", 0.04}},
       {0.5f},
       5,
       1,
       plain_adam({{"lr", 1e-2}, {"weight_decay", 0.1}}),
       1.99679567,
       3e-7},
      {"A38 denormal second moment",
       "adamw",
       {{"param", 1}},
       {1e-19f},
       1,
       1,
       plain_adam({{"eps", 1e-25}}),
       0.999000001,
       2e-7},
      {"A54 ten thousand steps", "adamw", {{"param", 1}}, {1}, 1, 10000, plain_adam(), -9.0000, 4e-4},
      {"A17 decay in the gradient",
       "adam",
       {{"param", 2}, {"exp_avg", 0.1}, {"exp_avg_sq", 0.04}},
       {0.5f},
       5,
       1,
       plain_adam({{"lr", 1e-2}, {"weight_decay", 0.1}}),
       1.99862771,
       3e-7},
      {"A19 decay outside the sign",
       "lion",
       {{"param", 10}},
       {-0.1f},
       1,
       1,
       {{"lr", 1e-2}, {"beta1", 0.9}, {"beta2", 0.99}, {"weight_decay", 0.1}, {"grad_scale", 1}},
       10.000,
       2e-6},
      {"A24 maximum of raw moments",
       "amsgrad",
       {{"param", 0}},
       {1, 0.01f},
       1,
       100,
       plain_adam({{"lr", 1e-2}}),
       -0.125375,
       2e-6},
      {"A21 raw gradient first",
       "sgd_momentum",
       {{"param", 0}},
       {1},
       1,
       2,
       changed(sgd, {{"dampening", 0.5}}),
       -2.4,
       1e-6},
      {"A22 momentum carries on", "sgd_momentum", {{"param", 0}}, {1, 0}, 1, 2, sgd, -1.9, 1e-6},
  };
}

inline Bytes float_bytes(float value) {
  Bytes bytes(sizeof(value));
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

inline Scenario scenario_of(const TaskSpec& task, const PublicFault& fault) {
  Scenario made;
  made.tensors = {make_shape({1})};
  for (const BufferSpec& buffer : task.buffers) {
    double value = buffer.role == Role::kIn ? static_cast<double>(fault.grads[0]) : 0;
    for (const auto& [name, start] : fault.start) {
      if (name == buffer.name) value = start;
    }
    made.initial.push_back({float_bytes(static_cast<float>(value))});
  }
  for (int64_t k = 0; k < fault.steps; ++k) {
    Overrides hyper = fault.hyper;
    for (const HyperField& field : task.hyper) {
      if (field.draw == "first_step") hyper.emplace_back(field.name, k == 0 && fault.first_step == 1 ? 1 : 0);
    }
    Result<HyperValues> values = hyper_from_defaults(task, fault.first_step + k, hyper);
    if (!values.ok()) FAIL(to_text(values.error()));
    ScenarioStep step{values.value(), {}};
    if (k > 0 && static_cast<size_t>(k) < fault.grads.size()) {
      step.inputs.resize(task.buffers.size());
      for (size_t b = 0; b < task.buffers.size(); ++b) {
        if (task.buffers[b].role == Role::kIn) step.inputs[b] = {float_bytes(fault.grads[static_cast<size_t>(k)])};
      }
    }
    made.steps.push_back(std::move(step));
  }
  return made;
}

/// Value of the parameter at the end.
inline double final_param(const TaskSpec& task, const ScenarioResult& result) {
  for (size_t b = 0; b < task.buffers.size(); ++b) {
    if (task.buffers[b].name != "param") continue;
    return to_double(task.buffers[b].dtype, result.final_buffers[b][0]).front();
  }
  FAIL("no param");
  return 0;
}

}  // namespace stepbench::testing
