// kill -9 at any moment: whatever process of an evaluation is killed, no process stays behind, no record is torn or
// lost, and the cache still serves.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <chrono>
#include <random>
#include <set>

#include "harness/stages.h"
#include "tests/app/program.h"

namespace stepbench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 50;
constexpr int kLastMoment_ms = 250;

/// Lets time pass: the subject of this test is moments in time.
void wait_ms(int ms) { ::poll(nullptr, 0, ms); }

pid_t start(const TemporaryFolder& folder, const std::vector<std::string>& arguments, const std::string& cache) {
  std::vector<std::string> environment = program_environment(folder);
  for (std::string& entry : environment)
    if (entry.starts_with("XDG_CACHE_HOME=")) entry = "XDG_CACHE_HOME=" + folder.path(cache);
  std::vector<std::string> words = {STEPBENCH_BINARY};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv, envp;
  for (std::string& word : words) argv.push_back(word.data());
  for (std::string& entry : environment) envp.push_back(entry.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  const std::string output = folder.path("output");

  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  // Only async-signal-safe calls from here on.
  const int file = ::open(output.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644);
  if (file < 0 || ::dup2(file, STDOUT_FILENO) < 0 || ::dup2(file, STDERR_FILENO) < 0) ::_exit(126);
  ::execve(argv[0], argv.data(), envp.data());
  ::_exit(127);
}

/// Children of a process, by /proc: those that every one of its threads started.
std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  std::error_code status;
  const std::filesystem::path tasks = "/proc/" + std::to_string(parent) + "/task";
  for (std::filesystem::directory_iterator it(tasks, status), end; !status && it != end; it.increment(status)) {
    std::ifstream file(it->path() / "children");
    for (pid_t child = 0; file >> child;) children.push_back(child);
  }
  return children;
}

/// Reaps everything that ended; false when processes of ours are still there at the deadline.
bool all_gone(int limit_ms) {
  const Clock::time_point deadline = Clock::now() + std::chrono::milliseconds(limit_ms);
  while (true) {
    const pid_t ended = ::waitpid(-1, nullptr, WNOHANG);
    if (ended < 0) return errno == ECHILD;
    if (ended > 0) continue;
    if (Clock::now() > deadline) return false;
    wait_ms(1);
  }
}

TEST_CASE("a killed evaluation leaves nothing behind and loses nothing") {
  // Orphans come to this process instead of to init, so that waitpid sees whether any of them lives on.
  REQUIRE(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
  const TemporaryFolder folder;
  const std::string good = folder.write("good.cu", adamw_candidate());
  std::mt19937 random(20240607);
  std::set<std::string> kept;
  int killed[3] = {0, 0, 0};

  for (int round = 0; round < kRounds; ++round) {
    // Every other round compiles, and so writes to the cache; the rest reads what is there.
    const std::string cache = round % 2 == 0 ? "cache" + std::to_string(round % 10) : "cache0";
    std::vector<std::string> arguments = {"eval", good, "--quiet", "--only", "edges"};
    if (round % 4 == 0) arguments.push_back("--no-cache");  // see `compiles` below
    const pid_t program = start(folder, arguments, cache);
    REQUIRE(program > 0);
    wait_ms(static_cast<int>(random() % kLastMoment_ms));

    const bool compiles = round % 4 == 0;
    const size_t wanted = random() % 3;
    std::vector<pid_t> workers, compilers;
    const std::vector<pid_t>* generations[] = {nullptr, &workers, &compilers};
    const auto look = [&] {
      workers = children_of(program);
      compilers = workers.empty() ? workers : children_of(workers[0]);
    };
    look();
    // On a busy machine the one to be killed may not be there yet.
    const Clock::time_point give_up = Clock::now() + std::chrono::seconds(wanted == 2 && !compiles ? 0 : 10);
    const auto running = [&] {
      siginfo_t info{};
      return ::waitid(P_PID, static_cast<id_t>(program), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
    };
    while (wanted > 0 && generations[wanted]->empty() && running() && Clock::now() < give_up) {
      wait_ms(1);
      look();
    }
    const bool have = wanted > 0 && !generations[wanted]->empty();
    const pid_t target = have ? generations[wanted]->front() : program;
    ++killed[have ? wanted : 0];
    ::kill(target, SIGKILL);
    // The program goes on when only a child was killed; it must come to its end by itself, with a verdict.
    if (target != program) {
      const Clock::time_point deadline = Clock::now() + std::chrono::seconds(30);
      int status = 0;
      while (::waitpid(program, &status, WNOHANG) == 0 && Clock::now() < deadline) wait_ms(1);
      INFO(read_text(folder.path("output")));
      CHECK(WIFEXITED(status));
    }
    INFO("round " << round);
    REQUIRE(all_gone(5000));

    std::set<std::string> now;
    std::error_code status;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path("records"), status)) {
      INFO(entry.path().string());
      CHECK(entry.path().extension() == ".json");
      const Result<EvalRecord> record = record_from_json(read_text(entry.path().string()));
      REQUIRE(record.ok());
      // The candidate is right: a kill is never charged to it.
      INFO(to_text(record.value().verdict));
      CHECK((record.value().verdict == Verdict::kPassed || record.value().verdict == Verdict::kHarnessError));
      now.insert(entry.path().filename().string());
    }
    CHECK(std::includes(now.begin(), now.end(), kept.begin(), kept.end()));
    kept = std::move(now);
  }
  INFO("killed " << killed[0] << " programs, " << killed[1] << " workers, " << killed[2] << " compilers");
  CHECK(killed[0] > 0);
  CHECK(killed[1] > 0);
  CHECK(killed[2] > 0);
  CHECK(kept.size() > 5);

  for (int cache = 0; cache < 10; cache += 2) {
    const pid_t program = start(folder, {"eval", good, "--quiet", "--only", "edges"}, "cache" + std::to_string(cache));
    int status = 0;
    REQUIRE(::waitpid(program, &status, 0) == program);
    INFO(read_text(folder.path("output")));
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
  CHECK(::prctl(PR_SET_CHILD_SUBREAPER, 0) == 0);
}

}  // namespace
}  // namespace stepbench
