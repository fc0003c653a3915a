// Starting, feeding, limiting and reaping one child process. The caller may be multithreaded, so between fork and exec
// only async-signal-safe calls are made. What this file does not do: restrict what the child may ask of the kernel
// (sandbox.cc), and look at what the child answers.
#include "harness/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace stepbench {

namespace {

using Clock = std::chrono::steady_clock;

// The address sanitizer reserves terabytes of address space and cannot live under RLIMIT_AS.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kLimitAddressSpace = false;
#else
constexpr bool kLimitAddressSpace = true;
#endif

constexpr int kAnswerFd = 3;
constexpr int kExecFailed = 127;
constexpr int kFirstFreeFd = 16;  // above the numbers that the child's 0..3 take
constexpr int kTickWithoutPidfd_ms = 5;

/// A descriptor that closes itself.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Fd() { reset(); }
  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  void reset() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

struct Ends {
  Fd parent, child;
};

Error io_error(const char* call, int code) {
  return Error{ErrorCode::kIo, "cannot start a child process", call, "", std::strerror(code)};
}

/// Moves both descriptors above the child's 0..3 (the caller may have closed its own) and makes the parent's end
/// non-blocking.
Result<Ends> arrange(int parent_end, int child_end) {
  Fd low_parent(parent_end), low_child(child_end);
  Ends ends;
  ends.parent = Fd(::fcntl(parent_end, F_DUPFD_CLOEXEC, kFirstFreeFd));
  ends.child = Fd(::fcntl(child_end, F_DUPFD_CLOEXEC, kFirstFreeFd));
  if (!ends.parent.is_open() || !ends.child.is_open()) return io_error("fcntl", errno);
  if (::fcntl(ends.parent.get(), F_SETFL, O_NONBLOCK) != 0) return io_error("fcntl", errno);
  return ends;
}

/// A pipe from the child to the parent.
Result<Ends> pipe_to_parent() {
  std::array<int, 2> raw{};
  if (::pipe2(raw.data(), O_CLOEXEC) != 0) return io_error("pipe2", errno);
  return arrange(raw[0], raw[1]);
}

/// The child's standard input. A socket and not a pipe, because send() can be told to raise no SIGPIPE when the child
/// stops reading.
Result<Ends> socket_to_child() {
  std::array<int, 2> raw{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, raw.data()) != 0) return io_error("socketpair", errno);
  return arrange(raw[0], raw[1]);
}

// ------------------------------------------------------------------------------- between fork and exec

struct ExecImage {
  char* const* argv = nullptr;
  char* const* envp = nullptr;
  int in = -1, out = -1, err = -1, answer = -1, report = -1;
  rlim_t cpu_s = 0, memory_bytes = 0;
  pid_t parent = 0;
};

void close_from(unsigned first) {
  if (::syscall(SYS_close_range, first, ~0U, 0) == 0) return;
  rlimit limit{};
  const rlim_t cap = 65536;
  const rlim_t last = ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? std::min(limit.rlim_cur, cap) : cap;
  for (rlim_t fd = first; fd < last; ++fd) ::close(static_cast<int>(fd));
}

[[noreturn]] void give_up(int report, int code) {
  // Nothing sensible is left to do when even this fails: the exit code says the same.
  const ssize_t written = ::write(report, &code, sizeof code);
  static_cast<void>(written);
  ::_exit(kExecFailed);
}

bool set_limit(__rlimit_resource resource, rlim_t soft, rlim_t hard) {
  const rlimit limit{soft, hard};
  return ::setrlimit(resource, &limit) == 0;
}

