// Opening: what is no store, what cannot be read or written, what is full, what an older version left behind. Each
// gives one clear error, and whatever was in the file is there afterwards.
#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/record_folder.h"
#include "tests/store/support.h"

namespace stepbench {
namespace {

/// Runs `body` in a process without any privilege, since permissions do not bind root. `body` writes its findings into
/// a string; nothing of Catch may run in it.
std::string without_privilege(const std::function<std::string()>& body) {
  int pipe_ends[2];
  REQUIRE(::pipe(pipe_ends) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    const bool dropped =
        ::geteuid() != 0 || (::setgroups(0, nullptr) == 0 && ::setgid(kNobody) == 0 && ::setuid(kNobody) == 0);
    const std::string text = dropped ? body() : "cannot become another user";
    const bool written = ::write(pipe_ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    ::_exit(written ? 0 : 1);
  }
  ::close(pipe_ends[1]);
  std::string text;
  char block[4096];
  for (ssize_t count = 0; (count = ::read(pipe_ends[0], block, sizeof(block))) > 0;)
    text.append(block, static_cast<size_t>(count));
  ::close(pipe_ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) == 0);
  return text;
}

std::string outcome(const Result<StorePtr>& store) { return store.ok() ? "opened" : to_text(store.error()); }

/// Folder and files for anybody, as far as `mode` allows.
void chmod_or_fail(const std::string& path, mode_t mode) { REQUIRE(::chmod(path.c_str(), mode) == 0); }

TEST_CASE("what is no store is refused and left as it is") {
  const TemporaryFolder folder;
  fill(folder.path("good.db"), 1);
  const std::string good = read_text(folder.path("good.db"));
  folder.write("text.db", "this is a text, and longer than the first bytes of a SQLite file, which are sixteen\n");
  folder.write("short.db", "x");
  folder.write("header.db", std::string("SQLite format 3\0", 16) + std::string(4080, '\1'));
  folder.write("empty.db", "");
  std::filesystem::create_directory(folder.path("folder.db"));
  REQUIRE(::mkfifo(folder.path("pipe.db").c_str(), 0600) == 0);
  { Sql(folder.path("other.db")).run("CREATE TABLE notes (a); INSERT INTO notes VALUES (1)"); }
  { Sql(folder.path("marked.db")).run("PRAGMA application_id = 77"); }
  folder.write("newer.db", good);
  { Sql(folder.path("newer.db")).run("PRAGMA user_version = 3"); }
  folder.write("newer_facts.db", good);
  { Sql(folder.path("newer_facts.db")).run("UPDATE state SET facts_version = 1000000"); }
  folder.write("no_version.db", good);
  { Sql(folder.path("no_version.db")).run("PRAGMA user_version = 0"); }
  folder.write("no_state.db", good);
  { Sql(folder.path("no_state.db")).run("DROP TABLE state"); }
  folder.write("empty_state.db", good);
  { Sql(folder.path("empty_state.db")).run("DELETE FROM state"); }

  const struct {
    const char* name;
    const char* file;
    ErrorCode code;
    const char* says;
    bool both_modes = true;  ///< false: only reading is refused
  } rows[] = {
      {"text", "text.db", ErrorCode::kInvalidInput, "not a SQLite file"},
      {"one byte", "short.db", ErrorCode::kInvalidInput, "not a SQLite file"},
      {"header and nothing behind", "header.db", ErrorCode::kInvalidInput, "not a SQLite file"},
      {"empty", "empty.db", ErrorCode::kInvalidInput, "an empty file", false},
      {"missing", "missing.db", ErrorCode::kNotFound, "no store here", false},
      {"folder", "folder.db", ErrorCode::kInvalidInput, "a folder"},
      {"pipe", "pipe.db", ErrorCode::kInvalidInput, "a device or pipe"},
      {"below a file", "text.db/store.db", ErrorCode::kIo, "Not a directory"},
      {"another program's", "other.db", ErrorCode::kInvalidInput, "SQLite file of another program"},
      {"marked by another program", "marked.db", ErrorCode::kInvalidInput, "SQLite file of another program"},
      {"newer schema", "newer.db", ErrorCode::kUnsupported, "newer version of StepBench"},
      {"newer facts", "newer_facts.db", ErrorCode::kUnsupported, "newer version of StepBench"},
      {"no version", "no_version.db", ErrorCode::kInvalidInput, "a store without a version"},
      {"state removed", "no_state.db", ErrorCode::kInvalidInput, "the store is damaged"},
      {"state emptied", "empty_state.db", ErrorCode::kInvalidInput, "the store is damaged"},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    const std::string path = folder.path(row.file);
    const bool is_file = std::filesystem::is_regular_file(path);
    const std::string before = is_file ? read_text(path) : "";
    for (const StoreMode mode : {StoreMode::kRead, StoreMode::kWrite}) {
      if (mode == StoreMode::kWrite && !row.both_modes) continue;
      const Error error = open_error(path, mode);
      CHECK(error.code == row.code);
      CHECK_THAT(to_text(error), Catch::Contains(row.says) && Catch::Contains(path));
    }
    CHECK((is_file ? read_text(path) : "") == before);
  }
  // Controls: the copy opens, and what only reading refuses becomes a store.
  folder.write("copy.db", good);
  for (const char* file : {"copy.db", "empty.db", "missing.db"}) {
    append_or_fail(*open_or_fail(folder.path(file)), generated_record(kSeed, 5));
    CHECK(problems_text(verify_or_fail(folder.path(file))).empty());
  }
}

TEST_CASE("names that mean something else to SQLite are names of files") {
  const TemporaryFolder folder;
  const std::string before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path(""));
  const char* names[] = {":memory:", "file:x.db?mode=memory", "a b%20?#\xC3\xB6.db"};
  for (const char* name : names) {
    INFO(name);
    fill(name, 2);
    CHECK(std::filesystem::exists(name));
    CHECK(rows_of(*open_or_fail(name, StoreMode::kRead)).size() == 2);
  }
  std::filesystem::current_path(before);
}

TEST_CASE("without permission to read or write") {
  const TemporaryFolder folder;
  chmod_or_fail(folder.path(""), 0755);
  const auto make = [&](const std::string& name) {
    std::filesystem::create_directory(folder.path(name));
    const std::string path = folder.path(name + "/store.db");
    fill(path, 3);
    REQUIRE_FALSE(std::filesystem::exists(path + "-wal"));
    return path;
  };
  const std::string unreadable = make("unreadable"), read_only = make("read_only"), folder_only = make("folder");
  chmod_or_fail(unreadable, 0);
  chmod_or_fail(read_only, 0444);
  chmod_or_fail(folder.path("read_only"), 0777);
  chmod_or_fail(folder_only, 0666);
  chmod_or_fail(folder.path("folder"), 0555);

  CHECK_THAT(without_privilege([&] { return outcome(open_store(unreadable, {})); }),
             Catch::Contains("cannot open the store") && Catch::Contains("Permission denied"));
  CHECK_THAT(without_privilege([&] {
               return outcome(open_store(unreadable, {StoreMode::kWrite, 100, 0}));
             }),
             Catch::Contains("cannot open the store"));
  CHECK_THAT(without_privilege([&] {
               return outcome(open_store(read_only, {StoreMode::kWrite, 100, 0}));
             }),
             Catch::Contains("cannot be written to"));
  CHECK_THAT(without_privilege([&] {
               return outcome(open_store(folder.path("folder/new.db"), {StoreMode::kWrite, 100, 0}));
             }),
             Catch::Contains("cannot open the store"));
  CHECK_THAT(without_privilege([&] {
               return outcome(open_store(folder.path("folder/deep/new.db"), {StoreMode::kWrite, 100, 0}));
             }),
             Catch::Contains("cannot create the store's folder"));
  // The file could be written to, but no log can be made beside it.
  CHECK_THAT(without_privilege([&] {
               const Result<StorePtr> store = open_store(folder_only, {StoreMode::kWrite, 100, 0});
               if (!store.ok()) return to_text(store.error());
               const Result<Appended> appended = append_record(*store.value(), generated_record(kSeed, 9));
               return appended.ok() ? "appended" : to_text(appended.error());
             }),
             Catch::Contains("cannot") && !Catch::Contains("appended"));
  // Reading needs neither.
  for (const std::string& path : {read_only, folder_only}) {
    INFO(path);
    CHECK(without_privilege([&] {
            const Result<StorePtr> store = open_store(path, {});
            if (!store.ok()) return to_text(store.error());
            const Result<int64_t> count = count_rows(*store.value(), {});
            return count.ok() ? std::to_string(count.value()) : to_text(count.error());
          }) == "3");
  }
  chmod_or_fail(folder.path("folder"), 0755);
  for (const std::string& path : {unreadable, read_only, folder_only}) {
    chmod_or_fail(path, 0644);
    const StoreVerification found = verify_or_fail(path);
    CHECK(found.records == 3);
    CHECK(problems_text(found).empty());
  }
}

TEST_CASE("a full disk refuses the record that does not fit and keeps all others") {
  const TemporaryFolder folder;
  const std::string path = folder.path("store.db");
  fill(path, 2);
  const int64_t pages = std::stoll(Sql(path).text("PRAGMA page_count"));
  int64_t stored = 2;
  {
    const Result<StorePtr> store = open_store(path, {StoreMode::kWrite, 1000, pages + 10});
    REQUIRE(store.ok());
    Result<Appended> appended = Appended{};
    while ((appended = append_record(*store.value(), generated_record(kSeed, stored))).ok()) REQUIRE(++stored < 100);
    CHECK(stored > 2);
    CHECK(appended.error().code == ErrorCode::kResource);
    CHECK_THAT(to_text(appended.error()), Catch::Contains("the disk is full") && Catch::Contains(path));
    // Again, and everything is still readable through the same connection.
    CHECK_FALSE(append_record(*store.value(), generated_record(kSeed, stored)).ok());
    CHECK(static_cast<int64_t>(rows_of(*store.value()).size()) == stored);
    // Of an import what fits stays.
    std::stringstream lines;
    for (int64_t i = stored; i < stored + 50; ++i) lines << record_to_json(generated_record(kSeed, i), -1) << "\n";
    const Result<StoreImport> imported = import_records(*store.value(), lines, "lines");
    REQUIRE_FALSE(imported.ok());
    CHECK(imported.error().code == ErrorCode::kResource);
  }
  StoreVerification found = verify_or_fail(path);
  CHECK(found.records == stored);
  CHECK(problems_text(found).empty());
  const StorePtr store = open_or_fail(path);  // room again
  CHECK(append_or_fail(*store, generated_record(kSeed, stored)).sequence == stored + 1);
  CHECK(problems_text(verify_or_fail(path)).empty());
}

TEST_CASE("a store that another program keeps locked is given up after the time set") {
  const TemporaryFolder folder;
  const std::string path = folder.path("store.db");
  fill(path, 1);
  const Result<StorePtr> store = open_store(path, {StoreMode::kWrite, 50, 0});
  REQUIRE(store.ok());
  Sql other(path);
  other.run("BEGIN IMMEDIATE");
  const Result<Appended> refused = append_record(*store.value(), generated_record(kSeed, 1));
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::kTimeout);
  CHECK_THAT(to_text(refused.error()), Catch::Contains("locked"));
  CHECK(rows_of(*store.value()).size() == 1);  // readers are not held up
  other.run("ROLLBACK");
  CHECK(append_or_fail(*store.value(), generated_record(kSeed, 1)).added);
}

