// Kernels with one known defect each, and the verdict, check, buffer, step and element that must be named; right ones
// beside them.
#include "tests/check/fixtures.h"

using namespace stepbench;
using namespace stepbench::testing;

namespace {

constexpr int64_t kAny = -99;

struct Row {
  const char* name;
  AdamwBody body;
  Verdict verdict;
  const char* check;
  const char* buffer;      // empty: any
  int64_t step;            // kAny: any
  int64_t element;         // kAny: any
  const char* in_message;  // must occur in the message
  const char* in_detail;   // must occur in the detail
};

float to_bf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  bits = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
  return std::bit_cast<float>(bits);
}

void with_lr(const AdamwLaunch& a, float lr) {
  if (skipped(a)) return;
  Fp32Adamw adamw(a);
  adamw.lr = lr;
  for (int64_t k = 0; k < a.n; ++k) adamw.update(a, k);
}

/// Divides by beta^t instead of 1 - beta^t.
void wrong_divisor(const AdamwLaunch& a) {
  if (skipped(a)) return;
  Fp32Adamw adamw(a);
  adamw.bias1 = std::pow(static_cast<float>(adamw.beta1), static_cast<float>(a.i("step")));
  adamw.bias2 = std::pow(static_cast<float>(adamw.beta2), static_cast<float>(a.i("step")));
  for (int64_t k = 0; k < a.n; ++k) adamw.update(a, k);
}

std::vector<Row> wrong_kernels() {
  return {
      {"no-op", [](const AdamwLaunch&) {}, Verdict::kWrongResult, "edges", "param", 5, 0, "param differs",
       "failing buffers, worst element of each: param ("},
      {"zeros",
       [](const AdamwLaunch& a) {
         for (int64_t k = 0; k < a.n; ++k) a.param[k] = a.exp_avg[k] = a.exp_avg_sq[k] = 0;
       },
       Verdict::kWrongResult, "edges", "", kAny, 0, "", ""},
      {"NaN in one element",
       [](const AdamwLaunch& a) {
         right(a);
         if (a.n > 4) a.exp_avg[4] = std::nanf("");
       },
       Verdict::kWrongResult, "edges", "exp_avg", kAny, 4, "exp_avg differs at tensor 0 element 4", "5 elements"},
      {"infinity in one element",
       [](const AdamwLaunch& a) {
         right(a);
         if (a.n > 4 && !skipped(a)) a.exp_avg_sq[3] = INFINITY;
       },
       Verdict::kWrongResult, "edges", "exp_avg_sq", kAny, 3, "got inf", "one tensor of 5 elements"},
      {"tail skipped", [](const AdamwLaunch& a) { right_until(a, a.n / 4 * 4); }, Verdict::kWrongResult, "edges",
       "param", kAny, 0, "", ""},
      {"tail skipped above four", [](const AdamwLaunch& a) { right_until(a, a.n < 4 ? a.n : a.n / 4 * 4); },
       Verdict::kWrongResult, "edges", "param", kAny, 4, "", "smallest failing shape found: one tensor of 5 elements"},
      {"eps inside the root",
       [](const AdamwLaunch& a) {
         if (skipped(a)) return;
         Fp32Adamw adamw(a);
         adamw.eps_inside = true;
         for (int64_t k = 0; k < a.n; ++k) adamw.update(a, k);
       },
       Verdict::kWrongResult, "edges", "param", kAny, kAny, "param differs", ""},
      {"state kept: right in the first ten steps",
       [](const AdamwLaunch& a) {
         if (a.launch <= 20) right(a);
       },
       Verdict::kWrongResult, "drift", "param", 11, 0, "left the band at step 11", "first seen at the hidden step"},
      {"wrong in one launch only",
       [](const AdamwLaunch& a) {
         if (a.launch != 2 * 37 - 1) right(a);
       },
       Verdict::kWrongResult, "drift", "param", 37, 0, "left the band at step 37", ""},
      {"large tensors skipped",
       [](const AdamwLaunch& a) {
         if (a.n <= 1000) right(a);
       },
       Verdict::kWrongResult, "families", "param", kAny, 0, "",
       "smallest failing shape found: one tensor of 1001 elements"},
      {"learning rate baked in", [](const AdamwLaunch& a) { with_lr(a, 1e-3f); }, Verdict::kWrongResult, "edges",
       "param", kAny, kAny, "", ""},
      {"learning rate in bf16", [](const AdamwLaunch& a) { with_lr(a, to_bf16(a.f("lr"))); }, Verdict::kWrongResult,
       "edges", "param", kAny, kAny, "", ""},
      {"weight decay ignored",
       [](const AdamwLaunch& a) {
         if (skipped(a)) return;
         Fp32Adamw adamw(a);
         adamw.weight_decay = 0;
         for (int64_t k = 0; k < a.n; ++k) adamw.update(a, k);
       },
       Verdict::kWrongResult, "edges", "param", kAny, kAny, "", ""},
      {"first moment in half precision",
       [](const AdamwLaunch& a) {
         right(a);
         for (int64_t k = 0; k < a.n && !skipped(a); ++k) a.exp_avg[k] = to_bf16(a.exp_avg[k]);
       },
       Verdict::kWrongResult, "edges", "exp_avg", kAny, kAny, "exp_avg differs", ""},
      {"writes to the gradient",
       [](const AdamwLaunch& a) {
         right(a);
         if (a.n > 2) a.grad[2] = 0.25f;
       },
       Verdict::kWrongResult, "edges", "grad", kAny, 2, "input buffer grad was changed", ""},
      {"divides by beta^t", wrong_divisor, Verdict::kWrongResult, "edges", "param", kAny, kAny, "", ""},
      {"right until step 400, from a counter of its own",
       [](const AdamwLaunch& a) {
         if (a.launch <= 2 * 400)
           right(a);
         else
           wrong_divisor(a);
       },
       Verdict::kWrongResult, "drift", "param", 401, 0, "left the band at step 401", ""},
      {"NaN late",
       [](const AdamwLaunch& a) {
         right(a);
         if (a.launch == 2 * 700) a.exp_avg[1] = std::nanf("");
       },
       Verdict::kWrongResult, "drift", "exp_avg", 700, 1, "left the band at step 700", ""},
  };
}

}  // namespace

