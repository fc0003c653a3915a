// Device calls on a GPU: modules, launches under a watchdog, and what the driver's errors say of a candidate. Buffers
// are in memory.cc, clocks in stopwatch.cc. Checks run on the default stream, one launch at a time; a timed step goes
// to the stopwatch's stream as a whole. One class holds what these share, hence the length.
#include "harness/cuda/cuda_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <thread>
#include <utility>

#include "harness/cuda/gemm.h"
#include "harness/cuda/memory.h"
#include "harness/cuda/tensor_map.h"
#include "harness/ptx_vm/kernel_info.h"
#include "harness/ptx_vm/ptx.h"

namespace stepbench::cuda {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

// The budget is the candidate's; below this the first launch of a module, a busy host or a slow clock would be charged
// to it.
constexpr nanoseconds kShortestWatch = std::chrono::seconds(1);
constexpr nanoseconds kLongestWatch = std::chrono::seconds(30);
constexpr nanoseconds kSpin = std::chrono::microseconds(200);
constexpr auto kNap = std::chrono::microseconds(50);
constexpr int64_t kPortableClusterBlocks = 8;

struct Kernel {
  KernelInfo info;
  Function function = nullptr;
  uint32_t dynamic_shared_bytes = 0;  ///< allowed so far beyond the default
  bool large_clusters = false;
};

struct Module {
  ModuleHandle handle = nullptr;
  std::map<std::string, Kernel> kernels;
};

/// A step of many launches, recorded once and submitted at one go: up to kQueuedLaunches launches wait behind the gate
/// one by one, more would be limited by how fast the GPU takes them from the queue.
constexpr size_t kQueuedLaunches = 4;
struct StepGraph {
  size_t count = 0;
  std::vector<std::byte> parameters;  ///< of all launches as recorded, with kernels, grids and blocks
  GraphExec exec = nullptr;
};

Failure load_failure(Verdict verdict, std::string message, std::string detail) {
  Failure failure;
  failure.verdict = verdict;
  failure.check = "load";
  failure.message = std::move(message);
  failure.detail = std::move(detail);
  return failure;
}

/// What a sticky error says of the kernel that ran.
Fault fault_of(Status status, const std::string& text) {
  constexpr const char* kWhere = "; the GPU does not say where, `--device vm` finds the line";
  Fault fault;
  switch (status) {
    case kIllegalAddress:
    case kInvalidAddressSpace:
      fault.kind = FaultKind::kOutOfBounds;
      fault.message = "illegal address: an access outside of every buffer, or a store to an input";
      break;
    case kMisalignedAddress:
      fault.kind = FaultKind::kMisaligned;
      fault.message = "misaligned address: not a multiple of the access's size";
      break;
    case kIllegalInstruction:
      fault.kind = FaultKind::kTrap;
      fault.message =
          "an illegal instruction: a bulk tensor copy with a null map or with a first coordinate that is no multiple "
          "of "
          "16 bytes, or broken machine code";
      break;
    case kLaunchTimeout:
      fault.kind = FaultKind::kBudget;
      fault.message = "the GPU ended a kernel that ran too long";
      break;
    default:
      fault.kind = FaultKind::kTrap;
      fault.message = "the kernel was ended by a trap";
      break;
  }
  fault.message += fmt::format("{} ({})", kWhere, text);
  return fault;
}

Fault invalid(const std::string& what, const std::string& expected, const std::string& found) {
  Fault fault;
  fault.kind = FaultKind::kInvalidLaunch;
  fault.message = fmt::format("invalid launch: {} must be {}, found {}", what, expected, found);
  return fault;
}

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)), memory_(gpu_) {}

  ~CudaDevice() override {
    for (auto& [launches, graph] : graphs_) drop_graph(graph);
    for (const auto& [id, module] : modules_) drop(module);
  }

  DeviceInfo info() const override { return gpu_->info(); }

  Result<Judged<ModuleId>> load(const CompiledModule& compiled) override;

  void unload(ModuleId id) override {
    const auto found = modules_.find(id.value);
    SB_ASSERT(found != modules_.end());
    drop(found->second);
    modules_.erase(found);
  }

  Result<KernelInfo> kernel(ModuleId id, const std::string& entry) override {
    const Kernel* kernel = find(id, entry);
    if (kernel == nullptr) return Error{ErrorCode::kNotFound, "the module has no such kernel", "kernel", entry, ""};
    return kernel->info;
  }

  Result<BufferId> allocate(const AllocationSpec& spec) override {
    const Result<uint32_t> id = memory_.allocate(spec);
    if (!id.ok()) return id.error();
    return BufferId{id.value()};
  }
  void release(BufferId buffer) override { memory_.release(buffer.value); }
  uint64_t address(BufferId buffer) const override { return memory_.address(buffer.value); }
  Result<void> write(BufferId buffer, uint64_t offset_bytes, std::span<const std::byte> bytes) override {
    return memory_.write(buffer.value, offset_bytes, bytes);
  }
  Result<void> read(BufferId buffer, uint64_t offset_bytes, std::span<std::byte> bytes) override {
    return memory_.read(buffer.value, offset_bytes, bytes);
  }
  Result<void> write_all(std::span<const WriteRequest> requests) override { return memory_.write_all(requests); }
  Result<void> read_all(std::span<const ReadRequest> requests) override { return memory_.read_all(requests); }
  Result<void> poison(BufferId buffer, uint64_t seed) override { return memory_.poison(buffer.value, seed); }

  Result<void> generate(BufferId buffer, const GenerateSpec& spec) override {
    return memory_.generate(buffer.value, spec, gpu_->own_kernels().generate);
  }
  Result<void> generate_all(std::span<const GenerateRequest> requests) override {
    return memory_.generate_all(requests, gpu_->own_kernels().generate_all);
  }
  Result<void> use_own_kernels(const CompiledModule& module) override { return gpu_->use_own_kernels(module); }

  Result<TensorMapBytes> encode_tensor_map(const TensorMapSpec& spec) override {
    if (const Result<void> usable = gpu_->ready(); !usable.ok()) return usable.error();
    return cuda::encode_tensor_map(gpu_->driver(), spec);
  }

  Result<LaunchReport> launch(const LaunchSpec& spec) override;
  Result<TimedReport> time_step(std::span<const LaunchSpec> launches) override;
  Result<std::optional<Fault>> end_of_step() override;
  void set_budget(uint64_t units) override {
    // A warp instruction is allowed ten times what it takes a lone warp that waits for each.
    constexpr uint64_t kNsPerUnit = 100;
    const uint64_t most = static_cast<uint64_t>(kLongestWatch.count());
    const uint64_t ns = units > most / kNsPerUnit ? most : units * kNsPerUnit;
    watch_ = std::clamp(nanoseconds(static_cast<int64_t>(ns)), kShortestWatch, kLongestWatch);
  }

 private:
  void drop(const Module& module) {
    if (gpu_->ready().ok())
      static_cast<void>(gpu_->check(gpu_->driver().module_unload(module.handle), "cuModuleUnload"));
  }
  Kernel* find(ModuleId id, const std::string& entry) {
    const auto module = modules_.find(id.value);
    if (module == modules_.end()) return nullptr;
    const auto kernel = module->second.kernels.find(entry);
    return kernel == module->second.kernels.end() ? nullptr : &kernel->second;
  }
  Result<std::optional<Failure>> load_code(const CompiledModule& compiled, ModuleHandle& handle);
  Result<Kernel> describe(ModuleHandle handle, const ptx::Function& entry);
  std::optional<Fault> validate(const Kernel& kernel, const LaunchSpec& spec) const;
  Result<void> allow(Kernel& kernel, const LaunchSpec& spec);
  Status wait(Stream stream, bool& hung);
  Status submit(const Kernel& kernel, const LaunchSpec& spec, Stream stream) const;
  Result<void> submit_any(const Kernel* kernel, const LaunchSpec& spec, Stream stream, Status& status);
  Result<std::optional<Fault>> prepare(const LaunchSpec& spec, const char* call, Kernel*& kernel);
  std::optional<Fault> fault_after(Status status, bool hung);
  void drop_graph(StepGraph& graph);
  Result<GraphExec> graph_of(std::span<const LaunchSpec> launches, std::span<Kernel* const> kernels);

  std::shared_ptr<Gpu> gpu_;
  Memory memory_;
  std::map<uint32_t, Module> modules_;
  uint32_t next_module_ = 1;
  nanoseconds watch_ = kLongestWatch;
  std::string last_entry_;
  std::map<const LaunchSpec*, StepGraph> graphs_;  ///< by the launches that they record
};

