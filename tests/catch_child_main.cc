// Catch2's main for tests of the compiler front end: `<test> __compile` is the compile child itself.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <string_view>

#include "harness/child_process.h"

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "__compile") return stepbench::compile_child_main();
  return Catch::Session().run(argc, argv);
}
