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
  int jobs = 1;          ///< candidates at the same time
  double timeout_s = 0;  ///< 0: by suite
  bool quiet = false;
  bool no_cache = false;
  bool profile = false;
  bool resume = false;  ///< take what the records folder already holds
};

struct ReplayArguments {
  std::string record;  ///< id, beginning of an id, or path
  std::string records;
  double timeout_s = 0;
  bool quiet = false;
};

struct DoctorArguments {
  std::string records;
  bool json = false;
};

int run_tasks(const TasksArguments& arguments);
int run_show(const ShowArguments& arguments);
int run_eval(const EvalArguments& arguments);
int run_replay(const ReplayArguments& arguments);
int run_doctor(const DoctorArguments& arguments);

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
