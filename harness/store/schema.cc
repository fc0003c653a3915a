// The file format and its history: the schema of every version, the steps from one to the next, and opening a file.
//
// PRAGMA application_id says that a file is a store, PRAGMA user_version which schema it has. A file of an older
// version goes through the steps in one transaction; a file of a newer one is refused. Texts of old versions are never
// changed, because files with them exist.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "harness/store/internal.h"

namespace stepbench {
namespace {

namespace fs = std::filesystem;

// ---------------------------------------------------------------------------------------------- version 1: records

constexpr const char* kRecords = R"(CREATE TABLE records (
  sequence INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  content_sha256 TEXT NOT NULL,
  previous_sha256 TEXT NOT NULL,
  chain_sha256 TEXT NOT NULL UNIQUE,
  json TEXT NOT NULL
) STRICT)";

constexpr const char* kNeverUpdated = R"(CREATE TRIGGER records_never_updated BEFORE UPDATE ON records
BEGIN SELECT RAISE(ABORT, 'records are never changed'); END)";

constexpr const char* kNeverDeleted = R"(CREATE TRIGGER records_never_deleted BEFORE DELETE ON records
BEGIN SELECT RAISE(ABORT, 'records are never removed'); END)";

// ---------------------------------------------------------------------------------------------- version 2: facts

// INSERT OR REPLACE removes rows without asking the trigger above (unless PRAGMA recursive_triggers is on), but it does
// ask this one first.
constexpr const char* kOnlyAppended = R"(CREATE TRIGGER records_only_appended BEFORE INSERT ON records
WHEN NEW.sequence IS NOT (SELECT records + 1 FROM state)
  OR NEW.previous_sha256 IS NOT (SELECT head_sha256 FROM state)
  OR EXISTS (SELECT 1 FROM records WHERE id = NEW.id OR chain_sha256 = NEW.chain_sha256)
BEGIN SELECT RAISE(ABORT, 'records are only appended'); END)";

// With the head kept apart, removing the last rows shows, too.
constexpr const char* kState = R"(CREATE TABLE state (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  records INTEGER NOT NULL,
  head_sha256 TEXT NOT NULL,
  facts_version INTEGER NOT NULL
) STRICT)";

constexpr const char* kHeadFollows = R"(CREATE TRIGGER state_follows AFTER INSERT ON records
BEGIN UPDATE state SET records = NEW.sequence, head_sha256 = NEW.chain_sha256; END)";

// Apart from the records, so that a scan over many rows does not walk over their texts.
constexpr const char* kFacts = R"(CREATE TABLE facts (
  sequence INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  created_utc TEXT NOT NULL,
  task TEXT NOT NULL,
  task_version INTEGER NOT NULL,
  suite TEXT NOT NULL,
  salt TEXT NOT NULL,
  verdict TEXT NOT NULL,
  failed_in TEXT NOT NULL,
  whole INTEGER NOT NULL,
  candidate_sha256 TEXT NOT NULL,
  path TEXT NOT NULL,
  submission TEXT NOT NULL,
  model TEXT NOT NULL,
  round INTEGER NOT NULL,
  prompt_tokens INTEGER NOT NULL,
  completion_tokens INTEGER NOT NULL,
  cost_usd REAL,
  stepbench_version TEXT NOT NULL,
  device TEXT NOT NULL,
  gpu_uuid TEXT NOT NULL,
  driver TEXT NOT NULL,
  compiler TEXT NOT NULL,
  baseline TEXT NOT NULL,
  method TEXT NOT NULL,
  wall_ms REAL,
  registers INTEGER NOT NULL,
  modelled_bytes_per_param REAL,
  ideal_bytes_per_param REAL,
  speedup REAL,
  speedup_low REAL,
  speedup_high REAL,
  floor_ratio REAL,
  retention_ratio REAL,
  scored_lists INTEGER NOT NULL
) STRICT)";

