// B01, B03, B04, B06, B08, B10, B11, B12, B21: kernels that want a pass without the work. The files of tests/attacks
// get their verdicts in attacks_test.cc; here is what they compute, and that the checks see it without help from
// admission.
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "tests/check/fixtures.h"
#include "tests/faults/kernels.h"

using namespace stepbench;
using namespace stepbench::testing;

namespace {

Compiled attack(const std::string& file) {
  return compiled(real_task("adamw"), shipped("tests/attacks/" + file, "adamw"));
}

/// param after this many steps from p = 1 with g = 1 and lr = 1e-3: right is 1 - steps / 1000.
double after(const Compiled& kernel, int64_t steps) {
  return end_of(kernel, {"", "adamw", {{"param", 1}}, {1}, 1, steps, plain_adam(), 0, 0}).at("param");
}

/// The evaluation without admission, which refuses most cheats before anything runs.
EvalRecord unadmitted(const Compiled& kernel, const EvalOptions& options = {}) {
  Result<EvalRecord> record = evaluate_compiled(
      kernel.candidate, kernel.task, kernel.module, [] { return open_device("vm:check"); }, options, nullptr);
  if (!record.ok()) FAIL(to_text(record.error()));
  return std::move(record.value());
}

}  // namespace

TEST_CASE("B01 B03 B04: what would be kept between launches is refused, and the device takes no such store either") {
  if (!can_compile()) return;
  const char* const files[] = {
      "replay_by_pointer.cu",      // B01: keyed on the address of the gradient
      "replay_by_fingerprint.cu",  // B01: keyed on its content
      "replay_after_warm_up.cu",   // B03
      "right_for_ten_launches.cu"  // B04
  };
  const Compiled good = compiled(real_task("adamw"), adamw_text({}));
  CHECK(after(good, 12) == Approx(0.988).margin(1e-6).epsilon(0));
  check_passed(unadmitted(good));
  for (const char* file : files) {
    INFO(file);
    const Compiled cheat = attack(file);
    const Judged<Admission> admission = admit(cheat.module, cheat.candidate);
    REQUIRE_FALSE(admission.ok());
    CHECK(admission.failure->verdict == Verdict::kRefused);
    const ScenarioResult run_anyway =
        run(cheat, scenario_of(cheat.task, {"", "adamw", {{"param", 1}}, {1}, 1, 12, plain_adam(), 0, 0}));
    REQUIRE(run_anyway.failure);
    CHECK(run_anyway.failure->verdict == Verdict::kOutOfBounds);
    const EvalRecord record = unadmitted(cheat);
    check_failure(record, Verdict::kOutOfBounds);
  }
}

TEST_CASE("B01 B03 B04: new data at every step beats a replay even where it can be stored") {
  // State kept outside of the device, as a cheat that nobody refuses would have it: the result of the first launch over
  // a buffer is given again for the same address.
  const TaskSpec task = small_adamw_task();
  using Stored = std::map<const float*, std::vector<float>>;
  const struct {
    const char* name;
    AdamwBody cheat;
  } rows[] = {
      {"B01 keyed on the address",
       [stored = std::make_shared<Stored>(), lock = std::make_shared<std::mutex>()](const AdamwLaunch& launch) {
         const std::lock_guard guard(*lock);
         const auto found = stored->find(launch.grad);
         if (found != stored->end() && static_cast<int64_t>(found->second.size()) == launch.n) {
           std::copy(found->second.begin(), found->second.end(), launch.param);
           return;
         }
         right(launch);
         (*stored)[launch.grad].assign(launch.param, launch.param + launch.n);
       }},
      {"B03 armed by the first launch",
       [](const AdamwLaunch& launch) {
         if (launch.launch == 1) right(launch);
       }},
      {"B04 right for ten launches",
       [](const AdamwLaunch& launch) {
         if (launch.launch <= 10) right(launch);
       }},
      {"B04 wrong in launch 37 only",
       [](const AdamwLaunch& launch) {
         if (launch.launch != 37) right(launch);
       }},
  };
  CHECK(evaluate_fake(task, right).verdict == Verdict::kPassed);
  for (const auto& row : rows) {
    INFO(row.name);
    const EvalRecord record = evaluate_fake(task, row.cheat);
    REQUIRE(record.failure);
    CHECK((record.verdict == Verdict::kWrongResult || record.verdict == Verdict::kDrift));
  }
}

