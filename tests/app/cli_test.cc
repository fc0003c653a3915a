// The real program from outside: exit codes, messages, where text goes, what is kept.
#include <algorithm>

#include "harness/cuda/gemm.h"
#include "harness/record.h"
#include "harness/stages.h"
#include "tests/app/program.h"

namespace stepbench {
namespace {

/// What ends up in a user's terminal or script is never an escape sequence: none of these runs has a terminal.
void check_plain(const ChildResult& result) {
  CHECK(result.out.find('\033') == std::string::npos);
  CHECK(result.err.find('\033') == std::string::npos);
  CHECK(result.err.find('\r') == std::string::npos);
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code status;
  for (const auto& entry : std::filesystem::directory_iterator(folder, status)) names.push_back(entry.path().string());
  return names;
}

TEST_CASE("wrong usage is answered with exit code 2 and one sentence") {
  const TemporaryFolder folder;
  const std::string good = folder.write("good.cu", adamw_candidate());
  const struct {
    const char* name;
    std::vector<std::string> arguments;
    int exit_code;
    const char* message;  // on stderr
  } rows[] = {
      {"unknown command", {"evaluate"}, 2, "unknown command (expected tasks show eval "},
      {"unknown option", {"--fast"}, 2, "--fast"},
      {"two commands", {"tasks", "doctor"}, 2, "doctor"},
      {"a word too many", {"show", "adamw", "sgd"}, 2, "sgd"},
      {"unknown option of a command", {"eval", good, "--fast"}, 2, "stepbench eval --help"},
      {"eval without a file", {"eval"}, 2, "files"},
      {"show without a task", {"show"}, 2, "task"},
      {"replay without an id", {"replay"}, 2, "record"},
      {"show of an unknown task", {"show", "adamx"}, 2, "adamw"},
      {"unknown task", {"eval", good, "--task", "adamx"}, 2, "adamw"},
      {"unknown suite",
       {"eval", good, "--suite", "huge"},
       2,
       "--suite: unknown suite (expected smoke, standard or full, found huge)"},
      {"unknown device",
       {"eval", good, "--device", "tpu"},
       2,
       "--device: unknown device (expected auto, vm or cuda, found tpu)"},
      {"salt that is no number",
       {"eval", good, "--salt", "xyz"},
       2,
       "--salt: wrong salt (expected 1 to 16 hex digits, found xyz)"},
      {"salt too long", {"eval", good, "--salt", "00000000000000001"}, 2, "1 to 16 hex digits"},
      {"salt with a sign", {"eval", good, "--salt=-1"}, 2, "1 to 16 hex digits"},
      {"empty salt in quotes", {"eval", good, "--salt", "0x10"}, 2, "1 to 16 hex digits"},
      {"no jobs", {"eval", good, "--jobs", "0"}, 2, "--jobs"},
      {"negative timeout", {"eval", good, "--timeout", "-1"}, 2, "--timeout"},
      {"unknown check", {"eval", good, "--only", "speed"}, 2, "speed"},
      {"replay of an unknown id", {"replay", "0123456789abcdef"}, 2, "no record with this id"},
      {"replay of a word", {"replay", "latest"}, 2, "not a record id"},
      {"replay of a short id", {"replay", "abc"}, 2, "not a record id"},
      {"replay of a missing file", {"replay", "./none.json"}, 2, "no such file"},
      {"replay of a file that is no record",
       {"replay", folder.write("x.json", "{}")},
       2,
       "/record_version: missing field"},
  };
  for (const auto& row : rows) {
    DYNAMIC_SECTION(row.name) {
      const ChildResult result = run_program(folder, row.arguments);
      INFO(result.out);
      INFO(result.err);
      CHECK(result.exit_code == row.exit_code);
      CHECK(result.out.empty());
      CHECK_THAT(result.err, Catch::StartsWith("stepbench: ") && Catch::Contains(row.message));
      CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
      check_plain(result);
    }
  }
}

TEST_CASE("files that cannot be read") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path("folder.cu"));
  const struct {
    const char* name;
    std::string file;
    const char* message;
  } rows[] = {
      {"missing", folder.path("missing.cu"), "missing.cu"},
      {"directory", folder.path("folder.cu"), "folder.cu"},
      {"empty", folder.write("empty.cu", ""), "empty.cu"},
      {"10 MB", folder.write("large.cu", std::string(10 << 20, ' ')), "large.cu"},
      {"not UTF-8", folder.write("bytes.cu", adamw_candidate("// \xFF\xFE")), "bytes.cu"},
  };
  for (const auto& row : rows) {
    DYNAMIC_SECTION(row.name) {
      const ChildResult result = run_program(folder, {"eval", row.file});
      INFO(result.err);
      CHECK(result.exit_code == 2);
      CHECK(result.out.empty());
      CHECK_THAT(result.err, Catch::StartsWith("stepbench: ") && Catch::Contains(row.message));
      CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
      CHECK(files_in(folder.path("records")).empty());
    }
  }
}

