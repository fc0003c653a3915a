// One GPU of this machine as one process uses it: what it is, an exclusive lock, one context, and whether it is still
// there. A fault is sticky: the context cannot be used again, and only the end of the process clears it. All devices of
// an evaluation share one Gpu. Knows nothing of buffers and candidates.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "harness/cuda/copies.h"
#include "harness/cuda/driver.h"
#include "harness/cuda/mapping.h"
#include "harness/cuda/stopwatch.h"
#include "harness/device.h"

namespace stepbench::cuda {

class Gemm;

/// True for a status after which the context is gone.
bool is_sticky(Status status);

class Gpu {
 public:
  /// The first GPU: driver and properties only, neither lock nor context. kUnavailable in one sentence.
  static Result<std::shared_ptr<Gpu>> open();
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  /// Takes the lock, waiting for other evaluations, and makes the context. Does nothing the second time. `on_wait`
  /// (may be empty) is called once when there is somebody to wait for.
  Result<void> start(const std::function<void()>& on_wait);

  /// Makes the context current for this thread. kUnavailable after a fault.
  Result<void> ready();
  bool lost() const { return lost_; }
  /// From now on nothing is asked of the driver any more: its calls would fail, or wait for ever behind a kernel that
  /// does not end.
  void lose() { lost_ = true; }
  /// Status -> Result; a sticky status loses the GPU. `call` is the driver's name for it, `what` may be empty.
  Result<void> check(Status status, const char* call, const std::string& what = "");

  const Driver& driver() const { return *driver_; }
  const DeviceInfo& info() const { return info_; }
  int device() const { return device_; }
  size_t granule_bytes() const { return granule_bytes_; }  ///< of mapped memory; after start()
  Function guard_kernel() const { return guard_kernel_; }  ///< after start()
  MappingPool& mappings() { return mappings_; }            ///< after start()
  const std::string& uuid() const { return uuid_; }        ///< "GPU-...", as nvidia-smi writes it

  /// Loads own_kernels.h and makes the stopwatch; does nothing the second time. After start().
  Result<void> use_own_kernels(const CompiledModule& module);
  /// Both asserted to be there.
  const OwnKernels& own_kernels() const;
  Stopwatch& stopwatch();
  /// Many copies between host and GPU (copies.h), whose page-locked memory is made at the first call. After start().
  Result<void> copy(CopyDirection direction, std::span<const HostCopy> copies);
  /// The library for products, opened at the first call. After start().
  Result<Gemm*> gemm();

 private:
  Gpu() = default;
  Result<void> describe();
  Result<void> lock(const std::function<void()>& on_wait);

  std::shared_ptr<const Driver> driver_;
  DeviceInfo info_;
  std::string uuid_;
  std::string lock_path_;
  int device_ = 0;
  int lock_descriptor_ = -1;
  Context context_ = nullptr;
  size_t granule_bytes_ = 0;
  Function guard_kernel_ = nullptr;
  OwnKernels own_kernels_;
  std::atomic<bool> lost_ = false;  ///< copies check from several threads
  MappingPool mappings_{*this};
  std::unique_ptr<Stopwatch> stopwatch_;
  std::unique_ptr<Gemm> gemm_;
  std::unique_ptr<CopyLanes> copies_;
};

}  // namespace stepbench::cuda
