// The whole evaluation of one candidate in this process: the stages in their fixed order, each timed, stopping at the
// first failure, and the record they leave. Judges nothing itself: that is in check_*.cc.
#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <tuple>
#include <utility>

#include "harness/calibration.h"
#include "harness/checks.h"
#include "harness/measure.h"
#include "harness/own_kernels.h"
#include "harness/plan.h"
#include "harness/shell_word.h"

namespace stepbench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kVm = "vm";
// The pass on the VM before a GPU: every small edge case, and enough families to meet each kind of value.
constexpr int64_t kSafetyElements = 1 << 16;
constexpr int64_t kSafetyTensors = 1 << 10;  // thousands take the VM seconds, and the GPU, which runs them too, none
constexpr int64_t kSafetyFamilies = 8;

double since_ms(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::string host_cpu() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind("model name", 0) != 0) continue;
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

std::string operating_system() {
  utsname name{};
  if (uname(&name) != 0) return "unknown";
  return fmt::format("{} {} {}", name.sysname, name.release, name.machine);
}

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  if (gmtime_r(&now, &parts) == nullptr) return "1970-01-01T00:00:00Z";
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min, parts.tm_sec);
}

std::string replay_command(const EvalRecord& record, const EvalOptions& options) {
  // What the pass on the VM before a GPU found is replayed on the VM.
  const std::string device = record.environment.device == kVm ? kVm : options.device;
  std::string command = fmt::format("stepbench eval {} --task {} --device {} --suite {} --salt {}",
                                    shell_word(record.candidate.path), record.task, device, record.suite, record.salt);
  const Failure& failure = *record.failure;
  if (!failure.case_name.empty() && failure.check != "traffic") {
    command += " --only " + shell_word(failure.check + "/" + failure.case_name);
  }
  if (failure.check == "timing" && !options.baseline.empty()) command += " --baseline " + shell_word(options.baseline);
  return command;
}

EvalRecord begin_record(const Candidate& candidate, const TaskSpec& task, const EvalOptions& options) {
  EvalRecord record;
  record.created_utc = utc_now();
  record.task = task.id;
  record.task_version = task.version;
  record.suite = options.suite;
  record.salt = fmt::format("{:016x}", options.salt);
  record.candidate = candidate;
  record.environment.stepbench_version = STEPBENCH_VERSION;
  record.environment.host = host_cpu();
  record.environment.os = operating_system();
  record.ideal_bytes_per_param = task.bytes_per_param;
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  record.id = sha256_hex(fmt::format("{}/{}/{}/{}", candidate.sha256, task.id, record.salt, now)).substr(0, 16);
  return record;
}

void finish_record(EvalRecord& record, const EvalOptions& options, Clock::time_point start) {
  record.verdict = record.failure ? record.failure->verdict : Verdict::kPassed;
  if (record.failure) record.replay_command = replay_command(record, options);
  record.wall_ms = since_ms(start);
}

void fail(EvalRecord& record, Failure failure, const char* check) {
  if (failure.check.empty()) failure.check = check;
  record.failure = std::move(failure);
}

/// The compiler and the device know the candidate's code but not its file: a pointer into the plan gets the file's
/// name, a line of PTX that is the author's own too, and what has no place is about the file as a whole.
void complete_place(Failure& failure, const Candidate& candidate) {
  constexpr std::string_view kPtxLine = "ptx:";
  std::string& place = failure.place;
  if (place.empty()) {
    place = candidate.path;
  } else if (failure.check == "compile" && place.front() == '/') {
    place = fmt::format("{}: {}", plan_path(candidate), place);
  } else if (failure.check != "compile" && candidate.is_ptx && place.starts_with(kPtxLine)) {
    place = fmt::format("{}:{}", candidate.path, place.substr(kPtxLine.size()));
  } else if (failure.check != "compile" && place.front() == '/') {
    place.erase(0, 1);  // the compiler puts the file's bare name into the root folder
  }
}

