// Scenarios on a GPU, each in a process of its own: single kernels of hand-written PTX, and whole evaluations without
// the pass on the VM that otherwise comes first. Longer than most files because the table of scenarios and the one
// bench of kernels that they share are in it.
#include "tests/cuda/scenario.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <set>

#include "harness/calibration.h"
#include "harness/measure.h"
#include "harness/own_kernels.h"
#include "harness/stages.h"

namespace stepbench::gpu_test {
namespace {

using Clock = std::chrono::steady_clock;

// poke: stores a word at an address. peek: loads from `from`, stores at `to`. wide: stores the last word of a struct
// that is aligned to 64 bytes. spin: never ends.
constexpr const char* kPtx = R"(.version 7.0
.target sm_70
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.visible .entry poke(.param .u64 to, .param .u32 value)
{
.reg .b32 %r<4>; .reg .b64 %d<4>;
ld.param.u64 %d1, [to];
ld.param.u32 %r1, [value];
st.global.u32 [%d1], %r1;
ret;
}
.visible .entry peek(.param .u64 from, .param .u64 to)
{
.reg .b32 %r<4>; .reg .b64 %d<4>;
ld.param.u64 %d1, [from];
ld.param.u64 %d2, [to];
ld.global.u32 %r1, [%d1];
st.global.u32 [%d2], %r1;
ret;
}
.visible .entry wide(.param .u64 to, .param .align 64 .b8 struct[64])
{
.reg .b32 %r<4>; .reg .b64 %d<4>;
ld.param.u64 %d1, [to];
ld.param.u32 %r1, [struct+60];
st.global.u32 [%d1], %r1;
ret;
}
.visible .entry spin(.param .u64 word)
{
.reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %d<4>;
ld.param.u64 %d1, [word];
AGAIN:
ld.volatile.global.u32 %r1, [%d1];
setp.ne.s32 %p1, %r1, 12345;
@%p1 bra AGAIN;
ret;
}
.visible .entry stop()
{
trap;
}
.visible .entry shared_words(.param .u64 to, .param .u32 offset)
{
.reg .b32 %r<8>; .reg .b64 %d<4>;
ld.param.u64 %d1, [to];
ld.param.u32 %r1, [offset];
mov.u32 %r2, dynamic;
add.s32 %r3, %r2, %r1;
mov.u32 %r4, 77;
st.shared.u32 [%r3], %r4;
ld.shared.u32 %r5, [%r3];
st.global.u32 [%d1], %r5;
ret;
}
)";

void say(const std::string& key, const std::string& value) { fmt::print("{} {}\n", key, value); }

[[noreturn]] void leave(int code) {
  std::fflush(stdout);
  ::_exit(code);
}

/// For what must not fail in a scenario.
void need(const Result<void>& result) {
  if (result.ok()) return;
  say("error", to_text(result.error()));
  leave(1);
}
template <class T>
T need(Result<T> result) {
  if (!result.ok()) {
    say("error", to_text(result.error()));
    leave(1);
  }
  return std::move(result).value();
}

std::string kind_text(FaultKind kind) {
  switch (kind) {
    case FaultKind::kOutOfBounds: return "out_of_bounds";
    case FaultKind::kReadOnlyWrite: return "read_only_write";
    case FaultKind::kMisaligned: return "misaligned";
    case FaultKind::kUninitializedRead: return "uninitialized_read";
    case FaultKind::kRace: return "race";
    case FaultKind::kBarrierDivergence: return "barrier_divergence";
    case FaultKind::kBudget: return "budget";
    case FaultKind::kDeadlock: return "deadlock";
    case FaultKind::kTrap: return "trap";
    case FaultKind::kInvalidLaunch: return "invalid_launch";
    case FaultKind::kUnsupported: return "unsupported";
  }
  return "?";
}

/// A device with the module above and three buffers: `a` and `c` may be written, `b` may not.
struct Bench {
  DeviceSource source = need(device_source("cuda", nullptr));
  std::unique_ptr<Device> device = need(source.open());
  ModuleId module = load();
  BufferId a = need(device->allocate({1000 * 4, 0, false, "a[0]"}));
  BufferId b = need(device->allocate({1000 * 4, 0, true, "b[0]"}));
  BufferId c = need(device->allocate({8, 0, false, "c[0]"}));

