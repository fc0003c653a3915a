// The cache: hits, misses, damage, writers at once, eviction; and what a warm compilation costs.
#include <fcntl.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "harness/cache.h"
#include "tests/compile/support.h"

using namespace stepbench;

namespace {

const std::string kKey = "1f" + std::string(62, 'a');

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void set_file_text(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

}  // namespace

TEST_CASE("an entry comes back as it was written, and any damage makes it a miss") {
  const TempFolder folder;
  const std::string bytes("one\0two\nthree", 13);
  CHECK_FALSE(read_cache(folder.path, kKey));
  REQUIRE(write_cache(folder.path, kKey, bytes).ok());
  CHECK(read_cache(folder.path, kKey) == bytes);
  const std::string path = folder.path + "/" + kKey, whole = file_text(path);
  struct Row {
    const char* name;
    std::string text;
  };
  std::string flipped = whole;
  flipped.back() ^= 1;
  std::string other_version = whole;
  other_version.replace(other_version.find(" 1 "), 3, " 2 ");
  const Row rows[] = {{"empty", ""},
                      {"torn in the head", whole.substr(0, 20)},
                      {"torn in the body", whole.substr(0, whole.size() - 4)},
                      {"one bit", flipped},
                      {"longer", whole + "x"},
                      {"other format", other_version},
                      {"noise", std::string(5000, '\xA5')}};
  for (const Row& row : rows) {
    DYNAMIC_SECTION(row.name) {
      set_file_text(path, row.text);
      CHECK_FALSE(read_cache(folder.path, kKey));
      REQUIRE(write_cache(folder.path, kKey, bytes).ok());
      CHECK(read_cache(folder.path, kKey) == bytes);
    }
  }
}

TEST_CASE("names that are no keys and folders that are none do nothing") {
  const TempFolder folder;
  for (const char* key : {"", "../../etc/passwd", "ABCDEF0123456789", "0123", "0123456789/abcdef"}) {
    CHECK_FALSE(read_cache(folder.path, key));
    CHECK_FALSE(write_cache(folder.path, key, "x").ok());
  }
  CHECK_FALSE(write_cache("", kKey, "x").ok());
  CHECK_FALSE(write_cache("/proc/nowhere", kKey, "x").ok());
  // A FIFO in an entry's place must not hang the reader.
  REQUIRE(::mkfifo((folder.path + "/" + kKey).c_str(), 0600) == 0);
  CHECK_FALSE(read_cache(folder.path, kKey));
  REQUIRE(write_cache(folder.path, kKey, "x").ok());
  CHECK(read_cache(folder.path, kKey) == "x");
}

TEST_CASE("the folder follows the environment") {
  const Variable home("HOME", "/home/h");
  CHECK(cache_folder("/given") == "/given");
  {
    const Variable xdg("XDG_CACHE_HOME", "/x");
    CHECK(cache_folder("") == "/x/stepbench");
  }
  const Variable xdg("XDG_CACHE_HOME", "relative, so ignored");
  CHECK(cache_folder("") == "/home/h/.cache/stepbench");
}

TEST_CASE("readers and writers at once see whole entries only") {
  const TempFolder folder;
  std::atomic<int> wrong{0}, seen{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 40; ++i) {
        const std::string bytes(20000, static_cast<char>('a' + t));
        if (!write_cache(folder.path, kKey, bytes).ok()) ++wrong;
        const std::optional<std::string> read = read_cache(folder.path, kKey);
        if (!read) continue;
        ++seen;
        if (read->size() != 20000 || read->find_first_not_of(read->front()) != std::string::npos) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(seen > 0);
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path)) {
    static_cast<void>(entry);
    ++files;
  }
  CHECK(files == 1);  // no temporary file stays
}

TEST_CASE("eviction removes what was used longest ago") {
  const TempFolder folder;
  std::vector<std::string> keys;
  for (int i = 0; i < 10; ++i) {
    keys.push_back("1" + std::to_string(i) + std::string(62, 'b'));
    REQUIRE(write_cache(folder.path, keys.back(), std::string(10000, 'x')).ok());
    const timespec times[2] = {{1000 + i, 0}, {1000 + i, 0}};
    REQUIRE(::utimensat(AT_FDCWD, (folder.path + "/" + keys.back()).c_str(), times, 0) == 0);
  }
  CHECK(read_cache(folder.path, keys[0]));  // used now, so the youngest
  trim_cache(folder.path, 200000);          // within the limit: nothing goes
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 10);
  trim_cache(folder.path, 60000);
  CHECK(read_cache(folder.path, keys[0]));
  CHECK_FALSE(read_cache(folder.path, keys[1]));
  CHECK(read_cache(folder.path, keys[9]));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 5);  // 54,000 bytes and their heads
}

