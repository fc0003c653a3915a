// Several processes write to one store at the same time, and some of them are killed: nothing is lost, nothing is there
// twice, and the chain holds.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

#include "tests/store/support.h"

namespace stepbench {
namespace {

constexpr int kWriters = 8;
constexpr int64_t kRecordsEach = 200;

/// A process that appends records `first`, `first + step` ... and ends with 0 when each was taken; it reports each id
/// on `pipe` once the append has returned. Nothing of Catch may run in it.
pid_t start_writer(const std::string& path, int64_t first, int64_t step, int64_t count, int pipe) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  const Result<StorePtr> store = open_store(path, {StoreMode::kWrite, 60'000, 0});
  if (!store.ok()) {
    fmt::print(stderr, "{}\n", to_text(store.error()));
    ::_exit(2);
  }
  for (int64_t i = 0; i < count; ++i) {
    const EvalRecord record = generated_record(kSeed, first + i * step);
    const Result<Appended> appended = append_record(*store.value(), record);
    if (!appended.ok()) {
      fmt::print(stderr, "{}\n", to_text(appended.error()));
      ::_exit(3);
    }
    const std::string line = record.id + "\n";  // shorter than PIPE_BUF: never mixed with others
    if (::write(pipe, line.data(), line.size()) != static_cast<ssize_t>(line.size())) ::_exit(4);
  }
  ::_exit(0);
}

std::set<std::string> ids_in(const std::string& path) {
  std::set<std::string> ids;
  for (const StoreRow& row : rows_of(*open_or_fail(path, StoreMode::kRead))) CHECK(ids.insert(row.id).second);
  return ids;
}

TEST_CASE("eight processes write two hundred records each, two of them the same, into a store that none has made") {
  const TemporaryFolder folder;
  const std::string path = folder.path("deep/er/store.db");
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  std::vector<pid_t> writers;
  // Writers 0 and 1 append the same records, all others their own.
  for (int i = 0; i < kWriters; ++i)
    writers.push_back(start_writer(path, std::max(i, 1), kWriters, kRecordsEach, ends[1]));
  ::close(ends[1]);
  std::string reported;
  char block[4096];
  for (ssize_t count = 0; (count = ::read(ends[0], block, sizeof(block))) > 0;)
    reported.append(block, static_cast<size_t>(count));
  ::close(ends[0]);
  for (const pid_t writer : writers) {
    int status = 0;
    REQUIRE(::waitpid(writer, &status, 0) == writer);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
  CHECK(std::count(reported.begin(), reported.end(), '\n') == kWriters * kRecordsEach);
  std::set<std::string> expected;
  for (int i = 1; i < kWriters; ++i)
    for (int64_t k = 0; k < kRecordsEach; ++k) expected.insert(generated_record(kSeed, i + k * kWriters).id);
  CHECK(expected.size() == 1400);
  CHECK(ids_in(path) == expected);
  const StoreVerification found = verify_or_fail(path);
  CHECK(found.records == 1400);
  CHECK(problems_text(found).empty());
}

TEST_CASE("writers killed at any moment: every record that was reported is there, and nothing is half there") {
  const TemporaryFolder folder;
  const std::string path = folder.path("store.db");
  std::set<std::string> reported;
  constexpr int kRounds = 12;
  for (int round = 0; round < kRounds; ++round) {
    INFO("round " << round);
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    // Killed once it has reported more than `round` records, wherever it then is.
    const pid_t victim = start_writer(path, round * 1000, 1, 500, ends[1]);
    ::close(ends[1]);
    std::string text;
    char block[17];
    while (std::count(text.begin(), text.end(), '\n') <= round) {
      const ssize_t count = ::read(ends[0], block, sizeof(block));
      REQUIRE(count > 0);
      text.append(block, static_cast<size_t>(count));
    }
    REQUIRE(::kill(victim, SIGKILL) == 0);
    int status = 0;
    REQUIRE(::waitpid(victim, &status, 0) == victim);
    CHECK(WIFSIGNALED(status));
    for (ssize_t count = 0; (count = ::read(ends[0], block, sizeof(block))) > 0;)
      text.append(block, static_cast<size_t>(count));
    ::close(ends[0]);
    std::stringstream lines(text);
    for (std::string id; std::getline(lines, id);) reported.insert(id);
    const std::set<std::string> there = ids_in(path);
    CHECK(std::includes(there.begin(), there.end(), reported.begin(), reported.end()));
    // At most the one record in hand may be there without having been reported.
    CHECK(there.size() <= reported.size() + static_cast<size_t>(round) + 1);
  }
  CHECK(reported.size() >= kRounds);
  CHECK(problems_text(verify_or_fail(path)).empty());
  CHECK(append_or_fail(*open_or_fail(path), generated_record(kSeed, 999'999)).added);
}

}  // namespace
}  // namespace stepbench
