// make_board_sample: the records of sample.h as JSON Lines on standard output, for the check of the site in a browser.
#include <cstdio>

#include "tests/board/sample.h"

int main() {
  for (const stepbench::EvalRecord& record : stepbench::sample::records()) {
    const std::string line = stepbench::record_to_json(record, -1) + "\n";
    if (std::fwrite(line.data(), 1, line.size(), stdout) != line.size()) return 3;
  }
  return std::fflush(stdout) == 0 ? 0 : 3;
}