void announce(const ProgressFn& progress, const char* stage) {
  if (progress) progress(Progress{stage, 0, 0});
}

/// A default plan names its kernel only once the compiler has seen the file.
Candidate with_kernel_name(const Candidate& candidate, const CompiledModule& compiled) {
  Candidate named = candidate;
  if (!named.default_plan || compiled.entries.empty()) return named;
  for (PlanLaunch& launch : named.plan.launches) {
    if (launch.kernel.empty()) launch.kernel = compiled.entries.begin()->first;
  }
  return named;
}

Result<const Suite*> find_suite(const TaskSpec& task, const std::string& name) {
  const auto found = task.suites.find(name);
  if (found != task.suites.end()) return &found->second;
  std::string known;
  for (const auto& [suite, unused] : task.suites) known += (known.empty() ? "" : ", ") + suite;
  return Error{ErrorCode::kUsage, fmt::format("the task {} has no such suite", task.id), "", known, name};
}

/// Two ways to open one device: `open` with all it can check, `open_long` for the thousands of steps of drift, which
/// run the same code as the cases before them.
struct Openers {
  DeviceInfo info;
  OpenDevice open;
  OpenDevice open_long;
  bool one_at_a_time = false;
  DeviceSource source;  ///< for calibration and what it says of itself; empty functions where there is none
};

Result<Openers> openers_for(const std::string& device, const ProgressFn& progress) {
  const auto on_wait = [progress] { announce(progress, kWaitStage); };
  // The VM looks for races on request only; that doubles the time of a case.
  Result<DeviceSource> source = device_source(device == kVm ? "vm:check" : device, on_wait);
  if (!source.ok()) return source.error();
  Openers openers{source.value().info, source.value().open, source.value().open, source.value().one_at_a_time,
                  source.value()};
  if (device != kVm) return openers;
  Result<DeviceSource> fast = device_source(kVm, nullptr);
  if (!fast.ok()) return fast.error();
  openers.open_long = fast.value().open;
  return openers;
}

CheckContext context_of(const EvalRecord& record, const TaskSpec& task, const CompiledModule& compiled,
                        const Openers& openers, const EvalOptions& options, const ProgressFn& progress) {
  CheckContext context{task,         record.candidate, compiled,          openers.open,
                       options.salt, options.threads,  options.only_case, progress};
  context.one_at_a_time = openers.one_at_a_time;
  context.to_the_end = options.to_the_end;
  return context;
}

/// Before a GPU runs code that nobody knows, the VM does: it sees what a GPU does not tell (where an access went, reads
/// of what nobody wrote, races), and a fault there costs nothing. A failure is the verdict, and the record then names
/// the VM. True when the VM could run the code.
Result<bool> run_safety_pass(EvalRecord& record, const TaskSpec& task, const Suite& suite,
                             const CompiledModule& compiled, const EvalOptions& options, const ProgressFn& progress) {
  const auto start = Clock::now();
  const Result<Openers> openers = openers_for(kVm, progress);
  if (!openers.ok()) return openers.error();
  CheckContext context = context_of(record, task, compiled, openers.value(), options, progress);
  context.max_case_elements = kSafetyElements;
  context.max_case_tensors = kSafetyTensors;
  CheckContext families = context;
  families.max_cases = kSafetyFamilies;
  const auto unsupported = [&](const Failure& failure) {
    record.notes.push_back(fmt::format("not run on the VM before the GPU: {}", failure.message));
    record.stage_ms["safety"] = since_ms(start);
    return false;
  };
  announce(progress, "safety");
  {
    Result<std::unique_ptr<Device>> device = openers.value().open();
    if (!device.ok()) return device.error();
    const Result<Judged<ModuleId>> module = device.value()->load(compiled);
    if (!module.ok()) return module.error();
    if (!module.value().ok()) return unsupported(*module.value().failure);
  }
  for (const auto& [check, groups, its_context] :
       {std::tuple("edges", &suite.edges, &context), std::tuple("families", &suite.families, &families)}) {
    Result<CheckOutcome> outcome = check_teacher_forced(*its_context, check, *groups);
    if (!outcome.ok()) return outcome.error();
    if (!outcome.value().failure) continue;
    Failure& failure = *outcome.value().failure;
    if (failure.verdict == Verdict::kUnsupported) return unsupported(failure);
    record.notes.push_back("found on the VM, before the GPU was used");
    record.environment.device = openers.value().info.name;
    record.environment.device_detail = openers.value().info.detail;
    record.cases = std::move(outcome.value().reports);
    fail(record, std::move(failure), check);
    break;
  }
  record.stage_ms["safety"] = since_ms(start);
  return true;
}

