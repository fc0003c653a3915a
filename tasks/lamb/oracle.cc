// LAMB in double precision (You et al., "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes", ICLR
// 2020, algorithm 2, with phi(z) = z), with the conventions of task.json. Norms are those of one tensor.
#include "tasks/oracle.h"

#include <cmath>
#include <utility>

namespace stepbench {

namespace {
enum Field { kStep, kLr, kBeta1, kBeta2, kEps, kWeightDecay, kBc1, kBc2, kBc2Sqrt, kGradScale, kFoundInf };
enum Buffer { kParam, kGrad, kExpAvg, kExpAvgSq };

/// Room for bias corrections that a candidate computes itself with a powf that is good to 4 ulp, as in tasks/adamw.
constexpr double kPowerRoom = 1;

/// Smallest normal fp32 number: below it rounding errors no longer shrink with the value, and terms are taken as at
/// least this large where an error in them is divided by a denominator that may be as small as eps.
constexpr double kLeastNormal = 0x1p-126;

/// What the sums of squares of both norms may add to the ratio's relative error, 2e-6, in units of the parameter's
/// limit of 1.6e-6. Sums in fp32 with some hundred partial sums stay below a tenth of it.
constexpr double kRatioRoom = 2e-6 / 1.6e-6;

struct Scalars {
  double lr, beta1, beta2, eps, weight_decay, power_room;
  /// To multiply by: an oracle takes its time for divisions.
  double inverse_grad_scale, inverse_correction1, inverse_correction2;

  explicit Scalars(std::span<const double> hyper)
      : lr(hyper[kLr]),
        beta1(hyper[kBeta1]),
        beta2(hyper[kBeta2]),
        eps(hyper[kEps]),
        weight_decay(hyper[kWeightDecay]),
        inverse_grad_scale(1 / hyper[kGradScale]) {
    // Derived again, not taken from hyper[]: those are rounded to fp32 for the candidate's convenience.
    const double power1 = std::pow(beta1, hyper[kStep]), power2 = std::pow(beta2, hyper[kStep]);
    const double bias_correction1 = 1 - power1, bias_correction2 = 1 - power2;
    inverse_correction1 = 1 / bias_correction1;
    inverse_correction2 = 1 / bias_correction2;
    power_room = 1 + kPowerRoom * (power1 / bias_correction1 + 0.5 * power2 / bias_correction2);
  }
};

/// The update of one element before the trust ratio, from the new moments, and the magnitudes in it.
struct Update {
  double u, scale;

  Update(const Scalars& s, double p, double m, double v, double m_scale) {
    const double rate = s.inverse_correction1 / (std::sqrt(v * s.inverse_correction2) + s.eps);
    u = m * rate + s.weight_decay * p;
    scale = (m_scale + kLeastNormal) * rate * s.power_room + s.weight_decay * std::fabs(p);
  }
};
}  // namespace

void oracle_lamb(const OracleTensor& tensor, std::span<const double> hyper, int64_t first, int64_t last) {
  const bool skipped = hyper[kFoundInf] != 0;
  const Scalars s(hyper);
  double* const param = tensor.buffers[kParam];
  const double* const grad = tensor.buffers[kGrad];
  double* const exp_avg = tensor.buffers[kExpAvg];
  double* const exp_avg_sq = tensor.buffers[kExpAvgSq];
  double* const param_scale = tensor.scale[kParam];
  double* const exp_avg_scale = tensor.scale[kExpAvg];
  double* const exp_avg_sq_scale = tensor.scale[kExpAvgSq];

  if (skipped) {  // moves nothing
    for (const auto& [scale, values] :
         {std::pair(param_scale, param), std::pair(exp_avg_scale, exp_avg), std::pair(exp_avg_sq_scale, exp_avg_sq)})
      for (int64_t i = first; i < last && scale != nullptr; ++i) scale[i] = 0;
    return;
  }

  // Moments and norms. Errors of u change its norm, to first order, by the sum of u times them: a random walk, whose
  // squared length for errors of the scale's size is `walk`.
  double param_squares = 0, update_squares = 0, walk = 0;
  const auto m_scale_of = [&](double old_m, double g) {
    return s.beta1 * std::fabs(old_m) + (1 - s.beta1) * std::fabs(g);
  };
  for (int64_t i = first; i < last; ++i) {
    const double g = grad[i] * s.inverse_grad_scale;
    const double m_scale = m_scale_of(exp_avg[i], g);
    exp_avg[i] = s.beta1 * exp_avg[i] + (1 - s.beta1) * g;
    exp_avg_sq[i] = s.beta2 * exp_avg_sq[i] + (1 - s.beta2) * g * g;
    if (exp_avg_scale != nullptr) exp_avg_scale[i] = m_scale;
    if (exp_avg_sq_scale != nullptr) exp_avg_sq_scale[i] = exp_avg_sq[i];  // both terms are positive
    const Update update(s, param[i], exp_avg[i], exp_avg_sq[i], m_scale);
    param_squares += param[i] * param[i];
    update_squares += update.u * update.u;
    walk += update.u * update.scale * update.u * update.scale;
  }
  const bool has_ratio = param_squares > 0 && update_squares > 0;
  const double ratio = has_ratio ? std::sqrt(param_squares / update_squares) : 1;
  const double ratio_room = has_ratio ? kRatioRoom + std::sqrt(walk) / update_squares : 0;

  for (int64_t i = first; i < last; ++i) {
    // The old moment is gone, its magnitude is not.
    const double g = grad[i] * s.inverse_grad_scale;
    const double old_m = (exp_avg[i] - (1 - s.beta1) * g) / s.beta1;
    const Update update(s, param[i], exp_avg[i], exp_avg_sq[i], m_scale_of(old_m, g));
    if (param_scale != nullptr) param_scale[i] = s.lr * ratio * (update.scale + std::fabs(update.u) * ratio_room);
    param[i] -= s.lr * ratio * update.u;
  }
}

}  // namespace stepbench
