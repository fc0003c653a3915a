// The folder is read once, and only the keys are kept: records with their sources and curves are large.
#include "harness/resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <tuple>
#include <vector>

#include "harness/record_folder.h"

namespace stepbench {
namespace {

namespace fs = std::filesystem;

/// Regular files but hidden ones (which are files still being written), by name.
Result<std::vector<fs::path>> visible_files(const std::string& folder) {
  std::vector<fs::path> files;
  std::error_code status;
  fs::directory_iterator entry(folder, status);
  if (status == std::errc::no_such_file_or_directory) return files;
  for (; !status && entry != fs::directory_iterator(); entry.increment(status)) {
    std::error_code unreadable;
    if (entry->is_regular_file(unreadable) && !entry->path().filename().string().starts_with("."))
      files.push_back(entry->path());
  }
  if (status) return Error{ErrorCode::kIo, "cannot read the records folder: " + status.message(), folder, "", ""};
  std::sort(files.begin(), files.end());
  return files;
}

int64_t written_ns(const fs::path& path) {
  std::error_code status;
  const fs::file_time_type time = fs::last_write_time(path, status);
  return status ? 0 : std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

}  // namespace

bool is_finished(const EvalRecord& record) {
  if (record.verdict == Verdict::kHarnessError || record.candidate.sha256.empty()) return false;
  // A pass of a whole evaluation has counted its traffic, the last thing that is done.
  return record.verdict != Verdict::kPassed || record.traffic_params > 0;
}

ResumeKey resume_key(const EvalRecord& record) {
  return {record.candidate.sha256,   record.task,
          record.task_version,       record.suite,
          record.environment.device, record.environment.stepbench_version};
}

Result<FinishedRecords> find_finished(const std::string& folder, const std::string& salt) {
  Result<std::vector<fs::path>> files = visible_files(folder);
  if (!files.ok()) return files.error();
  FinishedRecords finished;
  for (const fs::path& file : files.value()) {
    std::optional<EvalRecord> record;
    if (file.extension() == ".json") {
      Result<EvalRecord> read = find_record(folder, file.string());
      if (read.ok()) record = std::move(read.value());
    }
    if (!record) {
      if (finished.ignored++ == 0) finished.first_ignored = file.filename().string();
      continue;
    }
    if (!is_finished(*record) || (!salt.empty() && record->salt != salt)) continue;
    FinishedRecord found{file.string(), record->created_utc, written_ns(file)};
    FinishedRecord& newest = finished.newest[resume_key(*record)];
    if (newest.path.empty() ||
        std::tie(newest.created_utc, newest.written_ns) <= std::tie(found.created_utc, found.written_ns))
      newest = std::move(found);
  }
  return finished;
}

std::string ignored_text(const FinishedRecords& finished, const std::string& folder) {
  if (finished.ignored == 0) return "";
  return fmt::format("{} {} in {} {} ignored, being no {}: {}{}", finished.ignored,
                     finished.ignored == 1 ? "file" : "files", folder, finished.ignored == 1 ? "is" : "are",
                     finished.ignored == 1 ? "record" : "records", finished.first_ignored,
                     finished.ignored == 1 ? "" : " and others");
}

Result<std::optional<EvalRecord>> finished_record(const FinishedRecords& finished, const ResumeKey& key) {
  const auto found = finished.newest.find(key);
  if (found == finished.newest.end()) return std::optional<EvalRecord>();
  Result<EvalRecord> record = find_record("", found->second.path);
  if (!record.ok()) return record.error();
  return std::optional<EvalRecord>(std::move(record.value()));
}

}  // namespace stepbench
