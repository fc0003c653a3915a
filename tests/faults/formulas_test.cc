// A11, A13, A14, A16, A17, A21, A22, A25, A54, A55: public faults in step counters, bias corrections and
// hyperparameters, as real kernels on the VM. Each row shows the end value of the right and of the broken kernel,
// worked out independently, and the verdict on both.
#include <limits>

#include "tests/faults/kernels.h"

using namespace stepbench;
using namespace stepbench::testing;

namespace {

AdamwText broken_first(const std::string& first) {
  AdamwText text;
  text.first = first;
  return text;
}
AdamwText broken_denominator(const std::string& denominator) {
  AdamwText text;
  text.denominator = denominator;
  return text;
}

const std::string kCorrections =
    "h.bias_correction1 = 1.0f - powf(h.beta1, t); h.bias_correction2 = 1.0f - powf(h.beta2, t);";

/// Adam with L2 decay: the decay joins the gradient.
AdamwText coupled_decay() {
  AdamwText text;
  text.gradient = "g[i] / h.grad_scale + h.weight_decay * p[i]";
  text.update = "mi / h.bias_correction1 / (DENOMINATOR)";
  return text;
}

/// Divides by b^t instead of 1 - b^t from step `after` + 1 on.
AdamwText wrong_correction_after(int after) {
  return broken_first("if (h.step > " + std::to_string(after) +
                      ") { h.bias_correction1 = powf(h.beta1, (float)h.step); h.bias_correction2 = powf(h.beta2, "
                      "(float)h.step); }");
}

struct Row {
  const char* name;
  AdamwText broken;
  PublicFault trajectory;    // start, gradient, steps, hyperparameters; right_param and margin of the right kernel
  double broken_param;       // NaN: not a number
  double broken_margin;      // relative
  bool with_verdict = true;  // false: a second trajectory of a kernel whose verdict another row shows, or shown below
};

std::vector<Row> rows() {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Overrides one = {{"param", 1}};
  const AdamwText counter_bf16 = broken_first("const float t = min(h.step, 256);" + kCorrections);
  const AdamwText counter_fp16 = broken_first("const float t = min(h.step, 2048);" + kCorrections);
  const AdamwText betas = broken_first("h.beta1 = 0.8984375f; h.beta2 = 0.99609375f;");
  const AdamwText inside = broken_denominator("sqrtf(vi / h.bias_correction2 + h.eps)");
  const AdamwText uncorrected = broken_denominator("(sqrtf(vi) + h.eps) / h.bias_correction2_sqrt");
  // lr = 0.001 in bf16: 131 * 2^-17.
  const AdamwText lr_bf16 = broken_first("h.lr = __uint_as_float(__float_as_uint(h.lr) & 0xffff0000u);");
  // p - lr * (0.1 / 0.9) / (sqrt(0.001 / 0.999) + 1e-8)
  const double after_one = 1 - 1e-3 * (0.1 / 0.9) / (std::sqrt(0.001 / 0.999) + 1e-8);
  return {
      // Adding 1 to 256 in bf16 gives 256.
      {"A11 counter in bf16",
       counter_bf16,
       {"", "adamw", one, {0.1f}, 1, 1000, plain_adam(), 4.2e-7, 1e-5},
       0.20410,
       1e-4},
      {"A11 counter in fp16",
       counter_fp16,
       {"", "adamw", one, {0.1f}, 1, 4000, plain_adam(), -3.0000, 5e-5},
       -2.9245,
       1e-4},
      {"A11 counter in bf16, 100 steps cannot see it",
       counter_bf16,
       {"", "adamw", one, {0.1f}, 1, 100, plain_adam(), 0.9, 1e-5},
       0.9,
       1e-5,
       false},
      {"A13 counts from zero",
       broken_first("const float t = h.step - 1;" + kCorrections),
       {"", "adamw", one, {-2}, 1, 1, plain_adam(), 1.000999999995, 1.2e-7},
       nan,
       0},
      {"A14 betas in bf16, 10 steps",
       betas,
       {"", "adamw", one, {1}, 1, 10, plain_adam({{"lr", 1e-2}}), 0.9000000010, 2e-6},
       0.9486,
       1e-4},
      {"A14 betas in bf16, 100 steps",
       betas,
       {"", "adamw", one, {1}, 1, 100, plain_adam({{"lr", 1e-2}}), 1.0e-8, 1e-5},
       0.4746,
       2e-4,
       false},
      {"A16 eps inside the root",
       inside,
       {"", "adamw", {{"param", 0}}, {1e-8f}, 1, 1, plain_adam(), -5.0000e-4, 1e-8},
       -1.0e-7,
       1e-3},
      {"A16 eps on the uncorrected root",
       uncorrected,
       {"", "adamw", {{"param", 0}}, {1e-8f}, 1, 1, plain_adam(), -5.0000e-4, 1e-8},
       -3.0653e-5,
       1e-4},
      // A gradient of 1 hides both.
      {"A16 eps inside the root, gradient 1",
       inside,
       {"", "adamw", {{"param", 0}}, {1}, 1, 1, plain_adam(), -1e-3, 1e-9},
       -1e-3,
       1e-6,
       false},
      {"A16 eps on the uncorrected root, gradient 1",
       uncorrected,
       {"", "adamw", {{"param", 0}}, {1}, 1, 1, plain_adam(), -1e-3, 1e-9},
       -1e-3,
       1e-6,
       false},
      {"A17 decay in the gradient",
       coupled_decay(),
       {"",
        "adamw",
        {{"param", 2}, {"exp_avg", 0.1}, {"exp_avg_sq", 0.04}},
        {0.5f},
        5,
        1,
        plain_adam({{"lr", 1e-2}, {"weight_decay", 0.1}}),
        1.99679567,
        3e-7},
       1.99862771,
       2e-7},
      {"A54 lr in bf16", lr_bf16, {"", "adamw", one, {1}, 1, 10000, plain_adam(), -9.0000, 2e-4}, -8.9945, 1e-5},
      {"A55 divides by b^t",
       wrong_correction_after(0),
       {"", "adamw", one, {1}, 1, 1, plain_adam(), 0.999, 2e-7},
       after_one,
       1e-6},
      {"A55 divides by b^t after step 400",
       wrong_correction_after(400),
       {"", "adamw", one, {1}, 1, 400, plain_adam(), 0.6, 1e-5},
       0.6,
       2e-5},
      // 0.9^1000 is 0 in fp32: p becomes infinite, and then its decay 0 * infinity.
      {"A55 divides by b^t after step 400, 1000 steps",
       wrong_correction_after(400),
       {"", "adamw", one, {1}, 1, 1000, plain_adam(), 1.0e-8, 1e-5},
       nan,
       0,
       false},
  };
}

}  // namespace

