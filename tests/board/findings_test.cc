// Texts of a record -> marks beside lines of source, by a table of the forms that the harness writes.
#include "scoring/board_findings.h"

#include <catch2/catch.hpp>

namespace stepbench {
namespace {

using Found = std::map<int64_t, std::vector<std::pair<FindingKind, std::string>>>;

Found found_in(const EvalRecord& record) {
  Found found;
  for (const auto& [line, findings] : line_findings(record))
    for (const LineFinding& finding : findings) found[line].emplace_back(finding.kind, finding.text);
  return found;
}

EvalRecord record_with(const std::string& place, const std::string& message) {
  EvalRecord record;
  record.candidate.path = "some/folder/kernel.cu";
  record.candidate.source = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n";
  record.candidate.plan_line = 2;
  record.failure = Failure{};
  record.failure->place = place;
  record.failure->message = message;
  return record;
}

TEST_CASE("the place of a failure is found in its forms") {
  const auto error = [](const char* text) { return std::pair(FindingKind::kError, std::string(text)); };
  const struct {
    const char *name, *place, *message;
    Found found;
  } rows[] = {
      {"bare name", "kernel.cu:5", "m", {{5, {error("m")}}}},
      {"path as given", "some/folder/kernel.cu:5", "m", {{5, {error("m")}}}},
      {"with a column", "kernel.cu:5:12", "m", {{5, {error("m")}}}},
      {"another file", "other.cu:5", "m", {}},
      {"name that ends alike", "my_kernel.cu:5", "m", {}},
      {"no line", "some/folder/kernel.cu", "m", {}},
      {"beyond the end", "kernel.cu:11", "m", {}},
      {"line 0", "kernel.cu:0", "m", {}},
      {"negative", "kernel.cu:-3", "m", {}},
      {"too large", "kernel.cu:99999999999999999999", "m", {}},
      {"last line", "kernel.cu:10", "m", {{10, {error("m")}}}},
      {"in the plan",
       "some/folder/kernel.cu: /launches/0/args/1",
       "unknown argument",
       {{2, {error("in the plan, /launches/0/args/1: unknown argument")}}}},
      {"both sides of a race",
       "kernel.cu:7",
       "store races with a write by warp 0 at source line 3 (PTX line 65)",
       {{3, {error("store races with a write by warp 0 at source line 3 (PTX line 65)")}},
        {7, {error("store races with a write by warp 0 at source line 3 (PTX line 65)")}}}},
      {"the same line twice", "kernel.cu:7", "stuck at source line 7", {{7, {error("stuck at source line 7")}}}},
      {"nothing", "", "", {}},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    CHECK(found_in(record_with(row.place, row.message)) == row.found);
  }
}

TEST_CASE("the compiler's words and remarks stand at their lines, errors first") {
  EvalRecord record = record_with("kernel.cu:4", "kernel.cu:4: identifier is undefined");
  record.compile_log =
      "kernel.cu(3): warning #177-D: variable \"x\" was declared but never referenced\n  float x;\n        ^\n\n"
      "kernel.cu(4): error: identifier is undefined\nother.cu(5): error: no\nkernel.cu(x): error\nkernel.cu(6) error\n";
  record.notes = {"reads a clock: %clock64 (some/folder/kernel.cu:4)", "sleeps: nanosleep (other.cu:1)",
                  "only the check edges was run"};
  const Found found = found_in(record);
  CHECK(found ==
        Found{{3, {{FindingKind::kWarning, "warning #177-D: variable \"x\" was declared but never referenced"}}},
              {4,
               {{FindingKind::kError, "kernel.cu:4: identifier is undefined"},
                {FindingKind::kError, "error: identifier is undefined"},
                {FindingKind::kNote, "reads a clock: %clock64"}}}});
}

TEST_CASE("lines and names") {
  CHECK(lines_of("").empty());
  CHECK(lines_of("a") == std::vector<std::string_view>{"a"});
  CHECK(lines_of("a\nb\n") == std::vector<std::string_view>{"a", "b"});
  CHECK(lines_of("a\r\n\nb") == std::vector<std::string_view>{"a", "", "b"});
  CHECK(base_name("a/b/c.cu") == "c.cu");
  CHECK(base_name("c.cu") == "c.cu");
  CHECK(base_name("a/") == "a/");
  CHECK(base_name("") == "");
}

}  // namespace
}  // namespace stepbench
