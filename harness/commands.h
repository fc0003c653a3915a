// The commands of the program as plain functions: arguments in, exit code out. command_line.cc fills the arguments.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/model.h"
#include "harness/result.h"

namespace stepbench {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;       ///< a candidate failed
inline constexpr int kExitUsage = 2;        ///< the command line or an input file is wrong
inline constexpr int kExitEnvironment = 3;  ///< this machine, or StepBench itself; or a candidate could not be judged

struct TasksArguments {
  bool json = false;
};

struct ShowArguments {
  std::string task;
  bool json = false;
};

struct EvalArguments {
  std::vector<std::string> files;
  std::string task;
  std::string device = "auto";
  std::string suite = "smoke";
  std::string salt;      ///< hex; empty: drawn
  std::string json;      ///< file, or "-" for standard output; empty: none
  std::string records;   ///< folder; empty: the default one
  std::string only;      ///< CHECK or CHECK/CASE
  std::string baseline;  ///< file to time against; empty: the fastest of the task
  int jobs = 1;          ///< candidates at the same time
  double timeout_s = 0;  ///< 0: by suite
  bool quiet = false;
  bool no_cache = false;
  bool profile = false;
  bool resume = false;  ///< take what the records folder already holds
};

/// What became of one file given to `eval`: a record, or an error that is not about the candidate.
struct EvaluatedFile {
  std::optional<EvalRecord> record;
  std::optional<Error> error;
  std::optional<Error> save_error;  ///< the record exists but could not be kept
  bool resumed = false;             ///< the record is from an earlier run
};

/// What Slurm is asked for; empty or 0: not mentioned, so that the cluster's own default holds.
struct SlurmRequest {
  std::string account, partition, time, qos, gres, constraint, memory;
  int cpus = 0;     ///< per task
  int at_once = 0;  ///< tasks that may run at the same time
};

enum class SlurmAction : uint8_t { kStatus, kCancel, kResume, kTask };

/// `stepbench slurm ACTION FOLDER`: a run that `submit --engine slurm` started.
struct SlurmArguments {
  SlurmAction action = SlurmAction::kStatus;
  std::string folder;
  int64_t index = -1;    ///< kTask
  bool all = false;      ///< kStatus: a line per candidate
  bool dry_run = false;  ///< kResume: print the scripts, submit nothing
};

struct SubmitArguments {
  EvalArguments eval;  ///< `files` may be folders and patterns; `only`, `json` and `resume` are not used
  Submission submission;
  std::string store;             ///< file; empty: the default one
  bool again = false;            ///< evaluate what is finished, too
  std::string engine = "local";  ///< local, or slurm: the rest is for that one
  std::string folder;            ///< of the run, on a file system that all nodes share
  SlurmRequest request;
  bool dry_run = false;  ///< print the scripts, change nothing
};

enum class StoreAction : uint8_t { kList, kShow, kExport, kImport, kVerify, kUpgrade };

struct StoreArguments {
  StoreAction action = StoreAction::kList;
  std::string store;                                            ///< file; empty: the default one
  std::string task, suite, verdict, device, submission, model;  ///< list, export: StoreFilter
  int64_t limit = 50;                                           ///< list; 0: all
  std::string id;                                               ///< show
  std::vector<std::string> files;                               ///< import
  std::string out;                                              ///< export: file; empty: standard output
  std::string head;                                             ///< verify: hash noted earlier
  bool json = false;                                            ///< list, show
  bool source = false;                                          ///< show
  bool quiet = false;
};

struct ReplayArguments {
  std::string record;  ///< id, beginning of an id, or path
  std::string records;
  std::string store;  ///< file to look into; empty: the default one, after the folder of records
  double timeout_s = 0;
  bool quiet = false;
};

struct DoctorArguments {
  bool calibrate = false;  ///< measure the GPU's rates again and keep them
  std::string records;
  bool json = false;
};

/// `stepbench regress OLD [NEW]`: two sets of records, or stored ones and a new run.
struct RegressArguments {
  std::string before;             ///< folder of records, .json, .jsonl or store file
  std::string after;              ///< the same; empty: `eval.files` are evaluated
  EvalArguments eval;             ///< files, device, suite (empty: that of the old records), salt, jobs, records ...
  std::string task;               ///< only this one; empty: all
  double tolerance_ratio = 0.01;  ///< RegressRule
  double error_factor = 2;        ///< RegressRule
  bool require_all = false;       ///< RegressRule
  std::string format = "table";   ///< table, md, junit, sarif, github or json
  std::string out;                ///< file; empty: standard output
  std::vector<std::string> also;  ///< FORMAT=FILE: more forms of the same comparison
  bool all = false;               ///< table: also what is the same
};

struct BoardArguments {
  std::string store;                ///< file; empty: the default one, unless there are inputs
  std::vector<std::string> inputs;  ///< folders of records, record files, files of JSON Lines
  std::string format = "html";      ///< html, md, csv or json
  std::string out;   ///< folder for html (default "board"), file for the others (default standard output)
  std::string task;  ///< only this one; empty: all
  int pages = 100;   ///< record pages per ranking and per task
  bool quiet = false;
};

struct AuditArguments {
  std::vector<std::string> tasks;  ///< only these; empty: all
  bool only_tasks = false, only_attacks = false;
  std::string device = "vm";
  std::string suite = "smoke";
  std::string salt;  ///< hex; empty: drawn
  std::string json;  ///< file, or "-" for standard output; empty: none
  int jobs = 1;
  bool quiet = false;
  bool no_cache = false;
};

int run_tasks(const TasksArguments& arguments);
int run_show(const ShowArguments& arguments);
int run_eval(const EvalArguments& arguments);
int run_audit_command(const AuditArguments& arguments);
int run_submit(const SubmitArguments& arguments);
int run_store(const StoreArguments& arguments);
/// `submit --engine slurm`, after its arguments have been checked; `eval.files` are files.
int start_slurm(const SubmitArguments& arguments);
int run_slurm(const SlurmArguments& arguments);
int run_replay(const ReplayArguments& arguments);
int run_doctor(const DoctorArguments& arguments);
int run_board(const BoardArguments& arguments);
int run_regress(const RegressArguments& arguments);

/// The work of `eval` without its output: all files, `jobs` at a time, in their order; each record is kept in the
/// folder of records as soon as it is there. Error: nothing could be evaluated (usage, environment).
Result<std::vector<EvaluatedFile>> evaluate_files(const EvalArguments& arguments);

/// Parses the command line and runs one command.
int run_command_line(int argc, char** argv);

/// The failure of a candidate whose plan names a task that does not exist; nothing when `error` is about anything else.
std::optional<Failure> unknown_task_failure(const Candidate& candidate, const Error& error);

/// Prints "stepbench: <error>" to standard error and returns its exit code.
int report_error(const Error& error);
int exit_code_of(Verdict verdict);
/// Seconds that an evaluation may take: `given` when positive, else by suite.
double wall_limit_s(double given, const std::string& suite);

}  // namespace stepbench