/// Machine code where there is some for this GPU, else the PTX through the driver's own compiler.
Result<std::optional<Failure>> CudaDevice::load_code(const CompiledModule& compiled, ModuleHandle& handle) {
  const Driver& driver = gpu_->driver();
  Status status = kNoBinaryForGpu;
  if (!compiled.cubin.empty()) status = driver.module_load(&handle, compiled.cubin.data(), 0, nullptr, nullptr);
  if (status == kSuccess) return std::optional<Failure>();
  if (status != kNoBinaryForGpu && status != kInvalidImage && status != kUnsupportedPtxVersion) {
    const Result<void> done = gpu_->check(status, "cuModuleLoadDataEx", "machine code");
    return done.error();
  }
  std::vector<char> log(16 << 10, '\0');
  int options[] = {kJitErrorLog, kJitErrorLogBytes};
  void* values[] = {log.data(), reinterpret_cast<void*>(log.size())};
  status = driver.module_load(&handle, compiled.ptx.c_str(), 2, options, values);
  log.back() = '\0';
  if (status == kSuccess) return std::optional<Failure>();
  if (status == kUnsupportedPtxVersion)
    return Error{ErrorCode::kUnavailable, "the NVIDIA driver is older than the code's compiler", "cuModuleLoadDataEx",
                 compiled.compiler, "driver for CUDA " + version_text(driver.version)};
  if (status == kInvalidPtx || status == kInvalidImage)
    return std::optional<Failure>(
        load_failure(Verdict::kCompileError, "the driver does not compile the PTX", log.data()));
  if (status == kNoBinaryForGpu)
    return std::optional<Failure>(load_failure(
        Verdict::kUnsupported, fmt::format("the code is not for this GPU ({})", gpu_->info().arch), log.data()));
  const Result<void> done = gpu_->check(status, "cuModuleLoadDataEx", "PTX");
  return done.error();
}

