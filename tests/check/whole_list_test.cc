// Tasks that are judged over whole lists: what the checks of large lists, and the shrinking of a failed case, do with a
// step that depends on every tensor or on a whole one. Kernels are baselines and edits of them, on the VM.
#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <iterator>

#include "tests/check/real_kernels.h"

using namespace stepbench;
using namespace stepbench::testing;

namespace {

struct Compiled {
  Candidate candidate;
  CompiledModule module;
};

const TaskSpec& clip_adamw() {
  static const TaskSpec task = real_task("clip_adamw");
  return task;
}

/// A baseline with one text replaced by another.
Compiled compiled(const TaskSpec& task, const std::string& baseline, const std::string& find = "",
                  const std::string& replace = "") {
  const std::string path = tasks_folder().value() + "/../reference_kernels/" + task.id + "/" + baseline;
  std::ifstream file(path);
  std::string source{std::istreambuf_iterator<char>(file), {}};
  if (!find.empty()) {
    const size_t at = source.find(find);
    REQUIRE(at != std::string::npos);
    source.replace(at, find.size(), replace);
  }
  const Result<Judged<Candidate>> candidate = parse_candidate(path, source, "", false, "");
  REQUIRE(candidate.ok());
  REQUIRE(candidate.value().ok());
  const Result<Judged<CompiledModule>> module =
      compile(*candidate.value().value, task, real_options("smoke", 1).compile);
  REQUIRE(module.ok());
  REQUIRE(module.value().ok());
  return {*candidate.value().value, *module.value().value};
}

CheckContext context_of(const TaskSpec& task, const Compiled& one) {
  return CheckContext{task, one.candidate, one.module, [] { return open_device("vm"); }, 5, 2, "", nullptr};
}

}  // namespace

TEST_CASE("large lists of a task with sums over the list: in full or by audit") {
  if (!can_compile()) return;
  const struct {
    const char* name;
    const char* baseline;
    const char* find;
    const char* replace;
    bool audited;
    const char* message;  // empty: passes
  } rows[] = {
      {"right, launch per tensor", "naive.cu", "", "", false, ""},
      {"right, whole list", "fused.cu", "", "", false, ""},
      {"right, audited", "fused.cu", "", "", true, ""},
      {"the last slot is not added", "fused.cu", "i < used; i += BLOCK", "i < used - 1; i += BLOCK", false,
       "differs at tensor"},
      {"the last slot is not added at later steps, audited", "fused.cu", "i < used; i += BLOCK",
       "i < used - (hyper->step > 10); i += BLOCK", true, "differs at tensor"},
      {"one element is skipped at later steps", "naive.cu", "const float p = param[i];",
       "if (i == 123457 && h.step > 10) continue;\n    const float p = param[i];", false, "tensor 1 element 123457"},
      {"the end is skipped at later steps, audited", "naive.cu", "const float p = param[i];",
       "if (i == 300000 && h.step > 10) continue;\n    const float p = param[i];", true, "tensor 1 element 300000"},
  };
  for (const auto& row : rows) {
    DYNAMIC_SECTION(row.name) {
      const Compiled one = compiled(clip_adamw(), row.baseline, row.find, row.replace);
      LargeRule rule;
      if (row.audited) rule.every_element_limit = 1000;
      rule.audit_elements = 1;
      DeviceInfo info;
      info.memory_bytes = uint64_t{1} << 30;
      const std::vector<LargeSpec> specs = {{"[7,300001,0,[33,5]]", 3}};
      const Result<CheckOutcome> outcome = check_large(context_of(clip_adamw(), one), specs, rule, info);
      REQUIRE(outcome.ok());
      if (outcome.value().failure) UNSCOPED_INFO(outcome.value().failure->message);
      CHECK(outcome.value().failure.has_value() == (*row.message != 0));
      if (!outcome.value().failure) {
        const int64_t all = 3 * 3 * (7 + 300001 + 165), checked = outcome.value().reports.at(0).elements_checked;
        CHECK((row.audited ? checked > all / 3 && checked < all / 2 : checked == all));
      } else {
        CHECK(outcome.value().failure->verdict == Verdict::kWrongResult);
        CHECK_THAT(outcome.value().failure->message, Catch::Contains(row.message));
      }
    }
  }
}

TEST_CASE("large lists of tasks with norms and means of one tensor") {
  if (!can_compile()) return;
  const struct {
    const char* name;
    const char* task;
    const char* find;
    const char* replace;
    const char* buffer;  // of the failure; empty: passes
  } rows[] = {
      {"lamb", "lamb", "", "", ""},
      {"lamb, the ratio of the first tensor", "lamb", "ratio[piece.tensor];", "ratio[0];", "param"},
      {"adafactor", "adafactor", "", "", ""},
      {"adafactor, the mean of the first tensor", "adafactor", "rates[tile.tensor].x", "rates[0].x", "param"},
      {"adafactor, one row average not stored", "adafactor", "row_var[t][row] = average;",
       "if (row != 600) row_var[t][row] = average;", "row_var"},
  };
  for (const auto& row : rows) {
    DYNAMIC_SECTION(row.name) {
      const TaskSpec task = real_task(row.task);
      const Compiled one = compiled(task, "fused.cu", row.find, row.replace);
      DeviceInfo info;
      info.memory_bytes = uint64_t{1} << 30;
      const std::vector<LargeSpec> specs = {{"[7,[700,300],0,[33,5],1]", 2}};
      int64_t elements = 0;
      for (const TensorShape& shape : tensor_list(specs[0].list).value())
        for (const BufferSpec& buffer : task.buffers)
          if (buffer.role == Role::kInOut) elements += buffer_elements(buffer, shape);
      const Result<CheckOutcome> outcome = check_large(context_of(task, one), specs, LargeRule{}, info);
      REQUIRE(outcome.ok());
      if (outcome.value().failure) UNSCOPED_INFO(outcome.value().failure->message);
      CHECK(outcome.value().failure.has_value() == (*row.buffer != 0));
      if (outcome.value().failure)
        CHECK_THAT(outcome.value().failure->detail, Catch::Contains(std::string(row.buffer) + " ("));
      else
        CHECK(outcome.value().reports.at(0).elements_checked == 2 * elements);
    }
  }
}