TEST_CASE("help teaches by example") {
  const TemporaryFolder folder;
  const ChildResult bare = run_program(folder, {});
  CHECK(bare.exit_code == 2);
  CHECK(bare.out.empty());
  CHECK_THAT(bare.err, Catch::Contains("stepbench doctor"));

  const ChildResult main_help = run_program(folder, {"--help"});
  CHECK(main_help.exit_code == 0);
  CHECK(main_help.err.empty());
  CHECK_THAT(main_help.out, Catch::Contains("Exit codes"));
  for (const char* command : {"tasks", "show", "eval", "submit", "store", "replay", "doctor", "regress", "board"}) {
    INFO(command);
    CHECK_THAT(main_help.out, Catch::Contains(command));
    const ChildResult help = run_program(folder, {command, "--help"});
    CHECK(help.exit_code == 0);
    CHECK(help.err.empty());
    CHECK_THAT(help.out, Catch::Contains("Examples:") && Catch::Contains(std::string("stepbench ") + command));
  }
  for (const char* absent : {"advise", "tune", "agent"}) CHECK_THAT(main_help.out, !Catch::Contains(absent));

  const ChildResult version = run_program(folder, {"--version"});
  CHECK(version.exit_code == 0);
  CHECK_THAT(version.out, Catch::StartsWith("stepbench ") && Catch::EndsWith("\n"));
}

TEST_CASE("tasks and show") {
  const TemporaryFolder folder;
  const ChildResult tasks = run_program(folder, {"tasks"});
  CHECK(tasks.exit_code == 0);
  CHECK_THAT(tasks.out, Catch::Contains("adamw"));
  const ChildResult json = run_program(folder, {"tasks", "--json"});
  CHECK(json.exit_code == 0);
  CHECK_THAT(json.out, Catch::StartsWith("[") && Catch::Contains("\"id\": \"adamw\""));

  const ChildResult show = run_program(folder, {"show", "adamw"});
  CHECK(show.exit_code == 0);
  CHECK_THAT(show.out, Catch::Contains("exp_avg_sq") && Catch::Contains("struct Hyper") && Catch::Contains("smoke") &&
                           Catch::Contains("extern \"C\" __global__ void adamw_step"));
  CHECK_THAT(show.out, Catch::Contains("Floor: 28 DRAM bytes per parameter and step") &&
                           Catch::Contains("operations in fp32: 14*n per tensor") && !Catch::Contains("tensor cores"));
  const ChildResult matrices = run_program(folder, {"show", "muon_ns5"});
  CHECK_THAT(matrices.out, Catch::Contains("of products, which tensor cores may do: 3*n*min(rows,cols)") &&
                               Catch::Contains("for the gate of an impossible time: 1.5*n*min(rows,cols)"));
  const ChildResult as_json = run_program(folder, {"show", "soap_fixed_basis", "--json"});
  CHECK_THAT(as_json.out, Catch::Contains("\"tensor\": \"9*n*(rows + cols)\"") &&
                              Catch::Contains("\"tensor_gate\": \"9*n*(rows + cols)\""));
}

