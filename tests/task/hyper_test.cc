// Draws, schedules, derived fields and the bytes of the Hyper struct.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "harness/formula.h"
#include "harness/stages.h"

namespace stepbench {
namespace {

TaskSpec loaded(const std::string& id) {
  const Result<TaskSpec> task = load_task(id);
  if (!task.ok()) FAIL(to_text(task.error()));
  return task.value();
}

size_t index_of(const TaskSpec& task, const std::string& name) {
  for (size_t i = 0; i < task.hyper.size(); ++i)
    if (task.hyper[i].name == name) return i;
  FAIL("no field " << name);
  return 0;
}

TEST_CASE("formulas") {
  const std::pair<std::string, double> variables[] = {{"beta1", 0.9}, {"step", 3}, {"x", 2}};
  struct Row {
    const char* text;
    double value;
  };
  for (const Row& row : {Row{"1 - beta1^step", 1 - 0.9 * 0.9 * 0.9}, Row{"sqrt(x)", std::sqrt(2.0)},
                         Row{"step == 3", 1}, Row{"x > 3 ? 1 : 7", 7}, Row{"2 + 3 * x", 8}}) {
    const Result<double> value = evaluate_formula(row.text, variables);
    REQUIRE(value.ok());
    CHECK(value.value() == Approx(row.value).epsilon(1e-15));
  }
  for (const char* const text : {"", "beta3", "1 +", "1 / 0", "sqrt(0 - 1)", "x = 5", "foo(x)"}) {
    INFO(text);
    CHECK(!evaluate_formula(text, variables).ok());
  }
}

TEST_CASE("a formula that was translated before takes the values of the moment") {
  using Named = std::vector<std::pair<std::string, double>>;
  struct Row {
    const char* text;
    Named variables;
    double value;  ///< NaN: an error
  };
  const double error = std::nan("");
  const Row rows[] = {
      {"x - y", {{"x", 5}, {"y", 3}}, 2},  {"x - y", {{"x", 1}, {"y", 7}}, -6},
      {"x - y", {{"y", 5}, {"x", 3}}, -2}, {"x - y", {{"x", 5}}, error},  // not the y of before
      {"x - y", {{"x", 4}, {"y", 3}}, 1},  {"x = y", {{"x", 4}, {"y", 3}}, error},
      {"x + y", {{"x", 4}, {"y", 3}}, 7},  {"1 / x", {{"x", 0}}, error},
      {"1 / x", {{"x", 4}}, 0.25},
  };
  for (const Row& row : rows) {
    INFO(row.text << " = " << row.value);
    const Result<double> value = evaluate_formula(row.text, row.variables);
    CHECK(value.ok() == !std::isnan(row.value));
    if (value.ok()) CHECK(value.value() == row.value);
  }
  // More formulas than are kept.
  for (int i = 0; i < 1000; ++i) {
    const Result<double> value = evaluate_formula("x + " + std::to_string(i), Named{{"x", 0.5}});
    REQUIRE(value.ok());
    CHECK(value.value() == i + 0.5);
  }
}

TEST_CASE("products over the steps") {
  const auto at = [](double step) {
    return std::vector<std::pair<std::string, double>>{{"beta", 0.5}, {"step", step}, {"one", 1}};
  };
  struct Row {
    const char* text;
    double step, value;
  };
  // 1/2 * 2/3 * ... * t/(t + 1) = 1 / (t + 1); powers of two are exact.
  for (const Row& row : {Row{"beta", 1, 0.5}, Row{"beta", 10, 0x1p-10}, Row{"step / (step + 1)", 1, 0.5},
                         Row{"step / (step + 1)", 999, 1e-3}, Row{"step / (step + 1)", 1000000, 1 / 1000001.0},
                         Row{"beta", 200, 0x1p-200}, Row{"beta", 201, 0}, Row{"beta", 2000000000, 0}}) {
    INFO(row.text << " to step " << row.step);
    const Result<double> value = evaluate_product(row.text, at(row.step));
    REQUIRE(value.ok());
    CHECK(value.value() == Approx(row.value).epsilon(1e-10).margin(0));
  }
  const struct {
    const char* name;
    const char* text;
    const char* part;
  } bad[] = {
      {"a factor of one would go on for ever", "one", "1.000000 at step 1"},
      {"a factor above one later", "step / 3", "at step 3"},
      {"negative", "0 - beta", "above 0"},
      {"not a number", "sqrt(0 - step)", "above 0"},
      {"unknown name", "betta", "betta"},
      {"assignment", "beta = 0.25", "assigns"},
      {"syntax", "beta *", "cannot be evaluated"},
  };
  for (const auto& row : bad) {
    INFO(row.name);
    const Result<double> value = evaluate_product(row.text, at(5));
    CHECK(!value.ok());
    if (!value.ok()) CHECK_THAT(to_text(value.error()), Catch::Contains(row.part));
  }
  const std::pair<std::string, double> no_step[] = {{"beta", 0.5}};
  CHECK_THAT(to_text(evaluate_product("beta", no_step).error()), Catch::Contains("step"));
}

TEST_CASE("draws lie in range, differ from one another and are fp32 numbers") {
  for (const std::string& id : list_tasks().value()) {
    const TaskSpec task = loaded(id);
    std::map<std::string, std::set<double>> choices_seen;
    for (uint64_t seed = 0; seed < 300; ++seed) {
      const Result<HyperTrajectory> trajectory = draw_hyper(task, "gaussian", seed);
      REQUIRE(trajectory.ok());
      std::set<double> values;
      for (size_t i = 0; i < task.hyper.size(); ++i) {
        const HyperField& field = task.hyper[i];
        const double value = trajectory.value().primary[i];
        INFO(id << " seed " << seed << " " << field.name << " " << value);
        if (field.draw == "log" || field.draw == "log_to_one" || field.draw == "linear") {
          if (field.condition.empty() || value != 0) {
            CHECK(value >= field.min);
            CHECK(value <= field.max);
            CHECK(values.insert(value).second);
          }
          if (field.type == HyperType::kF32) CHECK(static_cast<double>(static_cast<float>(value)) == value);
        } else if (field.draw == "choice") {
          CHECK(std::count(field.choices.begin(), field.choices.end(), value) == 1);
          choices_seen[field.name].insert(value);
        } else {
          CHECK(std::isnan(value));
        }
      }
    }
    for (const auto& [name, seen] : choices_seen) {
      INFO(id << " " << name);
      CHECK(seen.size() == std::set<double>(task.hyper[index_of(task, name)].choices.begin(),
                                            task.hyper[index_of(task, name)].choices.end())
                               .size());
    }
  }
}

TEST_CASE("a logarithmic draw uses the whole range evenly") {
  const TaskSpec task = loaded("adamw");
  const size_t eps = index_of(task, "eps");
  int decades[4] = {};
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const double value = draw_hyper(task, "mixed", seed).value().primary[eps];
    ++decades[std::min(3, static_cast<int>(std::floor(std::log10(value) + 10)))];
  }
  for (const int count : decades) CHECK(count == Approx(500).margin(110));
}

TEST_CASE("dampening is zero exactly where nesterov is one") {
  const TaskSpec task = loaded("sgd_momentum");
  int with = 0, without = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::vector<double> primary = draw_hyper(task, "gaussian", seed).value().primary;
    const bool nesterov = primary[index_of(task, "nesterov")] != 0;
    CHECK((primary[index_of(task, "dampening")] == 0) == nesterov);
    ++(nesterov ? with : without);
  }
  CHECK(with > 60);
  CHECK(without > 60);
}

