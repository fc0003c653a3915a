// For the tests of this folder: a right candidate as CUDA and as PTX, edits of it, and one run of the real program that
// must end in time and leave nothing behind. What a run must say is in the tests' tables.
#pragma once

#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "harness/record.h"
#include "harness/stages.h"
#include "tests/app/program.h"

namespace stepbench::bad_input {

/// One small case of the smoke suite: enough to see that a control runs and is right.
inline constexpr const char* kOneCase = "edges/n257/gaussian/t10";

/// Lines are counted in the tables: the plan is in 1 to 13, the include in 14, the free line in 20.
inline std::string right_candidate() {
  return R"cu(/*stepbench
{ "task": "adamw",
  "note": "right",
  "defines": {"BLOCK": 256},
  "options": ["--fmad=true"],
  "scratch": {"spare": "4 * max_n"},
  "launches": [
    {"for": "tensor", "kernel": "adamw_step",
     "grid": "ceil_div(n, BLOCK)", "block": "BLOCK",
     "shared_bytes": 0,
     "args": ["param", "grad", "exp_avg", "exp_avg_sq", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void adamw_step(float* param, const float* grad, float* exp_avg, float* exp_avg_sq, int64_t n,
                                      const Hyper* hyper) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n || hyper->found_inf) return;
  // here
  const float g = grad[i] / hyper->grad_scale;
  const float m = hyper->beta1 * exp_avg[i] + (1.0f - hyper->beta1) * g;
  const float v = hyper->beta2 * exp_avg_sq[i] + (1.0f - hyper->beta2) * g * g;
  exp_avg[i] = m;
  exp_avg_sq[i] = v;
  const float p = param[i] * (1.0f - hyper->lr * hyper->weight_decay);
  param[i] = p - hyper->step_size * m / (sqrtf(v) / hyper->bias_correction2_sqrt + hyper->eps);
}
)cu";
}

/// Text -> text, each applied once; a find that is not there is a mistake of the test.
using Edits = std::vector<std::pair<std::string, std::string>>;

inline std::string edited(std::string text, const Edits& edits) {
  for (const auto& [find, replace] : edits) {
    const size_t at = text.find(find);
    INFO("edit of " << find);
    REQUIRE(at != std::string::npos);
    text.replace(at, find.size(), replace);
  }
  return text;
}

/// A temporary folder that holds everything a run may touch: home, cache, records, its own folder of temporary files,
/// and the candidates.
class Workplace {
 public:
  Workplace() {
    // Orphans of a run become children of this process, so that they can be seen.
    REQUIRE(::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
    for (const char* name : {"home", "tmp", "in"}) std::filesystem::create_directory(folder_.path(name));
  }

  std::string file(const std::string& name) const { return folder_.path("in/" + name); }
  std::string write(const std::string& name, const std::string& text) const {
    return folder_.write("in/" + name, text);
  }

  /// `stepbench <arguments>` to its end, at most `limit_s` seconds.
  ChildResult run(const std::vector<std::string>& arguments, double limit_s = 60) const {
    const std::vector<std::string> before = list("in");
    ChildSpec spec;
    spec.argv = {STEPBENCH_BINARY};
    spec.argv.insert(spec.argv.end(), arguments.begin(), arguments.end());
    spec.environment = program_environment(folder_);
    spec.environment.push_back("TMPDIR=" + folder_.path("tmp"));
    spec.wall_limit_s = limit_s;
    spec.text_limit_bytes = 8 << 20;
    const Result<ChildResult> result = run_child(spec);
    REQUIRE(result.ok());
    INFO(result.value().err);
    REQUIRE(result.value().ending == ChildEnding::kExited);  // not killed by the limit above, not crashed
    CHECK(no_child_left());
    CHECK(list("tmp") == std::vector<std::string>{});
    CHECK(list("home") == std::vector<std::string>{});
    CHECK(list("in") == before);
    for (const std::string& top : list("")) {
      INFO(top);
      const bool expected = top == "home" || top == "tmp" || top == "in" || top == "cache" || top == "records";
      CHECK(expected);
    }
    for (const std::string& name : list("records"))
      CHECK_THAT(name, Catch::EndsWith(".json") && !Catch::StartsWith("."));
    return result.value();
  }

  /// True when this process has no children. What was killed may take a moment to be gone.
  static bool no_child_left() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::chrono::steady_clock::now() < deadline) {
      const pid_t reaped = ::waitpid(-1, nullptr, WNOHANG);
      if (reaped == -1) return errno == ECHILD;
      if (reaped == 0) ::sched_yield();
    }
    return false;
  }

  size_t records() const { return list("records").size(); }

 private:
  std::vector<std::string> list(const std::string& name) const {
    std::vector<std::string> names;
    std::error_code status;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path(name), status))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  TemporaryFolder folder_;
};

