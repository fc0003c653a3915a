// FakeDevice: a Device in host memory for tests. Kernels are host functions by entry name; an address is a plain host
// pointer, so that a kernel may cast it (and the address sanitizer sees what runs past its end).
// It does not check accesses, initialisation or races: that is the VM's work.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/device.h"

namespace stepbench::testing {

/// Layout of parameters from short words: "ptr", "i32", "i64", "f32", "f64", "u8", "u16", "map" for a tensor
/// map, or "bytes:N" for a struct.
inline std::vector<KernelParameter> parameters_of(const std::vector<std::string>& words) {
  std::vector<KernelParameter> parameters;
  uint32_t offset = 0;
  for (const std::string& word : words) {
    KernelParameter parameter;
    if (word == "ptr" || word == "i64")
      parameter = {ScalarKind::kInteger, 0, 8, 8};
    else if (word == "i32")
      parameter = {ScalarKind::kInteger, 0, 4, 4};
    else if (word == "u16")
      parameter = {ScalarKind::kInteger, 0, 2, 2};
    else if (word == "u8")
      parameter = {ScalarKind::kInteger, 0, 1, 1};
    else if (word == "f32")
      parameter = {ScalarKind::kFloat, 0, 4, 4};
    else if (word == "f64")
      parameter = {ScalarKind::kFloat, 0, 8, 8};
    else if (word == "map")
      parameter = {ScalarKind::kBytes, 0, sizeof(TensorMapBytes), 64};
    else if (word.rfind("bytes:", 0) == 0)
      parameter = {ScalarKind::kBytes, 0, static_cast<uint32_t>(std::stoul(word.substr(6))), 4};
    else
      SB_ASSERT(false);
    offset = (offset + parameter.align_bytes - 1) / parameter.align_bytes * parameter.align_bytes;
    parameter.offset_bytes = offset;
    offset += parameter.bytes;
    parameters.push_back(parameter);
  }
  return parameters;
}

class FakeDevice : public Device {
 public:
  /// A fault stops the step as a candidate's defect would.
  using Kernel = std::function<std::optional<Fault>(const LaunchSpec&, FakeDevice&)>;

  struct Buffer {
    AllocationSpec spec;
    std::byte* storage = nullptr;  ///< 256-byte aligned; the buffer starts at storage + spec.offset_bytes
    uint64_t poisons = 0;          ///< how often poisoned
    uint64_t poison_seed = 0;      ///< of the last time
  };

  /// One launch as it arrived.
  struct Recorded {
    std::string entry;
    std::array<int64_t, 3> grid{}, block{}, cluster{};
    uint32_t shared_bytes = 0;
    std::vector<std::byte> parameters;
    std::optional<GemmSpec> gemm{};
  };

  FakeDevice() = default;
  FakeDevice(const FakeDevice&) = delete;
  FakeDevice& operator=(const FakeDevice&) = delete;
  ~FakeDevice() override {
    for (auto& [id, buffer] : buffers_) free_storage(buffer);
  }

  // ---- set up by the test
  DeviceInfo device_info{"vm", "fake", false};
  bool record_launches = true;
  Counters counters_per_launch{};  ///< what every launch reports

  void add_kernel(KernelInfo kernel_info, Kernel run = nullptr) {
    const std::string entry = kernel_info.entry;
    kernels_[entry] = {std::move(kernel_info), std::move(run)};
  }
  void add_kernel(const std::string& entry, const std::vector<std::string>& parameter_words, Kernel run = nullptr) {
    KernelInfo kernel_info;
    kernel_info.entry = entry;
    kernel_info.parameters = parameters_of(parameter_words);
    if (!kernel_info.parameters.empty())
      kernel_info.parameter_bytes = kernel_info.parameters.back().offset_bytes + kernel_info.parameters.back().bytes;
    add_kernel(std::move(kernel_info), std::move(run));
  }
  KernelInfo& kernel_info(const std::string& entry) { return kernels_.at(entry).info; }
  /// Fails every allocation from the one with this number on (0-based); -1 never.
  int64_t fail_allocation_at = -1;
  /// What encode_tensor_map answers instead of a map.
  std::optional<Error> tensor_map_error;

  // ---- looked at by the test
  std::vector<Recorded> launches;
  uint64_t launch_count = 0;
  uint64_t budget = 0;
  std::vector<TensorMapSpec> tensor_maps;  ///< as asked for; the i-th map's bytes are all i + 1
  size_t live_buffers() const { return buffers_.size(); }
  /// The buffer with this label, or null.
  const Buffer* find(const std::string& label) const {
    for (const auto& [id, buffer] : buffers_)
      if (buffer.spec.label == label) return &buffer;
    return nullptr;
  }
  /// Address of the buffer with this label; asserts that there is one.
  uint64_t address_of(const std::string& label) const {
    const Buffer* buffer = find(label);
    SB_ASSERT(buffer != nullptr);
    return start(*buffer);
  }
  /// The buffer that contains this address, or null.
  const Buffer* containing(uint64_t address) const {
    for (const auto& [id, buffer] : buffers_)
      if (address >= start(buffer) && address < start(buffer) + std::max<uint64_t>(buffer.spec.bytes, 1))
        return &buffer;
    return nullptr;
  }

  // ---- for kernels
  /// Value of the i-th parameter of a launch.
  template <class T>
  T parameter(const LaunchSpec& spec, size_t i) const {
    return parameter_of<T>(spec.entry, spec.parameters, i);
  }
  template <class T>
  T parameter(const Recorded& launch, size_t i) const {
    return parameter_of<T>(launch.entry, launch.parameters, i);
  }
  /// Device address as a host pointer.
  template <class T>
  static T* pointer(uint64_t address) {
    return reinterpret_cast<T*>(static_cast<uintptr_t>(address));
  }

