// Muon in double precision (Jordan et al. 2024; the form of torch.optim.Muon 2.11 with nesterov = True and
// adjust_lr_fn = "original"), with the conventions of task.json. tasks/newton_schulz.h has the iteration, its source,
// and the error of faithful bf16 evaluations, which is the unit of the parameter's limits.
#include <algorithm>
#include <cmath>

#include "tasks/newton_schulz.h"
#include "tasks/oracle.h"

namespace stepbench {

namespace {
enum Field { kStep, kLr, kMomentum, kWeightDecay, kEps };
enum Buffer { kParam, kGrad, kMomentumBuffer };

/// One element may carry this much of the whole error of the orthogonalisation, as in tasks/muon_ns5.
constexpr double kElementShare = 1024;
/// Relative error of a parameter that is decayed and moved in fp32: two roundings.
constexpr double kParamUnit = 0x1p-23;

/// What is orthogonalised: the gradient and the new average, in Nesterov's mixture.
std::vector<double> mixture(const OracleTensor& tensor, double momentum) {
  std::vector<double> u(static_cast<size_t>(tensor.n));
  for (size_t i = 0; i < u.size(); ++i)
    u[i] = (1 - momentum) * tensor.buffers[kGrad][i] + momentum * tensor.buffers[kMomentumBuffer][i];
  return u;
}

double step_size(const OracleTensor& tensor, std::span<const double> hyper) {
  const double shape = static_cast<double>(tensor.rows) / static_cast<double>(tensor.cols);
  return hyper[kLr] * std::sqrt(std::max(1.0, shape));
}

/// What is computed of a mixture: in a step, and kept in OracleTensor::work for the properties as the allowance's two
/// numbers and the direction.
struct Direction {
  std::vector<double> x;
  newton_schulz::Allowance allowed;
};
Direction kept_direction(const std::vector<double>& work) {
  return {{work.begin() + 2, work.end()}, {work[0], static_cast<int64_t>(work[1])}};
}
void keep(const Direction& direction, std::vector<double>& work) {
  work = {direction.allowed.error, static_cast<double>(direction.allowed.lifted)};
  work.insert(work.end(), direction.x.begin(), direction.x.end());
}
Direction make_direction(const OracleTensor& tensor, std::span<const double> hyper, bool with_allowance) {
  const std::vector<double> u = mixture(tensor, hyper[kMomentum]);
  Direction made{newton_schulz::orthogonalized(u, tensor.rows, tensor.cols, hyper[kEps]), {}};
  if (with_allowance) made.allowed = newton_schulz::allowance(u, made.x, tensor.rows, tensor.cols, hyper[kEps]);
  return made;
}
}  // namespace

void oracle_muon(const OracleTensor& tensor, std::span<const double> hyper, int64_t, int64_t) {
  const double momentum = hyper[kMomentum], decay = 1 - hyper[kLr] * hyper[kWeightDecay];
  for (int64_t i = 0; i < tensor.n; ++i) {
    double& m = tensor.buffers[kMomentumBuffer][i];
    const double g = tensor.buffers[kGrad][i];
    if (double* const scale = tensor.scale[kMomentumBuffer])
      scale[i] = momentum * std::fabs(m) + (1 - momentum) * std::fabs(g);
    m = momentum * m + (1 - momentum) * g;
  }
  double* const scale = tensor.scale[kParam];
  const Direction direction = make_direction(tensor, hyper, scale != nullptr);
  const double size = step_size(tensor, hyper);
  for (int64_t i = 0; i < tensor.n; ++i) {
    double& p = tensor.buffers[kParam][i];
    p = decay * p - size * direction.x[static_cast<size_t>(i)];
  }
  if (scale == nullptr) return;
  std::fill(scale, scale + tensor.n, kElementShare * size * direction.allowed.error);
  if (tensor.work != nullptr) keep(direction, *tensor.work);
}

void oracle_properties_muon(const OracleTensor& tensor, std::span<const double> hyper, std::span<double> values) {
  const bool known = tensor.work != nullptr && !tensor.work->empty();
  const Direction direction = known ? kept_direction(*tensor.work) : make_direction(tensor, hyper, true);
  const double size = step_size(tensor, hyper);
  std::vector<double> difference(direction.x.size()), moved(direction.x.size());
  double param_squares = 0;
  for (size_t i = 0; i < moved.size(); ++i) {
    const double expected = tensor.buffers[kParam][i];
    difference[i] = tensor.stored[kParam][i] - expected;
    // The candidate's own direction: its error over the step's size.
    moved[i] = direction.x[i] - difference[i] / size;
    const double before = expected + size * direction.x[i];  // decayed
    param_squares += before * before;
  }
  const double error = newton_schulz::frobenius(difference);
  const double faithful = size * direction.allowed.error + kParamUnit * std::sqrt(param_squares);
  values[0] = error == 0 ? 0 : error / faithful;
  values[1] = newton_schulz::outside_of_band(direction.allowed.lifted, moved.data(), tensor.rows, tensor.cols);
}

}  // namespace stepbench
