// Damaged PTX: whatever a fixed sequence of cuts and edits makes of valid texts, parse and admit return, and errors
// name a line that exists. The libFuzzer target tests/fuzz/ptx_parse.cc looks further.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "harness/ptx_vm/ptx.h"
#include "harness/stages.h"
#include "tests/ptx/support.h"

namespace stepbench {
namespace {

/// Parses and admits; the error's line, 0 when the text is good.
int64_t survives(const std::string& text) {
  CompiledModule module;
  module.ptx = text;
  Candidate candidate;
  candidate.path = "x.cu";
  const Judged<Admission> judged = admit(module, candidate);
  CHECK(judged.value.has_value() != judged.failure.has_value());
  const Result<ptx::Module> result = ptx::parse(text);
  if (result.ok()) return 0;
  REQUIRE(result.error().place.substr(0, 5) == "line ");
  const int64_t line = std::stoll(result.error().place.substr(5));
  const int64_t lines = std::count(text.begin(), text.end(), '\n') + 1;
  CHECK(line >= 1);
  CHECK(line <= lines);
  return line;
}

const char* const kFiles[] = {"state.sm_90a.ptx",      "state.sm_100.ptx",      "calls.sm_90a.ptx", "calls.sm_100.ptx",
                              "inline_asm.sm_90a.ptx", "inline_asm.sm_100.ptx", "types.sm_90a.ptx", "types.sm_100.ptx"};

TEST_CASE("truncated texts") {
  size_t refused = 0, cuts = 0;
  for (const char* file : kFiles) {
    INFO(file);
    const std::string text = ptx_test::read_data(file);
    for (size_t length = 0; length < text.size(); length += 37) {
      refused += survives(text.substr(0, length)) > 0 ? 1 : 0;
      ++cuts;
    }
    CHECK(survives(text) == 0);
  }
  CHECK(refused * 10 > cuts * 9);  // nearly every cut goes through a function
}

TEST_CASE("mutated texts") {
  std::mt19937 random(20260101);  // mt19937's sequence is fixed by the standard
  const auto below = [&](size_t limit) { return static_cast<size_t>(random() % limit); };
  const std::string_view pieces[] = {"{",
                                     "}",
                                     "(",
                                     ")",
                                     "[",
                                     "]",
                                     ";",
                                     ",",
                                     ":",
                                     "%r1",
                                     "@",
                                     "!",
                                     "|",
                                     "<",
                                     ">",
                                     "=",
                                     "\"",
                                     "/*",
                                     "//",
                                     ".reg",
                                     ".b32",
                                     ".global",
                                     ".loc",
                                     ".section",
                                     ".entry",
                                     ".func",
                                     ".param",
                                     "call",
                                     "bra",
                                     "0f",
                                     "0x",
                                     "9999999999",
                                     "-",
                                     "generic(",
                                     "_",
                                     "\n",
                                     std::string_view("\0", 1),
                                     "\xff"};
  size_t refused = 0, mutants = 0;
  for (const char* file : kFiles) {
    INFO(file);
    const std::string text = ptx_test::read_data(file);
    for (int round = 0; round < 400; ++round) {
      std::string mutant = text;
      const size_t edits = 1 + below(4);
      for (size_t edit = 0; edit < edits && !mutant.empty(); ++edit) {
        const size_t at = below(mutant.size());
        switch (below(5)) {
          case 0: mutant[at] = static_cast<char>(below(256)); break;
          case 1: mutant.erase(at, 1 + below(20)); break;
          case 2: mutant.insert(at, pieces[below(std::size(pieces))]); break;
          case 3: mutant.insert(at, mutant.substr(below(mutant.size()), below(200))); break;
          default: mutant[at] = mutant[below(mutant.size())]; break;
        }
      }
      INFO("round " << round);
      refused += survives(mutant) > 0 ? 1 : 0;
      ++mutants;
    }
  }
  CHECK(refused > mutants / 2);
  CHECK(refused < mutants);
}

}  // namespace
}  // namespace stepbench
