// Command line -> arguments of one command (commands.h). The only user of CLI11.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cctype>
#include <cstdio>
#include <functional>
#include <span>
#include <string>

#include "harness/command_line_slurm.h"
#include "harness/command_line_store.h"
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
    "  stepbench replay 3f2a               run the failing case of a record again\n"
    "  stepbench submit a.cu --as ada      evaluate, and keep the record under a name for the board\n\n"
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

constexpr const char* kBoardExamples =
    "Examples:\n"
    "  stepbench board --out site                          the store as a site: open site/index.html, no server "
    "needed\n"
    "  stepbench board results/ more.jsonl --out site      records from folders and files instead\n"
    "  stepbench board --task adamw --format md            one task as a table, on standard output\n"
    "  stepbench board --format csv --out board.csv        one line per candidate, for a spreadsheet\n\n"
    "The folder is replaced as a whole, and only when `stepbench board` made it or it is empty. Its page \"How to "
    "read\"\n"
    "gives the rules. Exit codes: 0 done, 2 wrong usage or input, 3 environment.";

constexpr const char* kRegressExamples =
    "Examples:\n"
    "  stepbench regress old/ new/                             two folders of records\n"
    "  stepbench regress main.jsonl --eval kernels/*.cu        evaluate now, compare with an export\n"
    "  stepbench regress store.db --task adamw --eval a.cu --suite standard --salt 2a\n"
    "                                                          one task of a store, with fixed random numbers\n"
    "  stepbench regress main.jsonl new.jsonl --tolerance 0.03 --require-all\n"
    "                                                          3 % slower is tolerated, a missing candidate is not\n"
    "  stepbench regress main.jsonl --eval k/*.cu --format github --also junit=r.xml --also sarif=r.sarif --also "
    "md=r.md\n"
    "                                                          annotations on standard output, files beside\n\n"
    "OLD and NEW are folders of records, record files (.json), JSON Lines, or store files. Candidates are matched by "
    "task\n"
    "and path, else by file name; the newest record of each counts. Speed is compared only between runs on the same "
    "kind\n"
    "of GPU, by the same method, against the same baseline, and is a regression only when the whole 95 % interval of "
    "the\n"
    "change lies beyond the tolerance. What cannot be compared is said, and not counted.\n"
    "Exit codes, the highest that applies: 0 no regression, 1 a regression, 2 wrong usage or input, 3 environment, or "
    "a\n"
    "candidate could not be judged (harness_error).";

constexpr const char* kAuditExamples =
    "Examples:\n"
    "  stepbench audit --jobs 2                    everything on the VM, ten minutes\n"
    "  stepbench audit --tasks                     the tasks alone: how far right and wrong kernels are from the "
    "limits\n"
    "  stepbench audit --task lion --task adan     two tasks\n"
    "  stepbench audit --attacks --device cuda     the attacks alone, on this machine's GPU\n"
    "  stepbench audit --json audit.json           one entry per kernel, for programs\n"
    "\n"
    "Baselines and variants must pass, mutants and attacks must fail with the verdict that their files name.\n"
    "Exit codes: 0 all as they must be, 1 something was missed, 2 wrong usage, 3 environment.";

constexpr const char* kCommands[] = {"tasks",  "show",    "eval",  "submit", "store", "replay",
                                     "doctor", "regress", "slurm", "board",  "audit"};

/// CLI11 names an unknown command "argument not expected"; this says what there is instead.
bool is_unknown_command(const std::string& first) {
  if (first.empty() || first[0] == '-') return false;
  for (const char* command : kCommands)
    if (first == command) return false;
  return true;
}

