// One connection to a SQLite file: statements, transactions, and every status of the library turned into an Error.
// It knows nothing of records. Private to this folder, which alone includes SQLite's header.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "harness/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace stepbench {

enum class OpenAs : uint8_t {
  kReadOnly,
  kImmutable,  ///< read-only, without the files beside it: for a folder that cannot be written to
  kReadWrite,  ///< creates the file when needed
};

/// A prepared statement. Parameters are bound and columns read from left to right or by index; a failed binding shows
/// in the next `step`.
class Statement {
 public:
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&&) = delete;
  ~Statement();

  /// Binds the next parameter. NaN is bound as NULL, which is what SQLite makes of it.
  Statement& bind(std::string_view text);
  Statement& bind(int64_t value);
  Statement& bind(double value);

  /// True: there is a row. False: the end; the statement may be bound and run again.
  Result<bool> step();
  /// For statements that give no rows: runs to the end.
  Result<void> run();
  /// Forgets bindings and rows.
  void reset();

  /// Columns of the current row, from 0. NULL is "", 0 and NaN.
  std::string_view text(int column) const;
  int64_t integer(int column) const;
  double number(int column) const;
  bool is_null(int column) const;

 private:
  friend class Database;
  Statement(sqlite3_stmt* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  Statement& bound(int status);

  sqlite3_stmt* handle_ = nullptr;
  std::string path_;
  int next_ = 1;
  int bind_status_ = 0;
};

class Database {
 public:
  /// Opens without reading anything: whether the file is a database shows with the first statement.
  static Result<Database> open(const std::string& path, OpenAs as, int busy_limit_ms);
  Database(Database&& other) noexcept;
  Database& operator=(Database&& other) noexcept;
  ~Database();

  Result<Statement> prepare(std::string_view sql);
  /// Statements without parameters and rows.
  Result<void> run(const std::string& sql);
  /// The first column of the first row; 0 when there is none.
  Result<int64_t> integer(std::string_view sql);
  Result<std::string> text(std::string_view sql);

  /// The file was opened for writing but can only be read.
  bool is_read_only() const;
  const std::string& path() const { return path_; }

 private:
  friend class Transaction;
  Database(sqlite3* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  void close();

  sqlite3* handle_ = nullptr;
  std::string path_;
};

/// Between `begin` and `commit`; rolled back when it is left without a commit.
class Transaction {
 public:
  /// `writing`: takes the lock for writing at once, waiting for other writers.
  static Result<Transaction> begin(Database& database, bool writing);
  Transaction(Transaction&& other) noexcept : database_(other.database_) { other.database_ = nullptr; }
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();

  Result<void> commit();

 private:
  explicit Transaction(Database& database) : database_(&database) {}
  Database* database_ = nullptr;
};

}  // namespace stepbench
