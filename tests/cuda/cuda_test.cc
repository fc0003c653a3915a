// The CUDA device on a GPU: buffers and guards, what each kind of fault is called, the watchdog, and agreement with the
// VM on every kernel that the repository has. Where a fault is expected the work is done by a child (scenario.cc).
#include <fmt/format.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "harness/json_reader.h"
#include "harness/mutants.h"
#include "harness/parallel.h"
#include "harness/record_folder.h"
#include "harness/stages.h"
#include "tests/cuda/scenario.h"

using namespace stepbench;
using namespace stepbench::gpu_test;

namespace {

void note(const Outcome& outcome) {
  UNSCOPED_INFO(outcome.child.out);
  UNSCOPED_INFO(outcome.child.err);
}

/// A kernel of the repository, as a file.
struct Kernel {
  std::string name, path, task;
  bool must_pass = false;
};

class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "stepbench_gpu_XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~Folder() {
    std::error_code status;
    std::filesystem::remove_all(path_, status);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }
  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = path_ + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

 private:
  std::string path_;
};

/// $STEPBENCH_TEST_TASKS: these tasks only, separated by commas, and no attacks; for a look at new ones.
std::vector<std::string> only_tasks() {
  const char* const names = std::getenv("STEPBENCH_TEST_TASKS");
  std::istringstream text(names == nullptr ? "" : names);
  std::vector<std::string> list;
  for (std::string name; std::getline(text, name, ',');) list.push_back(name);
  return list;
}

std::vector<Kernel> all_kernels(const Folder& folder) {
  std::vector<Kernel> kernels;
  const std::vector<std::string> only = only_tasks();
  const std::vector<std::string> ids = only.empty() ? list_tasks().value() : only;
  for (const std::string& id : ids) {
    const TaskSpec task = load_task(id).value();
    const std::vector<Variant> variants = load_variants(task).value();
    const std::vector<Mutant> mutants = load_mutants(task).value();
    for (const Variant& variant : variants) kernels.push_back({id + "/" + variant.name, variant.path, id, true});
    for (const Mutant& mutant : mutants)  // a name may hold a slash: files go by number
      kernels.push_back({id + "/mutants/" + mutant.name,
                         folder.write(fmt::format("{}_{}.cu", id, kernels.size()), mutant.source), id, false});
  }
  if (!only.empty()) return kernels;
  std::vector<std::filesystem::path> attacks;
  const char* root = std::getenv("STEPBENCH_ROOT");  // a machine that did not build this may have it elsewhere
  const std::string tests = root != nullptr && *root != 0 ? std::string(root) + "/tests" : STEPBENCH_TEST_FOLDER;
  for (const auto& entry : std::filesystem::directory_iterator(tests + "/attacks"))
    if (entry.path().extension() == ".cu") attacks.push_back(entry.path());
  std::sort(attacks.begin(), attacks.end());
  for (const auto& path : attacks) kernels.push_back({"attacks/" + path.stem().string(), path, "adamw", false});
  return kernels;
}

}  // namespace

TEST_CASE("buffers hold what is written, and poison is NaN") {
  const Outcome outcome = run_in_child({"round_trip"}, 120);
  note(outcome);
  CHECK(outcome.get("error").empty());
  CHECK(outcome.get("checked") == "90");
  CHECK(outcome.get("kind") == "none");
  CHECK(outcome.get("after") == "c holds 99");
}

TEST_CASE("many copies at one go are what single ones are") {
  for (const std::string how : {"kernels", "plain"}) {
    DYNAMIC_SECTION(how) {
      const Outcome outcome = run_in_child({"copies", how}, 120);
      note(outcome);
      std::printf("%s: %s GB/s, %s us for 900 small reads\n", how.c_str(), outcome.get("read_gb_per_s").c_str(),
                  outcome.get("us_per_900_small_reads").c_str());
      CHECK(outcome.get("error").empty());
      CHECK(outcome.get("different_written") == "0");
      CHECK(outcome.get("different_read") == "0");
      CHECK(outcome.get("different_parts") == "0");
      CHECK(outcome.get("damage") == "none");
    }
  }
}

TEST_CASE("thousands of buffers are cheap, and damage between them is found") {
  const Outcome outcome = run_in_child({"many_buffers"}, 120);
  note(outcome);
  std::printf("%s", outcome.child.out.c_str());
  CHECK(outcome.get("error").empty());
  CHECK(outcome.get("kind") == "out_of_bounds");
  CHECK(outcome.get("buffer") == "many[4998]");
  CHECK(outcome.get("offset") == "404");
}

