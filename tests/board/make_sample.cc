// make_board_sample [hostile]: the records of sample.h as JSON Lines on standard output, for the check of the site in a
// browser; with "hostile", the same with tricks in all their texts.
#include <cstdio>
#include <cstring>

#include "tests/board/sample.h"

int main(int argc, char** argv) {
  const bool is_hostile = argc == 2 && std::strcmp(argv[1], "hostile") == 0;
  if (argc > 2 || (argc == 2 && !is_hostile)) {
    std::fprintf(stderr, "usage: make_board_sample [hostile]\n");
    return 2;
  }
  int number = 0;
  for (stepbench::EvalRecord record : stepbench::sample::records()) {
    if (is_hostile) record = stepbench::sample::hostile(record, number++);
    const std::string line = stepbench::record_to_json(record, -1) + "\n";
    if (std::fwrite(line.data(), 1, line.size(), stdout) != line.size()) return 3;
  }
  return std::fflush(stdout) == 0 ? 0 : 3;
}
