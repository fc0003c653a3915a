// A11, A13, A14, A16, A17, A19, A24, A38, A54, A55 for the optimizers beside AdamW, and two traps of RMSprop and RAdam:
// the shipped kernel with one public fault edited in, as real kernels on the VM. Right and broken end values were
// worked out independently; formulas_test.cc has AdamW's.
#include <limits>

#include "tests/faults/kernels.h"

using namespace stepbench;
using namespace stepbench::testing;

namespace {

struct Edit {
  std::string find, replace;
};

/// Text of a shipped kernel, reference_kernels/<task>/naive.cu if none is named, with every edit made exactly once.
std::string edited(const std::string& task, const std::vector<Edit>& edits, std::string path = "") {
  if (path.empty()) path = "reference_kernels/" + task + "/naive.cu";
  std::ifstream file(std::string(STEPBENCH_SOURCE_ROOT) + "/" + path);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  REQUIRE(!text.empty());
  for (const Edit& edit : edits) {
    const size_t at = text.find(edit.find);
    INFO(edit.find);
    REQUIRE(at != std::string::npos);
    REQUIRE(text.find(edit.find, at + 1) == std::string::npos);
    text.replace(at, edit.find.size(), edit.replace);
  }
  return text;
}

/// The kernel's copy of Hyper is changed before it is used.
Edit first(const std::string& statements) {
  return {"const Hyper h = *hyper;\n", "Hyper h = *hyper;\n  " + statements + "\n"};
}

const std::string kCorrections =
    "h.bias_correction1 = 1.0f - powf(h.beta1, t); h.bias_correction2 = 1.0f - powf(h.beta2, t);";
const char* const kDenominator = "sqrtf(v / h.bias_correction2) + h.eps";

struct Row {
  const char* name;
  std::vector<Edit> broken;
  PublicFault trajectory;
  double broken_param;  // NaN: not a number
  double broken_margin;
};

void check_rows(const std::string& id, const std::vector<Row>& rows) {
  if (!can_compile()) return;
  const TaskSpec task = real_task(id);
  const Compiled good = compiled(task, edited(id, {}));
  for (const Row& row : rows) {
    INFO(row.name);
    CHECK(end_of(good, row.trajectory).at("param") ==
          Approx(row.trajectory.right_param).margin(row.trajectory.margin).epsilon(0));
    const Compiled broken = compiled(task, edited(id, row.broken));
    const double param = end_of(broken, row.trajectory).at("param");
    if (std::isnan(row.broken_param))
      CHECK(std::isnan(param));
    else
      CHECK(param == Approx(row.broken_param).margin(row.broken_margin).epsilon(0));
    check_failure(evaluated(task, broken.candidate), Verdict::kWrongResult);
  }
}

}  // namespace

