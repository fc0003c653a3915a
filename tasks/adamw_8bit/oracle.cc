// AdamW with both moments in blocks of 256 codes of 8 bits and one scale (Dettmers, Lewis, Shleifer, Zettlemoyer,
// "8-bit Optimizers via Block-wise Quantization", ICLR 2022); conventions of task.json.
#include <algorithm>
#include <array>

#include "tasks/adamw_update.h"
#include "tasks/oracle.h"
#include "tasks/storage.h"

namespace stepbench {

namespace {
enum Buffer { kParam, kGrad, kCodes1, kScale1, kCodes2, kScale2 };
constexpr int64_t kBlock = 256;
constexpr int kCodes = 256;

/// The limit of a code: step_scale_ratio of task.json. An error of the value is not one of the code in proportion, for
/// small values lie closer together; so the scale is worked out from the code's distance at the limit of the value.
constexpr double kCodeRatio = 1e-6;

/// Room of four units of fp32's last place: below the normal numbers they no longer shrink with the value.
constexpr double kUnitRoom = 0x1p22;

/// Values of the codes, ascending ("dynamic" data type of the paper, section 1.3, without its sign bit in the unsigned
/// map): the k-th positive value lies in the decade of floor(log2 k), whose 2^i equal parts have it in the middle.
struct Map {
  std::array<double, kCodes> value{};

  /// The last code whose value is not above y; 0 where all are. Without a branch: half of them would be mispredicted,
  /// and this is the time of the oracle.
  size_t below(double y) const {
    size_t code = 0;
    for (size_t step = kCodes / 2; step > 0; step /= 2) code += static_cast<size_t>(value[code + step] <= y) * step;
    return code;
  }
  /// One real number per value: the code at a code's value, halfway between codes halfway between their values. The
  /// search begins at `code`, which changes nothing but its time.
  double position(double y, size_t code) const {
    if (!(y > value.front())) return std::isnan(y) ? y : 0;
    if (y >= value.back()) return kCodes - 1;
    code = std::min<size_t>(code, kCodes - 2);
    while (value[code + 1] <= y) ++code;
    while (value[code] > y) --code;
    return static_cast<double>(code) + (y - value[code]) / (value[code + 1] - value[code]);
  }
  /// The same with codes that go on below the first as it begins. No value lies there, but an error may reach beyond
  /// the end; cut off, the limit would be no larger than the largest error that can be.
  double extended(double y, size_t code) const {
    return y < value.front() ? (y - value.front()) / (value[1] - value.front()) : position(y, code);
  }
  /// Most codes that an error of y, which lies at `at`, can be worth.
  double reach(double y, double at, double error, size_t code) const {
    return std::max(position(y + error, code) - at, at - extended(y - error, code));
  }
};

/// k counts from 1; a decade i has 2^i parts, twice as many with `finer` = 1.
double positive_value(int k, int finer) {
  int i = 0;
  while (k >> (i + 1) != 0) ++i;
  const int parts = 1 << i, part = k - parts;
  const double upper_end = std::pow(10.0, i - finer - 6);
  return upper_end * (0.1 + 0.9 * (part + 0.5) / parts);
}

Map signed_map() {
  Map map;
  constexpr int kZero = 127;
  for (int k = 1; k <= kZero; ++k) {
    map.value[static_cast<size_t>(kZero + k)] = nearest_fp32(positive_value(k, 0));
    map.value[static_cast<size_t>(kZero - k)] = -map.value[static_cast<size_t>(kZero + k)];
  }
  map.value.back() = 1;
  return map;
}

Map unsigned_map() {
  Map map;
  for (int code = 1; code < kCodes - 1; ++code)
    map.value[static_cast<size_t>(code)] = nearest_fp32(positive_value(code + 1, 1));
  map.value.back() = 1;
  return map;
}

/// One block of one moment in the middle of a step.
struct Quantised {
  const Map* map;
  double* codes;              ///< of the block
  double* block_scale;        ///< one element
  const double* stored;       ///< the candidate's scale; null where there is none
  double* exact;              ///< of the codes; may be null
  double* code_scale;         ///< OracleTensor::scale of the codes; may be null
  double* block_scale_scale;  ///< that of the block's scale; may be null
  std::array<double, kBlock> value{}, value_scale{};

