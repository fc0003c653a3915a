// Options and help of `submit` and `store`.
#include "harness/command_line_store.h"

#include <CLI/CLI.hpp>

#include "harness/command_line_slurm.h"

namespace stepbench {
namespace {

constexpr const char* kSubmitExamples =
    "Examples:\n"
    "  stepbench submit my_adamw.cu --as ada                  evaluate, and keep the record under this name\n"
    "  stepbench submit kernels/ --as ada --jobs 2            every .cu and .ptx in a folder and below\n"
    "  stepbench submit round3.cu --as bot --model m1 --round 3 --tokens-prompt 5200 --tokens-completion 900\n"
    "  stepbench submit kernels/ --as ada                     the same again: only what is not in the store yet\n"
    "  stepbench submit kernels/ --as ada --engine slurm --folder /shared/run1 --gres gpu:1\n"
    "                                                         on a cluster, see `stepbench slurm --help`\n\n"
    "A record is in the store the moment that its evaluation ends, so a run that was killed goes on where it stopped. "
    "A\n"
    "candidate counts as finished when the store has it under the same name, model and round, of the same task and "
    "its\n"
    "version, suite, device and version of StepBench, and, when --salt is given, of this salt.\n"
    "Exit codes, the highest of all files: 0 all passed, 1 a candidate failed, 2 a file cannot be read or the usage "
    "is\n"
    "wrong, 3 the environment is at fault (the store included), or a candidate could not be judged.";

constexpr const char* kStoreExamples =
    "Examples:\n"
    "  stepbench store list --task adamw --verdict passed     the newest records, one line each\n"
    "  stepbench store show 3f2a                              the report of a record\n"
    "  stepbench store show 3f2a --json | jq .timing          all of it\n"
    "  stepbench store export --out mine.jsonl                every record, one per line\n"
    "  stepbench store import theirs.jsonl other.db records/  records of other machines, in any order, any number of "
    "times\n"
    "  stepbench store verify                                 is everything as it was written?\n\n"
    "Exit codes: 0 done, 1 `verify` found something, 2 wrong usage or input (lines of an import that are no record, "
    "too;\n"
    "the others are taken), 3 environment.";

void add_store_option(CLI::App& command, std::string& store) {
  command
      .add_option("--store", store,
                  "store file (default: $STEPBENCH_STORE, else $XDG_DATA_HOME/stepbench/store.db, else "
                  "~/.local/share/stepbench/store.db)")
      ->type_name("FILE");
}

void add_filter_options(CLI::App& command, StoreArguments& arguments) {
  command.add_option("--task", arguments.task, "only this task")->type_name("TASK");
  command.add_option("--suite", arguments.suite, "only this suite")->type_name("NAME");
  command.add_option("--verdict", arguments.verdict, "only this verdict")->type_name("VERDICT");
  command.add_option("--device", arguments.device, "only this device, as records name it")->type_name("NAME");
  command.add_option("--as", arguments.submission, "only what was submitted under this name")->type_name("NAME");
  command.add_option("--model", arguments.model, "only this model")->type_name("NAME");
}

}  // namespace

void add_submit_command(CLI::App& app, SubmitArguments& arguments, std::function<int()>& run) {
  EvalArguments& eval = arguments.eval;
  Submission& submission = arguments.submission;
  CLI::App* command = app.add_subcommand("submit", "evaluate candidates and keep their records in the store");
  command->add_option("files", eval.files, "candidates, folders of candidates, or patterns in quotes")
      ->required()
      ->type_name("PATH");
  command->add_option("--as", submission.name, "name of the person or agent")->required()->type_name("NAME");
  command->add_option("--model", submission.model, "an agent's model")->type_name("NAME");
  command->add_option("--note", submission.note, "anything worth knowing later")->type_name("TEXT");
  command->add_option("--round", submission.round, "round of an agent's dialogue")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000'000).description(""));
  command->add_option("--tokens-prompt", submission.prompt_tokens, "tokens that were read to make this candidate")
      ->type_name("N")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 53).description(""));
  command->add_option("--tokens-completion", submission.completion_tokens, "tokens that were written")
      ->type_name("N")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 53).description(""));
  command->add_option("--cost", submission.cost_usd, "what this candidate cost, in US dollars")
      ->type_name("USD")
      ->check(CLI::Range(0.0, 1e9).description(""));
  add_store_option(*command, arguments.store);
  command->add_option("--task", eval.task, "task id, for a file whose plan names none")->type_name("TASK");
  command->add_option("--device", eval.device, "auto, vm or cuda (default auto: a GPU where there is one)")
      ->type_name("NAME");
  eval.suite = "standard";  // the smallest that is timed
  command->add_option("--suite", eval.suite, "smoke, standard or full (default standard)")->type_name("NAME");
  command->add_option("--salt", eval.salt, "1 to 16 hex digits; fixes all random numbers (default: drawn)")
      ->type_name("HEX");
  command
      ->add_option("--baseline", eval.baseline,
                   "time against this kernel (default: the fastest of reference_kernels/TASK on each list)")
      ->type_name("FILE");
  command->add_option("--jobs", eval.jobs, "candidates evaluated at the same time, 1 to 1024 (default 1)")
      ->type_name("N")
      ->check(CLI::Range(1, 1024).description(""));
  command->add_option("--timeout", eval.timeout_s, "seconds per candidate (default by suite: 300, 1800, 7200)")
      ->type_name("S")
      ->check(CLI::Range(0.001, 1e6).description(""));
  command->add_flag("--no-cache", eval.no_cache, "compile even when the compiled code is in the cache");
  command->add_flag("--again", arguments.again, "evaluate also what is finished, and keep both records");
  command->add_flag("--quiet", eval.quiet, "print one line per candidate, no progress and no table");
  add_engine_options(*command, arguments);
  command->footer(kSubmitExamples);
  command->callback([&arguments, &run] { run = [&arguments] { return run_submit(arguments); }; });
}

