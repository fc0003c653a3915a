// Options and help of clusters.
#include "harness/command_line_slurm.h"

#include <CLI/CLI.hpp>

namespace stepbench {
namespace {

constexpr const char* kSlurmExamples =
    "Examples:\n"
    "  stepbench submit kernels/ --as ada --engine slurm --folder /shared/run1 --partition gpu --gres gpu:1 --time "
    "00:30:00\n"
    "                                                 start a run: one array task per candidate\n"
    "  stepbench submit kernels/ --as ada --engine slurm --folder /shared/run1 --dry-run\n"
    "                                                 print the scripts, change nothing\n"
    "  stepbench slurm status /shared/run1            how far is it?\n"
    "  stepbench slurm cancel /shared/run1            stop it; finished records stay\n"
    "  stepbench slurm resume /shared/run1            submit what has no record and is not in the queue\n"
    "  stepbench store import /shared/run1/records    take the finished records into the store\n\n"
    "Folder, candidates and this program must lie on a file system that all nodes see under the same path. The "
    "environment\n"
    "of the command that submits is that of the tasks, as sbatch has it. A candidate is finished when its record is "
    "in\n"
    "FOLDER/records, whatever became of its task. Exit codes: 0 done, 2 wrong usage or folder, 3 Slurm or the\n"
    "file system refuses.";

}  // namespace

void add_engine_options(CLI::App& submit, SubmitArguments& arguments) {
  SlurmRequest& request = arguments.request;
  submit.add_option("--engine", arguments.engine, "local, or slurm: job arrays on a cluster (default local)")
      ->type_name("NAME");
  submit.add_option("--folder", arguments.folder, "slurm: new folder of the run, on a shared file system")
      ->type_name("DIR");
  submit.add_option("--account", request.account, "slurm: account to charge")->type_name("NAME");
  submit.add_option("--partition", request.partition, "slurm: partition")->type_name("NAME");
  submit.add_option("--time", request.time, "slurm: time limit of a task, as sbatch takes it")->type_name("TIME");
  submit.add_option("--qos", request.qos, "slurm: quality of service")->type_name("NAME");
  submit.add_option("--gres", request.gres, "slurm: what a task needs, such as gpu:1")->type_name("LIST");
  submit.add_option("--constraint", request.constraint, "slurm: features of nodes")->type_name("LIST");
  submit.add_option("--mem", request.memory, "slurm: memory of a task")->type_name("SIZE");
  submit.add_option("--cpus", request.cpus, "slurm: CPUs of a task")
      ->type_name("N")
      ->check(CLI::Range(1, 4096).description(""));
  submit.add_option("--at-once", request.at_once, "slurm: tasks that may run at the same time")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000).description(""));
  submit.add_flag("--dry-run", arguments.dry_run, "slurm: print the scripts, change nothing");
}

void add_slurm_command(CLI::App& app, SlurmArguments& arguments, std::function<int()>& run) {
  CLI::App* command = app.add_subcommand("slurm", "follow, cancel and resume runs on a Slurm cluster");
  command->footer(kSlurmExamples);
  command->require_subcommand(1);
  const struct {
    const char* name;
    const char* about;
    SlurmAction action;
  } rows[] = {{"status", "say how far a run is", SlurmAction::kStatus},
              {"cancel", "cancel its jobs", SlurmAction::kCancel},
              {"resume", "submit what has no record and is not in the queue", SlurmAction::kResume},
              {"task", "evaluate one candidate; what the tasks of a job array run", SlurmAction::kTask}};
  for (const auto& row : rows) {
    CLI::App* part = command->add_subcommand(row.name, row.about);
    part->add_option("folder", arguments.folder, "folder of the run")->required()->type_name("DIR");
    if (row.action == SlurmAction::kStatus) part->add_flag("--all", arguments.all, "a line per candidate");
    if (row.action == SlurmAction::kResume)
      part->add_flag("--dry-run", arguments.dry_run, "print the scripts, submit nothing");
    if (row.action == SlurmAction::kTask)
      part->add_option("index", arguments.index, "index in the manifest")->required()->type_name("INDEX");
    const SlurmAction action = row.action;
    part->callback([&arguments, &run, action] {
      arguments.action = action;
      run = [&arguments] { return run_slurm(arguments); };
    });
  }
}

}  // namespace stepbench
