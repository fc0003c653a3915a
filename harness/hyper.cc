// Hyperparameters: drawn per trajectory, scheduled per step, derived in double and rounded once, packed for the device.
// Draws use exact arithmetic only (no libm), so that a seed gives the same values on every machine. Formulas belong to
// formula.cc.
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "harness/formula.h"
#include "harness/stages.h"

namespace stepbench {

namespace {

constexpr double kNotDrawn = std::numeric_limits<double>::quiet_NaN();

/// Counter-based stream: the i-th number of a seed.
class Stream {
 public:
  explicit Stream(uint64_t seed) : seed_(seed) {}
  uint64_t next() { return derive_seed(seed_, "hyper", counter_++); }
  double uniform() { return static_cast<double>(next() >> 40) * 0x1p-24; }

 private:
  uint64_t seed_;
  uint64_t counter_ = 0;
};

double round_to(HyperType type, double value) {
  return type == HyperType::kF32 ? static_cast<double>(static_cast<float>(value)) : value;
}

bool drawn_per_trajectory(const HyperField& field) {
  return field.draw == "log" || field.draw == "log_to_one" || field.draw == "linear" || field.draw == "choice";
}

/// Uniform over the octaves that [min, max] touches, then within the octave, until the value lies in the range: close
/// to log-uniform and exact.
double draw_log(const HyperField& field, Stream& stream) {
  int low = 0, high = 0;
  std::frexp(field.min, &low);
  std::frexp(field.max, &high);
  while (true) {
    const auto octave = static_cast<int>(stream.next() % static_cast<uint64_t>(high - low + 1));
    const double value = std::ldexp(0.5 + stream.uniform() / 2, low + octave);
    const double rounded = round_to(HyperType::kF32, value);
    if (rounded >= field.min && rounded <= field.max) return rounded;
  }
}

/// 1 - value is log-uniform: decays such as 0.95, 0.99, 0.999 and 0.9995 come equally often. What a decay close to one
/// keeps for thousands of steps shows faults that all others have forgotten.
double draw_log_to_one(const HyperField& field, Stream& stream) {
  HyperField rest = field;
  rest.min = 1 - field.max;
  rest.max = 1 - field.min;
  while (true) {
    const double value = round_to(field.type, 1 - draw_log(rest, stream));
    if (value >= field.min && value <= field.max) return value;
  }
}

double draw_field(const HyperField& field, Stream& stream) {
  if (field.draw == "log") return draw_log(field, stream);
  if (field.draw == "log_to_one") return draw_log_to_one(field, stream);
  if (field.draw == "choice") return field.choices[stream.next() % field.choices.size()];
  const double value = round_to(field.type, field.min + (field.max - field.min) * stream.uniform());
  return field.type == HyperType::kI32 ? std::floor(value) : value;
}

using Variables = std::vector<std::pair<std::string, double>>;

bool is_derived(const HyperField& field) { return field.draw == "derived" || field.draw == "derived_product"; }

Error derived_problem(const TaskSpec& task, const HyperField& field, const Error& error) {
  Error out = error;
  out.place = fmt::format("task {}, hyperparameter {}: {}", task.id, field.name, error.place);
  return out;
}

/// Fills derived fields from the fields before and after them. A derived field may use an earlier derived one, with the
/// double value it had before rounding.
Result<HyperValues> with_derived(const TaskSpec& task, std::vector<double> values) {
  Variables variables;
  for (size_t i = 0; i < task.hyper.size(); ++i) {
    if (!is_derived(task.hyper[i]) || !std::isnan(values[i])) variables.emplace_back(task.hyper[i].name, values[i]);
  }
  for (size_t i = 0; i < task.hyper.size(); ++i) {
    const HyperField& field = task.hyper[i];
    if (!std::isnan(values[i])) continue;
    const Result<double> value = field.draw == "derived" ? evaluate_formula(field.derived, variables)
                                                         : evaluate_product(field.derived, variables);
    if (!value.ok()) return derived_problem(task, field, value.error());
    variables.emplace_back(field.name, value.value());
    values[i] = round_to(field.type, value.value());
  }
  return HyperValues{std::move(values)};
}

}  // namespace

Result<HyperTrajectory> draw_hyper(const TaskSpec& task, std::string_view family, uint64_t seed) {
  HyperTrajectory trajectory;
  trajectory.task = &task;
  trajectory.seed = seed;
  trajectory.primary.assign(task.hyper.size(), kNotDrawn);
  Stream stream(derive_seed(seed, family));
  for (size_t i = 0; i < task.hyper.size(); ++i) {
    const HyperField& field = task.hyper[i];
    if (!drawn_per_trajectory(field)) continue;
    // Two equal or vanishing values would hide that a candidate mixes them up. A choice may contain zero (a switch),
    // and switches may agree with one another.
    constexpr int kMostTries = 1000;
    double value = 0;
    bool good = false;
    for (int attempt = 0; attempt < kMostTries && !good; ++attempt) {
      value = draw_field(field, stream);
      good = field.draw == "choice" || value != 0;
      for (size_t j = 0; j < i && good && field.draw != "choice"; ++j) good = trajectory.primary[j] != value;
    }
    if (!good) {
      return Error{.code = ErrorCode::kInvalidTask,
                   .message = "a hyperparameter has no non-zero value that differs from those before it",
                   .place = fmt::format("task {}, hyperparameter {}", task.id, field.name),
                   .expected = "a wider range",
                   .found = fmt::format("{} to {}", field.min, field.max)};
    }
    trajectory.primary[i] = value;
  }
  // Conditions see the values as drawn, whatever the order of the fields.
  Variables drawn;
  for (size_t i = 0; i < task.hyper.size(); ++i) {
    if (drawn_per_trajectory(task.hyper[i])) drawn.emplace_back(task.hyper[i].name, trajectory.primary[i]);
  }
  for (size_t i = 0; i < task.hyper.size(); ++i) {
    const HyperField& field = task.hyper[i];
    if (field.condition.empty()) continue;
    const Result<double> wanted = evaluate_formula(field.condition, drawn);
    if (!wanted.ok()) return derived_problem(task, field, wanted.error());
    if (wanted.value() == 0) trajectory.primary[i] = 0;
  }
  return trajectory;
}

Result<HyperValues> hyper_at(const HyperTrajectory& trajectory, int64_t step, bool is_first, bool found_inf) {
  SB_ASSERT(trajectory.task != nullptr);
  const TaskSpec& task = *trajectory.task;
  SB_ASSERT(trajectory.primary.size() == task.hyper.size());
  SB_ASSERT(step >= 1 && step <= std::numeric_limits<int32_t>::max());
  std::vector<double> values(task.hyper.size(), kNotDrawn);
  for (size_t i = 0; i < task.hyper.size(); ++i) {
    const HyperField& field = task.hyper[i];
    if (field.draw == "step") {
      values[i] = static_cast<double>(step);
    } else if (field.draw == "first_step") {
      values[i] = is_first ? 1 : 0;
    } else if (field.draw == "found_inf") {
      values[i] = found_inf ? 1 : 0;
    } else if (!is_derived(field)) {
      values[i] = trajectory.primary[i];
      if (field.scheduled) {
        // A schedule without memory: any factor from 0.5 to 1.5 at any step.
        const uint64_t bits = derive_seed(trajectory.seed, field.name, static_cast<uint64_t>(step));
        values[i] = round_to(field.type, values[i] * (0.5 + static_cast<double>(bits >> 40) * 0x1p-24));
      }
    }
  }
  return with_derived(task, std::move(values));
}

Result<HyperValues> hyper_from_defaults(const TaskSpec& task, int64_t step,
                                        std::span<const std::pair<std::string, double>> overrides) {
  std::vector<double> values(task.hyper.size(), kNotDrawn);
  for (size_t i = 0; i < task.hyper.size(); ++i) {
    const HyperField& field = task.hyper[i];
    if (field.draw == "step")
      values[i] = static_cast<double>(step);
    else if (field.draw == "first_step")
      values[i] = step == 1 ? 1 : 0;
    else if (!is_derived(field))
      values[i] = round_to(field.type, field.default_value);
  }
  for (const auto& [name, value] : overrides) {
    bool found = false;
    for (size_t i = 0; i < task.hyper.size(); ++i) {
      if (task.hyper[i].name != name) continue;
      values[i] = round_to(task.hyper[i].type, value);
      found = true;
    }
    if (!found) {
      return Error{.code = ErrorCode::kNotFound,
                   .message = "no hyperparameter has this name",
                   .place = "task " + task.id,
                   .expected = "",
                   .found = "\"" + name + "\""};
    }
  }
  return with_derived(task, std::move(values));
}

std::vector<std::byte> pack_hyper(const TaskSpec& task, const HyperValues& values) {
  static_assert(std::endian::native == std::endian::little);
  SB_ASSERT(values.values.size() == task.hyper.size());
  std::vector<std::byte> out(4 * task.hyper.size());
  for (size_t i = 0; i < task.hyper.size(); ++i) {
    const double value = values.values[i];
    if (task.hyper[i].type == HyperType::kF32) {
      const auto stored = static_cast<float>(value);
      SB_ASSERT(static_cast<double>(stored) == value);
      std::memcpy(out.data() + 4 * i, &stored, 4);
    } else {
      const auto stored = static_cast<int32_t>(value);
      SB_ASSERT(static_cast<double>(stored) == value);
      std::memcpy(out.data() + 4 * i, &stored, 4);
    }
  }
  return out;
}

}  // namespace stepbench
