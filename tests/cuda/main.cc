// Main of the GPU tests: 77 (skipped) where there is no GPU. The same program is its own compile child, worker and
// scenario child.
#define CATCH_CONFIG_RUNNER
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <string_view>

#include "harness/device.h"
#include "harness/worker.h"
#include "tests/cuda/scenario.h"

int main(int argc, char** argv) {
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (first == "__compile") return stepbench::compile_child_main();
  if (first == "__worker") return stepbench::worker_main();
  if (first == "__gpu") stepbench::gpu_test::scenario_main({argv + 2, argv + argc});
  constexpr int kSkipped = 77;
  if (!first.starts_with("--list")) {
    const auto source = stepbench::device_source("cuda", nullptr);
    if (!source.ok()) {
      fmt::print("skipped: {}\n", stepbench::to_text(source.error()));
      return kSkipped;
    }
  }
  return Catch::Session().run(argc, argv);
}
