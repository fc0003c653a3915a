// The program: a command for people, or one of the two children that it starts itself.
#include <string_view>

#include "harness/child_process.h"
#include "harness/commands.h"
#include "harness/worker.h"

int main(int argc, char** argv) {
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (first == "__worker") return stepbench::worker_main();
  if (first == "__compile") return stepbench::compile_child_main();
  return stepbench::run_command_line(argc, argv);
}
