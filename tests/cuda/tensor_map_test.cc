// Tensor maps on a GPU (tensor_map_scenario.cc), and whole candidates that use them, judged by the GPU alone.
#include <fmt/format.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/cuda/scenario.h"

using namespace stepbench::gpu_test;

namespace {

void note(const Outcome& outcome) {
  UNSCOPED_INFO(outcome.child.out);
  UNSCOPED_INFO(outcome.child.err);
}

}  // namespace

TEST_CASE("boxes through tensor maps are those of the VM, zeros outside of the tensor") {
  const Outcome outcome = run_in_child({"tensor_map", "boxes"}, 240);
  note(outcome);
  std::printf("%s", outcome.child.out.c_str());
  CHECK(outcome.get("error").empty());
  CHECK(outcome.get("boxes") == "17");
  CHECK(outcome.get("wrong") == "0");
  CHECK(outcome.get("swizzles") == "3");
  CHECK(outcome.get("nan") != "wrong");
  CHECK_FALSE(outcome.get("nan").empty());
  CHECK_THAT(outcome.get("refused"), Catch::StartsWith("true the driver refuses it: i32 dims [12, 7]"));
  CHECK(outcome.get("after") == "right");
}

TEST_CASE("wrong uses of tensor maps are faults") {
  const struct {
    const char* what;
    const char* verdict;
    const char* message;
  } rows[] = {{"right", "none", ""},
              {"input", "out_of_bounds", "illegal address"},
              {"null", "launch_error", "an illegal instruction"},
              {"first_coordinate", "launch_error", "an illegal instruction"},
              {"stored_before", "launch_error", "an illegal instruction"}};
  for (const auto& row : rows) {
    INFO(row.what);
    const Outcome outcome = run_in_child({"tensor_map", row.what}, 60);
    note(outcome);
    std::printf("%s: %s, %s\n", row.what, outcome.get("verdict").c_str(), outcome.get("message").c_str());
    CHECK(outcome.get("error").empty());
    CHECK(outcome.get("verdict") == row.verdict);
    CHECK_THAT(outcome.get("message"), Catch::StartsWith(row.message));
  }
}

TEST_CASE("candidates with tensor maps pass on the GPU alone, and wrong ones do not") {
  const char* root = std::getenv("STEPBENCH_ROOT");  // a machine that did not build this may have it elsewhere
  const std::string tests = root != nullptr && *root != 0 ? std::string(root) + "/tests" : STEPBENCH_TEST_FOLDER;
  const struct {
    const char* file;
    const char* task;
    const char* verdict;
  } rows[] = {
      {"cuda/tensor_map/sgd_tiles.cu", "sgd_momentum", "passed"},
      {"cuda/tensor_map/adamw_rows.cu", "adamw", "passed"},
      {"attacks/map_made_on_the_device.cu", "adamw", "refused"},
      {"attacks/map_of_the_neighbour.cu", "adamw", "bad_candidate"},
      {"attacks/input_written_by_a_map.cu", "adamw", "out_of_bounds"},  // ends the process's use of the GPU: last
  };
  std::string pattern = (std::filesystem::temp_directory_path() / "stepbench_maps_XXXXXX").string();
  REQUIRE(::mkdtemp(pattern.data()) != nullptr);
  const std::string list = pattern + "/list";
  std::ofstream file(list, std::ios::binary);
  for (const auto& row : rows) file << fmt::format("{}\t{}/{}\t{}\n", row.file, tests, row.file, row.task);
  file.close();
  std::error_code status;
  const std::string locks = pattern + "/locks";
  std::filesystem::create_directories(locks + "/context", status);
  const Outcome outcome = run_in_child({"eval", list, locks}, 400);
  std::filesystem::remove_all(pattern, status);
  note(outcome);
  std::printf("%s", outcome.child.out.c_str());
  for (const auto& row : rows) {
    INFO(row.file);
    CHECK_THAT(outcome.child.out, Catch::Contains(fmt::format("result {}\t{}\t", row.file, row.verdict)));
  }
}
