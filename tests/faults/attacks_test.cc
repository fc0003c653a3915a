// Every file of tests/attacks: the verdict that attacks.json expects, the line at fault, a command that replays it.
// C11: good candidates between and after them are judged as if nothing had happened.
#include <algorithm>
#include <filesystem>
#include <set>

#include "harness/json_reader.h"
#include "harness/record_folder.h"
#include "tests/faults/kernels.h"

using namespace stepbench;
using namespace stepbench::testing;

namespace {

struct Attack {
  std::string file, group;
  std::vector<std::string> rows;
  std::vector<Verdict> verdicts;
  std::string why;
};

std::string folder() { return std::string(STEPBENCH_TEST_FOLDER) + "/attacks"; }

std::vector<Attack> attacks() {
  const std::string path = folder() + "/attacks.json";
  const Result<std::string> text = read_file(path, 1 << 20);
  REQUIRE(text.ok());
  std::vector<Attack> list;
  try {
    const auto json = parse_json(path, text.value());
    for (const JsonReader& item : JsonReader(json, path, "").items()) {
      item.only_keys({"file", "class", "rows", "verdict", "why"});
      Attack attack{item.at("file").text(), item.at("class").text(), {}, {}, item.at("why").text()};
      for (const JsonReader& row : item.at("rows").items()) attack.rows.push_back(row.text());
      for (const JsonReader& word : item.at("verdict").items()) {
        const std::optional<Verdict> verdict = verdict_from_text(word.text());
        if (!verdict) word.fail("unknown verdict");
        attack.verdicts.push_back(*verdict);
      }
      list.push_back(std::move(attack));
    }
  } catch (const JsonProblem& problem) {
    FAIL(to_text(problem.error));
  }
  return list;
}

/// Verdicts that come from one line of the author's source.
bool has_line(Verdict verdict) {
  switch (verdict) {
    case Verdict::kCompileError:
    case Verdict::kRefused:
    case Verdict::kLaunchError:
    case Verdict::kOutOfBounds:
    case Verdict::kUninitializedRead:
    case Verdict::kRace:
    case Verdict::kBarrierDivergence: return true;
    case Verdict::kPassed:
    case Verdict::kBadCandidate:
    case Verdict::kWrongResult:
    case Verdict::kDrift:
    case Verdict::kNondeterministic:
    case Verdict::kDivergedTraining:
    case Verdict::kTimeout:
    case Verdict::kImpossibleTime:
    case Verdict::kUnsupported:
    case Verdict::kHarnessError: return false;
  }
  return false;
}

/// "path/attack.cu:12" -> 12; 0 when it is no line of this file.
int line_of(const std::string& place, const std::string& file) {
  const size_t colon = place.rfind(':');
  if (colon == std::string::npos || !place.substr(0, colon).ends_with(file)) return 0;
  return std::atoi(place.c_str() + colon + 1);
}

EvalRecord evaluated_file(const std::string& file, const TaskSpec& task) {
  Result<Judged<Candidate>> candidate = load_candidate(folder() + "/" + file, task.id);
  if (!candidate.ok()) FAIL(to_text(candidate.error()));
  if (candidate.value().ok()) return evaluated(task, *candidate.value().value);
  EvalRecord record;  // a plan that cannot be read
  record.failure = candidate.value().failure;
  record.verdict = record.failure->verdict;
  return record;
}

}  // namespace

TEST_CASE("every attack is in the index, with a row, a verdict and a reason") {
  std::set<std::string> listed;
  for (const Attack& attack : attacks()) {
    INFO(attack.file);
    CHECK(listed.insert(attack.file).second);
    CHECK(std::filesystem::exists(folder() + "/" + attack.file));
    CHECK_FALSE(attack.rows.empty());
    CHECK_FALSE(attack.verdicts.empty());
    CHECK_FALSE(attack.why.empty());
    CHECK_FALSE(attack.group.empty());
    for (const Verdict verdict : attack.verdicts) {
      CHECK(verdict != Verdict::kPassed);
      CHECK(verdict != Verdict::kHarnessError);
    }
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder())) {
    const std::string name = entry.path().filename().string();
    INFO(name);
    if (name != "attacks.json") CHECK(listed.count(name) == 1);
  }
}

TEST_CASE("no attack passes, and each is told what it did") {
  if (!can_compile()) return;
  const TaskSpec task = real_task("adamw");
  const Candidate good = candidate_of(adamw_text({}));
  check_passed(evaluated(task, good));
  for (const Attack& attack : attacks()) {
    const EvalRecord record = evaluated_file(attack.file, task);
    INFO(attack.file << ": " << attack.why);
    INFO("verdict " << to_text(record.verdict));
    CHECK(std::find(attack.verdicts.begin(), attack.verdicts.end(), record.verdict) != attack.verdicts.end());
    REQUIRE(record.failure);
    INFO(record.failure->message);
    CHECK_FALSE(record.failure->message.empty());
    CHECK(record.replay_command.rfind("stepbench eval ", 0) == 0);
    CHECK(record.replay_command.find(attack.file) != std::string::npos);
    if (has_line(record.verdict)) {
      INFO("place " << record.failure->place);
      const int line = line_of(record.failure->place, attack.file);
      const std::string& source = record.candidate.source;
      CHECK(line > 1);
      CHECK(line <= std::count(source.begin(), source.end(), '\n'));
    }
  }
  check_passed(evaluated(task, good));
}

TEST_CASE("C11: good, illegal, good, illegal, good") {
  if (!can_compile()) return;
  const TaskSpec task = real_task("adamw");
  const Candidate good = shipped("reference_kernels/adamw/float4.cu", "adamw");
  const Candidate illegal = shipped("tests/attacks/writes_past_end.cu", "adamw");
  std::vector<std::string> first;
  for (const bool is_good : {true, false, true, false, true}) {
    const EvalRecord record = evaluated(task, is_good ? good : illegal);
    if (!is_good) {
      check_failure(record, Verdict::kOutOfBounds);
      continue;
    }
    check_passed(record);
    std::vector<std::string> cases;  // all numbers of the record that do not depend on the clock
    for (const CaseReport& report : record.cases)
      cases.push_back(report.case_name + " " + std::to_string(report.worst_error_ratio) + " " +
                      std::to_string(report.elements_checked));
    if (first.empty()) first = cases;
    CHECK(cases == first);
  }
}