  // ---- Device
  DeviceInfo info() const override { return device_info; }
  Result<Judged<ModuleId>> load(const CompiledModule&) override { return Judged<ModuleId>(ModuleId{1}); }
  void unload(ModuleId) override {}
  Result<KernelInfo> kernel(ModuleId, const std::string& entry) override {
    const auto found = kernels_.find(entry);
    if (found == kernels_.end()) return Error{ErrorCode::kNotFound, "the module has no such kernel", "", "", entry};
    return found->second.info;
  }

  Result<BufferId> allocate(const AllocationSpec& spec) override {
    if (fail_allocation_at >= 0 && allocations_ >= fail_allocation_at)
      return Error{ErrorCode::kResource, "out of device memory", spec.label, "", ""};
    ++allocations_;
    Buffer buffer;
    buffer.spec = spec;
    const size_t size = std::max<size_t>(spec.bytes + spec.offset_bytes, 1);
    buffer.storage = static_cast<std::byte*>(::operator new(size, std::align_val_t(256)));
    const uint32_t id = ++last_id_;
    buffers_[id] = buffer;
    return BufferId{id};
  }
  void release(BufferId id) override {
    free_storage(at(id));
    buffers_.erase(id.value);
  }
  uint64_t address(BufferId id) const override { return start(at(id)); }
  Result<void> write(BufferId id, uint64_t offset_bytes, std::span<const std::byte> bytes) override {
    SB_ASSERT(offset_bytes + bytes.size() <= at(id).spec.bytes);
    if (!bytes.empty()) std::memcpy(pointer<std::byte>(start(at(id))) + offset_bytes, bytes.data(), bytes.size());
    return {};
  }
  Result<void> read(BufferId id, uint64_t offset_bytes, std::span<std::byte> bytes) override {
    SB_ASSERT(offset_bytes + bytes.size() <= at(id).spec.bytes);
    if (!bytes.empty()) std::memcpy(bytes.data(), pointer<std::byte>(start(at(id))) + offset_bytes, bytes.size());
    return {};
  }
  Result<void> poison(BufferId id, uint64_t seed) override {
    Buffer& buffer = at(id);
    ++buffer.poisons;
    buffer.poison_seed = seed;
    // 0x7FA?: a signalling NaN in fp32, odd bytes everywhere else; the low byte differs from seed to seed.
    const std::byte pattern[4] = {static_cast<std::byte>(seed & 0xFF), std::byte{0x5A}, std::byte{0xA5},
                                  std::byte{0x7F}};
    std::byte* bytes = pointer<std::byte>(start(buffer));
    for (uint64_t i = 0; i < buffer.spec.bytes; ++i) bytes[i] = pattern[i % 4];
    return {};
  }
  Result<TensorMapBytes> encode_tensor_map(const TensorMapSpec& spec) override {
    if (tensor_map_error) return *tensor_map_error;
    tensor_maps.push_back(spec);
    TensorMapBytes bytes;
    bytes.fill(static_cast<std::byte>(tensor_maps.size()));
    return bytes;
  }
  Result<LaunchReport> launch(const LaunchSpec& spec) override {
    if (spec.gemm) {
      ++launch_count;
      launches.push_back({spec.entry, spec.grid, spec.block, spec.cluster, 0, {}, spec.gemm});
      return LaunchReport();
    }
    const auto found = kernels_.find(spec.entry);
    if (found == kernels_.end())
      return Error{ErrorCode::kNotFound, "the module has no such kernel", "", "", spec.entry};
    ++launch_count;
    if (record_launches)
      launches.push_back({spec.entry, spec.grid, spec.block, spec.cluster, spec.shared_bytes,
                          std::vector<std::byte>(spec.parameters.begin(), spec.parameters.end())});
    LaunchReport report;
    report.counters = counters_per_launch;
    report.counters.launches = 1;
    if (found->second.run) report.fault = found->second.run(spec, *this);
    return report;
  }
  void set_budget(uint64_t units) override { budget = units; }

 private:
  struct Entry {
    KernelInfo info;
    Kernel run;
  };

  static uint64_t start(const Buffer& buffer) {
    return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(buffer.storage)) + buffer.spec.offset_bytes;
  }
  static void free_storage(Buffer& buffer) { ::operator delete(buffer.storage, std::align_val_t(256)); }
  Buffer& at(BufferId id) {
    const auto found = buffers_.find(id.value);
    SB_ASSERT(found != buffers_.end());
    return found->second;
  }
  const Buffer& at(BufferId id) const {
    const auto found = buffers_.find(id.value);
    SB_ASSERT(found != buffers_.end());
    return found->second;
  }
  template <class T>
  T parameter_of(const std::string& entry, std::span<const std::byte> bytes, size_t i) const {
    const KernelParameter& layout = kernels_.at(entry).info.parameters.at(i);
    SB_ASSERT(layout.bytes == sizeof(T) && layout.offset_bytes + layout.bytes <= bytes.size());
    T value;
    std::memcpy(&value, bytes.data() + layout.offset_bytes, sizeof(T));
    return value;
  }

  std::map<std::string, Entry> kernels_;
  std::map<uint32_t, Buffer> buffers_;
  uint32_t last_id_ = 0;
  int64_t allocations_ = 0;
};

}  // namespace stepbench::testing
