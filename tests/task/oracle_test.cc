// The oracles against numbers from public reports and against arithmetic done by hand. Case numbers (A11 ...) are the
// fault classes they come from, with the report in the comment.
#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "harness/stages.h"

namespace stepbench {
namespace {

using Overrides = std::vector<std::pair<std::string, double>>;

/// One element, stepped by the oracle of a task with the defaults and some overrides. The overrides are rounded to
/// fp32 first, as everything in Hyper is.
struct Trajectory {
  TaskSpec task;
  HostState state;

  Trajectory(const std::string& id, const std::vector<double>& start) {
    const Result<TaskSpec> loaded = load_task(id);
    if (!loaded.ok()) FAIL(to_text(loaded.error()));
    task = loaded.value();
    state.values.resize(task.buffers.size());
    REQUIRE(start.size() == task.buffers.size());
    for (size_t b = 0; b < start.size(); ++b) state.values[b] = {{start[b]}};
  }
  double& at(size_t buffer) { return state.values[buffer][0][0]; }
  void step(int64_t t, double grad, const Overrides& overrides) {
    at(1) = grad;
    const TensorShape shape = make_shape({1});
    const Result<HyperValues> hyper = hyper_from_defaults(task, t, overrides);
    REQUIRE(hyper.ok());
    REQUIRE(oracle_step(task, {&shape, 1}, hyper.value(), state, nullptr, 1).ok());
  }
};

enum AdamWBuffer : size_t { kParam, kGrad, kExpAvg, kExpAvgSq };
const Overrides kNoDecay = {{"weight_decay", 0}};

TEST_CASE("A11: a thousand steps of a constant gradient end at the right place (pytorch/ao#4915)") {
  Trajectory run("adamw", {1, 0, 0, 0});
  for (int64_t t = 1; t <= 1000; ++t) run.step(t, 0.1, kNoDecay);
  // Right: 4.2e-7 for betas that are exactly 0.9 and 0.999; with the fp32 learning rate 0.001 rounds to
  // 0.001 + 4.7e-11, which is 4.7e-8 after 1000 steps. A counter in bf16 ends at 0.2041.
  CHECK(std::fabs(run.at(kParam)) < 1e-5);
  for (int64_t t = 1001; t <= 4000; ++t) run.step(t, 0.1, kNoDecay);
  CHECK(run.at(kParam) == Approx(-3.0).epsilon(1e-5));  // a counter in fp16 ends at -2.9245
}

TEST_CASE("A13: the first step does not divide by zero (pytorch/pytorch#53758)") {
  Trajectory run("adamw", {1, 0, 0, 0});
  run.step(1, -2, kNoDecay);
  // 1 + lr * 2 / (2 + 1e-8); lr and eps rounded to fp32.
  CHECK(run.at(kParam) == Approx(1.000999999995).epsilon(1e-10));
}

TEST_CASE("A14: ten and a hundred steps with lr 1e-2 (tenstorrent/tt-metal#55935)") {
  Trajectory run("adamw", {1, 0, 0, 0});
  const Overrides overrides = {{"weight_decay", 0}, {"lr", 1e-2}};
  for (int64_t t = 1; t <= 10; ++t) run.step(t, 1, overrides);
  CHECK(run.at(kParam) == Approx(0.9000000010).epsilon(5e-8));  // lr in fp32 is 2e-8 low; betas in bf16 give 0.9486
  for (int64_t t = 11; t <= 100; ++t) run.step(t, 1, overrides);
  CHECK(std::fabs(run.at(kParam)) < 5e-8);  // betas in bf16 give 0.4746
}

TEST_CASE("A16: eps after the corrected root (keras-team/keras#17391)") {
  Trajectory run("adamw", {0, 0, 0, 0});
  run.step(1, 1e-8, kNoDecay);
  // m_hat = 1e-8, root = 1e-8, eps = 1e-8: half of lr. Inside the root: 1e-7; on the uncorrected root: 3.07e-5.
  CHECK(-run.at(kParam) == Approx(5.0e-4).epsilon(1e-6));
}

TEST_CASE("A17: the decay stays out of the moments (flagos-ai/FlagGems#4988)") {
  Trajectory run("adamw", {2, 0, 0.1, 0.04});
  run.step(5, 0.5, {{"weight_decay", 0.1}, {"lr", 1e-2}});
  CHECK(run.at(kParam) == Approx(1.99679567).epsilon(3e-9));  // with coupled decay 1.99862771
  CHECK(run.at(kExpAvg) == Approx(0.14).epsilon(1e-7));       // 0.16
  CHECK(run.at(kExpAvgSq) == Approx(0.04021).epsilon(1e-6));  // 0.04045
}

TEST_CASE("A21: the first step takes the gradient whole (ml-explore/mlx#473)") {
  Trajectory run("sgd_momentum", {0, 0, 0});
  const Overrides overrides = {{"momentum", 0.9}, {"dampening", 0.5}, {"lr", 1}};
  run.step(1, 1, overrides);
  CHECK(run.at(0) == -1);
  run.step(2, 1, overrides);
  CHECK(run.at(0) == Approx(-2.4).epsilon(1e-7));  // the other convention gives -0.5 and -1.45
}

TEST_CASE("A21: what the buffer holds at the first step is ignored") {
  for (const double held : {0.0, 123.0, -1e30}) {
    Trajectory run("sgd_momentum", {0, 0, held});
    run.step(1, 1, {{"momentum", 0.9}, {"lr", 1}});
    CHECK(run.at(0) == -1);
    CHECK(run.at(2) == 1);
  }
  Trajectory later("sgd_momentum", {0, 0, 123});
  later.step(1, 1, {{"momentum", 0.5}, {"lr", 1}, {"is_first_step", 0}});
  CHECK(later.at(2) == 62.5);
}

TEST_CASE("A22: momentum lasts from step to step (pytorch_optimizer#516)") {
  Trajectory run("sgd_momentum", {0, 0, 0});
  run.step(1, 1, {{"momentum", 0.9}, {"lr", 1}});
  CHECK(run.at(0) == -1);
  run.step(2, 0, {{"momentum", 0.9}, {"lr", 1}});
  CHECK(run.at(0) == Approx(-1.9).epsilon(1e-7));
}

TEST_CASE("SGD with everything, one step by hand in binary fractions") {
  // g = 3 / 2 + 0.25 * 2 = 2; b = 0.5 * 4 + 2 = 4; u = 2 + 0.5 * 4 = 4; p = 2 - 0.125 * 4 = 1.5
  Trajectory nesterov("sgd_momentum", {2, 0, 4});
  nesterov.step(2, 3, {{"momentum", 0.5}, {"weight_decay", 0.25}, {"lr", 0.125}, {"grad_scale", 2}, {"nesterov", 1}});
  CHECK(nesterov.at(0) == 1.5);
  CHECK(nesterov.at(2) == 4);
  // b = 0.5 * 4 + 0.75 * 2 = 3.5; p = 2 - 0.125 * 3.5 = 1.5625
  Trajectory dampened("sgd_momentum", {2, 0, 4});
  dampened.step(2, 3,
                {{"momentum", 0.5}, {"dampening", 0.25}, {"weight_decay", 0.25}, {"lr", 0.125}, {"grad_scale", 2}});
  CHECK(dampened.at(0) == 1.5625);
  CHECK(dampened.at(2) == 3.5);
}

TEST_CASE("AdamW, one step by hand in binary fractions") {
  // g = 4 / 2 = 2; m = 0.5 * 1 + 0.5 * 2 = 1.5, corrected by 1 - 1/4: 2; v = 0.75 * 1 + 0.25 * 4 = 1.75, corrected by
  // 1 - 9/16: 4; u = 2 / (2 + 2) + 0.25 * 2 = 1; p = 2 - 0.125 = 1.875
  Trajectory run("adamw", {2, 0, 1, 1});
  run.step(2, 4,
           {{"beta1", 0.5}, {"beta2", 0.75}, {"eps", 2}, {"weight_decay", 0.25}, {"lr", 0.125}, {"grad_scale", 2}});
  CHECK(run.at(kParam) == 1.875);
  CHECK(run.at(kExpAvg) == 1.5);
  CHECK(run.at(kExpAvgSq) == 1.75);
}

TEST_CASE("A25: with found_inf every bit stays, whatever the gradient (pytorch/pytorch#95847)") {
  for (const double grad : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(), 1.0}) {
    Trajectory adamw("adamw", {0.3, 0, 0.1, 0.2});
    adamw.step(3, grad, {{"found_inf", 1}});
    CHECK(adamw.at(kParam) == 0.3);
    CHECK(adamw.at(kExpAvg) == 0.1);
    CHECK(adamw.at(kExpAvgSq) == 0.2);
    Trajectory sgd("sgd_momentum", {0.3, 0, 0.1});
    sgd.step(1, grad, {{"found_inf", 1}});
    CHECK(sgd.at(0) == 0.3);
    CHECK(sgd.at(2) == 0.1);
  }
  // The control: without the flag the same gradient changes things.
  Trajectory control("adamw", {0.3, 0, 0.1, 0.2});
  control.step(3, 1, {});
  CHECK(control.at(kParam) != 0.3);
}

/// AdamW for g = 1 and no decay in plain fp32, for the controls of A54.
float fp32_run(int steps, const std::function<float(float)>& rate) {
  float p = 1, m = 0, v = 0;
  const float beta1 = 0.9f, beta2 = 0.999f;
  for (int t = 1; t <= steps; ++t) {
    m = beta1 * m + (1 - beta1);
    v = beta2 * v + (1 - beta2);
    const auto bc1 = static_cast<float>(1 - std::pow(static_cast<double>(beta1), t));
    const auto bc2 = static_cast<float>(1 - std::pow(static_cast<double>(beta2), t));
    p -= rate(1e-3f) * ((m / bc1) / (std::sqrt(v / bc2) + 1e-8f));
  }
  return p;
}

TEST_CASE("A54: a learning rate in bf16 leaves the drift limit, plain fp32 does not (pytorch/pytorch#90752)") {
  Trajectory run("adamw", {1, 0, 0, 0});
  for (int64_t t = 1; t <= 10000; ++t) run.step(t, 1, kNoDecay);
  CHECK(run.at(kParam) == Approx(-9.0).epsilon(1e-6));
  const double limit = run.task.buffers[kParam].tolerance.drift_ratio;
  const double movement = 1 - run.at(kParam);
  const auto drift = [&](float p) { return std::fabs(static_cast<double>(p) - run.at(kParam)) / movement; };
  const float plain = fp32_run(10000, [](float lr) { return lr; });
  const float rounded = fp32_run(10000, [](float) { return 0.00099945068359375f; });  // 1e-3 in bf16
  CHECK(rounded == Approx(-8.9945).epsilon(1e-4));
  CHECK(drift(plain) < 0.5 * limit);
  CHECK(drift(rounded) > 2 * limit);
}

TEST_CASE("A55: far beyond the step where beta1^t underflows in fp32 (pytorch_optimizer#525)") {
  Trajectory run("adamw", {1, 0, 0, 0});
  for (int64_t t = 1; t <= 1000; ++t) run.step(t, 1, kNoDecay);
  CHECK(std::fabs(run.at(kParam)) < 1e-5);
  Trajectory late("adamw", {1, 0, 1, 1});
  late.step(2000000000, 1, kNoDecay);
  CHECK(late.at(kParam) == Approx(0.999).epsilon(1e-9));
}

TEST_CASE("scale is the sum of the magnitudes that move the element, and zero in a skipped step") {
  const Result<TaskSpec> task = load_task("adamw");
  REQUIRE(task.ok());
  const TensorShape shape = make_shape({1});
  for (const double found_inf : {0.0, 1.0}) {
    HostState state, scale;
    // m and g cancel: m' is 0 and its scale is not.
    state.values = {{{2}}, {{1}}, {{-1}}, {{1}}};
    const Overrides overrides = {{"beta1", 0.5},        {"beta2", 0.5}, {"eps", 1},
                                 {"weight_decay", 0.5}, {"lr", 0.25},   {"found_inf", found_inf}};
    const HyperValues hyper = hyper_from_defaults(task.value(), 1000, overrides).value();
    REQUIRE(oracle_step(task.value(), {&shape, 1}, hyper, state, &scale, 1).ok());
    if (found_inf != 0) {
      for (const size_t b : {kParam, kExpAvg, kExpAvgSq}) CHECK(scale.values[b][0][0] == 0);
    } else {
      CHECK(state.values[kExpAvg][0][0] == 0);
      CHECK(scale.values[kExpAvg][0][0] == 1);
      CHECK(scale.values[kExpAvgSq][0][0] == 1);
      CHECK(scale.values[kParam][0][0] == Approx(0.25 * (1.0 / 2 + 0.5 * 2)).epsilon(1e-12));
    }
    CHECK(scale.values[kGrad][0].empty());
  }
}

TEST_CASE("threads and tensor boundaries change nothing") {
  const Result<TaskSpec> task = load_task("adamw");
  REQUIRE(task.ok());
  const std::vector<TensorShape> shapes = tensor_list("[100000,0,70001,1,5]").value();
  const HyperValues hyper = hyper_at(draw_hyper(task.value(), "mixed", 3).value(), 12, false, false).value();
  HostState start;
  for (const BufferSpec& buffer : task.value().buffers) {
    start.values.emplace_back();
    for (size_t t = 0; t < shapes.size(); ++t)
      start.values.back().push_back(to_double(buffer.dtype, make_values(buffer, shapes[t], "mixed", t)));
  }
  HostState one = start, four = start, one_scale, four_scale;
  REQUIRE(oracle_step(task.value(), shapes, hyper, one, &one_scale, 1).ok());
  REQUIRE(oracle_step(task.value(), shapes, hyper, four, &four_scale, 4).ok());
  CHECK(one.values == four.values);
  CHECK(one_scale.values == four_scale.values);
  CHECK(one.values[kParam] != start.values[kParam]);
  CHECK(one.values[kGrad] == start.values[kGrad]);
  // Every tensor alone gives what it gave in the list.
  for (size_t t = 0; t < shapes.size(); ++t) {
    HostState alone;
    for (const auto& buffer : start.values) alone.values.push_back({buffer[t]});
    REQUIRE(oracle_step(task.value(), {&shapes[t], 1}, hyper, alone, nullptr, 2).ok());
    CHECK(alone.values[kParam][0] == one.values[kParam][t]);
  }
}

TEST_CASE("a task without an oracle is an error with the file's name") {
  TaskSpec task = load_task("adamw").value();
  task.id = "adamv";
  HostState state;
  const Result<void> done = oracle_step(task, {}, {}, state, nullptr, 1);
  REQUIRE(!done.ok());
  CHECK_THAT(to_text(done.error()), Catch::Contains("tasks/adamv/oracle.cc"));
}

}  // namespace
}  // namespace stepbench
