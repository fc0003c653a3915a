// RAdam in double precision (Liu et al., "On the Variance of the Adaptive Learning Rate and Beyond", ICLR 2020,
// algorithm 2, with the threshold, the place of eps and both kinds of decay of the documentation of torch.optim.RAdam),
// with the conventions of task.json.
#include "tasks/oracle.h"

#include <cmath>

namespace stepbench {

namespace {
enum Field {
  kStep,
  kLr,
  kBeta1,
  kBeta2,
  kEps,
  kL2Decay,
  kWeightDecay,
  kDecoupled,
  kBc1,
  kBc2,
  kBc2Sqrt,
  kRhoInf,
  kRho,
  kRectified,
  kRectification,
  kGradScale,
  kFoundInf
};
enum Buffer { kParam, kGrad, kExpAvg, kExpAvgSq };

/// Room for a candidate that computes bias_correction1 itself in fp32. CUDA's powf is good to 4 ulp, 2^-21 of beta1^t;
/// the error of 1 - beta1^t is then up to 2^-21 * beta1^t / (1 - beta1^t) of it. The limit on `param` is about 2^-20 of
/// the scale, so one unit covers twice that. What depends on beta2^t has no such room: see "rho_precision" in
/// task.json.
constexpr double kPowerRoom = 1;

/// Smallest normal fp32 number. Below it rounding errors no longer shrink with the value: terms are taken as at least
/// this large where an error in them is divided by a denominator that may be as small as eps.
constexpr double kLeastNormal = 0x1p-126;

/// Gradient and decay may cancel: g is then as uncertain as its terms, e * g_scale with e some 2^-23, and its square by
/// 2 * e * |g| * g_scale + (e * g_scale)^2. In units of e that is the scale below; it is g^2 where nothing cancels.
constexpr double kSquaredError = 1e-7;
double square_scale(double g, double g_scale) {
  return std::fabs(g) * (2 * g_scale - std::fabs(g)) + kSquaredError * g_scale * g_scale;
}

/// Length of the average above which its variance is taken for known.
constexpr double kRectifiedAbove = 5;
}  // namespace

ORACLE_EACH_LEVEL
void oracle_radam(const OracleTensor& tensor, std::span<const double> hyper, int64_t first, int64_t last) {
  const double lr = hyper[kLr], beta1 = hyper[kBeta1], beta2 = hyper[kBeta2], step = hyper[kStep];
  const double eps = hyper[kEps], weight_decay = hyper[kWeightDecay], grad_scale = hyper[kGradScale];
  const double l2_decay = hyper[kL2Decay];  // this or weight_decay is 0, as hyper[kDecoupled] says
  const bool skipped = hyper[kFoundInf] != 0;
  // Derived again, not taken from hyper[]: those are rounded to fp32 for the candidate's convenience.
  const double power1 = std::pow(beta1, step), power2 = std::pow(beta2, step);
  const double bias_correction1 = 1 - power1, bias_correction2 = 1 - power2;
  // To multiply by: an oracle takes its time for divisions.
  const double inverse_grad_scale = 1 / grad_scale, inverse_correction1 = 1 / bias_correction1;
  const double rho_inf = 2 / (1 - beta2) - 1, rho = rho_inf - 2 * step * power2 / bias_correction2;
  const bool rectified = rho > kRectifiedAbove;
  const double factor =
      rectified ? std::sqrt((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho) * bias_correction2)
                : 1;
  const double root_share = rectified ? 1 : 0, offset = rectified ? eps : 1;  // of the denominator
  const double power_room = 1 + kPowerRoom * power1 / bias_correction1;

  double* const param = tensor.buffers[kParam];
  const double* const grad = tensor.buffers[kGrad];
  double* const exp_avg = tensor.buffers[kExpAvg];
  double* const exp_avg_sq = tensor.buffers[kExpAvgSq];
  double* const param_scale = tensor.scale[kParam];
  double* const exp_avg_scale = tensor.scale[kExpAvg];
  double* const exp_avg_sq_scale = tensor.scale[kExpAvgSq];

  ORACLE_ELEMENTS
  for (int64_t i = first; i < last; ++i) {
    double p = param[i], m = exp_avg[i], v = exp_avg_sq[i];
    double p_scale = 0, m_scale = 0, v_scale = 0;  // a skipped step moves nothing
    if (!skipped) {
      const double g = grad[i] * inverse_grad_scale + l2_decay * p;
      const double g_scale = std::fabs(grad[i] * inverse_grad_scale) + l2_decay * std::fabs(p);
      m_scale = beta1 * std::fabs(m) + (1 - beta1) * g_scale;
      m = beta1 * m + (1 - beta1) * g;
      v_scale = beta2 * v + (1 - beta2) * square_scale(g, g_scale);
      v = beta2 * v + (1 - beta2) * g * g;
      const double root = std::sqrt(v);
      const double rate = 1 / (root_share * root + offset);
      const double u = m * inverse_correction1 * factor * rate;
      const double u_scale = (m_scale + kLeastNormal) * inverse_correction1 * factor * rate;
      // What cancels in v shows in the root by half; what does not is within the scale of the numerator.
      const double uncertain_root = v > 0 ? 0.5 * (v_scale / v - 1) * root_share * root * rate : 0;
      p_scale = lr * (u_scale * power_room + std::fabs(u) * uncertain_root + weight_decay * std::fabs(p)) +
                kLeastNormal * rate;
      p -= lr * (u + weight_decay * p);
    }
    param[i] = p;
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
    if (param_scale != nullptr) param_scale[i] = p_scale;
    if (exp_avg_scale != nullptr) exp_avg_scale[i] = m_scale;
    if (exp_avg_sq_scale != nullptr) exp_avg_sq_scale[i] = v_scale;
  }
}

}  // namespace stepbench