TEST_CASE("the candidate that `show` prints compiles and runs, and is wrong as long as it does nothing") {
  const TemporaryFolder folder;
  const ChildResult show = run_program(folder, {"show", "adamw"});
  const size_t begin = show.out.rfind("/*stepbench");
  REQUIRE(begin != std::string::npos);
  const std::string file = folder.write("start.cu", show.out.substr(begin));
  const ChildResult eval = run_program(folder, {"eval", file, "--quiet"});
  INFO(eval.out + eval.err);
  CHECK(eval.exit_code == 1);
  CHECK_THAT(eval.out, Catch::Contains("wrong_result"));
}

TEST_CASE("without a GPU, asking for one is answered in one sentence") {
  if (device_source("cuda", nullptr).ok()) return;  // tests/cuda is for machines that have one
  const TemporaryFolder folder;
  const std::string good = std::string(STEPBENCH_TEST_FOLDER) + "/../reference_kernels/adamw/naive.cu";
  const ChildResult result = run_program(folder, {"eval", good, "--device", "cuda"});
  INFO(result.out + result.err);
  CHECK(result.exit_code == 3);
  CHECK(result.out.empty());
  CHECK_THAT(result.err, Catch::Contains("cuda: ") && Catch::Contains("NVIDIA driver"));
  CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
  CHECK(run_program(folder, {"eval", good, "--device", "auto", "--quiet"}).exit_code == 0);
}

TEST_CASE("doctor") {
  const TemporaryFolder folder;
  const ChildResult text = run_program(folder, {"doctor"});
  INFO(text.out);
  CHECK(text.exit_code == 0);
  CHECK_THAT(text.out, Catch::Contains("NVRTC") && Catch::Contains("GPU") && Catch::Contains("evaluations can run"));
  const ChildResult json = run_program(folder, {"doctor", "--json"});
  CHECK(json.exit_code == 0);
  CHECK_THAT(json.out, Catch::Contains("\"can_evaluate\": true"));
  // The library for products is found or not, and evaluations run without it.
  const auto with_library = [&](const char* library) {
    REQUIRE(setenv("STEPBENCH_CUBLASLT", library, 1) == 0);
    const ChildResult result = run_program(folder, {"doctor"});
    unsetenv("STEPBENCH_CUBLASLT");
    CHECK(result.exit_code == 0);
    return result.out;
  };
  CHECK_THAT(with_library("/nonexistent/libcublasLt.so.13"),
             Catch::Contains("none     cuBLASLt") && Catch::Contains("STEPBENCH_CUBLASLT"));
  CHECK_THAT(with_library("libm.so.6"), Catch::Contains("none     cuBLASLt") && Catch::Contains("lacks a call") &&
                                            Catch::Contains("cublasLtCreate"));
  if (cuda::find_cublas().ok()) CHECK_THAT(text.out, Catch::Contains("ok       cuBLASLt"));
  // No place for records: said, and exit code 3.
  const ChildResult lacking = run_program(folder, {"doctor", "--records", folder.write("file", "") + "/below"});
  CHECK(lacking.exit_code == 3);
  CHECK_THAT(lacking.out, Catch::Contains("missing  records folder") && Catch::Contains("evaluations cannot run"));
}