TEST_CASE("A11 A13 A14 A16 A17 A38 A54 A55: end values and verdicts of Adam") {
  const Overrides one = {{"param", 1}}, none = {{"param", 0}};
  const Overrides state = {{"param", 2}, {"exp_avg", 0.1}, {"exp_avg_sq", 0.04}};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  check_rows(
      "adam",
      {
          {"A11 counter in bf16",
           {first("const float t = min(h.step, 256);" + kCorrections)},
           {"", "adam", one, {0.1f}, 1, 1000, plain_adam(), 4.2e-7, 1e-5},
           0.20410,
           1e-4},
          {"A13 counts from zero",
           {first("const float t = h.step - 1;" + kCorrections)},
           {"", "adam", one, {-2}, 1, 1, plain_adam(), 1.000999999995, 1.2e-7},
           nan,
           0},
          {"A14 betas truncated to bf16",
           {first("h.beta1 = 0.8984375f; h.beta2 = 0.99609375f;")},
           {"", "adam", one, {1}, 1, 10, plain_adam({{"lr", 1e-2}}), 0.9000000010, 2e-6},
           0.9486,
           1e-4},
          {"A16 eps inside the root",
           {{kDenominator, "sqrtf(v / h.bias_correction2 + h.eps)"}},
           {"", "adam", none, {1e-8f}, 1, 1, plain_adam(), -5.0e-4, 1e-9},
           -1.0e-7,
           1e-10},
          {"A16 eps on the uncorrected root",
           {{kDenominator, "(sqrtf(v) + h.eps) / h.bias_correction2_sqrt"}},
           {"", "adam", none, {1e-8f}, 1, 1, plain_adam(), -5.0e-4, 1e-9},
           -3.0653e-5,
           3e-9},
          {"A17 decay on the weight instead of in the gradient",
           {{"const float p = param[i];", "const float p = param[i] * (1.0f - h.lr * h.weight_decay);"},
            {" + h.weight_decay * p;", ";"}},
           {"", "adam", state, {0.5f}, 5, 1, plain_adam({{"lr", 1e-2}, {"weight_decay", 0.1}}), 1.99862771, 3e-7},
           1.99679567,
           3e-7},
          {"A38 denormal second moment flushed",
           {{kDenominator, "sqrtf((v < 1.17549435e-38f ? 0.0f : v) / h.bias_correction2) + h.eps"},
            {"exp_avg_sq[i] = v;", "exp_avg_sq[i] = v < 1.17549435e-38f ? 0.0f : v;"}},
           {"", "adam", one, {1e-19f}, 1, 1, plain_adam({{"eps", 1e-25}}), 0.999000001, 2e-7},
           -999,
           0.01},
          {"A54 lr in bf16",
           {first("h.lr = __uint_as_float(__float_as_uint(h.lr) & 0xffff0000u);")},
           {"", "adam", one, {1}, 1, 10000, plain_adam(), -9.0000, 2e-4},
           -8.9945,
           1e-4},
          {"A55 divides by b^t",
           {first("h.bias_correction1 = powf(h.beta1, (float)h.step); h.bias_correction2 = powf(h.beta2, "
                  "(float)h.step);")},
           {"", "adam", one, {1}, 1, 1, plain_adam(), 0.999, 2e-7},
           1 - 1e-3 * (0.1 / 0.9) / (std::sqrt(0.001 / 0.999) + 1e-8),
           1e-6},
      });
}

TEST_CASE("A17: Adam's moments hold the decay") {
  if (!can_compile()) return;
  const TaskSpec task = real_task("adam");
  const PublicFault step{"", "adam", {{"param", 2}, {"exp_avg", 0.1}, {"exp_avg_sq", 0.04}}, {0.5f},
                         5,  1,      plain_adam({{"lr", 1e-2}, {"weight_decay", 0.1}}),      0,
                         0};
  const std::map<std::string, double> good = end_of(compiled(task, edited("adam", {})), step);
  CHECK(good.at("exp_avg") == Approx(0.16).epsilon(1e-6));
  CHECK(good.at("exp_avg_sq") == Approx(0.04045).epsilon(1e-6));
  const std::map<std::string, double> broken =
      end_of(compiled(task, edited("adam", {{" + h.weight_decay * p;", ";"}})), step);
  CHECK(broken.at("exp_avg") == Approx(0.14).epsilon(1e-6));
  CHECK(broken.at("exp_avg_sq") == Approx(0.04021).epsilon(1e-6));
}

TEST_CASE("A19: Lion's decay stays out of the sign") {
  const Overrides hyper = {{"lr", 1e-2}, {"beta1", 0.9}, {"beta2", 0.99}, {"weight_decay", 0.1}, {"grad_scale", 1}};
  check_rows("lion", {{"decay added to the gradient before the sign",
                       {{"grad[i] / h.grad_scale;", "grad[i] / h.grad_scale + h.weight_decay * p;"},
                        {"(sign + h.weight_decay * p)", "sign"}},
                       {"", "lion", {{"param", 10}}, {-0.1f}, 1, 1, hyper, 10.000, 2e-6},
                       9.990,
                       2e-6}});
}

