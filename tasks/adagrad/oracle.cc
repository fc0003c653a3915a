// Adagrad in double precision (Duchi, Hazan, Singer, "Adaptive Subgradient Methods", JMLR 2011, figure 1, diagonal
// form; learning-rate decay and place of eps as in the documentation of torch.optim.Adagrad), with the conventions of
// task.json.
#include "tasks/oracle.h"

#include <cmath>

namespace stepbench {

namespace {
enum Field { kStep, kLr, kLrDecay, kEps, kWeightDecay, kDecayedLr, kGradScale, kFoundInf };
enum Buffer { kParam, kGrad, kStateSum };

/// Smallest normal fp32 number: a product such as lr * g may vanish before it is divided by a denominator as small as
/// eps.
constexpr double kLeastNormal = 0x1p-126;

/// Gradient and decay may cancel: g is then as uncertain as its terms, e * g_scale with e some 2^-23, and its square by
/// 2 * e * |g| * g_scale + (e * g_scale)^2. In units of e that is the scale below; it is g^2 where nothing cancels.
constexpr double kSquaredError = 1e-7;
double square_scale(double g, double g_scale) {
  return std::fabs(g) * (2 * g_scale - std::fabs(g)) + kSquaredError * g_scale * g_scale;
}
}  // namespace

ORACLE_EACH_LEVEL
void oracle_adagrad(const OracleTensor& tensor, std::span<const double> hyper, int64_t first, int64_t last) {
  // Derived again, not taken from hyper[]: that is rounded to fp32 for the candidate's convenience.
  const double rate = hyper[kLr] / (1 + (hyper[kStep] - 1) * hyper[kLrDecay]);
  const double eps = hyper[kEps], weight_decay = hyper[kWeightDecay], grad_scale = hyper[kGradScale];
  const double inverse_grad_scale = 1 / grad_scale;  // to multiply by: an oracle takes its time for divisions
  const bool skipped = hyper[kFoundInf] != 0;

  double* const param = tensor.buffers[kParam];
  const double* const grad = tensor.buffers[kGrad];
  double* const state_sum = tensor.buffers[kStateSum];
  double* const param_scale = tensor.scale[kParam];
  double* const state_sum_scale = tensor.scale[kStateSum];

  ORACLE_ELEMENTS
  for (int64_t i = first; i < last; ++i) {
    double p = param[i], sum = state_sum[i];
    double p_scale = 0, sum_scale = 0;  // a skipped step moves nothing
    if (!skipped) {
      const double g = grad[i] * inverse_grad_scale + weight_decay * p;
      const double g_scale = std::fabs(grad[i] * inverse_grad_scale) + weight_decay * std::fabs(p);
      sum_scale = sum + square_scale(g, g_scale);
      sum += g * g;
      const double root = std::sqrt(sum);
      const double inverse = 1 / (root + eps);
      // What cancels in the sum shows in the root by half; what does not is within the scale of the numerator.
      const double uncertain_root = sum > 0 ? 0.5 * (sum_scale / sum - 1) * root * inverse : 0;
      p_scale = (rate * (g_scale + std::fabs(g) * uncertain_root) + kLeastNormal) * inverse;
      p -= rate * g * inverse;
    }
    param[i] = p;
    state_sum[i] = sum;
    if (param_scale != nullptr) param_scale[i] = p_scale;
    if (state_sum_scale != nullptr) state_sum_scale[i] = sum_scale;
  }
}

}  // namespace stepbench
