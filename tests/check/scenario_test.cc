// Single public faults as hand-made trajectories: the end value of right kernels, and that of kernels with the fault as
// the report gives it.
#include "tests/check/fixtures.h"
#include "tests/check/public_faults.h"

using namespace stepbench;
using namespace stepbench::testing;

namespace {

/// Counts steps in bf16, where 256 + 1 is 256.
void step_in_bf16(const AdamwLaunch& a) {
  Fp32Adamw adamw(a);
  const double t = std::min<double>(a.i("step"), 256);
  adamw.bias1 = 1 - std::pow(static_cast<double>(adamw.beta1), t);
  adamw.bias2 = 1 - std::pow(static_cast<double>(adamw.beta2), t);
  for (int64_t k = 0; k < a.n; ++k) adamw.update(a, k);
}

void betas_in_bf16(const AdamwLaunch& a) {
  Fp32Adamw adamw(a);
  adamw.beta1 = 0.8984375f;   // 0.9, truncated
  adamw.beta2 = 0.99609375f;  // 0.999
  for (int64_t k = 0; k < a.n; ++k) adamw.update(a, k);
}

void eps_inside_root(const AdamwLaunch& a) {
  Fp32Adamw adamw(a);
  adamw.eps_inside = true;
  for (int64_t k = 0; k < a.n; ++k) adamw.update(a, k);
}

void decay_in_gradient(const AdamwLaunch& a) {
  Fp32Adamw adamw(a);
  for (int64_t k = 0; k < a.n; ++k) a.grad[k] += adamw.weight_decay * a.param[k];
  adamw.weight_decay = 0;
  for (int64_t k = 0; k < a.n; ++k) adamw.update(a, k);
}

void lr_in_bf16(const AdamwLaunch& a) {
  Fp32Adamw adamw(a);
  adamw.lr = 0.00099945068359375f;  // 1e-3
  for (int64_t k = 0; k < a.n; ++k) adamw.update(a, k);
}

}  // namespace

TEST_CASE("public faults of AdamW, right and broken") {
  const TaskSpec task = adamw_task();
  const Candidate candidate = adamw_candidate();
  const CompiledModule module = fake_module();
  struct {
    const char* name;
    AdamwBody broken;
    double broken_param;  // as reported
  } const broken_rows[] = {
      {"A11 step counter beyond 256", step_in_bf16, 0.20410},
      {"A14 betas", betas_in_bf16, 0.9486},
      {"A16 gradient near eps", eps_inside_root, -1.0e-7},
      {"A17 decay on the weight", decay_in_gradient, 1.99862771},
      {"A54 ten thousand steps", lr_in_bf16, -8.9945},
  };
  for (const PublicFault& fault : public_faults()) {
    if (fault.task != task.id) continue;
    DYNAMIC_SECTION(fault.name) {
      const Scenario made = scenario_of(task, fault);
      const auto run = [&](const AdamwBody& body) {
        const CheckContext context{task, candidate, module, fake_devices(task, body), 1, 1, "", nullptr};
        Result<ScenarioResult> result = run_scenario(context, made);
        REQUIRE(result.ok());
        REQUIRE(!result.value().failure);
        CHECK(result.value().counters.launches == static_cast<uint64_t>(fault.steps));
        return final_param(task, result.value());
      };
      CHECK(run(right) == Approx(fault.right_param).margin(fault.margin).epsilon(0));
      CHECK(run(right_other_order) == Approx(fault.right_param).margin(fault.margin).epsilon(0));
      for (const auto& row : broken_rows) {
        if (std::string(row.name) != fault.name) continue;
        const double broken = run(row.broken);
        CHECK(broken == Approx(row.broken_param).epsilon(1e-3));
        CHECK(std::fabs(broken - fault.right_param) > 1.2 * fault.margin);
      }
    }
  }
}

TEST_CASE("a scenario takes new gradients where a step has them") {
  const TaskSpec task = adamw_task();
  const Candidate candidate = adamw_candidate();
  const CompiledModule module = fake_module();
  std::vector<float> seen;
  const OpenDevice open = fake_devices(task, [&](const AdamwLaunch& a) { seen.push_back(a.grad[0]); });
  const CheckContext context{task, candidate, module, open, 1, 1, "", nullptr};
  const PublicFault fault{"", "adamw", {{"param", 1}}, {1, 10, 20}, 1, 4, plain_adam(), 0, 0};
  Result<ScenarioResult> result = run_scenario(context, scenario_of(task, fault));
  REQUIRE(result.ok());
  CHECK(seen == std::vector<float>{1, 10, 20, 20});
}
