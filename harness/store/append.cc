// Appending: canonical text, hashes, and the two rows of a record in one transaction.
#include <fmt/format.h>

#include <algorithm>

#include "harness/record.h"
#include "harness/stages.h"
#include "harness/store/internal.h"

namespace stepbench {
namespace {

bool is_id(const std::string& id) {
  return id.size() == kIdDigits &&
         std::all_of(id.begin(), id.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

/// The row with this id, if there is one.
struct Existing {
  int64_t sequence = 0;  ///< 0: none
  std::string content_sha256;
};

Result<Existing> find_existing(Database& database, const std::string& id) {
  Result<Statement> select = database.prepare("SELECT sequence, content_sha256 FROM records WHERE id = ?");
  if (!select.ok()) return select.error();
  const Result<bool> row = select.value().bind(id).step();
  if (!row.ok()) return row.error();
  if (!row.value()) return Existing{};
  return Existing{select.value().integer(0), std::string(select.value().text(1))};
}

struct Head {
  int64_t records = 0;
  std::string sha256;
};

Result<Head> read_head(Database& database) {
  Result<Statement> select = database.prepare("SELECT records, head_sha256 FROM state");
  if (!select.ok()) return select.error();
  const Result<bool> row = select.value().step();
  if (!row.ok()) return row.error();
  if (!row.value())
    return Error{ErrorCode::kInvalidInput, "the store is damaged", database.path(), "a table `state` with one row",
                 "none"};
  return Head{select.value().integer(0), std::string(select.value().text(1))};
}

}  // namespace

const std::string& chain_start() {
  static const std::string start(64, '0');
  return start;
}

std::string chain_hash(std::string_view previous, std::string_view id, std::string_view content_sha256) {
  return sha256_hex(fmt::format("{}\n{}\n{}", previous, id, content_sha256));
}

Result<PreparedRecord> prepare_record(std::string_view json) {
  Result<std::string> canonical = canonical_record_json(json);
  if (!canonical.ok()) return canonical.error();
  const Result<EvalRecord> record = record_from_json(canonical.value());
  if (!record.ok()) return record.error();
  if (!is_id(record.value().id))
    return Error{ErrorCode::kInvalidRecord, "not a record's id", "/id", "16 lower-case hex digits", record.value().id};
  PreparedRecord prepared;
  prepared.json = std::move(canonical).value();
  prepared.content_sha256 = sha256_hex(prepared.json);
  prepared.facts = facts_of(record.value());
  return prepared;
}

Result<Appended> append_in_transaction(Database& database, PreparedRecord& record) {
  const std::string& id = record.facts.id;
  const Result<Existing> existing = find_existing(database, id);
  if (!existing.ok()) return existing.error();
  if (existing.value().sequence > 0) {
    if (existing.value().content_sha256 == record.content_sha256) return Appended{existing.value().sequence, false};
    return Error{ErrorCode::kInvalidRecord, fmt::format("record {} is in the store with other content", id),
                 fmt::format("row {}", existing.value().sequence),
                 fmt::format("content {}", existing.value().content_sha256),
                 fmt::format("content {}", record.content_sha256)};
  }
  const Result<Head> head = read_head(database);
  if (!head.ok()) return head.error();
  record.facts.sequence = head.value().records + 1;

  Result<Statement> insert = database.prepare(
      "INSERT INTO records (sequence, id, content_sha256, previous_sha256, chain_sha256, json) "
      "VALUES (?, ?, ?, ?, ?, ?)");
  if (!insert.ok()) return insert.error();
  const Result<void> inserted = insert.value()
                                    .bind(record.facts.sequence)
                                    .bind(id)
                                    .bind(record.content_sha256)
                                    .bind(head.value().sha256)
                                    .bind(chain_hash(head.value().sha256, id, record.content_sha256))
                                    .bind(record.json)
                                    .run();
  if (!inserted.ok()) return inserted.error();
  Result<Statement> facts = database.prepare(insert_facts_sql());
  if (!facts.ok()) return facts.error();
  if (const Result<void> added = insert_facts(facts.value(), record.facts); !added.ok()) return added.error();
  return Appended{record.facts.sequence, true};
}

Result<Appended> append_record_json(Store& store, std::string_view json) {
  Result<PreparedRecord> record = prepare_record(json);  // before the lock: others may write meanwhile
  if (!record.ok()) return record.error();
  Result<Transaction> transaction = Transaction::begin(store.database, true);
  if (!transaction.ok()) return transaction.error();
  const Result<Appended> appended = append_in_transaction(store.database, record.value());
  if (!appended.ok() || !appended.value().added) return appended;
  if (const Result<void> committed = transaction.value().commit(); !committed.ok()) return committed.error();
  return appended;
}

Result<Appended> append_record(Store& store, const EvalRecord& record) {
  return append_record_json(store, record_to_json(record, -1));
}

}  // namespace stepbench