  ModuleId load() {
    CompiledModule compiled;
    compiled.ptx = kPtx;
    Judged<ModuleId> loaded = need(device->load(compiled));
    if (!loaded.ok()) {
      say("error", loaded.failure->message + loaded.failure->detail);
      leave(1);
    }
    return *loaded.value;
  }

  /// One launch of one thread and what follows it. `words`: parameters of 8 bytes, but the last of 4 if `last_is_word`.
  void run(const std::string& entry, const std::vector<uint64_t>& words, bool last_is_word,
           const std::function<void(LaunchSpec&)>& adjust = nullptr) {
    std::vector<std::byte> parameters;
    for (size_t i = 0; i < words.size(); ++i) {
      const size_t bytes = last_is_word && i + 1 == words.size() ? 4 : 8;
      parameters.resize(parameters.size() + bytes);
      std::memcpy(parameters.data() + parameters.size() - bytes, &words[i], bytes);
    }
    LaunchSpec spec;
    spec.module = module;
    spec.entry = entry;
    spec.parameters = parameters;
    if (adjust) adjust(spec);
    const Clock::time_point start = Clock::now();
    const LaunchReport report = need(device->launch(spec));
    say("ms", fmt::format("{:.1f}", std::chrono::duration<double, std::milli>(Clock::now() - start).count()));
    std::optional<Fault> fault = report.fault;
    say("found", fault ? "launch" : "");
    if (!fault) {
      fault = need(device->end_of_step());
      if (fault) say("found", "end_of_step");
    }
    say("kind", fault ? kind_text(fault->kind) : "none");
    if (fault) {
      say("message", fault->message);
      say("buffer", fault->buffer);
      say("offset", std::to_string(fault->byte_offset));
    }
    uint32_t value = 0;
    const Result<void> read = device->read(c, 0, std::as_writable_bytes(std::span(&value, 1)));
    say("after", read.ok() ? fmt::format("c holds {}", value) : to_text(read.error()));
  }
};

void poke_at(uint64_t (*where)(Bench&)) {
  Bench bench;
  bench.run("poke", {where(bench), 42}, true);
}

void peek_at(uint64_t (*where)(Bench&)) {
  Bench bench;
  bench.run("peek", {where(bench), bench.device->address(bench.c)}, false);
}

/// Buffers of many sizes, offsets and kinds: what is written is read back, what is poisoned is NaN, and kernels see it.
void round_trip() {
  Bench bench;
  Device& device = *bench.device;
  int checked = 0;
  for (const uint64_t bytes : {0ull, 1ull, 2ull, 4ull, 20ull, 4096ull, 1048579ull, 3ull << 20, (4ull << 20) + 4}) {
    for (const uint32_t offset : {0u, 1u, 2u, 4u, 12u}) {
      for (const bool read_only : {false, true}) {
        const std::string name = fmt::format("{} bytes, offset {}, read only {}", bytes, offset, read_only);
        const BufferId buffer = need(device.allocate({bytes, offset, read_only, name}));
        if (device.address(buffer) % 256 != offset % 256) say("error", "address of " + name);
        need(device.poison(buffer, bytes + offset));
        std::vector<std::byte> out(bytes);
        need(device.read(buffer, 0, out));
        for (uint64_t i = 0; offset % 4 == 0 && i + 4 <= bytes; i += 4) {
          float value = 0;
          std::memcpy(&value, &out[i], 4);
          if (value == value) {
            say("error", "poison is not NaN in " + name);
            break;
          }
        }
        std::vector<std::byte> in(bytes);
        for (uint64_t i = 0; i < bytes; ++i) in[i] = static_cast<std::byte>(i * 131 + offset);
        need(device.write(buffer, 0, in));
        need(device.read(buffer, 0, out));
        if (in != out) say("error", "round trip of " + name);
        if (bytes >= 20) {
          const std::byte part[] = {std::byte{1}, std::byte{2}, std::byte{3}};
          need(device.write(buffer, bytes - 3, part));
          std::byte back[5];
          need(device.read(buffer, bytes - 5, back));
          if (back[2] != part[0] || back[4] != part[2] || back[0] != in[bytes - 5]) say("error", "part of " + name);
        }
        if (need(device.end_of_step())) say("error", "damage without a kernel after " + name);
        if (checked % 3 == 0) device.release(buffer);
        ++checked;
      }
    }
  }
  say("checked", std::to_string(checked));
  bench.run("poke", {device.address(bench.c), 99}, true);
}

/// Thousands of buffers: most share mappings. Reports what they cost, and whether damage between two of them is found.
void many_buffers() {
  Bench bench;
  Device& device = *bench.device;
  for (const int count : {600, 5000}) {
    const Clock::time_point start = Clock::now();
    std::vector<BufferId> buffers;
    for (int i = 0; i < count; ++i)
      buffers.push_back(need(device.allocate({400, 0, i % 4 == 0, fmt::format("many[{}]", i)})));
    const Clock::time_point allocated = Clock::now();
    const std::vector<float> values(100, 1.5f);
    for (const BufferId buffer : buffers) need(device.write(buffer, 0, std::as_bytes(std::span(values))));
    const Clock::time_point written = Clock::now();
    constexpr int kChecks = 20;
    need(device.end_of_step());
    const Clock::time_point first = Clock::now();
    for (int i = 0; i < kChecks; ++i)
      if (need(device.end_of_step())) say("error", "damage where there is none");
    const Clock::time_point checked = Clock::now();
    const auto us = [](Clock::duration time, int times) {
      return fmt::format("{:.1f}", std::chrono::duration<double, std::micro>(time).count() / times);
    };
    say(fmt::format("us_per_allocation_{}", count), us(allocated - start, count));
    say(fmt::format("us_per_write_{}", count), us(written - allocated, count));
    say(fmt::format("us_per_guard_check_{}", count), us(checked - first, kChecks));
    std::vector<float> back(100);
    for (const BufferId buffer : buffers) {
      need(device.read(buffer, 0, std::as_writable_bytes(std::span(back))));
      if (back != values) say("error", "round trip among many");
    }
    const Clock::time_point releasing = Clock::now();
    if (count == 5000) {
      const BufferId last = buffers[4998];  // shares its mapping, and may be written
      bench.run("poke", {device.address(last) + 404, 7}, true);
    }
    for (const BufferId buffer : buffers) device.release(buffer);
    say(fmt::format("us_per_release_{}", count), us(Clock::now() - releasing, count));
  }
}

constexpr int64_t kReusedBytes = 5 << 20;

/// Mappings that had another owner: a device that is gone, then a buffer of the same device. Ends with a store at
/// `offset` of a buffer in one of them.
void reuse(bool read_only, int64_t offset) {
  Bench bench;
  constexpr uint64_t kBytes = kReusedBytes;
  constexpr int kCount = 4;
  constexpr std::byte kStale{0x11};  // no guard pattern
  const std::vector<std::byte> stale(kBytes, kStale);
  const auto place = [&](Device& device, int i) {
    const BufferId buffer = need(device.allocate({kBytes, 0, read_only, fmt::format("x[{}]", i)}));
    std::vector<std::byte> bytes(kBytes);
    need(device.read(buffer, 0, bytes));
    if (std::count(bytes.begin(), bytes.end(), bytes.front()) != static_cast<int64_t>(kBytes) ||
        bytes.front() == kStale)
      say("error", "a new buffer does not hold the pattern alone");
    need(device.poison(buffer, 7));
    need(device.read(buffer, 0, bytes));
    if (std::count(bytes.begin(), bytes.end(), bytes.front()) == static_cast<int64_t>(kBytes))
      say("error", "no poison");  // which has four different bytes or two
    need(device.write(buffer, 0, stale));
    return buffer;
  };
  std::set<uint64_t> before;
  {
    const std::unique_ptr<Device> other = need(bench.source.open());
    for (int i = 0; i < kCount; ++i) before.insert(other->address(place(*other, i)));
  }
  if (before.size() != kCount) say("error", "two buffers at one address");
  std::vector<BufferId> buffers;
  for (int round = 0; round < 2; ++round) {
    for (const BufferId buffer : buffers) bench.device->release(buffer);
    buffers.clear();
    std::set<uint64_t> after;
    for (int i = 0; i < kCount; ++i) {
      buffers.push_back(place(*bench.device, i));
      after.insert(bench.device->address(buffers.back()));
    }
    if (after != before) say("error", "the mappings are others");
    if (need(bench.device->end_of_step())) say("error", "damage without a kernel");
  }
  bench.run("poke", {bench.device->address(buffers[1]) + static_cast<uint64_t>(offset), 42}, true);
}

void bad_ptx() {
  const DeviceSource source = need(device_source("cuda", nullptr));
  const std::unique_ptr<Device> device = need(source.open());
  CompiledModule compiled;
  compiled.ptx =
      ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k()\n{\n.reg .b32 %r<2>;\nadd.s32 %r1, %r1, "
      "%r7;\nret;\n}\n";
  const Judged<ModuleId> loaded = need(device->load(compiled));
  say("kind", loaded.ok() ? "loaded" : std::string(to_text(loaded.failure->verdict)));
  if (!loaded.ok()) say("message", loaded.failure->message);
}

const std::map<std::string, std::function<void()>>& scenarios() {
  static const std::map<std::string, std::function<void()>> table = {
      {"round_trip", round_trip},
      {"many_buffers", many_buffers},
      {"bad_ptx", bad_ptx},
      {"write_inside", [] { poke_at([](Bench& x) { return x.device->address(x.a) + 3996; }); }},
      {"aligned_to_64",
       [] {
         Bench bench;
         std::vector<uint64_t> words(16, 0);  // of parameters: the address, room, and from byte 64 the struct
         words[0] = bench.device->address(bench.c);
         words[15] = uint64_t{77} << 32;
         bench.run("wide", words, false);
       }},
      {"write_just_past_end", [] { poke_at([](Bench& x) { return x.device->address(x.a) + 4000; }); }},
      {"write_4_kib_past_end", [] { poke_at([](Bench& x) { return x.device->address(x.a) + 4000 + 4096; }); }},
      {"read_4_kib_past_end", [] { peek_at([](Bench& x) { return x.device->address(x.a) + 4000 + 4096; }); }},
      {"write_just_before", [] { poke_at([](Bench& x) { return x.device->address(x.a) - 4; }); }},
      {"write_1_mib_before", [] { poke_at([](Bench& x) { return x.device->address(x.a) - (1 << 20); }); }},
      {"write_3_mib_before", [] { poke_at([](Bench& x) { return x.device->address(x.a) - (3 << 20); }); }},
      {"write_far_away", [] { poke_at([](Bench& x) { return x.device->address(x.a) + (uint64_t{1} << 36); }); }},
      {"write_null", [] { poke_at([](Bench&) { return uint64_t{0}; }); }},
      {"write_read_only", [] { poke_at([](Bench& x) { return x.device->address(x.b); }); }},
      {"reused_write_inside", [] { reuse(false, kReusedBytes - 4); }},
      {"reused_write_just_before", [] { reuse(false, -4); }},
      {"reused_write_past_end", [] { reuse(false, kReusedBytes + 4096); }},
      {"reused_write_read_only", [] { reuse(true, 0); }},
      {"read_read_only", [] { peek_at([](Bench& x) { return x.device->address(x.b); }); }},
      {"misaligned", [] { poke_at([](Bench& x) { return x.device->address(x.a) + 2; }); }},
      {"trap", [] { Bench().run("stop", {}, false); }},
      {"hang",
       [] {
         Bench bench;
         bench.device->set_budget(20'000'000);  // 2 s
         need(bench.device->write(bench.c, 0, std::vector<std::byte>(8)));
         bench.run("spin", {bench.device->address(bench.c)}, false);
         say("allocate", to_text(bench.device->allocate({4, 0, false, "late"}).error()));
         say("open", to_text(bench.source.open().error()));
       }},
      {"shared_200_kib",
       [] {
         Bench bench;
         bench.run("shared_words", {bench.device->address(bench.c), (200 << 10) - 4}, true,
                   [](LaunchSpec& spec) { spec.shared_bytes = 200 << 10; });
       }},
      {"shared_past_end",
       [] {
         Bench bench;
         bench.run("shared_words", {bench.device->address(bench.c), 230 << 10}, true,
                   [](LaunchSpec& spec) { spec.shared_bytes = 1024; });
       }},
      {"shared_too_much",
       [] {
         Bench bench;
         bench.run("shared_words", {bench.device->address(bench.c), 0}, true,
                   [](LaunchSpec& spec) { spec.shared_bytes = 228 << 10; });
       }},
      {"cluster_2",
       [] {
         Bench bench;
         bench.run("poke", {bench.device->address(bench.c), 5}, true, [](LaunchSpec& spec) {
           spec.grid = {4, 1, 1};
           spec.cluster = {2, 1, 1};
         });
       }},
      {"cluster_16",
       [] {
         Bench bench;
         bench.run("poke", {bench.device->address(bench.c), 5}, true, [](LaunchSpec& spec) {
           spec.grid = {32, 1, 1};
           spec.cluster = {16, 1, 1};
         });
       }},
      {"cluster_64",
       [] {
         Bench bench;
         bench.run("poke", {bench.device->address(bench.c), 5}, true, [](LaunchSpec& spec) {
           spec.grid = {64, 1, 1};
           spec.cluster = {64, 1, 1};
         });
       }},
      {"too_many_threads",
       [] {
         Bench bench;
         bench.run("poke", {bench.device->address(bench.c), 5}, true, [](LaunchSpec& spec) {
           spec.block = {1025, 1, 1};
         });
       }},
  };
  return table;
}

/// `eval LIST LOCKS`: evaluations in this process, on the GPU without the VM's pass before it. LIST is a file with a
/// line "NAME\tFILE\tTASK" for each; the answers are lines "result NAME\tVERDICT\tWORST\tMESSAGE". Ends when the GPU is
/// lost.
void evaluate_list(const std::string& list, const std::string& locks) {
  // The device that is opened here under another lock keeps the context from one evaluation to the next: making it
  // takes as long as an evaluation.
  ::setenv("STEPBENCH_LOCKS", (locks + "/context").c_str(), 1);
  const std::unique_ptr<Device> keeper = need(open_device("cuda"));
  ::setenv("STEPBENCH_LOCKS", locks.c_str(), 1);
  std::ifstream file(list);
  std::string line;
  while (std::getline(file, line)) {
    const size_t first = line.find('\t'), second = line.find('\t', first + 1);
    const std::string name = line.substr(0, first), path = line.substr(first + 1, second - first - 1),
                      task = line.substr(second + 1);
    const auto answer = [&](std::string_view verdict, double worst, std::string message) {
      std::replace(message.begin(), message.end(), '\n', ' ');
      say("result", fmt::format("{}\t{}\t{:.4f}\t{}", name, verdict, worst, message));
    };
    const Result<Judged<Candidate>> candidate = load_candidate(path, task);
    if (!candidate.ok()) {
      answer("error", 0, to_text(candidate.error()));
      continue;
    }
    if (!candidate.value().ok()) {
      answer(to_text(candidate.value().failure->verdict), 0, candidate.value().failure->message);
      continue;
    }
    EvalOptions options;
    options.device = "cuda";
    options.suite = "smoke";
    options.salt = 1;
    options.threads = 4;
    options.vm_first = false;
    const Result<EvalRecord> record = evaluate(*candidate.value().value, need(load_task(task)), options, nullptr);
    if (!record.ok()) {
      answer("error", 0, to_text(record.error()));
      return;
    }
    double worst = 0;
    for (const CaseReport& report : record.value().cases) worst = std::max(worst, report.worst_error_ratio);
    answer(to_text(record.value().verdict), worst, record.value().failure ? record.value().failure->message : "");
    const Verdict verdict = record.value().verdict;
    // Any of these may have been a fault of the hardware, which ends this process's use of the GPU.
    if (verdict == Verdict::kOutOfBounds || verdict == Verdict::kLaunchError || verdict == Verdict::kTimeout) return;
  }
}

/// `time FILE BASELINE LIST SLOWNESS`: the stage `timing` alone, without admission: what runs is timed and verified.
/// Rates are the GPU's own, divided by SLOWNESS.
void time_one(const std::vector<std::string>& arguments) {
  const TaskSpec task = need(load_task("adamw"));
  const DeviceSource source = need(device_source("cuda", nullptr));
  CompileOptions options;
  options.arch = source.info.arch;
  const CompiledModule own = need(compile_own_kernels(options));
  const OpenDevice open = [&]() -> Result<std::unique_ptr<Device>> {
    Result<std::unique_ptr<Device>> device = source.open();
    if (device.ok())
      if (const Result<void> done = device.value()->use_own_kernels(own); !done.ok()) return done.error();
    return device;
  };
  struct Compiled {
    Candidate candidate;
    CompiledModule module;
  };
  const auto compiled = [&](const std::string& path) {
    Judged<Candidate> candidate = need(load_candidate(path, task.id));
    Judged<CompiledModule> module = need(compile(*candidate.value, task, options));
    return Compiled{std::move(*candidate.value), std::move(*module.value)};
  };
  const Compiled candidate = compiled(arguments.at(1)), baseline = compiled(arguments.at(2));
  const auto context = [&](const Compiled& one) {
    CheckContext its{task, one.candidate, one.module, open, 7, 8, "", nullptr};
    its.one_at_a_time = true;
    return its;
  };
  Environment environment;
  source.describe(environment);
  Calibration calibration = need(calibration_of(source, environment.gpu_uuid, own, false));
  const double slowness = std::stod(arguments.at(4));
  calibration.read_bytes_per_s /= slowness;
  calibration.copy_bytes_per_s /= slowness;
  const TimedKernel candidate_kernel{"candidate", context(candidate)}, baseline_kernel{"baseline", context(baseline)};
  const MeasureOutcome outcome = need(measure(candidate_kernel, std::span(&baseline_kernel, 1),
                                              {arguments.at(3), false}, calibration, MeasureRule{}, source.info));
  say("verdict", outcome.failure ? std::string(to_text(outcome.failure->verdict)) : "passed");
  if (outcome.failure) say("message", outcome.failure->message);
  for (const std::string& text : outcome.notes) say("note", text);
  if (!outcome.report) return;
  const TimingReport& report = *outcome.report;
  say("word", std::string(to_text(report.word)));
  say("speedup", fmt::format("{:.4f} {:.4f} {:.4f}", report.speedup, report.speedup_low, report.speedup_high));
  say("verified", fmt::format("{}", report.verified_steps));
}

/// `rates`: a calibration, and the number of multiprocessors.
void measure_rates() {
  const DeviceSource source = need(device_source("cuda", nullptr));
  CompileOptions options;
  options.arch = source.info.arch;
  const CompiledModule own = need(compile_own_kernels(options));
  const Calibration rates = need(source.calibrate(own));
  say("multiprocessors", std::to_string(source.info.sms));
  say("fp32", fmt::format("{} {}", rates.fp32_flops_per_s, rates.fp32_sm_mhz));
  say("tensor", fmt::format("{} {}", rates.tensor_flops_per_s, rates.tensor_sm_mhz));
  say("highest", fmt::format("{}", rates.highest_sm_mhz));
}

/// `generate`: values made on the GPU against the host's, for every type and odd sizes.
void generate_all() {
  const DeviceSource source = need(device_source("cuda", nullptr));
  CompileOptions options;
  options.arch = source.info.arch;
  const CompiledModule own = need(compile_own_kernels(options));
  const std::unique_ptr<Device> device = need(source.open());
  if (const Result<void> done = device->use_own_kernels(own); !done.ok()) say("error", to_text(done.error()));
  int compared = 0, different = 0;
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16})
    for (const int64_t count : {int64_t{1}, int64_t{2}, int64_t{255}, int64_t{4097}, int64_t{3000001}})
      for (const bool squared : {false, true})
        for (const float amplitude : {1.0f, 0.01f, 3e-5f}) {
          const GenerateSpec spec{dtype, derive_seed(11, "test", static_cast<uint64_t>(count)), amplitude, squared,
                                  count};
          const uint64_t bytes = static_cast<uint64_t>(count) * dtype_bytes(dtype);
          const BufferId buffer = need(device->allocate({bytes, 0, compared % 2 == 0, "x"}));
          std::vector<std::byte> got(bytes);
          Result<void> done = device->generate(buffer, spec);
          if (done.ok()) done = device->read(buffer, 0, got);
          if (!done.ok()) say("error", to_text(done.error()));
          ++compared;
          if (got != generated_values(spec, 0, count)) ++different;
          device->release(buffer);
        }
  say("compared", std::to_string(compared));
  say("different", std::to_string(different));
  // Whole lists by one launch, the second longer than the first and over the same buffers in part.
  std::vector<GenerateRequest> requests;
  compared = different = 0;
  for (const size_t tensors : {size_t{40}, size_t{3000}}) {
    for (size_t i = requests.size(); i < tensors; ++i) {
      const DType dtype = i % 3 == 0 ? DType::kF32 : i % 3 == 1 ? DType::kBf16 : DType::kF16;
      const int64_t count = i % 100 == 7 ? 1'000'003 : static_cast<int64_t>(i * 37 % 40'000);
      const auto bytes = static_cast<uint64_t>(count) * dtype_bytes(dtype);
      const BufferId buffer = need(device->allocate({bytes, 4 * static_cast<uint32_t>(i % 5), i % 4 == 0, "y"}));
      requests.push_back({buffer, {dtype, 0, i % 2 == 0 ? 1.0f : 0.01f, i % 7 == 0, count}});
    }
    for (size_t i = 0; i < requests.size(); ++i) requests[i].spec.seed = derive_seed(tensors, "list", i);
    need(device->generate_all(requests));
    for (const GenerateRequest& one : requests) {
      const std::vector<std::byte> expected = generated_values(one.spec, 0, one.spec.count);
      std::vector<std::byte> got(expected.size());
      need(device->read(one.buffer, 0, got));
      ++compared;
      different += got != expected;
    }
    if (need(device->end_of_step())) say("error", "values beside a buffer");
  }
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < 100; ++i) need(device->generate_all(requests));
  need(device->end_of_step());
  say("us_per_3000_generated",
      fmt::format("{:.0f}", std::chrono::duration<double, std::micro>(Clock::now() - start).count() / 100));
  say("compared_in_lists", std::to_string(compared));
  say("different_in_lists", std::to_string(different));
}

