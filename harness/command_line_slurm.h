// The part of the command line about clusters: options of `submit --engine slurm`, and `slurm`.
#pragma once

#include <functional>

#include "harness/commands.h"

namespace CLI {
class App;
}

namespace stepbench {

/// Adds --engine and what it needs to `submit`.
void add_engine_options(CLI::App& submit, SubmitArguments& arguments);
/// As in command_line_store.h.
void add_slurm_command(CLI::App& app, SlurmArguments& arguments, std::function<int()>& run);

}  // namespace stepbench