TEST_CASE("a second compilation comes from the cache, and damage only costs time") {
  NEEDS_TOOLKIT();
  const TempFolder folder;
  CompileOptions options;
  options.cache_folder = folder.path;
  const Candidate code =
      candidate("#include <cuda_bf16.h>\n#include <stepbench.cuh>\n" + std::string(kSimple), {"simple"});
  const CompiledModule first = module_of(code, options);
  CHECK_FALSE(first.from_cache);
  const CompiledModule second = module_of(code, options);
  CHECK(second.from_cache);
  CHECK(second.ptx == first.ptx);
  CHECK(second.cubin == first.cubin);
  CHECK(second.entries == first.entries);
  CHECK(second.key == first.key);
  CHECK(second.compiler == first.compiler);
  REQUIRE(second.resources.size() == first.resources.size());
  CHECK(second.resources[0].registers == first.resources[0].registers);

  set_file_text(folder.path + "/" + first.key, "damaged");
  CHECK_FALSE(module_of(code, options).from_cache);
  CHECK(module_of(code, options).from_cache);

  double best_ms = 1e9;
  for (int i = 0; i < 20; ++i) best_ms = std::min(best_ms, module_of(code, options).compile_ms);
#if !defined(__SANITIZE_ADDRESS__)
  CHECK(best_ms < 3);
#endif

  // Everything that can change the code changes the address.
  struct Row {
    const char* name;
    void (*change)(Candidate&, TaskSpec&);
  };
  const Row rows[] = {
      {"source", [](Candidate& c, TaskSpec&) { c.source += "// x\n"; }},
      {"define",
       [](Candidate& c, TaskSpec&) {
         c.plan.defines = {{"VEC", "4"}};
       }},
      {"option", [](Candidate& c, TaskSpec&) { c.plan.options = {"--fmad=false"}; }},
      {"file name", [](Candidate& c, TaskSpec&) { c.path = "yours.cu"; }},
      {"task", [](Candidate&, TaskSpec& t) { t.hyper[1].name = "rate"; }},
      {"default plan", [](Candidate& c, TaskSpec&) { c.default_plan = true; }},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    Candidate other = code;
    TaskSpec task = sample_task();
    row.change(other, task);
    const CompiledModule module = module_of(other, options, task);
    CHECK_FALSE(module.from_cache);
    CHECK(module.key != first.key);
  }
  // The folder that the file lies in does not.
  Candidate moved = code;
  moved.path = "/elsewhere/mine.cu";
  CHECK(module_of(moved, options).from_cache);
}

TEST_CASE("failures are not cached, and a cache that cannot be written harms nothing") {
  NEEDS_NVRTC();
  const TempFolder folder;
  CompileOptions options;
  options.cache_folder = folder.path;
  const Failure first = failure_of(candidate("broken broken;\n", {"k"}), options);
  CHECK(failure_of(candidate("broken broken;\n", {"k"}), options).message == first.message);
  options.cache_folder = "/proc/nowhere";
  CHECK_FALSE(module_of(candidate(kSimple, {"simple"}), options).from_cache);
  CHECK_FALSE(module_of(candidate(kSimple, {"simple"}), options).from_cache);
}

TEST_CASE("compilations of the same candidate at once agree") {
  NEEDS_NVRTC();
  const TempFolder folder;
  CompileOptions options;
  options.cache_folder = folder.path;
  const Candidate code = candidate(kSimple, {"simple"});
  const TaskSpec task = sample_task();
  std::vector<std::string> ptx(3);
  std::vector<std::thread> threads;
  for (std::string& text : ptx)
    threads.emplace_back([&] {
      Result<Judged<CompiledModule>> result = compile(code, task, options);
      if (result.ok() && result.value().ok()) text = result.value().value->ptx;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK_FALSE(ptx[0].empty());
  CHECK(ptx[0] == ptx[1]);
  CHECK(ptx[0] == ptx[2]);
}
