// Runs the cases of one check on several threads with an outcome that does not depend on how many there are: cases are
// started in order, and everything after the first failure in that order is dropped.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "harness/checks.h"

namespace stepbench {
namespace {

/// What one case left: exactly one of the two, once it has run.
struct Slot {
  std::optional<CaseOutcome> outcome;
  std::optional<Error> error;
};

}  // namespace

Failure in_case(Failure failure, const std::string& check, const std::string& case_name, uint64_t seed, int64_t step) {
  failure.check = check;
  failure.case_name = case_name;
  failure.seed = seed;
  if (failure.step < 0) failure.step = step;
  return failure;
}

Result<void> select_case(const CheckContext& context, const std::string& check, std::vector<CaseSpec>& cases) {
  if (context.only_case.empty()) return {};
  std::string known;
  for (const CaseSpec& spec : cases) known += (known.empty() ? "" : ", ") + spec.name;
  std::erase_if(cases, [&](const CaseSpec& spec) { return spec.name != context.only_case; });
  if (!cases.empty()) return {};
  return Error{ErrorCode::kNotFound, fmt::format("the check {} has no such case", check), "",
               known.empty() ? "no case at all in this suite" : known, context.only_case};
}

bool is_wrong_value(Verdict verdict) { return verdict == Verdict::kWrongResult || verdict == Verdict::kDrift; }

Result<CheckOutcome> run_cases(const CheckContext& context, const std::string& check, size_t count,
                               const CaseRunner& runner) {
  std::vector<Slot> slots(count);
  std::atomic<size_t> next{0};
  std::atomic<size_t> first_bad{count};
  std::mutex progress_mutex;
  int64_t done = 0;

  const int wanted = context.one_at_a_time ? 1 : std::max(context.threads, 1);
  const size_t workers = std::clamp<size_t>(static_cast<size_t>(wanted), 1, std::max<size_t>(count, 1));
  const int inner_threads = std::max(1, context.threads / static_cast<int>(workers));

  const auto report_progress = [&] {
    const std::lock_guard lock(progress_mutex);
    ++done;
    if (context.progress) context.progress(Progress{check, done, static_cast<int64_t>(count)});
  };
  const auto work = [&] {
    for (;;) {
      const size_t index = next.fetch_add(1);
      if (index >= count || index > first_bad.load()) return;
      Slot& slot = slots[index];
      try {
        Result<CaseOutcome> result = runner(index, CancelFlag(first_bad, index), inner_threads);
        if (result.ok()) {
          slot.outcome = std::move(result.value());
        } else {
          slot.error = result.error();
        }
      } catch (const std::exception& caught) {
        slot.error = Error{ErrorCode::kResource, "a case could not be run", check, "", caught.what()};
      }
      const bool goes_on = !slot.error && (!slot.outcome->failure ||
                                           (context.to_the_end && is_wrong_value(slot.outcome->failure->verdict)));
      if (!goes_on) {
        size_t seen = first_bad.load();
        while (index < seen && !first_bad.compare_exchange_weak(seen, index)) {
        }
      }
      report_progress();
    }
  };

  if (workers == 1) {
    work();
  } else {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < workers; ++i) threads.emplace_back(work);
  }

  CheckOutcome outcome;
  for (size_t i = 0; i < count && i <= first_bad.load(); ++i) {
    if (slots[i].error) return *slots[i].error;
    SB_ASSERT(slots[i].outcome.has_value());
    CaseOutcome& one = *slots[i].outcome;
    outcome.reports.push_back(std::move(one.report));
    std::move(one.drift.begin(), one.drift.end(), std::back_inserter(outcome.drift));
    if (one.failure && !outcome.failure) {
      outcome.failure = std::move(one.failure);
      outcome.failed_case = i;
    }
  }
  return outcome;
}

}  // namespace stepbench