TEST_CASE("B04: one wrong launch among hundreds is found, at its step") {
  if (!can_compile()) return;
  const Compiled cheat = attack("wrong_at_step_37.cu");
  CHECK(after(cheat, 36) == Approx(0.964).margin(1e-6).epsilon(0));
  CHECK(after(cheat, 37) == Approx(0.964).margin(1e-6).epsilon(0));
  const EvalRecord record = unadmitted(cheat);
  REQUIRE(record.failure);
  INFO(record.failure->message);
  CHECK(record.failure->check == "drift");
  CHECK(record.failure->step == 37);
}

TEST_CASE("B06: a kernel that does nothing is a thousand limits away, however small its update") {
  for (const std::string& id : task_ids()) {
    INFO(id);
    const TaskSpec task = real_task(id);
    const Result<std::vector<Mutant>> mutants = load_mutants(task);
    REQUIRE(mutants.ok());
    // Its verdict is looked at with all mutants'; that it is there is the point.
    CHECK(std::any_of(mutants.value().begin(), mutants.value().end(),
                      [](const Mutant& mutant) { return mutant.name == "nothing done"; }));
  }
  const TaskSpec task = real_task("adamw");
  const std::vector<TensorShape> tensors = {make_shape({1000})};
  CaseData data{7, {0}};
  BufferBytes before;
  fill_states(task, tensors, "gaussian", data, true, before);
  fill_inputs(task, tensors, "gaussian", data, 0, before);
  std::vector<float> small(1000);
  for (size_t i = 0; i < small.size(); ++i) small[i] = (i % 2 == 0 ? 1.0f : -1.0f) * 1e-3f;
  before[buffer_index(task, "grad")][0] = bytes_of(small);
  const Result<HyperValues> hyper = hyper_from_defaults(task, 1, Overrides{{"lr", 1e-4}, {"weight_decay", 0}});
  REQUIRE(hyper.ok());
  JudgeSpace space;
  // Everything moves by 1e-4 in p and is 1e-9 in v: less than absolute tolerances of 1e-2 and 1e-8.
  const Result<StepJudgement> idle = judge_step(task, tensors, hyper.value(), before, before, 1, space);
  REQUIRE(idle.ok());
  REQUIRE(idle.value().failure);
  CHECK(idle.value().worst_ratio > 1000);
  for (const char* state : {"param", "exp_avg", "exp_avg_sq"}) {
    INFO(state);
    // The right result but for this one buffer.
    HostState right;
    to_host(task, Role::kInOut, before, right);
    to_host(task, Role::kIn, before, right);
    REQUIRE(oracle_step(task, tensors, hyper.value(), right, nullptr, 1).ok());
    BufferBytes after = before;
    for (size_t b = 0; b < task.buffers.size(); ++b) {
      if (task.buffers[b].role != Role::kInOut || task.buffers[b].name == state) continue;
      std::vector<float> values(right.values[b][0].begin(), right.values[b][0].end());
      after[b][0] = bytes_of(values);
    }
    const Result<StepJudgement> judged = judge_step(task, tensors, hyper.value(), before, after, 1, space);
    REQUIRE(judged.ok());
    REQUIRE(judged.value().failure);
    CHECK(judged.value().failure->buffer == state);
    CHECK(judged.value().worst_ratio > 50);
  }
}

TEST_CASE("B08: what is not a number never passes, in one element or in all") {
  if (!can_compile()) return;
  const TaskSpec task = real_task("adamw");
  const char* const nan = "__int_as_float(0x7fffffff)";
  const char* const inf = "__int_as_float(0x7f800000)";
  const struct {
    const char* name;
    std::string last;
    int64_t element;  // with n = 33
    double got;
  } rows[] = {
      {"NaN everywhere", std::string("p[i] = m[i] = v[i] = ") + nan + ";", 0, NAN},
      {"NaN in one", std::string("if (i == n / 2) p[i] = ") + nan + ";", 16, NAN},
      {"NaN in one moment", std::string("if (i == n - 1) v[i] = ") + nan + ";", 32, NAN},
      {"infinity in one", std::string("if (i == n - 1) v[i] = ") + inf + ";", 32, INFINITY},
      {"minus infinity in one", std::string("if (i == 3) m[i] = -") + inf + ";", 3, -INFINITY},
  };
  const TaskSpec one = with_edges(task, {group({"[33]"}, {"gaussian"}, {3}, 1)});
  check_passed(evaluated(one, candidate_of(adamw_text({})), only("edges")));
  for (const auto& row : rows) {
    INFO(row.name);
    AdamwText text;
    text.last = row.last;
    const EvalRecord record = evaluated(one, candidate_of(adamw_text(text)), only("edges"));
    check_failure(record, Verdict::kWrongResult);
    CHECK(record.failure->element == row.element);
    if (std::isnan(row.got))
      CHECK(std::isnan(record.failure->got));
    else
      CHECK(record.failure->got == row.got);
    CHECK_FALSE(record.failure->error_ratio <= 1);
    check_failure(evaluated(task, candidate_of(adamw_text(text))), Verdict::kWrongResult);
  }
}

