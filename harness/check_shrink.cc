// Looks for a smaller shape that fails like a failed case: the failing tensor alone at sizes from 1 up, or, when it
// takes a list to fail, fewer tensors. Bounded by counts, not by time, so that the answer is the same on every machine.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "harness/checks.h"

namespace stepbench {
namespace {

constexpr int kMaxRuns = 26;
constexpr int64_t kMaxElementSteps = int64_t{1} << 20;  // of all reruns together: well under half a second
constexpr std::array<int64_t, 17> kSizes = {1, 2, 3, 5, 9, 17, 31, 33, 65, 129, 255, 257, 513, 1023, 1025, 4097, 16385};

struct Shrinker {
  const CheckContext& context;
  const std::string& check;
  const CaseSpec& original;
  const CaseData& data;
  int runs = 0;
  int64_t element_steps = 0;

  /// Reruns the case over some of its tensors, perhaps smaller. Nothing when the bounds are used up.
  Result<std::optional<bool>> fails(std::vector<TensorShape> tensors, std::vector<int64_t> streams) {
    const int64_t cost = total_elements(tensors) * original.steps;
    if (runs >= kMaxRuns || element_steps + cost > kMaxElementSteps) return std::optional<bool>();
    ++runs;
    element_steps += cost;
    CaseSpec spec = original;
    spec.tensors = std::move(tensors);
    const CaseData part{data.seed, std::move(streams)};
    const std::atomic<size_t> never{0};
    Result<CaseOutcome> outcome = run_teacher_case(context, check, spec, part, CancelFlag(never, 0), context.threads);
    if (!outcome.ok() && outcome.error().code == ErrorCode::kUnavailable) {
      runs = kMaxRuns;  // a GPU is lost to the first fault: what is known by now must do
      return std::optional<bool>();
    }
    if (!outcome.ok()) return outcome.error();
    return std::optional<bool>(outcome.value().failure.has_value());
  }
};

TensorShape cut(const TensorShape& shape, int64_t limit) {
  std::vector<int64_t> dims = shape.dims;
  for (int64_t& dim : dims) dim = std::min(dim, limit);
  return make_shape(std::move(dims));
}

std::string shape_text(const TensorShape& shape) {
  if (shape.dims.size() < 2) return fmt::format("{} element{}", shape.n, shape.n == 1 ? "" : "s");
  return fmt::format("{} elements", fmt::join(shape.dims, " x "));
}

/// Smallest limit on every dimension at which the tensor alone still fails: first the list of sizes, then halving the
/// interval between the largest that passed and the smallest that failed. `known_alone`: the whole tensor alone is
/// known to fail; if not, and no smaller size fails, the answer is empty.
Result<std::string> shrink_tensor(Shrinker& shrinker, size_t tensor, bool known_alone) {
  const TensorShape& full = shrinker.original.tensors[tensor];
  const int64_t stream = shrinker.data.streams[tensor];
  const int64_t longest = full.dims.empty() ? full.n : *std::max_element(full.dims.begin(), full.dims.end());
  int64_t passed = 0;
  int64_t failed = longest;
  bool known = known_alone;
  for (const int64_t size : kSizes) {
    if (size >= longest) break;
    const Result<std::optional<bool>> result = shrinker.fails({cut(full, size)}, {stream});
    if (!result.ok()) return result.error();
    if (!result.value()) break;
    if (*result.value()) {
      failed = size;
      known = true;
      break;
    }
    passed = size;
  }
  if (!known) return std::string();
  while (failed - passed > 1) {
    const int64_t middle = passed + (failed - passed) / 2;
    const Result<std::optional<bool>> result = shrinker.fails({cut(full, middle)}, {stream});
    if (!result.ok()) return result.error();
    if (!result.value()) break;
    (*result.value() ? failed : passed) = middle;
  }
  return fmt::format("smallest failing shape found: one tensor of {}", shape_text(cut(full, failed)));
}

/// Leaves out runs of tensors, half of the list at first, as long as the rest still fails.
Result<std::string> shrink_list(Shrinker& shrinker) {
  std::vector<TensorShape> tensors = shrinker.original.tensors;
  std::vector<int64_t> streams = shrinker.data.streams;
  for (size_t chunk = (tensors.size() + 1) / 2; chunk > 0 && tensors.size() > 1; chunk /= 2) {
    for (size_t first = 0; first < tensors.size() && tensors.size() > 1;) {
      const size_t last = std::min(first + chunk, tensors.size());
      if (last - first == tensors.size()) break;  // a list of nothing may fail, too, and tells nothing
      std::vector<TensorShape> rest = tensors;
      std::vector<int64_t> rest_streams = streams;
      const auto from = static_cast<std::ptrdiff_t>(first), to = static_cast<std::ptrdiff_t>(last);
      rest.erase(rest.begin() + from, rest.begin() + to);
      rest_streams.erase(rest_streams.begin() + from, rest_streams.begin() + to);
      const Result<std::optional<bool>> result = shrinker.fails(rest, rest_streams);
      if (!result.ok()) return result.error();
      if (result.value().value_or(false)) {
        tensors = std::move(rest);
        streams = std::move(rest_streams);
      } else {
        first = last;
      }
    }
  }
  if (tensors.size() == shrinker.original.tensors.size()) return std::string();
  std::vector<int64_t> sizes;
  for (const TensorShape& shape : tensors) sizes.push_back(shape.n);
  constexpr size_t kShown = 12;
  const bool more = sizes.size() > kShown;
  if (more) sizes.resize(kShown);
  return fmt::format("smallest failing list found: {} tensor{} of [{}{}] elements", tensors.size(),
                     tensors.size() == 1 ? "" : "s", fmt::join(sizes, ", "), more ? ", ..." : "");
}

}  // namespace

Result<std::string> shrink_case(const CheckContext& context, const std::string& check, const CaseSpec& spec,
                                const CaseData& data, const Failure& failure) {
  // An endless loop costs its whole budget each time, what is not implemented stays so at any size, and a plan that is
  // wrong says itself for which tensor.
  if (failure.verdict == Verdict::kTimeout || failure.verdict == Verdict::kUnsupported ||
      failure.verdict == Verdict::kBadCandidate)
    return std::string();
  CheckContext quiet = context;
  quiet.progress = nullptr;
  Shrinker shrinker{quiet, check, spec, data};
  const size_t count = spec.tensors.size();
  if (failure.tensor >= 0 && static_cast<size_t>(failure.tensor) < count) {
    const size_t tensor = static_cast<size_t>(failure.tensor);
    std::optional<bool> alone = count == 1 ? std::optional<bool>(true) : std::nullopt;
    if (!alone) {
      const Result<std::optional<bool>> result = shrinker.fails({spec.tensors[tensor]}, {data.streams[tensor]});
      if (!result.ok()) return result.error();
      alone = result.value();
    }
    if (alone.value_or(true)) {
      Result<std::string> found = shrink_tensor(shrinker, tensor, alone.has_value());
      if (!found.ok() || !found.value().empty()) return found;
    }
  } else if (count == 1) {
    return shrink_tensor(shrinker, 0, true);
  }
  return shrink_list(shrinker);
}

}  // namespace stepbench