TEST_CASE("an evaluation: report, record, JSON, replay") {
  const TemporaryFolder folder;
  const std::string good = folder.write("good.cu", adamw_candidate());
  // Right except that the tenth element and its likes stand still.
  const std::string bad = folder.write("bad.cu", adamw_candidate("if (i % 32 == 9) return;"));

  const ChildResult passed = run_program(folder, {"eval", good, "--salt", "2a", "--json", folder.path("out.json")});
  INFO(passed.out + passed.err);
  REQUIRE(passed.exit_code == 0);
  CHECK_THAT(passed.out,
             Catch::Contains("passed") && Catch::Contains("modelled") && Catch::Contains("salt 000000000000002a"));
  CHECK(passed.err.empty());
  check_plain(passed);
  const Result<EvalRecord> kept = record_from_json(read_text(folder.path("out.json")));
  REQUIRE(kept.ok());
  CHECK(kept.value().verdict == Verdict::kPassed);
  CHECK(kept.value().salt == "000000000000002a");
  CHECK(kept.value().candidate.source == adamw_candidate());
  CHECK(read_text(folder.path("records/" + kept.value().id + ".json")) == read_text(folder.path("out.json")));

  const ChildResult failed = run_program(folder, {"eval", bad, "--salt", "2a", "--json", "-"});
  INFO(failed.out + failed.err);
  REQUIRE(failed.exit_code == 1);
  const Result<EvalRecord> record = record_from_json(failed.out);  // standard output is the record and nothing else
  REQUIRE(record.ok());
  CHECK(record.value().verdict == Verdict::kWrongResult);
  CHECK(record.value().failure->element % 32 == 9);
  CHECK(record.value().failure->error_ratio > 1);
  CHECK_THAT(failed.err, Catch::Contains("wrong_result") && Catch::Contains("stepbench replay " + record.value().id));

  // The printed command finds the record, wherever it was told to be.
  const std::string elsewhere = folder.path("my records");
  const ChildResult moved = run_program(folder, {"eval", bad, "--salt", "2a", "--quiet", "--records", elsewhere});
  CHECK_THAT(moved.out, Catch::Contains(" --records '" + elsewhere + "'"));
  const std::string id = moved.out.substr(moved.out.find("stepbench replay ") + 17, 16);
  CHECK(run_program(folder, {"replay", id}).exit_code == 2);
  CHECK(run_program(folder, {"replay", id, "--records", elsewhere}).exit_code == 1);

  const ChildResult again = run_program(folder, {"eval", bad, "--salt", "2a", "--quiet", "--json", "-"});
  const Result<EvalRecord> same = record_from_json(again.out);
  REQUIRE(same.ok());
  CHECK(same.value().failure->case_name == record.value().failure->case_name);
  CHECK(same.value().failure->got == record.value().failure->got);

  // The file may change or go: the record has all.
  std::filesystem::remove(bad);
  const ChildResult replay = run_program(folder, {"replay", record.value().id.substr(0, 12)});
  INFO(replay.out + replay.err);
  CHECK(replay.exit_code == 1);
  CHECK_THAT(replay.out, Catch::Contains("identical to the record") && !Catch::Contains("not identical"));
  const ChildResult by_path =
      run_program(folder, {"replay", folder.path("records/" + record.value().id + ".json"), "--quiet"});
  CHECK(by_path.exit_code == 1);

  const ChildResult replay_passed = run_program(folder, {"replay", kept.value().id});
  CHECK(replay_passed.exit_code == 0);
  CHECK_THAT(replay_passed.out, Catch::Contains("passes now"));

  // A record of another outcome is told apart from one that reproduces.
  EvalRecord changed = record.value();
  changed.failure->got = 12345;
  const std::string other = folder.write("other.json", record_to_json(changed, 1));
  const ChildResult differs = run_program(folder, {"replay", other});
  CHECK(differs.exit_code == 1);
  CHECK_THAT(differs.out, Catch::Contains("not identical to the record: got"));
}

