// Large tensors that are judged whole are shared among threads: what is found must not depend on how many there are.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>

#include "harness/checks.h"

namespace stepbench {
namespace {

/// What the task's oracle makes of `before`, rounded to fp32: a right candidate's buffers.
BufferBytes right_step(const TaskSpec& task, std::span<const TensorShape> tensors, const HyperValues& hyper,
                       const BufferBytes& before) {
  HostState state;
  to_host(task, Role::kIn, before, state);
  to_host(task, Role::kInOut, before, state);
  REQUIRE(oracle_step(task, tensors, hyper, state, nullptr, 1).ok());
  BufferBytes after = before;
  for (size_t b = 0; b < task.buffers.size(); ++b) {
    REQUIRE(task.buffers[b].dtype == DType::kF32);
    for (size_t t = 0; t < tensors.size(); ++t)
      for (size_t i = 0; i < state.values[b][t].size(); ++i) {
        const auto value = static_cast<float>(state.values[b][t][i]);
        std::memcpy(after[b][t].data() + i * sizeof(value), &value, sizeof(value));
      }
  }
  return after;
}

struct Wrong {
  const char* buffer;
  size_t tensor, element;
};

TEST_CASE("the number of threads changes nothing in the judgement of whole tensors") {
  // One tensor that is cut, of 300,000 elements, and others that are not.
  const std::vector<TensorShape> tensors = {make_shape({0, 8}),  make_shape({9, 5}),   make_shape({500, 600}),
                                            make_shape({1, 1}),  make_shape({40, 30}), make_shape({3, 0}),
                                            make_shape({30, 40})};
  struct Row {
    const char* name;
    const char* task;
    std::vector<Wrong> wrong;  ///< in order of the list; the first is reported
  };
  const Row rows[] = {
      {"right", "lamb", {}},
      {"last element of the large tensor", "lamb", {{"param", 2, 299999}}},
      {"last element of a part, and a later one", "lamb", {{"param", 2, 65535}, {"param", 2, 200000}}},
      {"first element of the next", "lamb", {{"exp_avg_sq", 2, 65536}}},
      {"small tensors on both sides", "lamb", {{"exp_avg", 1, 44}, {"exp_avg", 2, 131072}, {"exp_avg", 6, 0}}},
      {"right", "adafactor", {}},
      {"last element of the large tensor", "adafactor", {{"param", 2, 299999}}},
      {"mean of a row", "adafactor", {{"row_var", 2, 499}}},
      {"mean of a column, and of another tensor's", "adafactor", {{"col_var", 2, 300}, {"col_var", 4, 29}}},
      {"right", "muon", {}},
      {"last element of the large tensor", "muon", {{"param", 2, 299999}}},
      {"first element of a part", "muon", {{"momentum_buffer", 2, 65536}}},
      {"a small tensor", "muon", {{"param", 4, 1199}, {"param", 6, 1}}},
  };
  for (const Row& row : rows) {
    INFO(row.task << ": " << row.name);
    const TaskSpec task = load_task(row.task).value();
    REQUIRE_FALSE(judged_in_parts(task));
    const std::vector<Window> windows = whole_tensors(tensors);
    const HyperValues hyper = hyper_at(draw_hyper(task, "gaussian", 7).value(), 10, false, false).value();
    const LargeData data{11};
    BufferBytes before, again;
    for (const Role role : {Role::kInOut, Role::kIn}) {
      generate_windows(task, tensors, role, windows, data, 0, 1, before);
      generate_windows(task, tensors, role, windows, data, 0, 3, again);
    }
    const bool made_alike = before == again;
    CHECK(made_alike);
    BufferBytes after = right_step(task, tensors, hyper, before);
    for (const Wrong& wrong : row.wrong) {
      const auto buffer = std::find_if(task.buffers.begin(), task.buffers.end(),
                                       [&](const BufferSpec& spec) { return spec.name == wrong.buffer; });
      REQUIRE(buffer != task.buffers.end());
      Bytes& bytes = after[static_cast<size_t>(buffer - task.buffers.begin())][wrong.tensor];
      REQUIRE((wrong.element + 1) * 4 <= bytes.size());
      bytes[wrong.element * 4 + 3] ^= std::byte{0x43};  // another sign and another exponent
    }

    std::optional<StepJudgement> first;
    JudgeSpaces spaces;
    for (const int threads : {1, 3, 16, 3}) {
      INFO(threads << " threads");
      const StepJudgement judged =
          judge_windows(task, tensors, windows, hyper, {}, before, after, threads, spaces).value();
      REQUIRE(judged.failure.has_value() == !row.wrong.empty());
      if (judged.failure) {
        CHECK(judged.failure->verdict == Verdict::kWrongResult);
        CHECK(judged.failure->buffer == row.wrong.front().buffer);
        CHECK(judged.failure->tensor == static_cast<int64_t>(row.wrong.front().tensor));
        CHECK(judged.failure->element == static_cast<int64_t>(row.wrong.front().element));
      }
      if (!first) first = judged;
      CHECK(judged.worst_ratio == first->worst_ratio);
      CHECK(judged.worst_buffer == first->worst_buffer);
      CHECK(judged.elements_checked == first->elements_checked);
      if (!judged.failure) continue;
      CHECK(judged.failure->message == first->failure->message);
      CHECK(judged.failure->detail == first->failure->detail);
      CHECK(judged.failure->expected == first->failure->expected);
      CHECK(judged.failure->error_ratio == first->failure->error_ratio);
    }
  }
}

TEST_CASE("spaces are used again, and for tensors of their size only") {
  const TaskSpec task = load_task("lamb").value();
  const std::vector<TensorShape> tensors = {make_shape({2000}), make_shape({1 << 20}), make_shape({3000})};
  const std::vector<Window> windows = whole_tensors(tensors);
  const HyperValues skip = hyper_at(draw_hyper(task, "gaussian", 7).value(), 10, false, true).value();
  BufferBytes before;
  for (const Role role : {Role::kInOut, Role::kIn})
    generate_windows(task, tensors, role, windows, LargeData{3}, 0, 1, before);
  JudgeSpaces spaces;
  for (int step = 0; step < 3; ++step) {
    const StepJudgement judged = judge_windows(task, tensors, windows, skip, {}, before, before, 1, spaces).value();
    CHECK_FALSE(judged.failure);
    CHECK(judged.worst_ratio == 0);
    // One for the large tensor and one for the others, in every step.
    REQUIRE(spaces.free.size() == 2);
    CHECK(spaces.held == (1 << 20) + 3000);
    const auto large = std::max_element(spaces.free.begin(), spaces.free.end(),
                                        [](const auto& a, const auto& b) { return a.elements < b.elements; });
    CHECK(large->space->stored.values[0][0].size() == 1 << 20);
  }
}

}  // namespace
}  // namespace stepbench
