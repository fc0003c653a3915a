// Runs on a cluster without one: scripts, answers of Slurm's commands, the manifest, and the program with stand-ins for
// sbatch, squeue, sacct and scancel on its PATH. A real Slurm: run_one_node.sh.
#include "harness/slurm.h"

#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/stages.h"
#include "tests/app/program.h"

using namespace stepbench;

namespace {

SlurmManifest known_manifest(size_t candidates) {
  SlurmManifest manifest;
  manifest.run = "0a1b2c3d";
  manifest.created_utc = "2025-01-02T03:04:05Z";
  manifest.program = "/opt/it's here/stepbench";
  manifest.request.partition = "gpu";
  manifest.request.gres = "gpu:1";
  manifest.eval.device = "cuda";
  manifest.eval.suite = "full";
  manifest.eval.salt = "2a";
  manifest.eval.timeout_s = 90.5;
  manifest.eval.no_cache = true;
  manifest.submission.name = "ada \"the first\"";
  manifest.submission.round = 3;
  manifest.submission.prompt_tokens = 5200;
  manifest.submission.cost_usd = 0.25;
  for (size_t i = 0; i < candidates; ++i)
    manifest.candidates.push_back({"/k/a b\n" + std::to_string(i) + ".cu", std::string(64, 'a')});
  return manifest;
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// Stand-ins on a PATH of their own. sbatch notes the script's array down and gives job numbers from 101; squeue and
/// sacct print the file that the test wrote; scancel notes its arguments down. A file `refuse` makes all of them fail.
class FakeSlurm {
 public:
  explicit FakeSlurm(const TemporaryFolder& folder) : folder_(folder) {
    std::filesystem::create_directory(folder.path("bin"));
    const std::string state = folder.path("fake");
    std::filesystem::create_directory(state);
    const std::string refuse =
        "if [ -e '" + state + "/refuse' ]; then echo 'Unable to contact slurm controller' >&2; exit 1; fi\n";
    command("sbatch", refuse + "shift\ngrep -- '--array' \"$1\" >> '" + state + "/sbatch'\n" +
                          "echo $((100 + $(wc -l < '" + state + "/sbatch')))\n");
    command("squeue", refuse + "cat '" + state + "/squeue' 2>/dev/null || true\n");
    command("sacct", refuse + "cat '" + state + "/sacct'\n");  // without the file: no accounts, as in many places
    command("scancel", refuse + "echo \"$@\" >> '" + state + "/scancel'\n");
  }
  void write(const std::string& name, const std::string& text) const { folder_.write("fake/" + name, text); }
  std::string read(const std::string& name) const { return read_text(folder_.path("fake/" + name)); }
  void refuse(bool on) const {
    if (on) write("refuse", "");
    if (!on) std::filesystem::remove(folder_.path("fake/refuse"));
  }
  std::string path() const { return folder_.path("bin") + ":/usr/bin:/bin"; }

 private:
  void command(const std::string& name, const std::string& body) const {
    const std::string path = folder_.write("bin/" + name, "#!/bin/sh\n" + body);
    REQUIRE(::chmod(path.c_str(), 0755) == 0);
  }
  const TemporaryFolder& folder_;
};

/// `stepbench <arguments>` with this PATH: run_program() gives it the one of the tests, where a real Slurm may be.
ChildResult run_on_path(const TemporaryFolder& folder, const std::vector<std::string>& arguments,
                        const std::string& path) {
  ChildSpec spec;
  spec.argv = {STEPBENCH_BINARY};
  spec.argv.insert(spec.argv.end(), arguments.begin(), arguments.end());
  spec.environment = program_environment(folder);
  std::erase_if(spec.environment, [](const std::string& entry) { return entry.starts_with("PATH="); });
  spec.environment.push_back("PATH=" + path);
  spec.wall_limit_s = 120;
  const Result<ChildResult> result = run_child(spec);
  REQUIRE(result.ok());
  REQUIRE(result.value().ending == ChildEnding::kExited);
  return result.value();
}

std::string run_id(const TemporaryFolder& folder, const std::string& run) {
  const std::string path = folder.path(run + "/manifest.json");
  const Result<SlurmManifest> manifest = manifest_from_json(path, read_text(path));
  REQUIRE(manifest.ok());
  return manifest.value().run;
}

}  // namespace

TEST_CASE("array specifications") {
  const struct {
    std::set<int64_t> tasks;
    const char* text;
  } rows[] = {{{0}, "0"},           {{7}, "7"},
              {{0, 1}, "0-1"},      {{0, 1, 2, 3}, "0-3"},
              {{0, 2, 4}, "0,2,4"}, {{0, 1, 2, 5, 7, 8, 999}, "0-2,5,7-8,999"}};
  for (const auto& row : rows) CHECK(array_text(row.tasks) == row.text);
}

TEST_CASE("the script of a job array") {
  SlurmManifest manifest = known_manifest(1200);
  manifest.request = {"acc", "gpu", "00:30:00", "high", "gpu:h200:1", "a&b", "16G", 4, 8};
  CHECK(slurm_script(manifest, "/shared/run1", 1, {1000, 1001, 1199}) ==
        "#!/bin/sh\n"
        "#SBATCH --job-name=stepbench-0a1b2c3d-1\n"
        "#SBATCH --array=0-1,199%8\n"
        "#SBATCH --output=/shared/run1/logs/%A_%a.txt\n"
        "#SBATCH --open-mode=append\n"
        "#SBATCH --requeue\n"
        "#SBATCH --ntasks=1\n"
        "#SBATCH --account=acc\n"
        "#SBATCH --partition=gpu\n"
        "#SBATCH --time=00:30:00\n"
        "#SBATCH --qos=high\n"
        "#SBATCH --gres=gpu:h200:1\n"
        "#SBATCH --constraint=a&b\n"
        "#SBATCH --mem=16G\n"
        "#SBATCH --cpus-per-task=4\n"
        "\n"
        "exec '/opt/it'\\''s here/stepbench' slurm task '/shared/run1' \"$((1000 + SLURM_ARRAY_TASK_ID))\"\n");
  manifest.request = {};
  const std::string plain = slurm_script(manifest, "/shared/run1", 0, {3});
  CHECK(count_of(plain, "#SBATCH") == 6);
  CHECK_THAT(plain, Catch::Contains("#SBATCH --array=3\n") && Catch::Contains("$((0 + SLURM_ARRAY_TASK_ID))"));
}

TEST_CASE("blocks stay below Slurm's limit of array indices") {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < 2500; ++i) indices.push_back(i);
  const std::map<int64_t, std::set<int64_t>> blocks = slurm_blocks(indices);
  REQUIRE(blocks.size() == 3);
  CHECK(*blocks.at(0).rbegin() == 999);
  CHECK(*blocks.at(1).begin() == 1000);
  CHECK(blocks.at(2).size() == 500);
  CHECK(slurm_job_names(known_manifest(1000)) == "stepbench-0a1b2c3d-0");
  CHECK(slurm_job_names(known_manifest(1001)) == "stepbench-0a1b2c3d-0,stepbench-0a1b2c3d-1");
}

