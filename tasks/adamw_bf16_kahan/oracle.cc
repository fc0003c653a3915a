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

ORACLE_EACH_LEVEL
void oracle_adamw_bf16_kahan(const OracleTensor& tensor, std::span<const double> hyper, int64_t first, int64_t last) {
  const AdamWScalars scalars(hyper);
  double* const param = tensor.buffers[kParam];
  const double* const grad = tensor.buffers[kGrad];
  double* const compensation = tensor.buffers[kCompensation];
  double* const exp_avg = tensor.buffers[kExpAvg];
  double* const exp_avg_sq = tensor.buffers[kExpAvgSq];
  double* const param_exact = tensor.exact[kParam];
  double* const compensation_exact = tensor.exact[kCompensation];
  double* const exp_avg_exact = tensor.exact[kExpAvg];
  double* const exp_avg_sq_exact = tensor.exact[kExpAvgSq];
  double* const param_scale = tensor.scale[kParam];
  double* const compensation_scale = tensor.scale[kCompensation];
  double* const exp_avg_scale = tensor.scale[kExpAvg];
  double* const exp_avg_sq_scale = tensor.scale[kExpAvgSq];
  const bool judged = tensor.stored[kParam] != nullptr;
  const double* const stored = judged ? tensor.stored[kParam] : param;

  const bool wants_scale = param_scale != nullptr, wants_exact = param_exact != nullptr;  // of all or of none

  ORACLE_ELEMENTS
  for (int64_t i = first; i < last; ++i) {
    double sum = param[i], rest = compensation[i], m = exp_avg[i], v = exp_avg_sq[i];
    const double given = stored[i];
    double new_param = sum, new_compensation = rest, new_m = m, new_v = v;
    AdamWElement element;  // a skipped step moves nothing
    double sum_scale = 0, rest_scale = 0;
    if (!scalars.skipped) {
      element = adamw_element(scalars, param[i], grad[i], m, v);
      m = element.m;
      v = element.v;
      sum = param[i] + (compensation[i] - element.movement);
      sum_scale = element.movement_scale + std::fabs(compensation[i]);
      rest_scale = sum_scale + kSumRoom * std::fabs(sum);
      new_param = nearest_bf16(sum);
      // What is left depends on the parameter that is stored: a candidate's may be the other neighbour of the sum.
      rest = sum - (judged ? given : new_param);
      new_compensation = nearest_bf16(rest);
      new_m = nearest_bf16(m);
      new_v = nearest_bf16(v);
    }
    param[i] = new_param;
    compensation[i] = new_compensation;
    exp_avg[i] = new_m;
    exp_avg_sq[i] = new_v;
    if (wants_exact) {
      param_exact[i] = sum;
      compensation_exact[i] = rest;
      exp_avg_exact[i] = m;
      exp_avg_sq_exact[i] = v;
    }
    if (wants_scale) {
      param_scale[i] = sum_scale;
      compensation_scale[i] = rest_scale;
      exp_avg_scale[i] = element.m_scale;
      exp_avg_sq_scale[i] = element.v_scale;
    }
  }
}

}  // namespace stepbench
