// Loading mutants and variants: the shipped lists, and broken ones with the exact complaint. That they fail and pass is
// tested where they are run.
#include "harness/mutants.h"

#include <catch2/catch.hpp>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "harness/stages.h"

namespace stepbench {
namespace {

namespace fs = std::filesystem;

TEST_CASE("the shipped mutants load, differ from one another and from every good kernel") {
  constexpr size_t kLeastMutants = 12;
  for (const std::string& id : list_tasks().value()) {
    const TaskSpec task = load_task(id).value();
    const Result<std::vector<Mutant>> mutants = load_mutants(task);
    if (!mutants.ok()) FAIL(to_text(mutants.error()));
    INFO(id);
    CHECK(mutants.value().size() >= kLeastMutants);
    std::map<std::string, std::string> sources;
    const Result<std::vector<Variant>> variants = load_variants(task);
    REQUIRE(variants.ok());
    for (const Variant& variant : variants.value()) {
      std::ifstream file(variant.path);
      const std::string source((std::istreambuf_iterator<char>(file)), {});
      CHECK(!source.empty());
      sources[source] = variant.name;
    }
    for (const Mutant& mutant : mutants.value()) {
      INFO(id << ": " << mutant.name);
      CHECK(!mutant.why.empty());
      CHECK(!mutant.verdicts.empty());
      CHECK(sources.emplace(mutant.source, mutant.name).second);
    }
  }
}

TEST_CASE("baselines come first, and the promised ones are there") {
  for (const std::string& id : list_tasks().value()) {
    INFO(id);
    const TaskSpec task = load_task(id).value();
    const std::vector<Variant> variants = load_variants(task).value();
    const auto baselines = static_cast<size_t>(
        std::count_if(variants.begin(), variants.end(), [](const Variant& v) { return v.is_baseline; }));
    CHECK(baselines >= 1);
    CHECK(variants.size() >= baselines + 3);
    for (size_t i = 0; i < variants.size(); ++i) CHECK(variants[i].is_baseline == (i < baselines));
    if (task.family != "elementwise") continue;
    REQUIRE(baselines >= 3);
    CHECK(variants[0].name == "reference_kernels/float4");
    CHECK(variants[1].name == "reference_kernels/multi_tensor");
    CHECK(variants[2].name == "reference_kernels/naive");
  }
}

TEST_CASE("broken lists of mutants are refused at the right place") {
  struct Row {
    const char* name;
    const char* text;
    std::vector<const char*> parts;
  };
  const std::string head = R"([{"name": "a", "why": "b", "base": "base.cu", )";
  const Row rows[] = {
      {"not found",
       R"("find": "nowhere", "replace": "x", "verdict": "wrong_result", "buffer": ""}])",
       {"/0/find", "exactly once", "found 0"}},
      {"found twice",
       R"("find": "one", "replace": "x", "verdict": "wrong_result", "buffer": ""}])",
       {"/0/find", "exactly once", "found 2"}},
      {"changes nothing", R"("find": "two", "replace": "two", "verdict": "wrong_result"}])", {"/0/replace", "nothing"}},
      {"unknown verdict", R"("find": "two", "replace": "x", "verdict": "wrong"}])", {"/0/verdict", "\"wrong\""}},
      {"may pass",
       R"("find": "two", "replace": "x", "verdict": ["wrong_result", "passed"]}])",
       {"/0/verdict/1", "must be caught"}},
      {"no verdict", R"("find": "two", "replace": "x", "verdict": []}])", {"/0/verdict", "at least one"}},
      {"unknown buffer",
       R"("find": "two", "replace": "x", "verdict": "race", "buffer": "momentum"}])",
       {"/0/buffer", "no such buffer"}},
      {"unknown key",
       R"("find": "two", "replace": "x", "verdict": "race", "bufer": ""}])",
       {"/0", "perhaps \"buffer\""}},
      {"file and base", R"("file": "base.cu", "verdict": "race"}])", {"/0/base", "either"}},
  };
  std::string pattern = (fs::temp_directory_path() / "stepbench_mutants_XXXXXX").string();
  REQUIRE(mkdtemp(pattern.data()) != nullptr);
  const fs::path root = pattern;
  TaskSpec task;
  task.id = "toy";
  task.folder = (root / "tasks" / "toy").string();
  task.buffers.push_back({.name = "param",
                          .dtype = DType::kF32,
                          .role = Role::kInOut,
                          .shape = "n",
                          .initial = "parameter",
                          .tolerance = {}});
  fs::create_directories(task.folder);
  std::ofstream(root / "base.cu") << "one two one\n";
  const auto load = [&](const std::string& text) {
    std::ofstream(fs::path(task.folder) / "mutants.json") << text;
    return load_mutants(task);
  };
  for (const Row& row : rows) {
    INFO(row.name);
    const Result<std::vector<Mutant>> mutants = load(head + row.text);
    CHECK(!mutants.ok());
    if (mutants.ok()) continue;
    for (const char* const part : row.parts) CHECK_THAT(to_text(mutants.error()), Catch::Contains(part));
  }
  CHECK_THAT(to_text(load(R"([{"name": "a", "why": "b", "file": "../../etc/passwd", "verdict": "race"}])").error()),
             Catch::Contains("outside the tree"));
  CHECK_THAT(to_text(load(R"([{"name": "a", "why": "b", "file": "no.cu", "verdict": "race"}])").error()),
             Catch::Contains("/0/file"));
  // The control.
  const Result<std::vector<Mutant>> good =
      load(head + R"("find": "two", "replace": "2", "verdict": ["race", "drift"], "buffer": "param"}])");
  if (!good.ok()) FAIL(to_text(good.error()));
  CHECK(good.value()[0].source == "one 2 one\n");
  CHECK(good.value()[0].verdicts == std::vector<Verdict>{Verdict::kRace, Verdict::kDrift});
  CHECK(load_variants(task).ok() == false);
  std::error_code ignored;
  fs::remove_all(root, ignored);
}

}  // namespace
}  // namespace stepbench
