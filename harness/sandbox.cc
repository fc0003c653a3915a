// The compile child's seal: seccomp filter by libseccomp, and resource limits. An allow-list: a system call that is not
// named here fails with an error code, so that the compiler can report it; it does not kill. CPU and memory limits are
// set by the parent before exec (child_process.cc).
#include "harness/sandbox.h"

#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace stepbench {

namespace {

/// Memory, time, threads' locks, signals' return and the descriptors that are open already.
constexpr int kAllowed[] = {
    SCMP_SYS(read),
    SCMP_SYS(write),
    SCMP_SYS(writev),
    SCMP_SYS(close),
    SCMP_SYS(lseek),
    SCMP_SYS(fstat),
    SCMP_SYS(brk),
    SCMP_SYS(munmap),
    SCMP_SYS(mremap),
    SCMP_SYS(madvise),
    SCMP_SYS(futex),
    SCMP_SYS(sched_yield),
    SCMP_SYS(gettid),
    SCMP_SYS(getpid),
    SCMP_SYS(sysinfo),
    SCMP_SYS(uname),
    SCMP_SYS(getcwd),
    SCMP_SYS(getrlimit),
    SCMP_SYS(getrusage),
    SCMP_SYS(times),
    SCMP_SYS(clock_gettime),
    SCMP_SYS(clock_getres),
    SCMP_SYS(clock_nanosleep),
    SCMP_SYS(nanosleep),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(time),
    SCMP_SYS(getrandom),
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(sigaltstack),
    SCMP_SYS(sched_getaffinity),
    SCMP_SYS(set_robust_list),
    SCMP_SYS(rseq),
    SCMP_SYS(restart_syscall),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
};

/// Opening and looking at files by name answers as if nothing existed: what exists and what does not looks the same.
constexpr int kNothingThere[] = {
    SCMP_SYS(open),       SCMP_SYS(openat),     SCMP_SYS(openat2),    SCMP_SYS(creat),  SCMP_SYS(stat),
    SCMP_SYS(lstat),      SCMP_SYS(newfstatat), SCMP_SYS(statx),      SCMP_SYS(access), SCMP_SYS(faccessat),
    SCMP_SYS(faccessat2), SCMP_SYS(readlink),   SCMP_SYS(readlinkat), SCMP_SYS(statfs),
};

class Filter {
 public:
  Filter() : context_(::seccomp_init(SCMP_ACT_ERRNO(EPERM))) {}
  Filter(const Filter&) = delete;
  Filter& operator=(const Filter&) = delete;
  ~Filter() {
    if (context_ != nullptr) ::seccomp_release(context_);
  }

  /// Adds a rule; the first failure sticks.
  template <class... Conditions>
  void rule(uint32_t action, int call, Conditions... conditions) {
    if (error_ == 0) error_ = ::seccomp_rule_add(context_, action, call, sizeof...(conditions), conditions...);
  }
  /// 0, or a negative error number.
  int load() {
    if (context_ == nullptr) return -ENOMEM;
    return error_ != 0 ? error_ : ::seccomp_load(context_);
  }
  bool made() const { return context_ != nullptr; }

 private:
  scmp_filter_ctx context_;
  int error_ = 0;
};

Error refused(const char* call, int code) {
  return Error{ErrorCode::kUnavailable, "cannot seal the compile child on this kernel", call, "", std::strerror(code)};
}

bool lower(__rlimit_resource resource, rlim_t value) {
  const rlimit limit{value, value};
  return ::setrlimit(resource, &limit) == 0;
}

}  // namespace

Result<void> seal_compiler() {
  if (!lower(RLIMIT_FSIZE, 0) || !lower(RLIMIT_CORE, 0) || !lower(RLIMIT_NOFILE, 4)) return refused("setrlimit", errno);

  Filter filter;
  if (!filter.made()) return refused("seccomp_init", ENOMEM);
  for (const int call : kAllowed) filter.rule(SCMP_ACT_ALLOW, call);
  for (const int call : kNothingThere) filter.rule(SCMP_ACT_ERRNO(ENOENT), call);

  constexpr scmp_datum_t kExec = PROT_EXEC;
  filter.rule(SCMP_ACT_ALLOW, SCMP_SYS(mmap), SCMP_A2(SCMP_CMP_MASKED_EQ, kExec, 0));
  filter.rule(SCMP_ACT_ALLOW, SCMP_SYS(mprotect), SCMP_A2(SCMP_CMP_MASKED_EQ, kExec, 0));

  // Threads but no processes. The newer clone3 hides its flags in memory, where a filter cannot look; without it the C
  // library falls back to clone.
  constexpr scmp_datum_t kThread = CLONE_THREAD;
  filter.rule(SCMP_ACT_ALLOW, SCMP_SYS(clone), SCMP_A0(SCMP_CMP_MASKED_EQ, kThread, kThread));
  filter.rule(SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3));

  // NVRTC raises its stack limit around a compilation. Other limits may be read, and not set; other processes' neither.
  filter.rule(SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), SCMP_A0(SCMP_CMP_EQ, 0), SCMP_A1(SCMP_CMP_EQ, RLIMIT_STACK));
  filter.rule(SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), SCMP_A0(SCMP_CMP_EQ, 0), SCMP_A2(SCMP_CMP_EQ, 0));

  // abort() raises its signal in this process only.
  filter.rule(SCMP_ACT_ALLOW, SCMP_SYS(tgkill), SCMP_A0(SCMP_CMP_EQ, static_cast<scmp_datum_t>(::getpid())));

  if (const int code = filter.load(); code != 0) return refused("seccomp_load", -code);
  return {};
}

}  // namespace stepbench
