// The small facts of a record: taken from it, written to and read from their table.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <concepts>

#include "harness/resume.h"
#include "harness/stages.h"
#include "harness/store/columns.h"
#include "harness/store/internal.h"
#include "scoring/score.h"

namespace stepbench {
namespace {

struct Namer {
  std::vector<std::string> names;
  template <class T>
  void operator()(const char* name, T&) {
    names.emplace_back(name);
  }
};

std::vector<std::string> column_names() {
  Namer namer;
  const StoreRow row;
  columns(namer, row);
  return namer.names;
}

struct Binder {
  Statement& statement;
  void operator()(const char*, const std::string& value) { statement.bind(value); }
  void operator()(const char*, double value) { statement.bind(value); }
  void operator()(const char*, Verdict value) { statement.bind(to_text(value)); }
  template <std::integral T>
  void operator()(const char*, T value) {
    statement.bind(static_cast<int64_t>(value));
  }
};

struct RowReader {
  const Statement& statement;
  int column;
  void operator()(const char*, std::string& value) { value.assign(statement.text(column++)); }
  void operator()(const char*, double& value) { value = statement.number(column++); }
  void operator()(const char*, Verdict& value) {
    value = verdict_from_text(statement.text(column++)).value_or(Verdict::kHarnessError);
  }
  void operator()(const char*, bool& value) { value = statement.integer(column++) != 0; }
  template <std::integral T>
  void operator()(const char*, T& value) {
    value = static_cast<T>(statement.integer(column++));
  }
};

/// Collects every column as text, so that two rows can be compared name by name.
struct Printer {
  std::vector<std::pair<const char*, std::string>> values;
  void operator()(const char* name, const std::string& value) { values.emplace_back(name, value); }
  void operator()(const char* name, double value) {
    values.emplace_back(name, std::isnan(value) ? "nan" : fmt::format("{:a}", value));
  }
  void operator()(const char* name, Verdict value) { values.emplace_back(name, to_text(value)); }
  template <std::integral T>
  void operator()(const char* name, T value) {
    values.emplace_back(name, fmt::format("{}", value));
  }
};

std::string where_of(const Failure& failure) {
  return failure.case_name.empty() ? failure.check : failure.check + " " + failure.case_name;
}

StoreScore store_score(const EvalRecord& record) {
  const Score score = score_of(record);
  StoreScore stored;
  if (!score.speedup) return stored;
  stored.speedup = *score.speedup;
  stored.low = *score.low;
  stored.high = *score.high;
  stored.floor_ratio = score.floor_ratio.value_or(0);
  stored.retention_ratio = score.retention_ratio.value_or(0);
  for (const ListScore& list : score.lists) stored.lists += list.hidden ? 0 : 1;
  return stored;
}

}  // namespace

StoreRow facts_of(const EvalRecord& record) {
  StoreRow row;
  row.id = record.id;
  row.created_utc = record.created_utc;
  row.task = record.task;
  row.task_version = record.task_version;
  row.suite = record.suite;
  row.salt = record.salt;
  row.verdict = record.verdict;
  if (record.failure) row.failed_in = where_of(*record.failure);
  row.whole = is_finished(record);
  row.candidate_sha256 = record.candidate.sha256;
  row.path = record.candidate.path;
  if (record.submission) {
    row.submission = record.submission->name;
    row.model = record.submission->model;
    row.round = record.submission->round;
    row.prompt_tokens = record.submission->prompt_tokens;
    row.completion_tokens = record.submission->completion_tokens;
    row.cost_usd = record.submission->cost_usd;
  }
  row.stepbench_version = record.environment.stepbench_version;
  row.device = record.environment.device;
  row.gpu_uuid = record.environment.gpu_uuid;
  row.driver = record.environment.driver;
  row.compiler = record.environment.compiler;
  if (!record.timing.empty()) {
    row.baseline = record.timing.front().baseline;
    row.method = record.timing.front().method;
  }
  row.wall_ms = record.wall_ms;
  for (const KernelResources& kernel : record.resources) row.registers = std::max(row.registers, kernel.registers);
  row.modelled_bytes_per_param = record.modelled_bytes_per_param;
  row.ideal_bytes_per_param = record.ideal_bytes_per_param;
  row.score = store_score(record);
  return row;
}

std::string insert_facts_sql() {
  std::string names = "sequence", marks = "?";
  for (const std::string& name : column_names()) {
    names += ", " + name;
    marks += ", ?";
  }
  return fmt::format("INSERT INTO facts ({}) VALUES ({})", names, marks);
}

Result<void> insert_facts(Statement& insert, const StoreRow& row) {
  insert.reset();
  insert.bind(row.sequence);
  Binder binder{insert};
  columns(binder, row);
  return insert.run();
}

std::string facts_columns() {
  std::string text = "f.sequence";
  for (const std::string& name : column_names()) text += ", f." + name;
  return text;
}

void read_facts(const Statement& statement, int first_column, StoreRow& row) {
  row.sequence = statement.integer(first_column);
  RowReader reader{statement, first_column + 1};
  columns(reader, row);
}

std::string different_fact(const StoreRow& a, const StoreRow& b) {
  Printer first, second;
  columns(first, a);
  columns(second, b);
  for (size_t i = 0; i < first.values.size(); ++i)
    if (first.values[i].second != second.values[i].second) return first.values[i].first;
  return "";
}

Result<void> rebuild_facts(Database& database) {
  if (Result<void> emptied = database.run("DELETE FROM facts"); !emptied.ok()) return emptied;
  Result<Statement> rows = database.prepare("SELECT sequence, json FROM records ORDER BY sequence");
  if (!rows.ok()) return rows.error();
  Result<Statement> insert = database.prepare(insert_facts_sql());
  if (!insert.ok()) return insert.error();
  while (true) {
    const Result<bool> more = rows.value().step();
    if (!more.ok()) return more.error();
    if (!more.value()) return {};
    const Result<EvalRecord> record = record_from_json(rows.value().text(1));
    if (!record.ok()) continue;  // `store verify` tells of it
    StoreRow row = facts_of(record.value());
    row.sequence = rows.value().integer(0);
    if (Result<void> inserted = insert_facts(insert.value(), row); !inserted.ok()) return inserted;
  }
}

}  // namespace stepbench