/// The child's side. Async-signal-safe calls only; does not return.
[[noreturn]] void exec_child(const ExecImage& image) {
  if (::setpgid(0, 0) != 0) give_up(image.report, errno);
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) give_up(image.report, errno);
  if (::getppid() != image.parent) ::_exit(kExecFailed);  // the parent died before the line above

  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action {};
    action.sa_handler = SIG_DFL;
    ::sigaction(number, &action, nullptr);  // fails for SIGKILL, SIGSTOP and the C library's own two: as it should
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);

  const std::array<std::pair<int, int>, 4> standard{
      {{image.in, 0}, {image.out, 1}, {image.err, 2}, {image.answer, kAnswerFd}}};
  for (const auto& [from, to] : standard)
    if (::dup2(from, to) < 0) give_up(image.report, errno);
  // The report pipe is above 3 and closes itself on exec; give it number 4 and close everything behind it.
  if (::dup3(image.report, kAnswerFd + 1, O_CLOEXEC) < 0) give_up(image.report, errno);
  const int report = kAnswerFd + 1;
  close_from(static_cast<unsigned>(report) + 1);

  if (!set_limit(RLIMIT_CORE, 0, 0)) give_up(report, errno);
  // SIGXCPU at the limit, SIGKILL one second later for a child that ignores it.
  if (image.cpu_s != 0 && !set_limit(RLIMIT_CPU, image.cpu_s, image.cpu_s + 1)) give_up(report, errno);
  if (image.memory_bytes != 0 && !set_limit(RLIMIT_AS, image.memory_bytes, image.memory_bytes)) give_up(report, errno);
  ::execve(image.argv[0], image.argv, image.envp);
  give_up(report, errno);
}

// ------------------------------------------------------------------------------- the parent's side

/// A started child: killed with its whole group and reaped at the latest by the destructor.
class Running {
 public:
  explicit Running(pid_t pid) : pid_(pid), pidfd_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) {}
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() {
    if (!reaped_) {
      kill_group();
      reap();
    }
  }
  int pidfd() const { return pidfd_.get(); }

  void kill_group() const {
    ::kill(-pid_, SIGKILL);
    ::kill(pid_, SIGKILL);  // in case the child has not reached setpgid() yet
  }

  /// True when the child has ended. Leaves it a zombie, so that its number and its group stay taken.
  bool ended() const {
    siginfo_t info{};
    const int rc = ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
    return rc != 0 || info.si_pid == pid_;
  }

  /// Waits for the end; false when the status is lost.
  bool reap() {
    reaped_ = true;
    pid_t rc = -1;
    do rc = ::wait4(pid_, &status_, 0, &usage_);
    while (rc < 0 && errno == EINTR);
    return rc == pid_;
  }
  int status() const { return status_; }
  double cpu_s() const {
    const auto seconds = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    return seconds(usage_.ru_utime) + seconds(usage_.ru_stime);
  }

 private:
  pid_t pid_;
  Fd pidfd_;  // closed (-1) on kernels without it
  bool reaped_ = false;
  int status_ = 0;
  rusage usage_{};
};

/// Keeps the first `limit` bytes of a stream and counts the rest.
struct Capture {
  std::string text;
  uint64_t limit = 0, dropped = 0;
  void add(std::string_view bytes) {
    const size_t kept = std::min<size_t>(bytes.size(), static_cast<size_t>(limit) - text.size());
    text.append(bytes.substr(0, kept));
    dropped += bytes.size() - kept;
  }
  std::string finish() && {
    if (dropped != 0) text += "\n[... cut, " + std::to_string(dropped) + " more bytes]\n";
    return std::move(text);
  }
};

/// Reads what is there. False at the end of the stream.
template <class Sink>
bool drain(const Fd& fd, std::string& buffer, const Sink& sink, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
    if (got > 0) {
      sink(std::string_view(buffer.data(), static_cast<size_t>(got)));
    } else if (got == 0) {
      return false;
    } else if (errno != EINTR) {
      return errno == EAGAIN;
    }
  }
  return true;
}

std::vector<char*> c_strings(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& text : strings) pointers.push_back(const_cast<char*>(text.c_str()));  // execve's signature
  pointers.push_back(nullptr);
  return pointers;
}

/// A caller that ignores SIGCHLD has the kernel throw away how a child ended. Such a disposition is usually inherited
/// and meant by nobody; it is set back to the default, for good, because swapping it around every child would race with
/// other threads.
void make_children_waitable() {
  struct sigaction action {};
  if (::sigaction(SIGCHLD, nullptr, &action) != 0) return;
  if (action.sa_handler != SIG_IGN && (action.sa_flags & SA_NOCLDWAIT) == 0) return;
  if (action.sa_handler == SIG_IGN) action.sa_handler = SIG_DFL;
  action.sa_flags &= ~SA_NOCLDWAIT;
  ::sigaction(SIGCHLD, &action, nullptr);
}

