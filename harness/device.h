// Device: the one interface between the harness and what runs kernels. Two implementations: the PTX VM
// (ptx_vm/vm_device.cc) and NVIDIA GPUs (cuda/cuda_device.cc). About a dozen calls; anything else belongs in a stage.
//
// Ownership: a Device owns its modules and buffers and releases them when destroyed. Instances are
// independent; one instance is used by one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/generate.h"
#include "harness/model.h"
#include "harness/result.h"

namespace stepbench {

struct DeviceInfo {
  std::string name;  ///< "vm" or the GPU's name
  std::string detail;
  bool has_clock = false;  ///< the VM has none and never reports a time
  int32_t sms = 132;       ///< `sms` in plan expressions
  int32_t max_threads_per_block = 1024;
  int32_t max_shared_bytes = 232448;  ///< 227 KiB, dynamic + static, Hopper
  int32_t max_static_shared_bytes = 49152;
  int32_t max_parameter_bytes = 32764;  ///< PTX ISA 8.1+, sm_70+
  std::array<int64_t, 3> max_grid{2147483647, 65535, 65535};
  std::array<int64_t, 3> max_block{1024, 1024, 64};
  std::string arch = "sm_90a";  ///< what to compile for
  uint64_t memory_bytes = 0;    ///< for buffers, in all; 0: the host's, and lists of real size are left out
  uint64_t l2_bytes = 0;        ///< 0 without a cache
};

struct ModuleId {
  uint32_t value = 0;
};
struct BufferId {
  uint32_t value = 0;
};

struct AllocationSpec {
  uint64_t bytes = 0;         ///< may be 0: a valid, unique address that nothing may be read from
  uint32_t offset_bytes = 0;  ///< address = 256-byte aligned base + this
  bool read_only = false;     ///< a store by a kernel is a fault
  std::string label;          ///< "param[3]", "scratch.partial": used in fault messages
};

/// One of many copies at a time; the range lies in the buffer.
struct WriteRequest {
  BufferId buffer;
  uint64_t offset_bytes = 0;
  std::span<const std::byte> bytes;
};
struct ReadRequest {
  BufferId buffer;
  uint64_t offset_bytes = 0;
  std::span<std::byte> bytes;
};

/// One of many buffers to be filled at a time.
struct GenerateRequest {
  BufferId buffer;
  GenerateSpec spec;
};

enum class ScalarKind : uint8_t { kInteger, kFloat, kBytes };

/// One kernel parameter as the PTX declares it.
struct KernelParameter {
  ScalarKind kind = ScalarKind::kInteger;
  uint32_t offset_bytes = 0;
  uint32_t bytes = 0;  ///< 1, 2, 4, 8, or the size of a by-value struct
  uint32_t align_bytes = 0;
};

struct KernelInfo {
  std::string entry;
  std::vector<KernelParameter> parameters;
  uint32_t parameter_bytes = 0;
  int32_t max_threads = 1024;  ///< from .maxntid / .reqntid, else the device's limit
  bool exact_threads = false;  ///< .reqntid
  uint32_t static_shared_bytes = 0;
};

/// One of the matrices of a product.
struct GemmOperand {
  uint64_t address = 0;
  int64_t stride = 0;  ///< elements from one matrix of the batch to the next
};

/// A product that the device computes itself (PlanGemm), sums in fp32. Sizes and batch are above 0; c is read only
/// where beta is not 0.
struct GemmSpec {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  bool transpose_a = false, transpose_b = false;
  DType inputs = DType::kF32, output = DType::kF32;
  float alpha = 1, beta = 0;
  GemmOperand a, b, c, d;
};

/// Order of 16-byte pieces in shared memory, repeated every so many bytes of the innermost dimension.
enum class TensorMapSwizzle : uint8_t { kNone, k32B, k64B, k128B };
/// What a load into L2 is widened to.
enum class TensorMapL2 : uint8_t { kNone, k64B, k128B, k256B };

/// A view of memory for the tensor memory accelerator (TMA): what cuTensorMapEncodeTiled of the CUDA driver API takes,
/// innermost dimension first. The caller has checked it (check_tensor_map in plan_tensor_map.h).
struct TensorMapSpec {
  static constexpr size_t kMaxRank = 5;
  uint64_t address = 0;  ///< of element (0, 0, ...)
  DType dtype = DType::kF32;
  int32_t rank = 1;
  std::array<uint64_t, kMaxRank> dims{};               ///< elements
  std::array<uint64_t, kMaxRank - 1> strides_bytes{};  ///< from one element of dimension i + 1 to the next
  std::array<uint32_t, kMaxRank> box{};                ///< what one instruction moves, in elements of the view
  std::array<uint32_t, kMaxRank> element_strides{1, 1, 1, 1, 1};
  TensorMapSwizzle swizzle = TensorMapSwizzle::kNone;
  TensorMapL2 l2 = TensorMapL2::kNone;
  bool nan_outside = false;  ///< elements outside of dims read as NaN instead of 0
};
/// What a kernel gets of it: opaque, aligned to 64 bytes. All zero: no map.
using TensorMapBytes = std::array<std::byte, 128>;

struct LaunchSpec {
  ModuleId module;
  std::string entry;
  std::array<int64_t, 3> grid{1, 1, 1};
  std::array<int64_t, 3> block{1, 1, 1};
  std::array<int64_t, 3> cluster{1, 1, 1};
  uint32_t shared_bytes = 0;  ///< dynamic
  std::span<const std::byte> parameters;
  std::optional<GemmSpec> gemm{};  ///< set: this product instead of a kernel; module, grid and parameters mean nothing
};

enum class FaultKind : uint8_t {
  kOutOfBounds,
  kReadOnlyWrite,
  kMisaligned,
  kUninitializedRead,
  kRace,
  kBarrierDivergence,
  kBudget,  ///< instruction budget used up: endless loop
  kDeadlock,
  kTrap,
  kInvalidLaunch,
  kUnsupported,
};

/// A defect the device saw while running a candidate. Data, not an error.
struct Fault {
  FaultKind kind = FaultKind::kTrap;
  std::string message;  ///< one sentence with address, size, buffer
  std::string kernel;
  int32_t ptx_line = 0;     ///< 1-based; 0 unknown
  int32_t source_line = 0;  ///< 1-based line of the author's file by .loc; 0 unknown
  std::array<uint32_t, 3> block{}, thread{};
  std::string buffer;       ///< label of the nearest allocation; empty when none
  int64_t byte_offset = 0;  ///< from that allocation's start
  uint32_t access_bytes = 0;
  bool thread_known = true;  ///< `block` and `thread` say something; a GPU does not tell
};

struct LaunchReport {
  std::optional<Fault> fault;
  Counters counters;  ///< of this launch
};

/// One optimizer step between two marks of the device's clock.
struct TimedReport {
  std::optional<Fault> fault;  ///< the times mean nothing then
  uint64_t launches = 0;
  double event_ns = 0;    ///< the launches alone
  double counter_ns = 0;  ///< the same by the device's own nanosecond counter, with the gaps around it
  double sm_mhz = 0;      ///< right after
  bool as_graph = false;  ///< submitted as one graph
};

class Device {
 public:
  virtual ~Device() = default;

