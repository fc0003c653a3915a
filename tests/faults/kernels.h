// Kernels of this folder: CUDA text around one changed line, compiled once and run on the VM, by hand-made trajectory
// or through a whole evaluation of a small suite.
#pragma once

#include <chrono>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/check/public_faults.h"
#include "tests/check/real_kernels.h"

namespace stepbench::testing {

/// Text of an AdamW candidate, one element per thread. `h` is this thread's copy of Hyper, `i` its element, `x` the
/// unscaled gradient, `mi` and `vi` the new moments.
struct AdamwText {
  std::string module_scope;  ///< before the kernel
  std::string first;         ///< at the start: `i`, `n`, `hyper` and the pointers are there, `h` may be changed
  std::string guard = "if (i >= n || h.found_inf != 0) return;";
  std::string gradient = "g[i] / h.grad_scale";
  std::string denominator = "sqrtf(vi / h.bias_correction2) + h.eps";
  std::string update = "mi / h.bias_correction1 / (DENOMINATOR) + h.weight_decay * p[i]";
  std::string store = "p[i] -= h.lr * u; m[i] = mi; v[i] = vi;";
  std::string last;  ///< at the end
};

inline std::string adamw_text(AdamwText text) {
  const size_t at = text.update.find("DENOMINATOR");
  if (at != std::string::npos) text.update.replace(at, 11, text.denominator);
  return "/*stepbench\n"
         "{\"task\": \"adamw\", \"launches\": [{\"for\": \"tensor\", \"kernel\": \"step\", \"grid\": \"ceil_div(n, "
         "128)\",\n"
         "  \"block\": \"128\", \"args\": [\"param\", \"grad\", \"exp_avg\", \"exp_avg_sq\", \"n\", \"hyper\"]}]}\n"
         "*/\n"
         "#include <stepbench.cuh>\n" +
         text.module_scope +
         "\nextern \"C\" __global__ void step(float* p, const float* g, float* m, float* v, long long n,\n"
         "                                const Hyper* hyper) {\n"
         "  Hyper h = *hyper;\n"
         "  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n  " +
         text.first + "\n  " + text.guard + "\n  const float x = " + text.gradient +
         ";\n"
         "  const float mi = h.beta1 * m[i] + (1.0f - h.beta1) * x;\n"
         "  const float vi = h.beta2 * v[i] + (1.0f - h.beta2) * x * x;\n"
         "  const float u = " +
         text.update + ";\n  " + text.store + "\n  " + text.last + "\n}\n";
}

/// Text of a candidate for sgd_momentum; `b` is the momentum buffer.
inline std::string sgd_text(const std::string& momentum) {
  return "/*stepbench\n"
         "{\"task\": \"sgd_momentum\", \"launches\": [{\"for\": \"tensor\", \"kernel\": \"step\",\n"
         "  \"grid\": \"ceil_div(n, 128)\", \"block\": \"128\", \"args\": [\"param\", \"grad\", \"momentum_buffer\", "
         "\"n\", "
         "\"hyper\"]}]}\n"
         "*/\n"
         "#include <stepbench.cuh>\n"
         "extern \"C\" __global__ void step(float* p, const float* g, float* buffer, long long n, const Hyper* hyper) "
         "{\n"
         "  const Hyper h = *hyper;\n"
         "  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
         "  if (i >= n || h.found_inf != 0) return;\n"
         "  const float x = g[i] / h.grad_scale + h.weight_decay * p[i];\n"
         "  const float old = buffer[i];\n"
         "  const float b = " +
         momentum +
         ";\n"
         "  p[i] -= h.lr * (h.nesterov != 0 ? x + h.momentum * b : b);\n"
         "  buffer[i] = b;\n}\n";
}
inline const char* const kRightMomentum = "h.is_first_step != 0 ? x : h.momentum * old + (1.0f - h.dampening) * x";

/// A candidate and its code. Not admitted: what the checks alone see is seen here too.
struct Compiled {
  TaskSpec task;
  Candidate candidate;
  CompiledModule module;