Result<Kernel> CudaDevice::describe(ModuleHandle handle, const ptx::Function& entry) {
  const Driver& driver = gpu_->driver();
  Kernel kernel;
  kernel.info = ptx::kernel_info(entry);
  if (const Result<void> done = gpu_->check(driver.module_get_function(&kernel.function, handle, entry.name.c_str()),
                                            "cuModuleGetFunction", entry.name);
      !done.ok())
    return done.error();
  int threads = 0, shared_bytes = 0;
  for (const Result<void>& done :
       {gpu_->check(driver.function_get_attribute(&threads, kFunctionMaxThreads, kernel.function), "cuFuncGetAttribute",
                    entry.name),
        gpu_->check(driver.function_get_attribute(&shared_bytes, kFunctionSharedBytes, kernel.function),
                    "cuFuncGetAttribute", entry.name)})
    if (!done.ok()) return done.error();
  if (!kernel.info.exact_threads) kernel.info.max_threads = std::min(kernel.info.max_threads, threads);
  kernel.info.static_shared_bytes = static_cast<uint32_t>(std::max(shared_bytes, 0));
  return kernel;
}

Result<Judged<ModuleId>> CudaDevice::load(const CompiledModule& compiled) {
  if (const Result<void> usable = gpu_->ready(); !usable.ok()) return usable.error();
  const Result<ptx::Module> parsed = ptx::parse(compiled.ptx);
  if (!parsed.ok()) {
    if (parsed.error().code != ErrorCode::kInvalidInput) return parsed.error();
    return Judged<ModuleId>(
        load_failure(Verdict::kUnsupported, "the PTX cannot be parsed: " + to_text(parsed.error()), ""));
  }
  Module module;
  Result<std::optional<Failure>> loaded = load_code(compiled, module.handle);
  if (!loaded.ok()) return loaded.error();
  if (loaded.value()) return Judged<ModuleId>(std::move(*loaded.value()));
  std::string known;
  for (const ptx::Function& function : parsed.value().functions) {
    if (!function.is_entry || function.is_declaration) continue;
    known += (known.empty() ? "" : ", ") + function.name;
    Result<Kernel> kernel = describe(module.handle, function);
    if (!kernel.ok()) {
      drop(module);
      return kernel.error();
    }
    module.kernels.emplace(function.name, std::move(kernel.value()));
  }
  for (const auto& [plan_name, entry] : compiled.entries) {
    if (module.kernels.count(entry) != 0) continue;
    drop(module);
    return Error{ErrorCode::kNotFound, "the PTX has no such kernel", "load", entry,
                 known.empty() ? "no kernel" : known};
  }
  const ModuleId id{next_module_++};
  modules_.emplace(id.value, std::move(module));
  return Judged<ModuleId>(id);
}

