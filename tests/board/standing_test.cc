// The rules of board.h, one by one, on rows made by hand.
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "scoring/board.h"

namespace stepbench {
namespace {

/// Passed and timed, unless changed.
BoardRow row(const std::string& id, const std::string& candidate, const std::string& utc, double low, double speedup,
             double high) {
  BoardRow r;
  r.id = id;
  r.sequence = static_cast<int64_t>(id.back());
  r.created_utc = utc;
  r.task = "adamw";
  r.suite = "standard";
  r.verdict = Verdict::kPassed;
  r.whole = true;
  r.candidate_sha256 = candidate;
  r.path = fmt::format("{}.cu", candidate);
  r.device = std::string("GPU");
  r.baseline = std::string("float4.cu");
  r.method = std::string("m");
  r.low = low;
  r.speedup = speedup;
  r.high = high;
  return r;
}

BoardRow with(BoardRow r, Verdict verdict) {
  r.verdict = verdict;
  r.speedup = r.low = r.high = 0;
  return r;
}

struct Expected {
  std::vector<std::pair<std::string, int64_t>> ranked;  ///< record and rank of the first ranking
  std::vector<std::string> untimed{}, failed{}, unjudged{};
};

std::vector<std::string> ids(const std::vector<BoardRow>& rows, const std::vector<size_t>& indices) {
  std::vector<std::string> found;
  for (const size_t index : indices) found.push_back(rows[index].id);
  return found;
}

TEST_CASE("who is ranked, and by which record") {
  const BoardRow a1 = row("a1", "a", "2026-01-01T00:00:00Z", 1.0, 1.1, 1.2);
  const BoardRow a2 = row("a2", "a", "2026-01-02T00:00:00Z", 0.8, 0.9, 1.0);
  const BoardRow b1 = row("b1", "b", "2026-01-03T00:00:00Z", 0.95, 1.0, 1.05);
  BoardRow vm = row("v1", "b", "2026-01-04T00:00:00Z", 0, 0, 0);
  vm.device = "vm";
  vm.baseline.clear();
  vm.method.clear();
  BoardRow part = with(a2, Verdict::kWrongResult);
  part.whole = false;
  BoardRow older = a1;
  BoardRow newer = b1;
  newer.task_version = 2;
  BoardRow twisted = a1;
  twisted.low = 1.3;
  const struct {
    const char* name;
    std::vector<BoardRow> rows;
    Expected expected;
  } table[] = {
      {"one", {a1}, {{{"a1", 1}}}},
      {"the newest record counts, not the best", {a1, a2}, {{{"a2", 1}}}},
      {"in any order of arrival", {a2, a1}, {{{"a2", 1}}}},
      {"by the lower end", {a2, b1}, {{{"b1", 1}, {"a2", 1}}}},
      {"apart", {row("x1", "x", "2026-01-01T00:00:00Z", 1.2, 1.3, 1.4), b1}, {{{"x1", 1}, {"b1", 2}}}},
      {"one failure is enough", {with(a1, Verdict::kDrift), a2}, {{}, {}, {"a1"}}},
      {"a failure later", {a1, with(a2, Verdict::kRace)}, {{}, {}, {"a2"}}},
      {"the newest failure speaks", {with(a2, Verdict::kRace), with(a1, Verdict::kDrift)}, {{}, {}, {"a2"}}},
      {"a failure on the VM takes the rank on the GPU", {b1, with(vm, Verdict::kRace)}, {{}, {}, {"v1"}}},
      {"a pass on the VM changes nothing", {b1, vm}, {{{"b1", 1}}}},
      {"only on the VM", {vm}, {{}, {"v1"}}},
      {"a harness error is nobody's fault", {a1, with(a2, Verdict::kHarnessError)}, {{{"a1", 1}}}},
      {"unsupported is no evidence", {with(a1, Verdict::kUnsupported)}, {{}, {}, {}, {"a1"}}},
      {"a part is not the whole", {a1, part}, {{{"a1", 1}}}},
      {"a part alone", {part}, {{}, {}, {}, {"a2"}}},
      {"only the newest version", {older, newer}, {{{"b1", 1}}}},
      {"bounds that are none", {twisted}, {{}, {"a1"}}},
      {"no score", {with(a1, Verdict::kPassed)}, {{}, {"a1"}}},
  };
  for (const auto& t : table) {
    INFO(t.name);
    const std::vector<BoardTask> tasks = make_standings(t.rows);
    REQUIRE(tasks.size() == 1);
    std::vector<std::pair<std::string, int64_t>> ranked;
    if (!tasks[0].rankings.empty())
      for (const BoardEntry& entry : tasks[0].rankings[0].entries)
        ranked.emplace_back(t.rows[entry.row].id, entry.rank);
    CHECK(ranked == t.expected.ranked);
    CHECK(ids(t.rows, tasks[0].untimed) == t.expected.untimed);
    CHECK(ids(t.rows, tasks[0].failed) == t.expected.failed);
    CHECK(ids(t.rows, tasks[0].unjudged) == t.expected.unjudged);
  }
}

TEST_CASE("what cannot be compared stands in rankings of its own") {
  const BoardRow base = row("a1", "a", "2026-01-01T00:00:00Z", 1.0, 1.1, 1.2);
  const struct {
    const char* name;
    std::function<void(BoardRow&)> change;
    size_t rankings;
  } table[] = {
      {"nothing", [](BoardRow&) {}, 1},
      {"device", [](BoardRow& r) { r.device = "other GPU"; }, 2},
      {"suite", [](BoardRow& r) { r.suite = "full"; }, 2},
      {"another shipped baseline", [](BoardRow& r) { r.baseline = "naive.cu"; }, 1},
      {"a baseline that the user named", [](BoardRow& r) { r.baseline = "./naive.cu"; }, 2},
      {"method", [](BoardRow& r) { r.method = "other"; }, 2},
      {"how the candidate was submitted", [](BoardRow& r) { r.method = "m; the candidate as a graph"; }, 1},
  };
  for (const auto& t : table) {
    INFO(t.name);
    BoardRow other = row("b2", "b", "2026-01-01T00:00:00Z", 1.0, 1.1, 1.2);
    t.change(other);
    CHECK(make_standings({base, other})[0].rankings.size() == t.rankings);
  }
}

TEST_CASE("the history is a running maximum of the lower end, from the first score on") {
  // Candidate a is measured again on the 5th: its newest record counts, its place in time is the first.
  const std::vector<BoardRow> rows = {
      row("a1", "a", "2026-01-01T00:00:00Z", 0.9, 1.0, 1.1), row("b2", "b", "2026-01-02T00:00:00Z", 1.2, 1.3, 1.4),
      row("c3", "c", "2026-01-03T00:00:00Z", 1.1, 1.5, 1.9), row("d4", "d", "2026-01-04T00:00:00Z", 1.3, 1.35, 1.4),
      row("a5", "a", "2026-01-05T00:00:00Z", 1.0, 1.1, 1.2)};
  const std::vector<BoardTask> tasks = make_standings(rows);
  REQUIRE(tasks[0].rankings.size() == 1);
  const BoardRanking& ranking = tasks[0].rankings[0];
  std::vector<std::string> holders;
  for (const size_t index : ranking.history) holders.push_back(rows[ranking.entries[index].row].id);
  CHECK(holders == std::vector<std::string>{"a5", "b2", "d4"});
  CHECK(ranking.entries[ranking.history[0]].first_utc == "2026-01-01T00:00:00Z");
  CHECK(rows[ranking.entries[0].row].id == "d4");  // the holder leads the table
}

TEST_CASE("tasks are sorted by name, and older versions counted") {
  std::vector<BoardRow> rows = {row("a1", "a", "2026-01-01T00:00:00Z", 1, 1, 1), row("b2", "b", "", 1, 1, 1),
                                row("c3", "c", "", 1, 1, 1)};
  rows[0].task = "muon";
  rows[1].task_version = 3;
  const std::vector<BoardTask> tasks = make_standings(rows);
  REQUIRE(tasks.size() == 2);
  CHECK(tasks[0].task == "adamw");
  CHECK(tasks[0].version == 3);
  CHECK(tasks[0].records == 1);
  CHECK(tasks[0].older_records == 1);
  CHECK(tasks[1].task == "muon");
  CHECK(make_standings({}).empty());
}

}  // namespace
}  // namespace stepbench
