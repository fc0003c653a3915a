// `stepbench regress` as a program: where sides come from, exit codes, forms written, a run compared with its records.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "harness/record_folder.h"
#include "harness/record_source.h"
#include "harness/stages.h"
#include "harness/store.h"
#include "tests/app/program.h"

using namespace stepbench;

namespace {

EvalRecord stored_record(const std::string& id, const std::string& path, const std::string& created = "2025-01-02") {
  EvalRecord record;
  record.id = id;
  record.created_utc = created + "T03:04:05Z";
  record.task = "adamw";
  record.suite = "smoke";
  record.salt = "00000000000000aa";
  record.candidate.path = path;
  record.candidate.task = "adamw";
  record.candidate.source = "// " + path;
  record.candidate.sha256 = sha256_hex(record.candidate.source);
  record.environment = {"0.1.0", "vm", "", "NVRTC 13.0", "host", "Linux", "", "", 0, 0, 0, -1};
  record.verdict = Verdict::kPassed;
  record.cases = {{"edges", "n1/gaussian/t1", Verdict::kPassed, 1, 0.25, "param", 1}};
  record.traffic_params = 1000;
  record.modelled_bytes_per_param = record.ideal_bytes_per_param = 28;
  return record;
}

EvalRecord failed_record(EvalRecord record, Verdict verdict) {
  record.verdict = verdict;
  record.failure = Failure{};
  record.failure->verdict = verdict;
  record.failure->check = "edges";
  record.failure->message = "param differs";
  record.replay_command = "stepbench replay " + record.id;
  return record;
}

std::string lines_of(const std::vector<EvalRecord>& records) {
  std::string lines;
  for (const EvalRecord& record : records) lines += record_to_json(record, -1) + "\n";
  return lines;
}

}  // namespace

TEST_CASE("sides: a folder, JSON Lines, a list, one record and a store hold the same records") {
  const TemporaryFolder folder;
  const EvalRecord a = stored_record("00000000000000a1", "k/a.cu"), b = stored_record("00000000000000b1", "k/b.cu");
  const std::string lines = folder.write("both.jsonl", lines_of({a, b}));
  const std::string blank =
      folder.write("blank.jsonl", "\n" + record_to_json(a, -1) + "\r\n\n" + record_to_json(b, -1));
  const std::string unnamed = folder.write("unnamed", lines_of({a, b}));
  const std::string list =
      folder.write("list.json", "[\n" + record_to_json(a, 1) + ",\n" + record_to_json(b, 1) + "\n]\n");
  const std::string one = folder.write("one.json", record_to_json(a, 1) + "\n");
  REQUIRE(save_record(folder.path("records"), a).ok());
  REQUIRE(save_record(folder.path("records"), b).ok());
  folder.write("records/manifest.json", "{\"what\": \"not a record\"}");
  folder.write("records/.hidden.json", "being written");
  folder.write("records/notes.txt", "not read");
  {
    const Result<StorePtr> store = open_store(folder.path("store.db"), {StoreMode::kWrite});
    REQUIRE(store.ok());
    REQUIRE(append_record(*store.value(), a).ok());
    REQUIRE(append_record(*store.value(), b).ok());
  }
  const struct {
    const char* name;
    std::string path;
    size_t records;
    int64_t unreadable;
  } rows[] = {{"lines", lines, 2, 0},
              {"blank lines and CR LF", blank, 2, 0},
              {"lines without a name", unnamed, 2, 0},
              {"list", list, 2, 0},
              {"one", one, 1, 0},
              {"folder", folder.path("records"), 2, 1},
              {"store", folder.path("store.db"), 2, 0}};
  for (const auto& row : rows) {
    INFO(row.name);
    const Result<RecordSource> source = load_records(row.path, "");
    if (!source.ok()) INFO(to_text(source.error()));
    REQUIRE(source.ok());
    CHECK(source.value().records.size() == row.records);
    CHECK(source.value().unreadable == row.unreadable);
    CHECK(load_records(row.path, "adamw").value().records.size() == row.records);
    CHECK(load_records(row.path, "lion").value().records.empty());
    const ChildResult same = run_program(folder, {"regress", row.path, lines});
    INFO(same.out + same.err);
    CHECK(same.exit_code == 0);
    CHECK_THAT(same.out, Catch::Contains(row.records == 2 ? "2 candidates compared, 0 only old, 0 only new"
                                                          : "1 candidate compared, 0 only old, 1 only new"));
  }
}

