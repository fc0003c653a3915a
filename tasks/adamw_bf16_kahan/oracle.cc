// AdamW on bf16 weights with a compensated sum (Kahan, "Further remarks on reducing truncation errors", CACM 8, 1965;
// for bf16 weights Zamirai et al., "Revisiting BFloat16 Training", 2020, algorithm 1); conventions of task.json.
#include "tasks/oracle.h"
#include "tasks/adamw_update.h"
#include "tasks/storage.h"

namespace stepbench {

namespace {
enum Buffer { kParam, kGrad, kCompensation, kExpAvg, kExpAvgSq };

/// Room for a sum param + compensation - lr * u that is rounded to fp32 before it is split: half a unit of it, 2^-25 of
/// the sum, reaches the compensation. The limit is 1.6e-6 of the scale, so a quarter of the sum gives seven times that.
constexpr double kSumRoom = 0.25;
}  // namespace

void oracle_adamw_bf16_kahan(const OracleTensor& tensor, std::span<const double> hyper, int64_t first, int64_t last) {
  const AdamWScalars scalars(hyper);
  double* const param = tensor.buffers[kParam];
  const double* const grad = tensor.buffers[kGrad];
  double* const compensation = tensor.buffers[kCompensation];
  double* const exp_avg = tensor.buffers[kExpAvg];
  double* const exp_avg_sq = tensor.buffers[kExpAvgSq];
  const double* const stored = tensor.stored[kParam];

  for (int64_t i = first; i < last; ++i) {
    double sum = param[i], rest = compensation[i], m = exp_avg[i], v = exp_avg_sq[i];
    AdamWElement element;  // a skipped step moves nothing
    double sum_scale = 0, rest_scale = 0;
    if (!scalars.skipped) {
      element = adamw_element(scalars, param[i], grad[i], m, v);
      m = element.m;
      v = element.v;
      sum = param[i] + (compensation[i] - element.movement);
      sum_scale = element.movement_scale + std::fabs(compensation[i]);
      rest_scale = sum_scale + kSumRoom * std::fabs(sum);
      param[i] = nearest_bf16(sum);
      // What is left depends on the parameter that is stored: a candidate's may be the other neighbour of the sum.
      rest = sum - (stored != nullptr ? stored[i] : param[i]);
      compensation[i] = nearest_bf16(rest);
      exp_avg[i] = nearest_bf16(m);
      exp_avg_sq[i] = nearest_bf16(v);
    }
    put(tensor.exact[kParam], i, sum);
    put(tensor.exact[kCompensation], i, rest);
    put(tensor.exact[kExpAvg], i, m);
    put(tensor.exact[kExpAvgSq], i, v);
    put(tensor.scale[kParam], i, sum_scale);
    put(tensor.scale[kCompensation], i, rest_scale);
    put(tensor.scale[kExpAvg], i, element.m_scale);
    put(tensor.scale[kExpAvgSq], i, element.v_scale);
  }
}

}  // namespace stepbench
