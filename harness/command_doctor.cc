// `stepbench doctor`: one line per thing that an evaluation needs, found or missing, with what to do.
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/calibration.h"
#include "harness/commands.h"
#include "harness/cuda/gemm.h"
#include "harness/own_kernels.h"
#include "harness/record_folder.h"
#include "harness/stages.h"

namespace stepbench {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct Finding {
  std::string name;
  bool ok = false;
  bool needed = true;  ///< an evaluation cannot run without it
  std::string value;
  std::string advice;  ///< what to do when it is missing
};

Finding find_nvrtc(const Result<CompilerInfo>& compiler) {
  if (!compiler.ok())
    return {"NVRTC", false, true, to_text(compiler.error()),
            "run `make deps`, or install the CUDA toolkit's NVRTC and set CUDA_HOME"};
  return {"NVRTC", true, true, fmt::format("{}, {}", compiler.value().version, compiler.value().library), ""};
}

Finding find_headers(const Result<CompilerInfo>& compiler) {
  const std::string advice = "run `make deps`; only candidates that include CUDA headers need them";
  if (!compiler.ok() || compiler.value().include_folder.empty())
    return {"CUDA headers", false, false, "not found", advice};
  return {"CUDA headers", true, false, compiler.value().include_folder, ""};
}

Finding find_processor() {
  const bool v2 =
      __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt") && __builtin_cpu_supports("ssse3");
  const bool v3 =
      v2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma");
  if (v3) return {"processor", true, true, "x86-64-v3 (AVX2 and FMA)", ""};
  if (v2) return {"processor", true, true, "x86-64-v2; works, with fma in software", ""};
  return {"processor", false, true, "older than x86-64-v2", "use a processor with SSE 4.2"};
}

Finding find_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int count = ::sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  return {"cores", true, false, std::to_string(count), ""};
}

Finding find_tasks() {
  const Result<std::string> folder = tasks_folder();
  const Result<std::vector<std::string>> tasks = list_tasks();
  const std::string advice = "set STEPBENCH_ROOT to the folder that holds tasks/";
  if (!folder.ok()) return {"tasks", false, true, to_text(folder.error()), advice};
  if (!tasks.ok()) return {"tasks", false, true, to_text(tasks.error()), advice};
  return {"tasks", !tasks.value().empty(), true, fmt::format("{} in {}", tasks.value().size(), folder.value()), advice};
}

/// Writable, or can be made: asks the nearest folder that exists.
bool can_write(const fs::path& folder) {
  std::error_code status;
  fs::path existing = fs::absolute(folder, status);
  while (!existing.empty() && !fs::exists(existing, status) && existing != existing.root_path())
    existing = existing.parent_path();
  return fs::is_directory(existing, status) && ::access(existing.c_str(), W_OK | X_OK) == 0;
}

Finding find_records(const std::string& given) {
  const Result<std::string> folder = records_folder(given);
  if (!folder.ok())
    return {"records folder", false, true, to_text(folder.error()), "set STEPBENCH_RECORDS or use --records"};
  return {"records folder", can_write(folder.value()), true, folder.value(),
          "make it writable, or set STEPBENCH_RECORDS to a folder that is"};
}

Finding find_cache() {  // the rule of cache.cc
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (!(cache && *cache) && !(home && *home))
    return {"cache folder", false, false, "neither XDG_CACHE_HOME nor HOME is set",
            "set HOME; without it nothing is cached"};
  const std::string folder =
      cache && *cache ? std::string(cache) + "/stepbench" : std::string(home) + "/.cache/stepbench";
  return {"cache folder", can_write(folder), false, folder,
          "make it writable; without it every evaluation compiles again"};
}

Finding find_products() {
  const Result<cuda::CublasInfo> found = cuda::find_cublas();
  if (!found.ok())
    return {"cuBLASLt", false, false, to_text(found.error()),
            "only plans with a gemm on a GPU need it, and the floor of matrix tasks"};
  return {"cuBLASLt", true, false, fmt::format("{}, {}", found.value().version, found.value().library), ""};
}

