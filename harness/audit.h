// The audit: does this build, on this machine, still tell right kernels from wrong ones? Every baseline and variant of
// a task must pass, every mutant and every attack of tests/attacks must fail with the verdict that its file names.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/model.h"
#include "harness/result.h"
#include "harness/stages.h"

namespace stepbench {

enum class AuditKind : uint8_t { kVariant, kMutant, kAttack };

/// One kernel with what must be said of it.
struct AuditItem {
  AuditKind kind = AuditKind::kVariant;
  std::string task;
  std::string name;          ///< "variants/torch_order", "no weight decay", "endless_loop.cu"
  std::string group;         ///< class of an attack
  std::string why;           ///< what is wrong with it; empty for a variant
  std::string path, source;  ///< path for messages, whole text
  std::string plan_json;     ///< beside PTX
  bool is_ptx = false;
  std::vector<Verdict> verdicts;  ///< any of these is right
};

struct AuditOutcome {
  std::optional<Error> error;  ///< it could not be evaluated; then the rest is not set
  Verdict verdict = Verdict::kHarnessError;
  bool as_expected = false;
  /// The largest error of all cases in units of the limit: below 1 of a kernel that passed, above 1 of one that failed
  /// by value. NaN: it failed by something that has no distance, such as a fault.
  double error_ratio = 0;
  std::string buffer;   ///< of that error
  std::string message;  ///< of the failure
};

/// What to look at. An empty list of tasks means all.
struct AuditScope {
  bool tasks = true, attacks = true;
  std::vector<std::string> only_tasks;
};

/// In order: by task baselines, variants, mutants; then the attacks. kNotFound for an unknown task, or where the
/// attacks are not beside the tasks; kInvalidTask as of load_mutants.
Result<std::vector<AuditItem>> audit_items(const AuditScope& scope);

/// All of them, `jobs` at a time, each in a worker process. `done` is called after each, never twice at the same time.
std::vector<AuditOutcome> run_audit(const std::vector<AuditItem>& items, const EvalOptions& options,
                                    double wall_limit_s, int jobs, const std::function<void(size_t index)>& done);

}  // namespace stepbench
