// The oracles against trajectories that other libraries computed in float64: every tests/golden/*_golden.txt, step by
// step from the library's own state, and free-running over the whole case. The make_*_golden.py beside the files wrote
// them; make_torch_golden.py describes the format.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
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
  std::string file, task, name;
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

/// "7" has one dimension, "64x48" two.
TensorShape parse_shape(const std::string& text) {
  std::vector<int64_t> dimensions;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, 'x');) dimensions.push_back(std::strtoll(word.c_str(), nullptr, 10));
  return make_shape(dimensions);
}

std::vector<std::filesystem::path> golden_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(STEPBENCH_TEST_FOLDER) + "/golden"))
    if (entry.path().filename().string().ends_with("_golden.txt")) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<GoldenCase> read_golden(const std::filesystem::path& path, std::string& version) {
  std::ifstream file(path);
  if (!file) FAIL(path << " cannot be read; a make_*_golden.py in the same folder writes it");
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
      cases.back().file = path.filename().string();
      words >> cases.back().task >> cases.back().name;
      const Result<TaskSpec> loaded = load_task(cases.back().task);
      if (!loaded.ok()) FAIL(path << ": " << to_text(loaded.error()));
      task = loaded.value();
    } else if (word == "sizes") {
      for (std::string shape; words >> shape;) cases.back().tensors.push_back(parse_shape(shape));
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

void copy_inputs(const TaskSpec& task, const HostState& from, HostState& to) {
  for (size_t b = 0; b < task.buffers.size(); ++b)
    if (task.buffers[b].role == Role::kIn) to.values[b] = from.values[b];
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

TEST_CASE("the oracles follow other libraries in float64") {
  std::map<std::string, int> per_task;
  for (const std::filesystem::path& path : golden_files()) {
    std::string version;
    const std::vector<GoldenCase> cases = read_golden(path, version);
    INFO(path);
    CHECK_THAT(version, Catch::StartsWith("version ") && Catch::Contains("float64"));
    CHECK(!cases.empty());
    for (const GoldenCase& golden : cases) {
      INFO(golden.task << ": " << golden.name);
      ++per_task[golden.task];
      const TaskSpec task = load_task(golden.task).value();
      REQUIRE(golden.steps.size() >= 20);
      HostState free_running = golden.start;
      const HostState* before = &golden.start;
      double moved = 0, forced_worst = 0, free_worst = 0;
      for (const GoldenStep& step : golden.steps) {
        const Result<HyperValues> hyper = hyper_from_defaults(task, step.step, step.hyper);
        REQUIRE(hyper.ok());
        // What the library computed with must be what Hyper holds.
        for (const auto& [name, value] : step.hyper)
          for (size_t i = 0; i < task.hyper.size(); ++i)
            if (task.hyper[i].name == name && hyper.value().values[i] != value)
              FAIL_CHECK(name << " is not an fp32 number: " << value);
        HostState forced = *before, scale;
        copy_inputs(task, step.after, forced);
        copy_inputs(task, step.after, free_running);
        REQUIRE(oracle_step(task, golden.tensors, hyper.value(), forced, &scale, 1).ok());
        forced_worst = std::max(forced_worst, distance(task, step.after, forced, scale));
        REQUIRE(oracle_step(task, golden.tensors, hyper.value(), free_running, &scale, 1).ok());
        free_worst = std::max(free_worst, distance(task, step.after, free_running, scale));
        moved = std::max(moved, distance(task, step.after, golden.start, scale));
        before = &step.after;
      }
      CHECK(forced_worst < kTolerance);
      CHECK(free_worst < kTolerance);
      CHECK(moved > 1e-3);  // a file of constants would agree with everything
    }
  }
  // No element-wise or norm-coupled task without a truth from outside.
  for (const std::string& id : list_tasks().value()) {
    INFO(id);
    const std::string family = load_task(id).value().family;
    if (family == "elementwise" || family == "storage" || family == "norm" || id == "soap_fixed_basis" ||
        id == "shampoo")
      CHECK(per_task[id] >= 5);
  }
}

}  // namespace
}  // namespace stepbench