TEST_CASE("values that would become script lines or shell words are refused") {
  const struct {
    const char* name;
    SlurmRequest request;
    std::string folder;
    const char* place;  ///< empty: accepted
  } rows[] = {
      {"nothing asked", {}, "/shared/run1", ""},
      {"all of it", {"acc", "gpu,cpu", "1-00:00:00", "high", "gpu:h200:2", "[a|b]*2", "16G", 0, 0}, "/s/run_1.x", ""},
      {"a line end", {"a\n#SBATCH --uid=0", "", "", "", "", "", "", 0, 0}, "/s", "--account"},
      {"a space", {"", "gpu --uid=0", "", "", "", "", "", 0, 0}, "/s", "--partition"},
      {"a quote", {"", "", "'", "", "", "", "", 0, 0}, "/s", "--time"},
      {"a dollar", {"", "", "", "$x", "", "", "", 0, 0}, "/s", "--qos"},
      {"a backtick", {"", "", "", "", "`x`", "", "", 0, 0}, "/s", "--gres"},
      {"a semicolon", {"", "", "", "", "", "a;b", "", 0, 0}, "/s", "--constraint"},
      {"a per cent sign", {"", "", "", "", "", "", "16%", 0, 0}, "/s", "--mem"},
      {"a folder with a space", {}, "/shared/my run", "--folder"},
      {"a folder with a pattern of Slurm", {}, "/shared/%u", "--folder"},
      {"a folder with a comma", {}, "/shared/a,b", "--folder"},
      {"a folder that is not UTF-8", {}, "/shared/\xff", "--folder"},
      {"no folder", {}, "", "--folder"},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    const Result<void> checked = check_slurm_request(row.request, row.folder);
    CHECK(checked.ok() == (row.place[0] == '\0'));
    if (checked.ok()) continue;
    CHECK(checked.error().code == ErrorCode::kUsage);
    CHECK(checked.error().place == row.place);
  }
}

