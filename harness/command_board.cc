// `stepbench board`: records -> a leaderboard, as a folder of pages or as one table. What the board says stands in
// scoring/board.h; here records are read and files are written. A site is built beside its place and moved there whole,
// so that whoever reads it, or kills this, finds the old site or the new one.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "harness/commands.h"
#include "harness/record_folder.h"
#include "harness/report.h"
#include "harness/stages.h"
#include "harness/store.h"
#include "scoring/board.h"

namespace stepbench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMarkFile = ".stepbench-board";  // only folders with it are replaced
constexpr size_t kNamedProblems = 5;

Error io_error(const std::string& what, const std::string& path, int code) {
  return {ErrorCode::kIo, what + ": " + std::strerror(code), path, "", ""};
}

// ---------------------------------------------------------------------------------------------- reading

BoardRow board_row(const StoreRow& row) {
  BoardRow board;
  board.sequence = row.sequence;
  board.id = row.id;
  board.created_utc = row.created_utc;
  board.task = row.task;
  board.task_version = row.task_version;
  board.suite = row.suite;
  board.verdict = row.verdict;
  board.failed_in = row.failed_in;
  board.whole = row.whole;
  board.candidate_sha256 = row.candidate_sha256;
  board.path = row.path;
  board.author = row.submission;
  board.model = row.model;
  board.round = row.round;
  board.device = row.device;
  board.baseline = row.baseline;
  board.method = row.method;
  board.registers = row.registers;
  board.modelled_bytes_per_param = row.modelled_bytes_per_param;
  board.ideal_bytes_per_param = row.ideal_bytes_per_param;
  board.speedup = row.score.speedup;
  board.low = row.score.low;
  board.high = row.score.high;
  board.floor_ratio = row.score.floor_ratio;
  return board;
}

/// A folder that goes away with this object.
class ScratchFolder {
 public:
  ScratchFolder() = default;
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  Result<std::string> make() {
    std::error_code status;
    std::string pattern = (fs::temp_directory_path(status) / "stepbench-board-XXXXXX").string();
    if (status || !::mkdtemp(pattern.data())) return io_error("cannot create a temporary folder", pattern, errno);
    path_ = pattern;
    return path_;
  }

 private:
  std::string path_;
};

/// What could not be read; the rest is shown.
struct Problems {
  std::vector<std::string> first;
  int64_t count = 0;
  void add(const Error& error) {
    if (first.size() < kNamedProblems) first.push_back(to_text(error));
    ++count;
  }
};

/// The store that is named, or the default one; records in files go through a store of their own, so that there is one
/// way to read them all.
Result<StorePtr> open_input(const BoardArguments& arguments, ScratchFolder& scratch, Problems& problems) {
  if (arguments.inputs.empty()) {
    const Result<std::string> path = store_path(arguments.store);
    if (!path.ok()) return path.error();
    Result<StorePtr> store = open_store(path.value(), {});
    if (store.ok() || store.error().code != ErrorCode::kNotFound) return store;
    Error error = store.error();
    error.expected = "--store FILE, or a folder of records, or files of JSON Lines";
    return error;
  }
  const Result<std::string> folder = scratch.make();
  if (!folder.ok()) return folder.error();
  StoreOptions options;
  options.mode = StoreMode::kWrite;
  Result<StorePtr> store = open_store(folder.value() + "/records.db", options);
  if (!store.ok()) return store;
  for (const std::string& input : arguments.inputs) {
    const Result<std::vector<std::string>> files = files_with_records(input);
    if (!files.ok()) return files.error();
    for (const std::string& file : files.value()) {
      const Result<StoreImport> imported = import_path(*store.value(), file);
      if (!imported.ok()) return imported.error();
      for (const Error& error : imported.value().bad_lines) problems.add(error);
      problems.count += imported.value().more_bad_lines;
    }
  }
  return store;
}

// ---------------------------------------------------------------------------------------------- writing

