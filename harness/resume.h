// Which evaluations a folder of records already holds, so that an interrupted run of many candidates goes on where it
// stopped. Reading only; what counts as the same evaluation is fixed here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "harness/model.h"
#include "harness/result.h"

namespace stepbench {

/// What makes two evaluations the same: candidate (by hash), task and its version, suite, device, StepBench's version.
struct ResumeKey {
  std::string candidate_sha256;
  std::string task;
  int32_t task_version = 1;
  std::string suite;
  std::string device;  ///< as records name it
  std::string stepbench_version;
  auto operator<=>(const ResumeKey&) const = default;
};

struct FinishedRecord {
  std::string path;
  std::string created_utc;
  int64_t written_ns = 0;  ///< of the file; decides between records of the same second
};

struct FinishedRecords {
  std::map<ResumeKey, FinishedRecord> newest;  ///< one per evaluation
  int64_t ignored = 0;                         ///< files that are no records
  std::string first_ignored;                   ///< name of the first of them
};

/// A whole evaluation with a verdict on the candidate: no harness_error, no run of a single check.
bool is_finished(const EvalRecord& record);
ResumeKey resume_key(const EvalRecord& record);

/// Looks at every file of the folder (which need not exist) and counts the finished ones. With a salt (16 hex digits)
/// only records of that salt count; an empty one takes any.
Result<FinishedRecords> find_finished(const std::string& folder, const std::string& salt);

/// One line about what was ignored; empty when nothing was.
std::string ignored_text(const FinishedRecords& finished, const std::string& folder);

/// The newest record of this evaluation. An error when its file has changed since.
Result<std::optional<EvalRecord>> finished_record(const FinishedRecords& finished, const ResumeKey& key);

}  // namespace stepbench
