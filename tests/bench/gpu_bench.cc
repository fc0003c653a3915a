// The baselines of AdamW and momentum SGD on a GPU under Google Benchmark, by manual time: one iteration is one cold
// optimizer step, timed as the stage `timing` times it. Its JSON works with the library's tools/compare.py.
//
// Without a GPU there is one benchmark that says so and is skipped. Counters: bytes_per_second is the task's required
// bytes over the time, tensors and params describe the list.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "harness/checks.h"
#include "harness/own_kernels.h"
#include "tests/bench/gpu_bench.h"

namespace stepbench {
namespace {

constexpr const char* kLists[] = {"[1048576]", "[4194304]", "[16777216]", "[268435456]",
                                  "gpt2_124m", "resnet50",  "lora_448",   "llama32_1b"};
constexpr const char* kTasks[] = {"adamw", "sgd_momentum"};

/// A kernel that can be timed on any list.
struct Subject {
  TaskSpec task;
  Candidate candidate;
  CompiledModule compiled;
  OpenDevice open;
};

/// Any failure ends the benchmark with its words; a value otherwise.
template <class T>
T need(Result<T> result, const char* what) {
  if (!result.ok()) throw std::runtime_error(fmt::format("{}: {}", what, to_text(result.error())));
  return std::move(result.value());
}
template <class T>
T need(Result<Judged<T>> result, const char* what) {
  Judged<T> judged = need<Judged<T>>(std::move(result), what);
  if (!judged.ok()) throw std::runtime_error(fmt::format("{}: {}", what, judged.failure->message));
  return std::move(*judged.value);
}

void run_steps(benchmark::State& state, const std::shared_ptr<Subject>& subject, const std::string& list) {
  try {
    const std::vector<TensorShape> tensors = need(tensor_list(list), "list");
    const CheckContext context{subject->task, subject->candidate, subject->compiled, subject->open, 1, 1, "", nullptr};
    Rig rig = need(open_rig(context, tensors, {}), "buffers");
    const LargeData data{derive_seed(1, list)};
    const Result<void> states = generate_buffers(rig, subject->task, tensors, Role::kInOut, data, 0, 1);
    if (!states.ok()) throw std::runtime_error(to_text(states.error()));
    const HyperTrajectory trajectory = need(draw_hyper(subject->task, "gaussian", 1), "hyperparameters");
    int64_t k = 0;
    for (auto _ : state) {
      const Result<void> inputs = generate_buffers(rig, subject->task, tensors, Role::kIn, data, k, 1);
      if (!inputs.ok()) throw std::runtime_error(to_text(inputs.error()));
      const HyperValues hyper = need(hyper_at(trajectory, 10 + k, false, false), "hyperparameters");
      const TimedStepReport report = need(time_step(*rig.session, hyper, static_cast<uint64_t>(k)), "step");
      if (report.failure) throw std::runtime_error(report.failure->message);
      state.SetIterationTime(report.timed.event_ns / 1e9);
      ++k;
    }
    const double params = static_cast<double>(total_elements(tensors));
    state.SetBytesProcessed(
        static_cast<int64_t>(static_cast<double>(state.iterations()) * params * subject->task.bytes_per_param));
    state.counters["tensors"] = static_cast<double>(tensors.size());
    state.counters["params"] = params;
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
}

}  // namespace

void add_gpu_benchmarks() {
  const Result<DeviceSource> found = device_source("cuda", nullptr);
  if (!found.ok()) {
    benchmark::RegisterBenchmark("gpu/none", [](benchmark::State& state) { state.SkipWithError("no GPU here"); });
    return;
  }
  const DeviceSource source = found.value();
  CompileOptions options;
  options.arch = source.info.arch;
  const auto own = std::make_shared<CompiledModule>(need(compile_own_kernels(options), "own kernels"));
  const OpenDevice open = [source, own]() -> Result<std::unique_ptr<Device>> {
    Result<std::unique_ptr<Device>> device = source.open();
    if (!device.ok()) return device;
    if (const Result<void> done = device.value()->use_own_kernels(*own); !done.ok()) return done.error();
    return device;
  };
  const std::filesystem::path folder =
      std::filesystem::path(need(tasks_folder(), "tasks")).parent_path() / "reference_kernels";
  for (const char* const id : kTasks) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder / id))
      if (entry.path().extension() == ".cu") files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const std::filesystem::path& file : files) {
      auto subject = std::make_shared<Subject>();
      subject->task = need(load_task(id), "task");
      subject->candidate = need(load_candidate(file.string(), id), "baseline");
      subject->compiled = need(compile(subject->candidate, subject->task, options), "baseline");
      subject->open = open;
      for (const char* const list : kLists)
        benchmark::RegisterBenchmark(fmt::format("gpu/{}/{}/{}", id, file.stem().string(), list).c_str(), run_steps,
                                     subject, std::string(list))
            ->UseManualTime()
            ->Unit(benchmark::kMicrosecond)
            ->MinTime(0.05);
    }
  }
}

}  // namespace stepbench
