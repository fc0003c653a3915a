// Times on a GPU: what the harness's own kernels make, kernels that are right only while nobody looks, and what a
// planted difference is called. Each measurement runs in a child, since some of these kernels end a process's use of
// the GPU.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>

#include "tests/cuda/scenario.h"

using namespace stepbench;
using namespace stepbench::gpu_test;

namespace {

std::string root() {
  const char* given = std::getenv("STEPBENCH_ROOT");  // a machine that did not build this may have it elsewhere
  return given != nullptr && *given != 0 ? given : STEPBENCH_TEST_FOLDER "/..";
}
std::string baseline() { return root() + "/reference_kernels/adamw/float4.cu"; }

Outcome time_against_baseline(const std::string& file, const std::string& list, const std::string& slowness = "1") {
  Outcome outcome = run_in_child({"time", root() + "/" + file, baseline(), list, slowness}, 120);
  UNSCOPED_INFO(outcome.child.out);
  UNSCOPED_INFO(outcome.child.err);
  return outcome;
}

}  // namespace

TEST_CASE("values made on the GPU are those of the host, bit for bit") {
  const Outcome outcome = run_in_child({"generate"}, 60);
  UNSCOPED_INFO(outcome.child.out);
  UNSCOPED_INFO(outcome.child.err);
  CHECK(outcome.get("error").empty());
  CHECK(outcome.get("compared") == "90");
  CHECK(outcome.get("different") == "0");
  std::printf("%s us for values of 3000 tensors\n", outcome.get("us_per_3000_generated").c_str());
  CHECK(outcome.get("compared_in_lists") == "3040");
  CHECK(outcome.get("different_in_lists") == "0");
}

TEST_CASE("timed steps are verified steps") {
  const struct {
    const char* file;
    const char* verdict;
  } rows[] = {
      {"reference_kernels/adamw/naive.cu", "passed"},
      {"reference_kernels/adamw/multi_tensor.cu", "passed"},
      {"tests/attacks/small_sizes_only.cu", "wrong_result"},
      {"tests/attacks/skips_every_other_step.cu", "wrong_result"},
      {"tests/attacks/right_for_ten_launches.cu", "wrong_result"},
      {"tests/attacks/replay_after_warm_up.cu", "wrong_result"},
      {"tests/attacks/replay_by_pointer.cu", "wrong_result"},
      {"tests/attacks/replay_by_fingerprint.cu", "passed"},  // no data come twice, so there is nothing to replay
      {"tests/attacks/one_percent_skipped.cu", "wrong_result"},
      {"tests/attacks/states_in_half_precision.cu", "wrong_result"},
      {"tests/attacks/does_nothing.cu", "wrong_result"},
      {"tests/attacks/zeroes_its_inputs.cu", "out_of_bounds"},
      {"tests/attacks/zeroes_the_neighbourhood.cu", "out_of_bounds"},
      {"tests/attacks/trap.cu", "launch_error"},
      {"tests/attacks/too_many_threads.cu", "bad_candidate"},
      {"tests/attacks/endless_loop.cu", "timeout"},
  };
  for (const auto& row : rows) {
    DYNAMIC_SECTION(row.file) {
      const Outcome outcome = time_against_baseline(row.file, "[4194304]");
      CHECK(outcome.child.ending == ChildEnding::kExited);
      CHECK(outcome.get("verdict") == row.verdict);
      if (std::string(row.verdict) == "passed") CHECK(std::stoi(outcome.get("verified")) >= 3);
    }
  }
}

TEST_CASE("the same kernel is called the same, and tricks with cache, samples and sizes change nothing") {
  const struct {
    const char* file;
    const char* list;
    const char* word;
  } rows[] = {
      {"reference_kernels/adamw/float4.cu", "[4194304]", "same"},
      {"reference_kernels/adamw/float4.cu", "[16777216]", "same"},
      {"tests/cuda/timing/keeps_lines.cu", "[16777216]", "same"},
      {"tests/cuda/timing/slow_at_first.cu", "[16777216]", "same"},
      {"tests/cuda/timing/slower_by_extra_reads.cu", "[16777216]", "slower"},
      {"reference_kernels/adamw/multi_tensor.cu", "gpt2_124m", "faster"},
  };
  for (const auto& row : rows) {
    DYNAMIC_SECTION(row.file << " on " << row.list) {
      const Outcome outcome = time_against_baseline(row.file, row.list);
      std::printf("%s on %s: %s %s\n", row.file, row.list, outcome.get("word").c_str(), outcome.get("speedup").c_str());
      CHECK(outcome.get("verdict") == "passed");
      CHECK(outcome.get("word") == row.word);
    }
  }
}

TEST_CASE("a time that the memory cannot reach is impossible") {
  const Outcome honest = time_against_baseline("reference_kernels/adamw/float4.cu", "[16777216]");
  CHECK(honest.get("verdict") == "passed");
  // The same time against a GPU that is half as fast.
  const Outcome impossible = time_against_baseline("reference_kernels/adamw/float4.cu", "[16777216]", "2");
  CHECK(impossible.get("verdict") == "impossible_time");
  CHECK_THAT(impossible.get("message"), Catch::Contains("cannot move what the update must read and write"));
}

TEST_CASE("rates of arithmetic are those of the units") {
  const Outcome outcome = run_in_child({"rates"}, 120);
  UNSCOPED_INFO(outcome.child.out);
  UNSCOPED_INFO(outcome.child.err);
  REQUIRE(outcome.get("error").empty());
  double fp32 = 0, fp32_mhz = 0, tensor = 0, tensor_mhz = 0;
  REQUIRE(std::sscanf(outcome.get("fp32").c_str(), "%lf %lf", &fp32, &fp32_mhz) == 2);
  REQUIRE(std::sscanf(outcome.get("tensor").c_str(), "%lf %lf", &tensor, &tensor_mhz) == 2);
  const double multiprocessors = std::stod(outcome.get("multiprocessors")), highest = std::stod(outcome.get("highest"));
  std::printf("fp32 %.1f TFLOP/s at %.0f MHz, products %.1f TFLOP/s at %.0f MHz, highest %.0f MHz\n", fp32 / 1e12,
              fp32_mhz, tensor / 1e12, tensor_mhz, highest);
  // 128 fma in a cycle and multiprocessor since compute capability 8.6 and 9.0, 64 in 8.0 (CUDA C++ Programming Guide,
  // throughput of native arithmetic instructions). A loop that the compiler had removed would be far above.
  const double peak = 2 * 128 * multiprocessors * fp32_mhz * 1e6;
  CHECK(fp32 <= 1.03 * peak);
  CHECK(fp32 >= 0.45 * peak);
  CHECK(highest >= fp32_mhz * 0.99);
  if (tensor > 0) CHECK(tensor > 2 * fp32);  // 0: no cuBLASLt here
}