/// Exit code that a verdict must have (README, "exit code").
inline int exit_code_for(const std::string& verdict) {
  if (verdict == "passed") return 0;
  return verdict == "unsupported" || verdict == "harness_error" ? 3 : 1;
}

inline size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

/// What is wrong with the world: exit code, one sentence on standard error, nothing on standard output, no record.
inline void check_error(const Workplace& workplace, const std::vector<std::string>& arguments, int exit_code,
                        const std::vector<std::string>& says) {
  const size_t records = workplace.records();
  const ChildResult result = workplace.run(arguments);
  INFO(result.out + result.err);
  CHECK(result.exit_code == exit_code);
  CHECK(result.out.empty());
  CHECK_THAT(result.err, Catch::StartsWith("stepbench: ") && Catch::EndsWith("\n"));
  CHECK(count_of(result.err, "\n") == 1);
  CHECK(result.err.size() < 700);
  for (const std::string& part : says) CHECK_THAT(result.err, Catch::Contains(part));
  CHECK(workplace.records() == records);
}

/// A verdict: exit code, one record on standard output, one report on standard error, both with the same sentence, and
/// the place in the author's file.
inline EvalRecord check_verdict(const Workplace& workplace, std::vector<std::string> arguments,
                                const std::string& verdict, const std::string& place,
                                const std::vector<std::string>& says) {
  arguments.insert(arguments.begin(), "eval");
  for (const char* more : {"--json", "-", "--salt", "2a"}) arguments.emplace_back(more);
  const size_t records = workplace.records();
  const ChildResult result = workplace.run(arguments);
  INFO(result.out.substr(0, 200) + result.err);
  CHECK(result.exit_code == exit_code_for(verdict));
  const Result<EvalRecord> parsed = record_from_json(result.out);
  CHECK(parsed.ok());
  if (!parsed.ok()) return {};
  const EvalRecord& record = parsed.value();
  CHECK(to_text(record.verdict) == verdict);
  CHECK(workplace.records() == records + 1);
  CHECK(record.failure.has_value() == (verdict != "passed"));
  if (!record.failure) return record;
  const Failure& failure = *record.failure;
  CHECK(failure.verdict == record.verdict);
  CHECK_THAT(failure.place, Catch::Contains(place));
  CHECK(!failure.message.empty());
  CHECK(failure.message.size() < 600);
  CHECK(failure.message.find('\n') == std::string::npos);
  CHECK(!failure.check.empty());
  for (const std::string& part : says) CHECK_THAT(failure.message, Catch::Contains(part));
  CHECK(count_of(result.err, "  why       " + failure.message) == 1);
  if (!failure.place.empty()) CHECK_THAT(result.err, Catch::Contains("  where     " + failure.place));
  CHECK(count_of(result.err, "stepbench replay " + record.id) == 1);
  CHECK_THAT(result.err, !Catch::Contains("expected  0\n"));
  return record;
}

inline void check_passes(const Workplace& workplace, std::vector<std::string> arguments) {
  arguments.emplace_back("--only");
  arguments.emplace_back(kOneCase);
  const EvalRecord record = check_verdict(workplace, arguments, "passed", "", {});
  REQUIRE(record.cases.size() == 1);
  CHECK(record.cases[0].elements_checked == 2 * 3 * 257);  // two steps, three state buffers
}

}  // namespace stepbench::bad_input
