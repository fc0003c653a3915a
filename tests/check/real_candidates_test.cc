// Candidates from their text to the verdict with the real compiler and the VM: public faults on the shipped baselines,
// one kernel per kind of defect, and good ones after bad ones in the same process.
#include "tests/check/public_faults.h"
#include "tests/check/real_kernels.h"

using namespace stepbench;
using namespace stepbench::testing;

namespace {

/// An AdamW candidate with this body; `p`, `g`, `m`, `v`, `n`, `h` and the element `i` are there.
std::string candidate_with(const std::string& before, const std::string& body, const std::string& plan_extra = "",
                           const std::string& extra_arg = "", const std::string& extra_parameter = "") {
  return "/*stepbench\n"
         "{\"task\": \"adamw\"," +
         plan_extra +
         " \"launches\": [{\"for\": \"tensor\", \"kernel\": \"step\", \"grid\": \"ceil_div(n, 128)\",\n"
         "  \"block\": \"128\", \"args\": [\"param\", \"grad\", \"exp_avg\", \"exp_avg_sq\", \"n\", \"hyper\"" +
         extra_arg +
         "]}]}\n"
         "*/\n"
         "#include <stepbench.cuh>\n" +
         before +
         "\n"
         "extern \"C\" __global__ void step(float* p, const float* g, float* m, float* v, long long n,\n"
         "                                const Hyper* hyper" +
         extra_parameter +
         ") {\n"
         "  const Hyper h = *hyper;\n"
         "  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n" +
         body + "\n}\n";
}

const std::string kUpdate =
    "  if (i >= n || h.found_inf != 0) return;\n"
    "  const float x = g[i] / h.grad_scale;\n"
    "  const float mi = h.beta1 * m[i] + (1.0f - h.beta1) * x;\n"
    "  const float vi = h.beta2 * v[i] + (1.0f - h.beta2) * x * x;\n"
    "  const float u = mi / h.bias_correction1 / (sqrtf(vi / h.bias_correction2) + h.eps) + h.weight_decay * p[i];\n"
    "  p[i] -= h.lr * u; m[i] = mi; v[i] = vi;\n";

struct Row {
  const char* name;
  std::string source;
  Verdict verdict;
  const char* check;       // empty: any
  const char* in_message;  // of message or detail
};

std::vector<Row> rows() {
  return {
      {"good", candidate_with("", kUpdate), Verdict::kPassed, "", ""},
      {"does not compile", candidate_with("", kUpdate + "  undeclared = 1;"), Verdict::kCompileError, "", "undeclared"},
      {"counts its launches", candidate_with("__device__ int calls;", "  if (i == 0) ++calls;\n" + kUpdate),
       Verdict::kRefused, "", "calls"},
      {"endless loop",
       candidate_with("",
                      "  unsigned w = threadIdx.x + 1;\n  while (w != 0) w = (w * 1664525u + 1013904223u) | 1u;\n"
                      "  p[0] = w;\n" +
                          kUpdate),
       Verdict::kTimeout, "edges", ""},
      {"writes beyond its parameters", candidate_with("", "  if (i == 0) p[n] = 0;\n" + kUpdate), Verdict::kOutOfBounds,
       "edges", ""},
      {"clears memory all around", candidate_with("", "  for (int k = 0; k < 1 << 12; ++k) p[n + k] = 0;\n" + kUpdate),
       Verdict::kOutOfBounds, "edges", ""},
      {"writes its gradient", candidate_with("", "  if (i < n) const_cast<float*>(g)[i] = 0;\n" + kUpdate),
       Verdict::kOutOfBounds, "edges", ""},
      {"keeps a counter in scratch",
       candidate_with("", "  if (i == 0 && ++*calls > 10) return;\n" + kUpdate, "\"scratch\": {\"calls\": \"4\"},",
                      ", \"scratch.calls\"", ", int* calls"),
       Verdict::kUninitializedRead, "edges", "calls"},
      // Harmless in the VM's order of blocks, so that only the race check sees it.
      {"blocks that write one element",
       candidate_with("", kUpdate + "  volatile float* w = m;\n  if (threadIdx.x == 0) w[0] = w[0];"), Verdict::kRace,
       "edges", ""},
      {"right for small tensors", candidate_with("", "  if (n > 1000) return;\n" + kUpdate), Verdict::kWrongResult,
       "edges", "smallest failing shape found: one tensor of 1001 elements"},
      {"misaligned vector loads",
       candidate_with("",
                      "  if (i == 0 && n >= 4) {\n    const float4 q = *(const float4*)g;\n"
                      "    if (q.x + q.y + q.z + q.w == 1234.5f) return;\n  }\n" +
                          kUpdate),
       Verdict::kLaunchError, "edges", ""},
      {"good, after all of them", candidate_with("", kUpdate), Verdict::kPassed, "", ""},
  };
}

}  // namespace

