// For the tests of this folder: stores opened or the test fails, and a second way into the file by SQL alone, so that
// what the store says can be compared with what is there, and so that it can be damaged.
#pragma once

#include <sqlite3.h>

#include <string>
#include <vector>

#include "harness/store.h"
#include "tests/app/program.h"
#include "tests/store/generated.h"

namespace stepbench {

inline constexpr uint64_t kSeed = 7;

inline StorePtr open_or_fail(const std::string& path, StoreMode mode = StoreMode::kWrite) {
  StoreOptions options;
  options.mode = mode;
  Result<StorePtr> store = open_store(path, options);
  if (!store.ok()) FAIL(to_text(store.error()));
  return std::move(store).value();
}

inline Error open_error(const std::string& path, StoreMode mode, int busy_limit_ms = 1000) {
  const Result<StorePtr> store = open_store(path, {mode, busy_limit_ms, 0});
  REQUIRE_FALSE(store.ok());
  return store.error();
}

inline Appended append_or_fail(Store& store, const EvalRecord& record) {
  const Result<Appended> appended = append_record(store, record);
  if (!appended.ok()) FAIL(to_text(appended.error()));
  return appended.value();
}

/// The first `count` records of the series, appended in order.
inline void fill(const std::string& path, int64_t count, uint64_t seed = kSeed) {
  const StorePtr store = open_or_fail(path);
  for (int64_t i = 0; i < count; ++i) REQUIRE(append_or_fail(*store, generated_record(seed, i)).added);
}

inline std::vector<StoreRow> rows_of(Store& store, const StoreFilter& filter = {}) {
  std::vector<StoreRow> rows;
  const Result<int64_t> count = for_each_row(store, filter, [&](const StoreRow& row) {
    rows.push_back(row);
    return true;
  });
  if (!count.ok()) FAIL(to_text(count.error()));
  CHECK(count.value() == static_cast<int64_t>(rows.size()));
  return rows;
}

inline StoreVerification verify_or_fail(const std::string& path, const std::string& head = "") {
  const StorePtr store = open_or_fail(path, StoreMode::kRead);
  Result<StoreVerification> found = verify_store(*store, head, {});
  if (!found.ok()) FAIL(to_text(found.error()));
  return std::move(found).value();
}

/// "row 5: its content was edited; row 6: ..."
inline std::string problems_text(const StoreVerification& found) {
  std::string text;
  for (const StoreProblem& problem : found.problems)
    text += fmt::format("{}row {}: {}", text.empty() ? "" : "; ", problem.sequence, problem.what);
  return text;
}

/// SQL on the file, past the store. Fails the test when the SQL fails, unless its error is asked for.
class Sql {
 public:
  explicit Sql(const std::string& path) {
    REQUIRE(sqlite3_open_v2(path.c_str(), &handle_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr) == SQLITE_OK);
  }
  Sql(const Sql&) = delete;
  Sql& operator=(const Sql&) = delete;
  ~Sql() { sqlite3_close(handle_); }

  /// Empty when it went well.
  std::string error_of(const std::string& sql) {
    char* message = nullptr;
    if (sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, &message) == SQLITE_OK) return "";
    const std::string text = message ? message : "error";
    sqlite3_free(message);
    return text;
  }
  void run(const std::string& sql) {
    INFO(sql);
    REQUIRE(error_of(sql) == "");
  }
  /// First column of the first row, as text.
  std::string text(const std::string& sql) {
    sqlite3_stmt* statement = nullptr;
    INFO(sql);
    REQUIRE(sqlite3_prepare_v2(handle_, sql.c_str(), -1, &statement, nullptr) == SQLITE_OK);
    std::string value;
    if (sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_text(statement, 0))
      value = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    return value;
  }
  /// What somebody does who wants to change rows.
  void drop_triggers() {
    run("DROP TRIGGER records_never_updated; DROP TRIGGER records_never_deleted; DROP TRIGGER records_only_appended; "
        "DROP TRIGGER state_follows");
  }
  /// Puts them back, so that only the rows tell.
  void restore_triggers(const std::vector<std::string>& triggers) {
    for (const std::string& trigger : triggers) run(trigger);
  }
  std::vector<std::string> triggers() {
    std::vector<std::string> texts;
    for (const char* name :
         {"records_never_updated", "records_never_deleted", "records_only_appended", "state_follows"})
      texts.push_back(text(fmt::format("SELECT sql FROM sqlite_schema WHERE name = '{}'", name)));
    return texts;
  }

 private:
  sqlite3* handle_ = nullptr;
};

}  // namespace stepbench
