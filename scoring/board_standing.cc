// Rows -> standings of every task, by the rules in board.h.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "scoring/board.h"
#include "scoring/rank.h"

namespace stepbench {
namespace {

bool says_nothing(Verdict verdict) { return verdict == Verdict::kUnsupported || verdict == Verdict::kHarnessError; }

/// Whether row a is older than row b. Times are ISO 8601 in UTC, whose order is that of the text.
bool is_older(const std::vector<BoardRow>& rows, size_t a, size_t b) {
  return std::tie(rows[a].created_utc, rows[a].sequence) < std::tie(rows[b].created_utc, rows[b].sequence);
}

/// What all records of one candidate say together.
struct Candidate {
  std::optional<size_t> failed;    ///< newest failed record
  std::optional<size_t> passed;    ///< newest whole record that passed
  std::optional<size_t> unjudged;  ///< newest other record
  struct Scored {
    size_t newest = 0;
    std::string first_utc;
  };
  std::map<RankingKey, Scored> scored;
};

void keep_newest(const std::vector<BoardRow>& rows, std::optional<size_t>& kept, size_t row) {
  if (!kept || is_older(rows, *kept, row)) kept = row;
}

void add_record(const std::vector<BoardRow>& rows, size_t index, Candidate& candidate) {
  const BoardRow& row = rows[index];
  if (!row.whole || says_nothing(row.verdict)) return keep_newest(rows, candidate.unjudged, index);
  if (row.verdict != Verdict::kPassed) return keep_newest(rows, candidate.failed, index);
  keep_newest(rows, candidate.passed, index);
  if (!(row.speedup > 0)) return;
  const std::string named = row.baseline.find('/') == std::string::npos ? "" : row.baseline;
  const std::string method = row.method.substr(0, row.method.find(';'));
  const RankingKey key{row.task, row.task_version, row.device, row.suite, named, method};
  const auto [scored, is_new] = candidate.scored.try_emplace(key, Candidate::Scored{index, row.created_utc});
  if (is_new) return;
  if (is_older(rows, scored->second.newest, index)) scored->second.newest = index;
  scored->second.first_utc = std::min(scored->second.first_utc, row.created_utc);
}

/// `unranked` receives the rows whose score cannot be ranked: bounds that are no bounds of it.
BoardRanking make_ranking(const std::vector<BoardRow>& rows, const RankingKey& key,
                          const std::vector<Candidate::Scored>& scored, std::vector<size_t>& unranked) {
  BoardRanking ranking;
  ranking.key = key;
  std::vector<ScoredEntry> entries;
  for (size_t i = 0; i < scored.size(); ++i) {
    const BoardRow& row = rows[scored[i].newest];
    entries.push_back({fmt::format("{}", i), row.verdict, row.speedup, row.low, row.high, ""});
  }
  const Ranking ranks = rank_scores(entries);
  for (const UnrankedEntry& entry : ranks.unranked) unranked.push_back(scored[std::stoul(entry.name)].newest);
  for (const RankedEntry& ranked : ranks.ranked) {
    const Candidate::Scored& candidate = scored[std::stoul(ranked.name)];
    ranking.entries.push_back({candidate.newest, ranked.rank, candidate.first_utc});
  }
  // The best when they came: a running maximum of the lower end over the time of the first score.
  std::vector<size_t> by_time(ranking.entries.size());
  for (size_t i = 0; i < by_time.size(); ++i) by_time[i] = i;
  std::stable_sort(by_time.begin(), by_time.end(), [&](size_t a, size_t b) {
    const BoardEntry &first = ranking.entries[a], &second = ranking.entries[b];
    return std::tie(first.first_utc, rows[first.row].sequence) < std::tie(second.first_utc, rows[second.row].sequence);
  });
  double best = 0;
  for (const size_t index : by_time) {
    const double low = rows[ranking.entries[index].row].low;
    if (low <= best) continue;
    best = low;
    ranking.history.push_back(index);
  }
  return ranking;
}

BoardTask make_task(const std::vector<BoardRow>& rows, const std::string& name, const std::vector<size_t>& records) {
  BoardTask task;
  task.task = name;
  for (const size_t index : records) task.version = std::max(task.version, rows[index].task_version);
  std::map<std::string, Candidate> candidates;
  for (const size_t index : records) {
    if (rows[index].task_version != task.version) {
      ++task.older_records;
      continue;
    }
    ++task.records;
    add_record(rows, index, candidates[rows[index].candidate_sha256]);
  }

  std::map<RankingKey, std::vector<Candidate::Scored>> scored;
  for (const auto& [sha256, candidate] : candidates) {
    if (candidate.failed) {
      task.failed.push_back(*candidate.failed);
    } else if (!candidate.passed) {
      task.unjudged.push_back(*candidate.unjudged);
    } else if (candidate.scored.empty()) {
      task.untimed.push_back(*candidate.passed);
    } else {
      for (const auto& [key, entry] : candidate.scored) scored[key].push_back(entry);
    }
  }
  for (const auto& [key, entries] : scored) {
    BoardRanking ranking = make_ranking(rows, key, entries, task.untimed);
    if (!ranking.entries.empty()) task.rankings.push_back(std::move(ranking));
  }
  std::stable_sort(task.rankings.begin(), task.rankings.end(),
                   [](const BoardRanking& a, const BoardRanking& b) { return a.entries.size() > b.entries.size(); });
  for (std::vector<size_t>* list : {&task.untimed, &task.failed, &task.unjudged})
    std::sort(list->begin(), list->end(), [&](size_t a, size_t b) { return is_older(rows, b, a); });
  return task;
}

}  // namespace

std::vector<BoardTask> make_standings(const std::vector<BoardRow>& rows) {
  std::map<std::string, std::vector<size_t>> by_task;
  for (size_t i = 0; i < rows.size(); ++i) by_task[rows[i].task].push_back(i);
  std::vector<BoardTask> tasks;
  for (const auto& [name, records] : by_task) tasks.push_back(make_task(rows, name, records));
  return tasks;
}

}  // namespace stepbench