/// A site under construction: a hidden folder beside its place.
class SiteFolder {
 public:
  SiteFolder() = default;
  SiteFolder(const SiteFolder&) = delete;
  SiteFolder& operator=(const SiteFolder&) = delete;
  ~SiteFolder() {
    std::error_code ignored;
    if (!building_.empty()) fs::remove_all(building_, ignored);
  }

  /// kUsage for a place that holds something else than a site.
  Result<void> open(const std::string& place) {
    std::error_code status;
    place_ = fs::weakly_canonical(fs::absolute(place, status), status);
    if (status) return Error{ErrorCode::kUsage, "not a usable place: " + status.message(), place, "", ""};
    if (!place_.has_filename()) place_ = place_.parent_path();
    if (!place_.has_filename()) return Error{ErrorCode::kUsage, "not a folder of its own", place, "--out DIR", ""};
    if (fs::exists(place_, status) && !is_replaceable())
      return Error{ErrorCode::kUsage, "holds something else than a board", place_.string(),
                   "an empty or new folder, or one made by `stepbench board`", ""};
    fs::create_directories(place_.parent_path(), status);
    if (status) return Error{ErrorCode::kIo, "cannot create the folder: " + status.message(), place, "", ""};
    remove_leftovers();
    building_ = name_beside("building", ::getpid());
    if (!fs::create_directory(building_, status) || status)
      return Error{ErrorCode::kIo, "cannot create the folder: " + status.message(), building_.string(), "", ""};
    return write(kMarkFile, "This folder is made by `stepbench board` and replaced as a whole by the next run.\n");
  }

  Result<void> write(const std::string& path, std::string_view bytes) {
    const fs::path file = building_ / path;
    std::error_code status;
    if (!fs::exists(file.parent_path(), status)) fs::create_directory(file.parent_path(), status);
    FILE* stream = std::fopen(file.c_str(), "wbe");
    if (!stream) return io_error("cannot create file", file.string(), errno);
    const bool written = std::fwrite(bytes.data(), 1, bytes.size(), stream) == bytes.size();
    const int code = errno;
    if (std::fclose(stream) != 0 || !written)
      return io_error("cannot write file", file.string(), written ? errno : code);
    return {};
  }

  /// Puts the site in its place; what was there goes away.
  Result<void> finish() {
    std::error_code status;
    if (!fs::exists(place_, status)) {
      if (::rename(building_.c_str(), place_.c_str()) != 0)
        return io_error("cannot move the board into place", place_.string(), errno);
      building_.clear();
      return {};
    }
    // Both names at once, so that there is a site at every moment; the old one is then where the new one was built.
    if (::renameat2(AT_FDCWD, building_.c_str(), AT_FDCWD, place_.c_str(), RENAME_EXCHANGE) == 0) return {};
    if (errno != EINVAL && errno != ENOSYS) return io_error("cannot move the board into place", place_.string(), errno);
    // A file system without that: there is no site for a moment.
    const fs::path old = name_beside("old", ::getpid());
    if (::rename(place_.c_str(), old.c_str()) != 0 || ::rename(building_.c_str(), place_.c_str()) != 0)
      return io_error("cannot move the board into place", place_.string(), errno);
    building_ = old;
    return {};
  }

 private:
  bool is_replaceable() const {
    std::error_code status;
    if (!fs::is_directory(place_, status)) return false;
    return fs::is_empty(place_, status) || fs::exists(place_ / kMarkFile, status);
  }

  fs::path name_beside(const char* what, int process) const {
    return place_.parent_path() / fmt::format(".{}.{}-{}", place_.filename().string(), what, process);
  }

  /// Folders of earlier runs that were killed.
  void remove_leftovers() const {
    std::error_code status;
    std::vector<fs::path> leftovers;
    for (const auto& entry : fs::directory_iterator(place_.parent_path(), status)) {
      const std::string name = entry.path().filename().string();
      for (const char* what : {"building", "old"}) {
        const std::string start = fmt::format(".{}.{}-", place_.filename().string(), what);
        int process = 0;
        if (!name.starts_with(start)) continue;
        const char* end = name.data() + name.size();
        const auto parsed = std::from_chars(name.data() + start.size(), end, process);
        if (parsed.ptr != end || parsed.ec != std::errc() || process <= 0) continue;
        if (::kill(process, 0) != 0 && errno == ESRCH) leftovers.push_back(entry.path());
      }
    }
    for (const fs::path& leftover : leftovers) fs::remove_all(leftover, status);
  }

