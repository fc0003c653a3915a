// Child processes: start, feed, limit, collect, kill. Used for the compile child (compile.cc) and for the worker of
// one candidate (worker.cc). A child dies when its parent dies, whatever kills the parent.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/result.h"

namespace stepbench {

struct ChildSpec {
  std::vector<std::string> argv;    ///< argv[0] is the program's path
  std::string input;                ///< whole text for the child's standard input
  double wall_limit_s = 60;         ///< then SIGKILL to the child's whole process group
  double cpu_limit_s = 0;           ///< RLIMIT_CPU; 0 = none
  uint64_t memory_limit_bytes = 0;  ///< RLIMIT_AS; 0 = none
  uint64_t answer_limit_bytes = 64ull << 20;
  uint64_t text_limit_bytes = 64ull << 10;  ///< stdout and stderr each; the rest is read and dropped
  std::vector<std::string> environment;     ///< "NAME=value"; nothing else is passed on
  std::function<void(std::string_view line)>
      on_answer_line;  ///< called as whole lines of the answer arrive; may be empty
};

enum class ChildEnding : uint8_t { kExited, kSignalled, kWallLimit, kCpuLimit, kAnswerLimit };

struct ChildResult {
  ChildEnding ending = ChildEnding::kExited;
  int exit_code = 0;     ///< kExited
  int signal = 0;        ///< kSignalled
  std::string answer;    ///< what the child wrote to file descriptor 3, the private channel
  std::string out, err;  ///< captured text, cut at the limit with a mark
  double wall_ms = 0;
};

/// Runs the child to its end. Error kIo when it cannot be started. Always reaps; never leaves a process behind.
Result<ChildResult> run_child(const ChildSpec& spec);

/// The program to start for children of our own: $STEPBENCH_BINARY, else /proc/self/exe.
std::string own_binary();

/// Called first in a child: dies with the parent, closes inherited descriptors above 3.
void become_child();

/// Writes all bytes to the private channel (descriptor 3). False when the parent is gone.
bool write_answer(std::string_view bytes);

/// `stepbench __compile`: reads a request on standard input, compiles, answers on descriptor 3. Returns the exit code.
int compile_child_main();

}  // namespace stepbench