/// Devices that know the harness's own kernels, where they need them. A GPU's devices share what the first one loads.
Result<CompiledModule> give_own_kernels(Openers& openers, const CompileOptions& options) {
  Result<CompiledModule> own = compile_own_kernels(options);
  if (!own.ok()) return own;
  const OpenDevice open = openers.open;
  const auto module = std::make_shared<const CompiledModule>(own.value());
  openers.open = [open, module]() -> Result<std::unique_ptr<Device>> {
    Result<std::unique_ptr<Device>> device = open();
    if (!device.ok()) return device;
    if (const Result<void> done = device.value()->use_own_kernels(*module); !done.ok()) return done.error();
    return device;
  };
  openers.open_long = openers.open;
  return own;
}

/// Where the baselines of a task lie: beside tasks/.
Result<std::vector<std::string>> baseline_files(const TaskSpec& task, const std::string& given) {
  if (!given.empty()) return std::vector<std::string>{given};
  const Result<std::string> tasks = tasks_folder();
  if (!tasks.ok()) return tasks.error();
  const std::filesystem::path folder =
      std::filesystem::path(tasks.value()).parent_path() / "reference_kernels" / task.id;
  std::vector<std::string> files;
  std::error_code problem;
  for (const auto& entry : std::filesystem::directory_iterator(folder, problem))
    if (entry.path().extension() == ".cu") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  if (files.empty())
    return Error{ErrorCode::kNotFound, "the task has no baseline to compare with", folder.string(), "a .cu file",
                 problem ? problem.message() : "none"};
  return files;
}

/// A compiled baseline; lives as long as the TimedKernel that refers to it.
struct Baseline {
  std::string name;
  Candidate candidate;
  CompiledModule compiled;
};

Result<std::vector<Baseline>> load_baselines(const TaskSpec& task, const std::string& given,
                                             const CompileOptions& options) {
  const Result<std::vector<std::string>> files = baseline_files(task, given);
  if (!files.ok()) return files.error();
  std::vector<Baseline> baselines;
  for (const std::string& file : files.value()) {
    const auto wrong = [&](const Failure& failure) {
      return Error{given.empty() ? ErrorCode::kInternal : ErrorCode::kInvalidInput, "the baseline cannot be used", file,
                   "a candidate that passes", fmt::format("{}: {}", to_text(failure.verdict), failure.message)};
    };
    Result<Judged<Candidate>> loaded = load_candidate(file, task.id);
    if (!loaded.ok()) return loaded.error();
    if (!loaded.value().ok()) return wrong(*loaded.value().failure);
    Candidate& candidate = *loaded.value().value;
    if (const std::optional<Failure> failure = validate_plan(candidate, task)) return wrong(*failure);
    Result<Judged<CompiledModule>> compiled = compile(candidate, task, options);
    if (!compiled.ok()) return compiled.error();
    if (!compiled.value().ok()) return wrong(*compiled.value().failure);
    CompiledModule& module = *compiled.value().value;
    if (const Judged<Admission> admitted = admit(module, candidate); !admitted.ok()) return wrong(*admitted.failure);
    // A bare name is one of the shipped baselines; what the user named keeps its path.
    std::string name = given.empty() ? std::filesystem::path(file).filename().string() : file;
    if (!given.empty() && name.find('/') == std::string::npos) name.insert(0, "./");
    baselines.push_back({std::move(name), with_kernel_name(candidate, module), std::move(module)});
  }
  return baselines;
}