  fs::path place_, building_;
};

Result<BoardSummary> write_site(const BoardInput& input, const BoardArguments& arguments) {
  SiteFolder folder;
  if (const Result<void> opened = folder.open(arguments.out); !opened.ok()) return opened.error();
  BoardOptions options;
  options.pages = static_cast<size_t>(arguments.pages);
  options.stepbench_version = STEPBENCH_VERSION;
  ProgressLine progress(arguments.quiet);
  Result<BoardSummary> summary = render_site(
      input, options, [&](const std::string& path, std::string_view bytes) { return folder.write(path, bytes); },
      [&](int64_t done, int64_t total) {
        progress.show(arguments.out, Progress{"pages", done, total});
      });
  progress.clear();
  if (!summary.ok()) return summary;
  if (const Result<void> finished = folder.finish(); !finished.ok()) return finished.error();
  return summary;
}

Result<void> write_table(const std::vector<BoardRow>& rows, const BoardArguments& arguments) {
  const std::string text = arguments.format == "md"    ? render_board_markdown(rows)
                           : arguments.format == "csv" ? render_board_csv(rows)
                                                       : render_board_json(rows);
  if (!arguments.out.empty()) return write_file_atomically(arguments.out, text);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    return io_error("cannot write", "standard output", errno);
  return {};
}

}  // namespace

int run_board(const BoardArguments& arguments) {
  constexpr std::string_view kFormats[] = {"html", "md", "csv", "json"};
  if (std::find(std::begin(kFormats), std::end(kFormats), arguments.format) == std::end(kFormats))
    return report_error({ErrorCode::kUsage, "unknown format", "--format", "html, md, csv or json", arguments.format});
  if (!arguments.store.empty() && !arguments.inputs.empty())
    return report_error(
        {ErrorCode::kUsage, "a store and files at the same time", "", "either --store FILE or files", ""});
  BoardArguments given = arguments;
  if (given.format == "html" && given.out.empty()) given.out = "board";

  ScratchFolder scratch;
  Problems problems;
  const Result<StorePtr> store = open_input(given, scratch, problems);
  if (!store.ok()) return report_error(store.error());
  BoardInput input;
  StoreFilter filter;
  filter.task = given.task;
  const Result<int64_t> rows = for_each_row(*store.value(), filter, [&](const StoreRow& row) {
    input.rows.push_back(board_row(row));
    return true;
  });
  if (!rows.ok()) return report_error(rows.error());
  input.load = [&](const std::string& id) { return load_record(*store.value(), id); };
  for (const std::string& problem : problems.first) fmt::print(stderr, "stepbench: left out: {}\n", problem);
  if (problems.count > static_cast<int64_t>(problems.first.size()))
    fmt::print(stderr, "stepbench: left out: {} more\n", problems.count - static_cast<int64_t>(problems.first.size()));

  if (given.format != "html") {
    const Result<void> written = write_table(input.rows, given);
    return written.ok() ? kExitDone : report_error(written.error());
  }
  const Result<BoardSummary> summary = write_site(input, given);
  if (!summary.ok()) return report_error(summary.error());
  if (summary.value().unreadable > 0)
    fmt::print(stderr, "stepbench: {} records could not be read and have no page; the first is {}\n",
               summary.value().unreadable, summary.value().first_unreadable);
  if (!given.quiet)
    fmt::print(stderr, "{} records, {} with a page of their own, {} files: {}/index.html\n", summary.value().records,
               summary.value().record_pages, summary.value().files, given.out);
  return kExitDone;
}

}  // namespace stepbench
