// A file is a store when it begins like a SQLite database, one JSON text when it is named .json or begins with '[', and
// JSON Lines else.
#include "harness/record_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <tuple>

#include "harness/record_folder.h"
#include "harness/stages.h"
#include "harness/store.h"
#include "harness/store/internal.h"

namespace stepbench {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxFileBytes = 1ull << 30;
constexpr size_t kMaxLineBytes = 256u << 20;
constexpr std::string_view kSqliteStart("SQLite format 3\0", 16);  // "Database File Format", section 1.3.1

/// task, submission's name, path, task version, suite, device
using Key = std::tuple<std::string, std::string, std::string, int32_t, std::string, std::string>;

Key key_of(const EvalRecord& record) {
  return {record.task,           record.submission ? record.submission->name : "",
          record.candidate.path, record.task_version,
          record.suite,          record.environment.device};
}

class Newest {
 public:
  explicit Newest(const std::string& task) : task_(task) {}

  void take(EvalRecord record) {
    if (!task_.empty() && record.task != task_) return;
    ++source_.read;
    // A pass of a whole evaluation has counted its traffic, the last thing that is done.
    if (record.verdict == Verdict::kPassed && record.traffic_params == 0) {
      ++source_.partial;
      return;
    }
    const auto [place, is_new] = by_key_.try_emplace(key_of(record), source_.records.size());
    if (is_new) {
      source_.records.push_back(std::move(record));
      return;
    }
    EvalRecord& kept = source_.records[place->second];
    if (std::tie(record.created_utc, record.id) > std::tie(kept.created_utc, kept.id)) kept = std::move(record);
  }
  Result<void> take_text(std::string_view json, const std::string& place) {
    Result<EvalRecord> record = record_from_json(json);
    if (!record.ok()) {
      Error error = record.error();
      error.place = error.place.empty() ? place : place + ": " + error.place;
      return error;
    }
    take(std::move(record.value()));
    return {};
  }
  void refuse(const Error& error) {
    if (source_.unreadable++ == 0) source_.first_unreadable = to_text(error);
  }
  RecordSource result() { return std::move(source_); }

 private:
  std::string task_;
  RecordSource source_;
  std::map<Key, size_t> by_key_;
};

Result<void> take_lines(const std::string& path, Newest& newest) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{ErrorCode::kIo, "cannot read the file", path, "", ""};
  std::string line;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    const std::string place = fmt::format("{}:{}", path, number);
    if (line.size() > kMaxLineBytes)
      return Error{ErrorCode::kInvalidInput, "line too long", place, fmt::format("{} bytes at most", kMaxLineBytes),
                   ""};
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (Result<void> taken = newest.take_text(line, place); !taken.ok()) return taken;
  }
  if (file.bad()) return Error{ErrorCode::kIo, "cannot read the file", path, "", ""};
  return {};
}

/// One record, or a list of them as `stepbench eval --json` writes it.
Result<void> take_json(const std::string& path, Newest& newest) {
  const Result<std::string> text = read_file(path, kMaxFileBytes);
  if (!text.ok()) return text.error();
  const Result<std::vector<std::string>> members = split_json_list(text.value());
  if (!members.ok()) {
    Error error = members.error();
    error.place = error.place.empty() ? path : path + ": " + error.place;
    return error;
  }
  const bool is_list = text.value().find_first_not_of(" \t\r\n") == text.value().find('[');
  for (size_t i = 0; i < members.value().size(); ++i)
    if (Result<void> taken = newest.take_text(members.value()[i], is_list ? fmt::format("{}: /{}", path, i) : path);
        !taken.ok())
      return taken;
  return {};
}

Result<void> take_store(const std::string& path, const std::string& task, Newest& newest) {
  const Result<StorePtr> store = open_store(path, {});
  if (!store.ok()) return store.error();
  StoreFilter filter;
  filter.task = task;
  filter.newest_first = true;
  std::set<Key> seen;
  std::optional<Error> problem;
  const Result<int64_t> visited = for_each_row(*store.value(), filter, [&](const StoreRow& row) {
    // Records of single checks are named by Newest; all else is loaded once per key.
    if (row.whole && !seen.insert({row.task, row.submission, row.path, row.task_version, row.suite, row.device}).second)
      return true;
    Result<EvalRecord> record = load_record(*store.value(), row.id);
    if (!record.ok()) {
      problem = record.error();
      return false;
    }
    newest.take(std::move(record.value()));
    return true;
  });
  if (problem) return *problem;
  if (!visited.ok()) return visited.error();
  return {};
}

Result<void> take_file(const std::string& path, const std::string& task, Newest& newest) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::error_code status;
    if (!fs::exists(path, status)) return Error{ErrorCode::kNotFound, "no such file or folder", path, "", ""};
    return Error{ErrorCode::kIo, "cannot read the file", path, "", ""};
  }
  std::string start(kSqliteStart.size(), '\0');
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<size_t>(std::max<std::streamsize>(0, file.gcount())));
  if (start == kSqliteStart) return take_store(path, task, newest);
  const size_t first = start.find_first_not_of(" \t\r\n");
  const bool is_list = first != std::string::npos && start[first] == '[';
  return is_list || path.ends_with(".json") ? take_json(path, newest) : take_lines(path, newest);
}

Result<void> take_folder(const std::string& path, const std::string& task, Newest& newest) {
  std::error_code status;
  std::vector<std::string> files;
  for (fs::directory_iterator entry(path, status); !status && entry != fs::directory_iterator();
       entry.increment(status)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(".") && (name.ends_with(".json") || name.ends_with(".jsonl")))
      files.push_back(entry->path().string());
  }
  if (status) return Error{ErrorCode::kIo, "cannot list the folder: " + status.message(), path, "", ""};
  std::sort(files.begin(), files.end());
  for (const std::string& file : files)
    if (const Result<void> taken = take_file(file, task, newest); !taken.ok()) {
      if (taken.error().code != ErrorCode::kInvalidRecord) return taken;
      newest.refuse(taken.error());
    }
  return {};
}

}  // namespace

Result<RecordSource> load_records(const std::string& path, const std::string& task) {
  Newest newest(task);
  std::error_code status;
  const Result<void> taken =
      fs::is_directory(path, status) ? take_folder(path, task, newest) : take_file(path, task, newest);
  if (!taken.ok()) return taken.error();
  return newest.result();
}

}  // namespace stepbench
