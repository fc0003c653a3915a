// AdamW on an fp32 master copy, with the bf16 parameter as its rounded image (Micikevicius et al., "Mixed Precision
// Training", ICLR 2018, section 3.1, with bf16 for fp16); conventions of task.json.
#include "tasks/oracle.h"
#include "tasks/adamw_update.h"
#include "tasks/storage.h"

namespace stepbench {

namespace {
enum Buffer { kParam, kGrad, kMaster, kExpAvg, kExpAvgSq };
}

ORACLE_EACH_LEVEL
void oracle_adamw_bf16_master(const OracleTensor& tensor, std::span<const double> hyper, int64_t first, int64_t last) {
  const AdamWScalars scalars(hyper);
  double* const param = tensor.buffers[kParam];
  const double* const grad = tensor.buffers[kGrad];
  double* const master = tensor.buffers[kMaster];
  double* const exp_avg = tensor.buffers[kExpAvg];
  double* const exp_avg_sq = tensor.buffers[kExpAvgSq];
  double* const param_scale = tensor.scale[kParam];
  double* const master_scale = tensor.scale[kMaster];
  double* const exp_avg_scale = tensor.scale[kExpAvg];
  double* const exp_avg_sq_scale = tensor.scale[kExpAvgSq];
  const bool wants_scale = param_scale != nullptr;  // of all or of none
  // The parameter follows the master that is stored: the candidate's where there is one, within its limits.
  const bool judged = tensor.stored[kMaster] != nullptr;
  const double* const stored = judged ? tensor.stored[kMaster] : master;

  ORACLE_ELEMENTS
  for (int64_t i = first; i < last; ++i) {
    AdamWElement element;  // a skipped step moves nothing
    if (!scalars.skipped) {
      element = adamw_element(scalars, master[i], grad[i], exp_avg[i], exp_avg_sq[i]);
      const double given = stored[i], updated = master[i] - element.movement;
      master[i] = updated;
      exp_avg[i] = element.m;
      exp_avg_sq[i] = element.v;
      param[i] = nearest_bf16(judged ? given : updated);
    }
    if (wants_scale) {
      param_scale[i] = 0;
      master_scale[i] = element.movement_scale;
      exp_avg_scale[i] = element.m_scale;
      exp_avg_sq_scale[i] = element.v_scale;
    }
  }
}

}  // namespace stepbench