TEST_CASE("right kernels pass with room to the limit") {
  const TaskSpec task = small_adamw_task();
  const std::pair<const char*, AdamwBody> rows[] = {{"formula", right}, {"other order", right_other_order}};
  for (const auto& [name, body] : rows) {
    for (const uint64_t salt : {0ull, 1ull, 77ull}) {
      DYNAMIC_SECTION(name << " salt " << salt) {
        EvalOptions options;
        options.salt = salt;
        const EvalRecord record = evaluate_fake(task, body, options);
        INFO((record.failure ? record.failure->message + "\n" + record.failure->detail : ""));
        REQUIRE(record.verdict == Verdict::kPassed);
        CHECK(record.replay_command.empty());
        CHECK(record.drift.size() == 3);
        double worst = 0;
        for (const CaseReport& report : record.cases) {
          INFO(report.case_name);
          CHECK(report.worst_error_ratio < 1);
          worst = std::max(worst, report.worst_error_ratio);
        }
        CHECK(worst > 0);  // the comparison did see rounding errors
        // 28 bytes per parameter: the fake counters of one launch
        CHECK(record.modelled_bytes_per_param == 28);
        CHECK(record.traffic_params == kTrafficElements);
        for (const char* stage : {"load", "edges", "families", "determinism", "drift", "traffic"}) {
          CHECK(record.stage_ms.count(stage) == 1);
        }
      }
    }
  }
}