/// Times the candidate on every list of the suite, or on the one asked for.
Result<void> run_timing(EvalRecord& record, const TaskSpec& task, const Suite& suite, const CheckContext& context,
                        const Openers& openers, const CompiledModule& own_kernels, const EvalOptions& options,
                        const CompileOptions& compile_options) {
  const auto start = Clock::now();
  announce(context.progress, "timing");
  if (openers.source.describe) openers.source.describe(record.environment);
  if (record.environment.other_processes > 0)
    record.notes.push_back(
        fmt::format("timing: {} other programs were on the GPU", record.environment.other_processes));
  const Result<Calibration> calibration =
      calibration_of(openers.source, record.environment.gpu_uuid, own_kernels, false);
  if (!calibration.ok()) return calibration.error();
  record.calibration = calibration.value();
  const Result<std::vector<Baseline>> loaded = load_baselines(task, options.baseline, compile_options);
  if (!loaded.ok()) return loaded.error();
  std::vector<TimedKernel> baselines;
  for (const Baseline& baseline : loaded.value()) {
    CheckContext its{task,   baseline.candidate, baseline.compiled, openers.open, options.salt, options.threads, "",
                     nullptr};
    its.one_at_a_time = openers.one_at_a_time;
    baselines.push_back({baseline.name, std::move(its)});
  }
  const TimedKernel candidate{record.candidate.path, context};
  std::vector<TimingSpec> specs = suite.timing;
  if (!options.only_case.empty()) {
    // Any list may be timed alone, also one that the suite does not have; several are joined by "+".
    specs.clear();
    const std::string hidden = "~hidden";
    for (size_t begin = 0; begin <= options.only_case.size();) {
      const size_t end = std::min(options.only_case.find('+', begin), options.only_case.size());
      std::string list = options.only_case.substr(begin, end - begin);
      const bool is_hidden = list.ends_with(hidden);
      if (is_hidden) list.resize(list.size() - hidden.size());
      specs.push_back({std::move(list), is_hidden});
      begin = end + 1;
    }
  }
  for (const TimingSpec& spec : specs) {
    Result<MeasureOutcome> measured =
        measure(candidate, baselines, spec, calibration.value(), MeasureRule{}, openers.info);
    if (!measured.ok()) return measured.error();
    MeasureOutcome& outcome = measured.value();
    std::move(outcome.notes.begin(), outcome.notes.end(), std::back_inserter(record.notes));
    if (outcome.report) record.timing.push_back(std::move(*outcome.report));
    if (!outcome.failure) continue;
    fail(record, std::move(*outcome.failure), "timing");
    break;
  }
  record.stage_ms["timing"] = since_ms(start);
  return {};
}

/// Exact counts of one step, which the VM can give for code that it supports, whatever the evaluation runs on.
Result<void> count_traffic(EvalRecord& record, const CheckContext& context) {
  const auto start = Clock::now();
  announce(context.progress, "traffic");
  Result<TrafficOutcome> traffic = measure_traffic(context);
  if (!traffic.ok()) return traffic.error();
  record.stage_ms["traffic"] = since_ms(start);
  record.counters = traffic.value().counters;
  record.traffic_params = traffic.value().params;
  record.modelled_bytes_per_param =
      32.0 * static_cast<double>(record.counters.global_load_sectors + record.counters.global_store_sectors) /
      static_cast<double>(record.traffic_params);
  if (traffic.value().failure) fail(record, std::move(*traffic.value().failure), "traffic");
  return {};
}

