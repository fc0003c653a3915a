// AdamW in double precision (Loshchilov, Hutter, "Decoupled Weight Decay Regularization", ICLR 2019, algorithm 2; bias
// corrections of Kingma, Ba, "Adam", ICLR 2015), with the conventions of task.json.
#include "tasks/oracle.h"

#include <cmath>

namespace stepbench {

namespace {
enum Field { kStep, kLr, kBeta1, kBeta2, kEps, kWeightDecay, kBc1, kBc2, kBc2Sqrt, kStepSize, kGradScale, kFoundInf };
enum Buffer { kParam, kGrad, kExpAvg, kExpAvgSq };

/// Room for a candidate that computes its bias corrections itself in fp32. CUDA's powf is good to 4 ulp, 2^-21 of
/// beta^t; the error of 1 - beta^t is then up to 2^-21 * beta^t / (1 - beta^t) of it. The limit on `param` is about
/// 2^-20 of the scale, so one unit covers twice that.
constexpr double kPowerRoom = 1;

/// Smallest normal fp32 number. Below it rounding errors no longer shrink with the value: terms are taken as at least
/// this large where an error in them is divided by a denominator that may be as small as eps. A product such as
/// step_size * m may vanish altogether before the division. In `param` this is worth less than 1e-33.
constexpr double kLeastNormal = 0x1p-126;
}  // namespace

ORACLE_EACH_LEVEL
void oracle_adamw(const OracleTensor& tensor, std::span<const double> hyper, int64_t first, int64_t last) {
  const double lr = hyper[kLr], beta1 = hyper[kBeta1], beta2 = hyper[kBeta2];
  const double eps = hyper[kEps], weight_decay = hyper[kWeightDecay], grad_scale = hyper[kGradScale];
  const bool skipped = hyper[kFoundInf] != 0;
  // Derived again, not taken from hyper[]: those are rounded to fp32 for the candidate's convenience.
  const double power1 = std::pow(beta1, hyper[kStep]), power2 = std::pow(beta2, hyper[kStep]);
  const double bias_correction1 = 1 - power1, bias_correction2 = 1 - power2;
  // To multiply by: an oracle takes its time for divisions.
  const double inverse_grad_scale = 1 / grad_scale;
  const double inverse_correction1 = 1 / bias_correction1, inverse_correction2 = 1 / bias_correction2;
  const double power_room = 1 + kPowerRoom * (power1 / bias_correction1 + 0.5 * power2 / bias_correction2);

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
      const double g = grad[i] * inverse_grad_scale;
      m_scale = beta1 * std::fabs(m) + (1 - beta1) * std::fabs(g);
      m = beta1 * m + (1 - beta1) * g;
      v = beta2 * v + (1 - beta2) * g * g;
      v_scale = v;  // both terms are positive
      const double rate = 1 / (std::sqrt(v * inverse_correction2) + eps);
      p_scale =
          lr * ((m_scale + kLeastNormal) * inverse_correction1 * rate * power_room + weight_decay * std::fabs(p)) +
          kLeastNormal * rate;
      p -= lr * (m * inverse_correction1 * rate + weight_decay * p);
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
