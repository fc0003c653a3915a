// Adan in double precision (Xie et al., "Adan: Adaptive Nesterov Momentum Algorithm for Faster Optimizing Deep Models",
// IEEE TPAMI 2024, algorithm 1 without restarts), with the conventions of task.json. Its betas are 1 minus the paper's.
#include "tasks/oracle.h"

#include <cmath>

namespace stepbench {

namespace {
enum Field {
  kStep,
  kLr,
  kBeta1,
  kBeta2,
  kBeta3,
  kEps,
  kWeightDecay,
  kBc1,
  kBc2,
  kBc3,
  kIsFirstStep,
  kGradScale,
  kFoundInf
};
enum Buffer { kParam, kGrad, kExpAvg, kExpAvgDiff, kExpAvgSq, kPrevGrad };

/// Room for a candidate that computes its bias corrections itself in fp32. CUDA's powf is good to 4 ulp, 2^-21 of
/// beta^t; the error of 1 - beta^t is then up to 2^-21 * beta^t / (1 - beta^t) of it. The limit on `param` is about
/// 2^-20 of the scale, so one unit covers twice that.
constexpr double kPowerRoom = 1;

/// Smallest normal fp32 number. Below it rounding errors no longer shrink with the value: terms are taken as at least
/// this large where an error in them is divided by a denominator that may be as small as eps.
constexpr double kLeastNormal = 0x1p-126;

/// Gradients may cancel in k = g + beta2 * (g - prev): it is then as uncertain as its terms, e * k_scale with e some
/// 2^-23, and its square by 2 * e * |k| * k_scale + (e * k_scale)^2. In units of e that is the scale below; it is k^2
/// where nothing cancels.
constexpr double kSquaredError = 1e-7;
double square_scale(double k, double k_scale) {
  return std::fabs(k) * (2 * k_scale - std::fabs(k)) + kSquaredError * k_scale * k_scale;
}
}  // namespace

ORACLE_EACH_LEVEL
void oracle_adan(const OracleTensor& tensor, std::span<const double> hyper, int64_t first, int64_t last) {
  const double lr = hyper[kLr], beta1 = hyper[kBeta1], beta2 = hyper[kBeta2], beta3 = hyper[kBeta3];
  const double eps = hyper[kEps], weight_decay = hyper[kWeightDecay], grad_scale = hyper[kGradScale];
  const bool is_first_step = hyper[kIsFirstStep] != 0, skipped = hyper[kFoundInf] != 0;
  // Derived again, not taken from hyper[]: those are rounded to fp32 for the candidate's convenience.
  const double power1 = std::pow(beta1, hyper[kStep]), power2 = std::pow(beta2, hyper[kStep]);
  const double power3 = std::pow(beta3, hyper[kStep]);
  const double bias_correction1 = 1 - power1, bias_correction2 = 1 - power2, bias_correction3 = 1 - power3;
  // To multiply by: an oracle takes its time for divisions.
  const double inverse_grad_scale = 1 / grad_scale, inverse_correction1 = 1 / bias_correction1;
  const double inverse_correction2 = 1 / bias_correction2, inverse_correction3 = 1 / bias_correction3;
  const double inverse_shrink = 1 / (1 + lr * weight_decay);
  const double root_room = kPowerRoom * 0.5 * power3 / bias_correction3;
  const double m_room = 1 + kPowerRoom * power1 / bias_correction1 + root_room;
  const double d_room = 1 + kPowerRoom * power2 / bias_correction2 + root_room;

  double* const param = tensor.buffers[kParam];
  const double* const grad = tensor.buffers[kGrad];
  double* const exp_avg = tensor.buffers[kExpAvg];
  double* const exp_avg_diff = tensor.buffers[kExpAvgDiff];
  double* const exp_avg_sq = tensor.buffers[kExpAvgSq];
  double* const prev_grad = tensor.buffers[kPrevGrad];
  double* const param_scale = tensor.scale[kParam];
  double* const exp_avg_scale = tensor.scale[kExpAvg];
  double* const exp_avg_diff_scale = tensor.scale[kExpAvgDiff];
  double* const exp_avg_sq_scale = tensor.scale[kExpAvgSq];
  double* const prev_grad_scale = tensor.scale[kPrevGrad];
  const bool wants_scale = param_scale != nullptr;  // of all or of none

  ORACLE_ELEMENTS
  for (int64_t i = first; i < last; ++i) {
    double p = param[i], m = exp_avg[i], d = exp_avg_diff[i], v = exp_avg_sq[i], prev = prev_grad[i];
    double p_scale = 0, m_scale = 0, d_scale = 0, v_scale = 0, prev_scale = 0;  // a skipped step moves nothing
    if (!skipped) {
      const double g = grad[i] * inverse_grad_scale;
      const double diff = is_first_step ? 0 : g - prev;  // whatever prev_grad holds at the first step
      const double diff_scale = is_first_step ? 0 : std::fabs(g) + std::fabs(prev);
      m_scale = beta1 * std::fabs(m) + (1 - beta1) * std::fabs(g);
      m = beta1 * m + (1 - beta1) * g;
      d_scale = beta2 * std::fabs(d) + (1 - beta2) * diff_scale;
      d = beta2 * d + (1 - beta2) * diff;
      const double k = g + beta2 * diff, k_scale = std::fabs(g) + beta2 * diff_scale;
      v_scale = beta3 * v + (1 - beta3) * square_scale(k, k_scale);
      v = beta3 * v + (1 - beta3) * k * k;
      const double root = std::sqrt(v * inverse_correction3);
      const double rate = 1 / (root + eps);
      const double u = (m * inverse_correction1 + beta2 * d * inverse_correction2) * rate;
      const double u_scale = ((m_scale + kLeastNormal) * inverse_correction1 * m_room +
                              (beta2 * d_scale + kLeastNormal) * inverse_correction2 * d_room) *
                             rate;
      // What cancels in v shows in the root by half; what does not is within the scale of the numerator.
      const double uncertain_root = v > 0 ? 0.5 * (v_scale / v - 1) * root * rate : 0;
      p_scale = (lr * (u_scale + std::fabs(u) * uncertain_root + weight_decay * std::fabs(p)) + kLeastNormal * rate) *
                inverse_shrink;
      p = (p - lr * u) * inverse_shrink;
      prev = g;
      prev_scale = std::fabs(g);
    }
    param[i] = p;
    exp_avg[i] = m;
    exp_avg_diff[i] = d;
    exp_avg_sq[i] = v;
    prev_grad[i] = prev;
    if (wants_scale) {
      param_scale[i] = p_scale;
      exp_avg_scale[i] = m_scale;
      exp_avg_diff_scale[i] = d_scale;
      exp_avg_sq_scale[i] = v_scale;
      prev_grad_scale[i] = prev_scale;
    }
  }
}

}  // namespace stepbench
