// NVIDIA's driver library by dlopen (see driver.h).
#include "harness/cuda/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace stepbench::cuda {
namespace {

constexpr int kOldestVersion = 12000;  // cuLaunchKernelEx and cluster attributes, and kernels made for sm_90a
constexpr const char* kLibrary = "libcuda.so.1";

/// Fetches one call after the other; the first that is missing is remembered.
struct Binder {
  void* library = nullptr;
  const char* missing = nullptr;

  template <class Call>
  void bind(Call& call, const char* name) {
    call = reinterpret_cast<Call>(::dlsym(library, name));
    if (call == nullptr && missing == nullptr) missing = name;
  }
};

Error unavailable(std::string message, std::string expected, std::string found) {
  return Error{ErrorCode::kUnavailable, std::move(message), "cuda", std::move(expected), std::move(found)};
}

}  // namespace

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

std::string status_text(const Driver& driver, Status status) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver.get_error_name(status, &name) != kSuccess || name == nullptr) return fmt::format("error {}", status);
  if (driver.get_error_string(status, &text) != kSuccess || text == nullptr) return name;
  return fmt::format("{}: {}", name, text);
}

Result<std::shared_ptr<const Driver>> load_driver() {
  void* library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = ::dlerror();
    return unavailable("there is no NVIDIA driver on this machine", kLibrary, reason == nullptr ? "" : reason);
  }
  const auto driver = std::make_shared<Driver>();
  Binder binder{library};
  // The version first: a driver that is too old lacks calls, and that is what to say of it.
  binder.bind(driver->driver_get_version, "cuDriverGetVersion");
  if (binder.missing != nullptr || driver->driver_get_version(&driver->version) != kSuccess)
    return unavailable("the NVIDIA driver does not tell its version", "cuDriverGetVersion", kLibrary);
  if (driver->version < kOldestVersion)
    return unavailable("the NVIDIA driver is too old", "CUDA " + version_text(kOldestVersion) + " or later",
                       "CUDA " + version_text(driver->version));
  binder.bind(driver->init, "cuInit");
  binder.bind(driver->get_error_name, "cuGetErrorName");
  binder.bind(driver->get_error_string, "cuGetErrorString");
  binder.bind(driver->device_get_count, "cuDeviceGetCount");
  binder.bind(driver->device_get, "cuDeviceGet");
  binder.bind(driver->device_get_name, "cuDeviceGetName");
  binder.bind(driver->device_get_uuid, "cuDeviceGetUuid_v2");
  binder.bind(driver->device_get_attribute, "cuDeviceGetAttribute");
  binder.bind(driver->device_total_memory, "cuDeviceTotalMem_v2");
  binder.bind(driver->primary_context_retain, "cuDevicePrimaryCtxRetain");
  binder.bind(driver->primary_context_release, "cuDevicePrimaryCtxRelease_v2");
  binder.bind(driver->context_set_current, "cuCtxSetCurrent");
  binder.bind(driver->context_synchronize, "cuCtxSynchronize");
  binder.bind(driver->memory_get_info, "cuMemGetInfo_v2");
  binder.bind(driver->memory_granularity, "cuMemGetAllocationGranularity");
  binder.bind(driver->address_reserve, "cuMemAddressReserve");
  binder.bind(driver->address_free, "cuMemAddressFree");
  binder.bind(driver->memory_create, "cuMemCreate");
  binder.bind(driver->memory_release, "cuMemRelease");
  binder.bind(driver->memory_map, "cuMemMap");
  binder.bind(driver->memory_unmap, "cuMemUnmap");
  binder.bind(driver->memory_set_access, "cuMemSetAccess");
  binder.bind(driver->copy_to_device, "cuMemcpyHtoD_v2");
  binder.bind(driver->copy_to_host, "cuMemcpyDtoH_v2");
  binder.bind(driver->fill_u8, "cuMemsetD8_v2");
  binder.bind(driver->fill_u16, "cuMemsetD16_v2");
  binder.bind(driver->fill_u32, "cuMemsetD32_v2");
  binder.bind(driver->module_load, "cuModuleLoadDataEx");
  binder.bind(driver->module_unload, "cuModuleUnload");
  binder.bind(driver->module_get_function, "cuModuleGetFunction");
  binder.bind(driver->function_get_attribute, "cuFuncGetAttribute");
  binder.bind(driver->function_set_attribute, "cuFuncSetAttribute");
  binder.bind(driver->launch, "cuLaunchKernelEx");
  binder.bind(driver->stream_query, "cuStreamQuery");
  binder.bind(driver->stream_synchronize, "cuStreamSynchronize");
  binder.bind(driver->stream_create, "cuStreamCreate");
  binder.bind(driver->stream_destroy, "cuStreamDestroy_v2");
  binder.bind(driver->stream_begin_capture, "cuStreamBeginCapture_v2");
  binder.bind(driver->stream_end_capture, "cuStreamEndCapture");
  binder.bind(driver->graph_instantiate, "cuGraphInstantiateWithFlags");
  binder.bind(driver->graph_update, "cuGraphExecUpdate_v2");
  binder.bind(driver->graph_upload, "cuGraphUpload");
  binder.bind(driver->graph_launch, "cuGraphLaunch");
  binder.bind(driver->graph_exec_destroy, "cuGraphExecDestroy");
  binder.bind(driver->graph_destroy, "cuGraphDestroy");
  binder.bind(driver->event_create, "cuEventCreate");
  binder.bind(driver->event_record, "cuEventRecord");
  binder.bind(driver->event_elapsed_ms, "cuEventElapsedTime");
  binder.bind(driver->event_destroy, "cuEventDestroy_v2");
  binder.bind(driver->copy_to_device_async, "cuMemcpyHtoDAsync_v2");
  binder.bind(driver->copy_to_host_async, "cuMemcpyDtoHAsync_v2");
  binder.bind(driver->copy_on_device, "cuMemcpyDtoDAsync_v2");
  binder.bind(driver->allocate, "cuMemAlloc_v2");
  binder.bind(driver->free, "cuMemFree_v2");
  binder.bind(driver->host_allocate, "cuMemHostAlloc");
  binder.bind(driver->host_free, "cuMemFreeHost");
  binder.bind(driver->host_device_address, "cuMemHostGetDevicePointer_v2");
  // The one call that a candidate may do without.
  Binder optional{library};
  optional.bind(driver->tensor_map_encode_tiled, "cuTensorMapEncodeTiled");
  if (binder.missing != nullptr)
    return unavailable("the NVIDIA driver lacks a call", binder.missing, "CUDA " + version_text(driver->version));
  if (const Status status = driver->init(0); status == kNoDevice)
    return unavailable("the NVIDIA driver finds no GPU", "", "");
  else if (status != kSuccess)
    return unavailable("the NVIDIA driver does not start", "", "cuInit: " + status_text(*driver, status));
  return std::shared_ptr<const Driver>(driver);
}

}  // namespace stepbench::cuda
