// The innermost loops over the values of a list: making them, widening them to double, measuring them against their
// limits. A list of real size has billions of values, so they are compiled once for each instruction-set level
// (value_loops_level.cc) and the best that the machine has is chosen when the program runs. Every level gives the same
// bits: each operation is rounded by itself and none depends on another element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "harness/generate.h"
#include "harness/model.h"

namespace stepbench {

/// Units in the last place of a format: the power of two at or below a magnitude, which is held in [least, most], times
/// `unit`.
struct UlpTerms {
  double least = 1, most = 1, unit = 1;
};
/// What the distance from a value's right neighbours is subtracted from.
enum class StoredGap : uint8_t {
  kNone,    ///< values are not rounded when they are stored: nothing
  kFormat,  ///< `share` of the gap between neighbours of the storage format
  kCode,    ///< `share` of 1
};
/// The limits of compare() for one buffer.
struct RatioTerms {
  double scale_ratio = 0, ulp_ratio = 0;
  UlpTerms computed{};
  StoredGap gap = StoredGap::kNone;
  double share = 0;
  UlpTerms stored{};  ///< for StoredGap::kFormat
};
struct BlockRatios {
  bool plain = false;  ///< every element has a finite limit and is within it; no value is infinite or NaN
  double worst = 0;    ///< the largest ratio, where plain
};

struct ValueLoops {
  const char* name = "";
  /// Elements [first, first + count) as stored, to `out`. The type is a floating-point one.
  void (*generate)(const GenerateSpec& spec, uint64_t first, size_t count, std::byte* out) = nullptr;
  /// Storage to double, exactly.
  void (*widen)(DType dtype, const std::byte* stored, size_t count, double* out) = nullptr;
  /// Errors in units of the limit, to `ratio`; of use where the block is plain.
  BlockRatios (*ratios)(const RatioTerms& terms, const double* expected, const double* got, const double* scale,
                        size_t count, double* ratio) = nullptr;
};

namespace isa_base {
ValueLoops value_loops();
}
namespace isa_avx2 {
ValueLoops value_loops();
}
namespace isa_avx512 {
ValueLoops value_loops();
}

/// Those that this machine can run, slowest first.
std::vector<ValueLoops> value_loops_levels();
/// The best of them.
const ValueLoops& value_loops();

}  // namespace stepbench