TEST_CASE("kernels with one defect each, good ones before and after") {
  if (!can_compile()) return;
  const TaskSpec task = real_task("adamw");
  for (const Row& row : rows()) {
    const EvalRecord record = evaluate_text(task, "kernel.cu", row.source, real_options("smoke", 7));
    INFO(row.name);
    INFO((record.failure ? record.failure->message + "\n" + record.failure->detail : "passed"));
    CHECK(to_text(record.verdict) == to_text(row.verdict));
    CHECK(record.failure.has_value() == (row.verdict != Verdict::kPassed));
    if (!record.failure) continue;
    if (*row.check != '\0') {
      CHECK(record.failure->check == row.check);
      CHECK(!record.failure->case_name.empty());
      CHECK(record.failure->seed != 0);
      CHECK(record.failure->step >= 1);
    }
    const std::string text = record.failure->message + record.failure->detail;
    CHECK(text.find(row.in_message) != std::string::npos);
    CHECK(!record.replay_command.empty());
  }
}

TEST_CASE("public faults do not show in the shipped baselines") {
  if (!can_compile()) return;
  for (const std::string& id : task_ids()) {
    const TaskSpec task = real_task(id);
    const Result<std::vector<Variant>> variants = load_variants(task);
    if (!variants.ok()) FAIL(to_text(variants.error()));
    for (const Variant& variant : variants.value()) {
      if (!variant.is_baseline) continue;
      Result<Judged<Candidate>> candidate = load_candidate(variant.path, id);
      REQUIRE(candidate.ok());
      REQUIRE(candidate.value().ok());
      Result<Judged<CompiledModule>> module = compile(*candidate.value().value, task, real_options("smoke", 0).compile);
      REQUIRE(module.ok());
      REQUIRE(module.value().ok());
      const CheckContext context{
          task, *candidate.value().value, *module.value().value, [] { return open_device("vm"); }, 1, 1, "", nullptr};
      for (const PublicFault& fault : public_faults()) {
        if (fault.task != id) continue;
        INFO(variant.name << ": " << fault.name);
        Result<ScenarioResult> result = run_scenario(context, scenario_of(task, fault));
        REQUIRE(result.ok());
        REQUIRE(!result.value().failure);
        CHECK(final_param(task, result.value()) == Approx(fault.right_param).margin(fault.margin).epsilon(0));
      }
    }
  }
}

TEST_CASE("the same salt gives the same verdict on the VM with one and two threads") {
  if (!can_compile()) return;
  const TaskSpec task = real_task("adamw");
  const std::string source = candidate_with("", "  if (n > 1000) return;\n" + kUpdate);
  EvalOptions options = real_options("smoke", 11);
  options.threads = 1;
  const EvalRecord one = evaluate_text(task, "kernel.cu", source, options);
  options.threads = 2;
  const EvalRecord two = evaluate_text(task, "kernel.cu", source, options);
  REQUIRE(one.failure);
  REQUIRE(two.failure);
  CHECK(one.failure->message == two.failure->message);
  CHECK(one.failure->detail == two.failure->detail);
  CHECK(one.cases.size() == two.cases.size());

  options.only_check = one.failure->check;
  options.only_case = one.failure->case_name;
  const EvalRecord again = evaluate_text(task, "kernel.cu", source, options);
  REQUIRE(again.failure);
  CHECK(again.failure->message == one.failure->message);
  CHECK(again.cases.size() == 1);
}
