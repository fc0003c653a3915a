// AdamW whose moments are stored in bf16 (the training recipe of DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024,
// section 3.3.3); conventions of task.json.
#include "tasks/oracle.h"
#include "tasks/adamw_update.h"
#include "tasks/storage.h"

namespace stepbench {

namespace {
enum Buffer { kParam, kGrad, kExpAvg, kExpAvgSq };
}

ORACLE_EACH_LEVEL
void oracle_adamw_bf16_states(const OracleTensor& tensor, std::span<const double> hyper, int64_t first, int64_t last) {
  const AdamWScalars scalars(hyper);
  double* const param = tensor.buffers[kParam];
  const double* const grad = tensor.buffers[kGrad];
  double* const exp_avg = tensor.buffers[kExpAvg];
  double* const exp_avg_sq = tensor.buffers[kExpAvgSq];
  double* const exp_avg_exact = tensor.exact[kExpAvg];
  double* const exp_avg_sq_exact = tensor.exact[kExpAvgSq];
  double* const param_scale = tensor.scale[kParam];
  double* const exp_avg_scale = tensor.scale[kExpAvg];
  double* const exp_avg_sq_scale = tensor.scale[kExpAvgSq];
  const bool wants_exact = exp_avg_exact != nullptr, wants_scale = param_scale != nullptr;  // of all or of none

  ORACLE_ELEMENTS
  for (int64_t i = first; i < last; ++i) {
    AdamWElement element;  // a skipped step moves nothing
    element.m = exp_avg[i];
    element.v = exp_avg_sq[i];
    if (!scalars.skipped) element = adamw_element(scalars, param[i], grad[i], exp_avg[i], exp_avg_sq[i]);
    param[i] -= element.movement;
    exp_avg[i] = nearest_bf16(element.m);
    exp_avg_sq[i] = nearest_bf16(element.v);
    if (wants_exact) {
      exp_avg_exact[i] = element.m;
      exp_avg_sq_exact[i] = element.v;
    }
    if (wants_scale) {
      param_scale[i] = element.movement_scale;
      exp_avg_scale[i] = element.m_scale;
      exp_avg_sq_scale[i] = element.v_scale;
    }
  }
}

}  // namespace stepbench
