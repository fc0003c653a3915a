// Reading: rows by conditions, records by id.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "harness/record.h"
#include "harness/stages.h"
#include "harness/store/internal.h"

namespace stepbench {
Result<std::string> checked_text(const Statement& row, int64_t sequence, int json, int content) {
  std::string text(row.text(json));
  const std::string now = sha256_hex(text);
  if (now == row.text(content)) return text;
  return Error{ErrorCode::kInvalidRecord, "the stored record was changed after it was written",
               fmt::format("row {}", sequence), fmt::format("content {}", row.text(content)),
               fmt::format("content {}", now)};
}

Result<Statement> prepare_filtered(Database& database, const std::string& select, const StoreFilter& filter,
                                   bool in_order) {
  std::string conditions;
  std::vector<std::string_view> texts;
  std::vector<int64_t> numbers;
  const auto add = [&](std::string_view condition) {
    conditions += conditions.empty() ? " WHERE " : " AND ";
    conditions += condition;
  };
  const auto add_text = [&](std::string_view condition, std::string_view value) {
    if (value.empty()) return;
    add(condition);
    texts.push_back(value);
  };
  add_text("f.task = ?", filter.task);
  add_text("f.suite = ?", filter.suite);
  add_text("f.verdict = ?", filter.verdict ? to_text(*filter.verdict) : "");
  add_text("f.device = ?", filter.device);
  add_text("f.gpu_uuid = ?", filter.gpu_uuid);
  add_text("f.candidate_sha256 = ?", filter.candidate_sha256);
  add_text("f.submission = ?", filter.submission);
  add_text("f.model = ?", filter.model);
  add_text("f.created_utc >= ?", filter.created_from);
  add_text("f.created_utc < ?", filter.created_before);
  if (filter.task_version != 0) {
    add("f.task_version = ?");
    numbers.push_back(filter.task_version);
  }
  if (filter.after_sequence > 0) {
    add("f.sequence > ?");
    numbers.push_back(filter.after_sequence);
  }
  if (filter.only_timed) add("f.scored_lists > 0");
  if (filter.only_submitted) add("f.submission <> ''");
  std::string sql = select + conditions;
  if (in_order) sql += filter.newest_first ? " ORDER BY f.sequence DESC" : " ORDER BY f.sequence";
  if (in_order && filter.limit > 0) {
    sql += " LIMIT ?";
    numbers.push_back(filter.limit);
  }
  Result<Statement> statement = database.prepare(sql);
  if (!statement.ok()) return statement;
  for (const std::string_view text : texts) statement.value().bind(text);
  for (const int64_t number : numbers) statement.value().bind(number);
  return statement;
}

Result<int64_t> for_each_row(Store& store, const StoreFilter& filter,
                             const std::function<bool(const StoreRow&)>& visit) {
  Result<Statement> rows =
      prepare_filtered(store.database, fmt::format("SELECT {} FROM facts AS f", facts_columns()), filter, true);
  if (!rows.ok()) return rows.error();
  StoreRow row;
  for (int64_t count = 0;;) {
    const Result<bool> more = rows.value().step();
    if (!more.ok()) return more.error();
    if (!more.value()) return count;
    read_facts(rows.value(), 0, row);
    ++count;
    if (!visit(row)) return count;
  }
}

Result<int64_t> count_rows(Store& store, const StoreFilter& filter) {
  Result<Statement> count = prepare_filtered(store.database, "SELECT count(*) FROM facts AS f", filter, false);
  if (!count.ok()) return count.error();
  const Result<bool> row = count.value().step();
  if (!row.ok()) return row.error();
  const int64_t all = count.value().integer(0);
  return filter.limit > 0 ? std::min(all, filter.limit) : all;
}

Result<std::string> load_record_json(Store& store, const std::string& id) {
  if (id.size() < kMinIdDigits || !parse_hex(id).ok())
    return Error{ErrorCode::kUsage, "not a record id", "", fmt::format("{} to {} hex digits", kMinIdDigits, kIdDigits),
                 replace_invalid_utf8(id)};
  std::string first = id;
  std::transform(first.begin(), first.end(), first.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  Result<Statement> rows = store.database.prepare(
      "SELECT sequence, json, content_sha256, (SELECT count(*) FROM records WHERE id >= ?1 AND id < ?2) FROM records "
      "WHERE id >= ?1 AND id < ?2 LIMIT 1");
  if (!rows.ok()) return rows.error();
  const Result<bool> row = rows.value().bind(first).bind(first + "g").step();  // "g" comes after all hex digits
  if (!row.ok()) return row.error();
  if (!row.value())
    return Error{ErrorCode::kNotFound, "no record with this id", path_of(store), "an id printed by `stepbench submit`",
                 id};
  if (const int64_t matches = rows.value().integer(3); matches > 1)
    return Error{ErrorCode::kUsage, "more than one record id begins so", path_of(store), "more digits of the id",
                 fmt::format("{} matches for {}", matches, id)};
  return checked_text(rows.value(), rows.value().integer(0), 1, 2);
}

Result<EvalRecord> load_record(Store& store, const std::string& id) {
  const Result<std::string> text = load_record_json(store, id);
  if (!text.ok()) return text.error();
  return record_from_json(text.value());
}

Result<int64_t> export_records(Store& store, const StoreFilter& filter, std::ostream& out,
                               const StoreProgress& progress) {
  Result<int64_t> total = 0;
  if (progress) total = count_rows(store, filter);
  if (!total.ok()) return total;
  Result<Statement> rows = prepare_filtered(
      store.database,
      "SELECT f.sequence, r.json, r.content_sha256 FROM facts AS f JOIN records AS r ON r.sequence = f.sequence",
      filter, true);
  if (!rows.ok()) return rows.error();
  for (int64_t count = 0;; ++count) {
    const Result<bool> more = rows.value().step();
    if (!more.ok()) return more.error();
    if (!more.value()) {
      out.flush();
      if (!out) return Error{ErrorCode::kIo, "cannot write the records", "", "", ""};
      return count;
    }
    const Result<std::string> text = checked_text(rows.value(), rows.value().integer(0), 1, 2);
    if (!text.ok()) return text.error();
    if (progress && count % kProgressRows == 0) progress(count, total.value());
    out << text.value() << '\n';
    if (!out) return Error{ErrorCode::kIo, "cannot write the records", "", "", ""};
  }
}

}  // namespace stepbench