// ---------------------------------------------------------------------------------------------- versions

/// A file as version 1 made it, written here by SQL alone. The chain is that of harness/README.md.
void make_version_1(const std::string& path, int64_t count, const std::string& broken_json = "") {
  Sql sql(path);
  sql.run(fmt::format("PRAGMA application_id = {}; PRAGMA user_version = 1", 0x53744273));
  sql.run(R"(CREATE TABLE records (
  sequence INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  content_sha256 TEXT NOT NULL,
  previous_sha256 TEXT NOT NULL,
  chain_sha256 TEXT NOT NULL UNIQUE,
  json TEXT NOT NULL
) STRICT)");
  sql.run(R"(CREATE TRIGGER records_never_updated BEFORE UPDATE ON records
BEGIN SELECT RAISE(ABORT, 'records are never changed'); END)");
  sql.run(R"(CREATE TRIGGER records_never_deleted BEFORE DELETE ON records
BEGIN SELECT RAISE(ABORT, 'records are never removed'); END)");
  std::string previous(64, '0');
  for (int64_t i = 0; i < count; ++i) {
    const EvalRecord record = generated_record(kSeed, i);
    const std::string json = i == 1 && !broken_json.empty() ? broken_json : record_to_json(record, -1);
    const std::string content = sha256_hex(json);
    const std::string chain = sha256_hex(previous + "\n" + record.id + "\n" + content);
    std::string quoted;
    for (const char c : json) quoted += c == '\'' ? std::string("''") : std::string(1, c);
    sql.run(fmt::format("INSERT INTO records VALUES ({}, '{}', '{}', '{}', '{}', '{}')", i + 1, record.id, content,
                        previous, chain, quoted));
    previous = chain;
  }
}

