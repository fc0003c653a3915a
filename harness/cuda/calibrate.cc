// What this very GPU reaches: the rates that times are judged against. Own kernels and the driver's copy, whichever is
// faster, on 1 GiB; no data sheet.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <thread>
#include <vector>

#include "harness/cuda/gpu.h"
#include "harness/cuda/stopwatch.h"

namespace stepbench::cuda {
namespace {

constexpr uint64_t kBytes = uint64_t{1} << 30;
constexpr int kSamples = 25, kWarmUps = 3;
constexpr unsigned kThreads = 512;
constexpr std::array<unsigned, 3> kBlocksPerSm{2, 4, 8};

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  if (gmtime_r(&now, &parts) == nullptr) return "";
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min, parts.tm_sec);
}

/// Memory for one measurement.
struct Block {
  Gpu& gpu;
  Address address = 0;
  ~Block() {
    if (address != 0 && !gpu.lost()) static_cast<void>(gpu.driver().free(address));
  }
};

/// Median time of `work`, which queues something on the stopwatch's stream.
Result<double> time_ns(Gpu& gpu, Stopwatch& watch, const std::function<Result<void>()>& work) {
  std::vector<double> samples;
  for (int i = 0; i < kWarmUps + kSamples; ++i) {
    if (const Result<void> done = watch.begin(); !done.ok()) return done.error();
    const Result<void> worked = work();
    const Result<void> ended = watch.end();
    if (!worked.ok()) return worked.error();
    if (!ended.ok()) return ended.error();
    Status status = kNotReady;
    while ((status = gpu.driver().stream_query(watch.stream())) == kNotReady) std::this_thread::yield();
    if (const Result<void> done = gpu.check(status, "cuStreamQuery", "calibration"); !done.ok()) return done.error();
    const Result<Reading> reading = watch.read();
    if (!reading.ok()) return reading.error();
    if (i >= kWarmUps) samples.push_back(reading.value().event_ns);
  }
  return median(samples);
}

}  // namespace

Result<Calibration> calibrate(Gpu& gpu, const OwnKernels& kernels, Stopwatch& watch) {
  const Driver& driver = gpu.driver();
  Block from{gpu}, to{gpu};
  for (Block* block : {&from, &to}) {
    if (const Result<void> done = gpu.check(driver.allocate(&block->address, kBytes), "cuMemAlloc", "calibration");
        !done.ok())
      return done.error();
    // Zeros would be read faster than data on hardware that compresses.
    struct {
      Address out;
      uint64_t count, seed;
      float amplitude;
      uint32_t squared, format, pad;
    } fill{block->address, kBytes / 4, 1 + block->address, 1.0f, 0, 0, 0};
    if (const Result<void> done =
            gpu.check(launch_packed(driver, kernels.generate, static_cast<unsigned>(gpu.info().sms) * 8, kThreads,
                                    nullptr, &fill, sizeof(fill) - 4),
                      "cuLaunchKernelEx", "calibration");
        !done.ok())
      return done.error();
  }
  Calibration result;
  result.gpu_uuid = gpu.uuid();
  result.measured_utc = utc_now();
  result.l2_bytes = gpu.info().l2_bytes;
  const auto queue = [&](Function kernel, unsigned blocks, unsigned threads, void* parameters, size_t bytes) {
    return gpu.check(launch_packed(driver, kernel, blocks, threads, watch.stream(), parameters, bytes),
                     "cuLaunchKernelEx", "calibration");
  };
  struct {
    Address data;
    uint64_t words;
    Address sink, marks;
  } read{from.address, kBytes / 16, 0, 0};
  struct {
    Address to, from;
    uint64_t words;
  } copy{to.address, from.address, kBytes / 16};
  for (const unsigned per_sm : kBlocksPerSm) {
    const unsigned blocks = static_cast<unsigned>(gpu.info().sms) * per_sm;
    const Result<double> read_ns =
        time_ns(gpu, watch, [&] { return queue(kernels.read, blocks, kThreads, &read, sizeof(read)); });
    if (!read_ns.ok()) return read_ns.error();
    const Result<double> copy_ns =
        time_ns(gpu, watch, [&] { return queue(kernels.copy, blocks, kThreads, &copy, sizeof(copy)); });
    if (!copy_ns.ok()) return copy_ns.error();
    result.read_bytes_per_s = std::max(result.read_bytes_per_s, static_cast<double>(kBytes) * 1e9 / read_ns.value());
    result.copy_bytes_per_s =
        std::max(result.copy_bytes_per_s, 2 * static_cast<double>(kBytes) * 1e9 / copy_ns.value());
  }
  const Result<double> copied_ns = time_ns(gpu, watch, [&] {
    return gpu.check(driver.copy_on_device(to.address, from.address, kBytes, watch.stream()), "cuMemcpyDtoDAsync");
  });
  if (!copied_ns.ok()) return copied_ns.error();
  result.copy_bytes_per_s =
      std::max(result.copy_bytes_per_s, 2 * static_cast<double>(kBytes) * 1e9 / copied_ns.value());
  const Result<double> nothing_ns = time_ns(gpu, watch, [&] { return queue(kernels.nothing, 1, 32, nullptr, 0); });
  if (!nothing_ns.ok()) return nothing_ns.error();
  result.launch_ns = nothing_ns.value();
  return result;
}

}  // namespace stepbench::cuda
