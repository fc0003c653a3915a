// The checks `edges` and `families`: the same teacher-forced cases over other sizes, offsets, value families and
// steps. After the first failure it looks for a smaller shape that fails too.
#include "harness/checks.h"

namespace stepbench {

Result<CheckOutcome> check_teacher_forced(const CheckContext& context, const std::string& check,
                                          std::span<const CaseGroup> groups) {
  Result<std::vector<CaseSpec>> expanded = expand_cases(context.task, groups);
  if (!expanded.ok()) return expanded.error();
  std::vector<CaseSpec>& cases = expanded.value();
  const Result<void> selected = select_case(context, check, cases);
  if (!selected.ok()) return selected.error();
  if (context.max_case_elements > 0)
    std::erase_if(cases,
                  [&](const CaseSpec& spec) { return total_elements(spec.tensors) > context.max_case_elements; });
  if (context.max_case_tensors > 0)
    std::erase_if(cases, [&](const CaseSpec& spec) {
      return static_cast<int64_t>(spec.tensors.size()) > context.max_case_tensors;
    });
  if (context.max_cases > 0 && cases.size() > static_cast<size_t>(context.max_cases))
    cases.resize(static_cast<size_t>(context.max_cases));

  Result<CheckOutcome> outcome =
      run_cases(context, check, cases.size(), [&](size_t index, const CancelFlag& cancel, int threads) {
        const CaseSpec& spec = cases[index];
        return run_teacher_case(context, check, spec, case_data(context, check, spec), cancel, threads);
      });
  if (!outcome.ok() || !outcome.value().failure) return outcome;

  const CaseSpec& failed = cases[*outcome.value().failed_case];
  Failure& failure = *outcome.value().failure;
  const Result<std::string> smaller = shrink_case(context, check, failed, case_data(context, check, failed), failure);
  if (!smaller.ok()) return smaller.error();
  if (!smaller.value().empty()) failure.detail += (failure.detail.empty() ? "" : "\n") + smaller.value();
  return outcome;
}

}  // namespace stepbench
