// Records on disk: where they lie, how they are found, and that a write is whole or not there.
#include "harness/record_folder.h"

#include <signal.h>
#include <sys/resource.h>

#include <cstdlib>

#include "harness/record.h"
#include "harness/stages.h"
#include "tests/app/program.h"

namespace stepbench {
namespace {

/// Sets or removes environment variables and puts them back.
class WithEnvironment {
 public:
  explicit WithEnvironment(const std::vector<std::pair<std::string, const char*>>& values) {
    for (const auto& [name, value] : values) {
      const char* old = std::getenv(name.c_str());
      before_.emplace_back(name, old ? std::optional<std::string>(old) : std::nullopt);
      if (value)
        ::setenv(name.c_str(), value, 1);
      else
        ::unsetenv(name.c_str());
    }
  }
  WithEnvironment(const WithEnvironment&) = delete;
  WithEnvironment& operator=(const WithEnvironment&) = delete;
  ~WithEnvironment() {
    for (const auto& [name, value] : before_) {
      if (value)
        ::setenv(name.c_str(), value->c_str(), 1);
      else
        ::unsetenv(name.c_str());
    }
  }

 private:
  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

EvalRecord record_with_id(const std::string& id) {
  EvalRecord record;
  record.id = id;
  record.verdict = Verdict::kPassed;
  return record;
}

TEST_CASE("where records lie") {
  const struct {
    const char* name;
    const char* given;
    const char* records;
    const char* state;
    const char* home;
    const char* expected;  // empty: an error
  } rows[] = {
      {"given", "/a", "/b", "/c", "/d", "/a"},
      {"by its own variable", "", "/b", "/c", "/d", "/b"},
      {"by the state folder", "", nullptr, "/c", "/d", "/c/stepbench/records"},
      {"empty variables do not count", "", "", "", "/d", "/d/.local/state/stepbench/records"},
      {"at home", "", nullptr, nullptr, "/d", "/d/.local/state/stepbench/records"},
      {"nowhere", "", nullptr, nullptr, nullptr, ""},
  };
  for (const auto& row : rows) {
    DYNAMIC_SECTION(row.name) {
      const WithEnvironment environment(
          {{"STEPBENCH_RECORDS", row.records}, {"XDG_STATE_HOME", row.state}, {"HOME", row.home}});
      const Result<std::string> folder = records_folder(row.given);
      REQUIRE(folder.ok() == (*row.expected != 0));
      if (folder.ok())
        CHECK(folder.value() == row.expected);
      else
        CHECK(folder.error().code == ErrorCode::kUsage);
    }
  }
}

TEST_CASE("records are found by id, by its beginning, and by path") {
  const TemporaryFolder folder;
  const std::string records = folder.path("deep/records");
  for (const char* id : {"aaaa000000000001", "aaaa000000000002", "bbbb000000000003"})
    REQUIRE(save_record(records, record_with_id(id)).ok());
  folder.write("deep/records/cccc000000000004.json", "{\"record_version\":");
  const struct {
    const char* name;
    std::string id;
    const char* found;  // empty: an error
    ErrorCode code;
  } rows[] = {
      {"whole id", "aaaa000000000002", "aaaa000000000002", {}},
      {"unique beginning", "bbbb", "bbbb000000000003", {}},
      {"path", records + "/aaaa000000000001.json", "aaaa000000000001", {}},
      {"two begin so", "aaaa", "", ErrorCode::kUsage},
      {"too short", "bbb", "", ErrorCode::kUsage},
      {"no id", "latest", "", ErrorCode::kUsage},
      {"path tricks", "../records/aaaa", "", ErrorCode::kNotFound},
      {"unknown", "dddd", "", ErrorCode::kNotFound},
      {"torn file", "cccc", "", ErrorCode::kInvalidRecord},
  };
  for (const auto& row : rows) {
    DYNAMIC_SECTION(row.name) {
      const Result<EvalRecord> record = find_record(records, row.id);
      REQUIRE(record.ok() == (*row.found != 0));
      if (record.ok())
        CHECK(record.value().id == row.found);
      else
        CHECK(record.error().code == row.code);
    }
  }
  CHECK(find_record(folder.path("none"), "aaaa").error().code == ErrorCode::kNotFound);
}

TEST_CASE("files are written whole or not at all") {
  const TemporaryFolder folder;
  const std::string path = folder.path("file");
  REQUIRE(write_file_atomically(path, "first").ok());
  CHECK(read_text(path) == "first");
  REQUIRE(write_file_atomically(path, "second").ok());
  CHECK(read_text(path) == "second");
  CHECK_FALSE(write_file_atomically(folder.path("none/file"), "x").ok());
  CHECK_FALSE(write_file_atomically(folder.path("."), "x").ok());

  // The disk is full in the middle of the file: a limit on the file's size stands for it.
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  rlimit small = before;
  small.rlim_cur = 1000;
  const auto old_handler = ::signal(SIGXFSZ, SIG_IGN);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const Result<void> written = write_file_atomically(path, std::string(100000, 'x'));
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  ::signal(SIGXFSZ, old_handler);
  REQUIRE_FALSE(written.ok());
  CHECK(written.error().code == ErrorCode::kIo);
  CHECK(read_text(path) == "second");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path("")), std::filesystem::directory_iterator()) ==
        1);
}

TEST_CASE("reading files") {
  const TemporaryFolder folder;
  const std::string path = folder.write("file", std::string(1000, 'x'));
  CHECK(read_file(path, 1000).ok());
  CHECK(read_file(path, 999).error().code == ErrorCode::kInvalidInput);
  CHECK(read_file(folder.path("none"), 10).error().code == ErrorCode::kNotFound);
  CHECK(read_file(path + "/below", 10).error().code == ErrorCode::kNotFound);
  CHECK(read_file(folder.path(""), 10).error().code == ErrorCode::kInvalidInput);
}

}  // namespace
}  // namespace stepbench