std::string known_commands() {
  std::string text;
  for (const char* command : kCommands) {
    if (!text.empty()) text += ' ';
    text += command;
  }
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
  eval_command
      ->add_option("--baseline", eval.baseline,
                   "time against this kernel (default: the fastest of reference_kernels/TASK on each list)")
      ->type_name("FILE");
  eval_command->add_flag("--no-cache", eval.no_cache, "compile even when the compiled code is in the cache");
  eval_command->add_flag("--profile", eval.profile, "also print where the evaluation's own time went");
  eval_command->add_flag("--resume", eval.resume,
                         "skip candidates that the records folder already holds for this task, suite, device and "
                         "version");
  eval_command->add_flag("--quiet", eval.quiet, "print one line per candidate and no progress");
  eval_command->footer(kEvalExamples);
  eval_command->callback([&] { run = [&] { return run_eval(eval); }; });

  SubmitArguments submit;
  add_submit_command(app, submit, run);

  SlurmArguments slurm;
  add_slurm_command(app, slurm, run);
  StoreArguments store;
  add_store_command(app, store, run);

  ReplayArguments replay;
  CLI::App* replay_command = app.add_subcommand("replay", "run the failing case of a record again");
  replay_command->add_option("record", replay.record, "id, beginning of an id, or path of a record file")
      ->required()
      ->type_name("ID");
  add_records_option(*replay_command, replay.records);
  replay_command
      ->add_option("--store", replay.store, "look into this store (default: the folder, then the default store)")
      ->type_name("FILE");
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
  doctor_command->add_flag("--calibrate", doctor.calibrate,
                           "measure what the GPU's memory reaches, and keep it for later evaluations");
  doctor_command->footer(kDoctorExamples);
  doctor_command->callback([&] { run = [&] { return run_doctor(doctor); }; });

  AuditArguments audit;
  CLI::App* audit_command =
      app.add_subcommand("audit", "run the kernels whose verdict is known: right ones, wrong ones, attacks");
  audit_command->add_flag("--tasks", audit.only_tasks, "only the kernels of the tasks");
  audit_command->add_flag("--attacks", audit.only_attacks, "only the attacks");
  audit_command->add_option("--task", audit.tasks, "only this task; may be repeated")->type_name("TASK");
  audit_command->add_option("--device", audit.device, "vm, cuda or auto (default vm)")->type_name("NAME");
  audit_command->add_option("--suite", audit.suite, "smoke, standard or full (default smoke)")->type_name("NAME");
  audit_command->add_option("--salt", audit.salt, "1 to 16 hex digits (default: drawn)")->type_name("HEX");
  audit_command->add_option("--jobs", audit.jobs, "kernels at the same time (default 1)")
      ->type_name("N")
      ->check(CLI::Range(1, 256).description(""));
  audit_command->add_option("--json", audit.json, "also write JSON to this file; - for standard output, then no text")
      ->type_name("OUT");
  audit_command->add_flag("--no-cache", audit.no_cache, "compile everything again");
  audit_command->add_flag("--quiet", audit.quiet, "print no progress");
  audit_command->footer(kAuditExamples);
  audit_command->callback([&] { run = [&] { return run_audit_command(audit); }; });

  RegressArguments regress;
  regress.eval.suite.clear();
  CLI::App* regress_command = app.add_subcommand("regress", "compare a new run with stored records, or two sets");
  regress_command->add_option("old", regress.before, "records to compare with: folder, .json, .jsonl or store file")
      ->required()
      ->type_name("OLD");
  regress_command->add_option("new", regress.after, "new records, the same; or give --eval")->type_name("NEW");
  regress_command->add_option("--eval", regress.eval.files, "evaluate these candidates, and compare their records")
      ->type_name("FILE..");
  regress_command->add_option("--task", regress.task, "only this task")->type_name("TASK");
  regress_command
      ->add_option("--tolerance", regress.tolerance_ratio,
                   "share by which speed, spills and bytes may get worse (default 0.01)")
      ->type_name("SHARE")
      ->check(CLI::Range(0.0, 10.0).description(""));
  regress_command
      ->add_option("--error-factor", regress.error_factor,
                   "growth of errors and drift that counts, once they reach a tenth of their limit (default 2)")
      ->type_name("X")
      ->check(CLI::Range(1.0, 1e9).description(""));
  regress_command->add_flag("--require-all", regress.require_all,
                            "a candidate of OLD that the new side lacks is a regression");
  regress_command->add_option("--format", regress.format, "table, md, junit, sarif, github or json (default table)")
      ->type_name("NAME");
  regress_command->add_option("--out", regress.out, "file for it (default: standard output)")->type_name("FILE");
  regress_command->add_option("--also", regress.also, "write another form too; may be repeated")
      ->type_name("FORMAT=FILE")
      ->allow_extra_args(false);
  regress_command->add_flag("--all", regress.all, "table: show what is the same, too");
  regress_command->add_flag("--quiet", regress.eval.quiet, "for --eval: print no progress");
  regress_command
      ->add_option("--suite", regress.eval.suite, "for --eval: smoke, standard or full (default: that of OLD)")
      ->type_name("NAME");
  regress_command->add_option("--device", regress.eval.device, "for --eval: auto, vm or cuda (default auto)")
      ->type_name("NAME");
  regress_command->add_option("--salt", regress.eval.salt, "for --eval: 1 to 16 hex digits (default: drawn)")
      ->type_name("HEX");
  regress_command->add_option("--jobs", regress.eval.jobs, "for --eval: candidates at the same time (default 1)")
      ->type_name("N")
      ->check(CLI::Range(1, 1024).description(""));
  regress_command->add_option("--timeout", regress.eval.timeout_s, "for --eval: seconds per candidate")
      ->type_name("S")
      ->check(CLI::Range(0.001, 1e6).description(""));
  add_records_option(*regress_command, regress.eval.records);
  regress_command->footer(kRegressExamples);
  regress_command->callback([&] { run = [&] { return run_regress(regress); }; });

  BoardArguments board;
  CLI::App* board_command = app.add_subcommand("board", "make the leaderboard: a site, or one table");
  board_command
      ->add_option("inputs", board.inputs, "folders of records, record files (.json), files of JSON Lines or stores")
      ->type_name("PATH");
  board_command
      ->add_option("--store", board.store,
                   "store file (default: $STEPBENCH_STORE, else $XDG_DATA_HOME/stepbench/store.db, else "
                   "~/.local/share/stepbench/store.db)")
      ->type_name("FILE");
  board_command->add_option("--format", board.format, "html, md, csv or json (default html)")->type_name("NAME");
  board_command
      ->add_option("--out", board.out,
                   "folder for html (default: board), file for the others (default: standard output)")
      ->type_name("PATH");
  board_command->add_option("--task", board.task, "only this task")->type_name("TASK");
  board_command
      ->add_option("--pages", board.pages,
                   "records with a page of their own: the best N of each ranking and the newest N of each task "
                   "(default 100)")
      ->type_name("N")
      ->check(CLI::Range(1, 100000).description(""));
  board_command->add_flag("--quiet", board.quiet, "print no progress and no summary");
  board_command->footer(kBoardExamples);
  board_command->callback([&] { run = [&] { return run_board(board); }; });

  if (argc < 2) {
    fmt::print(stderr, "{}", app.help());
    return kExitUsage;
  }
  if (is_unknown_command(argv[1]))
    return report_error({ErrorCode::kUsage, "unknown command", "", known_commands(), replace_invalid_utf8(argv[1])});
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const CLI::App* asked = &app;
    std::string name;
    while (!asked->get_subcommands().empty()) {
      name += (name.empty() ? "" : " ") + (asked == &app ? std::string("stepbench") : asked->get_name());
      asked = asked->get_subcommands().front();
    }
    fmt::print("{}", asked->help(name));
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