// An index ends with `sequence`, so rows found by one come in order.
constexpr const char* kFactsByTask = "CREATE INDEX facts_by_task ON facts (task)";
constexpr const char* kFactsByCandidate = "CREATE INDEX facts_by_candidate ON facts (candidate_sha256)";
constexpr const char* kFactsBySubmission = "CREATE INDEX facts_by_submission ON facts (submission)";

constexpr SchemaObject kObjects[] = {
    {"records", kRecords},
    {"records_never_updated", kNeverUpdated},
    {"records_never_deleted", kNeverDeleted},
    {"records_only_appended", kOnlyAppended},
    {"state", kState},
    {"state_follows", kHeadFollows},
    {"facts", kFacts},
    {"facts_by_task", kFactsByTask},
    {"facts_by_candidate", kFactsByCandidate},
    {"facts_by_submission", kFactsBySubmission},
};

// ---------------------------------------------------------------------------------------------- steps

Result<void> run_all(Database& database, std::initializer_list<const char*> texts) {
  for (const char* sql : texts)
    if (Result<void> done = database.run(sql); !done.ok()) return done;
  return {};
}

Result<void> make_version_1(Database& database) {
  if (Result<void> marked = database.run(fmt::format("PRAGMA application_id = {}", kApplicationId)); !marked.ok())
    return marked;
  return run_all(database, {kRecords, kNeverUpdated, kNeverDeleted});
}

Result<void> make_version_2(Database& database) {
  if (Result<void> made = run_all(database, {kState, kFacts, kFactsByTask, kFactsByCandidate, kFactsBySubmission});
      !made.ok())
    return made;
  const std::string fill = fmt::format(
      "INSERT INTO state SELECT 1, ifnull(max(sequence), 0), "
      "ifnull((SELECT chain_sha256 FROM records ORDER BY sequence DESC LIMIT 1), '{}'), {} FROM records",
      chain_start(), kFactsVersion);
  if (Result<void> filled = database.run(fill); !filled.ok()) return filled;
  if (Result<void> rebuilt = rebuild_facts(database); !rebuilt.ok()) return rebuilt;
  return run_all(database, {kOnlyAppended, kHeadFollows});
}

using Step = Result<void> (*)(Database&);
constexpr std::array<Step, kSchemaVersion> kSteps = {make_version_1, make_version_2};  // to version index + 1

/// What kind of file this is.
struct FileState {
  int64_t application_id = 0;
  int64_t schema_version = 0;
  int64_t objects = 0;
  int64_t facts_version = 0;
  bool is_empty() const { return objects == 0 && application_id == 0 && schema_version == 0; }
  bool is_current() const { return schema_version == kSchemaVersion && facts_version == kFactsVersion; }
};

Result<FileState> read_state(Database& database) {
  FileState state;
  const Result<int64_t> objects = database.integer("SELECT count(*) FROM sqlite_schema");
  if (!objects.ok()) return objects.error();
  const Result<int64_t> application = database.integer("PRAGMA application_id");
  if (!application.ok()) return application.error();
  const Result<int64_t> version = database.integer("PRAGMA user_version");
  if (!version.ok()) return version.error();
  state = {application.value(), version.value(), objects.value(), 0};
  if (state.application_id != kApplicationId || state.schema_version != kSchemaVersion) return state;
  const Result<int64_t> facts = database.integer("SELECT facts_version FROM state");
  const bool is_damaged = facts.ok() ? facts.value() == 0 : facts.error().code == ErrorCode::kInternal;
  if (is_damaged)
    return Error{ErrorCode::kInvalidInput, "the store is damaged", database.path(), "a table `state` with one row",
                 facts.ok() ? "none" : facts.error().message};
  if (!facts.ok()) return facts.error();
  state.facts_version = facts.value();
  return state;
}

