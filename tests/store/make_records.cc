// make_records COUNT [SEED]: generated records as JSON Lines on standard output, for tests and measurements of what
// reads many records.
#include <charconv>
#include <cstdio>
#include <string_view>

#include "tests/store/generated.h"

namespace {

bool parse(std::string_view text, uint64_t& value) {
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  return status == std::errc() && end == text.data() + text.size();
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t count = 0, seed = 1;
  if (argc < 2 || argc > 3 || !parse(argv[1], count) || (argc == 3 && !parse(argv[2], seed)) || count > 100'000'000) {
    std::fprintf(stderr, "usage: make_records COUNT [SEED]\n");
    return 2;
  }
  for (uint64_t i = 0; i < count; ++i) {
    const std::string line =
        stepbench::record_to_json(stepbench::generated_record(seed, static_cast<int64_t>(i)), -1) + "\n";
    if (std::fwrite(line.data(), 1, line.size(), stdout) != line.size()) {
      std::fprintf(stderr, "make_records: cannot write\n");
      return 3;
    }
  }
  return std::fflush(stdout) == 0 ? 0 : 3;
}
