// Hyper fields that follow a schedule of their own: NAdam's product of momenta and RAdam's rectification. Expected
// values were computed with mpmath (40 digits) from the formulas of the papers, with the fp32 values of the betas.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <set>

#include "harness/stages.h"

namespace stepbench {
namespace {

TaskSpec loaded(const std::string& id) {
  const Result<TaskSpec> task = load_task(id);
  if (!task.ok()) FAIL(to_text(task.error()));
  return task.value();
}

double field(const TaskSpec& task, const HyperValues& values, const std::string& name) {
  for (size_t i = 0; i < task.hyper.size(); ++i)
    if (task.hyper[i].name == name) return values.values[i];
  FAIL("no field " << name);
  return 0;
}

constexpr double kFp32 = 0x1p-24;  // half a unit in the last place, of one

TEST_CASE("NAdam: momenta, their product and the two factors") {
  const TaskSpec task = loaded("nadam");
  const struct {
    double beta1, psi;
    int64_t step;
    double mu, mu_next, product, grad_factor, moment_factor;
  } rows[] = {
      {0.9, 0.004, 1, 0.45007346167191, 0.450146923268374, 0.45007346167191, 1.0, 0.564517761012183},
      {0.9, 0.004, 2, 0.450146923268374, 0.450220372870421, 0.202599184016357, 0.689556701861846, 0.495408722922252},
      {0.9, 0.004, 10, 0.450734184405542, 0.45080753812273, 0.000343574481052923, 0.549454594171512, 0.450877372700132},
      {0.9, 0.004, 60, 0.454387236935931, 0.454459994202226, 2.09737605846288e-21, 0.545612763064069,
       0.454459994202226},
      {0.95, 0.001, 1, 0.475019384091837, 0.475038773352615, 0.475019384091837, 1.0, 0.613469857352429},
      {0.95, 0.001, 3, 0.4750581618219, 0.475077549499725, 0.107198121498226, 0.587971251873948, 0.500570304050295},
      {0.95, 0.001, 100, 0.476935086442999, 0.476954397502578, 5.73649439765324e-33, 0.523064913557001,
       0.476954397502578},
      {0.8, 0.05, 1, 0.40081561322415, 0.401629557449839, 0.40081561322415, 1.0, 0.478688552087089},
      {0.8, 0.05, 5, 0.404061445774015, 0.404868771688292, 0.0105559633920873, 0.602296372687258, 0.406606518467358},
      {0.8, 0.05, 40, 0.431360006876249, 0.432111670529547, 5.90934831230992e-16, 0.568639993123752, 0.432111670529547},
      {0.9, 0.004, 5000, 0.701098893894636, 0.701131369400238, 0, 0.298901106105364, 0.701131369400238},
  };
  for (const auto& row : rows) {
    INFO("beta1 " << row.beta1 << " psi " << row.psi << " step " << row.step);
    const std::pair<std::string, double> overrides[] = {{"beta1", row.beta1}, {"momentum_decay", row.psi}};
    const HyperValues values = hyper_from_defaults(task, row.step, overrides).value();
    CHECK(field(task, values, "mu") == Approx(row.mu).epsilon(kFp32));
    CHECK(field(task, values, "mu_next") == Approx(row.mu_next).epsilon(kFp32));
    CHECK(field(task, values, "mu_product") == Approx(row.product).epsilon(kFp32).margin(1e-60));
    CHECK(field(task, values, "grad_factor") == Approx(row.grad_factor).epsilon(kFp32));
    CHECK(field(task, values, "moment_factor") == Approx(row.moment_factor).epsilon(kFp32));
  }
}

TEST_CASE("NAdam: skipped steps are no factors, and a late step is as quick as an early one") {
  const TaskSpec task = loaded("nadam");
  const HyperTrajectory trajectory = draw_hyper(task, "gaussian", 5).value();
  const double skipped = field(task, hyper_at(trajectory, 4, false, true).value(), "mu_product");
  CHECK(skipped == field(task, hyper_at(trajectory, 4, false, false).value(), "mu_product"));
  CHECK(field(task, hyper_at(trajectory, 2000000000, false, false).value(), "mu_product") == 0);
}

TEST_CASE("NAdam: a product kept in fp32 from step to step stays harmless") {
  // Its relative error grows like t * 6e-8, but it is 1 - product that counts, and the product vanishes.
  for (const double beta1 : {0.8, 0.95}) {
    float kept = 1;
    double exact = 1, worst = 0, worst_relative = 0;
    for (int t = 1; t <= 60; ++t) {
      const double mu = beta1 * (1 - 0.5 * std::pow(0.96, t * 0.004));
      exact *= mu;
      kept *= static_cast<float>(mu);
      worst = std::max(worst, std::fabs(static_cast<double>(kept) - exact) / (1 - exact));
      worst_relative = std::max(worst_relative, std::fabs(static_cast<double>(kept) / exact - 1));
    }
    CHECK(worst < 2 * 6e-8);
    CHECK(worst_relative < 60 * 1.2e-7);
    CHECK(worst_relative > 6e-8);
  }
}

TEST_CASE("RAdam: length of the average and rectification") {
  const TaskSpec task = loaded("radam");
  const struct {
    double beta2;
    int64_t step;
    double rho, rectification;
  } rows[] = {
      {0.95, 1, 1.0, 0},
      {0.95, 5, 4.795060324256, 0},
      {0.95, 6, 5.7012734053, 0.1823787299966},
      {0.95, 1000, 38.99999046326, 1.0},
      {0.98, 5, 4.919203537649, 0},
      {0.98, 7, 6.838433442313, 0.1468869239818},
      {0.99, 4, 3.974874903503, 0},
      {0.99, 6, 5.941376748538, 0.08167915681611},
      {0.99, 100, 83.52650925693, 0.6341166005367},
      {0.999, 5, 4.995998051951, 0},
      {0.999, 6, 5.994163826834, 0.02582094656769},
      {0.999, 1000, 835.9694201472, 0.6453222784167},
      {0.9995, 5, 4.997999406543, 0},
      {0.9995, 6, 5.997082468009, 0.01825828342409},
      {0.9995, 100, 99.16653741183, 0.1528193413849},
  };
  for (const auto& row : rows) {
    INFO("beta2 " << row.beta2 << " step " << row.step);
    const std::pair<std::string, double> overrides[] = {{"beta2", row.beta2}};
    const HyperValues values = hyper_from_defaults(task, row.step, overrides).value();
    CHECK(field(task, values, "rho") == Approx(row.rho).epsilon(1.01 * kFp32));
    CHECK(field(task, values, "rectified") == (row.rho > 5 ? 1 : 0));
    CHECK(field(task, values, "rectification") == Approx(row.rectification).epsilon(1.01 * kFp32).margin(1e-60));
  }
}

TEST_CASE("RAdam: no step of a suite stands on the edge of the branch") {
  const TaskSpec task = loaded("radam");
  size_t beta2 = 0;
  while (task.hyper[beta2].name != "beta2") ++beta2;
  // The branch changes between steps 5 and 6 for every beta2 that can be drawn.
  std::vector<double> betas = {task.hyper[beta2].min, task.hyper[beta2].max};
  for (uint64_t seed = 0; seed < 500; ++seed) betas.push_back(draw_hyper(task, "mixed", seed).value().primary[beta2]);
  for (const double beta : betas) {
    const auto rho = [&](double t) {
      const auto power = static_cast<double>(std::pow(static_cast<long double>(beta), static_cast<long double>(t)));
      return 2 / (1 - beta) - 1 - 2 * t * power / (1 - power);
    };
    if (!(rho(5) < 4.998001 && rho(6) > 5.7)) FAIL_CHECK("beta2 " << beta << ": " << rho(5) << " " << rho(6));
  }
  // And every suite has steps on both sides of it.
  for (const auto& [name, suite] : task.suites) {
    std::set<int64_t> steps;
    for (const auto* const groups : {&suite.edges, &suite.families})
      for (const CaseSpec& spec : expand_cases(task, *groups).value())
        for (int64_t k = 0; k < spec.steps; ++k) steps.insert(spec.first_step + k);
    INFO(name);
    for (const int64_t step : {4, 5, 6, 7}) CHECK(steps.count(step) == 1);
  }
}

TEST_CASE("RAdam: in fp32 the length of the average loses what the branch needs") {
  // rho is a difference of numbers near 2 / (1 - beta2); with a powf that is right to half a unit.
  const auto rho_fp32 = [](float beta2, int t) {
    const auto power = static_cast<float>(std::pow(static_cast<double>(beta2), t));
    return (2.0f / (1.0f - beta2) - 1.0f) - 2.0f * static_cast<float>(t) * power / (1.0f - power);
  };
  const auto rho = [](double beta2, int t) {
    const double power = std::pow(beta2, t);
    return 2 / (1 - beta2) - 1 - 2 * t * power / (1 - power);
  };
  double worst = 0;
  int wrong_branch = 0;
  for (int k = 0; k < 1000; ++k) {
    const float beta2 = 0.9990f + 5e-7f * static_cast<float>(k);
    worst = std::max(worst, std::fabs(static_cast<double>(rho_fp32(beta2, 5)) - rho(static_cast<double>(beta2), 5)));
    if (rho_fp32(beta2, 5) > 5) ++wrong_branch;
  }
  CHECK(worst > 0.02);
  CHECK(worst < 0.2);
  CHECK(wrong_branch > 100);  // of a thousand betas
}

}  // namespace
}  // namespace stepbench
