// The leaderboard: rows of records -> rankings -> a static site, or a table as Markdown, CSV or JSON. Pure functions:
// what is read and written comes in and goes out through the caller (harness/command_board.cc), no clock is asked, and
// the same rows give the same bytes.
//
// The rules (also on the site's page "How to read"):
//   - A candidate is its source and plan (by hash) on one version of a task. Only the newest version is ranked.
//   - A ranking holds what can be compared: one device, suite, baseline and method of timing. The fastest shipped
//     baseline, which is chosen for each list, is one baseline whichever file it is; a file that the user named is
//     another. Of the method counts what stands before a ";": behind it is said how one candidate was submitted.
//   - Of several whole records of a candidate in a ranking the newest counts, not the best: repeating until the noise
//     is kind gains nothing. One failed record on any device takes the candidate out of all rankings of its task: a
//     later pass with other random numbers does not undo it.
//   - Ranks go by the lower end of the interval and are shared within the noise (rank.h).
//   - What says nothing of the candidate (unsupported, harness_error) and what is not whole is listed and nothing more.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/model.h"
#include "harness/result.h"

namespace stepbench {

// ---------------------------------------------------------------------------------------------- input
/// One record as lists show it.
struct BoardRow {
  int64_t sequence = 0;  ///< order of arrival; decides between equal times
  std::string id, created_utc;
  std::string task;
  int32_t task_version = 1;
  std::string suite;
  Verdict verdict = Verdict::kHarnessError;
  std::string failed_in;  ///< check and case; empty when passed
  bool whole = false;     ///< everything that the suite asks for was run, or the candidate failed before its end
  std::string candidate_sha256;
  std::string path;           ///< as given by the author; lists show its last part
  std::string author, model;  ///< as submitted; empty: not submitted, or a person
  int32_t round = 0;
  std::string device;
  std::string baseline;  ///< of the first timed list: a path with "/" when the user named it; empty: not timed
  std::string method;
  int32_t registers = -1;
  double modelled_bytes_per_param = 0, ideal_bytes_per_param = 0;  ///< 0: unknown
  double speedup = 0, low = 0, high = 0;                           ///< 0: no score
  double floor_ratio = 0;                                          ///< 0: unknown
};

struct BoardInput {
  std::vector<BoardRow> rows;  ///< ascending by sequence
  /// The whole record of a row.
  std::function<Result<EvalRecord>(const std::string& id)> load;
};

// ---------------------------------------------------------------------------------------------- rankings
/// What records must share to be compared.
struct RankingKey {
  std::string task;
  int32_t task_version = 1;
  std::string device, suite;
  std::string baseline;  ///< path of the file that the user named; empty: the fastest shipped one
  std::string method;    ///< without what stands behind a ";"
  auto operator<=>(const RankingKey&) const = default;
};

struct BoardEntry {
  size_t row = 0;  ///< of the record that counts
  int64_t rank = 0;
  std::string first_utc;  ///< when the candidate first had a score in this ranking
};

struct BoardRanking {
  RankingKey key;
  std::vector<BoardEntry> entries;  ///< best first
  std::vector<size_t> history;      ///< indices of entries that were the best when they came, in order of time
};

/// Candidates that take no rank, each with the row of the record that says why.
struct BoardTask {
  std::string task;
  int32_t version = 1;
  std::vector<BoardRanking> rankings;  ///< most entries first
  std::vector<size_t> untimed;         ///< passed, without a score that can be ranked; newest first
  std::vector<size_t> failed;          ///< the newest failed record of each candidate; newest first
  std::vector<size_t> unjudged;        ///< neither passed nor failed in any record; newest first
  int64_t records = 0;                 ///< of this version
  int64_t older_records = 0;           ///< of older versions, which are listed only
};

/// One task each, sorted by name.
std::vector<BoardTask> make_standings(const std::vector<BoardRow>& rows);

// ---------------------------------------------------------------------------------------------- output
struct BoardOptions {
  size_t pages = 100;      ///< record pages: the best so many of each ranking, and the newest so many of each task
  size_t list_rows = 500;  ///< rows of one page of a list
  std::string stepbench_version;
};

/// Takes one finished file: its path relative to the site, with "/", and its bytes.
using BoardSink = std::function<Result<void>(const std::string& path, std::string_view bytes)>;
/// Files done so far, and how many there will be.
using BoardProgress = std::function<void(int64_t done, int64_t total)>;

struct BoardSummary {
  int64_t records = 0, record_pages = 0, files = 0;
  int64_t unreadable = 0;  ///< records that could not be loaded for their page; they are listed only
  std::string first_unreadable;
};

/// The site. Errors are the sink's.
Result<BoardSummary> render_site(const BoardInput& input, const BoardOptions& options, const BoardSink& sink,
                                 const BoardProgress& progress);

std::string render_board_markdown(const std::vector<BoardRow>& rows);
/// RFC 4180, one line per candidate and ranking.
std::string render_board_csv(const std::vector<BoardRow>& rows);
std::string render_board_json(const std::vector<BoardRow>& rows);

}  // namespace stepbench