Result<void> check_kind(const FileState& state, const std::string& path) {
  if (state.is_empty()) return {};
  if (state.application_id != kApplicationId)
    return Error{ErrorCode::kInvalidInput, "not a store but a SQLite file of another program", path,
                 fmt::format("application id {}", kApplicationId), std::to_string(state.application_id)};
  const bool is_newer = state.schema_version > kSchemaVersion || state.facts_version > kFactsVersion;
  if (is_newer)
    return Error{ErrorCode::kUnsupported, "the store was written by a newer version of StepBench", path,
                 fmt::format("schema {}.{} at most", kSchemaVersion, kFactsVersion),
                 fmt::format("{}.{}", state.schema_version, state.facts_version)};
  if (state.schema_version < 1)
    return Error{ErrorCode::kInvalidInput, "a store without a version", path,
                 fmt::format("schema 1 to {}", kSchemaVersion), std::to_string(state.schema_version)};
  return {};
}

/// All steps that the file lacks, in one transaction; another process may have been faster.
Result<void> bring_up_to_date(Database& database) {
  Result<Transaction> transaction = Transaction::begin(database, true);
  if (!transaction.ok()) return transaction.error();
  const Result<FileState> state = read_state(database);
  if (!state.ok()) return state.error();
  if (Result<void> kind = check_kind(state.value(), database.path()); !kind.ok()) return kind;
  if (state.value().is_current()) return {};
  for (int64_t version = state.value().schema_version; version < kSchemaVersion; ++version)
    if (Result<void> made = kSteps[static_cast<size_t>(version)](database); !made.ok()) return made;
  if (state.value().schema_version == kSchemaVersion)
    if (Result<void> rebuilt = rebuild_facts(database); !rebuilt.ok()) return rebuilt;
  const Result<void> marked = database.run(
      fmt::format("UPDATE state SET facts_version = {}; PRAGMA user_version = {}", kFactsVersion, kSchemaVersion));
  if (!marked.ok()) return marked;
  return transaction.value().commit();
}

/// Writers and readers side by side. Where the file system cannot do it (no shared memory) SQLite keeps its older
/// journal, which is as safe and only slower. Changing over needs the file for a moment alone, and SQLite does not wait
/// for that by itself.
Result<void> use_write_ahead_log(Database& database, int busy_limit_ms) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(busy_limit_ms);
  while (true) {
    const Result<std::string> mode = database.text("PRAGMA journal_mode = WAL");
    if (mode.ok()) return {};
    if (mode.error().code != ErrorCode::kTimeout || std::chrono::steady_clock::now() > deadline) return mode.error();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// ---------------------------------------------------------------------------------------------- opening

constexpr off_t kLeastDatabaseBytes = 512;  // one page of the smallest size
constexpr int kPageBytes = 8192;

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

Result<void> check_path(const std::string& path, StoreMode mode) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) {
    if (!S_ISREG(status.st_mode))
      return Error{ErrorCode::kInvalidInput, "not a store", path, "a file",
                   S_ISDIR(status.st_mode) ? "a folder" : "a device or pipe"};
    // SQLite takes a file of a few bytes for an empty one, and would write over it.
    if (status.st_size > 0 && status.st_size < kLeastDatabaseBytes)
      return Error{ErrorCode::kInvalidInput, "not a SQLite file", path, "a file made by `stepbench submit`",
                   fmt::format("{} bytes", status.st_size)};
    return {};
  }
  if (errno != ENOENT)
    return Error{ErrorCode::kIo, fmt::format("cannot open the store: {}", std::strerror(errno)), path, "", ""};
  if (mode == StoreMode::kRead)
    return Error{ErrorCode::kNotFound, "no store here", path, "a file made by `stepbench submit`", ""};
  std::error_code failed;
  if (const fs::path folder = fs::path(path).parent_path(); !folder.empty()) fs::create_directories(folder, failed);
  if (failed)
    return Error{ErrorCode::kIo, fmt::format("cannot create the store's folder: {}", failed.message()), path, "", ""};
  return {};
}

/// A write-ahead log with something in it that is not in the file yet.
bool has_pending_log(const std::string& path) {
  struct stat status {};
  return ::stat((path + "-wal").c_str(), &status) == 0 && status.st_size > 0;
}

