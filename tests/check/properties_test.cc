// Properties: what a measurement's numbers mean, who is asked, and that a step is judged by them.
#include "harness/properties.h"

#include <cmath>
#include <limits>

#include "tests/check/fixtures.h"

using namespace stepbench;
using namespace stepbench::testing;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TaskSpec task_with_properties() {
  TaskSpec task = adamw_task();
  task.family = "norm";
  task.properties = {{.name = "first", .buffer = "param", .limit = 0.5, .meaning = "the first number"},
                     {.name = "second", .buffer = "exp_avg", .limit = 10, .meaning = "the second number"}};
  return task;
}

/// The numbers are what the candidate stored: elements 0 and 1 of each tensor's param.
void measure_param(const OracleTensor& tensor, std::span<const double>, std::span<double> values) {
  values[0] = tensor.stored[0][0];
  values[1] = tensor.stored[0][1];
}

struct Tensors {
  std::vector<TensorShape> shapes;
  JudgeSpace space;
};

/// One tensor of two elements for each pair; an empty one in front.
Tensors tensors_of(const TaskSpec& task, const std::vector<std::pair<double, double>>& pairs) {
  Tensors made;
  made.shapes.push_back(make_shape({0}));
  for (size_t i = 0; i < pairs.size(); ++i) made.shapes.push_back(make_shape({2}));
  made.space.state.values.resize(task.buffers.size());
  made.space.stored.values.resize(task.buffers.size());
  for (size_t b = 0; b < task.buffers.size(); ++b) {
    for (HostState* const host : {&made.space.state, &made.space.stored}) {
      if (host == &made.space.stored && task.buffers[b].role == Role::kIn) continue;
      host->values[b].emplace_back();
      for (const auto& [first, second] : pairs) host->values[b].push_back({first, second});
    }
  }
  return made;
}

TEST_CASE("a number above its limit or NaN is wrong, and the worst one is named") {
  struct Row {
    const char* name;
    std::vector<std::pair<double, double>> pairs;
    double worst;        ///< ratio; NaN is worse than infinity
    int64_t bad_tensor;  ///< -1: all pass
    std::vector<const char*> parts;
  };
  const Row rows[] = {
      {"both half of the limit", {{0.25, 5}}, 0.5, -1, {}},
      {"exactly at the limit", {{0.5, 10}}, 1, -1, {}},
      {"zero and negative numbers", {{0, -3}}, 0, -1, {}},
      {"first too large", {{1, 5}}, 2, 1, {"first of param is 1 in tensor 1", "0.5", "2 x the limit", "first number"}},
      {"the worse of two", {{1, 100}}, 10, 1, {"second of exp_avg is 100", "10 x the limit", "second number"}},
      {"the first bad tensor, the worst ratio of all",
       {{0.1, 1}, {1, 1}, {5, 1}},
       10,
       2,
       {"first of param is 1 in tensor 2"}},
      {"NaN", {{0.1, kNaN}}, kNaN, 1, {"second of exp_avg is nan", "10: the second number"}},
      {"NaN is worse than infinity", {{kInfinity, kNaN}}, kNaN, 1, {"second of exp_avg is nan"}},
      {"infinity", {{kInfinity, 1}}, kInfinity, 1, {"first of param is inf"}},
  };
  const TaskSpec task = task_with_properties();
  const HyperValues hyper = hyper_from_defaults(task, 1, {}).value();
  for (const Row& row : rows) {
    for (const int threads : {1, 3}) {
      INFO(row.name << ", threads " << threads);
      Tensors tensors = tensors_of(task, row.pairs);
      const PropertyJudgement judgement =
          judge_properties(task, measure_param, tensors.shapes, {}, hyper, tensors.space, threads);
      if (std::isnan(row.worst))
        CHECK(std::isnan(judgement.worst_ratio));
      else
        CHECK(judgement.worst_ratio == Approx(row.worst));
      CHECK(judgement.failure.has_value() == (row.bad_tensor >= 0));
      if (!judgement.failure || row.bad_tensor < 0) continue;
      CHECK(judgement.failure->verdict == Verdict::kWrongResult);
      CHECK(judgement.failure->tensor == row.bad_tensor);
      CHECK(judgement.failure->element == -1);
      for (const char* const part : row.parts) CHECK_THAT(judgement.failure->message, Catch::Contains(part));
    }
  }
}

