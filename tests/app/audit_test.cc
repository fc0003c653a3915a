// `stepbench audit` as a program, on a small tree of its own: what is caught, what is missed, exit codes, JSON.
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "harness/json_reader.h"
#include "harness/stages.h"
#include "tests/app/program.h"

using namespace stepbench;

namespace {

namespace fs = std::filesystem;

constexpr const char* kCaught =
    R"({"name": "zero counts as positive", "why": "", "base": "reference_kernels/lion/naive.cu", "find": "c > 0.0f ? 1.0f",
        "replace": "c >= 0.0f ? 1.0f", "verdict": ["wrong_result"], "buffer": "param"})";
constexpr const char* kHarmless =
    R"({"name": "right after all", "why": "nothing is", "base": "reference_kernels/lion/naive.cu", "find": "c > 0.0f ? 1.0f",
        "replace": "0.0f < c ? 1.0f", "verdict": ["wrong_result"], "buffer": ""})";

/// One task with one baseline and one variant of this source tree, the given mutants, and one attack.
void make_tree(const TemporaryFolder& folder, const std::string& mutants) {
  const fs::path from = fs::path(STEPBENCH_TEST_FOLDER).parent_path();
  const fs::path root = folder.path("tree");
  fs::create_directories(root / "tasks/lion/variants");
  fs::create_directories(root / "reference_kernels/lion");
  fs::create_directories(root / "tests/attacks");
  for (const char* file : {"tasks/lion/task.json", "tasks/lion/oracle.cc", "tasks/shapes.json",
                           "tasks/lion/variants/factor_first.cu", "reference_kernels/lion/naive.cu"})
    fs::copy_file(from / file, root / file);
  folder.write("tree/tasks/lion/mutants.json", mutants);
  fs::copy(from / "tasks/adamw", root / "tasks/adamw", fs::copy_options::recursive);
  fs::copy(from / "reference_kernels/adamw", root / "reference_kernels/adamw", fs::copy_options::recursive);
  fs::copy_file(from / "tests/attacks/hidden_state.cu", root / "tests/attacks/hidden_state.cu");
  folder.write("tree/tests/attacks/attacks.json",
               R"([{"file": "hidden_state.cu", "class": "hidden state", "rows": ["B04"], "verdict": ["refused"],
                    "why": "a step counter of its own"}])");
}

/// False, with a warning, where this machine has no compiler for the kernels.
bool can_compile() {
  const Result<CompilerInfo> compiler = find_compiler();
  if (!compiler.ok()) WARN("not run: " << to_text(compiler.error()));
  return compiler.ok();
}

ChildResult audit(const TemporaryFolder& folder, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"audit", "--salt", "1"});
  return run_program(folder, arguments, {"STEPBENCH_ROOT=" + folder.path("tree")});
}

}  // namespace

TEST_CASE("audit: what is caught and what is missed") {
  if (!can_compile()) return;
  const struct {
    const char* name;
    std::string mutants;
    std::vector<std::string> arguments;
    int exit_code;
    std::vector<std::string> says;
  } rows[] = {
      {"all caught",
       std::string("[") + kCaught + "]",
       {"--task", "lion"},
       0,
       {"   2 of 2 ", "   1 of 1 ", "all 3 as they must be", "What this does not show:"}},
      {"one that is right",
       std::string("[") + kCaught + ", " + kHarmless + "]",
       {"--task", "lion"},
       1,
       {"   1 of 2 ", "MISSED  lion: right after all: expected wrong_result, found passed (nothing is)",
        "1 of 4 not as they must be"}},
      {"attacks alone", "[]", {"--attacks"}, 0, {"hidden state", "1 of 1", "all 1 as they must be"}},
      {"no such task", "[]", {"--task", "lino"}, 2, {}},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    const TemporaryFolder folder;
    make_tree(folder, row.mutants);
    const ChildResult result = audit(folder, row.arguments);
    INFO(result.out << result.err);
    CHECK(result.exit_code == row.exit_code);
    for (const std::string& text : row.says) CHECK(result.out.find(text) != std::string::npos);
    if (row.says.empty()) CHECK(result.err.find("lino") != std::string::npos);
  }
}

TEST_CASE("audit: the distance of a wrong kernel is that of its worst case") {
  if (!can_compile()) return;
  const TemporaryFolder folder;
  // How many elements are that small depends on the case, and by how much they are wrong on its learning rate.
  make_tree(folder, R"([{"name": "small momentum is none", "why": "", "base": "reference_kernels/lion/naive.cu",
    "find": "c > 0.0f ? 1.0f", "replace": "c > 1e-3f ? 1.0f", "verdict": ["wrong_result"], "buffer": ""}])");
  const ChildResult result = audit(folder, {"--task", "lion", "--json", "-"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const auto json = parse_json("audit", result.out);
  const JsonReader reader(json, "audit", "");
  double distance = 0;
  for (const JsonReader& kernel : reader.at("kernels").items())
    if (kernel.at("kind").text() == "mutant") distance = kernel.at("error_ratio").number();

  const std::string path = folder.path("first.json");
  const std::string kernel = read_text(folder.path("tree/reference_kernels/lion/naive.cu"));
  const std::string find = "c > 0.0f ? 1.0f";
  std::string wrong = kernel;
  wrong.replace(wrong.find(find), find.size(), "c > 1e-3f ? 1.0f");
  folder.write("wrong.cu", wrong);
  const ChildResult first =
      run_program(folder, {"eval", folder.path("wrong.cu"), "--salt", "1", "--device", "vm", "--json", path});
  CHECK(first.exit_code == 1);
  const Result<EvalRecord> record = record_from_json(read_text(path));
  REQUIRE(record.ok());
  CHECK(record.value().failure->error_ratio > 1);
  CHECK(distance > record.value().failure->error_ratio);  // the evaluation stopped at the first case
}