TEST_CASE("A24: AMSGrad's maximum is over raw moments and lasts") {
  const PublicFault trajectory{"",        "amsgrad", {{"param", 0}}, {1, 0.01f}, 1, 100, plain_adam({{"lr", 1e-2}}),
                               -0.125375, 2e-6};
  const Edit corrected[] = {
      {"fmaxf(max_exp_avg_sq[i], v)", "fmaxf(max_exp_avg_sq[i], v / h.bias_correction2)"},
      {"sqrtf(largest / h.bias_correction2)", "sqrtf(largest)"},
  };
  check_rows("amsgrad",
             {{"maximum of corrected moments", {corrected[0], corrected[1]}, trajectory, -0.039795, 2e-6},
              {"maximum not persisted", {{"max_exp_avg_sq[i] = largest;", ""}}, trajectory, -0.127376, 2e-6}});
}

TEST_CASE("RMSprop: a constant gradient makes the variance negative in fp32, and its root NaN") {
  if (!can_compile()) return;
  const TaskSpec task = real_task("rmsprop");
  // Every operation rounded by itself: an FMA rounds q - a^2 once, and it does not fall below zero here.
  const std::string path = "tasks/rmsprop/variants/uncontracted.cu";
  const std::string variance = "__fsub_rn(q, __fmul_rn(a, a))";
  const Compiled good = compiled(task, edited("rmsprop", {}, path));
  const Compiled unclamped = compiled(task, edited("rmsprop", {{"fmaxf(" + variance + ", 0.0f)", variance}}, path));
  // Weight decay would move the gradient away from constant before the variance has vanished. In exact fp32 arithmetic
  // it is first negative at step 138.
  const auto after = [&](const Compiled& kernel, int64_t steps) {
    const Overrides hyper = {{"lr", 1e-3},      {"alpha", 0.9},      {"eps", 1e-8},
                             {"momentum", 0.5}, {"weight_decay", 0}, {"grad_scale", 1}};
    return end_of(kernel, {"", "rmsprop", {{"param", 1}}, {0.05f}, 1, steps, hyper, 0, 0}).at("param");
  };
  CHECK(after(unclamped, 137) == after(good, 137));
  CHECK(std::isnan(after(unclamped, 138)));
  CHECK(std::isfinite(after(good, 138)));
  CHECK(std::isfinite(after(good, 1000)));
}

TEST_CASE("RAdam: five steps of momentum, then the rectified step") {
  if (!can_compile()) return;
  const TaskSpec task = real_task("radam");
  const Overrides hyper = {{"lr", 1e-3}, {"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}, {"grad_scale", 1}};
  const auto after = [&](const Compiled& kernel, int64_t steps) {
    return end_of(kernel, {"", "radam", {{"param", 1}}, {2}, 1, steps, hyper, 0, 0}).at("param");
  };
  // With a constant gradient g every corrected m is g: steps 1 to 5 move by lr * g, step 6 by lr * r, where
  // m_hat / sqrt(v_hat) is 1. r for beta2 = 0.999 at step 6 is 0.02582094656769 (tests/task/schedules_test.cc).
  const Compiled good = compiled(task, edited("radam", {}));
  CHECK(after(good, 5) == Approx(1 - 5 * 2e-3).margin(3e-7));
  CHECK(after(good, 6) == Approx(1 - 5 * 2e-3 - 1e-3 * 0.02582094656769).margin(3e-7));
  const Compiled late = compiled(task, edited("radam", {{"if (h.rectified != 0)", "if (h.step > 6)"}}));
  CHECK(after(late, 5) == after(good, 5));
  CHECK(after(late, 6) == Approx(1 - 6 * 2e-3).margin(3e-7));
  const Compiled always = compiled(task, edited("radam", {{"if (h.rectified != 0) u *= h.rectification * ", "u *= "}}));
  CHECK(after(always, 5) == Approx(1 - 5 * 1e-3).margin(3e-7));
}
