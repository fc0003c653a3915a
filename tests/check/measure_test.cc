// Lists of real size and timed trajectories, on the VM: with small limits, and with a clock that the test sets. What a
// real clock says is tests/cuda/timing_test.cc's.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <numeric>

#include "harness/measure.h"
#include "tests/check/real_kernels.h"

using namespace stepbench;
using namespace stepbench::testing;

namespace {

/// A step of AdamW per element; `before` stands in front of it. `n`, `i` and the Hyper `h` are there.
std::string candidate_with(const std::string& before) {
  return "/*stepbench\n"
         "{\"task\": \"adamw\", \"launches\": [{\"for\": \"tensor\", \"kernel\": \"step\", \"grid\": \"ceil_div(n, "
         "128)\",\n"
         "  \"block\": \"128\", \"args\": [\"param\", \"grad\", \"exp_avg\", \"exp_avg_sq\", \"n\", \"hyper\"]}]}\n"
         "*/\n"
         "#include <stepbench.cuh>\n"
         "extern \"C\" __global__ void step(float* p, const float* g, float* m, float* v, long long n,\n"
         "                                const Hyper* hyper) {\n"
         "  const Hyper h = *hyper;\n"
         "  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
         "  if (i >= n || h.found_inf != 0) return;\n" +
         before +
         "\n  const float x = g[i] / h.grad_scale;\n"
         "  const float mi = h.beta1 * m[i] + (1.0f - h.beta1) * x;\n"
         "  const float vi = h.beta2 * v[i] + (1.0f - h.beta2) * x * x;\n"
         "  const float u = mi / h.bias_correction1 / (sqrtf(vi / h.bias_correction2) + h.eps) + h.weight_decay * "
         "p[i];\n"
         "  p[i] -= h.lr * u; m[i] = mi; v[i] = vi;\n}\n";
}

/// The VM with a clock: every step takes what `time_ns` says for the launches' first kernel argument order, see below.
struct Clock {
  /// Time of the step that `launch` belongs to; `calls` counts the steps timed so far on this device.
  std::function<TimedReport(ModuleId module, int calls)> step;
  int calls = 0;
};

class ClockedVm final : public Device {
 public:
  explicit ClockedVm(Clock* clock) : vm_(std::move(open_device("vm").value())), clock_(clock) {}
  DeviceInfo info() const override {
    DeviceInfo info = vm_->info();
    info.has_clock = true;
    info.memory_bytes = uint64_t{1} << 30;
    return info;
  }
  Result<Judged<ModuleId>> load(const CompiledModule& module) override { return vm_->load(module); }
  void unload(ModuleId module) override { vm_->unload(module); }
  Result<KernelInfo> kernel(ModuleId module, const std::string& entry) override { return vm_->kernel(module, entry); }
  Result<BufferId> allocate(const AllocationSpec& spec) override { return vm_->allocate(spec); }
  void release(BufferId buffer) override { vm_->release(buffer); }
  uint64_t address(BufferId buffer) const override { return vm_->address(buffer); }
  Result<void> write(BufferId buffer, uint64_t offset_bytes, std::span<const std::byte> bytes) override {
    return vm_->write(buffer, offset_bytes, bytes);
  }
  Result<void> read(BufferId buffer, uint64_t offset_bytes, std::span<std::byte> bytes) override {
    return vm_->read(buffer, offset_bytes, bytes);
  }
  Result<void> poison(BufferId buffer, uint64_t seed) override { return vm_->poison(buffer, seed); }
  Result<LaunchReport> launch(const LaunchSpec& spec) override { return vm_->launch(spec); }
  void set_budget(uint64_t units) override { vm_->set_budget(units); }
  Result<TimedReport> time_step(std::span<const LaunchSpec> launches) override {
    TimedReport report = clock_->step(launches.front().module, clock_->calls++);
    report.launches = launches.size();
    for (const LaunchSpec& spec : launches) {
      Result<LaunchReport> launched = vm_->launch(spec);
      if (!launched.ok()) return launched.error();
      report.fault = launched.value().fault;
      if (report.fault) break;
    }
    return report;
  }

