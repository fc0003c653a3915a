// The oracles against trajectories of torch.optim in float64 (tests/golden/make_torch_golden.py wrote the file): step
// by step from torch's own state, and free-running over the whole case.
#include <catch2/catch.hpp>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "harness/stages.h"

namespace stepbench {
namespace {

constexpr double kTolerance = 1e-12;

struct GoldenStep {
  int64_t step = 0;
  std::vector<std::pair<std::string, double>> hyper;
  HostState after;  ///< inputs of the step included
};
struct GoldenCase {
  std::string task, name;
  std::vector<TensorShape> tensors;
  HostState start;
  std::vector<GoldenStep> steps;
};

size_t buffer_index(const TaskSpec& task, const std::string& name) {
  for (size_t b = 0; b < task.buffers.size(); ++b)
    if (task.buffers[b].name == name) return b;
  FAIL("the golden file names a buffer that " << task.id << " does not have: " << name);
  return 0;
}

std::vector<GoldenCase> read_golden(std::string& version) {
  std::ifstream file(std::string(STEPBENCH_TEST_FOLDER) + "/golden/torch_golden.txt");
  if (!file) FAIL("tests/golden/torch_golden.txt is missing; make_torch_golden.py in the same folder writes it");
  std::vector<GoldenCase> cases;
  TaskSpec task;
  std::string line;
  const auto empty_state = [&] {
    HostState state;
    state.values.resize(task.buffers.size());
    for (auto& buffer : state.values) buffer.resize(cases.back().tensors.size());
    return state;
  };
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == "version") {
      version = line;
    } else if (word == "case") {
      cases.emplace_back();
      words >> cases.back().task >> cases.back().name;
      const Result<TaskSpec> loaded = load_task(cases.back().task);
      REQUIRE(loaded.ok());
      task = loaded.value();
    } else if (word == "sizes") {
      for (int64_t n = 0; words >> n;) cases.back().tensors.push_back(make_shape({n}));
      cases.back().start = empty_state();
    } else if (word == "step") {
      GoldenStep step;
      words >> step.step;
      for (std::string pair; words >> pair;) {
        const size_t equal = pair.find('=');
        REQUIRE(equal != std::string::npos);
        step.hyper.emplace_back(pair.substr(0, equal), std::strtod(pair.c_str() + equal + 1, nullptr));
      }
      step.after = empty_state();
      cases.back().steps.push_back(std::move(step));
    } else if (word != "end") {
      HostState* state = &cases.back().start;
      if (word == "start")
        words >> word;
      else
        state = &cases.back().steps.back().after;
      size_t tensor = 0;
      words >> tensor;
      std::vector<double>& values = state->values[buffer_index(task, word)].at(tensor);
      for (std::string number; words >> number;) values.push_back(std::strtod(number.c_str(), nullptr));
    }
  }
  return cases;
}

/// Largest |got - expected| / max(|expected|, movement scale) over all `inout` buffers.
double distance(const TaskSpec& task, const HostState& expected, const HostState& got, const HostState& scale) {
  double worst = 0;
  for (size_t b = 0; b < task.buffers.size(); ++b) {
    if (task.buffers[b].role == Role::kIn) continue;
    for (size_t t = 0; t < expected.values[b].size(); ++t) {
      REQUIRE(expected.values[b][t].size() == got.values[b][t].size());
      for (size_t i = 0; i < expected.values[b][t].size(); ++i) {
        const double want = expected.values[b][t][i];
        const double size = std::max(std::fabs(want), scale.values[b][t][i]);
        const double error = std::fabs(got.values[b][t][i] - want);
        if (error == 0) continue;
        worst = std::max(worst, size > 0 ? error / size : INFINITY);
        if (std::isnan(error)) worst = INFINITY;
      }
    }
  }
  return worst;
}

TEST_CASE("the oracles follow torch.optim in float64") {
  std::string version;
  const std::vector<GoldenCase> cases = read_golden(version);
  CHECK_THAT(version, Catch::StartsWith("version torch ") && Catch::Contains("float64"));
  std::map<std::string, int> per_task;
  for (const GoldenCase& golden : cases) {
    DYNAMIC_SECTION(golden.task << ": " << golden.name) {
      const TaskSpec task = load_task(golden.task).value();
      REQUIRE(golden.steps.size() == 25);
      HostState free_running = golden.start;
      const HostState* before = &golden.start;
      double moved = 0;
      for (const GoldenStep& step : golden.steps) {
        const Result<HyperValues> hyper = hyper_from_defaults(task, step.step, step.hyper);
        REQUIRE(hyper.ok());
        // What torch computed with must be what Hyper holds.
        for (const auto& [name, value] : step.hyper)
          for (size_t i = 0; i < task.hyper.size(); ++i)
            if (task.hyper[i].name == name) CHECK(hyper.value().values[i] == value);
        HostState forced = *before, scale;
        forced.values[1] = step.after.values[1];
        free_running.values[1] = step.after.values[1];
        REQUIRE(oracle_step(task, golden.tensors, hyper.value(), forced, &scale, 1).ok());
        CHECK(distance(task, step.after, forced, scale) / kTolerance < 1);
        REQUIRE(oracle_step(task, golden.tensors, hyper.value(), free_running, &scale, 1).ok());
        CHECK(distance(task, step.after, free_running, scale) / kTolerance < 1);
        moved = std::max(moved, distance(task, step.after, golden.start, scale));
        before = &step.after;
      }
      CHECK(moved > 1e-3);  // a file of constants would agree with everything
    }
  }
  for (const GoldenCase& golden : cases) ++per_task[golden.task];
  CHECK(per_task["adamw"] >= 6);
  CHECK(per_task["sgd_momentum"] >= 6);
}

}  // namespace
}  // namespace stepbench
