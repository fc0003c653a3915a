// The doubles that judgements of large tensors are made in, kept from step to step.
#include <algorithm>
#include <utility>

#include "harness/checks.h"

namespace stepbench {

JudgeSpaces::Free take_space(JudgeSpaces& spaces, int64_t elements) {
  const std::lock_guard lock(spaces.mutex);
  const auto fits = [&](const JudgeSpaces::Free& one) {
    return one.elements >= elements && one.elements / 2 <= std::max(elements, kWindowElements);
  };
  auto best = spaces.free.end(), largest = best;
  for (auto one = spaces.free.begin(); one != spaces.free.end(); ++one) {
    if (fits(*one) && (best == spaces.free.end() || one->elements < best->elements)) best = one;
    if (largest == spaces.free.end() || one->elements > largest->elements) largest = one;
  }
  if (best == spaces.free.end() && spaces.held + elements > kMostHeldElements) best = largest;
  JudgeSpaces::Free taken{0, nullptr};
  if (best != spaces.free.end()) {
    taken = std::move(*best);
    spaces.free.erase(best);
  } else {
    taken.space = std::make_unique<JudgeSpace>();
  }
  spaces.held += std::max<int64_t>(0, elements - taken.elements);
  taken.elements = std::max(elements, taken.elements);
  return taken;
}

void return_space(JudgeSpaces& spaces, JudgeSpaces::Free&& taken) {
  const std::lock_guard lock(spaces.mutex);
  spaces.free.push_back(std::move(taken));
}

}  // namespace stepbench