 private:
  std::unique_ptr<Device> vm_;
  Clock* clock_;
};

struct Compiled {
  Candidate candidate;
  CompiledModule module;
};

Compiled compiled(const std::string& source) {
  const Result<Judged<Candidate>> candidate = parse_candidate("a.cu", source, "", false, "adamw");
  REQUIRE(candidate.ok());
  REQUIRE(candidate.value().ok());
  const TaskSpec task = load_task("adamw").value();
  const Result<Judged<CompiledModule>> module = compile(*candidate.value().value, task, CompileOptions{});
  REQUIRE(module.ok());
  REQUIRE(module.value().ok());
  return {*candidate.value().value, *module.value().value};
}

const TaskSpec& adamw() {
  static const TaskSpec task = load_task("adamw").value();
  return task;
}

CheckContext context_of(const Compiled& one, Clock* clock) {
  const OpenDevice open = [clock]() -> Result<std::unique_ptr<Device>> {
    return std::unique_ptr<Device>(new ClockedVm(clock));
  };
  return CheckContext{adamw(), one.candidate, one.module, open, 5, 2, "", nullptr};
}

constexpr double kRate = 4e12;
Calibration rates() { return {"GPU-test", "2025-01-01T00:00:00Z", kRate, kRate, 2000, 0}; }

/// Jitter of a few tenths of a percent that repeats on every machine.
double jitter(int calls) {
  return 1 +
         0.002 * (static_cast<double>(derive_seed(3, "jitter", static_cast<uint64_t>(calls)) >> 11) * 0x1p-53 - 0.5);
}

TimedReport at_ns(double ns, double mhz = 1980) { return {std::nullopt, 0, ns, ns + 3000, mhz, false}; }

MeasureRule small_rule() {
  MeasureRule rule;
  rule.min_pairs = 40;
  rule.max_pairs = 40;
  rule.selection_samples = 3;
  rule.audit_elements = 4096;
  return rule;
}

}  // namespace

TEST_CASE("windows cover what they promise") {
  const std::vector<TensorShape> tensors = {make_shape({0}), make_shape({5}), make_shape({600001}), make_shape({0}),
                                            make_shape({4096})};
  int64_t covered = 0;
  for (const Window& window : all_windows(tensors)) {
    CHECK(window.first % kWindowElements == 0);
    CHECK(window.count >= 1);
    CHECK(window.count <= kWindowElements);
    covered += window.count;
  }
  CHECK(covered == 5 + 600001 + 4096);

  for (const int64_t elements : {int64_t{0}, int64_t{10000}, int64_t{10'000'000}}) {
    const std::vector<Window> audit = audit_windows(tensors, elements, 9);
    std::vector<std::vector<char>> seen(tensors.size());
    for (size_t t = 0; t < tensors.size(); ++t) seen[t].resize(static_cast<size_t>(tensors[t].n));
    for (const Window& window : audit) {
      REQUIRE(window.first + window.count <= tensors[static_cast<size_t>(window.tensor)].n);
      for (int64_t i = window.first; i < window.first + window.count; ++i) {
        char& mark = seen[static_cast<size_t>(window.tensor)][static_cast<size_t>(i)];
        CHECK(mark == 0);  // none twice
        mark = 1;
      }
    }
    for (const size_t t : {size_t{1}, size_t{2}, size_t{4}}) {
      INFO("tensor " << t);
      for (size_t k = 0; k < std::min<size_t>(256, seen[t].size()); ++k) {
        CHECK(seen[t][k] == 1);
        CHECK(seen[t][seen[t].size() - 1 - k] == 1);
      }
    }
    int64_t marked = 0;
    for (const std::vector<char>& tensor : seen) marked += std::accumulate(tensor.begin(), tensor.end(), int64_t{0});
    CHECK(marked >= std::min<int64_t>(elements, 600001) * 6 / 10);  // random windows may coincide
  }
}

