// AdamW on an fp32 master copy, with the bf16 parameter as its rounded image (Micikevicius et al., "Mixed Precision
// Training", ICLR 2018, section 3.1, with bf16 for fp16); conventions of task.json.
#include "tasks/oracle.h"
#include "tasks/adamw_update.h"
#include "tasks/storage.h"

namespace stepbench {

namespace {
enum Buffer { kParam, kGrad, kMaster, kExpAvg, kExpAvgSq };
}

void oracle_adamw_bf16_master(const OracleTensor& tensor, std::span<const double> hyper, int64_t first, int64_t last) {
  const AdamWScalars scalars(hyper);
  double* const param = tensor.buffers[kParam];
  const double* const grad = tensor.buffers[kGrad];
  double* const master = tensor.buffers[kMaster];
  double* const exp_avg = tensor.buffers[kExpAvg];
  double* const exp_avg_sq = tensor.buffers[kExpAvgSq];
  // The parameter follows the master that is stored: the candidate's where there is one, within its limits.
  const double* const truth = tensor.stored[kMaster] != nullptr ? tensor.stored[kMaster] : master;

  for (int64_t i = first; i < last; ++i) {
    AdamWElement element;  // a skipped step moves nothing
    if (!scalars.skipped) {
      element = adamw_element(scalars, master[i], grad[i], exp_avg[i], exp_avg_sq[i]);
      master[i] -= element.movement;
      exp_avg[i] = element.m;
      exp_avg_sq[i] = element.v;
      param[i] = nearest_bf16(truth[i]);
    }
    put(tensor.scale[kParam], i, 0);
    put(tensor.scale[kMaster], i, element.movement_scale);
    put(tensor.scale[kExpAvg], i, element.m_scale);
    put(tensor.scale[kExpAvgSq], i, element.v_scale);
  }
}

}  // namespace stepbench
