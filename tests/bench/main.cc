// Entry point of the benchmarks. `stepbench_bench __compile` is the compile child, as in every program that compiles.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <exception>
#include <string_view>

#include "harness/child_process.h"
#include "tests/bench/gpu_bench.h"

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "__compile") return stepbench::compile_child_main();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  try {
    stepbench::add_gpu_benchmarks();
  } catch (const std::exception& error) {
    fmt::print(stderr, "stepbench_bench: {}\n", error.what());
    return 3;
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