TEST_CASE("data for lists of real size are valid states: a skipped step leaves them and is right") {
  for (const std::string& id : list_tasks().value()) {
    const TaskSpec task = load_task(id).value();
    const auto has_skip = std::any_of(task.hyper.begin(), task.hyper.end(),
                                      [](const HyperField& field) { return field.draw == "found_inf"; });
    const std::vector<TensorShape> tensors = {make_shape({97, 61}), make_shape({70001})};
    const bool matrices = task.family == "matrix";
    const std::span<const TensorShape> list = std::span(tensors).first(matrices ? 1 : 2);
    const std::vector<Window> windows = judged_in_parts(task) ? all_windows(list) : whole_tensors(list);
    const LargeData data{derive_seed(3, id)};
    BufferBytes bytes;
    for (const Role role : {Role::kInOut, Role::kIn}) generate_windows(task, list, role, windows, data, 0, 2, bytes);
    INFO(id);
    for (size_t b = 0; b < task.buffers.size(); ++b) {
      int64_t not_finite = 0;
      for (const Bytes& part : bytes[b])
        for (const double value : to_double(task.buffers[b].dtype, part)) not_finite += !std::isfinite(value);
      INFO(task.buffers[b].name);
      CHECK(not_finite == 0);
    }
    if (!has_skip) continue;
    const HyperTrajectory trajectory = draw_hyper(task, "gaussian", 7).value();
    const HyperValues skip = hyper_at(trajectory, 10, false, true).value();
    const Result<StepJudgement> judged =
        judge_windows(task, list, windows, skip, list_totals(task, list, skip, data, 0, 2).value(), bytes, bytes, 2);
    REQUIRE(judged.ok());
    CHECK(judged.value().elements_checked > 5000);
    INFO((judged.value().failure ? judged.value().failure->message : ""));
    CHECK_FALSE(judged.value().failure.has_value());
  }
}

TEST_CASE("lists of real size: right kernels pass and wrong ones are found, in full or by audit") {
  Clock clock;
  const struct {
    const char* name;
    const char* before;
    int64_t every_element_limit;
    const char* message;  // empty: passes
  } rows[] = {
      {"right, every element", "", int64_t{1} << 25, ""},
      {"right, audited", "", 1000, ""},
      {"leaves the end out", "if (i == n - 1 && n > 7) return;", int64_t{1} << 25, "tensor 1 element 300000"},
      {"leaves one element out", "if (i == 123457) return;", 1000, "tensor 1 element 123457"},
      {"leaves the end out, at later steps", "if (i == n - 1 && h.step > 10) return;", 1000, "element"},
      {"skips every other step", "if (h.step % 2 == 1) return;", 1000, "tensor 0 element 0"},
  };
  for (const auto& row : rows) {
    DYNAMIC_SECTION(row.name) {
      const Compiled one = compiled(candidate_with(row.before));
      LargeRule rule;
      rule.every_element_limit = row.every_element_limit;
      rule.audit_elements = 8192;
      DeviceInfo info;
      info.memory_bytes = uint64_t{1} << 30;
      const std::vector<LargeSpec> specs = {{"[7,300001,0]", 3}};
      const Result<CheckOutcome> outcome = check_large(context_of(one, &clock), specs, rule, info);
      REQUIRE(outcome.ok());
      if (outcome.value().failure) UNSCOPED_INFO(outcome.value().failure->message);
      CHECK(outcome.value().failure.has_value() == (*row.message != 0));
      if (!outcome.value().failure) {
        const int64_t all = 3 * 300008;  // three states
        CHECK(outcome.value().reports.at(0).elements_checked >= all);
        if (row.every_element_limit > 300008) CHECK(outcome.value().reports.at(0).elements_checked == 3 * all);
      } else {
        CHECK(outcome.value().failure->verdict == Verdict::kWrongResult);
        CHECK(outcome.value().failure->check == "large");
        CHECK_THAT(outcome.value().failure->message, Catch::Contains(row.message));
      }
    }
  }
}

