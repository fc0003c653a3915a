// Two types of one name in one namespace, in headers that no file includes together, compile and link, and their
// templates are then taken for each other (basic.def.odr in the C++ standard). A text search over the headers finds it.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

/// "stepbench::vm::Site" -> files that define it at the level of a namespace.
using Definitions = std::map<std::string, std::set<std::string>>;

void add_definitions(std::istream& in, const std::string& file, Definitions& found) {
  static const std::regex opens("^namespace ([\\w:]+) \\{.*"), closes("^\\}  // namespace.*"),
      defines("^(struct|class|enum class|union) (\\w+)( final)?( :[^:].*| *\\{.*)");
  std::vector<std::string> open;
  std::smatch match;
  for (std::string line; std::getline(in, line);) {
    if (std::regex_match(line, match, opens)) {
      open.push_back(match[1]);
    } else if (std::regex_match(line, closes)) {
      if (!open.empty()) open.pop_back();
    } else if (std::regex_match(line, match, defines)) {
      std::string name;
      for (const std::string& space : open) name += space + "::";
      found[name + match[2].str()].insert(file);
    }
  }
}

std::string defined_twice(const Definitions& found) {
  std::string text;
  for (const auto& [name, files] : found) {
    if (files.size() < 2) continue;
    text += name + ":";
    for (const std::string& file : files) text += " " + file;
    text += "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("no two headers define a type of the same name") {
  Definitions found;
  for (const char* folder : {"harness", "scoring", "tasks"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(STEPBENCH_TEST_FOLDER).parent_path() / folder)) {
      if (entry.path().extension() != ".h") continue;
      std::ifstream in(entry.path());
      add_definitions(in, entry.path().filename().string(), found);
    }
  }
  CHECK(found.size() > 100);
  INFO(defined_twice(found));
  CHECK(defined_twice(found).empty());
  CHECK(found.count("stepbench::EvalRecord") == 1);
}

TEST_CASE("the search for names finds what it should") {
  Definitions found;
  std::istringstream first(
      "namespace stepbench {\nstruct Finding {\n};\nstruct Later;\nnamespace vm {\nclass Site final {\n"
      "}  // namespace vm\nenum class Kind : uint8_t { kA };\n}  // namespace stepbench\n");
  add_definitions(first, "first.h", found);
  CHECK(found.size() == 3);
  std::istringstream second(
      "namespace stepbench {\nstruct Finding {\nstruct Site {\nstruct Later;\n}  // namespace stepbench\n");
  add_definitions(second, "second.h", found);
  CHECK(defined_twice(found) == "stepbench::Finding: first.h second.h\n");
}
