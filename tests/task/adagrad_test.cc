// Adagrad's sum only grows: what fp32 does to it in long runs, which the task's drift limits allow for, and what a
// narrower sum does, which they do not.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "harness/stages.h"

namespace stepbench {
namespace {

constexpr size_t kParam = 0, kGrad = 1, kStateSum = 2;

TaskSpec adagrad() {
  const Result<TaskSpec> task = load_task("adagrad");
  if (!task.ok()) FAIL(to_text(task.error()));
  return task.value();
}

float to_bf16(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, 4);
  bits = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
  std::memcpy(&value, &bits, 4);
  return value;
}

/// Parameter and sum after so many steps of one gradient from zero, no decay, in fp32 with the sum stored by `store`.
struct Run {
  float param = 0, sum = 0;
};
template <class Store>
Run run(float g, int steps, Store store) {
  Run state;
  for (int t = 0; t < steps; ++t) {
    state.sum = store(state.sum + g * g);
    state.param -= 0.01f * (g / (std::sqrt(state.sum) + 1e-10f));
  }
  return state;
}
Run exact_run(const TaskSpec& task, float g, int steps) {
  const TensorShape shape = make_shape({1});
  HostState state;
  state.values = {{{0.0}}, {{static_cast<double>(g)}}, {{0.0}}};
  for (int t = 1; t <= steps; ++t)
    REQUIRE(oracle_step(task, {&shape, 1}, hyper_from_defaults(task, t, {}).value(), state, nullptr, 1).ok());
  return {static_cast<float>(state.values[kParam][0][0]), static_cast<float>(state.values[kStateSum][0][0])};
}
double off(float got, float exact) { return std::fabs(static_cast<double>(got) / static_cast<double>(exact) - 1); }

TEST_CASE("Adagrad: equal additions round the same way, a few 1e-4 of the sum in 10,000 steps") {
  const TaskSpec task = adagrad();
  const auto keep = [](float sum) { return sum; };
  double worst_sum = 0, worst_param = 0;
  for (const float g : {0.1f, 0.3f, 0.007f, 1.9f, 5e-5f}) {
    const Run got = run(g, 10000, keep), exact = exact_run(task, g, 10000);
    worst_sum = std::max(worst_sum, off(got.sum, exact.sum));
    worst_param = std::max(worst_param, off(got.param, exact.param));
    // An addition is wrong by at most half a unit of the sum, 2^-24 of it: at most steps * 2^-24 in all.
    CHECK(off(got.sum, exact.sum) < 10000 * 0x1p-24);
  }
  CHECK(worst_sum > 3e-5);
  CHECK(worst_sum < 0.5 * task.buffers[kStateSum].tolerance.drift_ratio);
  CHECK(worst_param < 0.5 * task.buffers[kParam].tolerance.drift_ratio);
}

TEST_CASE("Adagrad: a sum stands still above 2^24 of the square in fp32, above 2^8 in bf16") {
  for (const float g : {1.0f, 0x1p-10f}) {
    const float still = 0x1p24f * g * g;
    CHECK(still + g * g == still);
    CHECK(still * 0.5f + g * g > still * 0.5f);
  }
  const TaskSpec task = adagrad();
  // The sum sticks at 256 squares, so from then on every step is as large as that one: 10,000 steps go too far by more
  // than half, and the limit on the sum's drift is left at once.
  const Run narrow = run(1, 10000, to_bf16), exact = exact_run(task, 1, 10000);
  CHECK(narrow.sum == 256);
  CHECK(exact.sum == 10000);
  CHECK(narrow.param / exact.param > 1.5f);
  const Run at_300 = run(1, 300, to_bf16);
  CHECK(off(at_300.sum, 300) > 2 * task.buffers[kStateSum].tolerance.drift_ratio);
}

}  // namespace
}  // namespace stepbench