TEST_CASE("a list that does not fit the device is left out and named") {
  Clock clock;
  const Compiled one = compiled(candidate_with(""));
  DeviceInfo info;
  info.memory_bytes = 1000;
  const std::vector<LargeSpec> specs = {{"[100]", 1}};
  const Result<CheckOutcome> outcome = check_large(context_of(one, &clock), specs, LargeRule{}, info);
  REQUIRE(outcome.ok());
  CHECK(outcome.value().reports.empty());
  REQUIRE(outcome.value().notes.size() == 1);
  CHECK_THAT(outcome.value().notes[0], Catch::Contains("[100] was left out"));
}

TEST_CASE("what the clock says becomes a word, pairs and a verdict") {
  const Compiled right = compiled(candidate_with(""));
  const Compiled skips = compiled(candidate_with("if (n > 30000 && h.step % 3 == 1) return;"));
  // The candidate is loaded first on every device, so its module has the smaller number.
  const auto ratio = [](double candidate_ratio) {
    return [candidate_ratio](ModuleId module, int calls) {
      return at_ns((module.value == 1 ? candidate_ratio : 1.0) * 100'000 * jitter(calls));
    };
  };
  const struct {
    const char* name;
    const Compiled* candidate;
    std::function<TimedReport(ModuleId, int)> step;
    Verdict verdict;
    SpeedWord word;
    const char* note;
  } rows[] = {
      {"the same", &right, ratio(1.0), Verdict::kPassed, SpeedWord::kSame, ""},
      {"two percent slower", &right, ratio(1.02), Verdict::kPassed, SpeedWord::kSlower, ""},
      {"two percent faster", &right, ratio(0.98), Verdict::kPassed, SpeedWord::kFaster, ""},
      {"wrong in some steps", &skips, ratio(0.5), Verdict::kWrongResult, SpeedWord::kSame, ""},
      {"faster than memory", &right, ratio(0.0002), Verdict::kImpossibleTime, SpeedWord::kFaster, ""},
      {"clocks that disagree", &right,
       [](ModuleId module, int calls) {
         TimedReport report = at_ns(100'000 * jitter(calls));
         if (module.value == 1) report.event_ns /= 2;  // events that were tampered with
         return report;
       },
       Verdict::kPassed, SpeedWord::kUndecided, "40 of 40 pairs dropped (the two clocks disagree)"},
      {"a clock that falls", &right,
       [](ModuleId module, int calls) { return at_ns(100'000 * jitter(calls), module.value == 1 ? 1500 : 1980); },
       Verdict::kPassed, SpeedWord::kUndecided, "the SM clocks differ"},
  };
  for (const auto& row : rows) {
    DYNAMIC_SECTION(row.name) {
      Clock clock;
      clock.step = row.step;
      const TimedKernel candidate{"candidate", context_of(*row.candidate, &clock)};
      const TimedKernel baseline{"baseline", context_of(right, &clock)};
      DeviceInfo info;
      info.memory_bytes = uint64_t{1} << 30;
      const Result<MeasureOutcome> outcome =
          measure(candidate, std::span(&baseline, 1), {"[33001,7]", false}, rates(), small_rule(), info);
      REQUIRE(outcome.ok());
      const MeasureOutcome& measured = outcome.value();
      if (measured.failure) UNSCOPED_INFO(measured.failure->message);
      CHECK((measured.failure ? measured.failure->verdict : Verdict::kPassed) == row.verdict);
      for (const std::string& note : measured.notes) UNSCOPED_INFO(note);
      const bool noted = std::any_of(measured.notes.begin(), measured.notes.end(),
                                     [&](const std::string& note) { return note.find(row.note) != std::string::npos; });
      CHECK((*row.note == 0 || noted));
      if (row.verdict == Verdict::kWrongResult) {
        CHECK(measured.failure->check == "timing");
        CHECK_FALSE(measured.report.has_value());
        continue;
      }
      REQUIRE(measured.report.has_value());
      const TimingReport& report = *measured.report;
      CHECK(report.word == row.word);
      CHECK(report.pairs.size() == 40);
      CHECK(report.params == 33008);
      CHECK(report.verified_steps >= 3);
      CHECK(report.floor_ns == Approx(28 * 33008 / kRate * 1e9));
      size_t candidate_first = 0;
      for (const TimingPair& pair : report.pairs) candidate_first += pair.candidate_first ? 1 : 0;
      CHECK(candidate_first == 20);  // ABBA: each block has one of either order
    }
  }
}

TEST_CASE("the fastest baseline is the one to beat, and its faults are not the candidate's") {
  const Compiled right = compiled(candidate_with(""));
  const Compiled wrong = compiled(candidate_with("if (n > 30000) return;"));
  Clock clock;
  clock.step = [](ModuleId module, int calls) {  // 1 the candidate, then the baselines in order
    const double ns[] = {0, 100'000, 120'000, 90'000, 110'000};
    return at_ns(ns[std::min<uint32_t>(module.value, 4)] * jitter(calls));
  };
  DeviceInfo info;
  info.memory_bytes = uint64_t{1} << 30;
  const TimedKernel candidate{"candidate", context_of(right, &clock)};
  const std::vector<TimedKernel> three = {
      {"a", context_of(right, &clock)}, {"b", context_of(right, &clock)}, {"c", context_of(right, &clock)}};
  const Result<MeasureOutcome> outcome = measure(candidate, three, {"[33001]", false}, rates(), small_rule(), info);
  REQUIRE(outcome.ok());
  REQUIRE(outcome.value().report.has_value());
  CHECK(outcome.value().report->baseline == "b");
  CHECK(outcome.value().report->word == SpeedWord::kSlower);
  CHECK(outcome.value().report->speedup == Approx(0.9).epsilon(0.002));

  const std::vector<TimedKernel> bad = {{"wrong one", context_of(wrong, &clock)}};
  const Result<MeasureOutcome> error = measure(candidate, bad, {"[33001]", false}, rates(), small_rule(), info);
  REQUIRE_FALSE(error.ok());
  CHECK_THAT(error.error().message, Catch::Contains("baseline wrong one failed"));
}

TEST_CASE("a hopeless baseline is not sampled to the end, one slow first step does not make it so") {
  const Compiled right = compiled(candidate_with(""));
  Clock clock;
  std::map<uint32_t, int> runs;
  clock.step = [&](ModuleId module, int calls) {  // 1 the candidate, then the baselines in order
    const int run = runs[module.value]++;
    const double ns[] = {0, 100'000, 3e9, 120'000, 250'000, 90'000, 190'000};
    return at_ns((module.value == 5 && run == 0 ? 5 : 1) * ns[std::min<uint32_t>(module.value, 6)] * jitter(calls));
  };
  DeviceInfo info;
  info.memory_bytes = uint64_t{1} << 30;
  const TimedKernel candidate{"candidate", context_of(right, &clock)};
  const std::vector<TimedKernel> five = {{"seconds, and the first in order", context_of(right, &clock)},
                                         {"a", context_of(right, &clock)},
                                         {"twice as slow as a", context_of(right, &clock)},
                                         {"cold at first", context_of(right, &clock)},
                                         {"twice as slow as the one before", context_of(right, &clock)}};
  const MeasureRule rule = small_rule();
  const Result<MeasureOutcome> outcome = measure(candidate, five, {"[33001]", false}, rates(), rule, info);
  REQUIRE(outcome.ok());
  REQUIRE(outcome.value().report.has_value());
  CHECK(outcome.value().report->baseline == "cold at first");
  const int all = rule.warm_ups + rule.selection_samples;
  CHECK(runs[2] == 2);
  CHECK(runs[3] == all);
  CHECK(runs[4] == 2);
  CHECK(runs[5] == all + rule.warm_ups + 40);
  CHECK(runs[6] == 2);
}

TEST_CASE("a candidate several times slower gets fewer pairs, one that is slow at first does not") {
  const Compiled right = compiled(candidate_with(""));
  const struct {
    const char* name;
    double first_ns, later_ns;
    size_t pairs;
    SpeedWord word;
  } rows[] = {
      {"a second", 1e9, 1e9, 12, SpeedWord::kSlower},
      {"50 ms: target_ms holds 17 of them", 50e6, 50e6, 16, SpeedWord::kSlower},
      {"five times, but fast: all", 500'000, 500'000, 40, SpeedWord::kSlower},
      {"a second at first", 1e9, 100'000, 40, SpeedWord::kSame},
      {"three times", 300'000, 300'000, 40, SpeedWord::kSlower},
  };
  for (const auto& row : rows) {
    DYNAMIC_SECTION(row.name) {
      Clock clock;
      int own_runs = 0;
      clock.step = [&](ModuleId module, int calls) {
        const double ns = module.value != 1 ? 100'000 : own_runs++ == 0 ? row.first_ns : row.later_ns;
        return at_ns(ns * jitter(calls));
      };
      DeviceInfo info;
      info.memory_bytes = uint64_t{1} << 30;
      const TimedKernel candidate{"candidate", context_of(right, &clock)};
      const std::vector<TimedKernel> baseline = {{"baseline", context_of(right, &clock)}};
      const Result<MeasureOutcome> outcome =
          measure(candidate, baseline, {"[33001]", false}, rates(), small_rule(), info);
      REQUIRE(outcome.ok());
      REQUIRE(outcome.value().report.has_value());
      CHECK(outcome.value().report->pairs.size() == row.pairs);
      CHECK(outcome.value().report->word == row.word);
    }
  }
}

TEST_CASE("hidden lists vary their dimensions by the salt, equal ones alike") {
  const TimingSpec spec{"[[1000,64],[64],[1000,64],[1]]", true};
  const std::vector<TensorShape> plain = timed_tensors({spec.list, false}, 1).value();
  const std::vector<TensorShape> one = timed_tensors(spec, 1).value(), again = timed_tensors(spec, 1).value(),
                                 two = timed_tensors(spec, 2).value();
  REQUIRE(one.size() == 4);
  CHECK(one[0].dims == one[2].dims);
  CHECK(one[0].dims[1] == one[1].dims[0]);
  CHECK(one[3].dims == plain[3].dims);
  CHECK(one[0].dims == again[0].dims);
  CHECK(one[0].dims != two[0].dims);
  for (size_t k = 0; k < 2; ++k) {
    CHECK(std::fabs(static_cast<double>(one[0].dims[k]) / static_cast<double>(plain[0].dims[k]) - 1) <= 0.11);
  }
}

TEST_CASE("a time that the arithmetic does not allow is impossible") {
  const Compiled adamw_kernel = compiled(candidate_with(""));
  // Four products with 48 x 64 matrices: 9 * 3,072 * 112 = 3,096,576 passes, 49/64 of them 2,370,816.
  const TaskSpec soap = load_task("soap_fixed_basis").value();
  const std::string path = std::string(STEPBENCH_TEST_FOLDER) + "/../reference_kernels/soap_fixed_basis/naive.cu";
  const Result<Judged<Candidate>> loaded = load_candidate(path, soap.id);
  REQUIRE(loaded.ok());
  const Result<Judged<CompiledModule>> module = compile(*loaded.value().value, soap, CompileOptions{});
  REQUIRE(module.ok());
  REQUIRE(module.value().ok());
  const Compiled soap_kernel{*loaded.value().value, *module.value().value};

  Calibration known = rates();
  known.fp32_sm_mhz = known.tensor_sm_mhz = known.highest_sm_mhz = 1800;
  // AdamW's 33,008 parameters take 14 * 33,008 = 462,112 operations: 115.5 us at 4 GFLOP/s, 112.2 us at 3 % more.
  known.fp32_flops_per_s = 4e9;
  // 2,370,816 / (1.5 * 15 GFLOP/s) = 105.4 us; all 3,096,576 at 15 GFLOP/s: 206.4 us.
  Calibration products = known;
  products.fp32_flops_per_s = 1e14;
  products.tensor_flops_per_s = 15e9;
  const auto with = [](Calibration calibration, const std::function<void(Calibration&)>& change) {
    change(calibration);
    return calibration;
  };
  const struct {
    const char* name;
    const Compiled* kernel;
    const TaskSpec* task;
    const char* list;
    Calibration calibration;
    double floor_us;
    FloorBy floor_by;
    const char* message;  ///< of the failure; empty: passes
    const char* note;
  } rows[] = {
      {"fp32", &adamw_kernel, &adamw(), "[33008]", known, 115.528, FloorBy::kFp32,
       "is below 112.2 us, in which this GPU cannot do the arithmetic of the update", ""},
      {"fp32, a little faster", &adamw_kernel, &adamw(), "[33008]",
       with(known, [](Calibration& c) { c.fp32_flops_per_s = 5e9; }), 92.4224, FloorBy::kFp32, "", ""},
      {"fp32, measured at a lower clock", &adamw_kernel, &adamw(), "[33008]",
       with(known, [](Calibration& c) { c.fp32_sm_mhz = 1500; }), 115.528, FloorBy::kFp32, "", ""},
      {"products", &soap_kernel, &soap, "[[48,64]]", products, 206.4384, FloorBy::kTensor,
       "is below 105.4 us, in which this GPU cannot do the products of the update", ""},
      {"products, a little faster", &soap_kernel, &soap, "[[48,64]]",
       with(products, [](Calibration& c) { c.tensor_flops_per_s = 16e9; }), 193.536, FloorBy::kTensor, "", ""},
      {"products without cuBLASLt", &soap_kernel, &soap, "[[48,64]]",
       with(products, [](Calibration& c) { c.tensor_flops_per_s = 0; }), 28 * 3072 / 4e6, FloorBy::kMemory, "",
       "the floor leaves out products"},
  };
  for (const auto& row : rows) {
    DYNAMIC_SECTION(row.name) {
      Clock clock;
      clock.step = [](ModuleId, int calls) { return at_ns(100'000 * jitter(calls)); };
      const OpenDevice open = [&clock]() -> Result<std::unique_ptr<Device>> {
        return std::unique_ptr<Device>(new ClockedVm(&clock));
      };
      const CheckContext context{*row.task, row.kernel->candidate, row.kernel->module, open, 5, 2, "", nullptr};
      const TimedKernel candidate{"candidate", context}, baseline{"baseline", context};
      MeasureRule rule = small_rule();
      rule.min_pairs = rule.max_pairs = 8;
      DeviceInfo info;
      info.memory_bytes = uint64_t{1} << 30;
      const Result<MeasureOutcome> outcome =
          measure(candidate, std::span(&baseline, 1), {row.list, false}, row.calibration, rule, info);
      REQUIRE(outcome.ok());
      const MeasureOutcome& measured = outcome.value();
      REQUIRE(measured.report.has_value());
      CHECK(measured.report->floor_ns == Approx(1e3 * row.floor_us));
      CHECK(measured.report->floor_by == row.floor_by);
      CHECK(measured.report->floor_ratio == Approx(row.floor_us / 100).epsilon(0.01));
      if (measured.failure) UNSCOPED_INFO(measured.failure->message);
      REQUIRE(measured.failure.has_value() == (*row.message != 0));
      if (measured.failure) {
        CHECK(measured.failure->verdict == Verdict::kImpossibleTime);
        CHECK_THAT(measured.failure->message, Catch::Contains(row.message));
      }
      CHECK(measured.notes.size() == (*row.note != 0 ? 1 : 0));
      for (const std::string& note : measured.notes) CHECK_THAT(note, Catch::Contains(row.note));
    }
  }
}