TEST_CASE("several files: the worst exit code and one table") {
  const TemporaryFolder folder;
  const std::string good = folder.write("good.cu", adamw_candidate());
  const std::string bad = folder.write("bad.cu", adamw_candidate("if (i == 0) return;"));
  const std::string missing = folder.path("missing.cu");
  const struct {
    const char* name;
    std::vector<std::string> files;
    int exit_code;
    size_t records;
  } rows[] = {
      {"all pass", {good, good}, 0, 2},
      {"one fails", {good, bad}, 1, 2},
      {"one is missing", {missing, good, bad}, 2, 2},
      {"all are missing", {missing, missing}, 2, 0},
  };
  for (const auto& row : rows) {
    DYNAMIC_SECTION(row.name) {
      std::vector<std::string> arguments = {"eval",   "--quiet", "--jobs", "2", "--json", folder.path("all.json"),
                                            "--only", "edges"};
      arguments.insert(arguments.end(), row.files.begin(), row.files.end());
      const ChildResult result = run_program(folder, arguments);
      INFO(result.out + result.err);
      CHECK(result.exit_code == row.exit_code);
      const std::string json = read_text(folder.path("all.json"));
      CHECK_THAT(json, Catch::StartsWith("["));
      size_t records = 0;
      for (size_t at = json.find("\"record_version\""); at != std::string::npos;
           at = json.find("\"record_version\"", at + 1))
        ++records;
      CHECK(records == row.records);
      if (row.records > 0) CHECK_THAT(result.out, Catch::StartsWith("candidate "));
    }
  }
}

TEST_CASE("candidates that stop before they run") {
  const TemporaryFolder folder;
  const struct {
    const char* name;
    std::string source;
    int exit_code;
    const char* verdict;
  } rows[] = {
      {"plan that is not JSON", "/*stepbench\n{ \"task\": \"adamw\", \n*/\n__global__ void k() {}\n", 1,
       "bad_candidate"},
      {"does not compile", adamw_candidate("undeclared = 1;"), 1, "compile_error"},
      {"keeps state", adamw_candidate("static __device__ int seen; if (atomicAdd(&seen, 1) < 0) return;"), 1,
       "refused"},
  };
  for (const auto& row : rows) {
    DYNAMIC_SECTION(row.name) {
      const std::string file = folder.write("a.cu", row.source);
      const ChildResult result = run_program(folder, {"eval", file, "--task", "adamw", "--json", "-"});
      INFO(result.out + result.err);
      CHECK(result.exit_code == row.exit_code);
      const Result<EvalRecord> record = record_from_json(result.out);
      REQUIRE(record.ok());
      CHECK(to_text(record.value().verdict) == row.verdict);
      CHECK_THAT(record.value().failure->place, Catch::Contains("a.cu"));
      // Kept like any other, and a replay stops at the same place.
      const ChildResult replay = run_program(folder, {"replay", record.value().id});
      INFO(replay.out + replay.err);
      CHECK(replay.exit_code == 1);
      CHECK_THAT(replay.out, Catch::Contains("identical to the record") && !Catch::Contains("not identical"));
    }
  }
}

TEST_CASE("an evaluation that takes too long is a timeout") {
  const TemporaryFolder folder;
  const std::string good = folder.write("good.cu", adamw_candidate());
  const ChildResult result = run_program(folder, {"eval", good, "--timeout", "0.01", "--quiet"});
  INFO(result.out + result.err);
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.out, Catch::Contains("timeout") && Catch::Contains("0.01 s"));
}

TEST_CASE("a records folder that cannot be written is an error of this machine") {
  const TemporaryFolder folder;
  const std::string good = folder.write("good.cu", adamw_candidate());
  const std::string blocked = folder.write("blocked", "a file");
  const ChildResult result = run_program(folder, {"eval", good, "--only", "edges", "--records", blocked});
  CHECK(result.exit_code == 3);
  CHECK_THAT(result.err, Catch::Contains("records folder") && Catch::Contains("blocked"));
  CHECK_THAT(result.out, Catch::Contains("passed"));  // the result itself is still told
}

}  // namespace
}  // namespace stepbench
