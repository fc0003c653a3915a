// AdamW on bf16 weights that are rounded stochastically (Zamirai et al., "Revisiting BFloat16 Training", 2020; Ozkara
// et al., "Stochastic Rounding for LLM Training", 2025) by the random numbers of task.json.
#include "tasks/oracle.h"
#include "tasks/adamw_update.h"
#include "tasks/philox.h"
#include "tasks/storage.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace stepbench {

namespace {
enum Buffer { kParam, kGrad, kExpAvg, kExpAvgSq };
enum Field { kStep = 0, kSeed = 12 };

constexpr int64_t kBlock = 256;  // elements of which the draws are made first; ranges begin at its multiples

/// Counts bf16 values from zero to a magnitude, in fractions: continuous, linear between neighbours. The fp32 pattern
/// over 65536, for any real number. An octave has 128 values; subnormals and the first octave have the same unit.
[[gnu::always_inline]] inline double position_of(double magnitude) {
  const double unit = bf16_unit(magnitude);
  const auto octave = static_cast<int64_t>(std::bit_cast<uint64_t>(unit) >> 52) - (1023 - 133);
  return static_cast<double>(octave * 128) + magnitude / unit;
}

/// Of a position in [0, 2^16).
[[gnu::always_inline]] inline double at_position(double position) {
  const auto octave = std::max<int64_t>(static_cast<int64_t>(position * (1.0 / 128)) - 1, 0);
  const double unit = std::bit_cast<double>(static_cast<uint64_t>(octave + (1023 - 133)) << 52);
  return (position - static_cast<double>(octave * 128)) * unit;
}

/// The number that, rounded to nearest, is `value` rounded with this draw. fp32 holds every fraction k / 65536; with a
/// draw r it goes up from k = 65536 - r on, so the boundary for real numbers lies half a step below that.
[[gnu::always_inline]] inline double dithered(double value, double draw) {
  const double position = position_of(std::fabs(value)) + (draw + 0.5) / 65536 - 0.5;
  constexpr double kLast = 0xffff;  // beyond every finite value
  const double held = position > 0 ? (position < kLast ? position : kLast) : 0;
  return std::isfinite(value) ? std::copysign(at_position(held), value) : value;
}
}  // namespace

ORACLE_EACH_LEVEL
void oracle_adamw_bf16_sr(const OracleTensor& tensor, std::span<const double> hyper, int64_t first, int64_t last) {
  const AdamWScalars scalars(hyper);
  double* const param = tensor.buffers[kParam];
  const double* const grad = tensor.buffers[kGrad];
  double* const exp_avg = tensor.buffers[kExpAvg];
  double* const exp_avg_sq = tensor.buffers[kExpAvgSq];
  double* const param_exact = tensor.exact[kParam];
  double* const param_scale = tensor.scale[kParam];
  double* const exp_avg_scale = tensor.scale[kExpAvg];
  double* const exp_avg_sq_scale = tensor.scale[kExpAvgSq];
  const bool wants_exact = param_exact != nullptr, wants_scale = param_scale != nullptr;  // of all or of none
  const auto step = static_cast<uint32_t>(hyper[kStep]), seed = static_cast<uint32_t>(hyper[kSeed]);
  const auto index = static_cast<uint32_t>(tensor.index);

  std::array<double, kBlock> draws{};
  for (int64_t begin = first; begin < last; begin += kBlock) {
    const int64_t count = std::min(kBlock, last - begin);
    for (int64_t i = 0; i < count; i += 8) {
      const uint64_t group = static_cast<uint64_t>(tensor.first + begin + i) / 8;
      const std::array<uint32_t, 4> words =
          philox4x32({static_cast<uint32_t>(group), static_cast<uint32_t>(group >> 32), index, step}, {seed, 0});
      for (size_t lane = 0; lane < 8; ++lane)
        draws[static_cast<size_t>(i) + lane] = words[lane / 2] >> (lane % 2 * 16) & 0xffff;
    }
    ORACLE_ELEMENTS
    for (int64_t e = 0; e < count; ++e) {
      const int64_t i = begin + e;
      AdamWElement element;  // a skipped step moves nothing
      double exact = param[i];
      if (!scalars.skipped) {
        element = adamw_element(scalars, param[i], grad[i], exp_avg[i], exp_avg_sq[i]);
        exact = dithered(param[i] - element.movement, draws[static_cast<size_t>(e)]);
        param[i] = nearest_bf16(exact);
        exp_avg[i] = element.m;
        exp_avg_sq[i] = element.v;
      }
      if (wants_exact) param_exact[i] = exact;
      if (wants_scale) {
        param_scale[i] = element.movement_scale;
        exp_avg_scale[i] = element.m_scale;
        exp_avg_sq_scale[i] = element.v_scale;
      }
    }
  }
}

}  // namespace stepbench
