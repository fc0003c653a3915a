// A run of many candidates on a Slurm cluster, as values and text: what is asked for, the scripts of its job arrays,
// and what Slurm's commands answer. No command is run here and no file is touched: command_slurm.cc does both.
//
// A run lives in one folder on a file system that all nodes share:
//   manifest.json         what is evaluated and how; index -> candidate file and its hash
//   scripts/BLOCK-N.sh    the job arrays as they were submitted
//   records/INDEX.jsonl   one finished record, written to a temporary name and then named: there whole or not at all,
//                         and never replaced
//   not_judged/INDEX.jsonl  the last record of a candidate that could not be judged (harness_error); tried again
//   logs/JOB_TASK.txt     what each task printed
// A candidate is finished when its record is there, whatever Slurm says of its task. Job arrays hold up to kSlurmBlock
// tasks, because clusters limit their indices (MaxArraySize, 1001 by default): task T of block B is index
// B * kSlurmBlock + T. Jobs are found by their names, stepbench-RUN-BLOCK, so that none is lost when a command is
// interrupted between submitting a job and noting it down.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/commands.h"
#include "harness/model.h"
#include "harness/result.h"

namespace stepbench {

inline constexpr int64_t kSlurmBlock = 1000;

struct SlurmCandidate {
  std::string path;    ///< absolute
  std::string sha256;  ///< of the file, and of the .json beside a .ptx
};

struct SlurmManifest {
  std::string run;  ///< 8 hex digits
  std::string created_utc;
  std::string program;    ///< absolute path of stepbench, the same on every node
  SlurmRequest request;   ///< commands.h
  EvalArguments eval;     ///< task, device, suite, salt, baseline, timeout_s, no_cache; the rest is not kept
  Submission submission;  ///< name empty: none
  std::vector<SlurmCandidate> candidates;
};

std::string manifest_to_json(const SlurmManifest& manifest);
/// kInvalidInput with file, JSON pointer, expected and found.
Result<SlurmManifest> manifest_from_json(const std::string& file, const std::string& text);

/// Values go into script lines, so they may hold what Slurm's own values are made of and nothing else: no space, quote
/// or line end. kUsage names the option. The same for the folder, whose path stands there too.
Result<void> check_slurm_request(const SlurmRequest& request, const std::string& folder);

/// "0-3,7,9-12"; sorted, without duplicates, at least one.
std::string array_text(const std::set<int64_t>& tasks);

std::string slurm_job_name(const SlurmManifest& manifest, int64_t block);
/// All job names of the run, separated by commas, as squeue, sacct and scancel take them.
std::string slurm_job_names(const SlurmManifest& manifest);

/// The job array for these indices, which are all of one block.
std::string slurm_script(const SlurmManifest& manifest, const std::string& folder, int64_t block,
                         const std::set<int64_t>& indices);

/// Indices by block.
std::map<int64_t, std::set<int64_t>> slurm_blocks(std::span<const int64_t> indices);

/// What to ask: `squeue --noheader --array --format=...`, `sacct --allocations --array --noheader --parsable2 ...`.
inline constexpr const char* kSqueueFormat = "%j|%K|%T";
inline constexpr const char* kSacctFormat = "JobName,JobID,State,ExitCode";

/// Index -> state ("RUNNING", "PENDING" ...) of the run's tasks in the queue; lines about anything else are ignored.
std::map<int64_t, std::string> parse_squeue(const SlurmManifest& manifest, std::string_view text);
/// Index -> state of the newest job that ran it, with the exit code when it is not 0: "FAILED (3:0)".
std::map<int64_t, std::string> parse_sacct(const SlurmManifest& manifest, std::string_view text);

/// "000042.jsonl"
std::string slurm_record_name(int64_t index);

}  // namespace stepbench