TEST_CASE("a manifest comes back as it was written; a damaged one is refused with its place") {
  const SlurmManifest manifest = known_manifest(3);
  const std::string text = manifest_to_json(manifest);
  const Result<SlurmManifest> back = manifest_from_json("m.json", text);
  REQUIRE(back.ok());
  CHECK(manifest_to_json(back.value()) == text);
  CHECK(back.value().candidates[1].path == "/k/a b\n1.cu");
  CHECK(back.value().eval.timeout_s == 90.5);
  CHECK(back.value().eval.no_cache);
  CHECK(back.value().submission.name == "ada \"the first\"");
  CHECK(back.value().submission.prompt_tokens == 5200);
  const struct {
    const char* name;
    std::string text;
    const char* says;
  } rows[] = {{"not JSON", "{", "m.json"},
              {"empty", "", "m.json"},
              {"a list", "[]", "m.json"},
              {"another version", "{\"manifest_version\": 2}", "/manifest_version"},
              {"no candidates", text.substr(0, text.find("\"candidates\"")) + "\"other\": []}", "candidates"},
              {"an index out of order", std::string(text).replace(text.find("\"index\": 1"), 10, "\"index\": 5"),
               "/candidates/1/index"}};
  for (const auto& row : rows) {
    INFO(row.name);
    const Result<SlurmManifest> wrong = manifest_from_json("m.json", row.text);
    REQUIRE_FALSE(wrong.ok());
    INFO(to_text(wrong.error()));
    CHECK(wrong.error().code == ErrorCode::kInvalidInput);
    CHECK_THAT(to_text(wrong.error()), Catch::Contains(row.says));
  }
}

TEST_CASE("what squeue and sacct answer") {
  const SlurmManifest manifest = known_manifest(1010);
  const std::map<int64_t, std::string> queued = parse_squeue(manifest,
                                                             "stepbench-0a1b2c3d-0|0|RUNNING\n"
                                                             "stepbench-0a1b2c3d-0|17|PENDING\n"
                                                             "stepbench-0a1b2c3d-1|9|COMPLETING\n"
                                                             "stepbench-0a1b2c3d-0|0|PENDING\n"     // two jobs: runs
                                                             "stepbench-0a1b2c3d-1|10|RUNNING\n"    // no such candidate
                                                             "stepbench-0a1b2c3d-0|1000|RUNNING\n"  // of no block
                                                             "stepbench-0a1b2c3d-2|0|RUNNING\n"
                                                             "stepbench-ffffffff-0|1|RUNNING\n"
                                                             "stepbench-0a1b2c3d-0|N/A|RUNNING\n"
                                                             "stepbench-0a1b2c3d-|2|RUNNING\n"
                                                             "other|3|RUNNING\n"
                                                             "slurm_load_jobs error\n"
                                                             "\n");
  CHECK(queued == std::map<int64_t, std::string>{{0, "RUNNING"}, {17, "PENDING"}, {1009, "COMPLETING"}});
  const std::map<int64_t, std::string> ends = parse_sacct(manifest,
                                                          "stepbench-0a1b2c3d-0|12_0|COMPLETED|0:0\n"
                                                          "stepbench-0a1b2c3d-0|12_1|FAILED|3:0\n"
                                                          "stepbench-0a1b2c3d-0|12_2|TIMEOUT|0:15\n"
                                                          "stepbench-0a1b2c3d-0|9_2|COMPLETED|0:0\n"  // an older job
                                                          "stepbench-0a1b2c3d-0|120_1|CANCELLED by 0|0:0\n"
                                                          "stepbench-0a1b2c3d-1|13_0|NODE_FAIL|1:0\n"
                                                          "stepbench-0a1b2c3d-0|12_[5-7]|PENDING|0:0\n"
                                                          "stepbench-0a1b2c3d-0|14|RUNNING|0:0\n");
  CHECK(ends == std::map<int64_t, std::string>{
                    {0, "COMPLETED"}, {1, "CANCELLED by 0"}, {2, "TIMEOUT (0:15)"}, {1000, "NODE_FAIL (1:0)"}});
}