TEST_CASE("a file of version 1 becomes one of version 2, with everything in it") {
  const TemporaryFolder folder;
  for (const int64_t count : {0, 1, 25}) {
    INFO(count);
    const std::string old = folder.path(fmt::format("old{}.db", count));
    const std::string fresh = folder.path(fmt::format("fresh{}.db", count));
    make_version_1(old, count);
    fill(fresh, count);

    const std::string before = read_text(old);
    const Error refused =
        open_error(old, StoreMode::kRead);  // reading changes nothing, so it cannot bring it up to date
    CHECK(refused.code == ErrorCode::kUnsupported);
    CHECK_THAT(to_text(refused), Catch::Contains("older version") && Catch::Contains("stepbench store upgrade"));
    CHECK(read_text(old) == before);

    { open_or_fail(old); }
    CHECK(Sql(old).text("PRAGMA user_version") == "2");
    const StoreVerification found = verify_or_fail(old), expected = verify_or_fail(fresh);
    CHECK(problems_text(found).empty());
    CHECK(found.records == count);
    CHECK(found.head == expected.head);
    const StorePtr a = open_or_fail(old), b = open_or_fail(fresh);
    std::stringstream from_old, from_fresh;
    REQUIRE(export_records(*a, {}, from_old).ok());
    REQUIRE(export_records(*b, {}, from_fresh).ok());
    CHECK(from_old.str() == from_fresh.str());
    StoreFilter filter;
    filter.task = "adamw";
    CHECK(count_rows(*a, filter).value() == count_rows(*b, filter).value());
    CHECK(append_or_fail(*a, generated_record(kSeed, count)).sequence == count + 1);
    CHECK(problems_text(verify_or_fail(old)).empty());
  }
}

