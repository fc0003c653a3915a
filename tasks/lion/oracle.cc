// Lion in double precision (Chen et al., "Symbolic Discovery of Optimization Algorithms", NeurIPS 2023, algorithm 2;
// the same in the documentation of optax.lion), with the conventions of task.json.
#include "tasks/oracle.h"

#include <cmath>

namespace stepbench {

namespace {
enum Field { kStep, kLr, kBeta1, kBeta2, kWeightDecay, kGradScale, kFoundInf };
enum Buffer { kParam, kGrad, kExpAvg };

/// The argument c of the sign is an average like exp_avg and may be as wrong as that: 4e-7 of the magnitudes in it,
/// some six roundings of 2^-24, and three units where it is subnormal. Closer to zero than that either sign is right,
/// and none. It is the only discontinuity of the update; one random element in some millions meets it.
constexpr double kSignMargin = 4e-7;
constexpr double kSubnormalMargin = 3 * 0x1p-149;

/// Scale of an element whose sign is open, in units of lr: with the limit of 1e-6 of the scale that is 4 lr, twice the
/// distance between the two signs.
constexpr double kEitherSign = 4e6;
}  // namespace

ORACLE_EACH_LEVEL
void oracle_lion(const OracleTensor& tensor, std::span<const double> hyper, int64_t first, int64_t last) {
  const double lr = hyper[kLr], beta1 = hyper[kBeta1], beta2 = hyper[kBeta2];
  const double weight_decay = hyper[kWeightDecay];
  const double inverse_grad_scale = 1 / hyper[kGradScale];  // to multiply by: an oracle takes its time for divisions
  const bool skipped = hyper[kFoundInf] != 0;

  double* const param = tensor.buffers[kParam];
  const double* const grad = tensor.buffers[kGrad];
  double* const exp_avg = tensor.buffers[kExpAvg];
  double* const param_scale = tensor.scale[kParam];
  double* const exp_avg_scale = tensor.scale[kExpAvg];

  ORACLE_ELEMENTS
  for (int64_t i = first; i < last; ++i) {
    double p = param[i], m = exp_avg[i];
    double p_scale = 0, m_scale = 0;  // a skipped step moves nothing
    if (!skipped) {
      const double g = grad[i] * inverse_grad_scale;
      const double c = beta1 * m + (1 - beta1) * g;
      const double c_scale = beta1 * std::fabs(m) + (1 - beta1) * std::fabs(g);
      const double sign = c > 0 ? 1 : c < 0 ? -1 : 0;
      // Where m and g are both zero every form gives exactly zero.
      const bool open = c_scale > 0 && std::fabs(c) <= kSignMargin * c_scale + kSubnormalMargin;
      p_scale = lr * (1 + weight_decay * std::fabs(p) + (open ? kEitherSign : 0));
      p -= lr * (sign + weight_decay * p);
      m_scale = beta2 * std::fabs(m) + (1 - beta2) * std::fabs(g);
      m = beta2 * m + (1 - beta2) * g;
    }
    param[i] = p;
    exp_avg[i] = m;
    if (param_scale != nullptr) param_scale[i] = p_scale;
    if (exp_avg_scale != nullptr) exp_avg_scale[i] = m_scale;
  }
}

}  // namespace stepbench