TEST_CASE("values of a step: schedule, step, flags, derived") {
  const TaskSpec task = loaded("adamw");
  const Result<HyperTrajectory> trajectory = draw_hyper(task, "gaussian", 11);
  REQUIRE(trajectory.ok());
  const size_t lr = index_of(task, "lr"), beta1 = index_of(task, "beta1"), beta2 = index_of(task, "beta2");
  std::set<double> rates;
  for (int64_t step = 1; step <= 200; ++step) {
    const Result<HyperValues> values = hyper_at(trajectory.value(), step, step == 1, step % 7 == 0);
    REQUIRE(values.ok());
    const std::vector<double>& v = values.value().values;
    CHECK(v[index_of(task, "step")] == static_cast<double>(step));
    CHECK(v[index_of(task, "found_inf")] == (step % 7 == 0 ? 1 : 0));
    CHECK(v[beta1] == trajectory.value().primary[beta1]);
    const double factor = v[lr] / trajectory.value().primary[lr];
    CHECK(factor >= 0.4999999);
    CHECK(factor <= 1.5000001);
    rates.insert(v[lr]);
    // Another derivation of the corrections: a running product in extended precision.
    long double power1 = 1, power2 = 1;
    for (int64_t k = 0; k < step; ++k) {
      power1 *= static_cast<long double>(v[beta1]);
      power2 *= static_cast<long double>(v[beta2]);
    }
    const auto rounded = [](long double x) { return static_cast<double>(static_cast<float>(static_cast<double>(x))); };
    CHECK(v[index_of(task, "bias_correction1")] == rounded(1 - power1));
    CHECK(v[index_of(task, "bias_correction2")] == rounded(1 - power2));
    CHECK(v[index_of(task, "bias_correction2_sqrt")] == rounded(std::sqrt(1 - power2)));
    CHECK(v[index_of(task, "step_size")] == rounded(static_cast<long double>(v[lr]) / (1 - power1)));
  }
  CHECK(rates.size() == 200);
  const HyperValues again = hyper_at(trajectory.value(), 7, false, false).value();
  CHECK(again.values == hyper_at(trajectory.value(), 7, false, false).value().values);
}

