// Centered RMSprop with momentum in double precision (Hinton, Srivastava, Swersky, "Neural Networks for Machine
// Learning", lecture 6, 2012; centering of Graves, "Generating Sequences With Recurrent Neural Networks", 2013, section
// 4.2; order of the documentation of torch.optim.RMSprop), with the conventions of task.json.
#include "tasks/oracle.h"

#include <algorithm>
#include <cmath>

namespace stepbench {

namespace {
enum Field { kStep, kLr, kAlpha, kEps, kWeightDecay, kMomentum, kGradScale, kFoundInf };
enum Buffer { kParam, kGrad, kSquareAvg, kGradAvg, kMomentumBuffer };

/// Gradient and decay may cancel: g is then as uncertain as its terms, e * g_scale with e some 2^-23, and its square by
/// 2 * e * |g| * g_scale + (e * g_scale)^2. In units of e that is the scale below; it is g^2 where nothing cancels.
constexpr double kSquaredError = 1e-7;
double square_scale(double g, double g_scale) {
  return std::fabs(g) * (2 * g_scale - std::fabs(g)) + kSquaredError * g_scale * g_scale;
}

/// The variance q - a^2 is a difference of two averages. In fp32 each is wrong by up to 4 * 2^-24 of the magnitudes in
/// it; twice that is allowed. Where the variance is not larger, nothing is known of it but that it is small.
constexpr double kVarianceError = 8 * 0x1p-24;

/// Smallest normal fp32 number: below it g is wrong by units of 2^-149, which division by a small eps makes large.
constexpr double kLeastNormal = 0x1p-126;

/// What the uncertain variance does to g / d, in units of the scale: the limit of `momentum_buffer` and `param` is 1e-6
/// of it. Twice, because an error may be all of it: a variance of zero where some was expected leaves g / eps.
constexpr double kScaleOfError = 2e6;

double inverse_root(double variance, double eps) { return 1 / (std::sqrt(std::max(variance, 0.0)) + eps); }
}  // namespace

ORACLE_EACH_LEVEL
void oracle_rmsprop(const OracleTensor& tensor, std::span<const double> hyper, int64_t first, int64_t last) {
  const double lr = hyper[kLr], alpha = hyper[kAlpha], eps = hyper[kEps], momentum = hyper[kMomentum];
  const double weight_decay = hyper[kWeightDecay];
  const double inverse_grad_scale = 1 / hyper[kGradScale];  // to multiply by: an oracle takes its time for divisions
  const bool skipped = hyper[kFoundInf] != 0;

  double* const param = tensor.buffers[kParam];
  const double* const grad = tensor.buffers[kGrad];
  double* const square_avg = tensor.buffers[kSquareAvg];
  double* const grad_avg = tensor.buffers[kGradAvg];
  double* const momentum_buffer = tensor.buffers[kMomentumBuffer];
  double* const param_scale = tensor.scale[kParam];
  double* const square_avg_scale = tensor.scale[kSquareAvg];
  double* const grad_avg_scale = tensor.scale[kGradAvg];
  double* const momentum_buffer_scale = tensor.scale[kMomentumBuffer];

  ORACLE_ELEMENTS
  for (int64_t i = first; i < last; ++i) {
    double p = param[i], q = square_avg[i], a = grad_avg[i], b = momentum_buffer[i];
    double p_scale = 0, q_scale = 0, a_scale = 0, b_scale = 0;  // a skipped step moves nothing
    if (!skipped) {
      const double g = grad[i] * inverse_grad_scale + weight_decay * p;
      const double g_scale = std::fabs(grad[i] * inverse_grad_scale) + weight_decay * std::fabs(p);
      q_scale = alpha * q + (1 - alpha) * square_scale(g, g_scale);
      q = alpha * q + (1 - alpha) * g * g;
      a_scale = alpha * std::fabs(a) + (1 - alpha) * g_scale;
      a = alpha * a + (1 - alpha) * g;
      const double variance = q - a * a;  // by rounding of the states it may be negative, and is zero then
      const double uncertain = kVarianceError * (q_scale + 2 * std::fabs(a) * a_scale + a * a);
      const double rate = inverse_root(variance, eps);
      // Below it is wider than above, except where nothing of the variance is known.
      const double below = inverse_root(variance - uncertain, eps), above = inverse_root(variance + uncertain, eps);
      const double spread = std::fabs(g) * std::max(below - rate, rate - above);
      b_scale = momentum * std::fabs(b) + (g_scale + kLeastNormal) * rate + kScaleOfError * spread;
      b = momentum * b + g * rate;
      p_scale = lr * b_scale;
      p -= lr * b;
    }
    param[i] = p;
    square_avg[i] = q;
    grad_avg[i] = a;
    momentum_buffer[i] = b;
    if (param_scale != nullptr) param_scale[i] = p_scale;
    if (square_avg_scale != nullptr) square_avg_scale[i] = q_scale;
    if (grad_avg_scale != nullptr) grad_avg_scale[i] = a_scale;
    if (momentum_buffer_scale != nullptr) momentum_buffer_scale[i] = b_scale;
  }
}

}  // namespace stepbench