TEST_CASE("a failure names the tensor of the longer list, and the step's work reaches the measurement") {
  const TaskSpec task = task_with_properties();
  const HyperValues hyper = hyper_from_defaults(task, 1, {}).value();
  Tensors tensors = tensors_of(task, {{0.1, 1}, {0.1, 1}});
  const std::vector<Window> windows = {{40, 0, 0}, {41, 0, 2}, {47, 0, 2}};
  const OracleProperties measure = [](const OracleTensor& tensor, std::span<const double>, std::span<double> values) {
    values[0] = tensor.work->empty() ? 0 : tensor.work->front();
    values[1] = tensor.index == 47 ? 100 : 0;
  };
  PropertyJudgement judgement = judge_properties(task, measure, tensors.shapes, windows, hyper, tensors.space, 1);
  REQUIRE(judgement.failure);
  CHECK(judgement.failure->tensor == 47);
  CHECK_THAT(judgement.failure->message, Catch::Contains("in tensor 47"));

  tensors.space.work = {{}, {1}, {}};
  judgement = judge_properties(task, measure, tensors.shapes, windows, hyper, tensors.space, 1);
  REQUIRE(judgement.failure);
  CHECK(judgement.failure->tensor == 41);  // 1 of 0.5
}

TEST_CASE("what a measurement does not write is wrong") {
  const TaskSpec task = task_with_properties();
  const HyperValues hyper = hyper_from_defaults(task, 1, {}).value();
  Tensors tensors = tensors_of(task, {{0.1, 0.1}});
  const OracleProperties one_only = [](const OracleTensor&, std::span<const double>, std::span<double> values) {
    values[0] = 0;
  };
  const PropertyJudgement judgement = judge_properties(task, one_only, tensors.shapes, {}, hyper, tensors.space, 1);
  REQUIRE(judgement.failure);
  CHECK(judgement.failure->buffer == "exp_avg");
}

TEST_CASE("task file and oracle agree on whether there are properties") {
  const Result<PropertyOracle> nothing_measures = property_oracle(task_with_properties());
  REQUIRE(!nothing_measures.ok());
  CHECK(nothing_measures.error().code == ErrorCode::kInvalidTask);
  CHECK_THAT(to_text(nothing_measures.error()),
             Catch::Contains("nothing measures") && Catch::Contains("oracle_properties_adamw"));
  const Result<PropertyOracle> none = property_oracle(adamw_task());
  REQUIRE(none.ok());
  CHECK(none.value().measure == nullptr);

  // The same stops an evaluation, so that no candidate is charged for it.
  const TaskSpec task = task_with_properties();
  const TensorShape shape = make_shape({1});
  BufferBytes bytes(task.buffers.size(), {Bytes(4)});
  JudgeSpace space;
  const Result<StepJudgement> judged =
      judge_step(task, {&shape, 1}, hyper_from_defaults(task, 1, {}).value(), bytes, bytes, 1, space);
  REQUIRE(!judged.ok());
  CHECK(judged.error().code == ErrorCode::kInvalidTask);

  const Result<std::vector<std::string>> ids = list_tasks();
  REQUIRE(ids.ok());
  for (const std::string& id : ids.value()) {
    const TaskSpec shipped = load_task(id).value();
    const Result<PropertyOracle> oracle = property_oracle(shipped);
    if (!oracle.ok()) FAIL_CHECK(to_text(oracle.error()));
    if (!oracle.ok() || shipped.properties.empty()) continue;
    CHECK(oracle.value().measure != nullptr);
    TaskSpec forgotten = shipped;
    forgotten.properties.clear();
    const Result<PropertyOracle> unasked = property_oracle(forgotten);
    REQUIRE(!unasked.ok());
    CHECK_THAT(to_text(unasked.error()), Catch::Contains("oracle_properties_" + id));
  }
}

/// A step of shampoo from zero states with a gradient of rank one, as exact as fp32 stores it.
struct ExactStep {
  TaskSpec task;
  TensorShape shape = make_shape({6, 6});
  HyperValues hyper;
  BufferBytes before, after;

