// Does a store hold what was written to it? Every row is read; what does not fit is named with its row.
//
// A row's own hash covers the hash of the row that stood before it when it was written, its id and its content. So an
// edited row shows by its own hash; a row that was removed, inserted or moved shows at a link: the row that follows
// points at another row than the one in front of it, and where that other row is now tells what happened. Rows removed
// from the end show at the head that is kept apart. Whoever can write to the file can also compute all hashes again; a
// head noted down elsewhere shows that, too.
#include <fmt/format.h>

#include "harness/stages.h"
#include "harness/store/internal.h"

namespace stepbench {
namespace {

constexpr size_t kMaxProblems = 100;

struct Link {
  int64_t sequence = 0;  ///< 0: before the first row
  std::string chain_sha256 = chain_start();
};

class Verifier {
 public:
  explicit Verifier(Database& database) : database_(database) {}

  Result<void> check_structure();
  Result<void> check_schema();
  Result<void> check_rows(const StoreProgress& progress);
  Result<void> check_head(const std::string& noted);
  StoreVerification take() { return std::move(found_); }

 private:
  void report(int64_t sequence, std::string_view id, std::string what);
  void check_content(const Statement& row);
  Result<void> check_link(int64_t sequence, std::string_view id, std::string_view previous);
  Result<int64_t> row_with_hash(std::string_view chain_sha256);