TEST_CASE("sides: only the newest of each kind is kept, parts of an evaluation are left out") {
  const TemporaryFolder folder;
  EvalRecord old = stored_record("00000000000000a1", "k/a.cu", "2025-01-01");
  EvalRecord newest = stored_record("00000000000000a2", "k/a.cu", "2025-01-03");
  EvalRecord part = stored_record("00000000000000a3", "k/a.cu", "2025-01-04");
  part.traffic_params = 0;
  EvalRecord other_suite = stored_record("00000000000000a4", "k/a.cu", "2025-01-02");
  other_suite.suite = "full";
  const std::vector<EvalRecord> records = {newest, old, part, other_suite};
  const std::string lines = folder.write("a.jsonl", lines_of(records));
  {
    const Result<StorePtr> store = open_store(folder.path("store.db"), {StoreMode::kWrite});
    REQUIRE(store.ok());
    // A store gives the last one appended first, so the newest comes last here.
    for (const EvalRecord* record : {&old, &part, &other_suite, &newest})
      REQUIRE(append_record(*store.value(), *record).ok());
  }
  for (const std::string& path : {lines, folder.path("store.db")}) {
    INFO(path);
    const Result<RecordSource> source = load_records(path, "");
    REQUIRE(source.ok());
    std::vector<std::string> ids;
    for (const EvalRecord& record : source.value().records) ids.push_back(record.id);
    std::sort(ids.begin(), ids.end());
    CHECK(ids == std::vector<std::string>{newest.id, other_suite.id});
    CHECK(source.value().partial == 1);
  }
}

TEST_CASE("exit codes: none, regression, usage, environment") {
  const TemporaryFolder folder;
  const EvalRecord good = stored_record("00000000000000a1", "k/a.cu");
  EvalRecord heavier = good;
  heavier.modelled_bytes_per_param = 28.5;
  const std::string old = folder.write("old.jsonl", lines_of({good}));
  const std::string wrong = folder.write("wrong.jsonl", lines_of({failed_record(good, Verdict::kWrongResult)}));
  const std::string broken = folder.write("broken.jsonl", lines_of({failed_record(good, Verdict::kHarnessError)}));
  const std::string unsupported = folder.write("vm.jsonl", lines_of({failed_record(good, Verdict::kUnsupported)}));
  const std::string heavy = folder.write("heavy.jsonl", lines_of({heavier}));
  const std::string other = folder.write("other.jsonl", lines_of({stored_record("00000000000000b1", "k/b.cu")}));
  const std::string empty = folder.write("empty.jsonl", "");
  const std::string damaged = folder.write("damaged.jsonl", lines_of({good}) + "{\"record_version\": 2}\n");
  const struct {
    const char* name;
    std::vector<std::string> arguments;
    int exit_code;
    const char* says;  ///< on standard output, or on standard error for 2 and 3 without a comparison
  } rows[] = {
      {"same", {old, old}, 0, "0 regressions"},
      {"wrong now", {old, wrong}, 1, "WORSE"},
      {"fixed", {wrong, old}, 0, "1 improvement"},
      {"unsupported", {old, unsupported}, 0, "1 not compared"},
      {"harness_error", {old, broken}, 3, "could not be judged"},
      {"1.8 % more bytes", {old, heavy}, 1, "modelled bytes per parameter went from 28 to 28.5"},
      {"1.8 % more bytes, tolerated", {old, heavy, "--tolerance", "0.02"}, 0, "0 regressions"},
      {"missing", {old, other}, 0, "1 only old, 1 only new"},
      {"missing, on request", {old, other, "--require-all"}, 1, "WORSE"},
      {"the first run", {empty, old}, 0, "0 candidates compared, 0 only old, 1 only new"},
      {"nothing new", {old, empty}, 2, "the new side has no record"},
      {"no such file", {folder.path("none.jsonl"), old}, 2, "none.jsonl: no such file or folder"},
      {"damaged line", {old, damaged}, 2, "damaged.jsonl:2"},
      {"no new side", {old}, 2, "one new side is needed"},
      {"two new sides", {old, old, "--eval", "a.cu"}, 2, "one new side is needed"},
      {"unknown format", {old, old, "--format", "xml"}, 2, "unknown format"},
      {"unknown second format", {old, old, "--also", "xml=r.xml"}, 2, "unknown format"},
      {"a form without a file", {old, old, "--also", "junit"}, 2, "FORMAT=FILE"},
      {"negative tolerance", {old, old, "--tolerance", "-1"}, 2, "--tolerance"},
      {"a folder that cannot be written", {old, old, "--out", folder.path("no/such/r.txt")}, 3, "cannot write"},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    std::vector<std::string> arguments = {"regress"};
    arguments.insert(arguments.end(), row.arguments.begin(), row.arguments.end());
    const ChildResult result = run_program(folder, arguments);
    INFO(result.out + result.err);
    CHECK(result.exit_code == row.exit_code);
    CHECK_THAT(result.out + result.err, Catch::Contains(row.says));
    CHECK(result.out.empty() == (row.exit_code == 2 || std::string(row.says) == "cannot write"));
  }
}

