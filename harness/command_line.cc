// Command line -> arguments of one command (commands.h). The only user of CLI11.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cctype>
#include <cstdio>
#include <functional>
#include <span>
#include <string>

#include "harness/commands.h"
#include "harness/record.h"

namespace stepbench {
namespace {

constexpr const char* kAbout =
    "StepBench checks CUDA kernels that perform optimizer updates (AdamW, SGD with momentum, ...): it compiles a "
    "candidate,\n"
    "runs it on an emulated GPU that checks every access, and compares every value with an oracle in double precision.";

constexpr const char* kMainExamples =
    "Start here:\n"
    "  stepbench doctor                    can this machine evaluate candidates?\n"
    "  stepbench tasks                     what can be computed\n"
    "  stepbench show adamw                everything an author needs to know about one task\n"
    "  stepbench eval my_adamw.cu          is my kernel right?\n"
    "  stepbench replay 3f2a               run the failing case of a record again\n\n"
    "Exit codes: 0 passed or done, 1 a candidate failed, 2 wrong usage or input file, 3 environment, or not judged.";

constexpr const char* kTasksExamples =
    "Examples:\n"
    "  stepbench tasks\n"
    "  stepbench tasks --json | jq -r '.[].id'";

constexpr const char* kShowExamples =
    "Examples:\n"
    "  stepbench show adamw                the text an author or an agent is given\n"
    "  stepbench show adamw --json         the same facts for programs\n\n"
    "The last part of the text is a complete candidate to start from: save it as my_adamw.cu and fill in the update.";

constexpr const char* kEvalExamples =
    "Examples:\n"
    "  stepbench eval my_adamw.cu                          quick: the smoke suite, on the VM\n"
    "  stepbench eval my_adamw.cu --suite standard         more shapes and families, 1,000 steps of drift\n"
    "  stepbench eval a.cu b.cu c.cu --jobs 2              several candidates, a table at the end\n"
    "  stepbench eval *.cu --resume                        only those that have no record yet, the others from their "
    "records\n"
    "  stepbench eval my_adamw.cu --json - | jq .verdict   the record on standard output, the report on standard "
    "error\n"
    "  stepbench eval my_adamw.cu --salt 2a --only families/gpt2_124m_div64/mixed/t1000\n"
    "                                                      the same random numbers again, one case only\n\n"
    "Exit codes, the highest of all files: 0 all passed, 1 a candidate failed, 2 a file cannot be read or the usage "
    "is\n"
    "wrong, 3 the environment is at fault or a candidate could not be judged (harness_error, unsupported).\n"
    "With one file the JSON is one record, with several a list of records.";

constexpr const char* kReplayExamples =
    "Examples:\n"
    "  stepbench replay 3f2a9c0d1b7e4f58                   the id printed with every failure\n"
    "  stepbench replay 3f2a                               any unique beginning of it\n"
    "  stepbench replay results/3f2a9c0d1b7e4f58.json      a record file from somewhere else\n\n"
    "Runs the failing case with the source, plan and salt of the record; the candidate's file is not needed.\n"
    "Exit codes: 0 it passes now, 1 it fails again, 2 unknown id or damaged record, 3 environment.";

constexpr const char* kDoctorExamples =
    "Examples:\n"
    "  stepbench doctor                    one line per thing that an evaluation needs, with what to do if it is "
    "missing\n"
    "  stepbench doctor --json\n\n"
    "Exit codes: 0 evaluations can run, 3 something they need is missing.";

constexpr const char* kCommands[] = {"tasks", "show", "eval", "replay", "doctor"};

/// CLI11 names an unknown command "argument not expected"; this says what there is instead.
bool is_unknown_command(const std::string& first) {
  if (first.empty() || first[0] == '-') return false;
  for (const char* command : kCommands)
    if (first == command) return false;
  return true;
}

std::string known_commands() {
  std::string text;
  for (const char* command : kCommands) text += (text.empty() ? "" : " ") + std::string(command);
  return text;
}

void add_records_option(CLI::App& command, std::string& folder) {
  command
      .add_option("--records", folder,
                  "folder of records (default: $STEPBENCH_RECORDS, else $XDG_STATE_HOME/stepbench/records, else "
                  "~/.local/state/stepbench/records)")
      ->type_name("DIR");
}

}  // namespace

int run_command_line(int argc, char** argv) {
  CLI::App app(kAbout, "stepbench");
  app.footer(kMainExamples);
  app.set_version_flag("--version", std::string("stepbench ") + STEPBENCH_VERSION, "print the version");
  app.require_subcommand(0, 1);  // that there must be one is said below, after unknown options
  app.get_formatter()->column_width(28);
  std::function<int()> run;

  TasksArguments tasks;
  CLI::App* tasks_command = app.add_subcommand("tasks", "list the tasks");
  tasks_command->add_flag("--json", tasks.json, "print a JSON list");
  tasks_command->footer(kTasksExamples);
  tasks_command->callback([&] { run = [&] { return run_tasks(tasks); }; });

  ShowArguments show;
  CLI::App* show_command =
      app.add_subcommand("show", "show one task: formulas, buffers, limits, a candidate to start from");
  show_command->add_option("task", show.task, "a task's id, see `stepbench tasks`")->required()->type_name("TASK");
  show_command->add_flag("--json", show.json, "print a JSON object");
  show_command->footer(kShowExamples);
  show_command->callback([&] { run = [&] { return run_show(show); }; });

  EvalArguments eval;
  CLI::App* eval_command = app.add_subcommand("eval", "evaluate candidates");
  eval_command->add_option("files", eval.files, "candidates: .cu, or .ptx with a .json plan beside it")
      ->required()
      ->type_name("FILE");
  eval_command->add_option("--task", eval.task, "task id, for a file whose plan names none")->type_name("TASK");
  eval_command->add_option("--device", eval.device, "auto, vm or cuda (default auto: a GPU where there is one)")
      ->type_name("NAME");
  eval_command->add_option("--suite", eval.suite, "smoke, standard or full (default smoke)")->type_name("NAME");
  eval_command->add_option("--salt", eval.salt, "1 to 16 hex digits; fixes all random numbers (default: drawn)")
      ->type_name("HEX");
  eval_command->add_option("--json", eval.json, "write the record to a file, or to standard output with -")
      ->type_name("OUT");
  eval_command->add_option("--jobs", eval.jobs, "candidates evaluated at the same time, 1 to 1024 (default 1)")
      ->type_name("N")
      ->check(CLI::Range(1, 1024).description(""));
  eval_command->add_option("--timeout", eval.timeout_s, "seconds per candidate (default by suite: 300, 1800, 7200)")
      ->type_name("S")
      ->check(CLI::Range(0.001, 1e6).description(""));
  add_records_option(*eval_command, eval.records);
  eval_command->add_option("--only", eval.only, "run one check, or one case of it")->type_name("CHECK[/CASE]");
  eval_command->add_flag("--no-cache", eval.no_cache, "compile even when the compiled code is in the cache");
  eval_command->add_flag("--profile", eval.profile, "also print where the evaluation's own time went");
  eval_command->add_flag("--resume", eval.resume,
                         "skip candidates that the records folder already holds for this task, suite, device and "
                         "version");
  eval_command->add_flag("--quiet", eval.quiet, "print one line per candidate and no progress");
  eval_command->footer(kEvalExamples);
  eval_command->callback([&] { run = [&] { return run_eval(eval); }; });

  ReplayArguments replay;
  CLI::App* replay_command = app.add_subcommand("replay", "run the failing case of a record again");
  replay_command->add_option("record", replay.record, "id, beginning of an id, or path of a record file")
      ->required()
      ->type_name("ID");
  add_records_option(*replay_command, replay.records);
  replay_command->add_option("--timeout", replay.timeout_s, "seconds (default by suite: 300, 1800, 7200)")
      ->type_name("S")
      ->check(CLI::Range(0.001, 1e6).description(""));
  replay_command->add_flag("--quiet", replay.quiet, "print one line and no progress");
  replay_command->footer(kReplayExamples);
  replay_command->callback([&] { run = [&] { return run_replay(replay); }; });

  DoctorArguments doctor;
  CLI::App* doctor_command = app.add_subcommand("doctor", "say what this machine has and lacks");
  add_records_option(*doctor_command, doctor.records);
  doctor_command->add_flag("--json", doctor.json, "print a JSON object");
  doctor_command->footer(kDoctorExamples);
  doctor_command->callback([&] { run = [&] { return run_doctor(doctor); }; });

  if (argc < 2) {
    fmt::print(stderr, "{}", app.help());
    return kExitUsage;
  }
  if (is_unknown_command(argv[1]))
    return report_error({ErrorCode::kUsage, "unknown command", "", known_commands(), replace_invalid_utf8(argv[1])});
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const std::vector<CLI::App*> chosen = app.get_subcommands();
    fmt::print("{}", chosen.empty() ? app.help() : chosen.front()->help("stepbench"));
    return kExitDone;
  } catch (const CLI::CallForVersion& version) {
    fmt::print("{}\n", version.what());
    return kExitDone;
  } catch (const CLI::ParseError& error) {
    const std::string name = is_unknown_command(argv[1]) || argv[1][0] == '-' ? "" : std::string(argv[1]) + " ";
    std::string message = replace_invalid_utf8(error.what());
    if (!message.empty()) message[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(message[0])));
    fmt::print(stderr, "stepbench: {} (see `stepbench {}--help`)\n", message, name);
    return kExitUsage;
  }
  if (!run) return report_error({ErrorCode::kUsage, "no command", "", known_commands(), ""});
  return run();
}

int report_error(const Error& error) {
  fmt::print(stderr, "stepbench: {}\n", to_text(error));
  switch (error.code) {
    case ErrorCode::kUsage:
    case ErrorCode::kNotFound:
    case ErrorCode::kInvalidInput:
    case ErrorCode::kInvalidTask:
    case ErrorCode::kInvalidRecord: return kExitUsage;
    case ErrorCode::kUnavailable:
    case ErrorCode::kIo:
    case ErrorCode::kTimeout:
    case ErrorCode::kResource:
    case ErrorCode::kUnsupported:
    case ErrorCode::kInternal: return kExitEnvironment;
  }
  SB_ASSERT(false);
  return kExitEnvironment;
}

int exit_code_of(Verdict verdict) {
  if (verdict == Verdict::kPassed) return kExitDone;
  // Neither says anything of the candidate: the first is the VM's limit, the second ours or the machine's.
  if (verdict == Verdict::kUnsupported || verdict == Verdict::kHarnessError) return kExitEnvironment;
  return kExitFailed;
}

double wall_limit_s(double given, const std::string& suite) {
  if (given > 0) return given;
  if (suite == "full") return 7200;
  return suite == "standard" ? 1800 : 300;
}

}  // namespace stepbench