  double decoded(int64_t i) const { return map->value[static_cast<size_t>(codes[i])] * *block_scale; }

  /// Stores `value` again, or writes out what a skipped step leaves.
  void encode(int64_t count, bool skipped) {
    double most = 0, most_scale = 0;
    for (int64_t i = 0; i < count; ++i) {
      most = std::max(most, std::fabs(value[static_cast<size_t>(i)]));
      most_scale = std::max(most_scale, value_scale[static_cast<size_t>(i)]);
    }
    if (!skipped) *block_scale = most;
    put(block_scale_scale, 0, most_scale);
    const double unit = stored != nullptr ? *stored : most;  // codes count in what is stored as the scale
    for (int64_t i = 0; i < count; ++i) {
      double position = codes[i], scale = 0;
      if (!skipped) {
        const double v = value[static_cast<size_t>(i)], y = unit > 0 ? v / unit : 0;
        const size_t code = map->below(y);
        position = map->position(y, code);
        codes[i] = std::nearbyint(position);
        if (unit > 0) {
          const double error = (value_scale[static_cast<size_t>(i)] + kUnitRoom * fp32_unit(v)) / unit + std::fabs(y);
          scale = map->reach(y, position, kCodeRatio * error, code) / kCodeRatio;
        }
      }
      put(exact, i, position);
      put(code_scale, i, scale);
    }
  }
};
}  // namespace

void oracle_adamw_8bit(const OracleTensor& tensor, std::span<const double> hyper, int64_t first, int64_t last) {
  static const Map kSigned = signed_map(), kUnsigned = unsigned_map();
  const AdamWScalars scalars(hyper);
  double* const param = tensor.buffers[kParam];
  const double* const grad = tensor.buffers[kGrad];
  const auto quantised = [&](const Map& map, Buffer codes, Buffer scale, int64_t begin) {
    const int64_t block = begin / kBlock;
    const auto at = [](auto* span, int64_t i) { return span != nullptr ? span + i : span; };
    return Quantised{.map = &map,
                     .codes = tensor.buffers[codes] + begin,
                     .block_scale = tensor.buffers[scale] + block,
                     .stored = at(tensor.stored[scale], block),
                     .exact = at(tensor.exact[codes], begin),
                     .code_scale = at(tensor.scale[codes], begin),
                     .block_scale_scale = at(tensor.scale[scale], block)};
  };

  for (int64_t begin = first; begin < last; begin += kBlock) {
    const int64_t count = std::min(kBlock, last - begin);
    Quantised m = quantised(kSigned, kCodes1, kScale1, begin), v = quantised(kUnsigned, kCodes2, kScale2, begin);
    for (int64_t i = 0; i < count; ++i) {
      AdamWElement element;  // a skipped step moves nothing
      double exact = param[begin + i];
      if (!scalars.skipped) {
        element = adamw_element(scalars, param[begin + i], grad[begin + i], m.decoded(i), v.decoded(i));
        exact -= element.movement;
        param[begin + i] = nearest_bf16(exact);
      }
      m.value[static_cast<size_t>(i)] = element.m;
      m.value_scale[static_cast<size_t>(i)] = element.m_scale;
      v.value[static_cast<size_t>(i)] = element.v;
      v.value_scale[static_cast<size_t>(i)] = element.v_scale;
      put(tensor.exact[kParam], begin + i, exact);
      put(tensor.scale[kParam], begin + i, element.movement_scale);
    }
    m.encode(count, scalars.skipped);
    v.encode(count, scalars.skipped);
  }
}

}  // namespace stepbench