/// Device load, checks and traffic: everything after admission.
Result<void> run_checks(EvalRecord& record, const TaskSpec& task, const Suite& suite, const CompiledModule& compiled,
                        Openers openers, const EvalOptions& options, const ProgressFn& progress) {
  bool vm_runs_it = false;
  if (options.device != kVm && options.vm_first && options.only_check.empty()) {
    const Result<bool> safe = run_safety_pass(record, task, suite, compiled, options, progress);
    if (!safe.ok()) return safe.error();
    if (record.failure) return {};
    vm_runs_it = safe.value();
  }
  auto start = Clock::now();
  announce(progress, "load");
  CompileOptions compile_options = options.compile;
  compile_options.arch = openers.info.arch;
  std::optional<CompiledModule> own_kernels;
  if (openers.info.has_clock) {
    Result<CompiledModule> own = give_own_kernels(openers, compile_options);
    if (!own.ok()) return own.error();
    own_kernels = std::move(own.value());
  }
  {
    Result<std::unique_ptr<Device>> device = openers.open();
    if (!device.ok()) return device.error();
    const DeviceInfo info = device.value()->info();
    record.environment.device = info.name;
    record.environment.device_detail = info.detail;
    const Result<Judged<ModuleId>> module = device.value()->load(compiled);
    if (!module.ok()) return module.error();
    record.stage_ms["load"] = since_ms(start);
    if (!module.value().ok()) {
      fail(record, *module.value().failure, "load");
      complete_place(*record.failure, record.candidate);
      return {};
    }
  }
  const CheckContext context = context_of(record, task, compiled, openers, options, progress);
  CheckContext context_long = context;
  context_long.open = openers.open_long;
  struct Stage {
    const char* check;
    std::function<Result<CheckOutcome>()> run;
  };
  const Stage stages[] = {
      {"edges", [&] { return check_teacher_forced(context, "edges", suite.edges); }},
      {"families", [&] { return check_teacher_forced(context, "families", suite.families); }},
      {"determinism", [&] { return check_determinism(context, suite.determinism); }},
      {"drift", [&] { return check_drift(context_long, suite.drift); }},
      {"large", [&] { return check_large(context, suite.large, LargeRule{}, openers.info); }},
  };
  for (const Stage& stage : stages) {
    if (!options.only_check.empty() && options.only_check != stage.check) continue;
    if (stage.check == std::string("large") && (!openers.info.has_clock || suite.large.empty())) continue;
    start = Clock::now();
    announce(progress, stage.check);
    Result<CheckOutcome> result = stage.run();
    if (!result.ok()) return result.error();
    CheckOutcome& outcome = result.value();
    record.stage_ms[stage.check] = since_ms(start);
    std::move(outcome.reports.begin(), outcome.reports.end(), std::back_inserter(record.cases));
    std::move(outcome.drift.begin(), outcome.drift.end(), std::back_inserter(record.drift));
    std::move(outcome.notes.begin(), outcome.notes.end(), std::back_inserter(record.notes));
    if (!outcome.failure) continue;
    const bool goes_on = options.to_the_end && is_wrong_value(outcome.failure->verdict);
    if (!record.failure) fail(record, std::move(*outcome.failure), stage.check);
    if (!goes_on) return {};
  }
  if (record.failure) return {};
  const bool timed = options.only_check.empty() ? !suite.timing.empty() : options.only_check == "timing";
  if (timed && own_kernels) {
    const Result<void> done = run_timing(record, task, suite, context, openers, *own_kernels, options, compile_options);
    if (!done.ok()) return done;
    if (record.failure) return {};
  }
  if (!options.only_check.empty()) {
    record.notes.push_back(fmt::format("only the check {}{} was run", options.only_check,
                                       options.only_case.empty() ? "" : ", case " + options.only_case));
    return {};
  }
  CheckContext traffic_context = context;
  if (vm_runs_it) {
    const Result<Openers> vm = openers_for(kVm, progress);
    if (!vm.ok()) return vm.error();
    traffic_context.open = vm.value().open;
  }
  return count_traffic(record, traffic_context);
}

