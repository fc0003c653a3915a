// Devices by name. The one place that knows which devices this build has.
#include "harness/cuda/cuda_device.h"
#include "harness/cuda/nvml.h"
#include "harness/cuda/stopwatch.h"
#include "harness/device.h"
#include "harness/ptx_vm/vm_device.h"

namespace stepbench {

using OpenResult = Result<std::unique_ptr<Device>>;

Result<DeviceSource> device_source(const std::string& name, std::function<void()> on_wait) {
  if (name == "vm" || name == "vm:check") {
    vm::VmOptions options;
    options.check_races = name == "vm:check";
    return DeviceSource{vm::open_vm(options)->info(), [options]() -> OpenResult { return vm::open_vm(options); }, false,
                        nullptr, nullptr};
  }
  if (name == "cuda") {
    Result<std::shared_ptr<cuda::Gpu>> found = cuda::Gpu::open();
    if (!found.ok()) return found.error();
    const std::shared_ptr<cuda::Gpu> gpu = found.value();
    const auto open = [gpu, on_wait]() -> OpenResult {
      if (const Result<void> started = gpu->start(on_wait); !started.ok()) return started.error();
      return cuda::open_device(gpu);
    };
    const auto calibrate = [gpu, on_wait](const CompiledModule& own_kernels) -> Result<Calibration> {
      if (const Result<void> started = gpu->start(on_wait); !started.ok()) return started.error();
      if (const Result<void> loaded = gpu->use_own_kernels(own_kernels); !loaded.ok()) return loaded.error();
      return cuda::calibrate(*gpu, gpu->own_kernels(), gpu->stopwatch());
    };
    const auto describe = [gpu](Environment& environment) { cuda::describe_gpu(gpu->uuid(), environment); };
    return DeviceSource{gpu->info(), open, true, calibrate, describe};
  }
  return Error{ErrorCode::kUsage, "unknown device", "device", "vm, vm:check or cuda", name};
}

Result<std::unique_ptr<Device>> open_device(const std::string& name) {
  const Result<DeviceSource> source = device_source(name, nullptr);
  if (!source.ok()) return source.error();
  return source.value().open();
}

}  // namespace stepbench