/// What the driver would refuse too, in the words of the VM.
std::optional<Fault> CudaDevice::validate(const Kernel& kernel, const LaunchSpec& spec) const {
  const DeviceInfo& limits = gpu_->info();
  const char* const axes[3] = {"x", "y", "z"};
  for (size_t k = 0; k < 3; ++k) {
    if (spec.grid[k] < 1 || spec.grid[k] > limits.max_grid[k])
      return invalid(fmt::format("grid.{}", axes[k]), fmt::format("1 to {}", limits.max_grid[k]),
                     fmt::format("{}", spec.grid[k]));
    if (spec.block[k] < 1 || spec.block[k] > limits.max_block[k])
      return invalid(fmt::format("block.{}", axes[k]), fmt::format("1 to {}", limits.max_block[k]),
                     fmt::format("{}", spec.block[k]));
    if (spec.cluster[k] < 1 || spec.grid[k] % spec.cluster[k] != 0)
      return invalid(fmt::format("cluster.{}", axes[k]), fmt::format("a divisor of grid.{}", axes[k]),
                     fmt::format("{}", spec.cluster[k]));
  }
  const int64_t threads = spec.block[0] * spec.block[1] * spec.block[2];
  const int64_t most = std::min(kernel.info.max_threads, limits.max_threads_per_block);
  if (threads > most) return invalid("threads per block", fmt::format("at most {}", most), fmt::format("{}", threads));
  const uint64_t shared = uint64_t{kernel.info.static_shared_bytes} + spec.shared_bytes;
  if (shared > static_cast<uint64_t>(limits.max_shared_bytes))
    return invalid("static and dynamic shared memory in bytes", fmt::format("at most {}", limits.max_shared_bytes),
                   fmt::format("{}", shared));
  if (spec.parameters.size() != kernel.info.parameter_bytes)
    return invalid("size of the parameters in bytes", fmt::format("{}", kernel.info.parameter_bytes),
                   fmt::format("{}", spec.parameters.size()));
  return std::nullopt;
}

/// Opts in to what a kernel does not get unasked: more than 48 KiB of shared memory, clusters of more than 8 blocks.
Result<void> CudaDevice::allow(Kernel& kernel, const LaunchSpec& spec) {
  const Driver& driver = gpu_->driver();
  const uint32_t unasked = static_cast<uint32_t>(gpu_->info().max_static_shared_bytes);
  const bool more_shared = kernel.info.static_shared_bytes + spec.shared_bytes > unasked;
  if (more_shared && spec.shared_bytes > kernel.dynamic_shared_bytes) {
    if (const Result<void> done =
            gpu_->check(driver.function_set_attribute(kernel.function, kFunctionMaxDynamicShared,
                                                      static_cast<int>(spec.shared_bytes)),
                        "cuFuncSetAttribute", fmt::format("{} bytes of shared memory", spec.shared_bytes));
        !done.ok())
      return done;
    kernel.dynamic_shared_bytes = spec.shared_bytes;
  }
  if (spec.cluster[0] * spec.cluster[1] * spec.cluster[2] > kPortableClusterBlocks && !kernel.large_clusters) {
    if (const Result<void> done =
            gpu_->check(driver.function_set_attribute(kernel.function, kFunctionNonPortableCluster, 1),
                        "cuFuncSetAttribute", "clusters of more than 8 blocks");
        !done.ok())
      return done;
    kernel.large_clusters = true;
  }
  return {};
}

