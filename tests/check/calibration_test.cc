// What is kept of a GPU's rates from one run to the next, and when they are measured again.
#include "harness/calibration.h"

#include <stdlib.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "harness/cache.h"

using namespace stepbench;

namespace {

/// The cache folder of this test alone.
class OwnCache {
 public:
  OwnCache() {
    std::string pattern = (std::filesystem::temp_directory_path() / "stepbench_rates_XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
    const char* before = std::getenv("XDG_CACHE_HOME");
    if (before != nullptr) before_ = before;
    REQUIRE(::setenv("XDG_CACHE_HOME", path_.c_str(), 1) == 0);
  }
  ~OwnCache() {
    if (before_)
      ::setenv("XDG_CACHE_HOME", before_->c_str(), 1);
    else
      ::unsetenv("XDG_CACHE_HOME");
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  OwnCache(const OwnCache&) = delete;
  OwnCache& operator=(const OwnCache&) = delete;

 private:
  std::string path_;
  std::optional<std::string> before_;
};

constexpr const char* kGpu = "GPU-01234567-89ab";

Calibration rates() {
  return {kGpu, "2026-01-01T00:00:00Z", 4.5e12, 4.25e12, 2910, 62914560, 6.1e13, 1755, 7.5e14 / 3, 1410, 1980};
}

/// A GPU that gives these rates, and counts how often it was asked.
DeviceSource source_of(const Calibration& rates, int* asked) {
  DeviceSource source;
  source.info.name = "test";
  source.calibrate = [rates, asked](const CompiledModule&) -> Result<Calibration> {
    ++*asked;
    return rates;
  };
  return source;
}

}  // namespace

TEST_CASE("rates are kept with all their digits, for their GPU alone") {
  const OwnCache cache;
  CHECK_FALSE(load_calibration(kGpu));
  REQUIRE(save_calibration(rates()).ok());
  const std::optional<Calibration> kept = load_calibration(kGpu);
  REQUIRE(kept);
  const Calibration expected = rates();
  CHECK(kept->gpu_uuid == kGpu);
  CHECK(kept->measured_utc == expected.measured_utc);
  CHECK(kept->read_bytes_per_s == expected.read_bytes_per_s);
  CHECK(kept->copy_bytes_per_s == expected.copy_bytes_per_s);
  CHECK(kept->launch_ns == expected.launch_ns);
  CHECK(kept->l2_bytes == expected.l2_bytes);
  CHECK(kept->fp32_flops_per_s == expected.fp32_flops_per_s);
  CHECK(kept->fp32_sm_mhz == expected.fp32_sm_mhz);
  CHECK(kept->tensor_flops_per_s == expected.tensor_flops_per_s);
  CHECK(kept->tensor_sm_mhz == expected.tensor_sm_mhz);
  CHECK(kept->highest_sm_mhz == expected.highest_sm_mhz);
  CHECK_FALSE(load_calibration("GPU-another"));
}

TEST_CASE("rates are measured once, and again where what was kept lacks the arithmetic") {
  const OwnCache cache;
  // As it was kept before there was arithmetic.
  REQUIRE(write_cache(cache_folder(""), sha256_hex(std::string("calibration-1 ") + kGpu),
                      std::string("calibration-1 ") + kGpu + " 2025-01-01T00:00:00Z 4.5e12 4.2e12 2910 62914560")
              .ok());
  int asked = 0;
  const DeviceSource source = source_of(rates(), &asked);
  const auto rate = [&](bool fresh) {
    const Result<Calibration> found = calibration_of(source, kGpu, CompiledModule(), fresh);
    REQUIRE(found.ok());
    return found.value().tensor_flops_per_s;
  };
  CHECK(rate(false) == 7.5e14 / 3);
  CHECK(asked == 1);
  CHECK(rate(false) == 7.5e14 / 3);
  CHECK(asked == 1);
  CHECK(rate(true) == 7.5e14 / 3);
  CHECK(asked == 2);
}

TEST_CASE("a GPU without cuBLASLt is calibrated, one without memory rates is not") {
  const OwnCache cache;
  Calibration without = rates();
  without.tensor_flops_per_s = without.tensor_sm_mhz = 0;
  int asked = 0;
  const Result<Calibration> found = calibration_of(source_of(without, &asked), kGpu, CompiledModule(), false);
  REQUIRE(found.ok());
  CHECK(found.value().tensor_flops_per_s == 0);
  CHECK(load_calibration(kGpu).has_value());

  Calibration nothing = rates();
  nothing.gpu_uuid = "GPU-nothing";
  nothing.copy_bytes_per_s = 0;
  const Result<Calibration> refused =
      calibration_of(source_of(nothing, &asked), "GPU-nothing", CompiledModule(), false);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::kInternal);
  CHECK_FALSE(load_calibration("GPU-nothing"));
}