  Database& database_;
  StoreVerification found_;
  Link last_;
};

void Verifier::report(int64_t sequence, std::string_view id, std::string what) {
  if (found_.problems.size() < kMaxProblems)
    found_.problems.push_back({sequence, std::string(id), std::move(what)});
  else
    ++found_.more_problems;
}

Result<void> Verifier::check_structure() {
  Result<Statement> check = database_.prepare("PRAGMA integrity_check(10)");
  if (!check.ok()) return check.error();
  while (true) {
    const Result<bool> more = check.value().step();
    if (!more.ok()) return more.error();
    if (!more.value()) return {};
    if (check.value().text(0) != "ok") report(0, "", fmt::format("SQLite finds damage: {}", check.value().text(0)));
  }
}

Result<void> Verifier::check_schema() {
  for (const SchemaObject& object : schema_objects()) {
    Result<Statement> select = database_.prepare("SELECT sql FROM sqlite_schema WHERE name = ?");
    if (!select.ok()) return select.error();
    const Result<bool> row = select.value().bind(object.name).step();
    if (!row.ok()) return row.error();
    if (!row.value())
      report(0, "", fmt::format("the schema's `{}` was removed", object.name));
    else if (select.value().text(0) != object.sql)
      report(0, "", fmt::format("the schema's `{}` was changed", object.name));
  }
  return {};
}

Result<int64_t> Verifier::row_with_hash(std::string_view chain_sha256) {
  Result<Statement> select = database_.prepare("SELECT sequence FROM records WHERE chain_sha256 = ?");
  if (!select.ok()) return select.error();
  const Result<bool> row = select.value().bind(chain_sha256).step();
  if (!row.ok()) return row.error();
  return row.value() ? select.value().integer(0) : 0;
}

/// The row's own hashes, its text, and the facts beside it. Columns: see check_rows.
void Verifier::check_content(const Statement& row) {
  const int64_t sequence = row.integer(0);
  const std::string_view id = row.text(1), content = row.text(2), previous = row.text(3), json = row.text(5);
  if (sha256_hex(json) != content) {
    report(sequence, id, "its content was edited");
    return;
  }
  if (chain_hash(previous, id, content) != row.text(4)) {
    report(sequence, id, "its id or its hashes were edited");
    return;
  }
  const Result<EvalRecord> record = record_from_json(json);
  if (!record.ok()) {
    report(sequence, id, fmt::format("its content is no record: {}", to_text(record.error())));
    return;
  }
  if (row.is_null(6)) {
    report(sequence, id, "its row of small facts is missing");
    return;
  }
  StoreRow facts;
  read_facts(row, 6, facts);
  const StoreRow expected = facts_of(record.value());
  if (const std::string name = different_fact(expected, facts); !name.empty())
    report(sequence, id, fmt::format("its small fact `{}` is not that of its content", name));
  if (record.value().id != id) report(sequence, id, fmt::format("its content is that of record {}", record.value().id));
}

/// What stands in front of this row must be what stood there when it was written.
Result<void> Verifier::check_link(int64_t sequence, std::string_view id, std::string_view previous) {
  const bool has_gap = sequence != last_.sequence + 1;
  if (previous == last_.chain_sha256) {
    if (has_gap) report(sequence, id, fmt::format("it was renumbered: it follows row {}", last_.sequence));
    return {};
  }
  Result<int64_t> followed = 0;
  const bool is_first = previous == chain_start();
  if (!is_first) followed = row_with_hash(previous);
  if (!followed.ok()) return followed.error();
  if (!is_first && followed.value() == 0) {
    if (has_gap && last_.sequence + 1 == sequence - 1)
      report(sequence - 1, "", "it was removed");
    else if (has_gap)
      report(last_.sequence + 1, "", fmt::format("rows {} to {} were removed", last_.sequence + 1, sequence - 1));
    else
      report(sequence, id, "the row that stood before it was removed or replaced");
  } else if (followed.value() >= sequence) {
    report(sequence, id, fmt::format("it was moved: it was written after row {}", followed.value()));
  } else if (followed.value() + 1 == last_.sequence) {
    report(last_.sequence, "",
           fmt::format("it was inserted or moved: row {} was written after row {}", sequence, followed.value()));
  } else {
    report(sequence, id,
           fmt::format("rows {} to {} before it were inserted, or it was moved: it was written after "
                       "row {}",
                       followed.value() + 1, last_.sequence, followed.value()));
  }
  return {};
}

Result<void> Verifier::check_rows(const StoreProgress& progress) {
  const Result<int64_t> total = database_.integer("SELECT count(*) FROM records");
  if (!total.ok()) return total.error();
  Result<Statement> rows = database_.prepare(
      fmt::format("SELECT r.sequence, r.id, r.content_sha256, r.previous_sha256, r.chain_sha256, r.json, {} "
                  "FROM records AS r LEFT JOIN facts AS f ON f.sequence = r.sequence ORDER BY r.sequence",
                  facts_columns()));
  if (!rows.ok()) return rows.error();
  while (true) {
    const Result<bool> more = rows.value().step();
    if (!more.ok()) return more.error();
    if (!more.value()) break;
    const Statement& row = rows.value();
    check_content(row);
    if (Result<void> linked = check_link(row.integer(0), row.text(1), row.text(3)); !linked.ok()) return linked;
    last_ = {row.integer(0), std::string(row.text(4))};
    ++found_.records;
    if (progress && found_.records % kProgressRows == 0) progress(found_.records, total.value());
  }
  found_.head = last_.chain_sha256;
  const Result<int64_t> orphans =
      database_.integer("SELECT count(*) FROM facts WHERE sequence NOT IN (SELECT sequence FROM records)");
  if (!orphans.ok()) return orphans.error();
  if (orphans.value() > 0) report(0, "", fmt::format("{} rows of small facts have no record", orphans.value()));
  return {};
}

Result<void> Verifier::check_head(const std::string& noted) {
  Result<Statement> select = database_.prepare("SELECT records, head_sha256 FROM state");
  if (!select.ok()) return select.error();
  const Result<bool> row = select.value().step();
  if (!row.ok()) return row.error();
  const int64_t records = row.value() ? select.value().integer(0) : 0;
  const std::string_view head = row.value() ? select.value().text(1) : std::string_view();
  if (records > last_.sequence)
    report(last_.sequence + 1, "",
           fmt::format("rows {} to {}, the last ones written, were removed", last_.sequence + 1, records));
  else if (records < last_.sequence)
    report(last_.sequence, "", fmt::format("its number is beyond the {} rows that were written", records));
  else if (head != last_.chain_sha256)
    report(last_.sequence, "", "it is not the last row that was written: rows were added or replaced at the end");
  if (noted.empty() || noted == chain_start()) return {};
  const Result<int64_t> known = row_with_hash(noted);
  if (!known.ok()) return known.error();
  if (known.value() == 0)
    report(0, "", fmt::format("no row has the noted head {}: earlier rows were rewritten", noted));
  return {};
}

}  // namespace

Result<StoreVerification> verify_store(Store& store, const std::string& head, const StoreProgress& progress) {
  Verifier verifier(store.database);
  // One snapshot for all questions, however much is appended meanwhile.
  Result<Transaction> snapshot = Transaction::begin(store.database, false);
  if (!snapshot.ok()) return snapshot.error();
  if (const Result<void> done = verifier.check_structure(); !done.ok()) return done.error();
  if (const Result<void> done = verifier.check_schema(); !done.ok()) return done.error();
  if (const Result<void> done = verifier.check_rows(progress); !done.ok()) return done.error();
  if (const Result<void> done = verifier.check_head(head); !done.ok()) return done.error();
  return verifier.take();
}

}  // namespace stepbench