/// Asks until all work is done or the watchdog's time is over: closely at first, since most launches take microseconds.
Status CudaDevice::wait(Stream stream, bool& hung) {
  const Clock::time_point start = Clock::now();
  for (;;) {
    const nanoseconds waited = Clock::now() - start;  // before asking: a host that slept finds the answer first
    const Status status = gpu_->driver().stream_query(stream);
    if (status != kNotReady) return status;
    if (waited > watch_) {
      hung = true;
      return kNotReady;
    }
    if (waited > kSpin) std::this_thread::sleep_for(kNap);
  }
}

Status CudaDevice::submit(const Kernel& kernel, const LaunchSpec& spec, Stream stream) const {
  LaunchConfig config;
  for (size_t k = 0; k < 3; ++k) {
    config.grid[k] = static_cast<unsigned>(spec.grid[k]);
    config.block[k] = static_cast<unsigned>(spec.block[k]);
  }
  config.shared_bytes = spec.shared_bytes;
  config.stream = stream;
  LaunchAttribute cluster;
  for (size_t k = 0; k < 3; ++k) cluster.cluster[k] = static_cast<unsigned>(spec.cluster[k]);
  if (spec.cluster != std::array<int64_t, 3>{1, 1, 1}) {
    config.attributes = &cluster;
    config.attribute_count = 1;
  }
  // One by one, so that the driver puts each where the compiled kernel has it. The block of parameters begins 16 bytes
  // beyond a multiple of 64, and what is aligned to more than 16 bytes, as tensor maps are, moves behind by as much:
  // all of them given as one block in the order of their declarations arrived in the wrong places.
  std::vector<std::byte> bytes(spec.parameters.begin(), spec.parameters.end());
  std::vector<void*> parameters;
  for (const KernelParameter& parameter : kernel.info.parameters)
    parameters.push_back(bytes.data() + parameter.offset_bytes);
  return gpu_->driver().launch(&config, kernel.function, parameters.empty() ? nullptr : parameters.data(), nullptr);
}

/// A kernel, or a product where there is none. `status` is the driver's; the library's own complaints are errors.
Result<void> CudaDevice::submit_any(const Kernel* kernel, const LaunchSpec& spec, Stream stream, Status& status) {
  status = kSuccess;
  if (kernel != nullptr) {
    status = submit(*kernel, spec, stream);
    return {};
  }
  const Result<Gemm*> gemm = gpu_->gemm();
  return gemm.ok() ? gemm.value()->submit(*spec.gemm, stream) : Result<void>(gemm.error());
}

/// All that has to be done once before a launch can be put on a stream. `kernel` stays null for a product.
Result<std::optional<Fault>> CudaDevice::prepare(const LaunchSpec& spec, const char* call, Kernel*& kernel) {
  kernel = nullptr;
  last_entry_ = spec.entry;
  if (spec.gemm) {
    const Result<Gemm*> gemm = gpu_->gemm();
    if (!gemm.ok()) return gemm.error();
    return gemm.value()->prepare(*spec.gemm);
  }
  kernel = find(spec.module, spec.entry);
  if (kernel == nullptr) return Error{ErrorCode::kNotFound, "the module has no such kernel", call, spec.entry, ""};
  if (std::optional<Fault> refused = validate(*kernel, spec)) return refused;
  if (const Result<void> done = allow(*kernel, spec); !done.ok()) return done.error();
  return std::optional<Fault>();
}

/// The candidate's fault behind a status, if it is one.
std::optional<Fault> CudaDevice::fault_after(Status status, bool hung) {
  if (hung) {
    gpu_->lose();
    Fault fault;
    fault.kind = FaultKind::kBudget;
    fault.message = fmt::format("the kernel did not end within {} ms",
                                std::chrono::duration_cast<std::chrono::milliseconds>(watch_).count());
    return fault;
  }
  if (status == kInvalidValue || status == kLaunchOutOfResources || status == kInvalidClusterSize ||
      status == kNotSupported)
    return invalid("the launch", "one that the driver takes", status_text(gpu_->driver(), status));
  if (!is_sticky(status) || status == kEccUncorrectable || status == kUnknown) return std::nullopt;
  gpu_->lose();
  return fault_of(status, status_text(gpu_->driver(), status));
}

