// The seal: what a sealed process cannot do, each beside the same act before sealing; and that a compiler inside it
// sees no file, when the source gets past everything that looks at it first.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "harness/child_process.h"
#include "harness/compile_child.h"
#include "harness/sandbox.h"
#include "tests/compile/support.h"

using namespace stepbench;

namespace {

struct Act {
  const char* name;
  bool (*works)();
};

bool opens(const char* path) {
  const int fd = ::open(path, O_RDONLY | O_NONBLOCK);
  if (fd >= 0) ::close(fd);
  return fd >= 0;
}

const Act kForbidden[] = {
    {"open a file", [] { return opens("/etc/passwd"); }},
    {"look whether a file exists", [] { return ::access("/etc/passwd", F_OK) == 0; }},
    {"stat a file",
     [] {
       struct stat info {};
       return ::stat("/etc/passwd", &info) == 0;
     }},
    {"make a socket", [] { return ::socket(AF_UNIX, SOCK_STREAM, 0) >= 0; }},
    {"make a process",
     [] {
       const pid_t pid = ::fork();
       if (pid == 0) ::_exit(0);
       if (pid > 0) ::waitpid(pid, nullptr, 0);
       return pid > 0;
     }},
    {"make executable memory",
     [] {
       return ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
              MAP_FAILED;
     }},
    {"signal another process", [] { return ::kill(::getppid(), 0) == 0; }},
    {"change a limit",
     [] {
       rlimit limit{};
       return ::getrlimit(RLIMIT_CPU, &limit) == 0 && ::setrlimit(RLIMIT_CPU, &limit) == 0;
     }},
    {"become traced", [] { return ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0; }},
};

const Act kAllowedActs[] = {
    {"allocate",
     [] { return ::mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED; }},
    {"write to an open pipe", [] { return ::write(STDERR_FILENO, "", 0) == 0; }},
};

/// Runs the act in a process of its own, sealed or not: 0 it worked, 1 it did not, 2 the seal failed.
int outcome(const Act& act, bool sealed) {
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    if (sealed && !seal_compiler().ok()) ::_exit(2);
    ::_exit(act.works() ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

/// What the sealed compiler says to a source that nobody has looked at.
CompileAnswer ask(const std::string& source) {
  CompileRequest request;
  request.nonce = "nonce";
  request.library = find_compiler().value().library;
  request.virtual_arch = "compute_90a";
  request.input.source = source;
  request.input.program_name = "candidate.cu";
  request.input.options = {"--gpu-architecture=sm_90a", "--std=c++17"};
  ChildSpec spec;
  spec.argv = {own_binary(), "__compile"};
  spec.input = encode_request(request);
  spec.wall_limit_s = 20;
  spec.cpu_limit_s = 10;
  Result<ChildResult> child = run_child(spec);
  if (!child.ok()) FAIL(to_text(child.error()));
  CHECK(child.value().ending == ChildEnding::kExited);
  CHECK(decode_answer(child.value().answer, "another nonce").complete == false);
  return decode_answer(child.value().answer, "nonce");
}

}  // namespace

TEST_CASE("a sealed process cannot reach out") {
  for (const Act& act : kForbidden) {
    DYNAMIC_SECTION(act.name) {
      CHECK(outcome(act, false) == 0);
      CHECK(outcome(act, true) == 1);
    }
  }
}

TEST_CASE("a sealed process can compute") {
  for (const Act& act : kAllowedActs) {
    DYNAMIC_SECTION(act.name) { CHECK(outcome(act, true) == 0); }
  }
}

TEST_CASE("the sealed compiler finds no file, no difference between files, and does not hang") {
  NEEDS_NVRTC();
  const TempFolder folder;
  const std::string fifo = folder.path + "/fifo", secret = folder.path + "/secret.h";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  std::ofstream(secret) << "int the_secret_text error here;\n";
  std::ofstream(folder.path + "/relative.h") << "int the_secret_text error here;\n";
  const std::string up = "../../../../../../../../..";
  const std::string paths[] = {"/etc/hostname",      "/etc/passwd",     "/dev/zero", "/dev/stdin",
                               "/proc/self/environ", "/proc/self/fd/0", fifo,        secret,
                               up + secret,          "relative.h",      folder.path, "/nonexistent"};
  for (const std::string& path : paths) {
    INFO(path);
    {
      // Every way to write it for one path, the plain one for the rest.
      std::vector<const char*> forms = {"#include \"{}\"\n"};
      if (path == paths[0])
        forms.insert(forms.end(), {"#include <{}>\n", "%:include \"{}\"\n", "#define H \"{}\"\n#include H\n"});
      for (const char* form : forms) {
        std::string line = form;
        line.replace(line.find("{}"), 2, path);
        const CompileAnswer answer = ask(line + "extern \"C\" __global__ void k() {}\n");
        REQUIRE(answer.complete);
        CHECK(answer.output.status != kNvrtcSuccess);
        CHECK(has(answer.output.log, "open source file"));
        CHECK_FALSE(has(answer.output.log, "the_secret_text"));
      }
      const CompileAnswer probe = ask("#if __has_include(\"" + path + "\") || __has_include(<" + path +
                                      ">)\n#error it is there\n#endif\nextern \"C\" __global__ void k() {}\n");
      REQUIRE(probe.complete);
      CHECK(probe.output.status == kNvrtcSuccess);
    }
  }
  // Control: a header that was handed over is there, and the harness answers.
  CHECK(ask("extern \"C\" __global__ void k() {}\n").output.status == kNvrtcSuccess);
}

TEST_CASE("the child refuses what is no request") {
  for (const std::string& input :
       {std::string(), std::string("hello"), std::string(64, '\xFF'), encode_request({}) + "x"}) {
    ChildSpec spec;
    spec.argv = {own_binary(), "__compile"};
    spec.input = input;
    Result<ChildResult> child = run_child(spec);
    REQUIRE(child.ok());
    CHECK(child.value().ending == ChildEnding::kExited);
    CHECK(child.value().exit_code == 2);
    CHECK(child.value().answer.empty());
  }
}