int poll_ms(Clock::time_point deadline, bool has_pidfd) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count() + 1;
  const auto most = has_pidfd ? 60'000 : kTickWithoutPidfd_ms;
  return static_cast<int>(std::clamp<int64_t>(left, 0, most));
}

void judge_status(const Running& child, const ChildSpec& spec, ChildResult& result) {
  const int status = child.status();
  if (WIFEXITED(status)) {
    result.exit_code = WEXITSTATUS(status);
    return;
  }
  result.ending = ChildEnding::kSignalled;
  result.signal = WTERMSIG(status);
  const bool over = spec.cpu_limit_s > 0 && child.cpu_s() >= spec.cpu_limit_s * 0.98;
  if (result.signal == SIGXCPU || (result.signal == SIGKILL && over)) result.ending = ChildEnding::kCpuLimit;
}

}  // namespace

Result<ChildResult> run_child(const ChildSpec& spec) {
  if (spec.argv.empty()) return Error{ErrorCode::kIo, "cannot start a child process", "argv", "a program", "nothing"};
  make_children_waitable();

  Result<Ends> in_pair = socket_to_child();
  if (!in_pair.ok()) return in_pair.error();
  std::array<Ends, 4> from_child;  // stdout, stderr, answer, exec report
  for (Ends& pair : from_child) {
    Result<Ends> made = pipe_to_parent();
    if (!made.ok()) return made.error();
    pair = std::move(made).value();
  }
  Ends in = std::move(in_pair).value();
  auto& [out, err, answer, report] = from_child;

  const std::vector<char*> argv = c_strings(spec.argv);
  const std::vector<char*> envp = c_strings(spec.environment);
  ExecImage image;
  image.argv = argv.data();
  image.envp = envp.data();
  image.in = in.child.get();
  image.out = out.child.get();
  image.err = err.child.get();
  image.answer = answer.child.get();
  image.report = report.child.get();
  image.cpu_s = spec.cpu_limit_s > 0 ? static_cast<rlim_t>(std::ceil(spec.cpu_limit_s)) : 0;
  image.memory_bytes = kLimitAddressSpace ? spec.memory_limit_bytes : 0;
  image.parent = ::getpid();

  const Clock::time_point start = Clock::now();
  const double wall_limit_s = std::clamp(spec.wall_limit_s, 0.0, 1e8);
  const Clock::time_point deadline =
      start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(wall_limit_s));
  const pid_t pid = ::fork();
  if (pid < 0) return io_error("fork", errno);
  if (pid == 0) exec_child(image);
  Running child(pid);
  in.child.reset();
  for (Ends& pair : from_child) pair.child.reset();

  // The report pipe closes at exec: end of stream means that the program runs.
  {
    int code = 0;
    pollfd wait{report.parent.get(), POLLIN, 0};
    while (::poll(&wait, 1, poll_ms(deadline, true)) < 0 && errno == EINTR) {
    }
    if (::read(report.parent.get(), &code, sizeof code) == static_cast<ssize_t>(sizeof code)) {
      Error error = io_error("exec", code);
      error.message = "cannot start the program " + spec.argv[0];
      return error;
    }
  }

  ChildResult result;
  Capture out_text, err_text;
  out_text.limit = err_text.limit = spec.text_limit_bytes;
  size_t lines_end = 0;  // start of the answer's unfinished line
  const auto take_answer = [&](std::string_view bytes) {
    const size_t room = static_cast<size_t>(spec.answer_limit_bytes) - result.answer.size();
    if (bytes.size() > room) result.ending = ChildEnding::kAnswerLimit;
    size_t search = result.answer.size();
    result.answer.append(bytes.substr(0, room));
    if (!spec.on_answer_line) return;
    for (size_t end = result.answer.find('\n', search); end != std::string::npos;
         end = result.answer.find('\n', search)) {
      spec.on_answer_line(std::string_view(result.answer).substr(lines_end, end - lines_end));
      lines_end = search = end + 1;
    }
  };
  const auto take_out = [&](std::string_view bytes) { out_text.add(bytes); };
  const auto take_err = [&](std::string_view bytes) { err_text.add(bytes); };

  size_t sent = 0;
  if (spec.input.empty()) in.parent.reset();
  std::string buffer(64 << 10, '\0');
  while (!child.ended()) {
    if (Clock::now() >= deadline) {
      result.ending = ChildEnding::kWallLimit;
      break;
    }
    std::array<pollfd, 5> polls{{{in.parent.get(), POLLOUT, 0},
                                 {out.parent.get(), POLLIN, 0},
                                 {err.parent.get(), POLLIN, 0},
                                 {answer.parent.get(), POLLIN, 0},
                                 {child.pidfd(), POLLIN, 0}}};
    if (::poll(polls.data(), polls.size(), poll_ms(deadline, child.pidfd() >= 0)) < 0 && errno != EINTR)
      return io_error("poll", errno);
    if (polls[0].revents != 0) {
      const ssize_t wrote =
          ::send(in.parent.get(), spec.input.data() + sent, spec.input.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (wrote > 0) sent += static_cast<size_t>(wrote);
      // A child that does not want the rest is no error of ours: its exit status tells.
      if ((wrote < 0 && errno != EAGAIN && errno != EINTR) || sent == spec.input.size()) in.parent.reset();
    }
    // Few rounds each, so that a flood on one stream starves neither the others nor the clock.
    if (polls[1].revents != 0 && !drain(out.parent, buffer, take_out, 16)) out.parent.reset();
    if (polls[2].revents != 0 && !drain(err.parent, buffer, take_err, 16)) err.parent.reset();
    if (polls[3].revents != 0 && !drain(answer.parent, buffer, take_answer, 16)) answer.parent.reset();
    if (result.ending == ChildEnding::kAnswerLimit) break;
  }

  // Everything in the child's group goes with it; what is still in the pipes was written before and is kept.
  child.kill_group();
  const bool status_known = child.reap();
  constexpr int kLastRounds =
      1024;  // a pipe holds at most 1 MiB; a process that left the group must not feed us for ever
  if (out.parent.is_open()) drain(out.parent, buffer, take_out, kLastRounds);
  if (err.parent.is_open()) drain(err.parent, buffer, take_err, kLastRounds);
  if (answer.parent.is_open() && result.ending != ChildEnding::kAnswerLimit)
    drain(answer.parent, buffer, take_answer, kLastRounds);

  if (!status_known)
    return Error{ErrorCode::kIo, "cannot learn how a child process ended", "wait4", "", std::strerror(errno)};
  if (result.ending == ChildEnding::kExited) judge_status(child, spec, result);
  result.out = std::move(out_text).finish();
  result.err = std::move(err_text).finish();
  result.wall_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  return result;
}

