// AdamW on an fp32 master whose high half, rounded, is the bf16 parameter and whose low half lies beside it;
// conventions of task.json. The split is lossless: bit pattern = 65536 * param + remainder.
#include "tasks/oracle.h"
#include "tasks/adamw_update.h"
#include "tasks/storage.h"

namespace stepbench {

namespace {
enum Buffer { kParam, kGrad, kRemainder, kExpAvg, kExpAvgSq };

double joined(double param, double remainder) {
  const uint32_t high = std::bit_cast<uint32_t>(static_cast<float>(param));  // a bf16 value: the low half is zero
  const auto low = static_cast<uint32_t>(static_cast<int32_t>(remainder));
  return static_cast<double>(std::bit_cast<float>(high + low));
}

struct Split {
  double param, remainder;
};
Split split(double master) {
  const uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(master));
  const uint32_t high = (bits + 0x8000u) & 0xffff0000u;
  return {static_cast<double>(std::bit_cast<float>(high)), static_cast<double>(static_cast<int16_t>(bits & 0xffffu))};
}
}  // namespace

ORACLE_EACH_LEVEL
void oracle_adamw_bf16_remainder(const OracleTensor& tensor, std::span<const double> hyper, int64_t first,
                                 int64_t last) {
  const AdamWScalars scalars(hyper);
  double* const param = tensor.buffers[kParam];
  const double* const grad = tensor.buffers[kGrad];
  double* const remainder = tensor.buffers[kRemainder];
  double* const exp_avg = tensor.buffers[kExpAvg];
  double* const exp_avg_sq = tensor.buffers[kExpAvgSq];
  double* const param_exact = tensor.exact[kParam];
  double* const remainder_exact = tensor.exact[kRemainder];
  double* const param_scale = tensor.scale[kParam];
  double* const remainder_scale = tensor.scale[kRemainder];
  double* const exp_avg_scale = tensor.scale[kExpAvg];
  double* const exp_avg_sq_scale = tensor.scale[kExpAvgSq];
  const bool wants_exact = param_exact != nullptr, wants_scale = param_scale != nullptr;  // of all or of none
  const double* const stored_param = tensor.stored[kParam];
  const double* const stored_remainder = tensor.stored[kRemainder];

  ORACLE_ELEMENTS
  for (int64_t i = first; i < last; ++i) {
    double master = joined(param[i], remainder[i]);
    AdamWElement element;  // a skipped step moves nothing
    if (!scalars.skipped) {
      element = adamw_element(scalars, master, grad[i], exp_avg[i], exp_avg_sq[i]);
      master -= element.movement;
      const Split halves = split(master);
      param[i] = halves.param;
      remainder[i] = halves.remainder;
      exp_avg[i] = element.m;
      exp_avg_sq[i] = element.v;
    }
    // The two stored halves are judged as the one number that they are. Its error, in its last places, is charged to
    // the remainder: with the parameter that the candidate stored, the remainder should have been this.
    const double unit = fp32_unit(master);
    double expected = remainder[i];
    if (stored_param != nullptr) {
      const double got = joined(stored_param[i], stored_remainder[i]);
      expected = stored_remainder[i] + std::copysign(1.0, got) * (master - got) / unit;
    }
    if (wants_exact) {
      param_exact[i] = master;
      remainder_exact[i] = expected;
    }
    if (wants_scale) {
      param_scale[i] = element.movement_scale;
      remainder_scale[i] = element.movement_scale / unit;
      exp_avg_scale[i] = element.m_scale;
      exp_avg_sq_scale[i] = element.v_scale;
    }
  }
}

}  // namespace stepbench