TEST_CASE("every element of every state buffer is looked at") {
  const TaskSpec task = small_adamw_task();
  const EvalRecord record = evaluate_fake(task, right);
  REQUIRE(record.verdict == Verdict::kPassed);
  // by hand: 3 state buffers times the elements of the list times the steps
  for (const CaseReport& report : record.cases) {
    if (report.check != "edges" && report.check != "families") continue;
    INFO(report.case_name);
    const std::string list = report.case_name.substr(0, report.case_name.find('/'));
    const std::map<std::string, int64_t> sums = {{"n0", 0},      {"n1", 1},       {"n7", 7},         {"n33", 33},
                                                 {"n7+0+5", 12}, {"n1500", 1500}, {"n64+3+257", 324}};
    REQUIRE(sums.count(list) == 1);
    const int64_t elements = sums.at(list);
    CHECK(report.elements_checked == 3 * elements * (report.check == "edges" ? 2 : 3));
  }
}

TEST_CASE("wrong kernels get their verdict and place") {
  const TaskSpec task = small_adamw_task();
  for (const Row& row : wrong_kernels()) {
    DYNAMIC_SECTION(row.name) {
      const EvalRecord record = evaluate_fake(task, row.body);
      REQUIRE(record.failure.has_value());
      const Failure& failure = *record.failure;
      INFO(failure.message << "\n" << failure.detail << "\n" << failure.case_name);
      CHECK(to_text(record.verdict) == to_text(row.verdict));
      CHECK(failure.check == row.check);
      if (*row.buffer != '\0') CHECK(failure.buffer == row.buffer);
      if (row.step != kAny) CHECK(failure.step == row.step);
      if (row.element != kAny) CHECK(failure.element == row.element);
      CHECK(failure.message.find(row.in_message) != std::string::npos);
      CHECK(failure.detail.find(row.in_detail) != std::string::npos);
      CHECK(!failure.case_name.empty());
      CHECK(failure.seed != 0);
      CHECK(!(failure.error_ratio <= 1));
      CHECK(record.replay_command.find("--only") != std::string::npos);
      CHECK(record.cases.back().verdict == row.verdict);
      for (size_t i = 0; i + 1 < record.cases.size(); ++i) CHECK(record.cases[i].verdict == Verdict::kPassed);
    }
  }
}

TEST_CASE("an overflow step must leave every bit as it was") {
  const TaskSpec task = small_adamw_task();
  CaseSpec spec;
  spec.name = "skip";
  spec.tensors = {make_shape({40}), make_shape({3})};
  spec.family = "gaussian";
  spec.first_step = 7;
  spec.steps = 3;
  spec.with_found_inf = true;
  const Candidate candidate = adamw_candidate();
  const CompiledModule module = fake_module();
  const auto run = [&](const AdamwBody& body) {
    const CheckContext with{task, candidate, module, fake_devices(task, body), 5, 1, "", nullptr};
    const std::atomic<size_t> never{1};
    Result<CaseOutcome> outcome =
        run_teacher_case(with, "families", spec, case_data(with, "families", spec), CancelFlag(never, 0), 1);
    REQUIRE(outcome.ok());
    return outcome.value();
  };
  SECTION("flag honoured, and t stands still") {
    std::vector<int64_t> steps;
    const CaseOutcome outcome = run([&](const AdamwLaunch& a) {
      steps.push_back(skipped(a) ? -a.i("step") : a.i("step"));
      right(a);
    });
    INFO((outcome.failure ? outcome.failure->message : ""));
    CHECK(!outcome.failure);
    REQUIRE(steps.size() == 6);  // two tensors, three steps
    int skips = 0;
    int64_t expected_step = 7;
    for (size_t i = 0; i < steps.size(); i += 2) {
      CHECK(std::abs(steps[i]) == expected_step);
      if (steps[i] < 0)
        ++skips;
      else
        ++expected_step;
    }
    CHECK(skips == 1);
    CHECK(outcome.report.elements_checked == 3 * 43 * 3);
  }
  SECTION("flag ignored") {
    const CaseOutcome outcome = run([](const AdamwLaunch& a) {
      const Fp32Adamw adamw(a);
      for (int64_t k = 0; k < a.n; ++k) adamw.update(a, k);
    });
    REQUIRE(outcome.failure);
    CHECK(outcome.failure->verdict == Verdict::kWrongResult);
    CHECK(outcome.failure->message.find("found_inf") != std::string::npos);
  }
  SECTION("one bit changed") {
    const CaseOutcome outcome = run([](const AdamwLaunch& a) {
      right(a);
      if (skipped(a)) a.param[2] = std::bit_cast<float>(std::bit_cast<uint32_t>(a.param[2]) ^ 1u);
    });
    REQUIRE(outcome.failure);
    CHECK(outcome.failure->buffer == "param");
    CHECK(outcome.failure->element == 2);
  }
}

