// `stepbench board` as a program: inputs, formats, exit codes, and what is left when it is killed or refuses.
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "harness/commands.h"
#include "harness/record_folder.h"
#include "harness/store.h"
#include "tests/app/program.h"
#include "tests/board/sample.h"
#include "tests/store/generated.h"

namespace stepbench {
namespace {

namespace fs = std::filesystem;

std::string write_sample(const TemporaryFolder& folder) {
  std::string lines;
  for (const EvalRecord& record : sample::records()) lines += record_to_json(record, -1) + "\n";
  return folder.write("sample.jsonl", lines);
}

std::map<std::string, std::string> files_below(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files[fs::relative(entry.path(), folder).string()] = read_text(entry.path().string());
  return files;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST_CASE("JSON Lines, a folder of records and a store give the same site") {
  const TemporaryFolder folder;
  const std::string lines = write_sample(folder);
  Result<StorePtr> store = open_store(folder.path("store.db"), {StoreMode::kWrite});
  REQUIRE(store.ok());
  for (const EvalRecord& record : sample::records()) {
    REQUIRE(save_record(folder.path("records"), record).ok());
    REQUIRE(append_record(*store.value(), record).ok());
  }
  store.value().reset();
  const struct {
    const char* name;
    std::vector<std::string> arguments;
  } rows[] = {{"lines", {"board", lines, "--out", folder.path("lines")}},
              {"folder", {"board", folder.path("records"), "--out", folder.path("folder")}},
              {"store", {"board", "--store", folder.path("store.db"), "--out", folder.path("store")}},
              {"store_file", {"board", folder.path("store.db"), "--out", folder.path("store_file")}},
              {"again", {"board", lines, "--out", folder.path("again"), "--quiet"}}};
  for (const auto& row : rows) {
    INFO(row.name);
    const ChildResult result = run_program(folder, row.arguments);
    INFO(result.err);
    CHECK(result.exit_code == kExitDone);
    CHECK(files_below(folder.path(row.name)) == files_below(folder.path("lines")));
    CHECK(result.err.empty() == (row.arguments.back() == "--quiet"));
  }
  CHECK(files_below(folder.path("lines")).count("index.html") == 1);
}

TEST_CASE("tables go to standard output or to a file") {
  const TemporaryFolder folder;
  const std::string lines = write_sample(folder);
  for (const char* format : {"md", "csv", "json"}) {
    INFO(format);
    const ChildResult shown = run_program(folder, {"board", lines, "--format", format});
    CHECK(shown.exit_code == kExitDone);
    CHECK(shown.err.empty());
    const ChildResult kept = run_program(folder, {"board", lines, "--format", format, "--out", folder.path(format)});
    CHECK(kept.exit_code == kExitDone);
    CHECK(kept.out.empty());
    CHECK(read_text(folder.path(format)) == shown.out);
    CHECK(shown.out.find("ana") != std::string::npos);
  }
  const ChildResult one = run_program(folder, {"board", lines, "--format", "json", "--task", "lion"});
  const nlohmann::json board = nlohmann::json::parse(one.out);
  REQUIRE(board["tasks"].size() == 1);
  CHECK(board["tasks"][0]["task"] == "lion");
}

TEST_CASE("an old site is replaced as a whole, anything else is refused") {
  const TemporaryFolder folder;
  const std::string lines = write_sample(folder), site = folder.path("site");
  REQUIRE(run_program(folder, {"board", lines, "--out", site}).exit_code == kExitDone);
  const auto first = files_below(site);
  std::ofstream(site + "/records/stale.html") << "old";
  REQUIRE(run_program(folder, {"board", lines, "--out", site + "/"}).exit_code == kExitDone);
  CHECK(files_below(site) == first);

  fs::create_directory(folder.path("empty"));
  CHECK(run_program(folder, {"board", lines, "--out", folder.path("empty")}).exit_code == kExitDone);

  fs::create_directory(folder.path("mine"));
  folder.write("mine/thesis.tex", "years of work");
  const ChildResult refused = run_program(folder, {"board", lines, "--out", folder.path("mine")});
  CHECK(refused.exit_code == kExitUsage);
  CHECK(refused.err.find("holds something else than a board") != std::string::npos);
  CHECK(read_text(folder.path("mine/thesis.tex")) == "years of work");
  const ChildResult file = run_program(folder, {"board", lines, "--out", lines});
  CHECK(file.exit_code == kExitUsage);
  CHECK(names_in(folder.path("")) ==
        std::vector<std::string>{"empty", "mine", "sample.jsonl", "site"});  // nothing half-made beside them
}

TEST_CASE("wrong usage and inputs are one sentence each") {
  const TemporaryFolder folder;
  const std::string lines = write_sample(folder);
  const struct {
    const char* name;
    std::vector<std::string> arguments;
    int exit_code;
    const char* text;
  } rows[] = {
      {"format", {"board", lines, "--format", "pdf"}, kExitUsage, "html, md, csv or json"},
      {"two inputs", {"board", lines, "--store", "x.db"}, kExitUsage, "either --store FILE or files"},
      {"no such store", {"board", "--store", folder.path("none.db")}, kExitUsage, "a folder of records"},
      {"no such file", {"board", folder.path("none.jsonl"), "--out", folder.path("a")}, kExitUsage, "none.jsonl"},
      {"no pages", {"board", lines, "--pages", "0"}, kExitUsage, "pages"},
      {"root", {"board", lines, "--out", "/"}, kExitUsage, "/"},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    const ChildResult result = run_program(folder, row.arguments);
    CHECK(result.exit_code == row.exit_code);
    INFO(result.err);
    CHECK(result.err.find(row.text) != std::string::npos);
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
  }
}

TEST_CASE("lines that are no records are left out and told") {
  const TemporaryFolder folder;
  const std::vector<EvalRecord> records = sample::records();
  const std::string good = record_to_json(records[0], -1);
  const std::string lines = folder.write("mixed.jsonl", good + "\nnot a record\n{}\n");
  const ChildResult result = run_program(folder, {"board", lines, "--out", folder.path("site")});
  CHECK(result.exit_code == kExitDone);
  CHECK(result.err.find("mixed.jsonl:2") != std::string::npos);
  CHECK(result.err.find("mixed.jsonl:3") != std::string::npos);
  CHECK(result.err.find("1 records, 1 with a page") != std::string::npos);
  fs::create_directory(folder.path("records"));
  folder.write("records/" + records[0].id + ".json", good);
  folder.write("records/broken.json", good.substr(0, good.size() / 2));
  folder.write("records/README.txt", "no record");
  const ChildResult from_folder = run_program(folder, {"board", folder.path("records"), "--out", folder.path("site")});
  CHECK(from_folder.exit_code == kExitDone);
  CHECK(from_folder.err.find("broken.json") != std::string::npos);
  CHECK(from_folder.err.find("README") == std::string::npos);
}

TEST_CASE("an empty folder of records gives a site that says so") {
  const TemporaryFolder folder;
  fs::create_directory(folder.path("records"));
  CHECK(run_program(folder, {"board", folder.path("records"), "--out", folder.path("site")}).exit_code == kExitDone);
  CHECK(read_text(folder.path("site/index.html")).find("There are no records yet.") != std::string::npos);
}

TEST_CASE("killed at any moment, the old site stays, and the next run cleans up") {
  const TemporaryFolder folder;
  const std::string lines = write_sample(folder), site = folder.path("site");
  REQUIRE(run_program(folder, {"board", lines, "--out", site}).exit_code == kExitDone);
  const auto before = files_below(site);
  std::string many;
  for (int i = 0; i < 400; ++i) many += record_to_json(generated_record(3, i), -1) + "\n";
  folder.write("many.jsonl", many);

  bool was_building = false;
  for (int round = 0; round < 40 && !was_building; ++round) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      if (!std::freopen("/dev/null", "w", stderr)) ::_exit(2);
      ::execl(STEPBENCH_BINARY, "stepbench", "board", folder.path("many.jsonl").c_str(), "--out", site.c_str(),
              nullptr);
      ::_exit(2);
    }
    // Killed as soon as its folder is there and holds something.
    const std::string building = folder.path(fmt::format(".site.building-{}", child));
    std::error_code ignored;
    while (!fs::exists(building + "/records", ignored) && ::waitpid(child, nullptr, WNOHANG) == 0) ::usleep(200);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    was_building = fs::exists(building, ignored);
  }
  REQUIRE(was_building);
  CHECK(files_below(site) == before);
  CHECK(run_program(folder, {"board", lines, "--out", site}).exit_code == kExitDone);
  CHECK(names_in(folder.path("")) == std::vector<std::string>{"many.jsonl", "sample.jsonl", "site"});
}

}  // namespace
}  // namespace stepbench