TEST_CASE("is_first sets the first-step field and nothing else does") {
  const TaskSpec task = loaded("sgd_momentum");
  const HyperTrajectory trajectory = draw_hyper(task, "gaussian", 3).value();
  const size_t first = index_of(task, "is_first_step");
  CHECK(hyper_at(trajectory, 1, true, false).value().values[first] == 1);
  CHECK(hyper_at(trajectory, 1, false, false).value().values[first] == 0);
  CHECK(hyper_at(trajectory, 9, true, false).value().values[first] == 1);
}

TEST_CASE("defaults with overrides") {
  const TaskSpec task = loaded("adamw");
  const std::pair<std::string, double> overrides[] = {{"beta1", 0.8}, {"lr", 0.25}};
  const HyperValues values = hyper_from_defaults(task, 2, overrides).value();
  const double beta1 = static_cast<double>(0.8f);
  CHECK(values.values[index_of(task, "beta1")] == beta1);
  CHECK(values.values[index_of(task, "step_size")] ==
        static_cast<double>(static_cast<float>(0.25 / (1 - beta1 * beta1))));
  CHECK(values.values[index_of(task, "grad_scale")] == 1);
  const std::pair<std::string, double> wrong[] = {{"beta3", 0.8}};
  CHECK(!hyper_from_defaults(task, 2, wrong).ok());
}

TEST_CASE("four little-endian bytes per field in order") {
  const TaskSpec task = loaded("adamw");
  const HyperValues values = hyper_from_defaults(task, 1000000, {}).value();
  const std::vector<std::byte> bytes = pack_hyper(task, values);
  REQUIRE(bytes.size() == 4 * task.hyper.size());
  int32_t step = 0;
  float lr = 0;
  std::memcpy(&step, bytes.data(), 4);
  std::memcpy(&lr, bytes.data() + 4, 4);
  CHECK(step == 1000000);
  CHECK(lr == 1e-3f);
  CHECK(bytes[0] == std::byte{0x40});  // 1000000 = 0x000f4240
  CHECK(bytes[1] == std::byte{0x42});
  CHECK(bytes[2] == std::byte{0x0f});
}

}  // namespace
}  // namespace stepbench
