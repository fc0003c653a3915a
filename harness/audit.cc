// Collecting the kernels and evaluating them; what is printed is command_audit.cc's.
#include "harness/audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <limits>
#include <mutex>
#include <thread>

#include "harness/checks.h"
#include "harness/json_reader.h"
#include "harness/mutants.h"
#include "harness/record_folder.h"

namespace stepbench {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxKernelBytes = 1ull << 20;
constexpr const char* kAttackTask = "adamw";

Result<AuditItem> variant_item(const TaskSpec& task, const Variant& variant) {
  AuditItem item{AuditKind::kVariant, task.id, variant.name, "", "", variant.path, "", "", false, {Verdict::kPassed}};
  Result<std::string> source = read_file(variant.path, kMaxKernelBytes);
  if (!source.ok()) return source.error();
  item.source = std::move(source).value();
  item.is_ptx = variant.path.ends_with(".ptx");
  if (item.is_ptx) {
    Result<std::string> plan = read_file(variant.path.substr(0, variant.path.size() - 4) + ".json", kMaxKernelBytes);
    if (!plan.ok()) return plan.error();
    item.plan_json = std::move(plan).value();
  }
  return item;
}

Result<void> add_task(const std::string& id, std::vector<AuditItem>& items) {
  const Result<TaskSpec> task = load_task(id);
  if (!task.ok()) return task.error();
  const Result<std::vector<Variant>> variants = load_variants(task.value());
  if (!variants.ok()) return variants.error();
  for (const Variant& variant : variants.value()) {
    Result<AuditItem> item = variant_item(task.value(), variant);
    if (!item.ok()) return item.error();
    items.push_back(std::move(item).value());
  }
  const Result<std::vector<Mutant>> mutants = load_mutants(task.value());
  if (!mutants.ok()) return mutants.error();
  for (const Mutant& mutant : mutants.value())
    items.push_back(
        {AuditKind::kMutant, id, mutant.name, "", mutant.why, mutant.path, mutant.source, "", false, mutant.verdicts});
  return {};
}

Result<void> add_attacks(const std::string& folder, std::vector<AuditItem>& items) {
  const std::string index = folder + "/attacks.json";
  const Result<std::string> text = read_file(index, kMaxKernelBytes);
  if (!text.ok()) {
    Error error = text.error();
    error.expected = "the attacks of the source tree, beside its tasks";
    return error;
  }
  try {
    const auto json = parse_json(index, text.value());
    for (const JsonReader& row : JsonReader(json, index, "").items()) {
      AuditItem item;
      item.kind = AuditKind::kAttack;
      item.task = kAttackTask;
      item.name = row.at("file").text();
      item.group = row.at("class").text();
      item.why = row.at("why").text();
      item.path = folder + "/" + item.name;
      for (const JsonReader& word : row.at("verdict").items()) {
        const std::optional<Verdict> verdict = verdict_from_text(word.text());
        if (!verdict) word.fail("unknown verdict");
        item.verdicts.push_back(*verdict);
      }
      Result<std::string> source = read_file(item.path, 16 * kMaxKernelBytes);  // one of them is large on purpose
      if (!source.ok()) return source.error();
      item.source = std::move(source).value();
      items.push_back(std::move(item));
    }
  } catch (const JsonProblem& problem) {
    return problem.error;
  }
  return {};
}

AuditOutcome outcome_of(const AuditItem& item, Verdict verdict, const std::optional<Failure>& failure,
                        const std::vector<CaseReport>& cases) {
  AuditOutcome outcome;
  outcome.verdict = verdict;
  outcome.as_expected = std::find(item.verdicts.begin(), item.verdicts.end(), verdict) != item.verdicts.end();
  const auto take = [&](double ratio, const std::string& buffer) {
    // NaN instead of a number is as far from the limit as can be.
    if (std::isnan(ratio)) ratio = std::numeric_limits<double>::infinity();
    if (ratio < outcome.error_ratio || (ratio == outcome.error_ratio && !outcome.buffer.empty())) return;
    outcome.error_ratio = ratio;
    outcome.buffer = buffer;
  };
  for (const CaseReport& report : cases) take(report.worst_error_ratio, report.worst_buffer);
  if (!failure) return outcome;
  outcome.message = failure->message;
  take(failure->error_ratio, failure->buffer);
  if (!is_wrong_value(verdict)) {  // a fault has no distance
    outcome.error_ratio = std::numeric_limits<double>::quiet_NaN();
    outcome.buffer = failure->buffer;
  }
  return outcome;
}

AuditOutcome evaluate_item(const AuditItem& item, const EvalOptions& options, double wall_limit_s) {
  AuditOutcome failed;
  const Result<TaskSpec> task = load_task(item.task);
  if (!task.ok()) {
    failed.error = task.error();
    return failed;
  }
  const Result<Judged<Candidate>> candidate =
      parse_candidate(item.path, item.source, item.plan_json, item.is_ptx, item.task);
  if (!candidate.ok()) {
    failed.error = candidate.error();
    return failed;
  }
  if (!candidate.value().ok()) {
    const Failure& failure = *candidate.value().failure;
    return outcome_of(item, failure.verdict, failure, {});
  }
  EvalOptions whole = options;
  whole.to_the_end = true;
  const Result<EvalRecord> record =
      evaluate_isolated(*candidate.value().value, task.value(), whole, wall_limit_s, nullptr);
  if (!record.ok()) {
    failed.error = record.error();
    return failed;
  }
  return outcome_of(item, record.value().verdict, record.value().failure, record.value().cases);
}

}  // namespace

Result<std::vector<AuditItem>> audit_items(const AuditScope& scope) {
  std::vector<AuditItem> items;
  if (scope.tasks) {
    std::vector<std::string> ids = scope.only_tasks;
    if (ids.empty()) {
      Result<std::vector<std::string>> all = list_tasks();
      if (!all.ok()) return all.error();
      ids = std::move(all).value();
    }
    for (const std::string& id : ids)
      if (const Result<void> added = add_task(id, items); !added.ok()) return added.error();
  }
  if (scope.attacks) {
    const Result<std::string> tasks = tasks_folder();
    if (!tasks.ok()) return tasks.error();
    const std::string folder = (fs::path(tasks.value()).parent_path() / "tests" / "attacks").string();
    if (const Result<void> added = add_attacks(folder, items); !added.ok()) return added.error();
  }
  return items;
}

std::vector<AuditOutcome> run_audit(const std::vector<AuditItem>& items, const EvalOptions& options,
                                    double wall_limit_s, int jobs, const std::function<void(size_t index)>& done) {
  std::vector<AuditOutcome> outcomes(items.size());
  std::atomic<size_t> next{0};
  std::mutex mutex;
  const auto work = [&] {
    for (size_t i = next++; i < items.size(); i = next++) {
      outcomes[i] = evaluate_item(items[i], options, wall_limit_s);
      const std::lock_guard<std::mutex> lock(mutex);
      if (done) done(i);
    }
  };
  // A worker dies with the thread that started it (PR_SET_PDEATHSIG), so each thread stays until its evaluation ends.
  std::vector<std::thread> threads;
  for (size_t i = 1; i < std::min(static_cast<size_t>(std::max(jobs, 1)), items.size()); ++i)
    threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

}  // namespace stepbench
