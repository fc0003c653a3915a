// C07, C09, C12, C20: what the harness does with code that never ends, fails late or computes nothing finite.
#include <algorithm>

#include "harness/record.h"
#include "tests/app/program.h"
#include "tests/faults/kernels.h"

using namespace stepbench;
using namespace stepbench::testing;

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

TEST_CASE("C07: a compilation that would not end is stopped at its limit, and the next one is normal") {
  if (!can_compile()) return;
  const TaskSpec task = real_task("adamw");
  // 2^20 statements, which no compiler declines as it does a loop that is too long to unroll.
  std::string unrolled_macros = "#define S0 a = sinf(a) / (a + 1.0f);\n";
  for (int k = 1; k <= 20; ++k) {
    const std::string below = "S" + std::to_string(k - 1);
    unrolled_macros += "#define S" + std::to_string(k) + " " + below + " " + below + "\n";
  }
  const struct {
    const char* name;
    std::string module_scope, first;
    std::vector<Verdict> verdicts;
  } rows[] = {
      {"unrolled 2^20 times",
       unrolled_macros,
       "float a = (float)n; S20 if (a == 1.5f) return;",
       {Verdict::kTimeout, Verdict::kCompileError}},
      {"recursive templates, two to the 24",
       "template <int N, int M> struct F { static constexpr long v = F<N - 1, M * 2>::v + F<N - 1, M * 2 + 1>::v; };\n"
       "template <int M> struct F<0, M> { static constexpr long v = M; };\n"
       "__device__ long deep() { return F<24, 1>::v; }",
       "if (deep() == 1) return;",
       {Verdict::kTimeout}},
      {"recursive templates, a million deep",
       "template <int N> struct F { static constexpr long v = F<N - 1>::v + 1; };\n"
       "template <> struct F<0> { static constexpr long v = 0; };\n"
       "__device__ long deep() { return F<1000000>::v; }",
       "if (deep() == 1) return;",
       {Verdict::kTimeout, Verdict::kCompileError}},
      {"a device file without end", "#include \"/dev/zero\"\n", "", {Verdict::kCompileError}},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    AdamwText text;
    text.module_scope = row.module_scope;
    text.first = row.first;
    CompileOptions options;
    options.use_cache = false;
    options.cpu_limit_s = 1;
    options.wall_limit_s = 20;  // the machine may be busy; CPU time decides
    const auto start = std::chrono::steady_clock::now();
    Result<Judged<CompiledModule>> result = compile(candidate_of(adamw_text(text)), task, options);
    REQUIRE(result.ok());
    REQUIRE_FALSE(result.value().ok());
    INFO(result.value().failure->message);
    CHECK(std::find(row.verdicts.begin(), row.verdicts.end(), result.value().failure->verdict) != row.verdicts.end());
    CHECK(seconds_since(start) < options.wall_limit_s + 2);
  }
  check_passed(evaluated(task, candidate_of(adamw_text({}))));
}

TEST_CASE("C09: an endless kernel ends within its limit, and the next candidate of the same command passes") {
  if (!can_compile()) return;
  const TemporaryFolder folder;
  AdamwText spin;
  spin.first = "if (i == 0) { volatile const float* flag = g; while (*flag == 0 || n > 0) {} }";
  const std::string endless = folder.write("endless.cu", adamw_text(spin));
  const std::string good = folder.write("good.cu", adamw_text({}));
  const auto start = std::chrono::steady_clock::now();
  const ChildResult result = run_program(folder, {"eval", endless, good, "--timeout", "60"});
  INFO(result.out << result.err);
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.out,
             Catch::Contains("endless.cu  timeout") && Catch::Contains("good.cu") && Catch::Contains("passed"));
  CHECK(seconds_since(start) < 65);  // far less on an idle machine: the budget counts instructions
}

TEST_CASE("C12: a fault in a late launch is this candidate's, at the step where it happened") {
  if (!can_compile()) return;
  const TaskSpec task = with_drift(real_task("adamw"), 200, "[33]");
  const Candidate good = candidate_of(adamw_text({}));
  check_passed(evaluated(task, good));
  // The seventh launch, and the very last one, after which the kernel does nothing more.
  for (const int step : {7, 200}) {
    INFO(step);
    AdamwText text;
    text.last = "if (h.step == " + std::to_string(step) + " && i == 0) p[n] = 0;";
    const EvalRecord record = evaluated(task, candidate_of(adamw_text(text)));
    check_failure(record, Verdict::kOutOfBounds);
    CHECK(record.failure->check == "drift");
    CHECK(record.failure->step == step);
    CHECK(record.failure->buffer == "param");
    check_passed(evaluated(task, good));
  }
}

