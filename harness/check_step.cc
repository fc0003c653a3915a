// Judgement of one optimizer step: the oracle starts from exactly the state the candidate started from, and every
// element of every state buffer is compared; then what the task's oracle measures on the whole (properties.cc). Also
// the bit-by-bit comparison of two sets of buffers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "harness/checks.h"
#include "harness/parallel.h"
#include "harness/properties.h"

namespace stepbench {
namespace {

std::string times_limit(double ratio) {
  return std::isfinite(ratio) ? fmt::format("{:.3g} x the limit", ratio) : std::string("not finite");
}

std::string to_text(const ElementPlace& place) {
  return fmt::format("tensor {} element {}", place.tensor, place.element);
}

std::string describe(const std::string& name, const BufferFinding& finding) {
  const CompareResult& bad = finding.bad;
  std::string text = fmt::format("{} differs at {}: expected {:.9g}, got {:.9g} ({})", name, to_text(finding.bad_place),
                                 bad.first_bad_expected, bad.first_bad_got, times_limit(bad.first_bad_ratio));
  if (finding.worst_place.tensor >= 0 && finding.worst_place != finding.bad_place) {
    text += fmt::format("; worst at {}: expected {:.9g}, got {:.9g} ({})", to_text(finding.worst_place),
                        finding.worst.worst_expected, finding.worst.worst_got, times_limit(finding.worst_ratio));
  }
  return text;
}

/// Elements that one thread handles at a time where a tensor has several threads. A multiple of what compare() measures
/// together.
constexpr size_t kPartElements = 1 << 16;

/// Gives every array of the space its length. Fresh memory is the most costly part of a large tensor's judgement, and
/// arrays can be made side by side.
void shape_space(const TaskSpec& task, std::span<const TensorShape> tensors, int threads, JudgeSpace& space) {
  struct Array {
    std::vector<double>* values;
    size_t elements;
  };
  std::vector<Array> arrays;
  for (HostState* const host : {&space.state, &space.stored, &space.scale}) {
    host->values.resize(task.buffers.size());
    for (size_t b = 0; b < task.buffers.size(); ++b) {
      if (host != &space.state && task.buffers[b].role != Role::kInOut) continue;
      host->values[b].resize(tensors.size());
      for (size_t i = 0; i < tensors.size(); ++i)
        arrays.push_back({&host->values[b][i], static_cast<size_t>(buffer_elements(task.buffers[b], tensors[i]))});
    }
  }
  run_parallel(threads, arrays.size(), [&](size_t i) { arrays[i].values->resize(arrays[i].elements); });
}

/// What an oracle does not write there allows for no movement.
void clear_scale(int threads, HostState& scale) {
  std::vector<std::span<double>> parts;
  for (std::vector<std::vector<double>>& tensors : scale.values)
    for (std::vector<double>& values : tensors)
      for (size_t first = 0; first < values.size(); first += kPartElements)
        parts.push_back(std::span(values).subspan(first, std::min(kPartElements, values.size() - first)));
  run_parallel(threads, parts.size(), [&](size_t i) { std::fill(parts[i].begin(), parts[i].end(), 0.0); });
}

/// compare() of a large tensor, in parts that depend on its length alone: what it finds is what compare() finds.
CompareResult compare_in_parts(std::span<const double> expected, std::span<const double> got,
                               std::span<const double> scale, const BufferSpec& buffer, int threads) {
  if (threads <= 1 || expected.size() <= kPartElements)
    return compare(expected, got, scale, buffer.tolerance, buffer.dtype, buffer.rounding);
  SB_ASSERT(got.size() == expected.size() && scale.size() == expected.size());
  std::vector<CompareResult> parts((expected.size() + kPartElements - 1) / kPartElements);
  run_parallel(threads, parts.size(), [&](size_t p) {
    const size_t first = p * kPartElements, count = std::min(kPartElements, expected.size() - first);
    parts[p] = compare(expected.subspan(first, count), got.subspan(first, count), scale.subspan(first, count),
                       buffer.tolerance, buffer.dtype, buffer.rounding);
  });
  CompareResult sum;
  for (size_t p = 0; p < parts.size(); ++p) {
    const CompareResult& part = parts[p];
    const auto first = static_cast<int64_t>(p * kPartElements);
    sum.elements_checked += part.elements_checked;
    if (part.worst_ratio > sum.worst_ratio || sum.worst_element < 0) {
      sum.worst_ratio = part.worst_ratio;
      sum.worst_element = first + part.worst_element;
      sum.worst_expected = part.worst_expected;
      sum.worst_got = part.worst_got;
    }
    if (part.first_bad_element < 0 || sum.first_bad_element >= 0) continue;
    sum.first_bad_element = first + part.first_bad_element;
    sum.first_bad_ratio = part.first_bad_ratio;
    sum.first_bad_expected = part.first_bad_expected;
    sum.first_bad_got = part.first_bad_got;
  }
  return sum;
}

/// Chances of the values just compared.
void gather_decisions(const BufferSpec& buffer, size_t b, bool continues, const JudgeSpace& space,
                      RoundingDecisions& decisions) {
  std::vector<double> limit;
  for (size_t i = 0; i < space.exact.values[b].size(); ++i) {
    const std::vector<double>& exact = space.exact.values[b][i];
    limit.resize(exact.size());
    for (size_t e = 0; e < exact.size(); ++e) {
      limit[e] = buffer.tolerance.step_scale_ratio * space.scale.values[b][i][e] +
                 buffer.tolerance.step_ulp * ulp_of(DType::kF32, exact[e]);
    }
    add_decisions(decisions, exact, space.stored.values[b][i], limit, buffer.dtype, continues && i == 0);
  }
}

/// Every value is one of its two neighbours; here it is whether chance chose between them.
void judge_decisions(const BufferSpec& buffer, const RoundingDecisions& decisions, const RoundingDecisions* previous,
                     bool parts, StepJudgement& judgement) {
  const RoundingJudgement rounding = judge_rounding(decisions, previous, parts);
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

Result<void> compare_step(const TaskSpec& task, std::span<const TensorShape> tensors, const HyperValues& hyper,
                          const BufferViews& before, const BufferViews& after, int threads, JudgeSpace& space,
                          const JudgePart& part, StepFindings& findings) {
  const std::span<const Window> windows = part.windows;
  SB_ASSERT(windows.empty() || windows.size() == tensors.size());
  const int helpers = total_elements(tensors) <= static_cast<int64_t>(kPartElements) ? 1 : threads;
  shape_space(task, tensors, helpers, space);
  to_host(task, Role::kIn, before, space.state, helpers);
  to_host(task, Role::kInOut, before, space.state, helpers);
  to_host(task, Role::kInOut, after, space.stored, helpers);
  clear_scale(helpers, space.scale);
  std::vector<OraclePlace> places;
  for (const Window& window : windows) places.push_back({.tensor = window.tensor, .first = window.first});
  const bool measured = !task.properties.empty();
  space.work.assign(measured ? tensors.size() : 0, {});
  const OracleDetail detail{.exact = &space.exact,
                            .stored = &space.stored,
                            .places = places,
                            .totals = part.totals,
                            .work = measured ? &space.work : nullptr};
  const Result<void> stepped = oracle_step(task, tensors, hyper, space.state, &space.scale, threads, detail);
  if (!stepped.ok()) return stepped.error();

  findings.buffers.resize(task.buffers.size());
  for (size_t b = 0; b < task.buffers.size(); ++b) {
    const BufferSpec& buffer = task.buffers[b];
    if (buffer.role != Role::kInOut) continue;
    const auto place_of = [&](size_t tensor, int64_t element) {
      if (windows.empty()) return ElementPlace{static_cast<int64_t>(tensor), element};
      const Window& window = windows[tensor];
      // Nothing lies before the first element; a tensor of none still has one column.
      const int64_t skipped = window.first == 0 ? 0 : buffer_elements(buffer, make_shape({window.first}));
      return ElementPlace{window.tensor, element + skipped};
    };
    BufferFinding& finding = findings.buffers[b];
    for (size_t i = 0; i < tensors.size(); ++i) {
      const HostState& expected = buffer.rounding == Rounding::kNone ? space.state : space.exact;
      const CompareResult result =
          compare_in_parts(expected.values[b][i], space.stored.values[b][i], space.scale.values[b][i], buffer, helpers);
      const int64_t expected_elements = buffer_elements(buffer, tensors[i]);
      if (result.elements_checked != expected_elements) {
        return Error{ErrorCode::kInternal, "the comparison left elements out", fmt::format("{}[{}]", buffer.name, i),
                     fmt::format("{} elements", expected_elements), fmt::format("{}", result.elements_checked)};
      }
      findings.elements_checked += result.elements_checked;
      if (worse(result.worst_ratio, finding.worst_ratio)) {
        finding.worst_ratio = result.worst_ratio;
        finding.worst_place = place_of(i, result.worst_element);
        finding.worst = result;
      }
      if (result.first_bad_element >= 0 && finding.bad_place.tensor < 0) {
        finding.bad_place = place_of(i, result.first_bad_element);
        finding.bad = result;
      }
    }
    if (buffer.rounding == Rounding::kStochastic)
      gather_decisions(buffer, b, part.continues, space, findings.decisions[b]);
  }
  return {};
}

StepJudgement conclude_step(const TaskSpec& task, const StepFindings& findings,
                            const std::map<size_t, RoundingDecisions>* previous) {
  StepJudgement judgement;
  judgement.elements_checked = findings.elements_checked;
  std::vector<size_t> bad_buffers;
  for (size_t b = 0; b < findings.buffers.size(); ++b) {
    if (task.buffers[b].role != Role::kInOut) continue;
    const BufferFinding& finding = findings.buffers[b];
    if (judgement.worst_buffer.empty() || worse(finding.worst_ratio, judgement.worst_ratio)) {
      judgement.worst_ratio = finding.worst_ratio;
      judgement.worst_buffer = task.buffers[b].name;
    }
    if (finding.bad_place.tensor >= 0) bad_buffers.push_back(b);
  }
  // Where values are wrong, too: how far such a kernel is from right may show in its chances only. Its failure is
  // replaced below.
  for (const auto& [b, decisions] : findings.decisions) {
    if (judgement.failure && bad_buffers.empty()) break;
    const bool parts = previous == nullptr;
    const bool comparable = !parts && previous->contains(b);
    judge_decisions(task.buffers[b], decisions, comparable ? &previous->at(b) : nullptr, parts, judgement);
  }
  if (bad_buffers.empty()) return judgement;

  const BufferFinding& finding = findings.buffers[bad_buffers.front()];
  Failure failure;
  failure.verdict = Verdict::kWrongResult;
  failure.buffer = task.buffers[bad_buffers.front()].name;
  failure.message = describe(failure.buffer, finding);
  failure.tensor = finding.bad_place.tensor;
  failure.element = finding.bad_place.element;
  failure.expected = finding.bad.first_bad_expected;
  failure.got = finding.bad.first_bad_got;
  failure.error_ratio = finding.bad.first_bad_ratio;
  failure.detail = "failing buffers, worst element of each:";
  for (const size_t b : bad_buffers)
    failure.detail += fmt::format(" {} ({})", task.buffers[b].name, times_limit(findings.buffers[b].worst_ratio));
  judgement.failure = std::move(failure);
  return judgement;
}

Result<StepJudgement> judge_step(const TaskSpec& task, std::span<const TensorShape> tensors, const HyperValues& hyper,
                                 const BufferViews& before, const BufferViews& after, int threads, JudgeSpace& space,
                                 const JudgePart& part) {
  const Result<PropertyOracle> properties = property_oracle(task);
  if (!properties.ok()) return properties.error();
  StepFindings findings;
  const Result<void> compared = compare_step(task, tensors, hyper, before, after, threads, space, part, findings);
  if (!compared.ok()) return compared.error();
  StepJudgement judgement = conclude_step(task, findings, part.windows.empty() ? &space.decisions : nullptr);
  space.decisions = std::move(findings.decisions);
  if (properties.value().measure == nullptr || judgement.failure) return judgement;
  PropertyJudgement found =
      judge_properties(task, properties.value().measure, tensors, part.windows, hyper, space, threads);
  if (worse(found.worst_ratio, judgement.worst_ratio)) {
    judgement.worst_ratio = found.worst_ratio;
    judgement.worst_buffer = task.properties[found.worst_property].buffer;
  }
  judgement.failure = std::move(found.failure);
  return judgement;
}

Result<StepJudgement> judge_step(const TaskSpec& task, std::span<const TensorShape> tensors, const HyperValues& hyper,
                                 const BufferBytes& before, const BufferBytes& after, int threads, JudgeSpace& space) {
  return judge_step(task, tensors, hyper, views_of(before), views_of(after), threads, space);
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