TEST_CASE("each fault has its name, and the device is lost only to faults of the hardware") {
  const struct {
    const char* scenario;
    const char* kind;
    const char* found;
    const char* message;
    const char* after;
    int64_t offset = 0;
    const char* buffer = "";
  } rows[] = {
      {"write_inside", "none", "", "", "c holds"},
      {"read_read_only", "none", "", "", "c holds"},
      {"aligned_to_64", "none", "", "", "c holds 77"},
      {"write_just_past_end", "out_of_bounds", "end_of_step", "at byte 4000 of a[0], which has 4000", "c holds", 4000,
       "a[0]"},
      {"write_4_kib_past_end", "out_of_bounds", "launch", "illegal address", "the device was lost"},
      {"read_4_kib_past_end", "out_of_bounds", "launch", "illegal address", "the device was lost"},
      {"write_just_before", "out_of_bounds", "end_of_step", "4 bytes before the start of a[0]", "c holds", -4, "a[0]"},
      {"write_1_mib_before", "out_of_bounds", "end_of_step", "before the start of a[0]", "c holds", -(1 << 20), "a[0]"},
      {"write_3_mib_before", "out_of_bounds", "launch", "illegal address", "the device was lost"},
      {"write_far_away", "out_of_bounds", "launch", "illegal address", "the device was lost"},
      {"write_null", "out_of_bounds", "launch", "illegal address", "the device was lost"},
      {"write_read_only", "out_of_bounds", "launch", "a store to an input", "the device was lost"},
      {"reused_write_inside", "none", "", "", "c holds"},
      {"reused_write_just_before", "out_of_bounds", "end_of_step", "4 bytes before the start of x[1]", "c holds", -4,
       "x[1]"},
      {"reused_write_past_end", "out_of_bounds", "launch", "illegal address", "the device was lost"},
      {"reused_write_read_only", "out_of_bounds", "launch", "a store to an input", "the device was lost"},
      {"misaligned", "misaligned", "launch", "misaligned address", "the device was lost"},
      {"trap", "trap", "launch", "trap", "the device was lost"},
      {"shared_200_kib", "none", "", "", "c holds 77"},
      {"shared_too_much", "invalid_launch", "launch", "shared memory", "c holds"},
      {"cluster_2", "none", "", "", "c holds 5"},
      {"cluster_16", "none", "", "", "c holds 5"},
      {"cluster_64", "invalid_launch", "launch", "", "c holds"},
      {"too_many_threads", "invalid_launch", "launch", "1 to 1024, found 1025", "c holds"},
  };
  for (const auto& row : rows) {
    DYNAMIC_SECTION(row.scenario) {
      const Outcome outcome = run_in_child({row.scenario}, 60);
      note(outcome);
      CHECK(outcome.child.ending == ChildEnding::kExited);
      CHECK(outcome.child.exit_code == 0);
      CHECK(outcome.get("error").empty());
      CHECK(outcome.get("kind") == row.kind);
      CHECK(outcome.get("found") == row.found);
      CHECK_THAT(outcome.get("message"), Catch::Contains(row.message));
      CHECK_THAT(outcome.get("after"), Catch::Contains(row.after));
      CHECK(outcome.get("buffer") == row.buffer);
      if (row.offset != 0) CHECK(outcome.get("offset") == std::to_string(row.offset));
    }
  }
}

TEST_CASE("an access outside of shared memory is a fault") {
  const Outcome outcome = run_in_child({"shared_past_end"}, 60);
  note(outcome);
  CHECK(outcome.get("kind") != "none");
  CHECK_THAT(outcome.get("after"), Catch::Contains("the device was lost"));
}

TEST_CASE("PTX that the driver does not take is the candidate's mistake") {
  const Outcome outcome = run_in_child({"bad_ptx"}, 60);
  note(outcome);
  CHECK(outcome.get("error").empty());
  CHECK((outcome.get("kind") == "compile_error" || outcome.get("kind") == "unsupported"));
}

TEST_CASE("a kernel that never ends is stopped in time, and the next process finds the GPU usable") {
  const Outcome outcome = run_in_child({"hang"}, 60);
  note(outcome);
  CHECK(outcome.child.ending == ChildEnding::kExited);
  CHECK(outcome.get("kind") == "budget");
  CHECK_THAT(outcome.get("message"), Catch::Contains("did not end within 2000 ms"));
  CHECK_THAT(outcome.get("after"), Catch::Contains("the device was lost"));
  CHECK_THAT(outcome.get("allocate"), Catch::Contains("the device was lost"));
  CHECK_THAT(outcome.get("open"), Catch::Contains("the device was lost"));
  CHECK(outcome.child.wall_ms < 12000);  // limit + 10 s
  std::printf("hang: %.0f ms until the process was gone\n", outcome.child.wall_ms);
  const Outcome next = run_in_child({"write_inside"}, 60);
  note(next);
  CHECK(next.get("kind") == "none");
  std::printf("next: %.0f ms\n", next.child.wall_ms);
}

