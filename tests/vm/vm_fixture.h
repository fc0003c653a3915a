// What the VM's execution tests share: a device, buffers with typed contents, PTX by body, parameters packed.
#pragma once

#include <catch2/catch.hpp>

#include <cstring>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "harness/device.h"

namespace stepbench::vm_test {

inline std::string read_ptx(const std::string& name) {
  std::ifstream file(std::string(STEPBENCH_TEST_FOLDER) + "/vm/ptx/" + name);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// PTX with one kernel "k" around `body`. Line 1 of the body is PTX line kBodyLine.
inline constexpr int kBodyLine = 10;
inline std::string kernel_ptx(const std::string& parameters, const std::string& body,
                              const std::string& module_scope = "") {
  return ".version 8.0\n.target sm_90a\n.address_size 64\n" + module_scope + "\n.visible .entry k(\n" + parameters +
         "\n)\n{\n.reg .pred %p<16>; .reg .b16 %h<16>; .reg .b32 %r<32>; .reg .f32 %f<16>; .reg .b64 %d<32>; .reg .f64 "
         "%e<8>;\n" +
         body + "\nret;\n}\n";
}

struct Parameters {
  std::vector<std::byte> bytes;
  template <class T>
  Parameters& add(T value) {
    bytes.resize((bytes.size() + sizeof(T) - 1) / sizeof(T) * sizeof(T));
    const size_t at = bytes.size();
    bytes.resize(at + sizeof(T));
    std::memcpy(bytes.data() + at, &value, sizeof(T));
    return *this;
  }
};

class Vm {
 public:
  explicit Vm(const std::string& name = "vm") : device_(std::move(open_device(name).value())) {}

  Device& device() { return *device_; }

  Judged<ModuleId> try_load(const std::string& ptx, const std::vector<std::string>& entries = {}) {
    CompiledModule compiled;
    compiled.ptx = ptx;
    for (const std::string& entry : entries) compiled.entries[entry] = entry;
    auto loaded = device_->load(compiled);
    if (!loaded.ok()) FAIL(to_text(loaded.error()));
    return loaded.value();
  }

  void load(const std::string& ptx, const std::vector<std::string>& entries = {}) {
    const Judged<ModuleId> loaded = try_load(ptx, entries);
    if (!loaded.ok()) FAIL(loaded.failure->message);
    module_ = *loaded.value;
  }

  BufferId raw(uint64_t bytes, const std::string& label = "buffer", bool read_only = false, uint32_t offset = 0) {
    AllocationSpec spec;
    spec.bytes = bytes;
    spec.label = label;
    spec.read_only = read_only;
    spec.offset_bytes = offset;
    return device_->allocate(spec).value();
  }

  template <class T>
  BufferId buffer(const std::vector<T>& values, const std::string& label = "buffer", bool read_only = false,
                  uint32_t offset = 0) {
    const BufferId id = raw(values.size() * sizeof(T), label, read_only, offset);
    REQUIRE(device_->write(id, 0, std::as_bytes(std::span<const T>(values))).ok());
    return id;
  }

  template <class T>
  std::vector<T> contents(BufferId id, size_t count) {
    std::vector<T> values(count);
    REQUIRE(device_->read(id, 0, std::as_writable_bytes(std::span<T>(values))).ok());
    return values;
  }

  uint64_t address(BufferId id) const { return device_->address(id); }

  LaunchReport launch(const std::string& entry, std::array<int64_t, 3> grid, std::array<int64_t, 3> block,
                      const Parameters& parameters, uint32_t shared_bytes = 0) {
    LaunchSpec spec;
    spec.module = module_;
    spec.entry = entry;
    spec.grid = grid;
    spec.block = block;
    spec.shared_bytes = shared_bytes;
    spec.parameters = parameters.bytes;
    auto report = device_->launch(spec);
    REQUIRE(report.ok());
    return report.value();
  }

  /// Must run without a fault.
  Counters run(const std::string& entry, std::array<int64_t, 3> grid, std::array<int64_t, 3> block,
               const Parameters& parameters, uint32_t shared_bytes = 0) {
    const LaunchReport report = launch(entry, grid, block, parameters, shared_bytes);
    if (report.fault.has_value()) {
      FAIL(report.fault->message << " at PTX line " << report.fault->ptx_line);
    }
    return report.counters;
  }

  ModuleId module() const { return module_; }

 private:
  std::unique_ptr<Device> device_;
  ModuleId module_;
};

}  // namespace stepbench::vm_test
