// The GPU, its lock and its context (see gpu.h).
#include "harness/cuda/gpu.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "harness/cuda/gemm.h"
#include "harness/cuda/guard_kernel.h"
#include "harness/own_kernels.h"

namespace stepbench::cuda {
namespace {

constexpr auto kLockPoll = std::chrono::milliseconds(50);
constexpr auto kLockLimit = std::chrono::hours(2);
constexpr int kLargeParametersVersion = 12010;  // 32,764 bytes of kernel parameters: CUDA 12.1, sm_70 and later

/// The compile target: code for one chip only ("a") where there are such instructions.
std::string arch_of(int major, int minor) { return fmt::format("sm_{}{}{}", major, minor, major >= 9 ? "a" : ""); }

}  // namespace

bool is_sticky(Status status) {
  switch (status) {
    case kEccUncorrectable:
    case kIllegalAddress:
    case kLaunchTimeout:
    case kAssert:
    case kHardwareStackError:
    case kIllegalInstruction:
    case kMisalignedAddress:
    case kInvalidAddressSpace:
    case kInvalidPc:
    case kLaunchFailed:
    case kUnknown: return true;
    default: return false;
  }
}

Result<void> Gpu::check(Status status, const char* call, const std::string& what) {
  if (status == kSuccess) return {};
  if (is_sticky(status)) lost_ = true;
  const ErrorCode code = status == kOutOfMemory ? ErrorCode::kResource
                         : is_sticky(status)    ? ErrorCode::kUnavailable
                                                : ErrorCode::kInternal;
  return Error{code, "a call of the NVIDIA driver failed", what.empty() ? call : fmt::format("{}, {}", call, what), "",
               status_text(*driver_, status)};
}

Result<std::shared_ptr<Gpu>> Gpu::open() {
  Result<std::shared_ptr<const Driver>> driver = load_driver();
  if (!driver.ok()) return driver.error();
  std::shared_ptr<Gpu> gpu(new Gpu());
  gpu->driver_ = std::move(driver.value());
  if (const Result<void> described = gpu->describe(); !described.ok()) return described.error();
  return gpu;
}

Result<void> Gpu::describe() {
  int count = 0;
  if (const Result<void> done = check(driver_->device_get_count(&count), "cuDeviceGetCount"); !done.ok()) return done;
  if (count < 1) return Error{ErrorCode::kUnavailable, "the NVIDIA driver finds no GPU", "cuda", "", ""};
  if (const Result<void> done = check(driver_->device_get(&device_, 0), "cuDeviceGet"); !done.ok()) return done;
  std::array<char, 256> name{};
  Uuid uuid{};
  size_t memory_bytes = 0;
  for (const Result<void>& done :
       {check(driver_->device_get_name(name.data(), static_cast<int>(name.size() - 1), device_), "cuDeviceGetName"),
        check(driver_->device_get_uuid(&uuid, device_), "cuDeviceGetUuid"),
        check(driver_->device_total_memory(&memory_bytes, device_), "cuDeviceTotalMem")})
    if (!done.ok()) return done;

  Result<void> failed;
  const auto attribute = [&](int number) {
    int value = 0;
    const Result<void> done = check(driver_->device_get_attribute(&value, number, device_), "cuDeviceGetAttribute",
                                    fmt::format("attribute {}", number));
    if (!done.ok() && failed.ok()) failed = done;
    return value;
  };
  const int major = attribute(kComputeCapabilityMajor), minor = attribute(kComputeCapabilityMinor);
  info_.sms = attribute(kMultiprocessorCount);
  info_.max_threads_per_block = attribute(kMaxThreadsPerBlock);
  info_.max_shared_bytes = attribute(kMaxSharedPerBlockOptIn);
  info_.max_static_shared_bytes = attribute(kMaxSharedPerBlock);
  info_.max_parameter_bytes = driver_->version >= kLargeParametersVersion && major >= 7 ? 32764 : 4096;
  for (int axis = 0; axis < 3; ++axis) {
    info_.max_block[static_cast<size_t>(axis)] = attribute(kMaxBlockDimX + axis);
    info_.max_grid[static_cast<size_t>(axis)] = attribute(kMaxGridDimX + axis);
  }
  info_.l2_bytes = static_cast<uint64_t>(std::max(attribute(kL2CacheBytes), 0));
  info_.memory_bytes = memory_bytes;
  info_.has_clock = true;
  const bool can_map = attribute(kVirtualMemorySupported) != 0;
  if (!failed.ok()) return failed;
  if (!can_map)
    return Error{ErrorCode::kUnavailable, "the GPU cannot map memory at chosen addresses, which the guards need",
                 "cuda", "virtual memory management", name.data()};
  info_.name = name.data();
  info_.arch = arch_of(major, minor);
  info_.detail = fmt::format("compute capability {}.{}, {} multiprocessors, {} MiB, driver for CUDA {}", major, minor,
                             info_.sms, memory_bytes >> 20, version_text(driver_->version));
  const char* const folder = std::getenv("STEPBENCH_LOCKS");  // where containers that share a GPU share no /tmp
  lock_path_ = fmt::format("{}/stepbench-gpu-", folder != nullptr && *folder != 0 ? folder : "/tmp");
  uuid_ = "GPU";
  for (size_t i = 0; i < sizeof(uuid.bytes); ++i) {
    lock_path_ += fmt::format("{:02x}", uuid.bytes[i]);
    const bool starts_group = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
    uuid_ += fmt::format("{}{:02x}", starts_group ? "-" : "", uuid.bytes[i]);
  }
  lock_path_ += ".lock";
  return {};
}

/// The lock is a file that every user of the machine can open; it goes with the process, however that ends.
Result<void> Gpu::lock(const std::function<void()>& on_wait) {
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW;
  lock_descriptor_ = ::open(lock_path_.c_str(), kFlags);
  if (lock_descriptor_ < 0 && errno == ENOENT) lock_descriptor_ = ::open(lock_path_.c_str(), kFlags | O_CREAT, 0644);
  if (lock_descriptor_ < 0)
    return Error{ErrorCode::kIo, "the lock file of the GPU cannot be opened", lock_path_, "", std::strerror(errno)};
  const auto deadline = std::chrono::steady_clock::now() + kLockLimit;
  for (bool told = false;; told = true) {
    if (::flock(lock_descriptor_, LOCK_EX | LOCK_NB) == 0) return {};
    if (errno != EWOULDBLOCK && errno != EINTR)
      return Error{ErrorCode::kIo, "the GPU cannot be locked", lock_path_, "", std::strerror(errno)};
    if (!told && on_wait) on_wait();
    if (std::chrono::steady_clock::now() > deadline)
      return Error{ErrorCode::kUnavailable, "another evaluation has kept the GPU for two hours", lock_path_, "", ""};
    std::this_thread::sleep_for(kLockPoll);
  }
}

Result<void> Gpu::start(const std::function<void()>& on_wait) {
  if (lost_ || context_ != nullptr) return ready();
  if (lock_descriptor_ < 0)
    if (const Result<void> locked = lock(on_wait); !locked.ok()) return locked;
  if (const Result<void> done = check(driver_->primary_context_retain(&context_, device_), "cuDevicePrimaryCtxRetain");
      !done.ok())
    return done;
  if (const Result<void> done = ready(); !done.ok()) return done;
  AllocationProperties properties;
  properties.location.id = device_;
  ModuleHandle module = nullptr;  // lives as long as the context
  for (const auto& step : std::initializer_list<std::function<Result<void>()>>{
           [&] {
             return check(driver_->memory_granularity(&granule_bytes_, &properties, 0),
                          "cuMemGetAllocationGranularity");
           },
           [&] {
             return check(driver_->module_load(&module, kGuardKernelPtx, 0, nullptr, nullptr), "cuModuleLoadDataEx",
                          kGuardKernelName);
           },
           [&] {
             return check(driver_->module_get_function(&guard_kernel_, module, kGuardKernelName), "cuModuleGetFunction",
                          kGuardKernelName);
           }})
    if (const Result<void> done = step(); !done.ok()) return done;
  return {};
}

Result<void> Gpu::ready() {
  if (lost_)
    return Error{ErrorCode::kUnavailable, "the device was lost to the fault above", "cuda",
                 "a new process: a fault ends the GPU's context", ""};
  return check(driver_->context_set_current(context_), "cuCtxSetCurrent");
}

Result<void> Gpu::use_own_kernels(const CompiledModule& compiled) {
  if (stopwatch_ != nullptr) return ready();
  if (const Result<void> usable = ready(); !usable.ok()) return usable;
  ModuleHandle module = nullptr;  // lives as long as the context
  Status status = kNoBinaryForGpu;
  if (!compiled.cubin.empty()) status = driver_->module_load(&module, compiled.cubin.data(), 0, nullptr, nullptr);
  if (status != kSuccess) status = driver_->module_load(&module, compiled.ptx.c_str(), 0, nullptr, nullptr);
  if (const Result<void> done = check(status, "cuModuleLoadDataEx", "own kernels"); !done.ok()) return done;
  for (const auto& [function, name] :
       {std::pair(&own_kernels_.generate, own_kernel::kGenerate),
        std::pair(&own_kernels_.generate_all, own_kernel::kGenerateAll),
        std::pair(&own_kernels_.read, own_kernel::kRead), std::pair(&own_kernels_.copy_pieces, own_kernel::kCopyPieces),
        std::pair(&own_kernels_.copy, own_kernel::kCopy), std::pair(&own_kernels_.gate, own_kernel::kGate),
        std::pair(&own_kernels_.probe, own_kernel::kProbe), std::pair(&own_kernels_.fma, own_kernel::kFma),
        std::pair(&own_kernels_.nothing, own_kernel::kNothing)})
    if (const Result<void> done =
            check(driver_->module_get_function(function, module, name), "cuModuleGetFunction", name);
        !done.ok())
      return done;
  Result<std::unique_ptr<Stopwatch>> watch = Stopwatch::open(*this, own_kernels_, info_.l2_bytes);
  if (!watch.ok()) return watch.error();
  stopwatch_ = std::move(watch.value());
  return {};
}

const OwnKernels& Gpu::own_kernels() const {
  SB_ASSERT(stopwatch_ != nullptr);
  return own_kernels_;
}

Stopwatch& Gpu::stopwatch() {
  SB_ASSERT(stopwatch_ != nullptr);
  return *stopwatch_;
}

Result<Gemm*> Gpu::gemm() {
  if (gemm_ == nullptr) {
    Result<std::unique_ptr<Gemm>> opened = Gemm::open(*this);
    if (!opened.ok()) return opened.error();
    gemm_ = std::move(opened.value());
  }
  return gemm_.get();
}

Result<void> Gpu::copy(CopyDirection direction, std::span<const HostCopy> copies) {
  if (copies_ == nullptr) {
    Result<std::unique_ptr<CopyLanes>> opened = CopyLanes::open(*this);
    if (!opened.ok()) return opened.error();
    copies_ = std::move(opened.value());
  }
  return copies_->run(direction, copies, own_kernels_.copy_pieces);
}

Gpu::~Gpu() {
  copies_.reset();
  gemm_.reset();
  stopwatch_.reset();
  if (context_ != nullptr) mappings_.clear();
  if (context_ != nullptr && !lost_) driver_->primary_context_release(device_);
  if (lock_descriptor_ >= 0) ::close(lock_descriptor_);
}

}  // namespace stepbench::cuda
