// Third-party headers stay in the files that own them, and the parts keep their direction of dependence: a text search
// over the sources, so that a new include in the wrong place fails here and not in a review.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

struct Rule {
  const char* name;
  const char* include;           ///< regular expression over what stands between the quotes or brackets
  std::set<std::string> owners;  ///< files relative to the root, or folders ending in '/'
};

const std::vector<Rule>& rules() {
  static const std::vector<Rule> table = {
      {"JSON",
       "nlohmann/.*",
       {"harness/json_reader.h", "harness/plan_json.cc", "harness/record.cc", "harness/worker.cc",
        "harness/command_tasks.cc", "harness/command_doctor.cc", "harness/command_audit.cc", "scoring/board_formats.cc",
        "scoring/regress_exchange.cc", "tests/scoring/", "tests/board/", "harness/store/record_text.cc"}},
      {"templates", "kainjow/.*", {"scoring/board_template.cc"}},
      {"expressions", "muParser.*", {"harness/expression.cc", "harness/formula.cc"}},
      {"hashes", "openssl/.*", {"harness/hash.cc"}},
      {"system call filter", "(seccomp|linux/seccomp)\\.h", {"harness/sandbox.cc"}},
      {"command line",
       "CLI/.*",
       {"harness/command_line.cc", "harness/command_line_store.cc", "harness/command_line_slurm.cc"}},
      {"shared libraries",
       "dlfcn\\.h",
       {"harness/nvrtc.cc", "harness/cuda/driver.cc", "harness/cuda/gemm.cc", "harness/cuda/nvml.cc"}},
      {"CUDA and NVRTC headers", "(cuda|cuda_runtime|nvrtc|nvml|cublas.*)\\.h", {}},
      {"network", "curl/.*", {}},
      {"database", "sqlite3\\.h", {"harness/store/", "tests/store/"}},
      {"linear algebra", "(Eigen/.*|(cblas|lapacke)\\.h)", {"tasks/linear_algebra_level.cc"}},
      {"benchmarks", "benchmark/.*", {"tests/bench/"}},
      {"tests", "catch2/.*", {"tests/"}},
  };
  return table;
}

fs::path root() { return fs::path(STEPBENCH_TEST_FOLDER).parent_path(); }

bool owns(const Rule& rule, const std::string& file) {
  for (const std::string& owner : rule.owners)
    if (owner.back() == '/' ? file.starts_with(owner) : file == owner) return true;
  return false;
}

/// Included names of every C++ file below the folder, by path relative to the root.
std::map<std::string, std::vector<std::string>> includes(const std::string& folder) {
  std::map<std::string, std::vector<std::string>> found;
  const std::regex include("^\\s*#\\s*include\\s*[<\"]([^>\"]+)[>\"].*");
  for (const auto& entry : fs::recursive_directory_iterator(root() / folder)) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".cc" && extension != ".h") continue;
    std::vector<std::string>& names = found[fs::relative(entry.path(), root()).generic_string()];
    std::ifstream file(entry.path());
    std::string line;
    std::smatch match;
    while (std::getline(file, line))
      if (std::regex_match(line, match, include)) names.push_back(match[1]);
  }
  return found;
}

TEST_CASE("third-party headers are confined to the files that own them") {
  size_t files = 0, uses = 0;
  for (const char* folder : {"harness", "scoring", "tasks", "tests"}) {
    for (const auto& [file, names] : includes(folder)) {
      ++files;
      for (const std::string& name : names) {
        for (const Rule& rule : rules()) {
          if (!std::regex_match(name, std::regex(rule.include))) continue;
          ++uses;
          INFO(rule.name << ": " << file << " includes " << name);
          CHECK(owns(rule, file));
        }
      }
    }
  }
  CHECK(files > 100);  // the search finds the sources ...
  CHECK(uses > 20);    // ... and the includes in them
}

TEST_CASE("oracles know nothing of the harness, and scoring only the nouns and their words") {
  size_t oracles = 0;
  for (const auto& [file, names] : includes("tasks")) {
    if (!file.ends_with("/oracle.cc")) continue;
    ++oracles;
    for (const std::string& name : names) {
      INFO(file << " includes " << name);
      CHECK_FALSE(name.starts_with("harness/"));
    }
  }
  CHECK(oracles >= 2);
  for (const auto& [file, names] : includes("scoring")) {
    for (const std::string& name : names) {
      INFO(file << " includes " << name);
      CHECK((!name.starts_with("harness/") || name == "harness/model.h" || name == "harness/stages.h" ||
             name == "harness/result.h"));
    }
  }
}

}  // namespace
