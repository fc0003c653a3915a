// Shampoo with averaged factors and the norm of Adam, in double precision (Gupta, Koren, Singer, "Shampoo:
// Preconditioned Stochastic Tensor Optimization", ICML 2018; averages, bias corrections and grafting as in Shi et al.,
// "A Distributed Data-Parallel PyTorch Implementation of the Distributed Shampoo Optimizer", arXiv:2309.06497), with
// the conventions of task.json. Roots by symmetric eigenvalues, which no candidate needs to use.
#include <algorithm>
#include <cmath>
#include <vector>

#include "tasks/linear_algebra.h"
#include "tasks/oracle.h"

namespace stepbench {

namespace {
enum Field {
  kStep,
  kLr,
  kBeta1,
  kBeta2,
  kFactorBeta,
  kEps,
  kMatrixEps,
  kWeightDecay,
  kBc1,
  kBc2,
  kFactorCorrection,
  kGradScale,
  kFoundInf
};
enum Buffer { kParam, kGrad, kLeftFactor, kRightFactor, kLeftRoot, kRightRoot, kExpAvg, kExpAvgSq };
enum Property { kResidualLeft, kResidualRight, kErrorLeft, kErrorRight, kAsymmetryLeft, kAsymmetryRight };

using Matrix = std::vector<double>;

constexpr double kMatrixFloor = 1e-12;  // what is added to the diagonal where there has been no gradient yet
constexpr double kNormFloor = 1e-16;    // added to the norm of the direction

/// Room for a candidate that computes its bias corrections itself in fp32, as in the oracle of adamw.
constexpr double kPowerRoom = 1;
/// Errors of the two norms, whose sums of squares may be made in any sensible order, in units of an fp32 rounding.
constexpr double kNormRoom = 8;
/// Share of the elements' own uncertainty that shows in their norm.
constexpr double kNormShare = 0.25;
/// Below the smallest normal fp32 number errors no longer shrink with the value.
constexpr double kLeastNormal = 0x1p-126;

/// The limit of the factors, 1e-6 of the scale, is twice the error of a plain sum of so many products.
constexpr double kCoveredProducts = 12;

/// The errors of the products from which a root is made add up at random, too, with the root of its side. The limit of
/// the roots holds twice the error of coupled Newton in fp32 up to this side (on an H200, of the limit: 0.26 at 256,
/// 0.41 at 512 and 0.54 at 1024 where it did not grow).
constexpr double kCoveredSide = 256;

Matrix magnitudes(const double* values, int64_t count) {
  Matrix out(values, values + count);
  for (double& value : out) value = std::fabs(value);
  return out;
}

double norm(const Matrix& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

/// x times its transpose (rows x rows), or its transpose times x (cols x cols).
Matrix gram(int64_t rows, int64_t cols, const Matrix& x, bool left) {
  const int64_t side = left ? rows : cols;
  Matrix out(static_cast<size_t>(side * side));
  symmetric_matmul(side, left ? cols : rows, x.data(), !left, x.data(), left, out.data());
  return out;
}

/// left * x * right.
Matrix between(int64_t rows, int64_t cols, const double* left, const double* x, const double* right) {
  Matrix half(static_cast<size_t>(rows * cols)), whole(half.size());
  matmul(rows, cols, rows, left, false, x, false, half.data());
  matmul(rows, cols, cols, half.data(), false, right, false, whole.data());
  return whole;
}

/// What is rooted: the corrected factor with its diagonal raised by a share of its trace. Symmetric whatever `factor`
/// is, and by the trace no eigenvalue is below matrix_eps times the sum of all.
Matrix damped(int64_t side, const double* factor, std::span<const double> hyper) {
  const double correction = 1 - std::pow(hyper[kFactorBeta], hyper[kStep]);
  const auto length = static_cast<size_t>(side);
  Matrix a(length * length);
  double trace = 0;
  for (size_t i = 0; i < length; ++i) {
    for (size_t j = 0; j < length; ++j)
      a[i * length + j] = 0.5 * (factor[i * length + j] + factor[j * length + i]) / correction;
    trace += a[i * length + i];
  }
  for (size_t i = 0; i < length; ++i) a[i * length + i] += hyper[kMatrixEps] * trace + kMatrixFloor;
  return a;
}

/// root = a^(-1/4). Returns the limit's scale, the same for every element: an error of e |a| in `a` is up to
/// e * condition / 4 of the root's norm.
double inverse_fourth_root(int64_t side, Matrix a, double* root) {
  const Matrix values = symmetric_eigen(side, a.data());
  const auto length = static_cast<size_t>(side);
  for (size_t k = 0; k < length; ++k) {
    const double half =
        std::sqrt(1 / std::sqrt(std::sqrt(values[k])));  // of the root of this eigenvalue, on both sides
    for (size_t i = 0; i < length; ++i) a[k * length + i] *= half;
  }
  symmetric_matmul(side, side, a.data(), true, a.data(), false, root);
  const double most = 1 / std::sqrt(std::sqrt(values.front()));
  return most * (1 + 0.25 * values.back() / values.front());
}

struct Side {
  int64_t length = 0;
  size_t factor = 0, root = 0;
  bool left = false;
};
}  // namespace

void oracle_shampoo(const OracleTensor& tensor, std::span<const double> hyper, int64_t, int64_t) {
  const auto n = static_cast<size_t>(tensor.n);
  const int64_t rows = tensor.rows, cols = tensor.cols;
  const Side sides[] = {{rows, kLeftFactor, kLeftRoot, true}, {cols, kRightFactor, kRightRoot, false}};
  const bool wants_scale = tensor.scale[kParam] != nullptr;
  if (hyper[kFoundInf] != 0) {
    if (!wants_scale) return;
    for (const size_t b : {kParam, kExpAvg, kExpAvgSq}) std::fill_n(tensor.scale[b], n, 0.0);
    for (const Side& side : sides)
      for (const size_t b : {side.factor, side.root}) std::fill_n(tensor.scale[b], side.length * side.length, 0.0);
    return;
  }
  const double lr = hyper[kLr], beta1 = hyper[kBeta1], beta2 = hyper[kBeta2], factor_beta = hyper[kFactorBeta];
  const double eps = hyper[kEps], weight_decay = hyper[kWeightDecay];
  // Derived again, not taken from hyper[]: those are rounded to fp32 for the candidate's convenience.
  const double power1 = std::pow(beta1, hyper[kStep]), power2 = std::pow(beta2, hyper[kStep]);
  const double bias_correction1 = 1 - power1, bias_correction2 = 1 - power2;
  const double room = 1 + kPowerRoom * (power1 / bias_correction1 + 0.5 * power2 / bias_correction2);
  /// The candidate's own, where a step is judged: what is made of a stored value follows the stored value.
  const auto used = [&](size_t b) -> const double* {
    return tensor.stored[b] != nullptr ? tensor.stored[b] : tensor.buffers[b];
  };

  Matrix grad(tensor.buffers[kGrad], tensor.buffers[kGrad] + tensor.n);
  for (double& g : grad) g /= hyper[kGradScale];
  const Matrix grad_size = magnitudes(grad.data(), tensor.n);
  for (const Side& side : sides) {
    const Matrix product = gram(rows, cols, grad, side.left);
    const Matrix product_size = wants_scale ? gram(rows, cols, grad_size, side.left) : Matrix{};
    double* const factor = tensor.buffers[side.factor];
    const double share = plain_sum_room(side.left ? cols : rows, kCoveredProducts);
    for (size_t i = 0; i < product.size(); ++i) {
      if (wants_scale)
        tensor.scale[side.factor][i] = factor_beta * std::fabs(factor[i]) + (1 - factor_beta) * share * product_size[i];
      factor[i] = factor_beta * factor[i] + (1 - factor_beta) * product[i];
    }
    const double root_scale =
        inverse_fourth_root(side.length, damped(side.length, used(side.factor), hyper), tensor.buffers[side.root]);
    if (wants_scale)
      std::fill_n(tensor.scale[side.root], product.size(), root_scale * plain_sum_room(side.length, kCoveredSide));
  }

  for (size_t i = 0; i < n; ++i) {
    double& m = tensor.buffers[kExpAvg][i];
    double& v = tensor.buffers[kExpAvgSq][i];
    const double g = grad[i];
    if (wants_scale) {
      tensor.scale[kExpAvg][i] = beta1 * std::fabs(m) + (1 - beta1) * std::fabs(g);
      tensor.scale[kExpAvgSq][i] = beta2 * v + (1 - beta2) * g * g;
    }
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
  }

  Matrix filtered(n), filtered_size(n), grafted(n);
  for (size_t i = 0; i < n; ++i) {
    filtered[i] = used(kExpAvg)[i] / bias_correction1;
    filtered_size[i] = std::fabs(filtered[i]) + kLeastNormal;
    grafted[i] = filtered[i] / (std::sqrt(used(kExpAvgSq)[i] / bias_correction2) + eps);
  }
  const double* const left = used(kLeftRoot);
  const double* const right = used(kRightRoot);
  const Matrix direction = between(rows, cols, left, filtered.data(), right);
  const double length = norm(direction) + kNormFloor;
  const double factor = norm(grafted) / length;
  Matrix direction_size;
  double norm_room = 0;
  if (wants_scale) {
    direction_size = between(rows, cols, magnitudes(left, rows * rows).data(), filtered_size.data(),
                             magnitudes(right, cols * cols).data());
    norm_room = kNormRoom + kNormShare * norm(direction_size) / length;
  }
  for (size_t i = 0; i < n; ++i) {
    double& p = tensor.buffers[kParam][i];
    const double u = factor * direction[i];
    if (wants_scale)
      tensor.scale[kParam][i] =
          lr * (factor * direction_size[i] + std::fabs(u) * (room + norm_room) + weight_decay * std::fabs(p));
    p = p * (1 - lr * weight_decay) - lr * u;
  }
}

/// Of each root: how far a * root^4 is from the identity, its largest element; the distance to the oracle's root of the
/// same factor, in the norm of all elements; and how far from symmetric it is, in units of its largest element. 0 in a
/// skipped step.
void oracle_properties_shampoo(const OracleTensor& tensor, std::span<const double> hyper, std::span<double> values) {
  if (hyper[kFoundInf] != 0) {  // the roots are those of an earlier factor, and every bit of them was compared
    std::fill(values.begin(), values.end(), 0.0);
    return;
  }
  const Side sides[] = {{tensor.rows, kLeftFactor, kLeftRoot, true}, {tensor.cols, kRightFactor, kRightRoot, false}};
  for (size_t s = 0; s < 2; ++s) {
    const int64_t length = sides[s].length;
    const auto count = static_cast<size_t>(length * length);
    const double* const root = tensor.stored[sides[s].root];
    const double* const expected = tensor.buffers[sides[s].root];
    Matrix square(count), power(count), product(count);
    matmul(length, length, length, root, false, root, false, square.data());
    matmul(length, length, length, square.data(), false, square.data(), false, power.data());
    matmul(length, length, length, damped(length, tensor.stored[sides[s].factor], hyper).data(), false, power.data(),
           false, product.data());
    double residual = 0, most = 0, asymmetry = 0;
    Matrix error(count);
    for (int64_t i = 0; i < length; ++i) {
      for (int64_t j = 0; j < length; ++j) {
        const auto at = static_cast<size_t>(i * length + j), mirrored = static_cast<size_t>(j * length + i);
        residual = std::max(residual, std::fabs(product[at] - (i == j ? 1 : 0)));
        most = std::max(most, std::fabs(root[at]));
        asymmetry = std::max(asymmetry, std::fabs(root[at] - root[mirrored]));
        error[at] = root[at] - expected[at];
      }
    }
    values[kResidualLeft + s] = residual;
    values[kErrorLeft + s] = norm(error) / norm(Matrix(expected, expected + count));
    values[kAsymmetryLeft + s] = asymmetry / most;
  }
}

}  // namespace stepbench
