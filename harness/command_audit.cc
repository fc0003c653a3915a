// `stepbench audit`: runs the kernels whose verdict is known and prints what was caught and what was missed, how far
// both sides are from the limits, and in words what no audit shows.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "harness/audit.h"
#include "harness/commands.h"
#include "harness/evaluate_files.h"
#include "harness/record.h"
#include "harness/record_folder.h"
#include "harness/report.h"

namespace stepbench {
namespace {

using Json = nlohmann::ordered_json;

/// Known-good kernels should stay below half of the limits and wrong ones beyond twice of them: then neither another
/// seed nor another device changes a verdict.
constexpr double kWantedDistance = 2;

/// Where an audit of everything stops being able to say anything. By device.
constexpr const char* kRisks[] = {
    "a wrong kernel that resembles none of these may pass: the audit shows that the limits have teeth, not that they "
    "are "
    "complete",
    "drift is watched over as many steps as the suite has, 200 in smoke and 10,000 in full for most tasks; what shows "
    "later is not seen",
    "the compiler, the driver and the GPU's own counters are trusted"};
constexpr const char* kVmRisks[] = {
    "this was the VM: nothing here says how kernels behave that only a GPU runs, and no time was measured"};
constexpr const char* kGpuRisks[] = {
    "code that the VM does not implement runs on the GPU without the VM's watch over races, uninitialised reads and "
    "reads "
    "just outside of a buffer"};

struct Row {
  const AuditItem* item = nullptr;
  const AuditOutcome* outcome = nullptr;
};

/// What one task's or one class's rows come to.
struct Sum {
  int64_t total = 0, right = 0;
  double distance = 0;  ///< see AuditOutcome::error_ratio; NaN: none has one
  std::string named;    ///< the row that has it
};

Sum sum_of(const std::vector<Row>& rows, AuditKind kind) {
  Sum sum;
  sum.distance = std::numeric_limits<double>::quiet_NaN();
  for (const Row& row : rows) {
    if (row.item->kind != kind) continue;
    ++sum.total;
    if (row.outcome->error || !row.outcome->as_expected) continue;
    ++sum.right;
    const double ratio = row.outcome->error_ratio;
    const bool weaker = kind == AuditKind::kVariant ? !(ratio <= sum.distance) : !(ratio >= sum.distance);
    if (!std::isnan(ratio) && weaker) {
      sum.distance = ratio;
      sum.named = row.item->name + (row.outcome->buffer.empty() ? "" : " (" + row.outcome->buffer + ")");
    }
  }
  return sum;
}

std::string got(const AuditOutcome& outcome) {
  if (outcome.error) return to_text(*outcome.error);
  return fmt::format("{}{}", to_text(outcome.verdict), outcome.message.empty() ? "" : ": " + outcome.message);
}

std::string wanted(const AuditItem& item) {
  std::string text;
  for (const Verdict verdict : item.verdicts) text += fmt::format("{}{}", text.empty() ? "" : " or ", to_text(verdict));
  return text;
}

std::string distance_text(double ratio) {
  if (std::isnan(ratio)) return "-";
  return std::isinf(ratio) ? std::string("inf") : fmt::format("{:.3g}", ratio);
}

void print_tasks(const std::map<std::string, std::vector<Row>>& by_task) {
  size_t width = 4;
  for (const auto& [task, rows] : by_task) width = std::max(width, task.size());
  fmt::print("{:<{}}  right kernels  largest error  wrong kernels  smallest error  which\n", "task", width);
  for (const auto& [task, rows] : by_task) {
    const Sum variants = sum_of(rows, AuditKind::kVariant), mutants = sum_of(rows, AuditKind::kMutant);
    fmt::print("{:<{}}  {:>4} of {:<4}   {:<13}  {:>4} of {:<4}   {:<14}  {}\n", task, width, variants.right,
               variants.total, distance_text(variants.distance), mutants.right, mutants.total,
               distance_text(mutants.distance), mutants.named);
  }
  fmt::print(
      "Errors in units of the limit. Right kernels pass below 1 and should stay below {:.2g}; wrong ones fail above 1 "
      "and "
      "should stay above {:g}.\n",
      1 / kWantedDistance, kWantedDistance);
}

void print_attacks(const std::map<std::string, std::vector<Row>>& by_group) {
  fmt::print("{:<22}  caught\n", "class of attack");
  for (const auto& [group, rows] : by_group) {
    const Sum sum = sum_of(rows, AuditKind::kAttack);
    fmt::print("{:<22}  {} of {}\n", group, sum.right, sum.total);
  }
}

/// What is not as it must be, and what is but only just.
int64_t print_surprises(const std::vector<Row>& rows) {
  int64_t missed = 0;
  for (const Row& row : rows) {
    const AuditItem& item = *row.item;
    const AuditOutcome& outcome = *row.outcome;
    const std::string name = fmt::format("{}: {}", item.kind == AuditKind::kAttack ? "attack" : item.task, item.name);
    if (outcome.error || !outcome.as_expected) {
      ++missed;
      fmt::print("MISSED  {}: expected {}, found {}{}\n", name, wanted(item), got(outcome),
                 item.why.empty() ? "" : fmt::format(" ({})", item.why));
    }
  }
  for (const Row& row : rows) {
    const AuditOutcome& outcome = *row.outcome;
    if (outcome.error || !outcome.as_expected || std::isnan(outcome.error_ratio)) continue;
    const bool good = row.item->kind == AuditKind::kVariant;
    if (row.item->kind == AuditKind::kAttack) continue;  // their point is not to be near a limit
    if (good ? outcome.error_ratio * kWantedDistance <= 1 : outcome.error_ratio >= kWantedDistance) continue;
    fmt::print("close   {}: {}: {:.3g} x the limit in {}\n", row.item->task, row.item->name, outcome.error_ratio,
               outcome.buffer);
  }
  return missed;
}

Json json_of(const std::vector<Row>& rows, const EvalOptions& options) {
  Json json{{"stepbench_version", STEPBENCH_VERSION},
            {"device", options.device},
            {"suite", options.suite},
            {"salt", hex16(options.salt)},
            {"kernels", Json::array()}};
  constexpr const char* kKinds[] = {"variant", "mutant", "attack"};
  for (const Row& row : rows) {
    Json entry{
        {"kind", kKinds[static_cast<size_t>(row.item->kind)]}, {"task", row.item->task}, {"name", row.item->name}};
    if (!row.item->group.empty()) entry["class"] = row.item->group;
    for (const Verdict verdict : row.item->verdicts) entry["expected"].push_back(std::string(to_text(verdict)));
    if (row.outcome->error) {
      entry["error"] = to_text(*row.outcome->error);
    } else {
      entry["verdict"] = std::string(to_text(row.outcome->verdict));
      const double ratio = row.outcome->error_ratio;
      if (std::isfinite(ratio)) entry["error_ratio"] = ratio;
      if (std::isinf(ratio)) entry["error_ratio"] = "inf";
      if (!row.outcome->buffer.empty()) entry["buffer"] = row.outcome->buffer;
    }
    entry["as_expected"] = !row.outcome->error && row.outcome->as_expected;
    json["kernels"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace

int run_audit_command(const AuditArguments& arguments) {
  EvalArguments eval;
  eval.device = arguments.device;
  eval.suite = arguments.suite;
  eval.salt = arguments.salt;
  eval.jobs = arguments.jobs;
  eval.no_cache = arguments.no_cache;
  const Result<EvalOptions> options = make_eval_options(eval);
  if (!options.ok()) return report_error(options.error());
  if (const Result<CompilerInfo> compiler = find_compiler(); !compiler.ok()) return report_error(compiler.error());
  AuditScope scope;
  scope.only_tasks = arguments.tasks;
  if (arguments.only_tasks || arguments.only_attacks) {
    scope.tasks = arguments.only_tasks;
    scope.attacks = arguments.only_attacks;
  }
  if (!arguments.tasks.empty() && !arguments.only_attacks) scope.attacks = false;
  const Result<std::vector<AuditItem>> items = audit_items(scope);
  if (!items.ok()) return report_error(items.error());

  std::vector<AuditOutcome> outcomes;
  {
    ProgressLine progress(arguments.quiet);
    int64_t count = 0;
    const auto total = static_cast<int64_t>(items.value().size());
    outcomes =
        run_audit(items.value(), options.value(), wall_limit_s(0, arguments.suite), arguments.jobs, [&](size_t i) {
          progress.show(items.value()[i].task, {"audit", ++count, total});
        });
  }
  std::vector<Row> rows;
  std::map<std::string, std::vector<Row>> by_task, by_group;
  bool could_not_run = false;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const Row row{&items.value()[i], &outcomes[i]};
    rows.push_back(row);
    could_not_run = could_not_run || row.outcome->error || row.outcome->verdict == Verdict::kHarnessError;
    if (row.item->kind == AuditKind::kAttack)
      by_group[row.item->group].push_back(row);
    else
      by_task[row.item->task].push_back(row);
  }
  int64_t missed = 0;
  if (arguments.json == "-") {
    for (const Row& row : rows) missed += row.outcome->error || !row.outcome->as_expected;
  } else {
    fmt::print("suite {}, device {}, salt {}\n", options.value().suite, options.value().device,
               hex16(options.value().salt));
    if (!by_task.empty()) print_tasks(by_task);
    if (!by_group.empty()) print_attacks(by_group);
    missed = print_surprises(rows);
    fmt::print("What this does not show:\n");
    for (const char* const risk : kRisks) fmt::print("- {}\n", risk);
    for (const char* const risk : options.value().device == "vm" ? kVmRisks : kGpuRisks) fmt::print("- {}\n", risk);
    fmt::print("{}\n", missed == 0 ? fmt::format("all {} as they must be", rows.size())
                                   : fmt::format("{} of {} not as they must be", missed, rows.size()));
  }
  if (!arguments.json.empty()) {
    const std::string text = json_of(rows, options.value()).dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
    if (arguments.json == "-")
      fmt::print("{}", text);
    else if (const Result<void> written = write_file_atomically(arguments.json, text); !written.ok())
      return report_error(written.error());
  }
  if (could_not_run) return kExitEnvironment;
  return missed == 0 ? kExitDone : kExitFailed;
}

}  // namespace stepbench
