// signSGD with momentum, called Signum (Bernstein et al., "signSGD: compressed optimisation for non-convex problems",
// ICML 2018, algorithm 2), in double precision, with the conventions of task.json. The paper has no weight decay; the
// decoupled one is that of Loshchilov and Hutter, "Decoupled Weight Decay Regularization", ICLR 2019, algorithm 1.
#include "tasks/oracle.h"

#include <cmath>

namespace stepbench {

namespace {
enum Field { kStep, kLr, kBeta, kWeightDecay, kGradScale, kFoundInf };
enum Buffer { kParam, kGrad, kExpAvg };

/// The argument of the sign is the very value that is stored as exp_avg, so an argument may be as wrong as exp_avg may:
/// these two are that buffer's step_scale_ratio and step_ulp, the latter in the units in which a subnormal is rounded.
/// An average closer to zero than that may be stored with either sign, or as zero, and the step may follow any of them.
constexpr double kSignMargin = 4e-7;
constexpr double kSubnormalMargin = 3 * 0x1p-149;

/// Scale of an element whose sign is open, in units of lr: with the limit of 1e-6 of the scale that is 4 lr, twice the
/// distance of 2 lr between the two signs.
constexpr double kEitherSign = 4e6;
}  // namespace

ORACLE_EACH_LEVEL
void oracle_signsgd(const OracleTensor& tensor, std::span<const double> hyper, int64_t first, int64_t last) {
  const double lr = hyper[kLr], beta = hyper[kBeta], weight_decay = hyper[kWeightDecay];
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
      m_scale = beta * std::fabs(m) + (1 - beta) * std::fabs(g);
      m = beta * m + (1 - beta) * g;
      const double sign = m > 0 ? 1 : m < 0 ? -1 : 0;
      // Two zeros make an exact zero in every order of operations, so there the sign is never open.
      const bool open = m_scale > 0 && std::fabs(m) <= kSignMargin * m_scale + kSubnormalMargin;
      p_scale = lr * (1 + weight_decay * std::fabs(p) + (open ? kEitherSign : 0));
      p = p * (1 - lr * weight_decay) - lr * sign;
    }
    param[i] = p;
    exp_avg[i] = m;
    if (param_scale != nullptr) param_scale[i] = p_scale;
    if (exp_avg_scale != nullptr) exp_avg_scale[i] = m_scale;
  }
}

}  // namespace stepbench