TEST_CASE("a fault that takes a list is shrunk to a list") {
  if (!can_compile()) return;
  // The second tensor is left out of the norm: any list with two tensors shows it, no tensor alone does.
  const Compiled one = compiled(
      clip_adamw(), "naive.cu", "\"args\": [\"scratch.partial\", \"sum(ceil_div(n, PART))\", \"scratch.norm\"]",
      "\"args\": [\"scratch.partial\", \"min(sum(ceil_div(n, PART)), 1)\", \"scratch.norm\"]");
  CaseGroup group;
  group.lists = {"[1000,1000,1000,1000,1000,1000]"};
  group.families = {"constant"};
  group.first_steps = {10};
  // Salts whose threshold is above the norm do not show it.
  bool shown = false;
  for (uint64_t salt = 1; salt <= 8 && !shown; ++salt) {
    CheckContext context = context_of(clip_adamw(), one);
    context.salt = salt;
    const Result<CheckOutcome> outcome = check_teacher_forced(context, "edges", {&group, 1});
    REQUIRE(outcome.ok());
    if (!outcome.value().failure) continue;
    shown = true;
    CHECK(outcome.value().failure->verdict == Verdict::kWrongResult);
    CHECK_THAT(outcome.value().failure->detail, Catch::Contains("smallest failing list found: 2 tensors"));
  }
  CHECK(shown);
}

TEST_CASE("baselines of clip_adamw with the norm exactly below, at and above the threshold") {
  if (!can_compile()) return;
  const TaskSpec& task = clip_adamw();
  // 1024 gradients of 2^-5, in tensors of several sizes: the norm is 1, exactly.
  const std::vector<TensorShape> tensors = tensor_list("[1000,0,3,21]").value();
  Scenario scenario;
  scenario.tensors = tensors;
  for (const BufferSpec& buffer : task.buffers) {
    scenario.initial.emplace_back();
    for (size_t t = 0; t < tensors.size(); ++t) {
      scenario.initial.back().push_back(make_values(buffer, tensors[t], "gaussian", t));
      if (buffer.role != Role::kIn) continue;
      const float grad = 0x1p-5f;
      for (size_t i = 0; i < static_cast<size_t>(tensors[t].n); ++i)
        std::memcpy(scenario.initial.back().back().data() + 4 * i, &grad, 4);
    }
  }
  for (const char* const baseline : {"naive.cu", "fused.cu"}) {
    const Compiled one = compiled(task, baseline);
    for (const double max_norm : {0.5, 1 - 0x1p-24, 1.0, 1 + 0x1p-23, 1 + 0x1p-19, 2.0}) {
      INFO(baseline << " max_norm " << max_norm);
      const std::vector<std::pair<std::string, double>> overrides = {{"max_norm", max_norm}};
      const HyperValues hyper = hyper_from_defaults(task, 5, overrides).value();
      scenario.steps = {{hyper, {}}};
      const Result<ScenarioResult> result = run_scenario(context_of(task, one), scenario);
      REQUIRE(result.ok());
      REQUIRE(!result.value().failure);
      JudgeSpace space;
      const Result<StepJudgement> judged =
          judge_step(task, tensors, hyper, scenario.initial, result.value().final_buffers, 1, space);
      REQUIRE(judged.ok());
      CHECK(!judged.value().failure);
      CHECK(judged.value().worst_ratio < 0.6);
    }
  }
}

TEST_CASE("inputs that only the host can make stay for sixteen steps, on the device as in the judgement") {
  if (!can_compile()) return;
  const TaskSpec task = real_task("soap_fixed_basis");
  const Compiled kernel = compiled(task, "naive.cu");
  const std::vector<TensorShape> tensors = {make_shape({12, 20}), make_shape({9, 5})};
  const std::vector<Window> windows = whole_tensors(tensors);
  Result<Judged<Rig>> opened = open_rig(context_of(task, kernel), tensors, {});
  REQUIRE(opened.ok());
  REQUIRE(opened.value().ok());
  Rig rig = std::move(*opened.value().value);
  const LargeData data{7};
  BufferBytes first, last;
  for (int64_t k = 0; k <= 17; ++k) {
    INFO("step " << k);
    REQUIRE(generate_buffers(rig, task, tensors, Role::kIn, data, k, 1).ok());
    BufferBytes expected, on_device;
    generate_windows(task, tensors, Role::kIn, windows, data, k, 1, expected);
    REQUIRE(read_windows(rig, task, tensors, Role::kIn, windows, on_device).ok());
    CHECK_FALSE(first_difference(task, Role::kIn, expected, on_device).has_value());
    if (k == 0) first = expected;
    for (size_t b = 0; b < task.buffers.size() && k > 0; ++b) {
      if (task.buffers[b].role != Role::kIn) continue;
      INFO(task.buffers[b].name);
      const bool basis = task.buffers[b].name.starts_with("basis_");
      CHECK((expected[b] == first[b]) == (basis && k < 16));
      CHECK((expected[b] == last[b]) == (basis && k != 16));
    }
    last = expected;
  }
}
