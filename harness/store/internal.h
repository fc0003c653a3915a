// What the files of this folder share: the connection of a store, the schema's texts, and the small facts of a record.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/store.h"
#include "harness/store/database.h"
#include "scoring/score.h"

namespace stepbench {

class Store {
 public:
  explicit Store(Database opened) : database(std::move(opened)) {}
  Database database;
};

// ---------------------------------------------------------------------------------------------- schema.cc
inline constexpr int64_t kApplicationId = 0x53744273;  ///< "StBs": marks the file as a store
inline constexpr int64_t kSchemaVersion = 2;

/// Table, index or trigger, as SQLite keeps its text.
struct SchemaObject {
  const char* name;
  const char* sql;
};
/// All objects of the newest schema: what a whole store has.
std::span<const SchemaObject> schema_objects();

// ---------------------------------------------------------------------------------------------- record_text.cc
/// A record's JSON on one line, as a store keeps it and hashes it: members in the order given, those unknown to this
/// version included, numbers and text as record_to_json writes them. kInvalidRecord when it is no JSON object or nested
/// deeper than any record is; whether it is a record, record_from_json says.
Result<std::string> canonical_record_json(std::string_view text);
/// The members of a list of JSON values as one text each, or the value itself when it is no list. kInvalidRecord.
Result<std::vector<std::string>> split_json_list(std::string_view text);

// ---------------------------------------------------------------------------------------------- append.cc
inline constexpr size_t kIdDigits = 16;
inline constexpr size_t kMinIdDigits = 4;

/// What stands before the first row: 64 zeros.
const std::string& chain_start();
/// Hash of a row over the row before it, its id and its content.
std::string chain_hash(std::string_view previous, std::string_view id, std::string_view content_sha256);
/// A record's text, checked and ready to be appended.
struct PreparedRecord {
  std::string json;
  std::string content_sha256;
  StoreRow facts;
};
Result<PreparedRecord> prepare_record(std::string_view json);
/// Inside a writing transaction of the caller. Sets the record's sequence.
Result<Appended> append_in_transaction(Database& database, PreparedRecord& record);

// ---------------------------------------------------------------------------------------------- facts.cc
/// Raised with every change of what `facts_of` gives, so that stores compute their rows again. Scores have a version of
/// their own.
inline constexpr int64_t kFactsVersion = 100 * kScoreVersion + 1;

/// All but `sequence`.
StoreRow facts_of(const EvalRecord& record);
Result<void> insert_facts(Statement& insert, const StoreRow& row);
std::string insert_facts_sql();
/// "f.sequence, f.id, ...", in the order in which read_facts takes them.
std::string facts_columns();
/// Keeps the strings' memory of an earlier row.
void read_facts(const Statement& statement, int first_column, StoreRow& row);
/// Name of the first fact that differs; empty when none does.
std::string different_fact(const StoreRow& a, const StoreRow& b);
/// Computes the facts of all rows again, inside a transaction of the caller. Rows whose text is no record get none.
Result<void> rebuild_facts(Database& database);

// ---------------------------------------------------------------------------------------------- rows.cc
inline constexpr int64_t kProgressRows = 64;  ///< between two calls of a StoreProgress

/// The text of a record as it was appended; kInvalidRecord when it is another one now. Columns of `row` are given.
Result<std::string> checked_text(const Statement& row, int64_t sequence, int json, int content);
/// `select` over facts AS f, followed by the filter's conditions; with order and limit when `in_order`.
Result<Statement> prepare_filtered(Database& database, const std::string& select, const StoreFilter& filter,
                                   bool in_order);

}  // namespace stepbench