TEST_CASE("a run from start to end, with tasks lost on the way") {
  const TemporaryFolder folder;
  const FakeSlurm slurm(folder);
  std::filesystem::create_directory(folder.path("k"));
  folder.write("k/a.cu", adamw_candidate());
  folder.write("k/b.cu", adamw_candidate("if (i == 3) return;"));
  folder.write("k/c.cu", "__global__ void f() {");
  const auto run = [&](std::vector<std::string> arguments) {
    const ChildResult result = run_on_path(folder, arguments, slurm.path());
    UNSCOPED_INFO(result.out + result.err);
    return result;
  };
  const auto submit = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {
        "submit",           folder.path("k"), "--as", "ada",     "--engine", "slurm",  "--folder",
        folder.path("run"), "--device",       "vm",   "--suite", "smoke",    "--salt", "2a"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  };
  const std::string at = folder.path("run");

  const ChildResult dry = submit({"--dry-run", "--partition", "gpu"});
  CHECK(dry.exit_code == 0);
  CHECK_THAT(dry.out, Catch::Contains("#SBATCH --array=0-2\n") && Catch::Contains("#SBATCH --partition=gpu\n") &&
                          Catch::Contains("a.cu"));
  CHECK_FALSE(std::filesystem::exists(at));

  slurm.refuse(true);  // the controller is down: the run is written down and goes on later
  const ChildResult down = submit({});
  CHECK(down.exit_code == 3);
  CHECK_THAT(down.err, Catch::Contains("sbatch: Slurm refuses: Unable to contact slurm controller") &&
                           Catch::Contains("stepbench slurm resume"));
  CHECK(run({"slurm", "status", at}).exit_code == 3);
  CHECK(run({"slurm", "resume", at}).exit_code == 3);
  CHECK(run({"slurm", "cancel", at}).exit_code == 3);
  slurm.refuse(false);
  CHECK(submit({}).exit_code == 2);  // the folder is taken

  CHECK(run({"slurm", "resume", at}).exit_code == 0);
  CHECK(slurm.read("sbatch") == "#SBATCH --array=0-2\n");
  const std::string job = "stepbench-" + run_id(folder, "run") + "-0";
  slurm.write("squeue", job + "|0|RUNNING\n" + job + "|1|PENDING\n" + job + "|2|PENDING\n");
  CHECK_THAT(run({"slurm", "resume", at}).out, Catch::Contains("0 submitted again, 3 in the queue, 0 finished"));
  CHECK(slurm.read("sbatch") == "#SBATCH --array=0-2\n");

  // Task 0 ends with a record, task 1 is lost, task 2 runs.
  const ChildResult task = run({"slurm", "task", at, "0"});
  CHECK(task.exit_code == 0);
  CHECK_THAT(task.out, Catch::StartsWith("passed  "));
  slurm.write("squeue", job + "|2|RUNNING\n");
  const ChildResult status = run({"slurm", "status", at, "--all"});
  CHECK(status.exit_code == 0);
  CHECK_THAT(status.out, Catch::Contains("     0  finished") &&
                             Catch::Contains("     1  no record, not in the queue") &&
                             Catch::Contains("     2  RUNNING") && Catch::Contains("next: stepbench slurm resume"));
  slurm.write("sacct", job + "|101_1|OUT_OF_MEMORY|0:125\n");
  CHECK_THAT(run({"slurm", "status", at, "--all"}).out, Catch::Contains("no record, OUT_OF_MEMORY (0:125)"));
  CHECK_THAT(run({"slurm", "resume", at, "--dry-run"}).out, Catch::Contains("#SBATCH --array=1\n"));
  CHECK_THAT(run({"slurm", "resume", at}).out, Catch::Contains("1 submitted again, 1 in the queue, 1 finished"));
  CHECK(slurm.read("sbatch") == "#SBATCH --array=0-2\n#SBATCH --array=1\n");

  // A wrong kernel and a file that is no candidate have records, too; what is finished is not made again.
  CHECK_THAT(run({"slurm", "task", at, "1"}).out, Catch::StartsWith("wrong_result  "));
  CHECK(run({"slurm", "task", at, "2"}).exit_code == 0);
  const std::string first = read_text(at + "/records/000000.jsonl");
  CHECK_THAT(run({"slurm", "task", at, "0"}).out, Catch::StartsWith("finished before  "));
  CHECK(read_text(at + "/records/000000.jsonl") == first);
  slurm.write("squeue", "");
  CHECK_THAT(run({"slurm", "resume", at}).out, Catch::Contains("0 submitted again, 0 in the queue, 3 finished"));
  for (int i = 0; i < 3; ++i) {
    const std::string line = read_text(at + "/records/" + slurm_record_name(i));
    CHECK(count_of(line, "\n") == 1);
    const Result<EvalRecord> record = record_from_json(line);
    REQUIRE(record.ok());
    REQUIRE(record.value().submission);
    CHECK(record.value().submission->name == "ada");
    CHECK(record.value().salt == "000000000000002a");
    CHECK(record.value().candidate.path == folder.path("k/") + "abc"[i] + ".cu");
  }
  for (const auto& entry : std::filesystem::directory_iterator(at + "/records"))
    CHECK(entry.path().filename().string()[0] != '.');

  CHECK(run({"slurm", "cancel", at}).exit_code == 0);
  CHECK(slurm.read("scancel") == "--quiet --name=" + job + "\n");
}

