// AdamW whose moments are stored in bf16 (the training recipe of DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024,
// section 3.3.3); conventions of task.json.
#include "tasks/oracle.h"
#include "tasks/adamw_update.h"
#include "tasks/storage.h"

namespace stepbench {

namespace {
enum Buffer { kParam, kGrad, kExpAvg, kExpAvgSq };
}

void oracle_adamw_bf16_states(const OracleTensor& tensor, std::span<const double> hyper, int64_t first, int64_t last) {
  const AdamWScalars scalars(hyper);
  double* const param = tensor.buffers[kParam];
  const double* const grad = tensor.buffers[kGrad];
  double* const exp_avg = tensor.buffers[kExpAvg];
  double* const exp_avg_sq = tensor.buffers[kExpAvgSq];

  for (int64_t i = first; i < last; ++i) {
    AdamWElement element;  // a skipped step moves nothing
    element.m = exp_avg[i];
    element.v = exp_avg_sq[i];
    if (!scalars.skipped) element = adamw_element(scalars, param[i], grad[i], exp_avg[i], exp_avg_sq[i]);
    param[i] -= element.movement;
    exp_avg[i] = nearest_bf16(element.m);
    exp_avg_sq[i] = nearest_bf16(element.v);
    put(tensor.exact[kExpAvg], i, element.m);
    put(tensor.exact[kExpAvgSq], i, element.v);
    put(tensor.scale[kParam], i, element.movement_scale);
    put(tensor.scale[kExpAvg], i, element.m_scale);
    put(tensor.scale[kExpAvgSq], i, element.v_scale);
  }
}

}  // namespace stepbench