  CheckContext context(const std::string& device = "vm:check") const {
    return {task, candidate, module, [device] { return open_device(device); }, 1, 1, "", nullptr};
  }
};

inline Compiled compiled(const TaskSpec& task, const Candidate& candidate) {
  Result<Judged<CompiledModule>> module = compile(candidate, task, real_options("smoke", 0).compile);
  if (!module.ok()) FAIL(to_text(module.error()));
  if (!module.value().ok()) FAIL(module.value().failure->message << "\n" << module.value().failure->detail);
  return {task, candidate, std::move(*module.value().value)};
}

inline Candidate candidate_of(const std::string& source, const std::string& task = "adamw") {
  Result<Judged<Candidate>> candidate = parse_candidate("kernel.cu", source, "", false, task);
  if (!candidate.ok()) FAIL(to_text(candidate.error()));
  if (!candidate.value().ok()) FAIL(candidate.value().failure->message);
  return std::move(*candidate.value().value);
}

inline Compiled compiled(const TaskSpec& task, const std::string& source) {
  return compiled(task, candidate_of(source, task.id));
}

inline Candidate shipped(const std::string& path_from_root, const std::string& task) {
  const std::string path = std::string(STEPBENCH_SOURCE_ROOT) + "/" + path_from_root;
  Result<Judged<Candidate>> candidate = load_candidate(path, task);
  if (!candidate.ok()) FAIL(to_text(candidate.error()));
  if (!candidate.value().ok()) FAIL(candidate.value().failure->message);
  return std::move(*candidate.value().value);
}

inline size_t buffer_index(const TaskSpec& task, const std::string& name) {
  for (size_t b = 0; b < task.buffers.size(); ++b) {
    if (task.buffers[b].name == name) return b;
  }
  FAIL("no buffer " << name);
  return 0;
}

inline Bytes bytes_of(const std::vector<float>& values) {
  Bytes bytes(values.size() * sizeof(float));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

inline ScenarioResult run(const Compiled& kernel, const Scenario& scenario, const std::string& device = "vm:check") {
  Result<ScenarioResult> result = run_scenario(kernel.context(device), scenario);
  if (!result.ok()) FAIL(to_text(result.error()));
  return std::move(result.value());
}

/// End values by buffer name of the first element of a hand-made trajectory.
inline std::map<std::string, double> end_of(const Compiled& kernel, const PublicFault& trajectory) {
  const ScenarioResult result = run(kernel, scenario_of(kernel.task, trajectory), "vm");
  if (result.failure) FAIL(result.failure->message);
  std::map<std::string, double> values;
  for (size_t b = 0; b < kernel.task.buffers.size(); ++b)
    values[kernel.task.buffers[b].name] = to_double(kernel.task.buffers[b].dtype, result.final_buffers[b][0]).front();
  return values;
}

inline CaseGroup group(std::vector<std::string> lists, std::vector<std::string> families,
                       std::vector<int64_t> first_steps, int32_t steps, bool with_found_inf = false) {
  CaseGroup made;
  made.lists = std::move(lists);
  made.families = std::move(families);
  made.first_steps = std::move(first_steps);
  made.steps = steps;
  made.with_found_inf = with_found_inf;
  return made;
}

/// The task with these cases as its only suite, "smoke".
inline TaskSpec with_edges(TaskSpec task, std::vector<CaseGroup> edges) {
  Suite suite;
  suite.edges = std::move(edges);
  task.suites = {{"smoke", std::move(suite)}};
  return task;
}
inline TaskSpec with_drift(TaskSpec task, int64_t steps, const std::string& list = "[96,5]") {
  Suite suite;
  suite.drift = {DriftSpec{list, {"gaussian"}, steps, 8}};
  task.suites = {{"smoke", std::move(suite)}};
  return task;
}

inline EvalRecord evaluated(const TaskSpec& task, const Candidate& candidate, EvalOptions options = {}) {
  options.compile = real_options("smoke", 0).compile;
  if (options.salt == 0) options.salt = 3;
  Result<EvalRecord> record = evaluate(candidate, task, options, nullptr);
  if (!record.ok()) FAIL(to_text(record.error()));
  return std::move(record.value());
}

inline EvalOptions only(const std::string& check, const std::string& case_name = "") {
  EvalOptions options;
  options.only_check = check;
  options.only_case = case_name;
  return options;
}

/// What every failure must tell, whatever its verdict.
inline void check_failure(const EvalRecord& record, Verdict expected) {
  REQUIRE(record.failure);
  INFO(record.failure->message << "\n" << record.failure->detail);
  CHECK(to_text(record.verdict) == to_text(expected));
  CHECK(record.failure->verdict == record.verdict);
  CHECK_FALSE(record.failure->message.empty());
  CHECK_FALSE(record.failure->check.empty());
  CHECK(record.replay_command.rfind("stepbench ", 0) == 0);
}

inline void check_passed(const EvalRecord& record) {
  INFO((record.failure ? record.failure->message + "\n" + record.failure->detail : ""));
  CHECK(to_text(record.verdict) == to_text(Verdict::kPassed));
}

}  // namespace stepbench::testing