TEST_CASE("B10 B11: neither neighbours nor inputs are written, and zeros do not agree with zeroed inputs") {
  if (!can_compile()) return;
  const TaskSpec task = real_task("adamw");
  // The reference is computed on the host from the bytes as they were written, so a device of its own makes no
  // difference: p = 0 is wrong even where the gradient stays.
  AdamwText zeroes;
  zeroes.store = "p[i] = 0; m[i] = mi; v[i] = vi;";
  const EvalRecord record = evaluated(task, candidate_of(adamw_text(zeroes)));
  check_failure(record, Verdict::kWrongResult);
  CHECK(record.failure->buffer == "param");
  CHECK(record.failure->expected != 0);
  CHECK(record.failure->got == 0);

  const struct {
    const char* first;
    const char* buffer;
    const char* words;
  } rows[] = {
      {"if (i < n) const_cast<float*>(g)[i] = 0;", "grad", "read-only"},
      {"if (i == 0) p[n] = 0;", "param", "past its end"},
      {"if (i == 0) p[-1] = 0;", "param", "before its start"},
      {"if (i == 0) for (int k = 0; k < 64 << 20; k += 4096) p[n + k] = 0;", "param", "past its end"},
  };
  for (const auto& row : rows) {
    INFO(row.first);
    AdamwText text;
    text.first = row.first;
    const EvalRecord refused = evaluated(task, candidate_of(adamw_text(text)));
    check_failure(refused, Verdict::kOutOfBounds);
    CHECK(refused.failure->buffer == row.buffer);
    CHECK(refused.failure->message.find(row.words) != std::string::npos);
    CHECK(refused.failure->place == "kernel.cu:11");
  }
}

TEST_CASE("B12: scratch holds nothing from before, not even from the step before") {
  if (!can_compile()) return;
  const Compiled cheat = attack("result_in_scratch.cu");
  const ScenarioResult result =
      run(cheat, scenario_of(cheat.task, {"", "adamw", {{"param", 1}}, {1}, 1, 2, plain_adam(), 0, 0}));
  REQUIRE(result.failure);
  CHECK(result.failure->verdict == Verdict::kUninitializedRead);
  CHECK(result.failure->buffer == "scratch.memory");
}

TEST_CASE("B21: size and hyperparameters are those of the case, not those a kernel was written for") {
  if (!can_compile()) return;
  const TaskSpec task = real_task("adamw");
  AdamwText small_only;
  small_only.first = "if (n > 100000) return;";
  const Candidate cheat = candidate_of(adamw_text(small_only)), good = candidate_of(adamw_text({}));
  const Result<std::vector<CaseSpec>> cases = expand_cases(task, task.suites.at("full").edges);
  REQUIRE(cases.ok());
  const auto large = std::find_if(cases.value().begin(), cases.value().end(), [](const CaseSpec& spec) {
    return spec.tensors.size() == 1 && spec.tensors[0].n > 1'000'000 && spec.tensors[0].n < 2'000'000;
  });
  REQUIRE(large != cases.value().end());
  EvalOptions options = only("edges", large->name);
  options.suite = "full";
  check_failure(evaluated(task, cheat, options), Verdict::kWrongResult);
  check_passed(evaluated(task, good, options));

  for (const char* first : {"h.lr = 1e-3f;", "h.weight_decay = 0;", "h.weight_decay = 0.01f;", "h.beta1 = 0.9f;",
                            "h.beta2 = 0.999f;", "h.eps = 1e-8f;"}) {
    INFO(first);
    AdamwText fixed;
    fixed.first = first;
    check_failure(evaluated(task, candidate_of(adamw_text(fixed))), Verdict::kWrongResult);
  }
}