TEST_CASE("C12: a fault in the seventh of ten launches of one step names that launch") {
  if (!can_compile()) return;
  const auto repeated = [](const std::string& condition) {
    return candidate_of(
        "/*stepbench\n"
        "{\"task\": \"adamw\", \"launches\": [\n"
        " {\"for\": \"tensor\", \"kernel\": \"step\", \"grid\": \"ceil_div(n, 32)\", \"block\": \"32\",\n"
        "  \"args\": [\"param\", \"grad\", \"exp_avg\", \"exp_avg_sq\", \"n\", \"hyper\"]},\n"
        " {\"for\": \"tensor\", \"repeat\": 10, \"launches\": [{\"kernel\": \"look\", \"grid\": \"1\", \"block\": "
        "\"1\",\n"
        "  \"args\": [\"param\", \"n\", \"iteration\"]}]}]}\n"
        "*/\n"
        "#include <stepbench.cuh>\n"
        "extern \"C\" __global__ void step(float* p, const float* g, float* m, float* v, long long n, const Hyper* "
        "hyper) {\n"
        "  const Hyper h = *hyper;\n"
        "  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
        "  if (i >= n || h.found_inf != 0) return;\n"
        "  const float x = g[i] / h.grad_scale;\n"
        "  const float mi = h.beta1 * m[i] + (1.0f - h.beta1) * x, vi = h.beta2 * v[i] + (1.0f - h.beta2) * x * x;\n"
        "  p[i] -= h.lr * (mi / h.bias_correction1 / (sqrtf(vi / h.bias_correction2) + h.eps) + h.weight_decay * "
        "p[i]);\n"
        "  m[i] = mi; v[i] = vi;\n"
        "}\n"
        "extern \"C\" __global__ void look(float* p, long long n, long long iteration) {\n"
        "  if (" +
        condition + ") p[n] = 0;\n}\n");
  };
  const TaskSpec task = with_edges(real_task("adamw"), {group({"[33]"}, {"gaussian"}, {3}, 2)});
  check_passed(evaluated(task, repeated("iteration == 10"), only("edges")));
  const EvalRecord record = evaluated(task, repeated("iteration == 6"), only("edges"));
  check_failure(record, Verdict::kOutOfBounds);
  CHECK(record.failure->step == 3);
  INFO(record.failure->detail);
  CHECK(record.failure->detail.find("/launches/1/launches/0") != std::string::npos);
  CHECK(record.failure->detail.find("iteration 6") != std::string::npos);
  CHECK(record.failure->place == "kernel.cu:19");
}

TEST_CASE("C20: records of results that are not finite are strict JSON, with the numbers as words") {
  if (!can_compile()) return;
  const TaskSpec task = real_task("adamw");
  for (const char* bits : {"0x7fffffff", "0x7f800000", "0xff800000"}) {
    INFO(bits);
    AdamwText text;
    text.last = std::string("p[i] = __int_as_float(") + bits + ");";
    const EvalRecord record = evaluated(task, candidate_of(adamw_text(text)));
    check_failure(record, Verdict::kWrongResult);
    const std::string json = record_to_json(record, 1);
    const Result<EvalRecord> read = record_from_json(json);
    if (!read.ok()) FAIL(to_text(read.error()));
    CHECK(record_to_json(read.value(), 1) == json);
    CHECK(std::isfinite(read.value().failure->got) == std::isfinite(record.failure->got));
    for (const char* bare : {": nan", ": NaN", ": inf", ": Infinity", ": -inf"})
      CHECK(json.find(bare) == std::string::npos);
    // null stands for what is not there, and never for a number.
    std::string rest = json;
    for (const std::string absent : {"\"submission\": null", "\"calibration\": null"}) {
      const size_t at = rest.find(absent);
      REQUIRE(at != std::string::npos);
      rest.erase(at, absent.size());
    }
    CHECK(rest.find(": null") == std::string::npos);
  }
}