Result<Database> open_for_reading(const std::string& path, int busy_limit_ms) {
  Result<Database> database = Database::open(path, OpenAs::kReadOnly, busy_limit_ms);
  if (!database.ok()) return database;
  const Result<FileState> state = read_state(database.value());
  if (state.ok() || state.error().code != ErrorCode::kIo || has_pending_log(path)) return database;
  // The files beside it cannot be made in this folder. Nobody has the store open for writing now, for then they would
  // be there, so it is read as it stands.
  return Database::open(path, OpenAs::kImmutable, busy_limit_ms);
}

Result<void> prepare_for_reading(Database& database) {
  const Result<FileState> state = read_state(database);
  if (!state.ok()) return state.error();
  if (state.value().is_empty())
    return Error{ErrorCode::kInvalidInput, "not a store", database.path(), "a file made by `stepbench submit`",
                 "an empty file"};
  if (Result<void> kind = check_kind(state.value(), database.path()); !kind.ok()) return kind;
  if (state.value().is_current()) return {};
  return Error{ErrorCode::kUnsupported, "the store was written by an older version of StepBench", database.path(),
               fmt::format("schema {}.{}; `stepbench store upgrade` brings it there", kSchemaVersion, kFactsVersion),
               fmt::format("{}.{}", state.value().schema_version, state.value().facts_version)};
}

Result<void> prepare_for_writing(Database& database, const StoreOptions& options) {
  const Result<FileState> state = read_state(database);
  if (!state.ok()) return state.error();
  if (Result<void> kind = check_kind(state.value(), database.path()); !kind.ok()) return kind;  // before any change
  if (database.is_read_only())
    return Error{ErrorCode::kIo, "the store cannot be written to", database.path(), "a file with permission to write",
                 ""};
  if (options.max_pages > 0) {
    const Result<int64_t> set = database.integer(fmt::format("PRAGMA max_page_count = {}", options.max_pages));
    if (!set.ok()) return set.error();
  }
  // Twice SQLite's default: a scan over rows of facts reads half as many pages. Nothing once the file has content.
  if (Result<void> set = database.run(fmt::format("PRAGMA page_size = {}", kPageBytes)); !set.ok()) return set;
  if (Result<void> log = use_write_ahead_log(database, options.busy_limit_ms); !log.ok()) return log;
  // FULL: what was appended survives a power failure, too, and not only the end of this process.
  if (Result<void> set = database.run("PRAGMA synchronous = FULL"); !set.ok()) return set;
  if (!state.value().is_current()) return bring_up_to_date(database);
  return {};
}

}  // namespace

std::span<const SchemaObject> schema_objects() { return kObjects; }

Result<std::string> store_path(const std::string& given) {
  if (!given.empty()) return given;
  if (const std::string named = from_environment("STEPBENCH_STORE"); !named.empty()) return named;
  if (const std::string data = from_environment("XDG_DATA_HOME"); !data.empty()) return data + "/stepbench/store.db";
  if (const std::string home = from_environment("HOME"); !home.empty())
    return home + "/.local/share/stepbench/store.db";
  return Error{ErrorCode::kUsage, "no file for the store", "", "--store FILE, or STEPBENCH_STORE or HOME set", ""};
}

Result<StorePtr> open_store(const std::string& path, const StoreOptions& options) {
  if (Result<void> checked = check_path(path, options.mode); !checked.ok()) return checked.error();
  const bool writing = options.mode == StoreMode::kWrite;
  Result<Database> database = writing ? Database::open(path, OpenAs::kReadWrite, options.busy_limit_ms)
                                      : open_for_reading(path, options.busy_limit_ms);
  if (!database.ok()) return database.error();
  const Result<void> ready =
      writing ? prepare_for_writing(database.value(), options) : prepare_for_reading(database.value());
  if (!ready.ok()) return ready.error();
  return StorePtr(new Store(std::move(database).value()));
}

void StoreDeleter::operator()(Store* store) const { delete store; }

const std::string& path_of(const Store& store) { return store.database.path(); }

}  // namespace stepbench