TEST_CASE("results that differ from run to run") {
  const TaskSpec task = small_adamw_task();
  auto counter = std::make_shared<std::atomic<uint32_t>>(0);
  // The last bit of one element depends on how many launches there were in all: far within the limit.
  const AdamwBody noisy = [counter](const AdamwLaunch& a) {
    right(a);
    if (a.n <= 10 || skipped(a)) return;
    const uint32_t bit = counter->fetch_add(1) % 7 == 3 ? 1u : 0u;
    a.param[5] = std::bit_cast<float>(std::bit_cast<uint32_t>(a.param[5]) ^ bit);
  };
  EvalOptions options;
  options.threads = 1;
  options.only_check = "determinism";
  const EvalRecord record = evaluate_fake(task, noisy, options);
  REQUIRE(record.failure.has_value());
  INFO(record.failure->message);
  CHECK(record.verdict == Verdict::kNondeterministic);
  CHECK(record.failure->buffer == "param");
  CHECK(record.failure->tensor == 0);
  CHECK(record.failure->element == 5);

  TaskSpec tolerant = task;
  tolerant.bitwise_deterministic = false;
  const EvalRecord skipped_record = evaluate_fake(tolerant, noisy, options);
  CHECK(skipped_record.verdict == Verdict::kPassed);
  REQUIRE(!skipped_record.notes.empty());
  CHECK(skipped_record.notes[0].find("determinism not checked") != std::string::npos);

  CHECK(evaluate_fake(task, right, options).verdict == Verdict::kPassed);
}

TEST_CASE("drift that no single step shows") {
  // Limits per step a thousand times wider than the task's: the error of a learning rate in bf16 (up to 2^-9 of the
  // movement) passes each step, and the sum of a thousand steps does not.
  TaskSpec task = small_adamw_task();
  for (BufferSpec& buffer : task.buffers) buffer.tolerance.step_scale_ratio = 1e-2;
  EvalOptions options;
  options.only_check = "drift";
  const EvalRecord record = evaluate_fake(
      task, [](const AdamwLaunch& a) { with_lr(a, a.f("lr") * (1 + 1e-3f)); }, options);
  REQUIRE(record.failure.has_value());
  const Failure& failure = *record.failure;
  INFO(failure.message << "\n" << failure.detail);
  CHECK(record.verdict == Verdict::kDrift);
  CHECK(failure.buffer == "param");
  CHECK(failure.step >= 1);
  CHECK(failure.error_ratio > 1);
  CHECK(failure.message.find("though no single step is wrong") != std::string::npos);
  const EvalRecord good = evaluate_fake(task, right, options);
  INFO((good.failure ? good.failure->message : ""));
  CHECK(good.verdict == Verdict::kPassed);
}

