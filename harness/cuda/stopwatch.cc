// Samples of time on a GPU (see stopwatch.h).
#include "harness/cuda/stopwatch.h"

#include <fmt/format.h>

#include <array>
#include <atomic>

#include "harness/cuda/gpu.h"

namespace stepbench::cuda {
namespace {

constexpr uint64_t kFlushFactor = 4;
constexpr unsigned kReadThreads = 512, kBlocksPerSm = 4;

}  // namespace

Status launch_packed(const Driver& driver, Function kernel, unsigned blocks, unsigned threads, Stream stream,
                     void* parameters, size_t bytes) {
  LaunchConfig config;
  config.grid[0] = blocks;
  config.block[0] = threads;
  config.stream = stream;
  void* extra[] = {kLaunchBuffer, parameters, kLaunchBufferBytes, &bytes, kLaunchEnd};
  return driver.launch(&config, kernel, nullptr, bytes == 0 ? nullptr : extra);
}

Result<std::unique_ptr<Stopwatch>> Stopwatch::open(Gpu& gpu, const OwnKernels& kernels, uint64_t l2_bytes) {
  std::unique_ptr<Stopwatch> watch(new Stopwatch(gpu, kernels));
  const Driver& driver = gpu.driver();
  watch->flush_bytes_ = std::max<uint64_t>(kFlushFactor * l2_bytes, uint64_t{64} << 20) / 16 * 16;
  // The stream waits for the default stream and the other way round: data are put there by calls that know no stream.
  constexpr unsigned kBlocking = 0;
  void* flag = nullptr;
  for (const auto& step : std::initializer_list<std::function<Result<void>()>>{
           [&] { return gpu.check(driver.stream_create(&watch->stream_, kBlocking), "cuStreamCreate"); },
           [&] { return gpu.check(driver.event_create(&watch->begin_, 0), "cuEventCreate"); },
           [&] { return gpu.check(driver.event_create(&watch->end_, 0), "cuEventCreate"); },
           [&] { return gpu.check(driver.allocate(&watch->flush_, watch->flush_bytes_), "cuMemAlloc", "L2 flush"); },
           [&] { return gpu.check(driver.fill_u8(watch->flush_, 0x5a, watch->flush_bytes_), "cuMemsetD8"); },
           [&] { return gpu.check(driver.allocate(&watch->marks_, 32), "cuMemAlloc", "marks"); },
           [&] { return gpu.check(driver.host_allocate(&flag, 64, kHostDeviceMap), "cuMemHostAlloc"); },
           [&] {
             watch->flag_ = static_cast<uint32_t*>(flag);
             *watch->flag_ = 0;
             return gpu.check(driver.host_device_address(&watch->flag_address_, flag, 0), "cuMemHostGetDevicePointer");
           }})
    if (const Result<void> done = step(); !done.ok()) return done.error();
  return watch;
}

Stopwatch::~Stopwatch() {
  if (gpu_.lost() || !gpu_.ready().ok()) return;  // the process ends, and with it the context
  const Driver& driver = gpu_.driver();
  if (begin_ != nullptr) static_cast<void>(driver.event_destroy(begin_));
  if (end_ != nullptr) static_cast<void>(driver.event_destroy(end_));
  if (stream_ != nullptr) static_cast<void>(driver.stream_destroy(stream_));
  if (flush_ != 0) static_cast<void>(driver.free(flush_));
  if (marks_ != 0) static_cast<void>(driver.free(marks_));
  if (flag_ != nullptr) static_cast<void>(driver.host_free(flag_));
}

Result<void> Stopwatch::launch(Function kernel, unsigned blocks, unsigned threads, void* parameters, size_t bytes,
                               const char* name) {
  return gpu_.check(launch_packed(gpu_.driver(), kernel, blocks, threads, stream_, parameters, bytes),
                    "cuLaunchKernelEx", name);
}

Result<void> Stopwatch::begin() {
  ++ticket_;
  if (const Result<void> done = gpu_.check(gpu_.driver().fill_u32(marks_, 0, 8), "cuMemsetD32", "marks"); !done.ok())
    return done;
  struct {
    Address flag;
    uint32_t ticket, pad;
  } gate{flag_address_, ticket_, 0};
  constexpr size_t kGateBytes = sizeof(gate) - sizeof(gate.pad);
  if (const Result<void> done = launch(kernels_.gate, 1, 1, &gate, kGateBytes, "gate"); !done.ok()) return done;
  struct {
    Address data;
    uint64_t words;
    Address sink, marks;
  } read{flush_, flush_bytes_ / 16, 0, marks_};
  const unsigned blocks = static_cast<unsigned>(gpu_.info().sms) * kBlocksPerSm;
  if (const Result<void> done = launch(kernels_.read, blocks, kReadThreads, &read, sizeof(read), "flush"); !done.ok())
    return done;
  return gpu_.check(gpu_.driver().event_record(begin_, stream_), "cuEventRecord");
}

Result<void> Stopwatch::end() {
  Result<void> done = gpu_.check(gpu_.driver().event_record(end_, stream_), "cuEventRecord");
  Address marks = marks_;
  if (done.ok()) done = launch(kernels_.probe, 1, 1, &marks, sizeof(marks), "probe");
  // Whatever went wrong: nothing on the stream may wait for ever.
  std::atomic_ref<uint32_t>(*flag_).store(ticket_, std::memory_order_release);
  return done;
}

Result<Reading> Stopwatch::read() {
  float ms = 0;
  if (const Result<void> done = gpu_.check(gpu_.driver().event_elapsed_ms(&ms, begin_, end_), "cuEventElapsedTime");
      !done.ok())
    return done.error();
  std::array<uint64_t, 4> marks{};
  if (const Result<void> done =
          gpu_.check(gpu_.driver().copy_to_host(marks.data(), marks_, sizeof(marks)), "cuMemcpyDtoH", "marks");
      !done.ok())
    return done.error();
  Reading reading;
  reading.event_ns = static_cast<double>(ms) * 1e6;
  reading.counter_ns = static_cast<double>(static_cast<int64_t>(marks[1] - marks[0]));
  if (marks[3] != 0) reading.sm_mhz = 1e3 * static_cast<double>(marks[2]) / static_cast<double>(marks[3]);
  return reading;
}

}  // namespace stepbench::cuda
