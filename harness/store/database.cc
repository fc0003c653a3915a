// SQLite calls and what their statuses mean.
#include "harness/store/database.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <cctype>
#include <cstring>
#include <limits>

namespace stepbench {
namespace {

struct Meaning {
  ErrorCode code;
  const char* message;
};

/// By primary result code (https://www.sqlite.org/rescode.html).
Meaning meaning_of(int status) {
  switch (status & 0xFF) {
    case SQLITE_NOTADB: return {ErrorCode::kInvalidInput, "not a SQLite file"};
    case SQLITE_CORRUPT: return {ErrorCode::kInvalidInput, "the store is damaged"};
    case SQLITE_FULL: return {ErrorCode::kResource, "the disk is full, or the file at its size limit"};
    case SQLITE_NOMEM: return {ErrorCode::kResource, "out of memory"};
    case SQLITE_TOOBIG: return {ErrorCode::kResource, "larger than SQLite can keep"};
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL: return {ErrorCode::kTimeout, "another program kept the store locked for too long"};
    case SQLITE_CANTOPEN:
      return {ErrorCode::kIo, "cannot open the store or a file beside it (its folder must be writable, too)"};
    case SQLITE_PERM:
    case SQLITE_READONLY: return {ErrorCode::kIo, "the store cannot be written to"};
    case SQLITE_IOERR: return {ErrorCode::kIo, "cannot read or write the store"};
    case SQLITE_CONSTRAINT: return {ErrorCode::kInvalidInput, "the store refuses the row"};
    default: return {ErrorCode::kInternal, "SQLite refuses"};
  }
}

Error error_of(sqlite3* handle, int status, const std::string& path) {
  const Meaning meaning = meaning_of(status);
  std::string detail = handle ? sqlite3_errmsg(handle) : sqlite3_errstr(status);
  const int number = handle ? sqlite3_system_errno(handle) : 0;
  const int primary = status & 0xFF;
  // Only these three come from a system call; elsewhere the number is that of an older one.
  const bool from_system = primary == SQLITE_CANTOPEN || primary == SQLITE_IOERR || primary == SQLITE_FULL;
  if (from_system && number != 0) detail += fmt::format(": {}", std::strerror(number));
  return {meaning.code, fmt::format("{}: {}", meaning.message, detail), path, "", ""};
}

/// A name that SQLite takes for a file and nothing else: not ":memory:", not "file:...".
std::string plain_name(const std::string& path) { return path.starts_with('/') ? path : fmt::format("./{}", path); }

std::string immutable_uri(const std::string& path) {
  std::string uri = "file:";
  for (const char c : plain_name(path)) {
    const bool is_plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || std::strchr("/._-", c) != nullptr;
    if (is_plain && c != '\0')
      uri += c;
    else
      uri += fmt::format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
  }
  return uri + "?immutable=1";
}

}  // namespace

// ---------------------------------------------------------------------------------------------- statement

Statement::Statement(Statement&& other) noexcept
    : handle_(other.handle_), path_(std::move(other.path_)), next_(other.next_), bind_status_(other.bind_status_) {
  other.handle_ = nullptr;
}

Statement::~Statement() {
  sqlite3_finalize(handle_);  // its status repeats that of the last step
}

Statement& Statement::bound(int status) {
  if (bind_status_ == SQLITE_OK) bind_status_ = status;
  ++next_;
  return *this;
}

Statement& Statement::bind(std::string_view text) {
  // An empty view may have no address at all, which SQLite would take for NULL.
  const char* data = text.empty() ? "" : text.data();
  return bound(sqlite3_bind_text64(handle_, next_, data, text.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
}

Statement& Statement::bind(int64_t value) { return bound(sqlite3_bind_int64(handle_, next_, value)); }

Statement& Statement::bind(double value) { return bound(sqlite3_bind_double(handle_, next_, value)); }

Result<bool> Statement::step() {
  if (bind_status_ != SQLITE_OK) return error_of(sqlite3_db_handle(handle_), bind_status_, path_);
  const int status = sqlite3_step(handle_);
  if (status == SQLITE_ROW) return true;
  if (status == SQLITE_DONE) return false;
  return error_of(sqlite3_db_handle(handle_), status, path_);
}

Result<void> Statement::run() {
  while (true) {
    const Result<bool> more = step();
    if (!more.ok()) return more.error();
    if (!more.value()) return {};
  }
}

void Statement::reset() {
  sqlite3_reset(handle_);  // its status repeats that of the last step
  SB_ASSERT(sqlite3_clear_bindings(handle_) == SQLITE_OK);
  next_ = 1;
  bind_status_ = SQLITE_OK;
}

std::string_view Statement::text(int column) const {
  // When there is no memory for the text this is empty, and the next step fails with SQLITE_NOMEM.
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(handle_, column));
  return data ? std::string_view(data, static_cast<size_t>(sqlite3_column_bytes(handle_, column))) : std::string_view();
}

int64_t Statement::integer(int column) const { return sqlite3_column_int64(handle_, column); }

double Statement::number(int column) const {
  const double value = sqlite3_column_double(handle_, column);  // 0 for NULL
  return value == 0 && is_null(column) ? std::numeric_limits<double>::quiet_NaN() : value;
}

bool Statement::is_null(int column) const { return sqlite3_column_type(handle_, column) == SQLITE_NULL; }

// ---------------------------------------------------------------------------------------------- database

Result<Database> Database::open(const std::string& path, OpenAs as, int busy_limit_ms) {
  int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  flags |= as == OpenAs::kReadWrite ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
  if (as == OpenAs::kImmutable) flags |= SQLITE_OPEN_URI;
  const std::string name = as == OpenAs::kImmutable ? immutable_uri(path) : plain_name(path);
  sqlite3* handle = nullptr;
  const int status = sqlite3_open_v2(name.c_str(), &handle, flags, nullptr);
  Database database(handle, path);  // a handle comes with most failures, too, and must be closed
  if (status != SQLITE_OK) return error_of(handle, status, path);
  if (const int timeout = sqlite3_busy_timeout(handle, busy_limit_ms); timeout != SQLITE_OK)
    return error_of(handle, timeout, path);
  // What stands in the schema of a file that somebody else made must not run anything but built-in functions.
  if (const int trust = sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr); trust != SQLITE_OK)
    return error_of(handle, trust, path);
  return database;
}

Database::Database(Database&& other) noexcept : handle_(other.handle_), path_(std::move(other.path_)) {
  other.handle_ = nullptr;
}

Database& Database::operator=(Database&& other) noexcept {
  if (this == &other) return *this;
  close();
  handle_ = other.handle_;
  path_ = std::move(other.path_);
  other.handle_ = nullptr;
  return *this;
}

Database::~Database() { close(); }

void Database::close() {
  // Busy only when a statement outlives its connection, which is a mistake of this folder.
  SB_ASSERT(sqlite3_close(handle_) == SQLITE_OK);
  handle_ = nullptr;
}

Result<Statement> Database::prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int status = sqlite3_prepare_v2(handle_, sql.data(), static_cast<int>(sql.size()), &statement, nullptr);
  if (status != SQLITE_OK) return error_of(handle_, status, path_);
  return Statement(statement, path_);
}