  virtual DeviceInfo info() const = 0;

  /// Loads compiled code. Failure (`unsupported`) when the device cannot run an instruction: names the
  /// PTX line and, when known, the source line.
  virtual Result<Judged<ModuleId>> load(const CompiledModule& module) = 0;
  virtual void unload(ModuleId module) = 0;
  /// kNotFound when the module has no such entry.
  virtual Result<KernelInfo> kernel(ModuleId module, const std::string& entry) = 0;

  virtual Result<BufferId> allocate(const AllocationSpec& spec) = 0;
  virtual void release(BufferId buffer) = 0;
  virtual uint64_t address(BufferId buffer) const = 0;
  /// Host to device; marks the bytes initialised. Range must lie in the buffer (asserted).
  virtual Result<void> write(BufferId buffer, uint64_t offset_bytes, std::span<const std::byte> bytes) = 0;
  /// Device to host. Reading bytes that nobody initialised gives the poison pattern.
  virtual Result<void> read(BufferId buffer, uint64_t offset_bytes, std::span<std::byte> bytes) = 0;
  /// The same for many ranges, which do not overlap; a device with a price for each copy does them at one go. After a
  /// failure nothing is known of any of them.
  virtual Result<void> write_all(std::span<const WriteRequest> requests) {
    for (const WriteRequest& request : requests)
      if (const Result<void> done = write(request.buffer, request.offset_bytes, request.bytes); !done.ok()) return done;
    return {};
  }
  virtual Result<void> read_all(std::span<const ReadRequest> requests) {
    for (const ReadRequest& request : requests)
      if (const Result<void> done = read(request.buffer, request.offset_bytes, request.bytes); !done.ok()) return done;
    return {};
  }
  /// Fills the whole buffer with a pattern drawn from `seed` (signalling-NaN like) and marks it
  /// uninitialised, so that a read of it before a write is a fault where the device can tell.
  virtual Result<void> poison(BufferId buffer, uint64_t seed) = 0;