TEST_CASE("A11 A13 A14 A16 A17 A54 A55: end values and verdicts of AdamW") {
  if (!can_compile()) return;
  const TaskSpec task = real_task("adamw");
  const Compiled good = compiled(task, adamw_text({}));
  check_passed(evaluated(task, good.candidate));
  for (const Row& row : rows()) {
    INFO(row.name);
    CHECK(end_of(good, row.trajectory).at("param") ==
          Approx(row.trajectory.right_param).margin(row.trajectory.margin).epsilon(0));
    const Compiled broken = compiled(task, adamw_text(row.broken));
    const double param = end_of(broken, row.trajectory).at("param");
    if (std::isnan(row.broken_param)) {
      CHECK(std::isnan(param));
    } else {
      CHECK(param == Approx(row.broken_param).epsilon(row.broken_margin).margin(0));
    }
    if (!row.with_verdict) continue;
    const EvalRecord record = evaluated(task, broken.candidate);
    check_failure(record, Verdict::kWrongResult);
    CHECK(record.failure->step >= 1);
    CHECK(record.failure->element >= 0);
  }
}

TEST_CASE("A17: the moments are outputs too") {
  if (!can_compile()) return;
  const TaskSpec task = real_task("adamw");
  const PublicFault step{"", "adamw", {{"param", 2}, {"exp_avg", 0.1}, {"exp_avg_sq", 0.04}}, {0.5f},
                         5,  1,       plain_adam({{"lr", 1e-2}, {"weight_decay", 0.1}}),      0,
                         0};
  const std::map<std::string, double> good = end_of(compiled(task, adamw_text({})), step);
  CHECK(good.at("exp_avg") == Approx(0.14).epsilon(1e-6));
  CHECK(good.at("exp_avg_sq") == Approx(0.04021).epsilon(1e-6));
  const std::map<std::string, double> broken = end_of(compiled(task, adamw_text(coupled_decay())), step);
  CHECK(broken.at("exp_avg") == Approx(0.16).epsilon(1e-6));
  CHECK(broken.at("exp_avg_sq") == Approx(0.04045).epsilon(1e-6));
  AdamwText not_stored;
  not_stored.store = "p[i] -= h.lr * u; m[i] = mi;";
  const EvalRecord record = evaluated(task, candidate_of(adamw_text(not_stored)));
  check_failure(record, Verdict::kWrongResult);
  CHECK(record.failure->buffer == "exp_avg_sq");
}

