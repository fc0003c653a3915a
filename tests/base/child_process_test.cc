// Child processes: limits, capture, endings, and that nothing is left behind. The children are shell one-liners, so
// that the tests need no program of their own.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "harness/child_process.h"

using namespace stepbench;

namespace {

ChildSpec shell(const std::string& script) {
  ChildSpec spec;
  spec.argv = {"/bin/sh", "-c", script};
  spec.environment = {"PATH=/usr/bin:/bin"};
  spec.wall_limit_s = 20;
  return spec;
}

ChildResult run(const ChildSpec& spec) {
  Result<ChildResult> result = run_child(spec);
  if (!result.ok()) FAIL(to_text(result.error()));
  return std::move(result).value();
}

int open_descriptors() {
  int count = 0;
  DIR* folder = ::opendir("/proc/self/fd");
  REQUIRE(folder != nullptr);
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

/// True when the process runs; a zombie that its new parent has not collected yet does not.
bool alive(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(stat)), {});
  const size_t name_end = text.rfind(')');
  return name_end != std::string::npos && name_end + 2 < text.size() && text[name_end + 2] != 'Z' &&
         text[name_end + 2] != 'X';
}

/// Polls a condition for up to ten seconds.
template <class Condition>
bool soon(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

struct TempFile {
  std::string path;
  TempFile() {
    char name[] = "/tmp/stepbench_child_XXXXXX";
    const int fd = ::mkstemp(name);
    REQUIRE(fd >= 0);
    ::close(fd);
    path = name;
  }
  ~TempFile() { ::unlink(path.c_str()); }
  std::string text() const {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

struct EndingRow {
  const char* name;
  const char* script;
  ChildEnding ending;
  int code;  // exit code or signal
};
const EndingRow kEndings[] = {
    {"exits with 0", "exit 0", ChildEnding::kExited, 0},
    {"exits with 7", "exit 7", ChildEnding::kExited, 7},
    {"crashes", "kill -SEGV $$", ChildEnding::kSignalled, SIGSEGV},
    {"aborts", "kill -ABRT $$", ChildEnding::kSignalled, SIGABRT},
    {"is killed from outside", "kill -KILL $$", ChildEnding::kSignalled, SIGKILL},
};

}  // namespace

TEST_CASE("a child's ending is told as it was") {
  for (const EndingRow& row : kEndings) {
    DYNAMIC_SECTION(row.name) {
      const ChildResult result = run(shell(row.script));
      CHECK(result.ending == row.ending);
      CHECK((row.ending == ChildEnding::kExited ? result.exit_code : result.signal) == row.code);
    }
  }
}

TEST_CASE("a child gets its whole input while it answers, without deadlock") {
  ChildSpec spec = shell("cat >&3; echo out; echo err >&2");
  spec.input.resize(8 << 20);
  for (size_t i = 0; i < spec.input.size(); ++i) spec.input[i] = static_cast<char>(i * 2654435761u >> 13);
  const ChildResult result = run(spec);
  CHECK(result.ending == ChildEnding::kExited);
  CHECK(result.answer == spec.input);
  CHECK(result.out == "out\n");
  CHECK(result.err == "err\n");
}

TEST_CASE("a child that reads nothing of a large input ends normally") {
  ChildSpec spec = shell("exec 0<&-; echo done >&3");
  spec.input.assign(4 << 20, 'x');
  const ChildResult result = run(spec);
  CHECK(result.ending == ChildEnding::kExited);
  CHECK(result.answer == "done\n");
}

TEST_CASE("a hanging child is killed with its whole group at the wall limit") {
  TempFile file;
  ChildSpec spec = shell("sleep 1000 & echo $! > " + file.path + "; echo started >&3; wait");
  spec.wall_limit_s = 0.3;
  const ChildResult result = run(spec);
  CHECK(result.ending == ChildEnding::kWallLimit);
  CHECK(result.answer == "started\n");
  CHECK(result.wall_ms >= 300);
  CHECK(result.wall_ms < 5000);
  const pid_t left_behind = std::atoi(file.text().c_str());
  REQUIRE(left_behind > 1);
  CHECK(soon([&] { return !alive(left_behind); }));
}

TEST_CASE("what a child leaves running in its group goes when the child exits") {
  TempFile file;
  const ChildResult result = run(shell("sleep 1000 & echo $! > " + file.path));
  CHECK(result.ending == ChildEnding::kExited);
  CHECK(result.wall_ms < 5000);
  const pid_t left_behind = std::atoi(file.text().c_str());
  REQUIRE(left_behind > 1);
  CHECK(soon([&] { return !alive(left_behind); }));
}

TEST_CASE("a flood on standard error is drained, cut at the limit and marked") {
  ChildSpec spec = shell("head -c 100000000 /dev/zero >&2; echo fine >&3");
  spec.text_limit_bytes = 1000;
  const ChildResult result = run(spec);
  CHECK(result.ending == ChildEnding::kExited);
  CHECK(result.exit_code == 0);
  CHECK(result.answer == "fine\n");
  CHECK(result.err.substr(0, 1000) == std::string(1000, '\0'));
  CHECK(result.err.substr(1000) == "\n[... cut, 99999000 more bytes]\n");
  // Control: text at the limit exactly carries no mark.
  spec = shell("printf 12345 >&2");
  spec.text_limit_bytes = 5;
  CHECK(run(spec).err == "12345");
}

TEST_CASE("an answer over its limit ends the child; one at the limit does not") {
  ChildSpec spec = shell("head -c 100001 /dev/zero >&3; sleep 1000");
  spec.answer_limit_bytes = 100000;
  const ChildResult over = run(spec);
  CHECK(over.ending == ChildEnding::kAnswerLimit);
  CHECK(over.answer.size() == 100000);
  spec = shell("head -c 100000 /dev/zero >&3");
  spec.answer_limit_bytes = 100000;
  const ChildResult at = run(spec);
  CHECK(at.ending == ChildEnding::kExited);
  CHECK(at.answer.size() == 100000);
}

TEST_CASE("a child that burns its CPU time is told apart from one that waits") {
  ChildSpec spec = shell("while :; do :; done");
  spec.cpu_limit_s = 1;
  const ChildResult burnt = run(spec);
  CHECK(burnt.ending == ChildEnding::kCpuLimit);
  CHECK(burnt.wall_ms < 15000);
  // A child that ignores the first signal gets the second.
  spec = shell("trap '' XCPU; while :; do :; done");
  spec.cpu_limit_s = 1;
  CHECK(run(spec).ending == ChildEnding::kCpuLimit);
}

TEST_CASE("limits, descriptors and environment are what the caller says and nothing else") {
  const int stray = ::dup(0);  // not close-on-exec: must not reach the child
  REQUIRE(stray >= 0);
  ::setenv("STEPBENCH_STRAY", "leaked", 1);
  ChildSpec spec = shell(
      "ulimit -c; ulimit -t; ulimit -v; env | grep -v '^PWD=\\|^_=\\|^SHLVL=\\|^OLDPWD='; "
      "for f in 0 1 2 3 4 5 6 7 8 9 20 30; do [ -e /proc/$$/fd/$f ] && echo fd $f; done; :");
  spec.cpu_limit_s = 5;
  spec.memory_limit_bytes = 1ull << 30;
  const ChildResult result = run(spec);
  ::close(stray);
  ::unsetenv("STEPBENCH_STRAY");
#if defined(__SANITIZE_ADDRESS__)
  const std::string memory = "unlimited";
#else
  const std::string memory = "1048576";
#endif
  CHECK(result.out == "0\n5\n" + memory + "\nPATH=/usr/bin:/bin\nfd 0\nfd 1\nfd 2\nfd 3\n");
}

TEST_CASE("whole lines of the answer are handed on as they come") {
  std::vector<std::string> lines;
  ChildSpec spec = shell("printf 'a\\nbb' >&3; printf 'b\\n\\nrest' >&3");
  spec.on_answer_line = [&](std::string_view line) { lines.emplace_back(line); };
  const ChildResult result = run(spec);
  CHECK(lines == std::vector<std::string>{"a", "bbb", ""});
  CHECK(result.answer == "a\nbbb\n\nrest");
}

TEST_CASE("a program that does not exist is an error that names it") {
  ChildSpec spec;
  spec.argv = {"/nonexistent/program"};
  const Result<ChildResult> result = run_child(spec);
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().code == ErrorCode::kIo);
  CHECK(result.error().message.find("/nonexistent/program") != std::string::npos);
  CHECK_FALSE(run_child(ChildSpec{}).ok());
}

TEST_CASE("a caller that ignores SIGCHLD still learns the ending and leaves no zombie") {
  struct sigaction before {};
  REQUIRE(::sigaction(SIGCHLD, nullptr, &before) == 0);
  ::signal(SIGCHLD, SIG_IGN);
  const ChildResult result = run(shell("exit 9"));
  ::sigaction(SIGCHLD, &before, nullptr);
  CHECK(result.ending == ChildEnding::kExited);
  CHECK(result.exit_code == 9);
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
}

TEST_CASE("many children leave no descriptor and no process behind, from several threads at once") {
  run(shell(":"));
  const int before = open_descriptors();
  std::vector<std::thread> threads;
  std::array<int, 4> good{};
  for (size_t t = 0; t < good.size(); ++t)
    threads.emplace_back([&good, t] {
      for (int i = 0; i < 25; ++i) {
        Result<ChildResult> result = run_child(shell("echo " + std::to_string(i) + " >&3"));
        good[t] += result.ok() && result.value().answer == std::to_string(i) + "\n";
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const int count : good) CHECK(count == 25);
  CHECK(open_descriptors() == before);
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
}

TEST_CASE("a child dies with a parent that is killed") {
  TempFile file;
  const pid_t middle = ::fork();
  REQUIRE(middle >= 0);
  if (middle == 0) {
    Result<ChildResult> result = run_child(shell("echo $$ > " + file.path + "; exec sleep 1000"));
    ::_exit(result.ok() ? 0 : 1);
  }
  REQUIRE(soon([&] { return file.text().find('\n') != std::string::npos; }));
  const pid_t grandchild = std::atoi(file.text().c_str());
  REQUIRE(grandchild > 1);
  CHECK(alive(grandchild));
  ::kill(middle, SIGKILL);
  CHECK(::waitpid(middle, nullptr, 0) == middle);
  CHECK(soon([&] { return !alive(grandchild); }));
}

TEST_CASE("the answer channel says when the parent is gone") {
  // In a fork, because descriptor 3 of the test itself belongs to someone else.
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    int ends[2];
    if (::pipe(ends) != 0) ::_exit(10);
    const int reader = ::fcntl(ends[0], F_DUPFD, 20);
    if (::dup2(ends[1], 3) != 3) ::_exit(11);
    for (const int fd : ends)
      if (fd != 3) ::close(fd);
    if (!write_answer("abc")) ::_exit(12);
    ::close(reader);
    ::_exit(write_answer("abc") ? 13 : 0);
  }
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
