// The part of the command line about the store: `submit` and `store`.
#pragma once

#include <functional>

#include "harness/commands.h"

namespace CLI {
class App;
}

namespace stepbench {

/// Adds the command to the program's; `arguments` are filled and `run` is set when it is the one chosen. All must live
/// until the command line has been parsed and run.
void add_submit_command(CLI::App& app, SubmitArguments& arguments, std::function<int()>& run);
void add_store_command(CLI::App& app, StoreArguments& arguments, std::function<int()>& run);

}  // namespace stepbench
