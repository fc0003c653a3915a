// NVIDIA's management library (see nvml.h). Signatures and numbers are those of the NVML API reference.
#include "harness/cuda/nvml.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <vector>

namespace stepbench::cuda {
namespace {

using Status = int;
using Gpu = void*;

constexpr Status kOk = 0;
constexpr int kSmClock = 1;         // NVML_CLOCK_SM
constexpr int kGpuTemperature = 0;  // NVML_TEMPERATURE_GPU

/// nvmlProcessInfo_t of the calls with suffix _v3.
struct ProcessInfo {
  unsigned pid = 0;
  unsigned long long used_bytes = 0;
  unsigned gpu_instance = 0, compute_instance = 0;
};
static_assert(sizeof(ProcessInfo) == 24);

struct Library {
  Status (*init)() = nullptr;
  Status (*shutdown)() = nullptr;
  Status (*find)(const char* uuid, Gpu* gpu) = nullptr;
  Status (*driver_version)(char* text, unsigned bytes) = nullptr;
  Status (*max_clock)(Gpu gpu, int clock, unsigned* mhz) = nullptr;
  Status (*power_limit)(Gpu gpu, unsigned* milliwatts) = nullptr;
  Status (*temperature)(Gpu gpu, int sensor, unsigned* celsius) = nullptr;
  Status (*processes)(Gpu gpu, unsigned* count, ProcessInfo* list) = nullptr;
};

bool load(Library& library) {
  void* const handle = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return false;
  bool complete = true;
  const auto bind = [&](auto& call, const char* name) {
    call = reinterpret_cast<std::decay_t<decltype(call)>>(::dlsym(handle, name));
    complete = complete && call != nullptr;
  };
  bind(library.init, "nvmlInit_v2");
  bind(library.shutdown, "nvmlShutdown");
  bind(library.find, "nvmlDeviceGetHandleByUUID");
  bind(library.driver_version, "nvmlSystemGetDriverVersion");
  bind(library.max_clock, "nvmlDeviceGetMaxClockInfo");
  bind(library.power_limit, "nvmlDeviceGetEnforcedPowerLimit");
  bind(library.temperature, "nvmlDeviceGetTemperature");
  bind(library.processes, "nvmlDeviceGetComputeRunningProcesses_v3");
  return complete;  // the library stays open: it is one per process and costs nothing
}

}  // namespace

void describe_gpu(const std::string& uuid, Environment& environment) {
  environment.gpu_uuid = uuid;
  Library library;
  if (!load(library) || library.init() != kOk) return;
  std::array<char, 96> version{};
  if (library.driver_version(version.data(), static_cast<unsigned>(version.size() - 1)) == kOk)
    environment.driver = version.data();
  Gpu gpu = nullptr;
  if (library.find(uuid.c_str(), &gpu) == kOk) {
    unsigned value = 0;
    if (library.max_clock(gpu, kSmClock, &value) == kOk) environment.sm_clock_mhz = value;
    if (library.power_limit(gpu, &value) == kOk) environment.power_limit_w = value / 1000.0;
    if (library.temperature(gpu, kGpuTemperature, &value) == kOk) environment.temperature_c = value;
    std::vector<ProcessInfo> processes(256);
    auto count = static_cast<unsigned>(processes.size());
    if (library.processes(gpu, &count, processes.data()) == kOk) {
      processes.resize(std::min<size_t>(count, processes.size()));
      const auto self = static_cast<unsigned>(::getpid());
      environment.other_processes = static_cast<int32_t>(std::count_if(
          processes.begin(), processes.end(), [&](const ProcessInfo& process) { return process.pid != self; }));
    }
  }
  static_cast<void>(library.shutdown());
}

}  // namespace stepbench::cuda