Result<LaunchReport> CudaDevice::launch(const LaunchSpec& spec) {
  if (const Result<void> usable = gpu_->ready(); !usable.ok()) return usable.error();
  LaunchReport report;
  const auto with_fault = [&](Fault fault) {
    fault.kernel = spec.entry;
    fault.thread_known = false;
    report.fault = std::move(fault);
    return report;
  };
  Kernel* kernel = nullptr;
  Result<std::optional<Fault>> prepared = prepare(spec, "launch", kernel);
  if (!prepared.ok()) return prepared.error();
  if (prepared.value()) return with_fault(std::move(*prepared.value()));

  Status status = kSuccess;
  if (const Result<void> done = submit_any(kernel, spec, nullptr, status); !done.ok()) return done.error();
  bool hung = false;
  if (status == kSuccess) {
    report.counters.launches = 1;
    status = wait(nullptr, hung);
  }
  if (status == kSuccess) return report;
  if (std::optional<Fault> fault = fault_after(status, hung)) return with_fault(std::move(*fault));
  return gpu_->check(status, "cuLaunchKernelEx", spec.entry).error();
}

void CudaDevice::drop_graph(StepGraph& graph) {
  if (graph.exec != nullptr && gpu_->ready().ok())
    static_cast<void>(gpu_->check(gpu_->driver().graph_exec_destroy(graph.exec), "cuGraphExecDestroy"));
  graph = StepGraph();
}

/// Records the launches as a graph, or brings the recorded one up to date where parameters have changed. What the
/// driver says of a launch that it does not take comes back as its error.
Result<GraphExec> CudaDevice::graph_of(std::span<const LaunchSpec> launches, std::span<Kernel* const> kernels) {
  std::vector<std::byte> parameters;
  const auto note = [&](const auto& value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    parameters.insert(parameters.end(), bytes.begin(), bytes.end());
  };
  for (size_t i = 0; i < launches.size(); ++i) {
    if (const std::optional<GemmSpec>& gemm = launches[i].gemm) {
      for (const int64_t size : {gemm->m, gemm->n, gemm->k, gemm->batch}) note(size);
      for (const GemmOperand& operand : {gemm->a, gemm->b, gemm->c, gemm->d}) {
        note(operand.address);
        note(operand.stride);
      }
      for (const bool flag : {gemm->transpose_a, gemm->transpose_b}) note(flag);
      for (const DType dtype : {gemm->inputs, gemm->output}) note(dtype);
      for (const float factor : {gemm->alpha, gemm->beta}) note(factor);
      continue;
    }
    note(kernels[i]->function);
    note(launches[i].grid);
    note(launches[i].block);
    note(launches[i].shared_bytes);
    parameters.insert(parameters.end(), launches[i].parameters.begin(), launches[i].parameters.end());
  }
  StepGraph& step = graphs_[launches.data()];
  if (step.exec != nullptr && step.count == launches.size() && step.parameters == parameters) return step.exec;
  if (step.count != launches.size()) drop_graph(step);

  const Driver& driver = gpu_->driver();
  const Stream stream = gpu_->stopwatch().stream();
  if (const Result<void> done =
          gpu_->check(driver.stream_begin_capture(stream, kCaptureThreadLocal), "cuStreamBeginCapture");
      !done.ok())
    return done.error();
  Status status = kSuccess;
  Result<void> submitted;
  for (size_t i = 0; i < launches.size() && status == kSuccess && submitted.ok(); ++i)
    submitted = submit_any(kernels[i], launches[i], stream, status);
  Graph graph = nullptr;
  const Status ended = driver.stream_end_capture(stream, &graph);
  if (!submitted.ok()) {
    if (graph != nullptr) static_cast<void>(driver.graph_destroy(graph));
    return submitted.error();
  }
  if (status == kSuccess) status = ended;
  if (status == kSuccess && step.exec != nullptr) {
    GraphUpdateInfo info;
    if (driver.graph_update(step.exec, graph, &info) != kSuccess) drop_graph(step);
  }
  if (status == kSuccess && step.exec == nullptr) status = driver.graph_instantiate(&step.exec, graph, 0);
  if (graph != nullptr) static_cast<void>(driver.graph_destroy(graph));
  if (status == kSuccess) status = driver.graph_upload(step.exec, stream);
  if (status != kSuccess) return gpu_->check(status, "cuGraphInstantiate", last_entry_).error();
  step.count = launches.size();
  step.parameters = std::move(parameters);
  return step.exec;
}