/// `copies`: ragged ranges of many sizes written at one go, read back one by one and at one go, then parts of them.
/// Without own kernels every piece is a copy of its own, with them small ones share a launch: `with_kernels`.
void copy_many(bool with_kernels) {
  const DeviceSource source = need(device_source("cuda", nullptr));
  const std::unique_ptr<Device> device = need(source.open());
  if (with_kernels) {
    CompileOptions options;
    options.arch = source.info.arch;
    need(device->use_own_kernels(need(compile_own_kernels(options))));
  }
  struct Held {
    BufferId buffer;
    std::vector<std::byte> bytes;
  };
  std::vector<Held> held;
  const auto hold = [&](uint64_t bytes, uint32_t offset, bool read_only) {
    Held one{need(device->allocate({bytes, offset, read_only, fmt::format("x[{}]", held.size())})), {}};
    one.bytes.resize(bytes);
    uint64_t state = derive_seed(5, "copies", held.size());
    for (std::byte& byte : one.bytes) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      byte = static_cast<std::byte>(state >> 56);
    }
    held.push_back(std::move(one));
  };
  constexpr uint64_t kMiB = 1 << 20;
  for (const uint64_t bytes :
       {uint64_t{0}, uint64_t{1}, uint64_t{2}, uint64_t{15}, uint64_t{16}, uint64_t{4097}, uint64_t{65535},
        uint64_t{65536}, uint64_t{65537}, kMiB, 8 * kMiB - 16, 8 * kMiB, 8 * kMiB + 2, 17 * kMiB + 6, 40 * kMiB})
    for (const uint32_t offset : {0u, 2u, 5u})
      if (bytes < 16 * kMiB || offset != 2) hold(bytes, offset, offset == 5);
  for (uint64_t i = 0; i < 3000; ++i) hold(4 * (i % 97), 4 * static_cast<uint32_t>(i % 3), i % 2 == 0);
  int different = 0;
  uint64_t total = 0;
  std::vector<WriteRequest> writes;
  for (const Held& one : held) {
    writes.push_back({one.buffer, 0, one.bytes});
    total += one.bytes.size();
  }
  need(device->write_all(writes));
  for (const Held& one : held) {
    std::vector<std::byte> got(one.bytes.size());
    need(device->read(one.buffer, 0, got));
    different += got != one.bytes;
  }
  say("different_written", std::to_string(different));
  std::vector<std::vector<std::byte>> space;
  for (const Held& one : held) space.emplace_back(one.bytes.size());
  std::vector<ReadRequest> reads;
  for (size_t i = 0; i < held.size(); ++i) reads.push_back({held[i].buffer, 0, space[i]});
  need(device->read_all(reads));  // makes the page-locked memory
  for (std::vector<std::byte>& bytes : space) std::fill(bytes.begin(), bytes.end(), std::byte{0});
  const Clock::time_point start = Clock::now();
  need(device->read_all(reads));
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  different = 0;
  for (size_t i = 0; i < held.size(); ++i) different += space[i] != held[i].bytes;
  say("different_read", std::to_string(different));
  say("read_gb_per_s", fmt::format("{:.2f}", static_cast<double>(total) / seconds / 1e9));
  // Parts, from odd places to odd places; what lies beside them stays.
  different = 0;
  writes.clear();
  std::vector<std::byte> values(3 * kMiB + 7);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::byte>(i * 7);
  for (Held& one : held) {
    if (one.bytes.size() < 16) continue;
    const uint64_t from = one.bytes.size() / 3, bytes = std::min<uint64_t>(one.bytes.size() / 2, values.size());
    writes.push_back({one.buffer, from, std::span(values).first(bytes)});
    std::copy_n(values.begin(), bytes, one.bytes.begin() + static_cast<int64_t>(from));
  }
  need(device->write_all(writes));
  reads.clear();
  for (size_t i = 0; i < held.size(); ++i) {
    std::fill(space[i].begin(), space[i].end(), std::byte{0});
    const size_t half = space[i].size() / 2;
    reads.push_back({held[i].buffer, half, std::span(space[i]).subspan(half)});
    reads.push_back({held[i].buffer, 0, std::span(space[i]).first(half)});
  }
  need(device->read_all(reads));
  for (size_t i = 0; i < held.size(); ++i) different += space[i] != held[i].bytes;
  say("different_parts", std::to_string(different));
  say("damage", need(device->end_of_step()) ? "found" : "none");
  // Small lists, as checks have them.
  const auto few = std::span(reads).last(900);
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < 20; ++i) need(device->read_all(few));
  const double us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  say("us_per_900_small_reads", fmt::format("{:.0f}", us / 20));
}

}  // namespace

