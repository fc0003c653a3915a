// Times what is put on its stream: cold L2, everything queued before it starts, two clocks, and the SM clock
// afterwards. Knows nothing of candidates and buffers.
//
// One sample is, in this order on one stream: a gate that waits for the host; a read of four times the L2 cache
// (reading, not writing: dirty lines would be charged to the work that follows), which notes the GPU's own counter at
// its end; the event `begin`; the work; the event `end`; a probe that notes the counter and then the SM clock. The host
// opens the gate when all of that is queued, so that neither submission nor a launch gap before the first kernel is
// timed, and the GPU is busy until the work begins.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "harness/cuda/driver.h"
#include "harness/model.h"
#include "harness/result.h"

namespace stepbench::cuda {

class Gpu;

/// Entry points of own_kernels.h on the GPU.
struct OwnKernels {
  Function generate = nullptr, generate_all = nullptr, copy_pieces = nullptr, read = nullptr, copy = nullptr,
           gate = nullptr, probe = nullptr, fma = nullptr, nothing = nullptr;
};

struct Reading {
  double event_ns = 0, counter_ns = 0, sm_mhz = 0;
};

class Stopwatch {
 public:
  /// Takes memory for the flush: 4 x `l2_bytes`. The Gpu outlives it.
  static Result<std::unique_ptr<Stopwatch>> open(Gpu& gpu, const OwnKernels& kernels, uint64_t l2_bytes);
  ~Stopwatch();
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  Stream stream() const { return stream_; }
  /// Queues gate, flush and the first mark.
  Result<void> begin();
  /// Queues the last mark and the probe, and opens the gate. To be called after `begin` in any case, also when the work
  /// could not be queued.
  Result<void> end();
  /// After the stream has run dry.
  Result<Reading> read();

 private:
  Stopwatch(Gpu& gpu, const OwnKernels& kernels) : gpu_(gpu), kernels_(kernels) {}
  Result<void> launch(Function kernel, unsigned blocks, unsigned threads, void* parameters, size_t bytes,
                      const char* name);

  Gpu& gpu_;
  OwnKernels kernels_;
  Stream stream_ = nullptr;
  Event begin_ = nullptr, end_ = nullptr;
  Address flush_ = 0;
  uint64_t flush_bytes_ = 0;
  Address marks_ = 0;
  uint32_t* flag_ = nullptr;  ///< host memory that the gate reads
  Address flag_address_ = 0;
  uint32_t ticket_ = 0;
};

/// Parameters of a launch as one block of bytes.
Status launch_packed(const Driver& driver, Function kernel, unsigned blocks, unsigned threads, Stream stream,
                     void* parameters, size_t bytes);

/// Rates of reading, copying and arithmetic and the length of an empty launch, medians of many; takes 3 GiB for the
/// time. Without cuBLASLt the rate of products stays 0.
Result<Calibration> calibrate(Gpu& gpu, const OwnKernels& kernels, Stopwatch& stopwatch);

}  // namespace stepbench::cuda
