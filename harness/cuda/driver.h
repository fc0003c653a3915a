// NVIDIA's driver library by dlopen: the calls that the CUDA device uses, with declarations of our own, and their error
// texts. Knows nothing of buffers or kernels. Signatures and numbers are those of the CUDA driver API manual, 12.0 and
// later; structures that cross the border are checked for their size below.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "harness/result.h"

namespace stepbench::cuda {

using Status = int;
using Address = unsigned long long;
using Context = void*;
using ModuleHandle = void*;
using Function = void*;
using Stream = void*;
using MemoryHandle = unsigned long long;
using Event = void*;
using Graph = void*;
using GraphExec = void*;

inline constexpr Status kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kNoDevice = 100, kInvalidImage = 200,
                        kNoBinaryForGpu = 209, kEccUncorrectable = 214, kInvalidPtx = 218, kUnsupportedPtxVersion = 222,
                        kNotFound = 500, kNotReady = 600, kIllegalAddress = 700, kLaunchOutOfResources = 701,
                        kLaunchTimeout = 702, kAssert = 710, kHardwareStackError = 714, kIllegalInstruction = 715,
                        kMisalignedAddress = 716, kInvalidAddressSpace = 717, kInvalidPc = 718, kLaunchFailed = 719,
                        kNotSupported = 801, kInvalidClusterSize = 912, kUnknown = 999;

// Device attributes.
inline constexpr int kMaxThreadsPerBlock = 1, kMaxBlockDimX = 2, kMaxGridDimX = 5, kMaxSharedPerBlock = 8,
                     kMultiprocessorCount = 16, kL2CacheBytes = 38, kComputeCapabilityMajor = 75,
                     kComputeCapabilityMinor = 76, kMaxSharedPerBlockOptIn = 97, kVirtualMemorySupported = 102;
// Function attributes.
inline constexpr int kFunctionMaxThreads = 0, kFunctionSharedBytes = 1, kFunctionMaxDynamicShared = 8,
                     kFunctionNonPortableCluster = 14;
// Options of the PTX compiler in the driver.
// Stream capture: calls of other threads are none of its business (CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).
inline constexpr int kCaptureThreadLocal = 1;
// Page-locked host memory that kernels can read (CU_MEMHOSTALLOC_DEVICEMAP).
inline constexpr unsigned kHostDeviceMap = 2;
inline constexpr int kJitErrorLog = 5, kJitErrorLogBytes = 6;
// Parameters of a launch as one block of bytes (CU_LAUNCH_PARAM_*).
inline void* const kLaunchEnd = nullptr;
inline void* const kLaunchBuffer = reinterpret_cast<void*>(1);
inline void* const kLaunchBufferBytes = reinterpret_cast<void*>(2);

struct Uuid {
  unsigned char bytes[16];
};

struct Location {
  int type = 1;  ///< CU_MEM_LOCATION_TYPE_DEVICE
  int id = 0;
};

struct AllocationProperties {
  int type = 1;  ///< CU_MEM_ALLOCATION_TYPE_PINNED
  int handle_types = 0;
  Location location;
  void* windows = nullptr;
  unsigned char compression = 0, gpu_direct_rdma = 0;
  unsigned short usage = 0;
  unsigned char reserved[4] = {};
};
static_assert(sizeof(AllocationProperties) == 32);

inline constexpr int kProtectRead = 1, kProtectReadWrite = 3;
struct AccessDescription {
  Location location;
  int flags = kProtectReadWrite;
};
static_assert(sizeof(AccessDescription) == 12);

/// One launch attribute; the only one used is the size of the cluster.
struct LaunchAttribute {
  int id = 4;  ///< CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
  char pad[4] = {};
  unsigned cluster[3] = {1, 1, 1};
  char rest[52] = {};
};
static_assert(sizeof(LaunchAttribute) == 72);

/// CUgraphExecUpdateResultInfo.
struct GraphUpdateInfo {
  int result = 0;
  void* node = nullptr;
  void* from_node = nullptr;
};
static_assert(sizeof(GraphUpdateInfo) == 24);

struct LaunchConfig {
  unsigned grid[3] = {1, 1, 1};
  unsigned block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  Stream stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};
static_assert(sizeof(LaunchConfig) == 56);

/// The driver's calls; names as in the manual without the prefix "cu".
struct Driver {
  Status (*init)(unsigned flags) = nullptr;
  Status (*driver_get_version)(int* version) = nullptr;
  Status (*get_error_name)(Status status, const char** text) = nullptr;
  Status (*get_error_string)(Status status, const char** text) = nullptr;
  Status (*device_get_count)(int* count) = nullptr;
  Status (*device_get)(int* device, int ordinal) = nullptr;
  Status (*device_get_name)(char* text, int bytes, int device) = nullptr;
  Status (*device_get_uuid)(Uuid* uuid, int device) = nullptr;
  Status (*device_get_attribute)(int* value, int attribute, int device) = nullptr;
  Status (*device_total_memory)(size_t* bytes, int device) = nullptr;
  Status (*primary_context_retain)(Context* context, int device) = nullptr;
  Status (*primary_context_release)(int device) = nullptr;
  Status (*context_set_current)(Context context) = nullptr;
  Status (*context_synchronize)() = nullptr;
  Status (*memory_get_info)(size_t* free_bytes, size_t* total_bytes) = nullptr;
  Status (*memory_granularity)(size_t* bytes, const AllocationProperties* properties, int option) = nullptr;
  Status (*address_reserve)(Address* address, size_t bytes, size_t alignment, Address wish,
                            unsigned long long flags) = nullptr;
  Status (*address_free)(Address address, size_t bytes) = nullptr;
  Status (*memory_create)(MemoryHandle* handle, size_t bytes, const AllocationProperties* properties,
                          unsigned long long flags) = nullptr;
  Status (*memory_release)(MemoryHandle handle) = nullptr;
  Status (*memory_map)(Address address, size_t bytes, size_t offset, MemoryHandle handle,
                       unsigned long long flags) = nullptr;
  Status (*memory_unmap)(Address address, size_t bytes) = nullptr;
  Status (*memory_set_access)(Address address, size_t bytes, const AccessDescription* access, size_t count) = nullptr;
  Status (*copy_to_device)(Address to, const void* from, size_t bytes) = nullptr;
  Status (*copy_to_host)(void* to, Address from, size_t bytes) = nullptr;
  Status (*fill_u8)(Address to, unsigned char value, size_t count) = nullptr;
  Status (*fill_u16)(Address to, unsigned short value, size_t count) = nullptr;
  Status (*fill_u32)(Address to, unsigned value, size_t count) = nullptr;
  Status (*module_load)(ModuleHandle* module, const void* image, unsigned count, int* options, void** values) = nullptr;
  Status (*module_unload)(ModuleHandle module) = nullptr;
  Status (*module_get_function)(Function* function, ModuleHandle module, const char* name) = nullptr;
  Status (*function_get_attribute)(int* value, int attribute, Function function) = nullptr;
  Status (*function_set_attribute)(Function function, int attribute, int value) = nullptr;
  Status (*launch)(const LaunchConfig* config, Function function, void** parameters, void** extra) = nullptr;
  Status (*stream_query)(Stream stream) = nullptr;
  Status (*stream_synchronize)(Stream stream) = nullptr;
  Status (*stream_create)(Stream* stream, unsigned flags) = nullptr;
  Status (*stream_destroy)(Stream stream) = nullptr;
  Status (*stream_begin_capture)(Stream stream, int mode) = nullptr;
  Status (*stream_end_capture)(Stream stream, Graph* graph) = nullptr;
  Status (*graph_instantiate)(GraphExec* exec, Graph graph, unsigned long long flags) = nullptr;
  Status (*graph_update)(GraphExec exec, Graph graph, GraphUpdateInfo* info) = nullptr;
  Status (*graph_upload)(GraphExec exec, Stream stream) = nullptr;
  Status (*graph_launch)(GraphExec exec, Stream stream) = nullptr;
  Status (*graph_exec_destroy)(GraphExec exec) = nullptr;
  Status (*graph_destroy)(Graph graph) = nullptr;
  Status (*event_create)(Event* event, unsigned flags) = nullptr;
  Status (*event_record)(Event event, Stream stream) = nullptr;
  Status (*event_elapsed_ms)(float* ms, Event begin, Event end) = nullptr;
  Status (*event_destroy)(Event event) = nullptr;
  Status (*copy_to_device_async)(Address to, const void* from, size_t bytes, Stream stream) = nullptr;
  Status (*copy_to_host_async)(void* to, Address from, size_t bytes, Stream stream) = nullptr;
  Status (*copy_on_device)(Address to, Address from, size_t bytes, Stream stream) = nullptr;
  Status (*allocate)(Address* address, size_t bytes) = nullptr;
  Status (*free)(Address address) = nullptr;
  Status (*host_allocate)(void** memory, size_t bytes, unsigned flags) = nullptr;
  Status (*host_free)(void* memory) = nullptr;
  Status (*host_device_address)(Address* address, void* memory, unsigned flags) = nullptr;

  /// Null where the driver has none (before 12.0).
  Status (*tensor_map_encode_tiled)(void* map, int data_type, unsigned rank, Address address,
                                    const unsigned long long* dims, const unsigned long long* strides_bytes,
                                    const unsigned* box, const unsigned* element_strides, int interleave, int swizzle,
                                    int l2_promotion, int fill) = nullptr;

  int version = 0;  ///< 13000 = 13.0
};

/// Opens libcuda.so.1 and starts it. kUnavailable: no driver, or one that is too old (both versions named), or it does
/// not start. The library stays open for the life of the process: the driver's own threads run in it.
Result<std::shared_ptr<const Driver>> load_driver();

/// "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered".
std::string status_text(const Driver& driver, Status status);
std::string version_text(int version);

}  // namespace stepbench::cuda
