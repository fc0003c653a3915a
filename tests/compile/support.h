// What the tests of the compiler front end share: a hand-built task, candidates from text, temporary folders,
// environment variables that are put back.
#pragma once

#include <stdlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/stages.h"

namespace stepbench {

struct TempFolder {
  std::string path;
  TempFolder() {
    char name[] = "/tmp/stepbench_compile_XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    path = name;
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code code;
    std::filesystem::remove_all(path, code);
  }
};

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = ::getenv(name)) before_ = before;
    ::setenv(name, value, 1);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() {
    if (before_)
      ::setenv(name_, before_->c_str(), 1);
    else
      ::unsetenv(name_);
  }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

inline TaskSpec sample_task(DType param = DType::kF32) {
  TaskSpec task;
  task.id = "sample";
  task.version = 3;
  task.title = "a small update";
  task.buffers.resize(3);
  task.buffers[0].name = "param";
  task.buffers[0].dtype = param;
  task.buffers[1].name = "grad";
  task.buffers[1].role = Role::kIn;
  task.buffers[2].name = "codes";
  task.buffers[2].dtype = DType::kU8;
  task.hyper.resize(3);
  task.hyper[0].name = "step";
  task.hyper[0].type = HyperType::kI32;
  task.hyper[0].meaning = "optimizer step, from 1";
  task.hyper[1].name = "lr";
  task.hyper[1].meaning = "learning rate";
  task.hyper[1].min = 1e-5;
  task.hyper[1].max = 0.01;
  task.hyper[1].scheduled = true;
  task.hyper[2].name = "eps";
  task.hyper[2].meaning = "first line \\\nsecond line";
  task.default_args = {"param", "grad", "n", "hyper"};
  return task;
}

/// A candidate that launches the named kernels, or one without a plan.
inline Candidate candidate(const std::string& source, const std::vector<std::string>& kernels = {}) {
  Candidate result;
  result.path = "/home/someone/secret/mine.cu";
  result.task = "sample";
  result.source = source;
  result.default_plan = kernels.empty();
  for (const std::string& kernel : kernels) {
    PlanLaunch launch;
    launch.kernel = kernel;
    launch.pointer = "/launches/" + std::to_string(result.plan.launches.size());
    result.plan.launches.push_back(launch);
  }
  return result;
}

inline CompileOptions no_cache() {
  CompileOptions options;
  options.use_cache = false;
  return options;
}

inline Judged<CompiledModule> compiled(const Candidate& code, const CompileOptions& options = no_cache(),
                                       const TaskSpec& task = sample_task()) {
  Result<Judged<CompiledModule>> result = compile(code, task, options);
  if (!result.ok()) FAIL(to_text(result.error()));
  return std::move(result).value();
}

inline CompiledModule module_of(const Candidate& code, const CompileOptions& options = no_cache(),
                                const TaskSpec& task = sample_task()) {
  Judged<CompiledModule> result = compiled(code, options, task);
  if (!result.ok())
    FAIL(to_text(result.failure->verdict) << ": " << result.failure->message << "\n" << result.failure->detail);
  return std::move(*result.value);
}

inline Failure failure_of(const Candidate& code, const CompileOptions& options = no_cache(),
                          const TaskSpec& task = sample_task()) {
  Judged<CompiledModule> result = compiled(code, options, task);
  if (result.ok()) FAIL("compiled, but should not");
  return std::move(*result.failure);
}

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

inline constexpr const char* kSimple =
    "extern \"C\" __global__ void simple(float* p, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  if (i < n) p[i] *= 2.0f;\n"
    "}\n";

}  // namespace stepbench

/// Ends a test that needs NVRTC on a machine without it, visibly and without claiming anything.
#define NEEDS_NVRTC()                                   \
  if (!stepbench::find_compiler().ok()) {               \
    WARN("skipped: there is no NVRTC on this machine"); \
    return;                                             \
  }
/// The same for tests that need the toolkit's headers too.
#define NEEDS_TOOLKIT()                                                                                \
  if (!stepbench::find_compiler().ok() || stepbench::find_compiler().value().include_folder.empty()) { \
    WARN("skipped: there is no NVRTC with toolkit headers on this machine");                           \
    return;                                                                                            \
  }
