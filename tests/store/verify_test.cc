// Tampering: what the triggers prevent, and what `verify` finds when somebody goes around them. Every row of the table
// changes a store by SQL, puts the triggers back, and says which rows must be named.
#include "tests/store/support.h"

namespace stepbench {
namespace {

constexpr int64_t kRows = 8;

TEST_CASE("SQL cannot change, remove, replace or insert records while the triggers stand") {
  const TemporaryFolder folder;
  const std::string path = folder.path("store.db");
  fill(path, kRows);
  Sql sql(path);
  const struct {
    const char* name;
    const char* sql;
    const char* says;
  } rows[] = {
      {"update", "UPDATE records SET json = '{}' WHERE sequence = 3", "records are never changed"},
      {"update of all", "UPDATE records SET content_sha256 = ''", "records are never changed"},
      {"update or replace", "UPDATE OR REPLACE records SET sequence = 2 WHERE sequence = 3",
       "records are never changed"},
      {"delete", "DELETE FROM records WHERE sequence = 3", "records are never removed"},
      {"delete of all", "DELETE FROM records", "records are never removed"},
      {"replace by number",
       "INSERT OR REPLACE INTO records SELECT sequence, 'x', 'x', 'x', 'x', 'x' FROM records LIMIT 1",
       "records are only appended"},
      {"replace by id",
       "REPLACE INTO records SELECT 9, id, 'x', (SELECT head_sha256 FROM state), 'x', 'x' FROM records "
       "LIMIT 1",
       "records are only appended"},
      {"replace by hash",
       "REPLACE INTO records SELECT 9, 'x', 'x', (SELECT head_sha256 FROM state), chain_sha256, 'x' "
       "FROM records LIMIT 1",
       "records are only appended"},
      {"upsert", "INSERT INTO records SELECT * FROM records WHERE sequence = 1 ON CONFLICT DO UPDATE SET json = ''",
       "records are only appended"},
      {"a gap", "INSERT INTO records VALUES (10, 'x', 'x', (SELECT head_sha256 FROM state), 'y', 'x')",
       "records are only appended"},
      {"another link", "INSERT INTO records VALUES (9, 'x', 'x', 'x', 'y', 'x')", "records are only appended"},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    CHECK_THAT(sql.error_of(row.sql), Catch::Contains(row.says));
  }
  const StoreVerification found = verify_or_fail(path);
  CHECK(found.records == kRows);
  CHECK(problems_text(found).empty());
}

/// Renumbers rows from `from` on by `by`, one at a time so that no number is there twice.
std::string shift(int64_t from, int64_t by) {
  std::string sql;
  for (int64_t i = 0; i <= kRows - from; ++i) {
    const int64_t row = by > 0 ? kRows - i : from + i;
    sql += fmt::format(
        "UPDATE records SET sequence = {} WHERE sequence = {}; UPDATE facts SET sequence = {} WHERE "
        "sequence = {};",
        row + by, row, row + by, row);
  }
  return sql;
}

std::string swap(int64_t a, int64_t b) {
  std::string sql;
  for (const char* table : {"records", "facts"})
    sql += fmt::format(
        "UPDATE {0} SET sequence = 0 WHERE sequence = {1}; UPDATE {0} SET sequence = {1} WHERE sequence = "
        "{2}; UPDATE {0} SET sequence = {2} WHERE sequence = 0;",
        table, a, b);
  return sql;
}

/// A row that is right in itself, following on row `after`, at the number `sequence`.
std::string insertion(Sql& sql, int64_t sequence, int64_t after) {
  const EvalRecord record = generated_record(kSeed + 1, 0);
  const std::string json = record_to_json(record, -1), content = sha256_hex(json);
  const std::string previous =
      after == 0 ? std::string(64, '0')
                 : sql.text(fmt::format("SELECT chain_sha256 FROM records WHERE sequence = {}", after));
  const std::string chain = sha256_hex(previous + "\n" + record.id + "\n" + content);
  return fmt::format("INSERT INTO records VALUES ({}, '{}', '{}', '{}', '{}', '{}')", sequence, record.id, content,
                     previous, chain, json);
}

TEST_CASE("verify names what was done to which row") {
  const EvalRecord other = generated_record(kSeed + 1, 0);
  const std::string forged = record_to_json(other, -1);
  using Damage = std::function<std::string(Sql&)>;
  const auto plain = [](const std::string& text) { return Damage([text](Sql&) { return text; }); };
  const struct {
    const char* name;
    Damage damage;
    std::vector<int64_t> rows;  ///< that must be named, all of them and no others
    const char* says;
  } cases[] = {
      {"nothing", plain(""), {}, ""},
      {"content edited",
       plain("UPDATE records SET json = replace(json, 'wall_ms\":', 'wall_ms\":1') WHERE sequence = 3"),
       {3},
       "row 3: its content was edited"},
      {"one character of white space",
       plain("UPDATE records SET json = json || ' ' WHERE sequence = 8"),
       {8},
       "row 8: its content was edited"},
      {"content and its hash edited",
       plain(fmt::format("UPDATE records SET json = '{}', content_sha256 = '{}' WHERE sequence = 3", forged,
                         sha256_hex(forged))),
       {3},
       "row 3: its id or its hashes were edited"},
      {"id edited",
       plain("UPDATE records SET id = 'ffffffffffffffff' WHERE sequence = 1"),
       {1},
       "row 1: its id or its hashes were edited"},
      {"link edited",
       plain("UPDATE records SET previous_sha256 = chain_sha256 WHERE sequence = 5"),
       {5, 5},
       "row 5: its id or its hashes were edited"},
      {"row replaced, hashes right",
       [](Sql& sql) {
         return "DELETE FROM records WHERE sequence = 4;" + insertion(sql, 4, 3) +
                ";DELETE FROM facts WHERE sequence = 4";
       },
       {4, 5},
       "row 5: the row that stood before it was removed or replaced"},
      {"middle removed",
       plain("DELETE FROM records WHERE sequence = 4; DELETE FROM facts WHERE sequence = 4"),
       {4},
       "row 4: it was removed"},
      {"three removed",
       plain("DELETE FROM records WHERE sequence BETWEEN 4 AND 6; DELETE FROM facts WHERE sequence BETWEEN 4 AND 6"),
       {4},
       "row 4: rows 4 to 6 were removed"},
      {"first removed",
       plain("DELETE FROM records WHERE sequence = 1; DELETE FROM facts WHERE sequence = 1"),
       {1},
       "row 1: it was removed"},
      {"last removed",
       plain("DELETE FROM records WHERE sequence = 8; DELETE FROM facts WHERE sequence = 8"),
       {8},
       "row 8: rows 8 to 8, the last ones written, were removed"},
      {"all removed", plain("DELETE FROM records; DELETE FROM facts"), {1}, "rows 1 to 8, the last ones written"},
      {"removed and renumbered",
       plain("DELETE FROM records WHERE sequence = 4; DELETE FROM facts WHERE sequence = 4;" + shift(5, -1)),
       {4, 8},
       "row 4: the row that stood before it was removed or replaced"},
      {"inserted and renumbered",
       [](Sql& sql) {
         const std::string insert = insertion(sql, 4, 3);
         return shift(4, 1) + insert;
       },
       {4, 4, 9},
       "row 4: it was inserted or moved: row 5 was written after row 3"},
      {"inserted at the start",
       [](Sql& sql) {
         const std::string insert = insertion(sql, 1, 0);
         return shift(1, 1) + insert;
       },
       {1, 1, 9},
       "row 1: it was inserted or moved: row 2 was written after row 0"},
      {"inserted at the end",
       [](Sql& sql) { return insertion(sql, 9, 8); },
       {9, 9},
       "row 9: its number is beyond the 8 rows that were written"},
      {"neighbours swapped", plain(swap(4, 5)), {4, 4, 5}, "row 4: it was moved: it was written after row 5"},
      {"rows far apart swapped", plain(swap(2, 7)), {2, 3, 7, 8}, "row 2: it was moved: it was written after row 6"},
      {"first and last swapped", plain(swap(1, 8)), {1, 2, 8, 8}, "row 1: it was moved: it was written after row 7"},
      {"renumbered only",
       plain("UPDATE records SET sequence = 20 WHERE sequence = 8; UPDATE facts SET sequence = 20 "
             "WHERE sequence = 8"),
       {20, 20},
       "row 20: it was renumbered: it follows row 7"},
      {"small fact edited",
       plain("UPDATE facts SET speedup = 3.5 WHERE sequence = 2"),
       {2},
       "row 2: its small fact `speedup` is not that of its content"},
      {"verdict of the small facts edited",
       plain("UPDATE facts SET verdict = 'race' WHERE sequence = 2"),
       {2},
       "row 2: its small fact `verdict`"},
      {"small facts removed",
       plain("DELETE FROM facts WHERE sequence = 2"),
       {2},
       "row 2: its row of small facts is missing"},
      {"small facts added",
       plain("UPDATE facts SET sequence = 100 WHERE sequence = 2"),
       {0, 2},
       "1 rows of small facts have no record"},
      {"head edited", plain("UPDATE state SET head_sha256 = 'x'"), {8}, "row 8: it is not the last row"},
      {"trigger removed",
       plain("DROP TRIGGER records_never_updated"),
       {0},
       "row 0: the schema's `records_never_updated` was removed"},
      {"trigger weakened",
       plain("DROP TRIGGER records_never_updated; CREATE TRIGGER records_never_updated BEFORE UPDATE ON records WHEN "
             "OLD.sequence > 5 BEGIN SELECT RAISE(ABORT, 'records are never changed'); END"),
       {0},
       "row 0: the schema's `records_never_updated` was changed"},
  };
  const TemporaryFolder folder;
  for (const auto& row : cases) {
    INFO(row.name);
    const std::string path = folder.path(std::string(row.name) + ".db");
    fill(path, kRows);
    {
      Sql sql(path);
      const std::vector<std::string> triggers = sql.triggers();
      const std::string damage = row.damage(sql);
      const bool about_triggers = damage.find("TRIGGER") != std::string::npos;
      if (!about_triggers) sql.drop_triggers();
      if (!damage.empty()) sql.run(damage);
      if (!about_triggers) sql.restore_triggers(triggers);
    }
    const StoreVerification found = verify_or_fail(path);
    const std::string text = problems_text(found);
    INFO(text);
    std::vector<int64_t> named;
    for (const StoreProblem& problem : found.problems) named.push_back(problem.sequence);
    std::sort(named.begin(), named.end());
    CHECK(named == row.rows);
    CHECK_THAT(text, Catch::Contains(row.says));
    // An edited text is not given out as the record it was.
    if (std::string_view(row.name) == "content edited") {
      const StorePtr store = open_or_fail(path, StoreMode::kRead);
      const Result<EvalRecord> loaded = load_record(*store, generated_record(kSeed, 2).id);
      REQUIRE_FALSE(loaded.ok());
      CHECK(loaded.error().code == ErrorCode::kInvalidRecord);
      CHECK_THAT(to_text(loaded.error()), Catch::Contains("changed after it was written") && Catch::Contains("row 3"));
      std::stringstream lines;
      CHECK_FALSE(export_records(*store, {}, lines).ok());
      CHECK(load_record(*store, generated_record(kSeed, 3).id).ok());
    }
  }
}

TEST_CASE("a noted head proves that earlier rows are what they were, even against somebody who computes all hashes") {
  const TemporaryFolder folder;
  const std::string path = folder.path("store.db"), forged = folder.path("forged.db");
  fill(path, 5);
  const std::string head = verify_or_fail(path).head;
  {
    const StorePtr store = open_or_fail(path);
    append_or_fail(*store, generated_record(kSeed, 5));
  }
  CHECK(verify_or_fail(path).head != head);
  CHECK(problems_text(verify_or_fail(path, head)).empty());  // the store has grown, and that is all

  const StorePtr store = open_or_fail(forged);  // the same ids, one record made better
  for (int64_t i = 0; i < 6; ++i) {
    EvalRecord record = generated_record(kSeed, i);
    if (i == 2) record.wall_ms = 1;
    append_or_fail(*store, record);
  }
  CHECK(problems_text(verify_or_fail(forged)).empty());
  CHECK_THAT(problems_text(verify_or_fail(forged, head)), Catch::Contains("no row has the noted head"));
}

TEST_CASE("the chain is the one that is documented") {
  const TemporaryFolder folder;
  const std::string path = folder.path("store.db");
  fill(path, 3);
  std::string previous(64, '0');
  for (int64_t i = 0; i < 3; ++i) {
    const EvalRecord record = generated_record(kSeed, i);
    previous = sha256_hex(previous + "\n" + record.id + "\n" + sha256_hex(record_to_json(record, -1)));
  }
  CHECK(verify_or_fail(path).head == previous);
  CHECK(Sql(path).text("SELECT head_sha256 FROM state") == previous);
  const StorePtr empty = open_or_fail(folder.path("empty.db"));
  CHECK(verify_store(*empty, "", {}).value().head == std::string(64, '0'));
}

TEST_CASE("damage to the file's bytes is told and not read past") {
  const TemporaryFolder folder;
  const std::string path = folder.path("store.db");
  fill(path, 40);
  const std::string good = read_text(path);
  const size_t page_bytes = std::stoul(Sql(path).text("PRAGMA page_size"));
  REQUIRE(good.size() > 20 * page_bytes);
  int told = 0;
  for (size_t page = 1; page < good.size() / page_bytes; ++page) {
    INFO("page " << page);
    std::string bad = good;
    for (size_t i = 0; i < page_bytes; ++i)
      bad[page * page_bytes + i] = static_cast<char>(bad[page * page_bytes + i] ^ 0x55);
    const std::string damaged = folder.write("damaged.db", bad);
    const Result<StorePtr> store = open_store(damaged, {});
    if (!store.ok()) {
      ++told;
      CHECK(store.error().code == ErrorCode::kInvalidInput);
      continue;
    }
    const Result<StoreVerification> found = verify_store(*store.value(), "", {});
    const bool is_told = !found.ok() || !found.value().problems.empty();
    CHECK(is_told);
    told += is_told ? 1 : 0;
  }
  CHECK(told == static_cast<int>(good.size() / page_bytes) - 1);
  const std::string cut = folder.write("cut.db", good.substr(0, good.size() / 2));
  const Result<StorePtr> store = open_store(cut, {});
  CHECK((!store.ok() || !verify_store(*store.value(), "", {}).ok() ||
         !verify_store(*store.value(), "", {}).value().problems.empty()));
}

TEST_CASE("of very many problems the first hundred are listed and the rest counted") {
  const TemporaryFolder folder;
  const std::string path = folder.path("store.db");
  fill(path, 130);
  {
    Sql sql(path);
    sql.run("UPDATE facts SET task = 'x'");
  }
  const StoreVerification found = verify_or_fail(path);
  CHECK(found.problems.size() == 100);
  CHECK(found.more_problems == 30);
}

}  // namespace
}  // namespace stepbench
