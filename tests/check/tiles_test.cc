// Windows are judged in tiles; what is found must be what the judgement of all of them at once finds.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>

#include "harness/checks.h"

namespace stepbench {
namespace {

struct Wrong {
  const char* buffer;
  size_t window;
  int64_t element;  ///< of the buffer, in the window
  int change;       ///< exclusive or with the last byte
};

TEST_CASE("tiles of windows are judged as the windows are") {
  // Of a skipped step nothing changes: what was drawn is right, whatever the task. 2^18 + 20,000 elements are two
  // windows, the second of three tiles; the short ones share a tile and begin where it cannot be filled.
  const std::vector<TensorShape> tensors = {make_shape({kWindowElements + 20000}), make_shape({300}), make_shape({7}),
                                            make_shape({20001})};
  struct Row {
    const char* name;
    const char* task;
    std::vector<Wrong> wrong;
  };
  const Row rows[] = {
      {"right", "adamw", {}},
      {"right, sums over the list", "clip_adamw", {}},
      {"right, blocks of 256", "adamw_8bit", {}},
      {"right, rounded by chance", "adamw_bf16_sr_own", {}},
      {"last element of a tile", "adamw", {{"param", 1, 8191, 1}}},
      {"first element of the next", "adamw", {{"param", 1, 8192, 1}}},
      {"last element of all", "adamw", {{"exp_avg_sq", 4, 20000, 1}}},
      {"an earlier buffer in a later tile, worse in the last",
       "adamw",
       {{"exp_avg", 1, 100, 1}, {"param", 1, 9000, 1}, {"param", 1, 19999, 2}, {"exp_avg_sq", 0, 262143, 0x80}}},
      {"between short tensors", "adamw", {{"param", 2, 299, 1}, {"param", 3, 0, 4}, {"exp_avg", 3, 6, 1}}},
      {"scale of a block in a later tile", "adamw_8bit", {{"exp_avg_scale", 1, 33, 1}, {"exp_avg_scale", 1, 78, 1}}},
      {"code in a later tile", "adamw_8bit", {{"exp_avg_sq", 4, 12345, 0x10}}},
      {"a value rounded by chance", "adamw_bf16_sr_own", {{"param", 1, 12000, 1}}},
  };
  for (const Row& row : rows) {
    const TaskSpec task = load_task(row.task).value();
    const std::vector<Window> windows = all_windows(tensors);
    REQUIRE(windows.size() == 5);
    const LargeData data{derive_seed(5, row.name)};
    BufferBytes before;
    for (const Role role : {Role::kInOut, Role::kIn})
      generate_windows(task, tensors, role, windows, data, 0, 2, before);
    BufferBytes after = before;
    for (const Wrong& wrong : row.wrong) {
      const auto buffer = std::find_if(task.buffers.begin(), task.buffers.end(),
                                       [&](const BufferSpec& spec) { return spec.name == wrong.buffer; });
      REQUIRE(buffer != task.buffers.end());
      Bytes& bytes = after[static_cast<size_t>(buffer - task.buffers.begin())][wrong.window];
      const size_t at = static_cast<size_t>(wrong.element + 1) * dtype_bytes(buffer->dtype) - 1;
      REQUIRE(at < bytes.size());
      bytes[at] ^= static_cast<std::byte>(wrong.change);
    }
    const HyperValues skip = hyper_at(draw_hyper(task, "gaussian", 7).value(), 10, false, true).value();
    const std::vector<double> totals = list_totals(task, tensors, skip, data, 0, 1).value();

    // One window after the other: five windows are five runs, whose findings stand by themselves.
    JudgeSpace space;
    std::optional<Failure> failure;
    int64_t elements = 0;
    double worst_ratio = 0;
    for (size_t w = 0; w < windows.size(); ++w) {
      const Window& window = windows[w];
      const TensorShape& whole = tensors[static_cast<size_t>(window.tensor)];
      const TensorShape shape = window.count == whole.n ? whole : make_shape({window.count});
      const JudgePart part{.windows = {&window, 1}, .totals = totals};
      const StepJudgement one =
          judge_step(task, {&shape, 1}, skip, views_of(before, w, 1), views_of(after, w, 1), 1, space, part).value();
      elements += one.elements_checked;
      worst_ratio = std::max(worst_ratio, one.worst_ratio);
      if (!failure) failure = one.failure;
    }
    INFO(row.name);
    CHECK(failure.has_value() == !row.wrong.empty());
    const StepJudgement tiled = judge_windows(task, tensors, windows, skip, totals, before, after, 2).value();
    CHECK(tiled.elements_checked == elements);
    CHECK(tiled.worst_ratio == worst_ratio);
    REQUIRE(tiled.failure.has_value() == failure.has_value());
    if (!failure) continue;
    CHECK(tiled.failure->message == failure->message);
    CHECK(tiled.failure->detail == failure->detail);
    CHECK(tiled.failure->buffer == failure->buffer);
    CHECK(tiled.failure->tensor == failure->tensor);
    CHECK(tiled.failure->element == failure->element);
    CHECK(tiled.failure->expected == failure->expected);
    CHECK(tiled.failure->got == failure->got);
    CHECK(tiled.failure->error_ratio == failure->error_ratio);
  }
}

TEST_CASE("values that the host makes are the same wherever they are asked for") {
  const struct {
    const char* task;
    const char* buffer;
    int64_t elements_per_value;
  } rows[] = {{"adamw_8bit", "exp_avg", 1},
              {"adamw_8bit", "exp_avg_scale", 256},
              {"adamw_bf16_remainder", "remainder", 1},
              {"adamw_bf16_remainder", "param", 1},
              {"adamw_bf16_kahan", "compensation", 1},
              {"rmsprop", "grad_avg", 1}};
  const std::vector<TensorShape> tensors = {make_shape({2 * kWindowElements + 5003}), make_shape({700})};
  for (const auto& row : rows) {
    INFO(row.task << ": " << row.buffer);
    const TaskSpec task = load_task(row.task).value();
    size_t b = 0;
    while (task.buffers[b].name != row.buffer) ++b;
    const size_t width = dtype_bytes(task.buffers[b].dtype);
    const std::vector<Window> all = all_windows(tensors), audit = audit_windows(tensors, 60000, 3);
    BufferBytes every, some, again, other;
    const LargeData data{9};
    generate_windows(task, tensors, Role::kInOut, all, data, 0, 2, every);
    generate_windows(task, tensors, Role::kInOut, audit, data, 0, 2, some);
    generate_windows(task, tensors, Role::kInOut, audit, LargeData{9}, 0, 2, again);
    generate_windows(task, tensors, Role::kInOut, audit, LargeData{10}, 0, 2, other);
    CHECK(some[b] == again[b]);
    CHECK(some[b] != other[b]);
    CHECK(every[b][0] != every[b][1]);
    REQUIRE(audit.size() > 4);
    for (size_t w = 0; w < audit.size(); ++w) {
      const auto found = std::find_if(all.begin(), all.end(), [&](const Window& one) {
        return one.tensor == audit[w].tensor && one.first <= audit[w].first && audit[w].first < one.first + one.count;
      });
      REQUIRE(found != all.end());
      const Bytes& whole = every[b][static_cast<size_t>(found - all.begin())];
      const size_t from = static_cast<size_t>((audit[w].first - found->first) / row.elements_per_value) * width;
      REQUIRE(from + some[b][w].size() <= whole.size());
      CHECK(std::equal(some[b][w].begin(), some[b][w].end(), whole.begin() + static_cast<std::ptrdiff_t>(from)));
    }
  }
}

TEST_CASE("a run of several windows is judged as a whole") {
  const TaskSpec task = load_task("adamw").value();
  // Twelve windows in four runs of one thread: windows 3 to 5 are one.
  const std::vector<TensorShape> tensors(12, make_shape({10000}));
  const std::vector<Window> windows = all_windows(tensors);
  REQUIRE(windows.size() == 12);
  const LargeData data{11};
  BufferBytes before;
  for (const Role role : {Role::kInOut, Role::kIn}) generate_windows(task, tensors, role, windows, data, 0, 2, before);
  BufferBytes after = before;
  const auto spoil = [&](size_t b, size_t window, int64_t element, int change) {
    after[b][window][static_cast<size_t>(element) * 4 + 3] ^= static_cast<std::byte>(change);
  };
  const HyperValues skip = hyper_at(draw_hyper(task, "gaussian", 7).value(), 10, false, true).value();
  spoil(2, 3, 5, 1);     // a later buffer first
  spoil(0, 4, 9000, 1);  // the first buffer, in the second tile
  spoil(0, 5, 1, 2);
  JudgeSpace space;
  const std::span<const Window> run = std::span(windows).subspan(3, 3);
  const StepJudgement whole = judge_step(task, std::span(tensors).subspan(3, 3), skip, views_of(before, 3, 3),
                                         views_of(after, 3, 3), 1, space, {.windows = run})
                                  .value();
  const StepJudgement tiled = judge_windows(task, tensors, windows, skip, {}, before, after, 1).value();
  REQUIRE(whole.failure);
  REQUIRE(tiled.failure);
  CHECK(whole.failure->tensor == 4);
  CHECK(whole.failure->element == 9000);
  CHECK(tiled.failure->tensor == whole.failure->tensor);
  CHECK(tiled.failure->element == whole.failure->element);
  CHECK(tiled.failure->message == whole.failure->message);
  CHECK(tiled.failure->detail == whole.failure->detail);
  CHECK(tiled.worst_ratio == whole.worst_ratio);
  CHECK(tiled.worst_buffer == whole.worst_buffer);
}

}  // namespace
}  // namespace stepbench
