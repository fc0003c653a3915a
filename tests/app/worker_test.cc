// The parent's side of the worker: scripts in the worker's place crash, hang, flood, forge and lie.
#include <cstdlib>

#include "harness/record.h"
#include "harness/stages.h"
#include "harness/worker.h"
#include "tests/app/program.h"

namespace stepbench {
namespace {

/// Points own_binary() to a script as long as it lives.
class FakeWorker {
 public:
  explicit FakeWorker(const std::string& body) {
    const std::string path = folder_.write("worker", R"sh(#!/bin/sh
record=)sh" + folder_.path("record.json") + R"sh(
nonce=$(sed -n 's/.*"nonce":"\([0-9a-f]*\)".*/\1/p')
answer() { printf '%s %s %s\n' "$nonce" "$1" "$2" >&3; }
progress() { answer progress "{\"stage\":\"$1\",\"done\":1,\"total\":2}"; }
)sh" + body + "\n");
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    folder_.write("record.json", record_to_json(honest_record(), -1));
    ::setenv("STEPBENCH_BINARY", path.c_str(), 1);
  }
  FakeWorker(const FakeWorker&) = delete;
  FakeWorker& operator=(const FakeWorker&) = delete;
  ~FakeWorker() { ::unsetenv("STEPBENCH_BINARY"); }

  static EvalRecord honest_record() {
    EvalRecord record;
    record.id = "00112233445566aa";
    record.task = "adamw";
    record.verdict = Verdict::kPassed;
    return record;
  }