TEST_CASE("the drift curve measures a known bias") {
  // Steps that are 1e-4 too long move every parameter 1e-4 too far: the ratio of error to movement is 1e-4 at every
  // step, the bias too, and the absolute error grows like the movement.
  TaskSpec task = small_adamw_task();
  for (BufferSpec& buffer : task.buffers) buffer.tolerance.step_scale_ratio = 1e-2;
  task.suites["smoke"].drift = {DriftSpec{"[2000]", {"constant"}, 1000, 8}};
  for (HyperField& field : task.hyper) {  // next to no decay, which would pull back in proportion
    if (field.name != "weight_decay") continue;
    field.min = 1e-9;
    field.max = 1e-8;
  }
  EvalOptions options;
  options.only_check = "drift";
  constexpr float kBias = 1e-4f;
  const EvalRecord record = evaluate_fake(
      task,
      [](const AdamwLaunch& a) {
        if (skipped(a)) return;
        Fp32Adamw adamw(a);
        for (int64_t k = 0; k < a.n; ++k) {
          const float old = a.param[k];
          adamw.update(a, k);
          a.param[k] = static_cast<float>(static_cast<double>(old) +
                                          (static_cast<double>(a.param[k]) - static_cast<double>(old)) *
                                              (1 + static_cast<double>(kBias)));
        }
      },
      options);
  INFO((record.failure ? record.failure->message : ""));
  REQUIRE(!record.drift.empty());
  const DriftCurve& curve = record.drift.front();
  CHECK(curve.buffer == "param");
  REQUIRE(curve.points.size() >= 5);
  const DriftPoint& last = curve.points.back();
  CHECK(last.step == 1000);
  CHECK(last.rms_ratio == Approx(1e-4).epsilon(0.2));
  CHECK(last.bias_ratio == Approx(1e-4).epsilon(0.2));
  CHECK(last.bias_sigma > 4);
  REQUIRE(last.error_ratio);  // roundings have a share of the limit
  CHECK(*last.error_ratio < last.rms_ratio / curve.limit_ratio);
  CHECK(*last.error_ratio > 0.5 * last.rms_ratio / curve.limit_ratio);
  CHECK(curve.growth_exponent == Approx(1.0).margin(0.3));
}

TEST_CASE("hidden checkpoints") {
  struct {
    const char* name;
    int64_t steps;
    int32_t hidden;
  } const rows[] = {{"one step", 1, 8}, {"few steps", 5, 8},   {"no hidden ones", 100, 0},
                    {"1,000", 1000, 8}, {"10,000", 10000, 12}, {"830", 830, 4},
                    {"831", 831, 4}};
  for (const auto& row : rows) {
    DYNAMIC_SECTION(row.name) {
      for (uint64_t seed = 0; seed < 50; ++seed) {
        const std::vector<int64_t> points = draw_checkpoints(row.steps, row.hidden, seed);
        REQUIRE(!points.empty());
        CHECK(points.back() == row.steps);
        CHECK(points.front() >= 1);
        CHECK(std::adjacent_find(points.begin(), points.end(), std::greater_equal<>()) == points.end());
        CHECK(points.size() <= static_cast<size_t>(row.hidden) + 2);
        // beyond t = 829 a hidden one besides the last, where there is room for it
        if (row.hidden > 0 && row.steps > 830) CHECK(points[points.size() - 2] > 829);
        CHECK(draw_checkpoints(row.steps, row.hidden, seed) == points);
      }
    }
  }
  CHECK(draw_checkpoints(1000, 8, 1) != draw_checkpoints(1000, 8, 2));
}

TEST_CASE("growth exponent of exact powers") {
  const std::vector<int64_t> steps = {1, 10, 100, 1000};
  for (const double exponent : {0.0, 0.5, 1.0, 2.0}) {
    std::vector<double> errors;
    for (const int64_t step : steps) errors.push_back(3e-7 * std::pow(static_cast<double>(step), exponent));
    CHECK(growth_exponent(steps, errors) == Approx(exponent).margin(1e-9));
  }
  CHECK(growth_exponent(steps, std::vector<double>{0, 0, 0, 1e-9}) == 0);
}
