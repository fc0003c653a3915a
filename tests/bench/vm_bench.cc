// Speed of the VM, all checks on: optimizer steps per second and launches per second. Figures of this machine only;
// they are no evidence about a GPU.
#include <benchmark/benchmark.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "harness/device.h"

namespace stepbench {
namespace {

std::string read_file(const std::string& name) {
  std::ifstream file(std::string(STEPBENCH_SOURCE_ROOT) + "/tests/vm/ptx/" + name);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

struct Setup {
  std::unique_ptr<Device> device;
  ModuleId module;
  std::vector<BufferId> buffers;
  std::vector<std::byte> parameters;
};

template <class T>
void add_parameter(std::vector<std::byte>& bytes, T value) {
  bytes.resize((bytes.size() + sizeof(T) - 1) / sizeof(T) * sizeof(T));
  const size_t at = bytes.size();
  bytes.resize(at + sizeof(T));
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

Setup adamw(const std::string& kernel, int n, const std::string& device_name) {
  Setup setup;
  setup.device = std::move(open_device(device_name).value());
  CompiledModule compiled;
  compiled.ptx = read_file(kernel + ".ptx");
  const Judged<ModuleId> loaded = setup.device->load(compiled).value();
  SB_ASSERT(loaded.ok());
  setup.module = *loaded.value;
  for (int b = 0; b < 4; ++b) {
    AllocationSpec spec;
    spec.bytes = static_cast<uint64_t>(n) * 4;
    spec.label = "buffer";
    const BufferId buffer = setup.device->allocate(spec).value();
    std::vector<float> values(static_cast<size_t>(n));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(i % 1000) * 1e-3f + (b == 3 ? 0.0f : -0.5f);
    SB_ASSERT(setup.device->write(buffer, 0, std::as_bytes(std::span<const float>(values))).ok());
    setup.buffers.push_back(buffer);
    add_parameter(setup.parameters, setup.device->address(buffer));
  }
  add_parameter(setup.parameters, n);
  for (const float scalar : {1e-3f, 0.9f, 0.999f, 1e-8f, 0.01f, 0.1f, 0.03f}) add_parameter(setup.parameters, scalar);
  return setup;
}

void run_adamw(benchmark::State& state, const std::string& kernel, int per_thread, const std::string& device_name) {
  const int n = static_cast<int>(state.range(0));
  Setup setup = adamw(kernel, n, device_name);
  LaunchSpec spec;
  spec.module = setup.module;
  spec.entry = kernel;
  spec.block = {256, 1, 1};
  spec.grid = {(n + 256 * per_thread - 1) / (256 * per_thread), 1, 1};
  spec.parameters = setup.parameters;
  uint64_t instructions = 0;
  for (auto _ : state) {
    const LaunchReport report = setup.device->launch(spec).value();
    SB_ASSERT(!report.fault.has_value());
    instructions += report.counters.warp_instructions;
  }
  state.counters["warp_inst/s"] = benchmark::Counter(static_cast<double>(instructions), benchmark::Counter::kIsRate);
  state.SetItemsProcessed(state.iterations() * n);
}

void BM_AdamwScalar(benchmark::State& state) { run_adamw(state, "adamw_scalar", 1, "vm"); }
void BM_AdamwFloat4(benchmark::State& state) { run_adamw(state, "adamw_float4", 4, "vm"); }
void BM_AdamwFloat4RaceCheck(benchmark::State& state) { run_adamw(state, "adamw_float4", 4, "vm:check"); }
// One optimizer step: 1,000 of them take as many seconds as one shows milliseconds.
BENCHMARK(BM_AdamwScalar)->Arg(65536)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_AdamwFloat4)->Arg(65536)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_AdamwFloat4RaceCheck)->Arg(65536)->Unit(benchmark::kMillisecond);
// Launch overhead: one block of one warp's work.
BENCHMARK(BM_AdamwScalar)->Name("BM_TinyLaunch")->Arg(32)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace stepbench
