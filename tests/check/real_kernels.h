// Evaluations of kernels from the tasks' folders with the real compiler and the VM.
#pragma once

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "harness/checks.h"
#include "harness/mutants.h"

namespace stepbench::testing {

/// Compiled code is kept beside the test program, so that a second run of the tests is quick.
inline EvalOptions real_options(const std::string& suite, uint64_t salt) {
  EvalOptions options;
  options.suite = suite;
  options.salt = salt;
  std::error_code problem;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", problem);
  if (!problem) options.compile.cache_folder = (self.parent_path() / "test_cache").string();
  return options;
}

/// False, with a warning, where this machine has no compiler for the kernels.
inline bool can_compile() {
  const Result<CompilerInfo> compiler = find_compiler();
  if (!compiler.ok()) WARN("not run: " << to_text(compiler.error()));
  return compiler.ok();
}

inline EvalRecord evaluate_text(const TaskSpec& task, const std::string& path, const std::string& source,
                                const EvalOptions& options) {
  Result<Judged<Candidate>> candidate = parse_candidate(path, source, "", false, task.id);
  if (!candidate.ok()) FAIL(to_text(candidate.error()));
  if (!candidate.value().ok()) {
    EvalRecord refused;
    refused.verdict = candidate.value().failure->verdict;
    refused.failure = candidate.value().failure;
    return refused;
  }
  Result<EvalRecord> record = evaluate(*candidate.value().value, task, options, nullptr);
  if (!record.ok()) FAIL(to_text(record.error()));
  return record.value();
}

inline EvalRecord evaluate_file(const TaskSpec& task, const std::string& path, const EvalOptions& options) {
  Result<Judged<Candidate>> candidate = load_candidate(path, task.id);
  if (!candidate.ok()) FAIL(to_text(candidate.error()));
  if (!candidate.value().ok()) FAIL(candidate.value().failure->message);
  Result<EvalRecord> record = evaluate(*candidate.value().value, task, options, nullptr);
  if (!record.ok()) FAIL(to_text(record.error()));
  return record.value();
}

inline TaskSpec real_task(const std::string& id) {
  Result<TaskSpec> task = load_task(id);
  if (!task.ok()) FAIL(to_text(task.error()));
  return task.value();
}

inline std::vector<std::string> task_ids() {
  Result<std::vector<std::string>> ids = list_tasks();
  if (!ids.ok()) FAIL(to_text(ids.error()));
  return ids.value();
}

/// The case closest to its limit.
inline CaseReport worst_case(const EvalRecord& record) {
  CaseReport worst;
  for (const CaseReport& report : record.cases) {
    if (!(report.worst_error_ratio <= worst.worst_error_ratio)) worst = report;
  }
  return worst;
}

}  // namespace stepbench::testing
