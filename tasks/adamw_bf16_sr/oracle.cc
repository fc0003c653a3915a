// AdamW on bf16 weights that are rounded stochastically (Zamirai et al., "Revisiting BFloat16 Training", 2020; Ozkara
// et al., "Stochastic Rounding for LLM Training", 2025) by the random numbers of task.json.
#include "tasks/oracle.h"
#include "tasks/adamw_update.h"
#include "tasks/philox.h"
#include "tasks/storage.h"

namespace stepbench {

namespace {
enum Buffer { kParam, kGrad, kExpAvg, kExpAvgSq };
enum Field { kStep = 0, kSeed = 12 };

/// Counts bf16 values from zero to a magnitude, in fractions: continuous, linear between neighbours. The fp32 pattern
/// over 65536, for any real number.
double position_of(double magnitude) {
  constexpr double kPerOctave = 128;
  const double unit = bf16_unit(magnitude);
  const double octave = std::log2(unit) + 133;  // 0 for subnormals and the first octave, exact for powers of two
  return octave * kPerOctave + magnitude / unit;
}

double at_position(double position) {
  constexpr double kPerOctave = 128;
  const double octave = position < 2 * kPerOctave ? 0 : std::floor(position / kPerOctave) - 1;
  return (position - octave * kPerOctave) * std::ldexp(1.0, static_cast<int>(octave) - 133);
}

/// The number that, rounded to nearest, is `value` rounded with this draw. fp32 holds every fraction k / 65536; with a
/// draw r it goes up from k = 65536 - r on, so the boundary for real numbers lies half a step below that.
double dithered(double value, uint32_t draw) {
  const double position = position_of(std::fabs(value)) + (draw + 0.5) / 65536 - 0.5;
  return std::copysign(position > 0 ? at_position(position) : 0, value);
}
}  // namespace

void oracle_adamw_bf16_sr(const OracleTensor& tensor, std::span<const double> hyper, int64_t first, int64_t last) {
  const AdamWScalars scalars(hyper);
  double* const param = tensor.buffers[kParam];
  const double* const grad = tensor.buffers[kGrad];
  double* const exp_avg = tensor.buffers[kExpAvg];
  double* const exp_avg_sq = tensor.buffers[kExpAvgSq];
  const auto step = static_cast<uint32_t>(hyper[kStep]), seed = static_cast<uint32_t>(hyper[kSeed]);
  const auto index = static_cast<uint32_t>(tensor.index);

  std::array<uint32_t, 4> words{};
  uint64_t words_group = ~uint64_t{0};
  for (int64_t i = first; i < last; ++i) {
    AdamWElement element;  // a skipped step moves nothing
    double exact = param[i];
    if (!scalars.skipped) {
      element = adamw_element(scalars, param[i], grad[i], exp_avg[i], exp_avg_sq[i]);
      const auto place = static_cast<uint64_t>(tensor.first + i), group = place / 8, lane = place % 8;
      if (group != words_group) {
        words = philox4x32({static_cast<uint32_t>(group), static_cast<uint32_t>(group >> 32), index, step}, {seed, 0});
        words_group = group;
      }
      const uint32_t draw = words[lane / 2] >> (lane % 2 * 16) & 0xffff;
      exact = dithered(param[i] - element.movement, draw);
      param[i] = nearest_bf16(exact);
      exp_avg[i] = element.m;
      exp_avg_sq[i] = element.v;
    }
    put(tensor.exact[kParam], i, exact);
    put(tensor.scale[kParam], i, element.movement_scale);
    put(tensor.scale[kExpAvg], i, element.m_scale);
    put(tensor.scale[kExpAvgSq], i, element.v_scale);
  }
}

}  // namespace stepbench
