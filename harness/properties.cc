// Properties of what a candidate stored: the oracle's numbers for every tensor, each against its limit. What is
// measured is in tasks/<id>/oracle.cc; here is only who is asked and what the answer means.
#include "harness/properties.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "harness/checks.h"
#include "harness/parallel.h"

namespace stepbench {

namespace {

Failure property_failure(const PropertySpec& property, int64_t tensor, double value) {
  Failure failure;
  failure.verdict = Verdict::kWrongResult;
  failure.error_ratio = value / property.limit;
  failure.message = fmt::format(
      "{} of {} is {:.4g} in tensor {}, more than {:g}{}: {}", property.name, property.buffer, value, tensor,
      property.limit,
      std::isfinite(failure.error_ratio) ? fmt::format(" ({:.3g} x the limit)", failure.error_ratio) : std::string(),
      property.meaning);
  failure.buffer = property.buffer;
  failure.tensor = tensor;
  return failure;
}

}  // namespace

Result<PropertyOracle> property_oracle(const TaskSpec& task) {
  const auto invalid = [&](std::string message, std::string expected, std::string found) {
    return Error{ErrorCode::kInvalidTask, std::move(message), "tasks/" + task.id, std::move(expected),
                 std::move(found)};
  };
  const std::span<const OracleEntry> table = oracle_table();
  const auto entry = std::find_if(table.begin(), table.end(), [&](const OracleEntry& e) { return task.id == e.task; });
  const OracleProperties measure = entry == table.end() ? nullptr : entry->properties;
  const std::string function = "oracle_properties_" + task.id;
  if (measure == nullptr && !task.properties.empty())
    return invalid("task.json has properties that nothing measures", function + " in oracle.cc", "no such function");
  if (measure != nullptr && task.properties.empty())
    return invalid("the oracle measures properties that task.json does not have", "\"properties\" in task.json",
                   function + " in oracle.cc");
  return PropertyOracle{measure};
}

PropertyJudgement judge_properties(const TaskSpec& task, OracleProperties measure, std::span<const TensorShape> tensors,
                                   std::span<const Window> windows, const HyperValues& hyper, JudgeSpace& space,
                                   int threads) {
  SB_ASSERT(windows.empty() || windows.size() == tensors.size());
  SB_ASSERT(space.work.empty() || space.work.size() == tensors.size());
  const auto index_of = [&](size_t t) { return windows.empty() ? static_cast<int64_t>(t) : windows[t].tensor; };
  std::vector<std::vector<double>> own(space.work.empty() ? tensors.size() : 0);  // nothing is left from a step
  const size_t buffers = task.buffers.size(), properties = task.properties.size();
  // What a measurement forgets to write is right for no candidate.
  std::vector<double> values(properties * tensors.size(), std::numeric_limits<double>::quiet_NaN());
  run_parallel(threads, tensors.size(), [&](size_t t) {
    if (tensors[t].n == 0) return;
    SB_ASSERT(windows.empty() || (windows[t].first == 0 && windows[t].count == tensors[t].n));
    std::vector<double*> pointers(buffers), nothing(buffers, nullptr);
    std::vector<const double*> got(buffers, nullptr);
    for (size_t b = 0; b < buffers; ++b) {
      pointers[b] = space.state.values[b][t].data();
      if (task.buffers[b].role == Role::kInOut) got[b] = space.stored.values[b][t].data();
    }
    const OracleTensor tensor{.n = tensors[t].n,
                              .rows = tensors[t].rows,
                              .cols = tensors[t].cols,
                              .index = index_of(t),
                              .buffers = pointers,
                              .scale = nothing,
                              .exact = nothing,
                              .stored = got,
                              .threads = std::max(1, threads / static_cast<int>(tensors.size())),
                              .work = space.work.empty() ? &own[t] : &space.work[t]};
    measure(tensor, hyper.values, std::span(values).subspan(properties * t, properties));
  });

  PropertyJudgement judgement;
  for (size_t t = 0; t < tensors.size(); ++t) {
    if (tensors[t].n == 0) continue;
    std::optional<size_t> bad;
    const auto ratio_of = [&](size_t p) { return values[properties * t + p] / task.properties[p].limit; };
    for (size_t p = 0; p < properties; ++p) {
      if (worse(ratio_of(p), judgement.worst_ratio)) {
        judgement.worst_ratio = ratio_of(p);
        judgement.worst_property = p;
      }
      if (!(ratio_of(p) <= 1) && (!bad || worse(ratio_of(p), ratio_of(*bad)))) bad = p;  // also true for NaN
    }
    if (bad && !judgement.failure)
      judgement.failure = property_failure(task.properties[*bad], index_of(t), values[properties * t + *bad]);
  }
  return judgement;
}

}  // namespace stepbench
