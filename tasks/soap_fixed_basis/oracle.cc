// One step of SOAP between two changes of its basis, in double precision: Adam in the eigenbasis of Shampoo's factors
// (Vyas et al., "SOAP: Improving and Stabilizing Shampoo using Adam", arXiv:2409.11321, algorithm 3 without the update
// of Q_L and Q_R), with the conventions of task.json: both averages stay in the rotated space.
#include <cmath>
#include <vector>

#include "tasks/linear_algebra.h"
#include "tasks/oracle.h"

namespace stepbench {

namespace {
enum Field { kStep, kLr, kBeta1, kBeta2, kEps, kWeightDecay, kBc1, kBc2, kGradScale, kFoundInf };
enum Buffer { kParam, kGrad, kBasisLeft, kBasisRight, kExpAvg, kExpAvgSq };

using Matrix = std::vector<double>;

/// Room for a candidate that computes its bias corrections itself in fp32, as in the oracle of adamw: CUDA's powf is
/// good to 4 ulp, 2^-21 of beta^t, and one unit of the limit on `param` is about 2^-20 of the scale.
constexpr double kPowerRoom = 1;

/// Below the smallest normal fp32 number errors no longer shrink with the value, and the denominator may be as small as
/// eps.
constexpr double kLeastNormal = 0x1p-126;

/// The limit of `exp_avg`, 1.5e-6 of the scale, is twice the error of two plain sums, one of the other's results, with
/// so many products in both.
constexpr double kCoveredProducts = 28;

/// The square of a rotated gradient whose terms cancel is uncertain by 2 e |g| s + (e s)^2, with s the sum of the
/// magnitudes and e some 2^-23; in units of e, and g^2 where nothing cancels.
constexpr double kSquaredError = 1e-7;
double square_scale(double g, double magnitudes) {
  return std::fabs(g) * (2 * magnitudes - std::fabs(g)) + kSquaredError * magnitudes * magnitudes;
}

Matrix magnitudes(const double* values, int64_t count) {
  Matrix out(values, values + count);
  for (double& value : out) value = std::fabs(value);
  return out;
}

/// left^T * x * right, or left * x * right^T with `back`.
Matrix rotated(int64_t rows, int64_t cols, const double* left, const double* x, const double* right, bool back) {
  Matrix half(static_cast<size_t>(rows * cols)), whole(half.size());
  matmul(rows, cols, cols, x, false, right, back, half.data());
  matmul(rows, cols, rows, left, !back, half.data(), false, whole.data());
  return whole;
}
}  // namespace

void oracle_soap_fixed_basis(const OracleTensor& tensor, std::span<const double> hyper, int64_t, int64_t) {
  if (hyper[kFoundInf] != 0) {
    for (const size_t b : {kParam, kExpAvg, kExpAvgSq})
      for (int64_t i = 0; tensor.scale[b] != nullptr && i < tensor.n; ++i) tensor.scale[b][i] = 0;
    return;
  }
  const int64_t rows = tensor.rows, cols = tensor.cols;
  const double lr = hyper[kLr], beta1 = hyper[kBeta1], beta2 = hyper[kBeta2], eps = hyper[kEps];
  const double weight_decay = hyper[kWeightDecay];
  // Derived again, not taken from hyper[]: those are rounded to fp32 for the candidate's convenience.
  const double power1 = std::pow(beta1, hyper[kStep]), power2 = std::pow(beta2, hyper[kStep]);
  const double bias_correction1 = 1 - power1, bias_correction2 = 1 - power2;
  const double room = 1 + kPowerRoom * (power1 / bias_correction1 + 0.5 * power2 / bias_correction2);
  const double* const left = tensor.buffers[kBasisLeft];
  const double* const right = tensor.buffers[kBasisRight];
  const bool wants_scale = tensor.scale[kParam] != nullptr;

  const auto n = static_cast<size_t>(tensor.n);
  Matrix grad(tensor.buffers[kGrad], tensor.buffers[kGrad] + tensor.n);
  for (double& g : grad) g /= hyper[kGradScale];
  const Matrix turned = rotated(rows, cols, left, grad.data(), right, false);
  const Matrix left_size = magnitudes(left, rows * rows), right_size = magnitudes(right, cols * cols);
  Matrix turned_scale;
  if (wants_scale) {
    turned_scale =
        rotated(rows, cols, left_size.data(), magnitudes(grad.data(), tensor.n).data(), right_size.data(), false);
    const double room_of_sums = plain_sum_room(rows + cols, kCoveredProducts);
    for (double& scale : turned_scale) scale *= room_of_sums;
  }

  Matrix normalized(n), normalized_scale(n);
  for (size_t i = 0; i < n; ++i) {
    double& m = tensor.buffers[kExpAvg][i];
    double& v = tensor.buffers[kExpAvgSq][i];
    const double g = turned[i];
    if (wants_scale) {
      tensor.scale[kExpAvg][i] = beta1 * std::fabs(m) + (1 - beta1) * turned_scale[i];
      tensor.scale[kExpAvgSq][i] = beta2 * v + (1 - beta2) * square_scale(g, turned_scale[i]);
    }
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
    // The step follows the averages that were stored: where terms of g cancel and nothing else is in them, m / sqrt(v)
    // has nothing but rounding errors in it, and the same ones above and below.
    const bool judged = tensor.stored[kExpAvg] != nullptr;
    const double used_m = judged ? tensor.stored[kExpAvg][i] : m;
    const double used_v = judged ? tensor.stored[kExpAvgSq][i] : v;
    const double denominator = std::sqrt(used_v / bias_correction2) + eps;
    normalized[i] = used_m / bias_correction1 / denominator;
    normalized_scale[i] = (std::fabs(used_m) * room + kLeastNormal) / bias_correction1 / denominator;
  }

  const Matrix update = rotated(rows, cols, left, normalized.data(), right, true);
  Matrix update_scale;
  if (wants_scale)
    update_scale = rotated(rows, cols, left_size.data(), normalized_scale.data(), right_size.data(), true);
  for (size_t i = 0; i < n; ++i) {
    double& p = tensor.buffers[kParam][i];
    if (wants_scale) tensor.scale[kParam][i] = lr * (update_scale[i] + weight_decay * std::fabs(p));
    p = p * (1 - lr * weight_decay) - lr * update[i];
  }
}

}  // namespace stepbench
