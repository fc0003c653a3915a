// Judgement of one optimizer step: the oracle starts from exactly the state the candidate started from, and every
// element of every state buffer is compared; then what the task's oracle measures on the whole (properties.cc). Also
// the bit-by-bit comparison of two sets of buffers.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <utility>

#include "harness/checks.h"
#include "harness/properties.h"

namespace stepbench {
namespace {

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

/// Where an element of the judged list lies in the candidate's list.
struct Place {
  int64_t tensor = 0, element = 0;
};
using PlaceOf = std::function<Place(int64_t tensor, int64_t element)>;
std::string to_text(const Place& place) { return fmt::format("tensor {} element {}", place.tensor, place.element); }

std::string describe(const std::string& name, const BufferFinding& finding, const PlaceOf& place) {
  const CompareResult& bad = finding.bad;
  std::string text = fmt::format("{} differs at {}: expected {:.9g}, got {:.9g} ({})", name,
                                 to_text(place(finding.bad_tensor, bad.first_bad_element)), bad.first_bad_expected,
                                 bad.first_bad_got, times_limit(bad.first_bad_ratio));
  const bool same = finding.worst_tensor == finding.bad_tensor && finding.worst.worst_element == bad.first_bad_element;
  if (!same && finding.worst_tensor >= 0) {
    text += fmt::format("; worst at {}: expected {:.9g}, got {:.9g} ({})",
                        to_text(place(finding.worst_tensor, finding.worst.worst_element)), finding.worst.worst_expected,
                        finding.worst.worst_got, times_limit(finding.worst_ratio));
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

/// Every value is one of its two neighbours; here it is whether chance chose between them.
void judge_decisions(const BufferSpec& buffer, size_t b, std::span<const Window> windows, JudgeSpace& space,
                     StepJudgement& judgement) {
  RoundingDecisions decisions;
  std::vector<double> limit;
  for (size_t i = 0; i < space.exact.values[b].size(); ++i) {
    const std::vector<double>& exact = space.exact.values[b][i];
    limit.resize(exact.size());
    for (size_t e = 0; e < exact.size(); ++e) {
      limit[e] = buffer.tolerance.step_scale_ratio * space.scale.values[b][i][e] +
                 buffer.tolerance.step_ulp * ulp_of(DType::kF32, exact[e]);
    }
    add_decisions(decisions, exact, space.stored.values[b][i], limit, buffer.dtype);
  }
  const auto previous = space.decisions.find(b);
  const bool comparable = windows.empty() && previous != space.decisions.end();
  const RoundingJudgement rounding =
      judge_rounding(decisions, comparable ? &previous->second : nullptr, !windows.empty());
  space.decisions[b] = std::move(decisions);
  if (!rounding.fault) return;
  Failure failure;
  failure.verdict = Verdict::kWrongResult;
  failure.message = fmt::format("{} is not rounded stochastically: {}, {:.1f} standard errors from chance (limit {:g})",
                                buffer.name, rounding.fault->what, std::fabs(rounding.fault->sigma), kMostSigma);
  failure.buffer = buffer.name;
  failure.error_ratio = std::fabs(rounding.fault->sigma) / kMostSigma;
  if (worse(failure.error_ratio, judgement.worst_ratio)) {
    judgement.worst_ratio = failure.error_ratio;
    judgement.worst_buffer = buffer.name;
  }
  judgement.failure = std::move(failure);
}

}  // namespace

Result<StepJudgement> judge_step(const TaskSpec& task, std::span<const TensorShape> tensors, const HyperValues& hyper,
                                 const BufferBytes& before, const BufferBytes& after, int threads, JudgeSpace& space,
                                 const JudgePart& part) {
  const std::span<const Window> windows = part.windows;
  SB_ASSERT(windows.empty() || windows.size() == tensors.size());
  const Result<PropertyOracle> properties = property_oracle(task);
  if (!properties.ok()) return properties.error();
  to_host(task, Role::kIn, before, part.first_window, tensors.size(), space.state);
  to_host(task, Role::kInOut, before, part.first_window, tensors.size(), space.state);
  to_host(task, Role::kInOut, after, part.first_window, tensors.size(), space.stored);
  shape_scale(task, tensors, space.scale);
  std::vector<OraclePlace> places;
  for (const Window& window : windows) places.push_back({.tensor = window.tensor, .first = window.first});
  const bool measured = properties.value().measure != nullptr;
  space.work.assign(measured ? tensors.size() : 0, {});
  const OracleDetail detail{.exact = &space.exact,
                            .stored = &space.stored,
                            .places = places,
                            .totals = part.totals,
                            .work = measured ? &space.work : nullptr};
  const Result<void> stepped = oracle_step(task, tensors, hyper, space.state, &space.scale, threads, detail);
  if (!stepped.ok()) return stepped.error();

  StepJudgement judgement;
  std::vector<std::pair<size_t, BufferFinding>> bad_buffers;
  for (size_t b = 0; b < task.buffers.size(); ++b) {
    const BufferSpec& buffer = task.buffers[b];
    if (buffer.role != Role::kInOut) continue;
    BufferFinding finding;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const HostState& expected = buffer.rounding == Rounding::kNone ? space.state : space.exact;
      const CompareResult result = compare(expected.values[b][i], space.stored.values[b][i], space.scale.values[b][i],
                                           buffer.tolerance, buffer.dtype, buffer.rounding);
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
  if (bad_buffers.empty()) {
    for (size_t b = 0; b < task.buffers.size() && !judgement.failure; ++b) {
      if (task.buffers[b].rounding == Rounding::kStochastic)
        judge_decisions(task.buffers[b], b, windows, space, judgement);
    }
    if (!measured || judgement.failure) return judgement;
    PropertyJudgement found =
        judge_properties(task, properties.value().measure, tensors, windows, hyper, space, threads);
    if (worse(found.worst_ratio, judgement.worst_ratio)) {
      judgement.worst_ratio = found.worst_ratio;
      judgement.worst_buffer = task.properties[found.worst_property].buffer;
    }
    judgement.failure = std::move(found.failure);
    return judgement;
  }

  // Wrong values come first, but how far such a kernel is from right may show in its chances only.
  for (size_t b = 0; b < task.buffers.size(); ++b) {
    if (task.buffers[b].rounding == Rounding::kStochastic)
      judge_decisions(task.buffers[b], b, windows, space, judgement);  // its failure is replaced below
  }

  const auto& [first, finding] = bad_buffers.front();
  const BufferSpec& first_buffer = task.buffers[first];
  const PlaceOf place_of = [&](int64_t tensor, int64_t element) {
    if (windows.empty()) return Place{tensor, element};
    const Window& window = windows[static_cast<size_t>(tensor)];
    return Place{window.tensor, element + buffer_elements(first_buffer, make_shape({window.first}))};
  };
  const Place place = place_of(finding.bad_tensor, finding.bad.first_bad_element);
  Failure failure;
  failure.verdict = Verdict::kWrongResult;
  failure.message = describe(first_buffer.name, finding, place_of);
  failure.buffer = first_buffer.name;
  failure.tensor = place.tensor;
  failure.element = place.element;
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