  /// Fills the buffer as `generated_values` does on the host (generate.h), bit for bit, without sending it. Devices
  /// that can do it themselves need their own kernels first.
  virtual Result<void> generate(BufferId buffer, const GenerateSpec& spec) {
    return write(buffer, 0, generated_values(spec, 0, spec.count));
  }
  /// The same for many different buffers, at one go where each has its price.
  virtual Result<void> generate_all(std::span<const GenerateRequest> requests) {
    for (const GenerateRequest& request : requests)
      if (const Result<void> done = generate(request.buffer, request.spec); !done.ok()) return done;
    return {};
  }
  /// The harness's own kernels (own_kernels.h), once per device: for `generate` and `time_step`. Devices that need none
  /// ignore them.
  virtual Result<void> use_own_kernels(const CompiledModule& module) {
    static_cast<void>(module);
    return {};
  }

  /// The descriptor of a view, for a kernel's parameter. kInvalidInput when the device refuses its values, kUnsupported
  /// when it has no such thing.
  virtual Result<TensorMapBytes> encode_tensor_map(const TensorMapSpec& spec) {
    static_cast<void>(spec);
    return Error{ErrorCode::kUnsupported, "this device has no tensor maps", "encode_tensor_map", "", info().name};
  }

  /// Runs one launch to completion. A candidate's defect is in LaunchReport::fault; after a fault the
  /// device's buffers are undefined; the VM stays usable, a GPU is lost and answers kUnavailable from then on.
  virtual Result<LaunchReport> launch(const LaunchSpec& spec) = 0;

  /// Called after the launches of a step that had no fault: a defect that only shows afterwards, like overwritten
  /// bytes between buffers. Devices that see every access have none.
  virtual Result<std::optional<Fault>> end_of_step() { return std::optional<Fault>(); }

  /// Runs all launches of a step, in order and to completion, with a cold cache, and times them; what submits them is
  /// not timed. Many launches are submitted as one graph; the same span again (same address and size) reuses it.
  /// kUnsupported on devices without a clock.
  virtual Result<TimedReport> time_step(std::span<const LaunchSpec> launches) {
    static_cast<void>(launches);
    return Error{ErrorCode::kUnsupported, "this device has no clock", "time_step", "a GPU", info().name};
  }

  /// Budget of each later launch in warp instructions. A GPU, which cannot count them, allows 100 ns for each, and
  /// one second at least.
  virtual void set_budget(uint64_t units) = 0;
};

/// Fresh devices of one kind. Those of a GPU share its context and an exclusive lock on it, taken when the first is
/// opened and given back with the last and the source; and a fault in one loses all.
struct DeviceSource {
  DeviceInfo info;
  std::function<Result<std::unique_ptr<Device>>()> open;
  bool one_at_a_time = false;  ///< devices of this source must not be used by several threads at once
  /// Measures the rates of the device with the harness's own kernels; empty where there is no clock.
  std::function<Result<Calibration>(const CompiledModule& own_kernels)> calibrate;
  /// Fills the environment's fields about the device as it is now: driver, clocks, temperature, other processes.
  std::function<void(Environment&)> describe;
};
/// By name: "vm", "vm:check" (looks for races too) or "cuda" (the first GPU). `on_wait` (may be empty) is called once
/// when another process holds the lock. kUsage for an unknown name, kUnavailable when it is not on this machine.
Result<DeviceSource> device_source(const std::string& name, std::function<void()> on_wait);
/// One device by name.
Result<std::unique_ptr<Device>> open_device(const std::string& name);

}  // namespace stepbench
