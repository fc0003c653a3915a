// Report and table of made-up records: every fact is there, modelled numbers say so, nothing is coloured unasked.
#include "harness/report.h"

#include <cmath>
#include <limits>

#include "scoring/summary.h"
#include "tests/app/program.h"

namespace stepbench {
namespace {

EvalRecord passed_record() {
  EvalRecord record;
  record.id = "0123456789abcdef";
  record.task = "adamw";
  record.suite = "smoke";
  record.salt = "000000000000002a";
  record.candidate.path = "good.cu";
  record.environment.device = "vm";
  record.verdict = Verdict::kPassed;
  record.cases = {{"edges", "[1]/gaussian", Verdict::kPassed, 3, 0.125, "param", 10},
                  {"edges", "[2]/gaussian", Verdict::kPassed, 6, 0.5, "exp_avg", 20},
                  {"families", "ragged/tiny", Verdict::kPassed, 1000, 0.25, "param", 30}};
  record.drift = {{"small_net/gaussian", "param", {{100, 1e-7, 0, 0}, {1000, 3e-7, 1e-9, 0.5}}, 0.51, 2e-4}};
  record.resources = {{"adamw_step", 32, 0, 0, 0, 0, 568}, {"second", 64, 16, 8, 0, 1024, 0}};
  record.notes = {"reads the clock"};
  record.modelled_bytes_per_param = 28.5;
  record.ideal_bytes_per_param = 28;
  record.traffic_params = 65536;
  record.wall_ms = 2500;
  record.stage_ms = {{"compile", 700}, {"edges", 30}};
  return record;
}

EvalRecord failed_record() {
  EvalRecord record = passed_record();
  record.candidate.path = "bad.cu";
  record.verdict = Verdict::kWrongResult;
  record.failure = Failure{Verdict::kWrongResult,
                           "param is wrong",
                           "bad.cu:12",
                           "families",
                           "ragged/tiny/t10",
                           0xabc,
                           10,
                           "param",
                           3,
                           17,
                           0.5,
                           0.75,
                           42.5,
                           "smallest failing shape: [1]\nsecond line"};
  record.replay_command = "stepbench replay 0123456789abcdef";
  record.modelled_bytes_per_param = 0;
  record.resources.clear();
  return record;
}

TEST_CASE("the report of a failure tells where, what and how to see it again") {
  const std::string text = render_report(failed_record(), {});
  for (const char* fact :
       {"bad.cu  wrong_result", "param is wrong", "bad.cu:12", "families, case ragged/tiny/t10, step 10",
        "seed 0000000000000abc", "buffer param, tensor 3, element 17", "0.5", "0.75", "42.5 x the limit",
        "smallest failing shape: [1]", "second line", "stepbench replay 0123456789abcdef"}) {
    INFO(text);
    CHECK_THAT(text, Catch::Contains(fact));
  }
  CHECK(text.find('\033') == std::string::npos);
  CHECK(render_report(failed_record(), {true, false}).find("\033[1;31mwrong_result") != std::string::npos);
}

TEST_CASE("the report of a pass tells how far from the limit") {
  const std::string text = render_report(passed_record(), {});
  INFO(text);
  for (const char* fact :
       {"good.cu  passed", "2 cases, 9 elements, worst 0.5 x the limit in exp_avg ([2]/gaussian)",
        "1 case, 1000 elements", "1000 steps", "step^0.51", "modelled 28.50 bytes per parameter, floor 28.00",
        "not a measurement", "32 registers, 0 bytes spilled", "64 registers, 24 bytes spilled", "reads the clock",
        "2.5 s on this host"})
    CHECK_THAT(text, Catch::Contains(fact));
  CHECK_THAT(text, !Catch::Contains("replay"));
  CHECK_THAT(text, !Catch::Contains("slowest"));
  const std::string profile = render_report(passed_record(), {false, true});
  CHECK_THAT(profile, Catch::Contains("compile      700 ms") && Catch::Contains("slowest"));
}

TEST_CASE("a floor that memory does not make is named") {
  EvalRecord record = passed_record();
  TimingReport timing;
  timing.list = "muon_2048";
  timing.baseline = "gemm_bf16.cu";
  timing.baseline_ns = 300'000;
  timing.candidate_ns = 229'000;
  timing.floor_ns = 114'500;
  timing.floor_ratio = 0.5;
  const struct {
    FloorBy by;
    const char* text;
  } rows[] = {{FloorBy::kMemory, "50.0 % of the floor's rate\n"},
              {FloorBy::kFp32, "50.0 % of the floor's rate (fp32 arithmetic)\n"},
              {FloorBy::kTensor, "50.0 % of the floor's rate (products)\n"}};
  for (const auto& row : rows) {
    timing.floor_by = row.by;
    record.timing = {timing};
    CHECK_THAT(render_report(record, {}), Catch::Contains(row.text));
  }
}

TEST_CASE("a number that is not finite is the worst, and is printed") {
  EvalRecord record = failed_record();
  record.failure->got = std::numeric_limits<double>::quiet_NaN();
  record.failure->error_ratio = std::numeric_limits<double>::infinity();
  record.cases[0].worst_error_ratio = std::numeric_limits<double>::quiet_NaN();
  const std::string text = render_report(record, {});
  INFO(text);
  CHECK_THAT(text, Catch::Contains("got       nan") && Catch::Contains("inf (a value that is not finite"));
  CHECK_THAT(text, Catch::Contains("worst nan"));
}

TEST_CASE("a fault has an element but no values") {
  EvalRecord record = failed_record();
  record.verdict = record.failure->verdict = Verdict::kOutOfBounds;
  record.failure->expected = record.failure->got = record.failure->error_ratio = 0;
  const std::string text = render_report(record, {});
  INFO(text);
  CHECK_THAT(text,
             Catch::Contains("element 17") && !Catch::Contains("expected") && !Catch::Contains("0 x the limit\n"));
}

TEST_CASE("long details are cut with a mark") {
  EvalRecord record = failed_record();
  for (int i = 0; i < 1000; ++i) record.failure->detail += "line\n";
  const std::string text = render_report(record, {});
  CHECK(std::count(text.begin(), text.end(), '\n') < 60);
  CHECK_THAT(text, Catch::Contains("the record has the rest"));
}

TEST_CASE("the table of several records") {
  EvalRecord crashed = failed_record();
  crashed.candidate.path = "n\xC3\xB6.cu";
  crashed.verdict = Verdict::kHarnessError;
  crashed.failure->verdict = Verdict::kHarnessError;
  crashed.failure->check = "compile";
  crashed.failure->case_name = "";
  const EvalRecord records[] = {passed_record(), failed_record(), crashed};
  const std::vector<SummaryRow> rows = summarize(records);
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].registers == 64);
  CHECK(rows[0].replay.empty());
  CHECK(rows[1].registers == -1);
  CHECK(rows[1].where == "families ragged/tiny/t10");
  CHECK(rows[2].where == "compile");
  CHECK(render_table(rows) ==
        "candidate  verdict        modelled B/param / floor  regs  failed in                 replay\n"
        "good.cu    passed         28.50 / 28.00             64    -                         -\n"
        "bad.cu     wrong_result   - / 28.00                 -     families ragged/tiny/t10  stepbench replay "
        "0123456789abcdef\n"
        "n\xC3\xB6.cu      harness_error  - / 28.00                 -     compile                   stepbench replay "
        "0123456789abcdef\n");
  CHECK(render_table({}) == "candidate  verdict  modelled B/param / floor  regs  failed in  replay\n");
}

}  // namespace
}  // namespace stepbench
