// C24: an interrupted run of many candidates goes on where it stopped: nothing twice, nothing left out, torn files in
// the way are told and ignored.
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "harness/record.h"
#include "harness/record_folder.h"
#include "harness/resume.h"
#include "harness/stages.h"
#include "tests/app/program.h"

namespace stepbench {
namespace {

EvalRecord record_named(const std::string& id, const std::string& sha256, const std::string& created_utc) {
  EvalRecord record;
  record.id = id;
  record.created_utc = created_utc;
  record.task = "adamw";
  record.task_version = 1;
  record.suite = "smoke";
  record.salt = "000000000000002a";
  record.candidate.sha256 = sha256;
  record.environment.device = "vm";
  record.environment.stepbench_version = "1.2.3";
  record.verdict = Verdict::kPassed;
  record.traffic_params = 65536;
  return record;
}

const ResumeKey kKey = {"aa", "adamw", 1, "smoke", "vm", "1.2.3"};

std::string id_found(const std::string& folder, const ResumeKey& key, const std::string& salt = "") {
  const Result<FinishedRecords> finished = find_finished(folder, salt);
  if (!finished.ok()) FAIL(to_text(finished.error()));
  const Result<std::optional<EvalRecord>> record = finished_record(finished.value(), key);
  if (!record.ok()) FAIL(to_text(record.error()));
  return record.value() ? record.value()->id : "";
}

void save(const std::string& folder, const EvalRecord& record) {
  const Result<std::string> saved = save_record(folder, record);
  if (!saved.ok()) FAIL(to_text(saved.error()));
}

std::vector<EvalRecord> records_in(const std::string& folder) {
  std::vector<EvalRecord> records;
  std::error_code status;
  for (const auto& entry : std::filesystem::directory_iterator(folder, status)) {
    Result<EvalRecord> record = record_from_json(read_text(entry.path().string()));
    if (record.ok()) records.push_back(std::move(record.value()));
  }
  return records;
}

/// How many records there are of the file whose source holds this mark.
int64_t count_of(const std::vector<EvalRecord>& records, const std::string& mark) {
  return std::count_if(records.begin(), records.end(), [&](const EvalRecord& record) {
    return record.candidate.source.find(mark) != std::string::npos;
  });
}

}  // namespace

TEST_CASE("C24: what counts as finished") {
  const TemporaryFolder temporary;
  const std::string folder = temporary.path("records");
  CHECK(id_found(folder, kKey).empty());  // there is no such folder yet
  save(folder, record_named("1111111111111111", "aa", "2026-01-01T00:00:00Z"));
  CHECK(id_found(folder, kKey) == "1111111111111111");
  const struct {
    const char* name;
    ResumeKey key;
  } others[] = {{"candidate", {"ab", "adamw", 1, "smoke", "vm", "1.2.3"}},
                {"task", {"aa", "sgd", 1, "smoke", "vm", "1.2.3"}},
                {"task version", {"aa", "adamw", 2, "smoke", "vm", "1.2.3"}},
                {"suite", {"aa", "adamw", 1, "full", "vm", "1.2.3"}},
                {"device", {"aa", "adamw", 1, "smoke", "H200", "1.2.3"}},
                {"version", {"aa", "adamw", 1, "smoke", "vm", "1.2.4"}}};
  for (const auto& other : others) {
    INFO(other.name);
    CHECK(id_found(folder, other.key).empty());
  }
  CHECK(id_found(folder, kKey, "000000000000002a") == "1111111111111111");
  CHECK(id_found(folder, kKey, "000000000000002b").empty());

  EvalRecord ours = record_named("2222222222222222", "bb", "2026-01-01T00:00:00Z");
  ours.verdict = Verdict::kHarnessError;  // the machine's fault: to be done again
  ours.failure = Failure{};
  save(folder, ours);
  EvalRecord part = record_named("3333333333333333", "cc", "2026-01-01T00:00:00Z");
  part.traffic_params = 0;  // a pass of one check only
  save(folder, part);
  EvalRecord wrong = record_named("4444444444444444", "dd", "2026-01-01T00:00:00Z");
  wrong.verdict = Verdict::kTimeout;
  wrong.failure = Failure{};
  wrong.failure->verdict = Verdict::kTimeout;
  wrong.traffic_params = 0;
  save(folder, wrong);
  ResumeKey key = kKey;
  for (const auto& [sha256, id] :
       std::vector<std::pair<std::string, std::string>>{{"bb", ""}, {"cc", ""}, {"dd", "4444444444444444"}}) {
    key.candidate_sha256 = sha256;
    CHECK(id_found(folder, key) == id);
  }
}

TEST_CASE("C24: of several records of one evaluation the newest counts") {
  const TemporaryFolder temporary;
  const std::string folder = temporary.path("records");
  save(folder, record_named("9999999999999999", "aa", "2026-01-01T00:00:00Z"));
  save(folder, record_named("5555555555555555", "aa", "2026-01-02T00:00:00Z"));
  save(folder, record_named("7777777777777777", "aa", "2025-12-31T23:59:59Z"));
  CHECK(id_found(folder, kKey) == "5555555555555555");
  // Of the same second: the file written last.
  save(folder, record_named("0000000000000001", "aa", "2026-01-02T00:00:00Z"));
  const auto later = std::filesystem::last_write_time(folder + "/5555555555555555.json") + std::chrono::milliseconds(1);
  std::filesystem::last_write_time(folder + "/0000000000000001.json", later);
  CHECK(id_found(folder, kKey) == "0000000000000001");
}

TEST_CASE("C24: files that are no records are counted and ignored") {
  const TemporaryFolder temporary;
  const std::string folder = temporary.path("records");
  save(folder, record_named("1111111111111111", "aa", "2026-01-01T00:00:00Z"));
  CHECK(ignored_text(find_finished(folder, "").value(), "F").empty());
  const std::string whole = read_text(folder + "/1111111111111111.json");
  temporary.write("records/2222222222222222.json", whole.substr(0, whole.size() / 2));
  const std::string one = ignored_text(find_finished(folder, "").value(), "F");
  CHECK(one == "1 file in F is ignored, being no record: 2222222222222222.json");
  temporary.write("records/notes.txt", "mine");
  temporary.write("records/empty.json", "");
  temporary.write("records/.half.1.tmp", "being written");
  std::filesystem::create_directory(folder + "/sub.json");
  REQUIRE(::mkfifo((folder + "/pipe.json").c_str(), 0600) == 0);  // reading it would wait for ever
  const Result<FinishedRecords> finished = find_finished(folder, "");
  REQUIRE(finished.ok());
  CHECK(finished.value().ignored == 3);
  CHECK(ignored_text(finished.value(), "F") ==
        "3 files in F are ignored, being no records: 2222222222222222.json and others");
  CHECK(id_found(folder, kKey) == "1111111111111111");
  CHECK_FALSE(find_finished(folder + "/notes.txt", "").ok());
}

TEST_CASE("C24: six candidates, three records and a torn one: the other three run, once") {
  if (!find_compiler().ok()) {
    WARN("not run: no compiler");
    return;
  }
  const TemporaryFolder temporary;
  const std::string folder = temporary.path("records");
  std::vector<std::string> files;
  for (int i = 1; i <= 6; ++i) {
    // All but the first are wrong, which is quick.
    const std::string line = i == 1 ? "" : "if (n > 0) return;";
    files.push_back(temporary.write("item" + std::to_string(i) + ".cu",
                                    adamw_candidate(line + "  // item " + std::to_string(i) + ".")));
  }
  const auto eval = [&](std::vector<std::string> arguments, const std::vector<std::string>& which) {
    arguments.insert(arguments.begin(), "eval");
    arguments.insert(arguments.end(), which.begin(), which.end());
    ChildResult result = run_program(temporary, arguments);
    INFO(result.out << result.err);
    CHECK(result.exit_code <= 1);
    return result;
  };
  const auto mark = [](int i) { return "// item " + std::to_string(i) + "."; };
  eval({}, {files[0], files[2], files[3]});
  std::vector<EvalRecord> records = records_in(folder);
  REQUIRE(records.size() == 3);
  const std::string whole = record_to_json(records[0], 1);
  temporary.write("records/00000000deadbeef.json", whole.substr(0, whole.size() * 2 / 3));

  const ChildResult resumed = eval({"--resume"}, files);
  records = records_in(folder);
  CHECK(records.size() == 6);
  for (int i = 1; i <= 6; ++i) {
    INFO(i);
    CHECK(count_of(records, mark(i)) == 1);
    CHECK_THAT(resumed.out, Catch::Contains("item" + std::to_string(i) + ".cu"));
  }
  size_t before = 0;
  for (size_t at = resumed.out.find("finished before"); at != std::string::npos;
       at = resumed.out.find("finished before", at + 1))
    ++before;
  CHECK(before == 3);
  CHECK_THAT(resumed.err, Catch::Contains("1 file in") && Catch::Contains("00000000deadbeef.json"));

  // Item 1 by force; from then on its new record counts.
  std::set<std::string> old_ids;
  for (const EvalRecord& record : records) old_ids.insert(record.id);
  eval({}, {files[0]});
  records = records_in(folder);
  CHECK(records.size() == 7);
  std::string newest;
  for (const EvalRecord& record : records) {
    if (old_ids.count(record.id) == 0) newest = record.id;
  }
  const ChildResult again = eval({"--resume", "--json", temporary.path("all.json")}, files);
  CHECK(records_in(folder).size() == 7);
  CHECK_THAT(again.out, Catch::Contains("finished before, record " + newest));
  const std::string all = read_text(temporary.path("all.json"));
  CHECK_THAT(all, Catch::Contains("\"id\": \"" + newest + "\""));
  size_t listed = 0;
  for (size_t at = all.find("\"record_version\""); at != std::string::npos; at = all.find("\"record_version\"", at + 1))
    ++listed;
  CHECK(listed == 6);

  // Another suite, or a changed file, is another evaluation.
  temporary.write("item2.cu", adamw_candidate("if (n > 1) return;  // item 2."));
  eval({"--resume"}, {files[1]});
  CHECK(count_of(records_in(folder), mark(2)) == 2);
  const ChildResult refused = run_program(temporary, {"eval", files[0], "--resume", "--only", "edges"});
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err, Catch::Contains("--resume and --only exclude each other"));
}

}  // namespace stepbench