TEST_CASE("a task refuses what is not the run's any more") {
  const TemporaryFolder folder;
  const FakeSlurm slurm(folder);
  folder.write("a.cu", adamw_candidate());
  const auto run = [&](std::vector<std::string> arguments) {
    const ChildResult result = run_on_path(folder, arguments, slurm.path());
    UNSCOPED_INFO(result.out + result.err);
    return result;
  };
  const std::string at = folder.path("run");
  REQUIRE(run({"submit", folder.path("a.cu"), "--as", "ada", "--engine", "slurm", "--folder", at, "--device", "vm",
               "--suite", "smoke"})
              .exit_code == 0);
  for (const char* index : {"1", "99999999999", "-1"}) CHECK(run({"slurm", "task", at, index}).exit_code == 2);
  folder.write("a.cu", adamw_candidate("// changed"));
  const ChildResult changed = run({"slurm", "task", at, "0"});
  CHECK(changed.exit_code == 2);
  CHECK_THAT(changed.err, Catch::Contains("the file has changed since the run was submitted"));
  std::filesystem::remove(folder.path("a.cu"));
  CHECK(run({"slurm", "task", at, "0"}).exit_code == 2);
  folder.write("a.cu", adamw_candidate());  // control: the text that was submitted
  CHECK(run({"slurm", "task", at, "0"}).exit_code == 0);
  CHECK(run({"slurm", "status", folder.path("none")}).exit_code == 2);
}

TEST_CASE("wrong usage of the engine is told before anything is written") {
  const TemporaryFolder folder;
  const FakeSlurm slurm(folder);
  const std::string file = folder.write("a.cu", adamw_candidate());
  const struct {
    const char* name;
    std::vector<std::string> more;
    const char* says;
  } rows[] = {{"unknown engine", {"--engine", "pbs"}, "unknown engine"},
              {"no folder", {"--engine", "slurm"}, "--folder"},
              {"a folder with a space", {"--engine", "slurm", "--folder", folder.path("a b")}, "--folder"},
              {"an account of two lines",
               {"--engine", "slurm", "--folder", folder.path("r"), "--account", "a\nb"},
               "--account"},
              {"unknown suite", {"--engine", "slurm", "--folder", folder.path("r"), "--suite", "all"}, "--suite"},
              {"wrong salt", {"--engine", "slurm", "--folder", folder.path("r"), "--salt", "xyz"}, "--salt"},
              {"unknown device", {"--engine", "slurm", "--folder", folder.path("r"), "--device", "tpu"}, "--device"}};
  for (const auto& row : rows) {
    INFO(row.name);
    std::vector<std::string> arguments = {"submit", file, "--as", "ada"};
    arguments.insert(arguments.end(), row.more.begin(), row.more.end());
    const ChildResult result = run_on_path(folder, arguments, slurm.path());
    INFO(result.out + result.err);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, Catch::Contains(row.says));
    CHECK_FALSE(std::filesystem::exists(folder.path("r")));
  }
}

TEST_CASE("without Slurm on the machine the answer is one sentence") {
  const TemporaryFolder folder;
  const std::string file = folder.write("a.cu", adamw_candidate());
  std::filesystem::create_directory(folder.path("empty"));
  const ChildResult result =
      run_on_path(folder, {"submit", file, "--as", "ada", "--engine", "slurm", "--folder", folder.path("run")},
                  folder.path("empty"));
  INFO(result.out + result.err);
  CHECK(result.exit_code == 3);
  CHECK_THAT(result.err, Catch::Contains("sbatch: not on this machine"));
}