  ExactStep() {
    const Result<TaskSpec> loaded = load_task("shampoo");
    if (!loaded.ok()) FAIL(to_text(loaded.error()));
    task = loaded.value();
    hyper = hyper_from_defaults(task, 1, std::vector<std::pair<std::string, double>>{{"matrix_eps", 2e-4}}).value();
    const CaseData data{7, {0}};
    fill_states(task, {&shape, 1}, "constant", data, true, before);
    fill_inputs(task, {&shape, 1}, "constant", data, 0, before);
    after = before;
    // Factors and averages first, then the roots of what is stored, then the parameter: what is made of a stored value
    // follows the stored one.
    for (int pass = 0; pass < 3; ++pass) {
      HostState state, stored, scale;
      for (const Role role : {Role::kIn, Role::kInOut}) to_host(task, role, before, state);
      to_host(task, Role::kInOut, after, stored);
      REQUIRE(oracle_step(task, {&shape, 1}, hyper, state, &scale, 1, {.stored = pass > 0 ? &stored : nullptr}).ok());
      for (size_t b = 0; b < task.buffers.size(); ++b)
        if (task.buffers[b].role == Role::kInOut) store(b, state.values[b][0]);
    }
  }
  size_t index(const std::string& name) const {
    for (size_t b = 0; b < task.buffers.size(); ++b)
      if (task.buffers[b].name == name) return b;
    FAIL("no buffer " << name);
    return 0;
  }
  std::vector<double> values(const std::string& name) const { return to_double(DType::kF32, after[index(name)][0]); }
  void store(size_t b, const std::vector<double>& values) {
    for (size_t i = 0; i < values.size(); ++i) {
      const auto value = static_cast<float>(values[i]);
      std::memcpy(after[b][0].data() + 4 * i, &value, sizeof(value));
    }
  }
  StepJudgement judged() const {
    JudgeSpace space;
    const Result<StepJudgement> judgement = judge_step(task, {&shape, 1}, hyper, before, after, 1, space);
    if (!judgement.ok()) FAIL(to_text(judgement.error()));
    return judgement.value();
  }
};

TEST_CASE("a root within the limits of its elements is wrong where a property says so") {
  const ExactStep exact;
  const StepJudgement good = exact.judged();
  if (good.failure) FAIL(good.failure->message);
  CHECK(good.worst_ratio < 0.5);
  // The condition number is 5001, more than the task's range allows: the limit of an element is 0.75 % of the root's
  // norm.
  struct Row {
    const char* name;
    std::function<void(std::vector<double>& root, double most)> change;
    const char* property;
  };
  const auto add = [](std::vector<double>& root, size_t i, size_t j, double value) { root[i * 6 + j] += value; };
  const Row rows[] = {
      {"all of it 0.02 % too large",
       [](std::vector<double>& root, double) {
         for (double& x : root) x *= 1.0002;
       },
       "root_error_left"},
      {"one direction mixed with the largest one",
       [&](std::vector<double>& root, double most) {
         for (size_t i = 0; i < 6; ++i) {
           add(root, i, 0, 1e-5 * most);
           add(root, i, 1, -1e-5 * most);
           add(root, 0, i, 1e-5 * most);
           add(root, 1, i, -1e-5 * most);
         }
       },
       "root_residual_left"},
      {"not symmetric among the small eigenvalues",
       [&](std::vector<double>& root, double most) {
         for (const size_t i : {0, 1})
           for (const size_t j : {2, 3}) {
             const double value = (i + j) % 2 == 0 ? 1e-4 * most : -1e-4 * most;
             add(root, i, j, value);
             add(root, j, i, -value);
           }
       },
       "root_asymmetry_left"},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    ExactStep wrong = exact;
    std::vector<double> root = wrong.values("left_root");
    double most = 0;
    for (const double x : root) most = std::max(most, std::fabs(x));
    row.change(root, most);
    wrong.store(wrong.index("left_root"), root);
    // The parameter follows the root that is stored.
    HostState state, stored, scale;
    for (const Role role : {Role::kIn, Role::kInOut}) to_host(wrong.task, role, wrong.before, state);
    to_host(wrong.task, Role::kInOut, wrong.after, stored);
    REQUIRE(oracle_step(wrong.task, {&wrong.shape, 1}, wrong.hyper, state, &scale, 1, {.stored = &stored}).ok());
    wrong.store(wrong.index("param"), state.values[wrong.index("param")][0]);

    const StepJudgement judgement = wrong.judged();
    REQUIRE(judgement.failure);
    CHECK(judgement.failure->verdict == Verdict::kWrongResult);
    CHECK_THAT(judgement.failure->message, Catch::StartsWith(row.property));
    CHECK(judgement.failure->buffer == "left_root");
    CHECK(judgement.failure->tensor == 0);
    CHECK(judgement.failure->error_ratio > 1);
    CHECK(judgement.worst_ratio == judgement.failure->error_ratio);
    CHECK(judgement.worst_buffer == "left_root");
  }
}

}  // namespace
