// Import of JSON Lines, record files and other stores. Records are taken one at a time and committed in groups, so that
// neither the size of the input nor the number of its lines matters; a line that is no record costs that line only.
#include <fmt/format.h>

#include <istream>

#include "harness/store/internal.h"

namespace stepbench {
namespace {

constexpr size_t kMaxLineBytes = 256u << 20;
constexpr size_t kMaxBadLines = 100;
// A commit waits for the disk; one per record would make that the time of an import.
constexpr size_t kGroupRecords = 256;
constexpr size_t kGroupBytes = 16u << 20;

enum class LineEnd : uint8_t { kLine, kTooLong, kEnd };

/// The next line without its end; one that is too long is skipped to its end.
LineEnd read_line(std::istream& in, std::string& line) {
  line.clear();
  std::streambuf& buffer = *in.rdbuf();
  bool is_too_long = false, is_empty = true;
  while (true) {
    const int c = buffer.sbumpc();
    if (c == std::char_traits<char>::eof()) {
      in.setstate(std::ios::eofbit);
      break;
    }
    is_empty = false;
    if (c == '\n') break;
    if (is_too_long) continue;
    line += static_cast<char>(c);
    if (line.size() > kMaxLineBytes) {
      is_too_long = true;
      line = {};
    }
  }
  if (is_too_long) return LineEnd::kTooLong;
  return is_empty ? LineEnd::kEnd : LineEnd::kLine;
}

class Importer {
 public:
  explicit Importer(Database& database) : database_(database) {}

  /// A text that is no record is noted; an Error is about the store.
  Result<void> take(std::string_view json, const std::string& place);
  void refuse(Error error, const std::string& place);
  /// Appends what was taken since the last time. The lock is held for that only, and not while input is awaited.
  Result<void> write_group();
  StoreImport report() const { return report_; }

 private:
  struct Waiting {
    PreparedRecord record;
    std::string place;
  };
  Database& database_;
  std::vector<Waiting> group_;
  size_t group_bytes_ = 0;
  StoreImport report_;
};

void Importer::refuse(Error error, const std::string& place) {
  error.place = error.place.empty() ? place : fmt::format("{}: {}", place, error.place);
  if (report_.bad_lines.size() < kMaxBadLines)
    report_.bad_lines.push_back(std::move(error));
  else
    ++report_.more_bad_lines;
}

Result<void> Importer::take(std::string_view json, const std::string& place) {
  Result<PreparedRecord> record = prepare_record(json);
  if (!record.ok()) {
    refuse(record.error(), place);
    return {};
  }
  group_bytes_ += record.value().json.size();
  group_.push_back({std::move(record).value(), place});
  if (group_.size() < kGroupRecords && group_bytes_ < kGroupBytes) return {};
  return write_group();
}

Result<void> Importer::write_group() {
  if (group_.empty()) return {};
  Result<Transaction> transaction = Transaction::begin(database_, true);
  if (!transaction.ok()) return transaction.error();
  int64_t added = 0, already_there = 0;
  for (Waiting& waiting : group_) {
    const Result<Appended> appended = append_in_transaction(database_, waiting.record);
    if (appended.ok())
      ++(appended.value().added ? added : already_there);
    else if (appended.error().code == ErrorCode::kInvalidRecord)
      refuse(appended.error(), waiting.place);
    else
      return appended.error();
  }
  if (Result<void> committed = transaction.value().commit(); !committed.ok()) return committed;
  report_.added += added;
  report_.already_there += already_there;
  group_.clear();
  group_bytes_ = 0;
  return {};
}

}  // namespace

Result<StoreImport> import_records(Store& store, std::istream& in, const std::string& name,
                                   const StoreProgress& progress) {
  Importer importer(store.database);
  std::string line;
  for (int64_t number = 1;; ++number) {
    const LineEnd end = read_line(in, line);
    if (end == LineEnd::kEnd) break;
    const std::string place = fmt::format("{}:{}", name, number);
    if (progress && number % kProgressRows == 0) progress(number, 0);
    if (end == LineEnd::kTooLong) {
      importer.refuse(
          {ErrorCode::kInvalidRecord, "line too long", "", fmt::format("{} bytes at most", kMaxLineBytes), ""}, place);
      continue;
    }
    if (line.ends_with('\r')) line.pop_back();
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    if (const Result<void> taken = importer.take(line, place); !taken.ok()) return taken.error();
  }
  if (const Result<void> committed = importer.write_group(); !committed.ok()) return committed.error();
  if (in.bad()) return Error{ErrorCode::kIo, "cannot read the file to its end", name, "", ""};
  return importer.report();
}

Result<StoreImport> import_record_file(Store& store, std::string_view json, const std::string& name) {
  Importer importer(store.database);
  const Result<std::vector<std::string>> records = split_json_list(json);
  if (!records.ok()) {
    importer.refuse(records.error(), name);
    return importer.report();
  }
  const bool is_list = records.value().size() != 1;
  for (size_t i = 0; i < records.value().size(); ++i) {
    const std::string place = is_list ? fmt::format("{}: /{}", name, i) : name;
    if (const Result<void> taken = importer.take(records.value()[i], place); !taken.ok()) return taken.error();
  }
  if (const Result<void> committed = importer.write_group(); !committed.ok()) return committed.error();
  return importer.report();
}

Result<StoreImport> import_store(Store& store, Store& from, const StoreProgress& progress) {
  Importer importer(store.database);
  const Result<int64_t> total = from.database.integer("SELECT count(*) FROM records");
  if (!total.ok()) return total.error();
  Result<Statement> rows =
      from.database.prepare("SELECT sequence, json, content_sha256 FROM records ORDER BY sequence");
  if (!rows.ok()) return rows.error();
  for (int64_t count = 0;; ++count) {
    const Result<bool> more = rows.value().step();
    if (!more.ok()) return more.error();
    if (!more.value()) break;
    if (progress && count % kProgressRows == 0) progress(count, total.value());
    const int64_t sequence = rows.value().integer(0);
    const Result<std::string> text = checked_text(rows.value(), sequence, 1, 2);
    if (!text.ok())
      importer.refuse(text.error(), path_of(from));
    else if (const Result<void> taken = importer.take(text.value(), fmt::format("{}: row {}", path_of(from), sequence));
             !taken.ok())
      return taken.error();
  }
  if (const Result<void> written = importer.write_group(); !written.ok()) return written.error();
  return importer.report();
}

}  // namespace stepbench
