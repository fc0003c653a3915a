// The store: one SQLite file that holds every record for good. Rows are appended, never changed; each carries a hash
// over the row before it, so that `verify_store` finds what was edited, removed, inserted or moved by other means.
// A record is kept as its canonical JSON text (canonical_record_json, record.h); beside it stands a row of small facts
// for listings, boards and gates, which is derived from the text and can be computed again. The schema is in
// harness/README.md.
//
// Several processes may write to one file at the same time. One `Store` is used by one thread at a time: open one per
// thread, or lock around it. Inside the callback of for_each_row the functions that read are allowed.
//
// Errors of all functions beside those named: kIo (the operating system or the disk), kResource (disk or memory full,
// file at its size limit), kTimeout (another process kept the store locked), kInvalidInput (the file is damaged: run
// `stepbench store verify`). After any error the store holds what it held before the call, an import excepted.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/model.h"
#include "harness/result.h"

namespace stepbench {

// ---------------------------------------------------------------------------------------------- open
class Store;
struct StoreDeleter {
  void operator()(Store* store) const;
};
using StorePtr = std::unique_ptr<Store, StoreDeleter>;

enum class StoreMode : uint8_t {
  kRead,   ///< an existing file, which is not changed; works in a folder that cannot be written to
  kWrite,  ///< creates file and folders when needed, and brings an older file up to date
};

struct StoreOptions {
  StoreMode mode = StoreMode::kRead;
  int busy_limit_ms = 60'000;  ///< how long a call waits for other writers
  int64_t max_pages = 0;       ///< limit of the file in pages of 8192 bytes; 0: none. Tests of a full disk set it
};

/// `given` when not empty, else $STEPBENCH_STORE, else $XDG_DATA_HOME/stepbench/store.db, else
/// ~/.local/share/stepbench/store.db. kUsage when none of them is known.
Result<std::string> store_path(const std::string& given);

/// kNotFound (kRead, no such file; place is the path), kInvalidInput (not a SQLite file, or one of another program),
/// kUnsupported (written by a newer StepBench; or, in kRead, by an older one: says which command brings it up to
/// date), kIo (a folder or file that cannot be read or written).
Result<StorePtr> open_store(const std::string& path, const StoreOptions& options);

const std::string& path_of(const Store& store);

// ---------------------------------------------------------------------------------------------- append
struct Appended {
  int64_t sequence = 0;  ///< from 1, without gaps
  bool added = false;    ///< false: the same record was there already
};

/// Durable when it returns. The same id with the same content is no error and changes nothing. kInvalidRecord: the same
/// id with other content (names id, row and both hashes), an id that is not 16 lower-case hex digits, or text that is
/// no record.
Result<Appended> append_record(Store& store, const EvalRecord& record);
/// The same from a record's JSON text in any layout. Fields that this version does not know are kept.
Result<Appended> append_record_json(Store& store, std::string_view json);

// ---------------------------------------------------------------------------------------------- rows
/// Score of one record as scoring/score.h has it, with 0 for what is not known there.
struct StoreScore {
  double speedup = 0;          ///< over the scored lists; 0 unless the record passed and was timed on all of them
  double low = 0, high = 0;    ///< its 95 % interval
  double floor_ratio = 0;      ///< fraction of the floor
  double retention_ratio = 0;  ///< speed kept on hidden lists
  int32_t lists = 0;           ///< scored lists; 0: no score
};

/// The small facts of one record: all but the source, the samples, the curves and the cases.
struct StoreRow {
  int64_t sequence = 0;
  std::string id;
  std::string created_utc;
  std::string task;
  int32_t task_version = 0;
  std::string suite;
  std::string salt;
  Verdict verdict = Verdict::kHarnessError;
  std::string failed_in;  ///< check and case of the failure; empty when passed
  bool whole = false;     ///< everything that the suite asks for was run, or the candidate failed before its end
  std::string candidate_sha256;
  std::string path;               ///< of the candidate, as given by its author
  std::string submission, model;  ///< Submission::name, ::model; empty: not submitted
  int32_t round = 0;
  int64_t prompt_tokens = 0, completion_tokens = 0;
  double cost_usd = 0;
  std::string stepbench_version;
  std::string device, gpu_uuid, driver, compiler;  ///< as in Environment
  std::string baseline, method;                    ///< of the first timed list; empty: not timed
  double wall_ms = 0;
  int32_t registers = -1;  ///< of the kernel that uses most; -1 unknown
  double modelled_bytes_per_param = 0, ideal_bytes_per_param = 0;
  StoreScore score;
};

/// Conditions that all must hold; what is empty (or 0) is no condition. Text is compared whole and with case.
struct StoreFilter {
  std::string task;
  int32_t task_version = 0;
  std::string suite;
  std::optional<Verdict> verdict;
  std::string device, gpu_uuid;
  std::string candidate_sha256;
  std::string submission, model;
  bool only_timed = false;      ///< rows with a score
  bool only_submitted = false;  ///< rows with a submission's name
  std::string created_from;     ///< created_utc >= this
  std::string created_before;   ///< created_utc < this
  int64_t after_sequence = 0;   ///< rows appended after this one
  bool newest_first = false;    ///< by sequence, descending; default ascending
  int64_t limit = 0;            ///< rows at most; 0: all
};

/// Calls `visit` for each matching row in order, one at a time and from one snapshot: rows appended meanwhile are not
/// seen. The row is valid during the call only. `visit` returns false to stop. Gives the number of rows visited.
Result<int64_t> for_each_row(Store& store, const StoreFilter& filter,
                             const std::function<bool(const StoreRow&)>& visit);
/// How many rows for_each_row would visit.
Result<int64_t> count_rows(Store& store, const StoreFilter& filter);
/// A row as one JSON object on one line: the columns of the table `facts` (harness/README.md).
std::string row_to_json(const StoreRow& row);

// ---------------------------------------------------------------------------------------------- records
/// A record by its id or any unique beginning of it (4 digits at least). kNotFound; kUsage (not hex digits, or more
/// than one id begins so); kInvalidRecord when the stored text is damaged.
Result<EvalRecord> load_record(Store& store, const std::string& id);
/// Its canonical JSON text, as appended.
Result<std::string> load_record_json(Store& store, const std::string& id);

// ---------------------------------------------------------------------------------------------- verify
/// Called now and then with rows or lines done and how many there are (0: not known). May be empty.
using StoreProgress = std::function<void(int64_t done, int64_t total)>;

struct StoreProblem {
  int64_t sequence = 0;  ///< of the row; 0: about the file as a whole
  std::string id;
  std::string what;  ///< one sentence: "content was edited", "rows 5 to 7 were removed" ...
};

struct StoreVerification {
  int64_t records = 0;
  std::string head;  ///< chain hash of the last row: whoever notes it down can prove later that nothing changed since
  std::vector<StoreProblem> problems;  ///< by row; empty: the store is as it was written
  int64_t more_problems = 0;           ///< not listed, beyond the first 100
};

/// Reads every row: SQLite's own structure check, the triggers, content and chain hashes, and that the small facts are
/// those of the text. `head`, when not empty, is a chain hash noted earlier and must still be one of the rows'.
Result<StoreVerification> verify_store(Store& store, const std::string& head, const StoreProgress& progress);

// ---------------------------------------------------------------------------------------------- exchange
/// Writes matching records as JSON Lines: one canonical record per line, in order of sequence. Gives their number.
Result<int64_t> export_records(Store& store, const StoreFilter& filter, std::ostream& out,
                               const StoreProgress& progress = {});

struct StoreImport {
  int64_t added = 0;
  int64_t already_there = 0;
  std::vector<Error> bad_lines;  ///< place is FILE:LINE, followed by where in the line; the other lines were taken
  int64_t more_bad_lines = 0;    ///< not listed, beyond the first 100
};

/// Appends every line that is a record, and tells of the others. Idempotent; files of several machines may be imported
/// in any order and give the same set of records. An interrupted import leaves whole records only and may be repeated.
/// `name` stands for the input in messages.
Result<StoreImport> import_records(Store& store, std::istream& in, const std::string& name,
                                   const StoreProgress& progress = {});
/// The same from one JSON text in any layout: a record, or a list of records as `stepbench eval --json` writes it. The
/// place of a bad one is NAME: /INDEX.
Result<StoreImport> import_record_file(Store& store, std::string_view json, const std::string& name);
/// All records of another store. Rows that were changed after they were written are bad lines: PATH: row N.
Result<StoreImport> import_store(Store& store, Store& from, const StoreProgress& progress = {});
/// Whatever a file holds: a store by its first bytes, one JSON text where the name ends in .json, else JSON Lines; "-"
/// is standard input.
Result<StoreImport> import_path(Store& store, const std::string& path, const StoreProgress& progress = {});
/// What of a path can be imported: the path itself, or, of a folder, its files .json, .jsonl and .db by name; perhaps
/// none.
Result<std::vector<std::string>> files_with_records(const std::string& path);

}  // namespace stepbench
