// The driver around the oracles of tasks/<id>/oracle.cc: finds the one of a task, makes its sums over the list and
// spreads a step over threads. The formulas are not here.
#include <algorithm>
#include <array>
#include <limits>

#include "harness/checks.h"
#include "harness/parallel.h"
#include "tasks/oracle.h"

namespace stepbench {

namespace {

/// One call of the oracle: elements [first, last) of one tensor.
struct Range {
  size_t tensor = 0;
  int64_t first = 0, last = 0;
};

constexpr int64_t kRangeElements = 1 << 15;   // some hundred microseconds of work; a multiple of 256
constexpr int64_t kInlineElements = 1 << 16;  // below this, starting threads costs more than it saves

using Totals = std::array<double, kOracleTotals>;

}  // namespace

namespace {

/// kInvalidTask where this build has no oracle for the task.
Result<const OracleEntry*> entry_of(const TaskSpec& task) {
  const std::span<const OracleEntry> table = oracle_table();
  const auto entry = std::find_if(table.begin(), table.end(), [&](const OracleEntry& e) { return task.id == e.task; });
  if (entry == table.end()) {
    return Error{.code = ErrorCode::kInvalidTask,
                 .message = "this build has no oracle for the task; configure and build again after adding one",
                 .place = "tasks/" + task.id + "/oracle.cc",
                 .expected = "oracle_" + task.id,
                 .found = ""};
  }
  if (entry->reduce != nullptr && task.family != "norm") {
    return Error{.code = ErrorCode::kInvalidTask,
                 .message = "only tasks of the family norm have sums over the list",
                 .place = "tasks/" + task.id + "/task.json: /family",
                 .expected = "norm, or no oracle_reduce_" + task.id,
                 .found = task.family};
  }
  return &*entry;
}

}  // namespace

bool judged_in_parts(const TaskSpec& task) {
  if (task.family == "elementwise" || task.family == "storage") return true;
  const Result<const OracleEntry*> entry = entry_of(task);
  return entry.ok() && entry.value()->reduce != nullptr;
}

Result<std::vector<double>> oracle_totals(const TaskSpec& task, std::span<const TensorShape> tensors,
                                          const HyperValues& hyper, HostState& state, int threads) {
  const Result<const OracleEntry*> entry = entry_of(task);
  if (!entry.ok()) return entry.error();
  if (entry.value()->reduce == nullptr) return std::vector<double>();
  // Every tensor's share by itself and then in order: the number of threads changes no bit of the sums.
  std::vector<Totals> shares(tensors.size(), Totals{});
  run_parallel(threads, tensors.size(), [&](size_t t) {
    std::vector<double*> inputs(task.buffers.size(), nullptr);
    for (size_t b = 0; b < inputs.size(); ++b)
      if (task.buffers[b].role == Role::kIn) inputs[b] = state.values[b][t].data();
    const OracleTensor tensor{.n = tensors[t].n,
                              .rows = tensors[t].rows,
                              .cols = tensors[t].cols,
                              .index = static_cast<int64_t>(t),
                              .buffers = inputs,
                              .scale = {},
                              .exact = {},
                              .stored = {}};
    entry.value()->reduce(tensor, hyper.values, shares[t]);
  });
  std::vector<double> totals(kOracleTotals);
  for (const Totals& share : shares)
    for (size_t i = 0; i < totals.size(); ++i) totals[i] += share[i];
  return totals;
}

Result<void> oracle_step(const TaskSpec& task, std::span<const TensorShape> tensors, const HyperValues& hyper,
                         HostState& state, HostState* scale, int threads, const OracleDetail& detail) {
  const Result<const OracleEntry*> entry = entry_of(task);
  if (!entry.ok()) return entry.error();
  const size_t buffer_count = task.buffers.size();
  SB_ASSERT(hyper.values.size() == task.hyper.size());
  SB_ASSERT(state.values.size() == buffer_count);

  SB_ASSERT(detail.places.empty() || detail.places.size() == tensors.size());
  SB_ASSERT(detail.work == nullptr || detail.work->size() == tensors.size());

  HostState* const exact = detail.exact;
  if (scale != nullptr) scale->values.resize(buffer_count);
  if (exact != nullptr) exact->values.resize(buffer_count);
  const size_t per_tensor = 3 * buffer_count;  // buffers, scales, exact values
  std::vector<double*> pointers(per_tensor * tensors.size(), nullptr);
  std::vector<const double*> stored(buffer_count * tensors.size(), nullptr);
  for (size_t b = 0; b < buffer_count; ++b) {
    SB_ASSERT(state.values[b].size() == tensors.size());
    const bool updated = task.buffers[b].role == Role::kInOut;
    const bool wants_exact = exact != nullptr && updated && task.buffers[b].rounding != Rounding::kNone;
    if (scale != nullptr) scale->values[b].resize(tensors.size());
    if (exact != nullptr) exact->values[b].resize(tensors.size());
    for (size_t t = 0; t < tensors.size(); ++t) {
      const auto elements = static_cast<size_t>(buffer_elements(task.buffers[b], tensors[t]));
      SB_ASSERT(state.values[b][t].size() == elements);
      double** const first = pointers.data() + per_tensor * t + b;
      first[0] = state.values[b][t].data();
      if (scale != nullptr && updated) {
        scale->values[b][t].resize(elements);
        first[buffer_count] = scale->values[b][t].data();
      }
      if (wants_exact) {
        // What an oracle forgets to write is right for no candidate.
        exact->values[b][t].assign(elements, std::numeric_limits<double>::quiet_NaN());
        first[2 * buffer_count] = exact->values[b][t].data();
      }
      if (detail.stored != nullptr && updated) {
        SB_ASSERT(detail.stored->values[b][t].size() == elements);
        stored[buffer_count * t + b] = detail.stored->values[b][t].data();
      }
    }
  }

  const bool in_parts = judged_in_parts(task);
  std::vector<Range> ranges;
  int64_t total = 0;
  for (size_t t = 0; t < tensors.size(); ++t) {
    total += tensors[t].n;
    const int64_t length = in_parts ? kRangeElements : std::max<int64_t>(tensors[t].n, 1);
    for (int64_t first = 0; first < tensors[t].n; first += length)
      ranges.push_back({t, first, std::min(first + length, tensors[t].n)});
  }

  const auto tensor_at = [&](size_t t) {
    const OraclePlace place = detail.places.empty() ? OraclePlace{.tensor = static_cast<int64_t>(t)} : detail.places[t];
    double* const* const first = pointers.data() + per_tensor * t;
    return OracleTensor{.n = tensors[t].n,
                        .rows = tensors[t].rows,
                        .cols = tensors[t].cols,
                        .index = place.tensor,
                        .first = place.first,
                        .buffers = {first, buffer_count},
                        .scale = {first + buffer_count, buffer_count},
                        .exact = {first + 2 * buffer_count, buffer_count},
                        .stored = {stored.data() + buffer_count * t, buffer_count}};
  };
  const int wanted = total <= kInlineElements ? 1 : threads;
  // Whole tensors use the threads that would have none otherwise.
  const int each = in_parts ? 1 : std::max(1, wanted / static_cast<int>(std::max<size_t>(ranges.size(), 1)));

  std::vector<double> totals(detail.totals.begin(), detail.totals.end());
  if (totals.empty() && entry.value()->reduce != nullptr) {
    SB_ASSERT(detail.places.empty());  // the whole list, or the sums are wrong
    Result<std::vector<double>> made = oracle_totals(task, tensors, hyper, state, wanted);
    if (!made.ok()) return made.error();
    totals = std::move(made.value());
  }

  run_parallel(wanted, ranges.size(), [&](size_t i) {
    OracleTensor tensor = tensor_at(ranges[i].tensor);
    tensor.totals = totals;
    tensor.threads = each;
    if (detail.work != nullptr) tensor.work = &(*detail.work)[ranges[i].tensor];
    entry.value()->step(tensor, hyper.values, ranges[i].first, ranges[i].last);
  });
  return {};
}

}  // namespace stepbench