/// kUsage for a replay of a check that does not exist.
Result<void> check_options(const EvalOptions& options) {
  const bool known = options.only_check.empty() || options.only_check == "edges" || options.only_check == "families" ||
                     options.only_check == "determinism" || options.only_check == "drift" ||
                     options.only_check == "large" || options.only_check == "timing";
  if (!known) {
    return Error{ErrorCode::kUsage, "there is no such check", "",
                 "edges, families, determinism, drift, large or timing", options.only_check};
  }
  if (options.device == kVm && (options.only_check == "large" || options.only_check == "timing")) {
    return Error{ErrorCode::kUsage, fmt::format("the check {} needs a GPU", options.only_check), "", "--device cuda",
                 options.device};
  }
  if (options.only_check.empty() && !options.only_case.empty()) {
    return Error{ErrorCode::kUsage, "a case is named without its check", "", "the name of the check as well",
                 options.only_case};
  }
  return {};
}

}  // namespace

Result<EvalRecord> evaluate_compiled(const Candidate& candidate, const TaskSpec& task, const CompiledModule& compiled,
                                     const OpenDevice& open, const EvalOptions& options, const ProgressFn& progress) {
  const auto start = Clock::now();
  const Result<void> usable = check_options(options);
  if (!usable.ok()) return usable.error();
  const Result<const Suite*> suite = find_suite(task, options.suite);
  if (!suite.ok()) return suite.error();
  EvalRecord record = begin_record(with_kernel_name(candidate, compiled), task, options);
  record.environment.compiler = compiled.compiler;
  record.resources = compiled.resources;
  record.compile_log = compiled.log;
  const Result<void> checked =
      run_checks(record, task, *suite.value(), compiled, {{}, open, open, false, {}}, options, progress);
  if (!checked.ok()) return checked.error();
  finish_record(record, options, start);
  return record;
}

Result<EvalRecord> evaluate(const Candidate& candidate, const TaskSpec& task, const EvalOptions& options,
                            const ProgressFn& progress) {
  const auto start = Clock::now();
  const Result<void> usable = check_options(options);
  if (!usable.ok()) return usable.error();
  const Result<const Suite*> suite = find_suite(task, options.suite);
  if (!suite.ok()) return suite.error();
  const Result<Openers> found = openers_for(options.device, progress);
  if (!found.ok()) return found.error();
  const Openers& openers = found.value();
  EvalRecord record = begin_record(candidate, task, options);
  record.environment.device = openers.info.name;
  record.environment.device_detail = openers.info.detail;
  CompileOptions compile_options = options.compile;
  if (options.device != kVm) compile_options.arch = openers.info.arch;

  auto stage_start = Clock::now();
  announce(progress, "plan");
  std::optional<Failure> wrong_plan = validate_plan(candidate, task);
  record.stage_ms["plan"] = since_ms(stage_start);
  if (wrong_plan) {
    fail(record, std::move(*wrong_plan), "plan");
    finish_record(record, options, start);
    return record;
  }

  stage_start = Clock::now();
  announce(progress, "compile");
  Result<Judged<CompiledModule>> result = compile(candidate, task, compile_options);
  if (!result.ok()) return result.error();
  record.stage_ms["compile"] = since_ms(stage_start);
  if (!result.value().ok()) {
    fail(record, std::move(*result.value().failure), "compile");
    complete_place(*record.failure, candidate);
    record.compile_log = record.failure->detail;
    finish_record(record, options, start);
    return record;
  }
  const CompiledModule& compiled = *result.value().value;
  record.environment.compiler = compiled.compiler;
  record.resources = compiled.resources;
  record.compile_log = compiled.log;
  record.candidate = with_kernel_name(candidate, compiled);

  stage_start = Clock::now();
  announce(progress, "admission");
  Judged<Admission> admission = admit(compiled, record.candidate);
  record.stage_ms["admission"] = since_ms(stage_start);
  if (!admission.ok()) {
    fail(record, std::move(*admission.failure), "admission");
    finish_record(record, options, start);
    return record;
  }
  record.notes = admission.value->notes;

  const Result<void> checked = run_checks(record, task, *suite.value(), compiled, openers, options, progress);
  if (!checked.ok()) return checked.error();
  finish_record(record, options, start);
  return record;
}

}  // namespace stepbench
