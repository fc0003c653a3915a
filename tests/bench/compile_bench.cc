// What compiling a candidate costs: NVRTC in its own process, without the cache. Figures of this machine only.
#include <benchmark/benchmark.h>

#include "harness/stages.h"

namespace stepbench {
namespace {

void compile_adamw(benchmark::State& state) {
  const Result<TaskSpec> task = load_task("adamw");
  if (!task.ok()) return state.SkipWithError(to_text(task.error()).c_str());
  const Result<Judged<Candidate>> candidate =
      load_candidate(STEPBENCH_SOURCE_ROOT "/reference_kernels/adamw/naive.cu", "adamw");
  if (!candidate.ok()) return state.SkipWithError(to_text(candidate.error()).c_str());
  if (!candidate.value().ok()) return state.SkipWithError(candidate.value().failure->message.c_str());
  CompileOptions options;
  options.use_cache = false;
  for (auto _ : state) {
    const Result<Judged<CompiledModule>> compiled = compile(*candidate.value().value, task.value(), options);
    if (!compiled.ok()) return state.SkipWithError(to_text(compiled.error()).c_str());
    if (!compiled.value().ok()) return state.SkipWithError(compiled.value().failure->message.c_str());
  }
}
BENCHMARK(compile_adamw)->Name("compile/adamw_naive")->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace stepbench