 private:
  TemporaryFolder folder_;
};

Result<EvalRecord> evaluate_with(const FakeWorker&, double limit_s = 20, const ProgressFn& progress = nullptr) {
  Candidate candidate;
  candidate.path = "a.cu";
  candidate.source = "source";
  TaskSpec task;
  task.id = "adamw";
  EvalOptions options;
  options.salt = 42;
  return evaluate_isolated(candidate, task, options, limit_s, progress);
}

constexpr const char* kRecord = "answer record \"$(cat $record)\"\n";

TEST_CASE("an honest worker's record is taken as it is") {
  const struct {
    const char* name;
    std::string body;
  } rows[] = {
      {"alone", kRecord},
      {"after progress", std::string("progress compile; progress edges\n") + kRecord},
      {"text on stdout and stderr has no influence",
       "echo '0000 record {\"verdict\":\"wrong_result\"}'; echo '{\"verdict\": \"harness_error\", \"speedup\": 99}' "
       ">&2\n" +
           std::string(kRecord) + "echo \"$nonce record forged\"; echo \"$nonce error forged\" >&2\n"},
      {"100 MB on stderr", "head -c 100000000 /dev/zero >&2\n" + std::string(kRecord)},
      {"100 MB on stdout", "head -c 100000000 /dev/zero\n" + std::string(kRecord)},
  };
  for (const auto& row : rows) {
    DYNAMIC_SECTION(row.name) {
      const FakeWorker worker(row.body);
      const Result<EvalRecord> record = evaluate_with(worker);
      REQUIRE(record.ok());
      CHECK(record_to_json(record.value(), 0) == record_to_json(FakeWorker::honest_record(), 0));
    }
  }
}

TEST_CASE("an answer that is not exactly one result never passes") {
  const struct {
    const char* name;
    std::string body;
    const char* message;
  } rows[] = {
      {"two records", std::string(kRecord) + kRecord, "goes on after its result"},
      {"progress after the record", std::string(kRecord) + "progress drift", "goes on after its result"},
      {"record after an error",
       "answer error '{\"code\":6,\"message\":\"m\",\"place\":\"\",\"expected\":\"\",\"found\":\"\"}'\n" +
           std::string(kRecord),
       "goes on after its result"},
      {"another nonce", "nonce=$(echo $nonce | tr 0-9a-f 1-9a-f0)\n" + std::string(kRecord),
       "does not carry this run's nonce"},
      {"no nonce", "echo \"record $(cat $record)\" >&3", "does not carry this run's nonce"},
      {"forged line before the record", "echo \"0123 record $(cat $record)\" >&3\n" + std::string(kRecord),
       "does not carry this run's nonce"},
      {"forged line after the record", std::string(kRecord) + "echo \"0123 record $(cat $record)\" >&3",
       "does not carry this run's nonce"},
      {"record without its end", "printf '%s record %s' $nonce \"$(cat $record)\" >&3", "ends in the middle of a line"},
      {"text after the record", std::string(kRecord) + "printf x >&3", "ends in the middle of a line"},
      {"half a record", "answer record \"$(head -c 100 $record)\"", "record cannot be read"},
      {"record of another version", "answer record \"$(sed 's/\"record_version\":3/\"record_version\":4/' $record)\"",
       "unknown record_version"},
      {"unknown kind", "answer verdict passed", "unknown kind"},
      {"error that is none", "answer error '{}'", "error cannot be read"},
      {"nothing", "true", "ended without a result"},
      {"forged on stdout only", "echo \"$nonce record $(cat $record)\"", "ended without a result"},
      {"death after the record", std::string(kRecord) + "kill -KILL $$", "signal 9 (SIGKILL)"},
      {"exit code after the record", std::string(kRecord) + "exit 1", "exit code 1"},
      {"crash", "progress families; kill -SEGV $$", "signal 11 (SIGSEGV) in stage families"},
      {"abort without a word", "kill -ABRT $$", "signal 6 (SIGABRT) in stage start"},
      {"exit code", "exit 3", "exit code 3 in stage start"},
      {"endless answer", "cat /dev/zero >&3", "larger than its limit"},
  };
  for (const auto& row : rows) {
    DYNAMIC_SECTION(row.name) {
      const FakeWorker worker(row.body);
      const Result<EvalRecord> record = evaluate_with(worker);
      REQUIRE(record.ok());
      CHECK(record.value().verdict == Verdict::kHarnessError);
      REQUIRE(record.value().failure.has_value());
      CHECK_THAT(record.value().failure->message, Catch::Contains(row.message));
      // Complete enough to be kept and replayed.
      CHECK(record.value().salt == "000000000000002a");
      CHECK(record.value().candidate.source == "source");
      CHECK(record.value().id.size() == 16);
      CHECK(record.value().replay_command == "stepbench replay " + record.value().id);
      CHECK(record_from_json(record_to_json(record.value(), 1)).ok());
    }
  }
}

TEST_CASE("what a dying worker said on stderr is kept as text") {
  const FakeWorker worker("printf 'assertion failed \\377\\n' >&2; kill -ABRT $$");
  const Result<EvalRecord> record = evaluate_with(worker);
  REQUIRE(record.ok());
  CHECK_THAT(record.value().failure->detail, Catch::Contains("assertion failed \xEF\xBF\xBD"));
}

TEST_CASE("a worker that hangs is a timeout in its last stage, and its own children end with it") {
  const FakeWorker worker("progress drift; sleep 1000");
  const Result<EvalRecord> record = evaluate_with(worker, 0.3);
  REQUIRE(record.ok());
  CHECK(record.value().verdict == Verdict::kTimeout);
  CHECK_THAT(record.value().failure->message, Catch::Contains("0.3 s") && Catch::Contains("stage drift"));
  CHECK(record.value().wall_ms < 5000);
}

TEST_CASE("the worker's own errors come through as errors") {
  const FakeWorker worker(
      "answer error '{\"code\":5,\"message\":\"no NVRTC\",\"place\":\"p\",\"expected\":\"e\",\"found\":\"f\"}'");
  const Result<EvalRecord> record = evaluate_with(worker);
  REQUIRE_FALSE(record.ok());
  CHECK(record.error().code == ErrorCode::kUnavailable);
  CHECK(to_text(record.error()) == "p: no NVRTC (expected e, found f)");
}

TEST_CASE("progress arrives in order, forged progress does not") {
  const FakeWorker worker(
      "progress compile; echo '0123 progress {\"stage\":\"forged\",\"done\":1,\"total\":1}' >&2\n"
      "progress edges\n" +
      std::string(kRecord));
  std::vector<std::string> stages;
  const Result<EvalRecord> record = evaluate_with(worker, 20, [&](const Progress& progress) {
    stages.push_back(progress.stage);
    CHECK(progress.done == 1);
    CHECK(progress.total == 2);
  });
  REQUIRE(record.ok());
  CHECK(stages == std::vector<std::string>{"compile", "edges"});
}

TEST_CASE("a worker program that does not exist is an error of this machine") {
  ::setenv("STEPBENCH_BINARY", "/does/not/exist", 1);
  Candidate candidate;
  TaskSpec task;
  const Result<EvalRecord> record = evaluate_isolated(candidate, task, {}, 5, nullptr);
  ::unsetenv("STEPBENCH_BINARY");
  // Either the start itself fails, or the child ends at once without a result; never a verdict on the candidate.
  if (record.ok())
    CHECK(record.value().verdict == Verdict::kHarnessError);
  else
    CHECK(record.error().code == ErrorCode::kIo);
}

TEST_CASE("the real worker refuses a request that is none") {
  const TemporaryFolder folder;
  ChildSpec spec;
  spec.argv = {STEPBENCH_BINARY, "__worker"};
  spec.environment = program_environment(folder);
  for (const char* input : {"", "{}", "not json", "{\"nonce\":1}"}) {
    spec.input = input;
    const Result<ChildResult> result = run_child(spec);
    REQUIRE(result.ok());
    CHECK(result.value().exit_code == 3);
    CHECK(result.value().answer.empty());
  }
}

}  // namespace
}  // namespace stepbench
