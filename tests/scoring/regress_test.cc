// What `regress` says of two sets of records: a matrix of known answers, matching, and what is not compared.
#include "scoring/regress.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "tests/scoring/records.h"

using namespace stepbench;
using stepbench::test::passed_record;
using stepbench::test::timed_list;

namespace {

EvalRecord timed_record(double speedup = 1.5) {
  EvalRecord record = passed_record("adamw", "kernels/a.cu");
  record.timing = {timed_list("small", speedup)};
  return record;
}

void fail(EvalRecord& record, Verdict verdict, const std::string& check, const std::string& message) {
  record.verdict = verdict;
  record.failure = Failure{};
  record.failure->verdict = verdict;
  record.failure->check = check;
  record.failure->message = message;
  record.replay_command = "stepbench replay 0123456789abcdef";
}

const RegressFinding* find(const CandidateComparison& candidate, Aspect aspect, Change change) {
  const auto found =
      std::find_if(candidate.findings.begin(), candidate.findings.end(),
                   [&](const RegressFinding& finding) { return finding.aspect == aspect && finding.change == change; });
  return found == candidate.findings.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("a matrix of known answers") {
  struct Expected {
    size_t worse, better, not_compared;
    Aspect aspect;
    Change change;        ///< a finding of this aspect has this change ...
    const char* message;  ///< ... and says this
  };
  const struct {
    const char* name;
    void (*edit)(EvalRecord& before, EvalRecord& after);
    Expected expected;
  } rows[] = {
      {"same", [](EvalRecord&, EvalRecord&) {}, {0, 0, 0, Aspect::kSpeed, Change::kSame, "same: +0.00 %"}},
      {"2 % slower",
       [](EvalRecord&, EvalRecord& after) { after.timing = {timed_list("small", 1.5 / 1.02)}; },
       {1, 0, 0, Aspect::kSpeed, Change::kWorse, "slower: -1.96 %"}},
      {"0.5 % slower: within the tolerance",
       [](EvalRecord&, EvalRecord& after) { after.timing = {timed_list("small", 1.5 / 1.005)}; },
       {0, 0, 0, Aspect::kSpeed, Change::kSame, "same: -0.50 %"}},
      {"2 % slower, and too noisy to say so",
       [](EvalRecord& before, EvalRecord& after) {
         before.timing = {timed_list("small", 1.5, false, 0.3)};
         after.timing = {timed_list("small", 1.5 / 1.02, false, 0.3)};
       },
       {0, 0, 0, Aspect::kSpeed, Change::kNoted, "undecided: -1.96 %"}},
      {"faster",
       [](EvalRecord&, EvalRecord& after) { after.timing = {timed_list("small", 1.8)}; },
       {0, 1, 0, Aspect::kSpeed, Change::kBetter, "faster: +20.00 %"}},
      {"wrong now",
       [](EvalRecord&, EvalRecord& after) { fail(after, Verdict::kWrongResult, "edges", "param differs"); },
       {1, 0, 0, Aspect::kVerdict, Change::kWorse, "wrong_result now, passed before: param differs"}},
      {"an impossible time now",
       [](EvalRecord&, EvalRecord& after) { fail(after, Verdict::kImpossibleTime, "timing", "below the gate"); },
       {1, 0, 0, Aspect::kVerdict, Change::kWorse, "impossible_time now"}},
      {"fixed now",
       [](EvalRecord& before, EvalRecord&) { fail(before, Verdict::kRace, "edges", "two writes"); },
       {0, 1, 0, Aspect::kVerdict, Change::kBetter, "passes now, was race"}},
      {"wrong as before",
       [](EvalRecord& before, EvalRecord& after) {
         fail(before, Verdict::kWrongResult, "edges", "param differs");
         fail(after, Verdict::kWrongResult, "edges", "param differs elsewhere");
       },
       {0, 0, 0, Aspect::kVerdict, Change::kSame, "wrong_result, as before"}},
      {"fails otherwise",
       [](EvalRecord& before, EvalRecord& after) {
         fail(before, Verdict::kWrongResult, "edges", "param differs");
         fail(after, Verdict::kCompileError, "compile", "expected an expression");
       },
       {0, 0, 0, Aspect::kVerdict, Change::kNoted, "fails otherwise: compile_error, was wrong_result"}},
      {"unsupported now",
       [](EvalRecord&, EvalRecord& after) { fail(after, Verdict::kUnsupported, "load", "wgmma"); },
       {0, 0, 1, Aspect::kVerdict, Change::kNotCompared, "the new record is unsupported: wgmma"}},
      {"unsupported before, wrong now",
       [](EvalRecord& before, EvalRecord& after) {
         fail(before, Verdict::kUnsupported, "load", "wgmma");
         fail(after, Verdict::kWrongResult, "edges", "param differs");
       },
       {0, 0, 1, Aspect::kVerdict, Change::kNotCompared, "the old record is unsupported: wgmma"}},
      {"harness_error now",
       [](EvalRecord&, EvalRecord& after) { fail(after, Verdict::kHarnessError, "load", "driver lost"); },
       {0, 0, 1, Aspect::kVerdict, Change::kNotCompared, "the new record is harness_error: driver lost"}},
      {"another GPU: speed is not compared, the rest is",
       [](EvalRecord&, EvalRecord& after) {
         after.environment.device = "NVIDIA A100";
         after.timing = {timed_list("small", 0.5)};
       },
       {0, 0, 1, Aspect::kSpeed, Change::kNotCompared, "other devices: NVIDIA A100, was NVIDIA H200"}},
      {"another GPU: wrong there is worse",
       [](EvalRecord&, EvalRecord& after) {
         after.environment.device = "NVIDIA A100";
         fail(after, Verdict::kWrongResult, "edges", "param differs");
       },
       {1, 0, 0, Aspect::kVerdict, Change::kWorse, "(on NVIDIA A100, before on NVIDIA H200)"}},
      {"another GPU: a timeout there says nothing",
       [](EvalRecord&, EvalRecord& after) {
         after.environment.device = "vm";
         fail(after, Verdict::kTimeout, "edges", "budget");
       },
       {0, 0, 1, Aspect::kVerdict, Change::kNotCompared, "timeout on another device (vm, was NVIDIA H200)"}},
      {"another version of the task: nothing is compared",
       [](EvalRecord&, EvalRecord& after) {
         after.task_version = 2;
         fail(after, Verdict::kWrongResult, "edges", "param differs");
       },
       {0, 0, 1, Aspect::kVerdict, Change::kNotCompared, "the task's version went from 1 to 2"}},
      {"another suite: nothing is compared",
       [](EvalRecord&, EvalRecord& after) {
         after.suite = "full";
         fail(after, Verdict::kDrift, "drift", "grows");
       },
       {0, 0, 1, Aspect::kVerdict, Change::kNotCompared, "the suite was standard and is full"}},
      {"another baseline",
       [](EvalRecord&, EvalRecord& after) {
         after.timing = {timed_list("small", 0.5)};
         after.timing[0].baseline_sha256 = std::string(64, 'c');
       },
       {0, 0, 1, Aspect::kSpeed, Change::kNotCompared, "another baseline: fused.cu, was fused.cu with another text"}},
      {"another method",
       [](EvalRecord&, EvalRecord& after) {
         after.timing = {timed_list("small", 0.5)};
         after.timing[0].method = "graph";
       },
       {0, 0, 1, Aspect::kSpeed, Change::kNotCompared, "measured by another method: graph, was events, L2 read"}},
      {"not timed now",
       [](EvalRecord&, EvalRecord& after) { after.timing.clear(); },
       {0, 0, 1, Aspect::kSpeed, Change::kNotCompared, "not timed in the new record"}},
      {"too few pairs now",
       [](EvalRecord&, EvalRecord& after) { after.timing[0].pairs.resize(3); },
       {0, 0, 1, Aspect::kSpeed, Change::kNotCompared, "new record: too few pairs of times"}},
      {"errors grow, within their limit",
       [](EvalRecord&, EvalRecord& after) { after.cases[0].worst_error_ratio = 0.75; },
       {1, 0, 0, Aspect::kErrors, Change::kWorse, "worst error went from 0.25 to 0.75 of the limit"}},
      {"errors grow, and stay far below it",
       [](EvalRecord& before, EvalRecord& after) {
         before.cases[0].worst_error_ratio = 0.001;
         after.cases[0].worst_error_ratio = 0.09;
       },
       {0, 0, 0, Aspect::kErrors, Change::kSame, "no error has changed by more than 2 times (1 case)"}},
      {"errors shrink",
       [](EvalRecord&, EvalRecord& after) { after.cases[0].worst_error_ratio = 0.1; },
       {0, 1, 0, Aspect::kErrors, Change::kBetter, "worst error went from 0.25 to 0.1 of the limit"}},
      {"drift grows at the last step",
       [](EvalRecord& before, EvalRecord& after) {
         before.drift = {{"d/t1-200", "param", {{90, 1e-6, 0, 0}, {200, 3e-5, 0, 0}}, 1, 2e-4}};
         after.drift = {{"d/t1-200", "param", {{70, 1e-3, 0, 0}, {200, 1e-4, 0, 0}}, 1, 2e-4}};
       },
       {1, 0, 0, Aspect::kDrift, Change::kWorse, "RMS drift went from 0.15 to 0.5 of the limit"}},
      {"drift that is roundings nearly all, as the records say",
       [](EvalRecord& before, EvalRecord& after) {
         before.drift = {{"d/t1-200", "param", {{200, 1e-3, 0, 0, 0.2}}, 1, 2e-4}};
         after.drift = {{"d/t1-200", "param", {{200, 4e-1, 0, 0, 0.3}}, 1, 2e-4}};
       },
       {0, 0, 0, Aspect::kDrift, Change::kSame, "no curve has changed by more than 2 times (1 curve)"}},
      {"drift that is roundings nearly all, in records that do not say it",
       [](EvalRecord& before, EvalRecord& after) {
         before.drift = {{"d/t1-200", "param", {{200, 1e-3, 0, 0}}, 1, 2e-4}};
         after.drift = {{"d/t1-200", "param", {{200, 4e-1, 0, 0}}, 1, 2e-4}};
         for (EvalRecord* record : {&before, &after}) {
           record->cases.push_back(record->cases[0]);
           record->cases.back().check = "drift";
           record->cases.back().case_name = "d/t1-200";
         }
       },
       {0, 0, 0, Aspect::kDrift, Change::kSame, "no curve has changed by more than 2 times (1 curve)"}},
      {"drift as before",
       [](EvalRecord& before, EvalRecord& after) {
         before.drift = {{"d/t1-200", "param", {{200, 3e-5, 0, 0}}, 1, 2e-4}};
         after.drift = {{"d/t1-200", "param", {{200, 5e-5, 0, 0}}, 1, 2e-4}};
       },
       {0, 0, 0, Aspect::kDrift, Change::kSame, "no curve has changed by more than 2 times (1 curve)"}},
      {"spills appear",
       [](EvalRecord&, EvalRecord& after) { after.resources[0].spill_store_bytes = 8; },
       {1, 0, 0, Aspect::kResources, Change::kWorse, "bytes spilled per thread went from 0 to 8"}},
      {"spills disappear",
       [](EvalRecord& before, EvalRecord&) { before.resources[0].spill_load_bytes = 8; },
       {0, 1, 0, Aspect::kResources, Change::kBetter, "bytes spilled per thread went from 8 to 0"}},
      {"other registers decide nothing",
       [](EvalRecord&, EvalRecord& after) { after.resources[0].registers = 64; },
       {0, 0, 0, Aspect::kResources, Change::kNoted, "registers went from 32 to 64"}},
      {"more bytes per parameter",
       [](EvalRecord&, EvalRecord& after) { after.modelled_bytes_per_param = 32; },
       {1, 0, 0, Aspect::kResources, Change::kWorse, "modelled bytes per parameter went from 28 to 32"}},
      {"bytes of another case",
       [](EvalRecord&, EvalRecord& after) {
         after.modelled_bytes_per_param = 32;
         after.traffic_params = 5;
       },
       {0, 0, 1, Aspect::kResources, Change::kNotCompared, "modelled bytes of another case"}},
      {"resources of unknown size",
       [](EvalRecord&, EvalRecord& after) { after.resources[0] = {"step", -1, -1, -1, -1, -1, -1}; },
       {0, 0, 0, Aspect::kResources, Change::kSame, "registers, spills and modelled bytes are as before"}},
      {"another compiler: resources are not compared",
       [](EvalRecord&, EvalRecord& after) {
         after.environment.compiler = "NVRTC 13.1";
         after.resources[0].spill_store_bytes = 8;
       },
       {0, 0, 1, Aspect::kResources, Change::kNotCompared, "other compilers: NVRTC 13.1, was NVRTC 13.0"}},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    EvalRecord before = timed_record(), after = timed_record();
    row.edit(before, after);
    const RegressReport report = compare_records({&before, 1}, {&after, 1}, {});
    REQUIRE(report.candidates.size() == 1);
    CHECK(report.matched == 1);
    CHECK(report.count(Change::kWorse) == row.expected.worse);
    CHECK(report.count(Change::kBetter) == row.expected.better);
    CHECK(report.count(Change::kNotCompared) == row.expected.not_compared);
    CHECK(report.not_judged == (after.verdict == Verdict::kHarnessError ? 1 : 0));
    const RegressFinding* finding = find(report.candidates[0], row.expected.aspect, row.expected.change);
    REQUIRE(finding != nullptr);
    INFO(finding->message);
    CHECK(finding->message.find(row.expected.message) != std::string::npos);
    // The other way round: what was worse is better, where it is about amounts.
    if (row.expected.aspect == Aspect::kVerdict) continue;
    const RegressReport reversed = compare_records({&after, 1}, {&before, 1}, {});
    CHECK(reversed.count(Change::kWorse) == row.expected.better);
    CHECK(reversed.count(Change::kBetter) == row.expected.worse);
    CHECK(reversed.count(Change::kNotCompared) == row.expected.not_compared);
  }
}

TEST_CASE("missing and added candidates are named; missing ones count on request") {
  EvalRecord only_old = timed_record(), only_new = timed_record(), both = timed_record();
  only_old.candidate.path = "old.cu";
  only_new.candidate.path = "new.cu";
  fail(only_new, Verdict::kWrongResult, "edges", "param differs");
  const EvalRecord before[] = {only_old, both}, after[] = {both, only_new};
  const RegressReport report = compare_records(before, after, {});
  CHECK(report.matched == 1);
  CHECK(report.missing == 1);
  CHECK(report.added == 1);
  CHECK(report.count(Change::kWorse) == 0);
  REQUIRE(report.candidates.size() == 3);
  CHECK(report.candidates[1].presence == Presence::kAdded);
  CHECK(report.candidates[1].findings[0].message == "not among the old records; wrong_result: param differs");
  CHECK(report.candidates[2].presence == Presence::kMissing);
  CHECK(report.candidates[2].findings[0].message == "not among the new records; was passed");
  RegressRule strict;
  strict.require_all = true;
  CHECK(compare_records(before, after, strict).count(Change::kWorse) == 1);
  CHECK(compare_records({}, after, strict).count(Change::kWorse) == 0);
  CHECK(compare_records({}, {}, strict).candidates.empty());
}

TEST_CASE("which records belong together") {
  struct Side {
    const char* task;
    const char* submission;  ///< nullptr: none
    const char* path;
    const char* id;
  };
  const struct {
    const char* name;
    std::vector<Side> before, after;
    std::vector<std::string> pairs;  ///< "old id>new id", "-" for none
  } rows[] = {
      {"by path", {{"adamw", nullptr, "x/a.cu", "1"}}, {{"adamw", nullptr, "x/a.cu", "2"}}, {"1>2"}},
      {"by file name", {{"adamw", nullptr, "x/a.cu", "1"}}, {{"adamw", nullptr, "/tmp/y/a.cu", "2"}}, {"1>2"}},
      {"another task is another candidate",
       {{"adamw", nullptr, "a.cu", "1"}},
       {{"lion", nullptr, "a.cu", "2"}},
       {"1>-", "->2"}},
      {"the path precedes the file name",
       {{"adamw", nullptr, "x/a.cu", "1"}, {"adamw", nullptr, "y/a.cu", "2"}},
       {{"adamw", nullptr, "y/a.cu", "3"}, {"adamw", nullptr, "z/a.cu", "4"}},
       {"2>3", "1>4"}},
      {"two of one file name are not guessed",
       {{"adamw", nullptr, "x/a.cu", "1"}, {"adamw", nullptr, "y/a.cu", "2"}},
       {{"adamw", nullptr, "z/a.cu", "3"}},
       {"1>-", "2>-", "->3"}},
      {"two people, one file name",
       {{"adamw", "ann", "a.cu", "1"}, {"adamw", "bob", "a.cu", "2"}},
       {{"adamw", "bob", "a.cu", "3"}, {"adamw", "ann", "a.cu", "4"}},
       {"1>4", "2>3"}},
      {"a submission's file from another folder",
       {{"adamw", "ann", "x/a.cu", "1"}, {"adamw", "bob", "x/a.cu", "2"}},
       {{"adamw", "ann", "y/a.cu", "3"}},
       {"1>3", "2>-"}},
      {"a submission evaluated without a name",
       {{"adamw", "ann", "x/a.cu", "1"}},
       {{"adamw", nullptr, "y/a.cu", "2"}},
       {"1>2"}},
      {"whose of two is not guessed",
       {{"adamw", "ann", "x/a.cu", "1"}, {"adamw", "bob", "x/a.cu", "2"}},
       {{"adamw", nullptr, "x/a.cu", "3"}},
       {"1>-", "2>-", "->3"}},
  };
  const auto records_of = [](const std::vector<Side>& side) {
    std::vector<EvalRecord> records;
    for (const Side& one : side) {
      records.push_back(passed_record(one.task, one.path));
      records.back().id = one.id;
      if (one.submission) {
        records.back().submission = Submission{};
        records.back().submission->name = one.submission;
      }
    }
    return records;
  };
  for (const auto& row : rows) {
    INFO(row.name);
    const std::vector<EvalRecord> before = records_of(row.before), after = records_of(row.after);
    std::vector<std::string> pairs;
    for (const CandidateComparison& candidate : compare_records(before, after, {}).candidates)
      pairs.push_back((candidate.old_id.empty() ? "-" : candidate.old_id) + ">" +
                      (candidate.new_id.empty() ? "-" : candidate.new_id));
    std::vector<std::string> expected = row.pairs;
    std::sort(pairs.begin(), pairs.end());
    std::sort(expected.begin(), expected.end());
    CHECK(pairs == expected);
  }
}

TEST_CASE("of several records of a candidate the newest counts, on the old side the newest that was made alike") {
  const auto record = [](const char* id, const char* created, const char* suite, const char* device) {
    EvalRecord one = passed_record("adamw", "a.cu");
    one.id = id;
    one.created_utc = created;
    one.suite = suite;
    one.environment.device = device;
    return one;
  };
  const EvalRecord after[] = {record("n1", "2025-02-01T00:00:00Z", "full", "vm"),
                              record("n2", "2025-02-02T00:00:00Z", "standard", "vm"),
                              record("n0", "2025-01-31T00:00:00Z", "smoke", "vm")};
  const EvalRecord before[] = {record("o1", "2025-01-01T00:00:00Z", "standard", "vm"),
                               record("o2", "2025-01-02T00:00:00Z", "standard", "vm"),
                               record("o3", "2025-01-03T00:00:00Z", "smoke", "vm"),
                               record("o4", "2025-01-04T00:00:00Z", "standard", "NVIDIA H200")};
  const RegressReport alike = compare_records(before, after, {});
  REQUIRE(alike.candidates.size() == 1);
  CHECK(alike.candidates[0].old_id == "o2");
  CHECK(alike.candidates[0].new_id == "n2");
  const RegressReport unlike = compare_records({before + 2, 2}, after, {});
  CHECK(unlike.candidates[0].old_id == "o4");  // the newest
  CHECK(unlike.count(Change::kWorse) == 0);
}

TEST_CASE("other random numbers: errors by check, hidden lists not at all") {
  EvalRecord before = timed_record(), after = timed_record();
  after.salt = "00000000000000ab";
  before.cases = {{"edges", "a", Verdict::kPassed, 1, 0.5, "param", 1},
                  {"edges", "b", Verdict::kPassed, 1, 0.1, "p", 1}};
  after.cases = {{"edges", "a", Verdict::kPassed, 1, 0.1, "param", 1},
                 {"edges", "b", Verdict::kPassed, 1, 0.6, "p", 1}};
  before.timing.push_back(timed_list("varied", 1.2, true));
  after.timing.push_back(timed_list("varied", 0.6, true));
  const RegressReport report = compare_records({&before, 1}, {&after, 1}, {});
  CHECK(report.count(Change::kWorse) == 0);
  CHECK(report.count(Change::kNotCompared) == 1);
  after.salt = before.salt;  // control: the same numbers
  const RegressReport same_salt = compare_records({&before, 1}, {&after, 1}, {});
  CHECK(same_salt.count(Change::kWorse) == 2);  // case b and the hidden list
  CHECK(same_salt.count(Change::kBetter) == 1);
}

TEST_CASE("differences of environment are named once, with what follows from them") {
  EvalRecord before[] = {timed_record(), timed_record()}, after[] = {timed_record(), timed_record()};
  before[1].candidate.path = after[1].candidate.path = "kernels/b.cu";
  for (EvalRecord& record : after) record.environment.driver = "590.10";
  after[1].environment.compiler = "NVRTC 13.1";
  after[1].environment.device = "NVIDIA A100";
  const RegressReport report = compare_records(before, after, {});
  REQUIRE(report.environment.size() == 3);
  CHECK(report.environment[0].field == "device");
  CHECK(report.environment[0].before == "NVIDIA H200");
  CHECK(report.environment[0].after == "NVIDIA A100");
  CHECK(report.environment[0].candidates == 1);
  CHECK(report.environment[0].consequence == "speed is not compared");
  CHECK(report.environment[1].field == "driver");
  CHECK(report.environment[1].candidates == 2);
  CHECK(report.environment[1].consequence.empty());
  CHECK(report.environment[2].field == "compiler");
  CHECK(report.environment[2].consequence == "resources are not compared");
  CHECK(compare_records(before, before, {}).environment.empty());
  // What one side does not say is no difference.
  for (EvalRecord& record : after) record.environment = {};
  CHECK(compare_records(before, after, {}).environment.empty());
}

TEST_CASE("the ratio of two independent speedups, worked out by hand") {
  // log: 1.5 in [1.4, 1.7] over 1.2 in [1.1, 1.25].
  // middle = ln 1.25; low = middle - hypot(ln(1.5/1.4), ln(1.25/1.2)) = 0.2231436 - hypot(0.0689929, 0.0408220)
  //        = 0.2231436 - 0.0801650; high = middle + hypot(ln(1.7/1.5), ln(1.2/1.1)) = 0.2231436 +
  //        hypot(0.1251631, 0.0870114) = 0.2231436 + 0.1524362
  const Speedup after{1.5, 1.4, 1.7, SpeedWord::kFaster, 30}, before{1.2, 1.1, 1.25, SpeedWord::kFaster, 20};
  const Speedup ratio = ratio_of(after, before, 0.01);
  CHECK(ratio.speedup == Approx(1.25).epsilon(1e-14));
  CHECK(std::log(ratio.low) == Approx(0.2231436 - 0.0801650).margin(1e-6));
  CHECK(std::log(ratio.high) == Approx(0.2231436 + 0.1524362).margin(1e-6));
  CHECK(ratio.word == SpeedWord::kFaster);
  CHECK(ratio_of(before, after, 0.01).word == SpeedWord::kSlower);
  CHECK(ratio_of(after, before, 0.2).word == SpeedWord::kUndecided);
  CHECK(ratio_of(after, before, 0.5).word == SpeedWord::kSame);
}

TEST_CASE("two runs of one kernel: a regression is reported in fewer than 1 % of comparisons, 3 % are seen") {
  test::Exponential noise(17);
  const auto run = [&](double speedup) {
    std::vector<TimedPair> pairs(60);
    for (TimedPair& pair : pairs) pair = {1e5 * std::exp(0.02 * noise.centred()) * speedup, 1e5};
    return speedup_of(pairs).value();
  };
  int false_alarms = 0, seen = 0;
  for (int i = 0; i < 1000; ++i) {
    false_alarms += ratio_of(run(1.5), run(1.5), 0.01).word == SpeedWord::kSlower;
    seen += ratio_of(run(1.5 / 1.03), run(1.5), 0.01).word == SpeedWord::kSlower;
  }
  CHECK(false_alarms < 10);
  CHECK(seen > 900);
}

TEST_CASE("the line of an annotation is the failure's when it is in the candidate's file") {
  const struct {
    const char* place;
    int32_t line;
  } rows[] = {{"a.cu:15", 15}, {"kernels/a.cu:15", 15},
              {"b.cu:15", 3},  {"kernels/a.cu: /launches/0/block", 3},
              {"", 3},         {"a.cu:0", 3},
              {"a.cu:1x", 3},  {"a.cu:99999999999", 3},
              {"a.cu", 3},     {":", 3},
              {"a.cu:-4", 3}};
  for (const auto& row : rows) {
    INFO(row.place);
    EvalRecord before = timed_record(), after = timed_record();
    fail(after, Verdict::kRace, "edges", "two writes");
    after.failure->place = row.place;
    after.candidate.plan_line = 3;
    CHECK(compare_records({&before, 1}, {&after, 1}, {}).candidates[0].line == row.line);
  }
}