Finding find_gpu() {
  const Result<DeviceSource> source = device_source("cuda", nullptr);
  if (!source.ok()) return {"GPU", false, false, to_text(source.error()), "nothing to do: candidates run on the VM"};
  return {"GPU", true, false, fmt::format("{}, {}", source.value().info.name, source.value().info.detail), ""};
}

std::string rates_text(const Calibration& rates) {
  const auto arithmetic = [](const char* what, double flops_per_s, double mhz) {
    return flops_per_s > 0 ? fmt::format("{} {:.1f} TFLOP/s at {:.0f} MHz", what, flops_per_s / 1e12, mhz)
                           : fmt::format("{} unknown", what);
  };
  return fmt::format(
      "reads {:.0f} GB/s, copies {:.0f} GB/s (read + written), an empty launch {:.2f} us, L2 {} MiB; {}, {} (highest "
      "{:.0f} MHz); {}",
      rates.read_bytes_per_s / 1e9, rates.copy_bytes_per_s / 1e9, rates.launch_ns / 1e3, rates.l2_bytes >> 20,
      arithmetic("fp32", rates.fp32_flops_per_s, rates.fp32_sm_mhz),
      arithmetic("products in bf16", rates.tensor_flops_per_s, rates.tensor_sm_mhz), rates.highest_sm_mhz,
      rates.measured_utc);
}

/// What times are judged against. `measure`: now, whatever was kept.
Finding find_calibration(bool measure) {
  const char* const name = "calibration";
  const Result<DeviceSource> source = device_source("cuda", nullptr);
  if (!source.ok()) return {name, false, false, "no GPU to calibrate", "nothing to do: the VM gives no times"};
  Environment environment;
  source.value().describe(environment);
  if (!measure) {
    const std::optional<Calibration> kept = load_calibration(environment.gpu_uuid);
    if (!kept) return {name, false, false, "none yet", "stepbench doctor --calibrate, or the first timed evaluation"};
    return {name, true, false, rates_text(*kept), ""};
  }
  CompileOptions options;
  options.arch = source.value().info.arch;
  const Result<CompiledModule> own_kernels = compile_own_kernels(options);
  if (!own_kernels.ok()) return {name, false, false, to_text(own_kernels.error()), "see the compiler above"};
  const Result<Calibration> rates = calibration_of(source.value(), environment.gpu_uuid, own_kernels.value(), true);
  if (!rates.ok()) return {name, false, false, to_text(rates.error()), "try again when the GPU is free"};
  return {name, true, false, rates_text(rates.value()), ""};
}

}  // namespace

int run_doctor(const DoctorArguments& arguments) {
  const Result<CompilerInfo> compiler = find_compiler();
  const std::vector<Finding> findings = {find_nvrtc(compiler),
                                         find_headers(compiler),
                                         find_processor(),
                                         find_cores(),
                                         find_tasks(),
                                         find_cache(),
                                         find_records(arguments.records),
                                         find_gpu(),
                                         find_products(),
                                         find_calibration(arguments.calibrate)};
  bool can_evaluate = true;
  for (const Finding& finding : findings) can_evaluate = can_evaluate && (finding.ok || !finding.needed);

  if (arguments.json) {
    Json json{{"stepbench_version", STEPBENCH_VERSION}, {"can_evaluate", can_evaluate}, {"findings", Json::array()}};
    for (const Finding& finding : findings)
      json["findings"].push_back({{"name", finding.name},
                                  {"ok", finding.ok},
                                  {"needed", finding.needed},
                                  {"value", finding.value},
                                  {"advice", finding.ok ? "" : finding.advice}});
    fmt::print("{}\n", json.dump(1, ' ', false, Json::error_handler_t::replace));
  } else {
    fmt::print("stepbench {}\n", STEPBENCH_VERSION);
    for (const Finding& finding : findings) {
      fmt::print("{:<8} {:<15} {}\n",
                 finding.ok       ? "ok"
                 : finding.needed ? "missing"
                                  : "none",
                 finding.name, finding.value);
      if (!finding.ok) fmt::print("{:<8} {:<15} -> {}\n", "", "", finding.advice);
    }
    fmt::print("evaluations {} run\n", can_evaluate ? "can" : "cannot");
  }
  return can_evaluate ? kExitDone : kExitEnvironment;
}

}  // namespace stepbench
