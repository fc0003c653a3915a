// A smaller list that fails like the one that failed, by real kernels on the VM.
#include "tests/check/real_kernels.h"

using namespace stepbench;
using namespace stepbench::testing;

namespace {

/// A kernel of the whole step, run once for the list; `body` sees the list's tables.
std::string step_kernel(const std::string& body) {
  return "/*stepbench\n{\"task\": \"adamw\", \"scratch\": {\"word\": \"4\"}, \"launches\": [\n"
         "  {\"kernel\": \"step\", \"grid\": \"1\", \"block\": \"1\", \"args\": [\"n[]\", \"tensors\", "
         "\"scratch.word\"]}]}\n*/\n"
         "extern \"C\" __global__ void step(const long long* n, int tensors, int* word) {\n  " +
         body + "\n}\n";
}

std::string shrunk(const std::string& source, const std::vector<int64_t>& sizes) {
  const TaskSpec task = real_task("adamw");
  const Result<Judged<Candidate>> candidate = parse_candidate("a.cu", source, "", false, task.id);
  REQUIRE(candidate.ok());
  REQUIRE(candidate.value().ok());
  const Result<Judged<CompiledModule>> module =
      compile(*candidate.value().value, task, real_options("smoke", 0).compile);
  REQUIRE(module.ok());
  REQUIRE(module.value().ok());
  const CheckContext context{
      task, *candidate.value().value, *module.value().value, [] { return open_device("vm"); }, 1, 1, "", nullptr};
  CaseSpec spec;
  spec.name = "list";
  spec.family = "gaussian";
  CaseData data;
  for (const int64_t size : sizes) {
    data.streams.push_back(static_cast<int64_t>(spec.tensors.size()));
    spec.tensors.push_back(make_shape({size}));
  }
  Failure failure;
  failure.verdict = Verdict::kOutOfBounds;
  const Result<std::string> found = shrink_case(context, "edges", spec, data, failure);
  if (!found.ok()) FAIL(to_text(found.error()));
  return found.value();
}

}  // namespace

TEST_CASE("a list that fails whatever is in it shrinks to one tensor, not to none") {
  if (!can_compile()) return;
  const std::string always = step_kernel("word[1] = 0;");
  CHECK_THAT(shrunk(always, {5, 3, 2}), Catch::StartsWith("smallest failing list found: 1 tensor of ["));
  CHECK_THAT(shrunk(always, {5, 3}), Catch::StartsWith("smallest failing list found: 1 tensor of ["));
  CHECK_THAT(shrunk(always, {0, 0, 0, 0, 0}), Catch::StartsWith("smallest failing list found: 1 tensor of [0]"));
}

TEST_CASE("a list shrinks to the tensors that it takes to fail") {
  if (!can_compile()) return;
  // Two empty tensors are enough to write beyond the word. All are empty: in others, where this does nothing, every
  // result would be wrong as well.
  const std::string pair = step_kernel(
      "int found = 0;\n  for (int i = 0; i < tensors; ++i) found += n[i] == 0 ? 1 : 0;\n"
      "  if (found >= 2) word[1] = 0;");
  CHECK_THAT(shrunk(pair, {0, 0, 0, 0, 0, 0}), Catch::StartsWith("smallest failing list found: 2 tensors of [0, 0]"));
}
