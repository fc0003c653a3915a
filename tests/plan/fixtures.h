// A small task and candidates for the tests of plans.
#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "harness/stages.h"
#include "tests/fakes.h"

namespace stepbench::testing {

/// Two fp32 buffers, one of bf16 rows, an input; hyperparameters of both types.
inline TaskSpec small_task() {
  TaskSpec task;
  task.id = "toy";
  const auto buffer = [](const char* name, DType dtype, Role role, const char* shape) {
    BufferSpec spec;
    spec.name = name;
    spec.dtype = dtype;
    spec.role = role;
    spec.shape = shape;
    return spec;
  };
  task.buffers = {buffer("param", DType::kF32, Role::kInOut, "n"), buffer("grad", DType::kF32, Role::kIn, "n"),
                  buffer("row_state", DType::kBf16, Role::kInOut, "rows")};
  const auto field = [](const char* name, HyperType type) {
    HyperField hyper;
    hyper.name = name;
    hyper.type = type;
    return hyper;
  };
  task.hyper = {field("lr", HyperType::kF32), field("step", HyperType::kI32), field("eps", HyperType::kF32)};
  task.default_args = {"param", "grad", "n", "hyper"};
  return task;
}

inline std::vector<TensorShape> shapes(const std::vector<std::vector<int64_t>>& dims) {
  std::vector<TensorShape> list;
  for (const auto& row : dims) list.push_back(make_shape(row));
  return list;
}
inline std::vector<TensorShape> vectors(const std::vector<int64_t>& sizes) {
  std::vector<TensorShape> list;
  for (const int64_t n : sizes) list.push_back(make_shape({n}));
  return list;
}

/// The candidate of a plan's JSON; the test fails when it does not parse.
inline Candidate candidate_of(const std::string& json) {
  const Result<Judged<Candidate>> parsed =
      parse_candidate("toy.cu", "/*stepbench " + json + " */\n__global__ void k() {}\n", "", false, "");
  REQUIRE(parsed.ok());
  INFO((parsed.value().failure ? parsed.value().failure->place + ": " + parsed.value().failure->message : ""));
  REQUIRE(parsed.value().ok());
  return *parsed.value().value;
}

/// A plan of one launch.
inline std::string one_launch(const std::string& each, const std::string& args, const std::string& more = "",
                              const std::string& top = "") {
  return R"({"task": "toy", )" + top + R"("launches": [{"for": ")" + each +
         R"(", "kernel": "k", "grid": 1, "block": 32, "args": [)" + args + "]" + more + "}]}";
}

struct Opened {
  SessionPtr session;
  std::optional<Failure> failure;
};

/// Opens a session of a plan's JSON; kernels must have been added to the device under their plan names.
inline Opened open_plan(FakeDevice& device, const std::string& json, const std::vector<TensorShape>& list,
                        const TaskSpec& task = small_task(), const std::vector<int32_t>& offsets = {},
                        const CompiledModule& compiled = {}) {
  Result<Judged<SessionPtr>> opened =
      open_session(device, ModuleId{1}, compiled, candidate_of(json), task, list, offsets);
  INFO((opened.ok() ? "" : to_text(opened.error())));
  REQUIRE(opened.ok());
  Opened result;
  result.failure = opened.value().failure;
  if (opened.value().ok()) result.session = std::move(*std::move(opened).value().value);
  REQUIRE((result.session != nullptr) != result.failure.has_value());
  return result;
}

inline std::string text_of(const std::optional<Failure>& failure) {
  return failure ? failure->place + ": " + failure->message : "no failure";
}

}  // namespace stepbench::testing
