// What this very GPU reaches: the rates that times are judged against; no data sheet. Memory: own kernels and the
// driver's copy, whichever is faster, on 1 GiB. Arithmetic: an own kernel for fp32, cuBLASLt for products in bf16, on
// random data, as zeros draw less power and let the clock rise.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <thread>
#include <vector>

#include "harness/cuda/gemm.h"
#include "harness/cuda/gpu.h"
#include "harness/cuda/nvml.h"
#include "harness/cuda/stopwatch.h"
#include "harness/own_kernels.h"

namespace stepbench::cuda {
namespace {

constexpr uint64_t kBytes = uint64_t{1} << 30;
constexpr int kSamples = 25, kWarmUps = 3;
constexpr unsigned kThreads = 512;
constexpr std::array<unsigned, 3> kBlocksPerSm{2, 4, 8};
constexpr unsigned kFmaThreads = 256;                         // as its launch bounds
constexpr uint32_t kFmaRounds = 1024;                         // a millisecond with eight blocks per multiprocessor
constexpr std::array<int64_t, 3> kSquares{2048, 4096, 8192};  // sides of the products; the largest takes 128 MiB each

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

/// Medians of the time of `work`, which queues something on the stopwatch's stream, and of the SM clock after it.
struct Sample {
  double ns = 0, sm_mhz = 0;
};
Result<Sample> sample(Gpu& gpu, Stopwatch& watch, const std::function<Result<void>()>& work) {
  std::vector<double> times, clocks;
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
    if (i < kWarmUps) continue;
    times.push_back(reading.value().event_ns);
    clocks.push_back(reading.value().sm_mhz);
  }
  return Sample{median(times), median(clocks)};
}
Result<double> time_ns(Gpu& gpu, Stopwatch& watch, const std::function<Result<void>()>& work) {
  const Result<Sample> found = sample(gpu, watch, work);
  if (!found.ok()) return found.error();
  return found.value().ns;
}

/// Keeps the higher rate, and the clock that it was reached at.
void keep_best(double flops, const Sample& found, double& flops_per_s, double& sm_mhz) {
  const double rate = found.ns > 0 ? flops * 1e9 / found.ns : 0;
  if (!(rate > flops_per_s)) return;
  flops_per_s = rate;
  sm_mhz = found.sm_mhz;
}

Result<void> measure_fp32(Gpu& gpu, const OwnKernels& kernels, Stopwatch& watch, Calibration& result) {
  struct {
    uint32_t rounds;
    float x, y;
    Address sink;
  } fma{kFmaRounds, 0.999f, 0.001f, 0};
  for (const unsigned per_sm : kBlocksPerSm) {
    const unsigned blocks = static_cast<unsigned>(gpu.info().sms) * per_sm;
    const Result<Sample> found = sample(gpu, watch, [&] {
      return gpu.check(launch_packed(gpu.driver(), kernels.fma, blocks, kFmaThreads, watch.stream(), &fma, sizeof(fma)),
                       "cuLaunchKernelEx", "calibration");
    });
    if (!found.ok()) return found.error();
    const double fmas = static_cast<double>(blocks) * kFmaThreads * kFmaRounds * own_kernel::kFmasPerRound;
    keep_best(2 * fmas, found.value(), result.fp32_flops_per_s, result.fp32_sm_mhz);
  }
  return {};
}

/// `from` holds bf16 values: two matrices. Not having the library is no error.
Result<void> measure_products(Gpu& gpu, Stopwatch& watch, Address from, Address to, Calibration& result) {
  const Result<Gemm*> opened = gpu.gemm();
  if (!opened.ok()) {
    if (opened.error().code == ErrorCode::kUnavailable) return {};
    return opened.error();
  }
  Gemm& gemm = *opened.value();
  for (const int64_t side : kSquares) {
    GemmSpec spec;
    spec.m = spec.n = spec.k = side;
    spec.transpose_b = true;  // both factors along k: what tensor cores take without turning anything
    spec.inputs = spec.output = DType::kBf16;
    spec.a = {from, side * side};
    spec.b = {from + static_cast<uint64_t>(side * side) * 2, side * side};
    spec.d = {to, side * side};
    const Result<std::optional<Fault>> ready = gemm.prepare(spec);
    if (!ready.ok()) return ready.error();
    if (ready.value()) continue;
    const Result<Sample> found = sample(gpu, watch, [&] { return gemm.submit(spec, watch.stream()); });
    if (!found.ok()) return found.error();
    const auto s = static_cast<double>(side);
    keep_best(2 * s * s * s, found.value(), result.tensor_flops_per_s, result.tensor_sm_mhz);
  }
  return {};
}

}  // namespace

Result<Calibration> calibrate(Gpu& gpu, const OwnKernels& kernels, Stopwatch& watch) {
  const Driver& driver = gpu.driver();
  Block from{gpu}, to{gpu};
  // Formats of own_kernel::kGenerate.
  constexpr uint32_t kF32 = 0, kBf16 = 1;
  const auto fill = [&](Address out, uint64_t count, uint32_t format) {
    struct {
      Address out;
      uint64_t count, seed;
      float amplitude;
      uint32_t squared, format, pad;
    } values{out, count, 1 + out, 1.0f, 0, format, 0};
    return gpu.check(launch_packed(driver, kernels.generate, static_cast<unsigned>(gpu.info().sms) * 8, kThreads,
                                   nullptr, &values, sizeof(values) - sizeof(values.pad)),
                     "cuLaunchKernelEx", "calibration");
  };
  for (Block* block : {&from, &to}) {
    if (const Result<void> done = gpu.check(driver.allocate(&block->address, kBytes), "cuMemAlloc", "calibration");
        !done.ok())
      return done.error();
    // Zeros would be read faster than data on hardware that compresses.
    if (const Result<void> done = fill(block->address, kBytes / 4, kF32); !done.ok()) return done.error();
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

  Environment environment;
  describe_gpu(gpu.uuid(), environment);
  result.highest_sm_mhz = environment.sm_clock_mhz;
  if (const Result<void> done = measure_fp32(gpu, kernels, watch, result); !done.ok()) return done.error();
  if (const Result<void> done = fill(from.address, kBytes / 2, kBf16); !done.ok()) return done.error();
  if (const Result<void> done = measure_products(gpu, watch, from.address, to.address, result); !done.ok())
    return done.error();
  return result;
}

}  // namespace stepbench::cuda
