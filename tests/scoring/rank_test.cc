// Ranks with intervals: sharing follows the group's leader and is transitive. Exact scores:
// tests/faults/scores_test.cc.
#include "scoring/rank.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "scoring/score.h"
#include "tests/scoring/records.h"

using namespace stepbench;

namespace {

ScoredEntry entry(const std::string& name, double low, double score, double high) {
  return {name, Verdict::kPassed, score, low, high, ""};
}

std::string order_of(const Ranking& ranking) {
  std::string text;
  for (const RankedEntry& one : ranking.ranked) text += one.name + std::to_string(one.rank) + " ";
  return text;
}

}  // namespace

TEST_CASE("ranks of intervals") {
  const struct {
    const char* name;
    std::vector<ScoredEntry> entries;
    const char* order;  ///< name and rank, best first
  } rows[] = {
      {"none", {}, ""},
      {"alone", {entry("a", 1, 1.1, 1.2)}, "a1 "},
      {"apart", {entry("a", 1, 1.1, 1.2), entry("b", 1.3, 1.4, 1.5)}, "b1 a2 "},
      {"overlapping", {entry("a", 1, 1.1, 1.2), entry("b", 1.15, 1.3, 1.5)}, "b1 a1 "},
      {"touching", {entry("a", 1, 1.1, 1.2), entry("b", 1.2, 1.3, 1.5)}, "b1 a1 "},
      {"a hair apart", {entry("a", 1, 1.1, 1.2), entry("b", 1.2000001, 1.3, 1.5)}, "b1 a2 "},
      {"the lower bound counts, not the middle", {entry("a", 1.0, 1.9, 1.95), entry("b", 1.2, 1.3, 1.5)}, "b1 a1 "},
      // c reaches b and b reaches a, but c does not reach the leader a: it leads the next group.
      {"a chain breaks at the leader",
       {entry("a", 2.0, 2.1, 2.2), entry("b", 1.8, 1.9, 2.05), entry("c", 1.6, 1.7, 1.85)},
       "a1 b1 c3 "},
      // d is as wide as all of them; it lies under c and stays with c.
      {"a wide one far down stays down",
       {entry("a", 2.0, 2.1, 2.2), entry("c", 1.6, 1.7, 1.85), entry("d", 1.0, 1.5, 3)},
       "a1 c2 d2 "},
      {"groups count all their members",
       {entry("a", 2, 2.1, 2.2), entry("b", 1.9, 2, 2.1), entry("c", 1.8, 1.9, 2.05), entry("d", 1, 1.1, 1.2)},
       "a1 b1 c1 d4 "},
      {"equal lower bounds: by score", {entry("a", 1, 1.1, 1.3), entry("b", 1, 1.2, 1.3)}, "b1 a1 "},
      {"exact scores beside intervals",
       {entry("a", 1, 1.1, 1.2), {"b", Verdict::kPassed, 1.15}, {"c", Verdict::kPassed, 1.25}},
       "c1 b2 a2 "},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    CHECK(order_of(rank_scores(row.entries)) == row.order);
    std::vector<ScoredEntry> reversed(row.entries.rbegin(), row.entries.rend());
    CHECK(order_of(rank_scores(reversed)) == row.order);
  }
}

TEST_CASE("bounds that are none keep an entry out of the ranks") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const struct {
    const char* name;
    std::optional<double> low, high;
    const char* reason;
  } rows[] = {{"control", 1.0, 1.2, ""},
              {"no bounds", std::nullopt, std::nullopt, ""},
              {"one bound", 1.0, std::nullopt, "score has one bound"},
              {"the other bound", std::nullopt, 1.2, "score has one bound"},
              {"nan", std::nan(""), 1.2, "a bound is unusable"},
              {"infinite", 1.0, kInfinity, "a bound is unusable"},
              {"zero", 0.0, 1.2, "a bound is unusable"},
              {"above the score", 1.15, 1.2, "score is outside its bounds"},
              {"below the score", 1.0, 1.05, "score is outside its bounds"}};
  for (const auto& row : rows) {
    INFO(row.name);
    const ScoredEntry one{"x", Verdict::kPassed, 1.1, row.low, row.high, ""};
    const Ranking ranking = rank_scores({&one, 1});
    CHECK(ranking.ranked.size() == (row.reason[0] == '\0' ? 1 : 0));
    if (!ranking.unranked.empty()) CHECK(ranking.unranked[0].reason == row.reason);
  }
}

TEST_CASE("records enter the ranks by their scores, and stay out with the reason") {
  EvalRecord fast = test::passed_record("adamw", "fast.cu"), untimed = fast, wrong = fast;
  fast.timing = {test::timed_list("small", 1.5)};
  wrong.timing = fast.timing;
  wrong.verdict = Verdict::kWrongResult;
  const ScoredEntry entries[] = {entry_of("untimed", score_of(untimed)), entry_of("wrong", score_of(wrong)),
                                 entry_of("fast", score_of(fast))};
  const Ranking ranking = rank_scores(entries);
  REQUIRE(ranking.ranked.size() == 1);
  CHECK(ranking.ranked[0].name == "fast");
  CHECK(ranking.ranked[0].low < 1.5);
  CHECK(ranking.ranked[0].high > 1.5);
  REQUIRE(ranking.unranked.size() == 2);
  CHECK(ranking.unranked[0].reason == "nothing was timed");
  CHECK(ranking.unranked[1].reason == "verdict wrong_result");
}