TEST_CASE("several forms of one comparison") {
  const TemporaryFolder folder;
  const EvalRecord good = stored_record("00000000000000a1", "k/a.cu");
  const std::string old = folder.write("old.jsonl", lines_of({good}));
  const std::string wrong = folder.write("wrong.jsonl", lines_of({failed_record(good, Verdict::kWrongResult)}));
  const ChildResult result =
      run_program(folder, {"regress", old, wrong, "--format", "github", "--also", "junit=" + folder.path("r.xml"),
                           "--also", "sarif=" + folder.path("r.sarif"), "--also", "md=" + folder.path("r.md"), "--also",
                           "json=" + folder.path("r.json"), "--also", "table=" + folder.path("r=1.txt")});
  INFO(result.out + result.err);
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.out, Catch::StartsWith("::error file=k/a.cu,line=1,"));
  CHECK_THAT(read_text(folder.path("r.xml")), Catch::StartsWith("<?xml ") && Catch::Contains("<failure "));
  CHECK_THAT(read_text(folder.path("r.sarif")), Catch::Contains("\"version\": \"2.1.0\""));
  CHECK_THAT(read_text(folder.path("r.md")), Catch::StartsWith("### StepBench: 1 regression\n"));
  CHECK_THAT(read_text(folder.path("r.json")), Catch::Contains("\"regress_version\": 1"));
  CHECK_THAT(read_text(folder.path("r=1.txt")), Catch::Contains("WORSE"));
}

TEST_CASE("a new run against its own records, before and after a fault") {
  const TemporaryFolder folder;
  const std::string file = folder.write("mine.cu", adamw_candidate());
  const ChildResult eval = run_program(folder, {"eval", file, "--device", "vm", "--quiet", "--salt", "2a"});
  INFO(eval.out + eval.err);
  REQUIRE(eval.exit_code == 0);
  const auto regress = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"regress",   folder.path("records"), "--eval", file, "--device", "vm",
                                          "--records", folder.path("new")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(folder, arguments);
  };
  const ChildResult same = regress({"--salt", "2a", "--all"});
  INFO(same.out + same.err);
  CHECK(same.exit_code == 0);
  CHECK_THAT(same.out, Catch::Contains("passed, as before") && Catch::Contains("0 regressions"));
  CHECK_THAT(same.out, !Catch::Contains("its text has changed"));

  const ChildResult other_salt = regress({});  // other random numbers are no regression
  INFO(other_salt.out + other_salt.err);
  CHECK(other_salt.exit_code == 0);

  folder.write("mine.cu", adamw_candidate("if (i == 3) return;"));
  const ChildResult wrong = regress({"--format", "json"});
  INFO(wrong.out + wrong.err);
  CHECK(wrong.exit_code == 1);
  CHECK_THAT(wrong.out, Catch::StartsWith("{") && Catch::Contains("wrong_result now, passed before") &&
                            Catch::Contains("\"source_changed\": true"));

  const ChildResult missing = run_program(
      folder, {"regress", folder.path("records"), "--eval", folder.path("none.cu"), "--records", folder.path("new")});
  CHECK(missing.exit_code == 2);
  CHECK_THAT(missing.err, Catch::Contains("none.cu"));
}