Result<void> Database::run(const std::string& sql) {
  const int status = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  if (status != SQLITE_OK) return error_of(handle_, status, path_);
  return {};
}

Result<int64_t> Database::integer(std::string_view sql) {
  Result<Statement> statement = prepare(sql);
  if (!statement.ok()) return statement.error();
  const Result<bool> row = statement.value().step();
  if (!row.ok()) return row.error();
  return row.value() ? statement.value().integer(0) : 0;
}

Result<std::string> Database::text(std::string_view sql) {
  Result<Statement> statement = prepare(sql);
  if (!statement.ok()) return statement.error();
  const Result<bool> row = statement.value().step();
  if (!row.ok()) return row.error();
  return row.value() ? std::string(statement.value().text(0)) : std::string();
}

bool Database::is_read_only() const { return sqlite3_db_readonly(handle_, "main") == 1; }

// ---------------------------------------------------------------------------------------------- transaction

Result<Transaction> Transaction::begin(Database& database, bool writing) {
  if (const Result<void> begun = database.run(writing ? "BEGIN IMMEDIATE" : "BEGIN"); !begun.ok()) return begun.error();
  return Transaction(database);
}

Transaction::~Transaction() {
  // Some failures (a full disk, say) have rolled back already. A rollback that fails leaves the connection inside the
  // transaction, whose later calls then fail; nothing is written either way.
  if (database_ && sqlite3_get_autocommit(database_->handle_) == 0)
    sqlite3_exec(database_->handle_, "ROLLBACK", nullptr, nullptr, nullptr);
}

Result<void> Transaction::commit() {
  Result<void> committed = database_->run("COMMIT");
  if (committed.ok()) database_ = nullptr;
  return committed;
}

}  // namespace stepbench