void add_store_command(CLI::App& app, StoreArguments& arguments, std::function<int()>& run) {
  CLI::App* command = app.add_subcommand("store", "look into the store of records, check it, exchange records");
  command->require_subcommand(1);
  command->footer(kStoreExamples);
  const auto add = [&](const char* name, const char* help, StoreAction action) {
    CLI::App* part = command->add_subcommand(name, help);
    add_store_option(*part, arguments.store);
    part->callback([&arguments, &run, action] {
      arguments.action = action;
      run = [&arguments] { return run_store(arguments); };
    });
    return part;
  };

  CLI::App* list = add("list", "the newest records, one line each", StoreAction::kList);
  add_filter_options(*list, arguments);
  list->add_option("--limit", arguments.limit, "rows at most, 0 for all (default 50)")
      ->type_name("N")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 53).description(""));
  list->add_flag("--json", arguments.json, "one JSON object per line");

  CLI::App* show = add("show", "one record", StoreAction::kShow);
  show->add_option("id", arguments.id, "id, or beginning of an id")->required()->type_name("ID");
  CLI::Option* json = show->add_flag("--json", arguments.json, "the whole record, as it is stored");
  show->add_flag("--source", arguments.source, "the candidate's file")->excludes(json);

  CLI::App* export_ = add("export", "write records as JSON Lines", StoreAction::kExport);
  add_filter_options(*export_, arguments);
  export_->add_option("--out", arguments.out, "file (default: standard output)")->type_name("FILE");
  export_->add_flag("--quiet", arguments.quiet, "print no progress and no summary");

  CLI::App* import = add("import", "take in records of other stores and machines", StoreAction::kImport);
  import
      ->add_option("files", arguments.files,
                   "files of JSON Lines, record files (.json), stores, folders of these; - for standard input")
      ->required()
      ->type_name("PATH");
  import->add_flag("--quiet", arguments.quiet, "print no progress and no summary");

  CLI::App* verify = add("verify", "check that every record is as it was written", StoreAction::kVerify);
  verify
      ->add_option("--head", arguments.head,
                   "hash that an earlier `verify` printed: the store must have grown from there")
      ->type_name("HASH");
  verify->add_flag("--quiet", arguments.quiet, "print no progress");

  add("upgrade", "bring a store of an older version of StepBench up to date", StoreAction::kUpgrade);
}

}  // namespace stepbench
