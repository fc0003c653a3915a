// Adafactor without momentum in double precision (Shazeer, Stern, "Adafactor: Adaptive Learning Rates with Sublinear
// Memory Cost", ICML 2018, algorithms 4 and 5), with the epsilons, the relative step and the order of decay of
// torch.optim.Adafactor. Every tensor is a matrix of rows x cols; a vector has one column.
#include "tasks/oracle.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace stepbench {

namespace {
enum Field { kStep, kLr, kBeta2Decay, kEps1, kEps2, kClip, kWeightDecay, kOneMinusBeta2, kRho, kGradScale, kFoundInf };
enum Buffer { kParam, kGrad, kRowVar, kColVar };

/// Relative error that a mean of squares may have, 1e-5, in units of the limit of both averages, 4e-7: 128 equal
/// squares added one after the other in fp32 are already up to 4e-6 off.
constexpr double kMeanRoom = 1e-5 / 4e-7;
/// What the errors of four such sums (two averages, the mean of one, two root mean squares) may do to the step, 1e-5,
/// in units of the parameter's limit of 1.6e-6.
constexpr double kStepRoom = 1e-5 / 1.6e-6;
/// A candidate may compute the weight of the new mean itself with a powf that is good to 4 ulp: 2^-21 of it, beside a
/// limit of 4e-7. At the first step the weight is exactly 1.
constexpr double kPowerRoom = 1.2;

/// Smallest normal fp32 number: a gradient below it, after it was unscaled, is uncertain by a part of this, and is then
/// divided by a root that may be as small as eps1.
constexpr double kLeastNormal = 0x1p-126;

double root_mean_square(double squares, int64_t n) { return std::sqrt(squares / static_cast<double>(n)); }

/// Weighted average of the stored value and a new mean, and its scale.
double average(double old, double mean, double weight, bool first_step, double* scale) {
  if (scale != nullptr)
    *scale =
        (1 - weight) * old + weight * mean * (1 + kMeanRoom) + (first_step ? 0 : kPowerRoom * weight * (old + mean));
  return (1 - weight) * old + weight * mean;
}
}  // namespace

void oracle_adafactor(const OracleTensor& tensor, std::span<const double> hyper, int64_t, int64_t) {
  const auto rows = static_cast<size_t>(tensor.rows), cols = static_cast<size_t>(tensor.cols);
  double* const param = tensor.buffers[kParam];
  const double* const grad = tensor.buffers[kGrad];
  double* const row_var = tensor.buffers[kRowVar];
  double* const col_var = tensor.buffers[kColVar];
  double* const param_scale = tensor.scale[kParam];
  double* const row_scale = tensor.scale[kRowVar];
  double* const col_scale = tensor.scale[kColVar];
  if (hyper[kFoundInf] != 0) {  // nothing moves
    if (param_scale != nullptr) std::fill_n(param_scale, tensor.n, 0.0);
    if (row_scale != nullptr) std::fill_n(row_scale, tensor.rows, 0.0);
    if (col_scale != nullptr) std::fill_n(col_scale, tensor.cols, 0.0);
    return;
  }

  const double step = hyper[kStep], lr = hyper[kLr], eps1 = hyper[kEps1];
  const bool first_step = step == 1;
  // Derived again, not taken from hyper[]: those are rounded to fp32 for the candidate's convenience.
  const double weight = std::pow(step, hyper[kBeta2Decay]);
  const double rho = std::min(lr, 1 / std::sqrt(step));

  std::vector<double> row_mean(rows), col_mean(cols);
  double param_squares = 0;
  for (size_t i = 0, at = 0; i < rows; ++i)
    for (size_t j = 0; j < cols; ++j, ++at) {
      const double g = grad[at] / hyper[kGradScale];
      row_mean[i] += g * g / static_cast<double>(cols);
      col_mean[j] += g * g / static_cast<double>(rows);
      param_squares += param[at] * param[at];
    }
  double sum_of_rows = 0;
  for (size_t i = 0; i < rows; ++i) {
    double* const scale = row_scale == nullptr ? nullptr : row_scale + i;
    row_var[i] = average(row_var[i], row_mean[i], weight, first_step, scale);
    sum_of_rows += row_var[i];
  }
  for (size_t j = 0; j < cols; ++j) {
    double* const scale = col_scale == nullptr ? nullptr : col_scale + j;
    col_var[j] = average(col_var[j], col_mean[j], weight, first_step, scale);
  }

  const double mean_of_rows = std::max(sum_of_rows / static_cast<double>(rows), eps1);
  const auto root_of = [&](size_t i, size_t j) {
    return std::sqrt(std::max(row_var[i] * col_var[j] / mean_of_rows, eps1 * eps1));
  };
  double update_squares = 0;
  for (size_t i = 0, at = 0; i < rows; ++i)
    for (size_t j = 0; j < cols; ++j, ++at) {
      const double u = grad[at] / hyper[kGradScale] / root_of(i, j);
      update_squares += u * u;
    }
  const double alpha = std::max(hyper[kEps2], root_mean_square(param_squares, tensor.n)) * rho;
  const double rate = alpha / std::max(1.0, root_mean_square(update_squares, tensor.n) / hyper[kClip]);
  const double decay = lr * hyper[kWeightDecay];
  for (size_t i = 0, at = 0; i < rows; ++i)
    for (size_t j = 0; j < cols; ++j, ++at) {
      const double g = grad[at] / hyper[kGradScale], per_gradient = rate / root_of(i, j);
      const double moved = g * per_gradient;
      if (param_scale != nullptr)
        param_scale[at] = (std::fabs(g) + kLeastNormal) * per_gradient * (1 + kStepRoom) + decay * std::fabs(param[at]);
      param[at] = param[at] * (1 - decay) - moved;
    }
}

}  // namespace stepbench