TEST_CASE(
    "A54: the limit on drift separates a biased learning rate from plain fp32, a per-step absolute limit does not") {
  if (!can_compile()) return;
  const TaskSpec task = real_task("adamw");
  const PublicFault steps{"", "adamw", {{"param", 1}}, {1}, 1, 10000, plain_adam(), 0, 0};
  const double movement = 10.0;
  const double limit = task.buffers[buffer_index(task, "param")].tolerance.drift_ratio;
  const double good = end_of(compiled(task, adamw_text({})), steps).at("param");
  CHECK(std::fabs(good + 9.0) / movement < 0.1 * limit);  // 4e-6 in the report
  const Compiled broken =
      compiled(task, adamw_text(broken_first("h.lr = __uint_as_float(__float_as_uint(h.lr) & 0xffff0000u);")));
  const double drifted = end_of(broken, steps).at("param");
  CHECK(std::fabs(drifted + 9.0) / movement > 2 * limit);  // 5.5e-4
  CHECK(std::fabs(drifted + 9.0) / 10000 < 1e-6);          // per step
  // Found by the check of drift alone too.
  const TaskSpec drift = with_drift(task, 300);
  const EvalRecord record = evaluated(drift, broken.candidate);
  REQUIRE(record.failure);
  CHECK((record.verdict == Verdict::kDrift || record.verdict == Verdict::kWrongResult));
  CHECK(record.failure->check == "drift");
  check_passed(evaluated(drift, candidate_of(adamw_text({}))));
}

TEST_CASE("A55: the step at which a kernel leaves the band is named, even beyond the underflow of 0.9^t") {
  if (!can_compile()) return;
  const TaskSpec task = with_drift(real_task("adamw"), 1000);
  check_passed(evaluated(task, candidate_of(adamw_text({}))));
  for (const int after : {400, 830}) {
    INFO(after);
    const EvalRecord record = evaluated(task, candidate_of(adamw_text(wrong_correction_after(after))));
    REQUIRE(record.failure);
    INFO(record.failure->message);
    CHECK(record.failure->check == "drift");
    CHECK(record.failure->step == after + 1);
  }
}

TEST_CASE("A21 A22: momentum starts with the raw gradient and lasts") {
  if (!can_compile()) return;
  const TaskSpec task = real_task("sgd_momentum");
  const Overrides sgd = {{"lr", 1},           {"momentum", 0.9}, {"dampening", 0},
                         {"weight_decay", 0}, {"nesterov", 0},   {"grad_scale", 1}};
  const Overrides dampened = changed(sgd, {{"dampening", 0.5}});
  const char* const zero_start = "h.momentum * (h.is_first_step != 0 ? 0.0f : old) + (1.0f - h.dampening) * x";
  const struct {
    const char* name;
    const char* momentum;  // the broken kernel's
    Overrides hyper;
    std::vector<float> grads;
    double right[2], broken[2];  // after one and two steps
  } rows[] = {
      {"A21", zero_start, dampened, {1}, {-1, -2.4}, {-0.5, -1.45}},
      {"A22", "x", sgd, {1, 0}, {-1, -1.9}, {-1, -1}},
  };
  const Compiled good = compiled(task, sgd_text(kRightMomentum));
  check_passed(evaluated(task, good.candidate));
  for (const auto& row : rows) {
    INFO(row.name);
    const Compiled broken = compiled(task, sgd_text(row.momentum));
    for (const int64_t steps : {1, 2}) {
      const PublicFault fault{"", "sgd_momentum", {{"param", 0}}, row.grads, 1, steps, row.hyper, 0, 0};
      CHECK(end_of(good, fault).at("param") == Approx(row.right[steps - 1]).epsilon(1e-6));
      CHECK(end_of(broken, fault).at("param") == Approx(row.broken[steps - 1]).epsilon(1e-6));
    }
    const EvalRecord record = evaluated(task, broken.candidate);
    check_failure(record, Verdict::kWrongResult);
  }
}

