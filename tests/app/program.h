// For the tests of this folder: a temporary folder, and one run of the real program or of a script in its place.
#pragma once

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "harness/child_process.h"

namespace stepbench {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "stepbench_test_XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code status;
    std::filesystem::remove_all(path_, status);
  }

  std::string path(const std::string& name) const { return path_ + "/" + name; }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }

 private:
  std::string path_;
};

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The environment of the tests' programs: own folders, tasks of this source tree, no terminal.
inline std::vector<std::string> program_environment(const TemporaryFolder& folder) {
  std::vector<std::string> environment = {"HOME=" + folder.path("home"), "XDG_CACHE_HOME=" + folder.path("cache"),
                                          "STEPBENCH_RECORDS=" + folder.path("records"),
                                          std::string("STEPBENCH_ROOT=") + STEPBENCH_TEST_FOLDER + "/.."};
  for (const char* name : {"PATH", "CUDA_HOME", "LD_LIBRARY_PATH", "STEPBENCH_NVRTC", "STEPBENCH_CUBLASLT",
                           "ASAN_OPTIONS", "UBSAN_OPTIONS"})
    if (const char* value = std::getenv(name)) environment.push_back(std::string(name) + "=" + value);
  return environment;
}

/// `stepbench <arguments>` to its end.
inline ChildResult run_program(const TemporaryFolder& folder, const std::vector<std::string>& arguments,
                               const std::vector<std::string>& more_environment = {}) {
  ChildSpec spec;
  spec.argv = {STEPBENCH_BINARY};
  spec.argv.insert(spec.argv.end(), arguments.begin(), arguments.end());
  spec.environment = program_environment(folder);
  // In front: of two variables of one name the first counts.
  spec.environment.insert(spec.environment.begin(), more_environment.begin(), more_environment.end());
  spec.wall_limit_s = 120;
  spec.text_limit_bytes = 4 << 20;
  const Result<ChildResult> result = run_child(spec);
  REQUIRE(result.ok());
  REQUIRE(result.value().ending == ChildEnding::kExited);
  return result.value();
}

/// An AdamW candidate that is right; `line` goes into the kernel, before the update.
inline std::string adamw_candidate(const std::string& line = "") {
  return R"cu(/*stepbench
{ "task": "adamw", "note": "one element per thread",
  "launches": [{"for": "tensor", "kernel": "adamw_step", "grid": "ceil_div(n, 256)", "block": "256",
                "args": ["param", "grad", "exp_avg", "exp_avg_sq", "n", "hyper"]}] }
*/
#include <stepbench.cuh>

extern "C" __global__ void adamw_step(param_t* param, const grad_t* grad, exp_avg_t* exp_avg, exp_avg_sq_t* exp_avg_sq,
                                      int64_t n, const Hyper* hyper) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n || hyper->found_inf) return;
  )cu" + line +
         R"cu(
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

}  // namespace stepbench