Result<TimedReport> CudaDevice::time_step(std::span<const LaunchSpec> launches) {
  if (const Result<void> usable = gpu_->ready(); !usable.ok()) return usable.error();
  TimedReport report;
  report.launches = launches.size();
  const auto with_fault = [&](Fault fault, const std::string& entry) {
    fault.kernel = entry;
    fault.thread_known = false;
    report.fault = std::move(fault);
    return report;
  };
  std::vector<Kernel*> kernels;
  for (const LaunchSpec& spec : launches) {
    Kernel* kernel = nullptr;
    Result<std::optional<Fault>> prepared = prepare(spec, "time_step", kernel);
    if (!prepared.ok()) return prepared.error();
    if (prepared.value()) return with_fault(std::move(*prepared.value()), spec.entry);
    kernels.push_back(kernel);
  }
  report.as_graph = launches.size() > kQueuedLaunches;
  GraphExec graph = nullptr;
  if (report.as_graph) {
    const Result<GraphExec> recorded = graph_of(launches, kernels);
    if (!recorded.ok()) return recorded.error();
    graph = recorded.value();
  }

  Stopwatch& watch = gpu_->stopwatch();
  const Driver& driver = gpu_->driver();
  const Result<void> begun = watch.begin();
  Status status = kSuccess;
  Result<void> submitted;
  if (report.as_graph) {
    status = driver.graph_launch(graph, watch.stream());
  } else {
    for (size_t i = 0; i < launches.size() && status == kSuccess && submitted.ok(); ++i)
      submitted = submit_any(kernels[i], launches[i], watch.stream(), status);
  }
  const Result<void> ended = watch.end();
  bool hung = false;
  const Status waited = wait(watch.stream(), hung);
  if (status == kSuccess) status = waited;
  if (status != kSuccess) {
    if (std::optional<Fault> fault = fault_after(status, hung)) return with_fault(std::move(*fault), last_entry_);
    return gpu_->check(status, "cuLaunchKernelEx", last_entry_).error();
  }
  if (!submitted.ok()) return submitted.error();
  if (!begun.ok()) return begun.error();
  if (!ended.ok()) return ended.error();
  const Result<Reading> reading = watch.read();
  if (!reading.ok()) return reading.error();
  report.event_ns = reading.value().event_ns;
  report.counter_ns = reading.value().counter_ns;
  report.sm_mhz = reading.value().sm_mhz;
  return report;
}

Result<std::optional<Fault>> CudaDevice::end_of_step() {
  Result<std::optional<Damage>> checked = memory_.check_guards();
  if (!checked.ok()) return checked.error();
  if (!checked.value()) return std::optional<Fault>();
  const Damage& damage = *checked.value();
  Fault fault;
  fault.kind = FaultKind::kOutOfBounds;
  fault.thread_known = false;
  fault.kernel = last_entry_;
  fault.buffer = damage.buffer;
  fault.byte_offset = damage.byte_offset;
  fault.message = damage.byte_offset < 0 ? fmt::format("store outside of a buffer: {} bytes before the start of {}",
                                                       -damage.byte_offset, damage.buffer)
                                         : fmt::format("store outside of a buffer: at byte {} of {}, which has {}",
                                                       damage.byte_offset, damage.buffer, damage.buffer_bytes);
  return std::optional<Fault>(std::move(fault));
}

}  // namespace

std::unique_ptr<Device> open_device(std::shared_ptr<Gpu> gpu) { return std::make_unique<CudaDevice>(std::move(gpu)); }

}  // namespace stepbench::cuda