TEST_CASE("a step between versions that cannot be finished changes nothing") {
  const TemporaryFolder folder;
  const std::string path = folder.path("store.db");
  make_version_1(path, 40);
  const int64_t pages = std::stoll(Sql(path).text("PRAGMA page_count"));
  const Result<StorePtr> full = open_store(path, {StoreMode::kWrite, 1000, pages + 2});
  REQUIRE_FALSE(full.ok());
  CHECK(full.error().code == ErrorCode::kResource);
  Sql sql(path);
  CHECK(sql.text("PRAGMA user_version") == "1");
  CHECK(sql.text("SELECT count(*) FROM sqlite_schema WHERE name IN ('facts', 'state')") == "0");
  CHECK(sql.text("SELECT count(*) FROM records") == "40");
  { open_or_fail(path); }  // with room it can
  CHECK(problems_text(verify_or_fail(path)).empty());
}

TEST_CASE("a record of version 1 that cannot be read does not keep the others from coming along") {
  const TemporaryFolder folder;
  const std::string path = folder.path("store.db");
  make_version_1(path, 3, "{\"record_version\":2}");
  { open_or_fail(path); }
  CHECK(rows_of(*open_or_fail(path)).size() == 2);
  CHECK_THAT(problems_text(verify_or_fail(path)), Catch::Contains("row 2: its content is no record"));
}

TEST_CASE("small facts of an older version are computed again") {
  const TemporaryFolder folder;
  const std::string path = folder.path("store.db");
  fill(path, 10);
  std::vector<StoreRow> before = rows_of(*open_or_fail(path, StoreMode::kRead));
  {
    Sql(path).run(
        "UPDATE state SET facts_version = 1; UPDATE facts SET speedup = 99, task = 'old'; DELETE FROM facts "
        "WHERE sequence = 4");
  }
  CHECK(open_error(path, StoreMode::kRead).code == ErrorCode::kUnsupported);
  { open_or_fail(path); }
  const std::vector<StoreRow> after = rows_of(*open_or_fail(path, StoreMode::kRead));
  REQUIRE(after.size() == 10);
  for (size_t i = 0; i < 10; ++i) {
    CHECK(after[i].task == before[i].task);
    CHECK(after[i].score.speedup == before[i].score.speedup);
  }
  CHECK(problems_text(verify_or_fail(path)).empty());
}

}  // namespace
}  // namespace stepbench