TEST_CASE("A25: with the overflow flag set nothing changes, with or without a scale") {
  if (!can_compile()) return;
  const TaskSpec task = real_task("adamw");
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  AdamwText only_with_scale;
  only_with_scale.guard = "if (i >= n || (h.found_inf != 0 && h.grad_scale != 1.0f)) return;";
  AdamwText never;
  never.guard = "if (i >= n) return;";
  const Compiled good = compiled(task, adamw_text({}));
  const auto changes = [&](const Compiled& kernel, double scale) {
    Scenario scenario;
    scenario.tensors = {make_shape({5})};
    const Bytes p = bytes_of({1.5f, -0.25f, 3e-20f, 0.0f, -7.0f});
    const Bytes m = bytes_of({0.1f, -0.2f, 0.3f, 1e-30f, -0.0f}), v = bytes_of({0.01f, 0.02f, 1e-12f, 4.0f, 0.0f});
    scenario.initial = {{p}, {bytes_of({inf, -inf, nan, 1.0f, -nan})}, {m}, {v}};
    const Result<HyperValues> hyper =
        hyper_from_defaults(task, 7, Overrides{{"found_inf", 1}, {"grad_scale", scale}, {"weight_decay", 0.1}});
    REQUIRE(hyper.ok());
    scenario.steps = {{hyper.value(), {}}};
    const ScenarioResult result = run(kernel, scenario);
    REQUIRE(!result.failure);
    const BufferBytes& end = result.final_buffers;
    return !(end[0][0] == p && end[2][0] == m && end[3][0] == v);
  };
  for (const double scale : {1.0, 1024.0}) CHECK_FALSE(changes(good, scale));
  const Compiled broken = compiled(task, adamw_text(only_with_scale));
  CHECK(changes(broken, 1));
  CHECK_FALSE(changes(broken, 1024));
  CHECK(changes(compiled(task, adamw_text(never)), 1024));
  check_failure(evaluated(task, candidate_of(adamw_text(never))), Verdict::kWrongResult);

  // No trajectory draws a scale of 1; the suites skip a step with the defaults too.
  const EvalRecord record = evaluated(task, broken.candidate);
  check_failure(record, Verdict::kWrongResult);
  CHECK(record.failure->message.find("found_inf") != std::string::npos);
  check_passed(evaluated(task, good.candidate));
}

TEST_CASE("A25: gradients are divided by the scale exactly once") {
  if (!can_compile()) return;
  const TaskSpec task = real_task("adamw");
  AdamwText twice;
  twice.gradient = "g[i] / h.grad_scale / h.grad_scale";
  AdamwText ignored;
  ignored.gradient = "g[i]";
  const Compiled good = compiled(task, adamw_text({}));
  // Powers of two: exactly the same numbers with and without the scale.
  const PublicFault plain{"", "adamw", {{"param", 1}}, {0.1f}, 1, 3, plain_adam(), 0, 0};
  const PublicFault scaled{"", "adamw", {{"param", 1}}, {102.4f}, 1, 3, plain_adam({{"grad_scale", 1024}}), 0, 0};
  CHECK(end_of(good, plain) != end_of(good, scaled));  // the gradient buffer differs, nothing else does
  for (const char* state : {"param", "exp_avg", "exp_avg_sq"})
    CHECK(end_of(good, plain).at(state) == end_of(good, scaled).at(state));
  for (const AdamwText& text : {twice, ignored}) {
    const Compiled broken = compiled(task, adamw_text(text));
    CHECK(end_of(broken, plain).at("exp_avg") == end_of(good, plain).at("exp_avg"));
    CHECK(end_of(broken, scaled).at("exp_avg") != end_of(good, scaled).at("exp_avg"));
    check_failure(evaluated(task, broken.candidate), Verdict::kWrongResult);
  }
}

TEST_CASE("A11: half of the trajectories remember thousands of steps, so that late counters show") {
  const TaskSpec task = real_task("adamw");
  size_t beta2 = 0;
  while (task.hyper[beta2].name != "beta2") ++beta2;
  int slow = 0, fast = 0;
  constexpr int kDraws = 2000;
  for (uint64_t seed = 0; seed < kDraws; ++seed) {
    const Result<HyperTrajectory> drawn = draw_hyper(task, "gaussian", seed);
    REQUIRE(drawn.ok());
    const double value = drawn.value().primary[beta2];
    REQUIRE(value >= task.hyper[beta2].min);
    REQUIRE(value <= task.hyper[beta2].max);
    if (value > 0.995) ++slow;
    if (value < 0.98) ++fast;
  }
  // Of log(0.05 / 0.0005): log(0.005 / 0.0005) is a half and log(0.05 / 0.02) a fifth; octaves at the ends are cut.
  CHECK(slow > kDraws * 2 / 5);
  CHECK(slow < kDraws * 3 / 5);
  CHECK(fast > kDraws / 8);
  CHECK(fast < kDraws * 3 / 10);
}
