// Calibrations in the cache folder (see calibration.h), as one line of text each: numbers with all their digits.
#include "harness/calibration.h"

#include <fmt/format.h>

#include <cmath>
#include <sstream>

#include "harness/cache.h"

namespace stepbench {
namespace {

constexpr const char* kFormat = "calibration-2";  // 1 had no arithmetic: another key, so it is measured again

std::string key_of(const std::string& gpu_uuid) { return sha256_hex(fmt::format("{} {}", kFormat, gpu_uuid)); }

bool is_rate(double value) { return std::isfinite(value) && value > 0; }

}  // namespace

std::optional<Calibration> load_calibration(const std::string& gpu_uuid) {
  const std::optional<std::string> text = read_cache(cache_folder(""), key_of(gpu_uuid));
  if (!text) return std::nullopt;
  std::istringstream words(*text);
  Calibration found;
  std::string format;
  words >> format >> found.gpu_uuid >> found.measured_utc >> found.read_bytes_per_s >> found.copy_bytes_per_s >>
      found.launch_ns >> found.l2_bytes >> found.fp32_flops_per_s >> found.fp32_sm_mhz >> found.tensor_flops_per_s >>
      found.tensor_sm_mhz >> found.highest_sm_mhz;
  if (!words || format != kFormat || found.gpu_uuid != gpu_uuid) return std::nullopt;
  if (!is_rate(found.read_bytes_per_s) || !is_rate(found.copy_bytes_per_s)) return std::nullopt;
  return found;
}

Result<void> save_calibration(const Calibration& calibration) {
  const Calibration& c = calibration;
  return write_cache(
      cache_folder(""), key_of(c.gpu_uuid),
      fmt::format("{} {} {} {:.17g} {:.17g} {:.17g} {} {:.17g} {:.17g} {:.17g} {:.17g} {:.17g}", kFormat, c.gpu_uuid,
                  c.measured_utc, c.read_bytes_per_s, c.copy_bytes_per_s, c.launch_ns, c.l2_bytes, c.fp32_flops_per_s,
                  c.fp32_sm_mhz, c.tensor_flops_per_s, c.tensor_sm_mhz, c.highest_sm_mhz));
}

Result<Calibration> calibration_of(const DeviceSource& source, const std::string& gpu_uuid,
                                   const CompiledModule& own_kernels, bool fresh) {
  if (!fresh)
    if (std::optional<Calibration> kept = load_calibration(gpu_uuid)) return std::move(*kept);
  if (!source.calibrate)
    return Error{ErrorCode::kUnsupported, "this device has no clock to calibrate", "calibration", "a GPU",
                 source.info.name};
  Result<Calibration> measured = source.calibrate(own_kernels);
  if (!measured.ok()) return measured;
  if (!is_rate(measured.value().read_bytes_per_s) || !is_rate(measured.value().copy_bytes_per_s))
    return Error{ErrorCode::kInternal, "the calibration of the GPU gave no rate", "calibration", "",
                 fmt::format("{} and {} bytes per second", measured.value().read_bytes_per_s,
                             measured.value().copy_bytes_per_s)};
  static_cast<void>(save_calibration(measured.value()));
  return measured;
}

}  // namespace stepbench