std::string Outcome::get(const std::string& key) const {
  std::string value;
  size_t at = 0;
  while (at < child.out.size()) {  // the last line of a key counts
    const size_t end = std::min(child.out.find('\n', at), child.out.size());
    const std::string line = child.out.substr(at, end - at);
    if (line.rfind(key + " ", 0) == 0) value = line.substr(key.size() + 1);
    at = end + 1;
  }
  return value;
}

Outcome run_in_child(const std::vector<std::string>& arguments, double wall_limit_s) {
  ChildSpec spec;
  spec.argv = {"/proc/self/exe", "__gpu"};
  spec.argv.insert(spec.argv.end(), arguments.begin(), arguments.end());
  spec.wall_limit_s = wall_limit_s;
  for (const char* name : {"HOME", "PATH", "LD_LIBRARY_PATH", "CUDA_HOME", "STEPBENCH_ROOT", "STEPBENCH_NVRTC",
                           "STEPBENCH_CUBLASLT", "XDG_CACHE_HOME", "CUDA_VISIBLE_DEVICES"})
    if (const char* value = std::getenv(name)) spec.environment.push_back(std::string(name) + "=" + value);
  Result<ChildResult> result = run_child(spec);
  Outcome outcome;
  if (result.ok())
    outcome.child = std::move(result.value());
  else
    outcome.child.out = "error " + to_text(result.error()) + "\n";
  return outcome;
}

void scenario_main(const std::vector<std::string>& arguments) {
  become_child();
  const std::string name = arguments.empty() ? "" : arguments[0];
  if (name == "eval" && arguments.size() == 3) {
    evaluate_list(arguments[1], arguments[2]);
    leave(0);
  }
  if (name == "time" && arguments.size() == 5) {
    time_one(arguments);
    leave(0);
  }
  if (name == "rates") {
    measure_rates();
    leave(0);
  }
  if (name == "generate") {
    generate_all();
    leave(0);
  }
  if (name == "copies" && arguments.size() == 2) {
    copy_many(arguments[1] == "kernels");
    leave(0);
  }
  if (name == "gemm") {
    multiply_matrices();
    leave(0);
  }
  if (name == "tensor_map" && arguments.size() == 2) {
    use_tensor_maps(arguments[1]);
    leave(0);
  }
  const auto found = scenarios().find(name);
  if (found == scenarios().end()) leave(2);
  found->second();
  leave(0);
}

}  // namespace stepbench::gpu_test