/// The VM and the GPU alone, for every kernel there is. The product runs the VM first, so what only the VM sees has
/// been said by then; the GPU alone must pass what is right and fail what computes wrong results.
TEST_CASE("the GPU and the VM agree on every baseline, variant, mutant and attack") {
  const Folder folder;
  const std::vector<Kernel> kernels = all_kernels(folder);
  REQUIRE(kernels.size() > 15);
  struct Row {
    std::string vm, alone, worst, message;
  };
  std::vector<Row> rows(kernels.size());
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  const int threads = std::max(2, static_cast<int>(std::thread::hardware_concurrency()));
  run_parallel(threads, kernels.size(), [&](size_t i) {  // compiles as well, for the GPU to find in the cache
    const Result<Judged<Candidate>> candidate = load_candidate(kernels[i].path, kernels[i].task);
    if (!candidate.ok()) {
      rows[i].vm = "error: " + to_text(candidate.error());
      return;
    }
    if (!candidate.value().ok()) {
      rows[i].vm = to_text(candidate.value().failure->verdict);
      return;
    }
    EvalOptions options;
    options.device = "vm";
    options.salt = 1;
    options.threads = 1;
    const Result<EvalRecord> record =
        evaluate_isolated(*candidate.value().value, load_task(kernels[i].task).value(), options, 120, nullptr);
    rows[i].vm = record.ok() ? std::string(to_text(record.value().verdict)) : "error: " + to_text(record.error());
  });
  std::printf("vm: %.1f s\n", seconds());
  // One process for as many as it survives.
  const std::string locks = folder.path() + "/locks";
  std::filesystem::create_directories(locks + "/context");
  for (size_t next = 0; next < kernels.size();) {
    std::string list;
    for (size_t i = next; i < kernels.size(); ++i)
      list += fmt::format("{}\t{}\t{}\n", i, kernels[i].path, kernels[i].task);
    const Outcome outcome = run_in_child({"eval", folder.write("list", list), locks}, 900);
    std::istringstream lines(outcome.child.out);
    std::string line;
    size_t answered = 0;
    while (std::getline(lines, line)) {
      if (line.rfind("result ", 0) != 0) continue;
      std::istringstream fields(line.substr(7));
      std::string index, verdict, worst, message;
      std::getline(fields, index, '\t');
      std::getline(fields, verdict, '\t');
      std::getline(fields, worst, '\t');
      std::getline(fields, message);
      Row& row = rows.at(std::stoul(index));
      row.alone = verdict;
      row.worst = worst;
      row.message = message;
      ++answered;
    }
    if (answered == 0) {
      rows[next].alone = "no answer: " + outcome.child.err;
      answered = 1;
    }
    next += answered;
  }
  std::printf("GPU alone: %.1f s\n", seconds());
  std::map<std::string, std::map<std::string, int>> counts;
  std::printf("| kernel | vm | GPU alone | what the GPU says |\n|---|---|---|---|\n");
  for (size_t i = 0; i < kernels.size(); ++i) {
    const Row& row = rows[i];
    const size_t first = kernels[i].name.find('/'), second = kernels[i].name.find('/', first + 1);
    const std::string group = kernels[i].name.substr(0, second == std::string::npos ? first : second);
    ++counts[group][row.alone == row.vm ? "same" : "different"];
    if (row.alone != row.vm)
      std::printf("| %s | %s | %s | %s |\n", kernels[i].name.c_str(), row.vm.c_str(), row.alone.c_str(),
                  row.message.substr(0, 110).c_str());
    INFO(kernels[i].name << ": vm " << row.vm << ", GPU " << row.alone << " " << row.message);
    if (kernels[i].must_pass) {
      CHECK(row.vm == "passed");
      CHECK(row.alone == "passed");
    }
    CHECK_THAT(row.alone, !Catch::StartsWith("error") && !Catch::StartsWith("no answer"));
    CHECK(row.alone != "harness_error");
    if (row.vm == "wrong_result" || row.vm == "drift" || row.vm == "refused" || row.vm == "bad_candidate" ||
        row.vm == "compile_error")
      CHECK(row.alone != "passed");
  }
  for (const auto& [group, numbers] : counts)
    for (const auto& [word, number] : numbers) std::printf("%s: %d %s\n", group.c_str(), number, word.c_str());
}
