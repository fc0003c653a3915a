// Many records: what an append and each question take, and that memory does not grow with the store. The limit of 50 ms
// is for one append (waiting for the disk included) or one question (processor time) on 100,000 records (hidden test,
// run by name; reference_kernels/measured/store_speed.md has its result); the 5,000 records of every run have the same
// limits, which they keep by far.
#include <chrono>
#include <ctime>
#include <fstream>
#include <limits>

#include "tests/store/support.h"

namespace stepbench {
namespace {

constexpr double kLimit_ms = 50;

template <class F>
double ms_of(const F& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

/// Processor time, best of five: what is asked is what the store takes, not what else the machine is doing. The pages
/// are in memory by then, so nothing waits for a disk.
template <class F>
double best_cpu_ms_of(const F& f) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 5; ++i) {
    const std::clock_t start = std::clock();
    f();
    best = std::min(best, 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  return best;
}

/// Highest memory in use since `reset_peak`, of this process; 0 where /proc does not tell.
void reset_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }
int64_t peak_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6));
  return 0;
}

void measure(int64_t records) {
  const TemporaryFolder folder;
  const std::string path = folder.path("store.db"), lines = folder.path("records.jsonl");
  const ChildResult made =
      run_child([&] {
        ChildSpec spec;
        spec.argv = {"/bin/sh", "-c", fmt::format("\"$0\" {} {} > \"$1\"", records, kSeed), MAKE_RECORDS, lines};
        spec.wall_limit_s = 600;
        return spec;
      }())
          .value();
  REQUIRE(made.exit_code == 0);
  fmt::print("{} records, {:.1f} KB each as JSON\n", records,
             static_cast<double>(std::filesystem::file_size(lines)) / static_cast<double>(records) / 1e3);
  const StorePtr store = open_or_fail(path);
  reset_peak();
  const int64_t before_kib = peak_kib();
  const double import_ms = ms_of([&] {
    std::ifstream in(lines, std::ios::binary);
    const Result<StoreImport> imported = import_records(*store, in, lines);
    REQUIRE(imported.ok());
    CHECK(imported.value().added == records);
  });
  fmt::print("  {:<58} {:8.1f} ms, {:.0f} records/s\n", "import of all", import_ms,
             static_cast<double>(records) / import_ms * 1e3);

  std::vector<double> appends;
  for (int64_t i = 0; i < 50; ++i) {
    const EvalRecord record = generated_record(kSeed, records + i);
    appends.push_back(ms_of([&] { append_or_fail(*store, record); }));
  }
  std::sort(appends.begin(), appends.end());
  fmt::print("  {:<58} {:8.3f} ms (worst of 50: {:.3f})\n", "append of one, durable", appends[25], appends[49]);
  CHECK(appends[25] < kLimit_ms);

  const EvalRecord some = generated_record(kSeed, records / 3);
  const auto filter = [](auto set) {
    StoreFilter made_filter;
    set(made_filter);
    return made_filter;
  };
  const struct {
    const char* name;
    StoreFilter filter;
    bool is_whole_store = false;
  } questions[] = {
      {"newest 50", filter([](StoreFilter& f) {
         f.newest_first = true;
         f.limit = 50;
       })},
      {"newest 50 of one task", filter([](StoreFilter& f) {
         f.task = "muon";
         f.newest_first = true;
         f.limit = 50;
       })},
      {"one task, timed, one suite, one GPU", filter([](StoreFilter& f) {
         f.task = "muon";
         f.suite = "standard";
         f.gpu_uuid = "GPU-0000";
         f.only_timed = true;
       })},
      {"one task, timed", filter([](StoreFilter& f) {
         f.task = "muon";
         f.only_timed = true;
       })},
      {"one task", filter([](StoreFilter& f) { f.task = "muon"; })},
      {"one name", filter([](StoreFilter& f) { f.submission = "ada"; })},
      {"one candidate", filter([&](StoreFilter& f) { f.candidate_sha256 = some.candidate.sha256; })},
      {"appended after a known row", filter([&](StoreFilter& f) { f.after_sequence = records - 20; })},
      {"the whole store", {}, true},
  };
  for (const auto& question : questions) {
    int64_t rows = 0;
    double sum = 0;
    const double took_ms = best_cpu_ms_of([&] {
      const Result<int64_t> visited = for_each_row(*store, question.filter, [&](const StoreRow& row) {
        sum += row.score.speedup;
        return true;
      });
      REQUIRE(visited.ok());
      rows = visited.value();
    });
    fmt::print("  rows of: {:<49} {:8.3f} ms, {} rows\n", question.name, took_ms, rows);
    CHECK(rows > 0);
    if (!question.is_whole_store) CHECK(took_ms < kLimit_ms);
  }
  fmt::print("  {:<58} {:8.3f} ms\n", "count of all",
             best_cpu_ms_of([&] { CHECK(count_rows(*store, {}).value() == records + 50); }));
  const double load_ms = best_cpu_ms_of([&] { CHECK(load_record(*store, some.id).ok()); });
  fmt::print("  {:<58} {:8.3f} ms\n", "one whole record by id", load_ms);
  CHECK(load_ms < kLimit_ms);
  const double open_ms = best_cpu_ms_of([&] { open_or_fail(path, StoreMode::kRead); });
  fmt::print("  {:<58} {:8.3f} ms\n", "opening", open_ms);
  CHECK(open_ms < kLimit_ms);
  const double verify_ms = ms_of([&] {
    const Result<StoreVerification> found = verify_store(*store, "", {});
    REQUIRE(found.ok());
    CHECK(found.value().records == records + 50);
    CHECK(problems_text(found.value()).empty());
  });
  fmt::print("  {:<58} {:8.1f} ms\n", "verify", verify_ms);
  const double export_ms = ms_of([&] {
    std::ofstream out("/dev/null", std::ios::binary);
    CHECK(export_records(*store, {}, out).ok());
  });
  fmt::print("  {:<58} {:8.1f} ms\n", "export of all", export_ms);
  const int64_t grown_kib = peak_kib() - before_kib;
  fmt::print("  {:<58} {:8.1f} MB\n", "memory at its highest, above the start", static_cast<double>(grown_kib) / 1024);
  fmt::print("  {:<58} {:8.1f} MB\n", "file", static_cast<double>(std::filesystem::file_size(path)) / 1e6);
  CHECK(grown_kib < 64 * 1024);  // SQLite's cache, one group of an import; not the store
}

TEST_CASE("5000 records") { measure(5'000); }

TEST_CASE("100000 records", "[.slow]") { measure(100'000); }

}  // namespace
}  // namespace stepbench
