// Judgement of one optimizer step: the oracle starts from exactly the state the candidate started from, and every
// element of every state buffer is compared. Also the bit-by-bit comparison of two sets of buffers.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "harness/checks.h"

namespace stepbench {
namespace {

/// NaN counts as the worst ratio of all.
bool worse(double ratio, double than) { return std::isnan(ratio) ? !std::isnan(than) : ratio > than; }

std::string times_limit(double ratio) {
  return std::isfinite(ratio) ? fmt::format("{:.3g} x the limit", ratio) : std::string("not finite");
}

/// All that one buffer's comparison found over the list.
struct BufferFinding {
  int64_t bad_tensor = -1;
  CompareResult bad;  // of the first bad tensor
  double worst_ratio = 0;
  int64_t worst_tensor = -1;
  CompareResult worst;
};

std::string describe(const std::string& name, const BufferFinding& finding) {
  const CompareResult& bad = finding.bad;
  std::string text =
      fmt::format("{} differs at tensor {} element {}: expected {:.9g}, got {:.9g} ({})", name, finding.bad_tensor,
                  bad.first_bad_element, bad.first_bad_expected, bad.first_bad_got, times_limit(bad.first_bad_ratio));
  const bool same = finding.worst_tensor == finding.bad_tensor && finding.worst.worst_element == bad.first_bad_element;
  if (!same && finding.worst_tensor >= 0) {
    text += fmt::format("; worst at tensor {} element {}: expected {:.9g}, got {:.9g} ({})", finding.worst_tensor,
                        finding.worst.worst_element, finding.worst.worst_expected, finding.worst.worst_got,
                        times_limit(finding.worst_ratio));
  }
  return text;
}

void shape_scale(const TaskSpec& task, std::span<const TensorShape> tensors, HostState& scale) {
  scale.values.resize(task.buffers.size());
  for (size_t b = 0; b < task.buffers.size(); ++b) {
    if (task.buffers[b].role != Role::kInOut) continue;
    scale.values[b].resize(tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      scale.values[b][i].assign(static_cast<size_t>(buffer_elements(task.buffers[b], tensors[i])), 0.0);
    }
  }
}

}  // namespace

Result<StepJudgement> judge_step(const TaskSpec& task, std::span<const TensorShape> tensors, const HyperValues& hyper,
                                 const BufferBytes& before, const BufferBytes& after, int threads, JudgeSpace& space) {
  to_host(task, Role::kIn, before, space.state);
  to_host(task, Role::kInOut, before, space.state);
  shape_scale(task, tensors, space.scale);
  const Result<void> stepped = oracle_step(task, tensors, hyper, space.state, &space.scale, threads);
  if (!stepped.ok()) return stepped.error();

  StepJudgement judgement;
  std::vector<std::pair<size_t, BufferFinding>> bad_buffers;
  for (size_t b = 0; b < task.buffers.size(); ++b) {
    const BufferSpec& buffer = task.buffers[b];
    if (buffer.role != Role::kInOut) continue;
    BufferFinding finding;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const std::vector<double> got = to_double(buffer.dtype, after[b][i]);
      const CompareResult result =
          compare(space.state.values[b][i], got, space.scale.values[b][i], buffer.tolerance, buffer.dtype);
      const int64_t expected_elements = buffer_elements(buffer, tensors[i]);
      if (result.elements_checked != expected_elements) {
        return Error{ErrorCode::kInternal, "the comparison left elements out", fmt::format("{}[{}]", buffer.name, i),
                     fmt::format("{} elements", expected_elements), fmt::format("{}", result.elements_checked)};
      }
      judgement.elements_checked += result.elements_checked;
      if (worse(result.worst_ratio, finding.worst_ratio)) {
        finding.worst_ratio = result.worst_ratio;
        finding.worst_tensor = static_cast<int64_t>(i);
        finding.worst = result;
      }
      if (result.first_bad_element >= 0 && finding.bad_tensor < 0) {
        finding.bad_tensor = static_cast<int64_t>(i);
        finding.bad = result;
      }
    }
    if (judgement.worst_buffer.empty() || worse(finding.worst_ratio, judgement.worst_ratio)) {
      judgement.worst_ratio = finding.worst_ratio;
      judgement.worst_buffer = buffer.name;
    }
    if (finding.bad_tensor >= 0) bad_buffers.emplace_back(b, finding);
  }
  if (bad_buffers.empty()) return judgement;

  const auto& [first, finding] = bad_buffers.front();
  Failure failure;
  failure.verdict = Verdict::kWrongResult;
  failure.message = describe(task.buffers[first].name, finding);
  failure.buffer = task.buffers[first].name;
  failure.tensor = finding.bad_tensor;
  failure.element = finding.bad.first_bad_element;
  failure.expected = finding.bad.first_bad_expected;
  failure.got = finding.bad.first_bad_got;
  failure.error_ratio = finding.bad.first_bad_ratio;
  failure.detail = "failing buffers, worst element of each:";
  for (const auto& [index, bad] : bad_buffers) {
    failure.detail += fmt::format(" {} ({})", task.buffers[index].name, times_limit(bad.worst_ratio));
  }
  judgement.failure = std::move(failure);
  return judgement;
}

std::optional<BitDifference> first_difference(const TaskSpec& task, Role role, const BufferBytes& first,
                                              const BufferBytes& second) {
  for (size_t b = 0; b < task.buffers.size(); ++b) {
    if (task.buffers[b].role != role) continue;
    SB_ASSERT(first[b].size() == second[b].size());
    for (size_t i = 0; i < first[b].size(); ++i) {
      const Bytes& x = first[b][i];
      const Bytes& y = second[b][i];
      SB_ASSERT(x.size() == y.size());
      if (x.empty() || std::memcmp(x.data(), y.data(), x.size()) == 0) continue;
      const size_t width = dtype_bytes(task.buffers[b].dtype);
      size_t element = 0;
      while (std::memcmp(x.data() + element * width, y.data() + element * width, width) == 0) ++element;
      BitDifference difference{b, i, static_cast<int64_t>(element), 0, 0};
      const std::span<const std::byte> left(x), right(y);
      difference.first = to_double(task.buffers[b].dtype, left.subspan(element * width, width)).front();
      difference.second = to_double(task.buffers[b].dtype, right.subspan(element * width, width)).front();
      return difference;
    }
  }
  return std::nullopt;
}

Failure difference_failure(const TaskSpec& task, const BitDifference& difference, Verdict verdict,
                           std::string message) {
  Failure failure;
  failure.verdict = verdict;
  failure.message = std::move(message);
  failure.buffer = task.buffers[difference.buffer].name;
  failure.tensor = static_cast<int64_t>(difference.tensor);
  failure.element = difference.element;
  failure.expected = difference.first;
  failure.got = difference.second;
  failure.error_ratio = HUGE_VAL;
  return failure;
}

}  // namespace stepbench