std::string own_binary() {
  const char* set = std::getenv("STEPBENCH_BINARY");
  return set != nullptr && *set != '\0' ? set : "/proc/self/exe";
}

void become_child() {
  // Set before exec already, and kept by it; a program started by hand gets it here.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) ::_exit(kExecFailed);
  // Dead before the line above? Then nobody holds the other end of the answer channel any more.
  pollfd channel{kAnswerFd, 0, 0};
  if (::poll(&channel, 1, 0) == 1 && (channel.revents & POLLERR) != 0) ::_exit(kExecFailed);
  close_from(kAnswerFd + 1);
}

bool write_answer(std::string_view bytes) {
  // A write to a channel whose reader is gone raises SIGPIPE, which would end this process before it can say so.
  sigset_t pipe_signal, before;
  ::sigemptyset(&pipe_signal);
  ::sigaddset(&pipe_signal, SIGPIPE);
  if (::pthread_sigmask(SIG_BLOCK, &pipe_signal, &before) != 0) return false;
  bool all = true;
  while (!bytes.empty() && all) {
    const ssize_t wrote = ::write(kAnswerFd, bytes.data(), bytes.size());
    if (wrote > 0)
      bytes.remove_prefix(static_cast<size_t>(wrote));
    else if (errno != EINTR)
      all = false;
  }
  if (!all) {
    const timespec now{};
    while (::sigtimedwait(&pipe_signal, nullptr, &now) < 0 && errno == EINTR) {
    }
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return all;
}

}  // namespace stepbench
