// Muon in double precision (Jordan et al. 2024; the form of torch.optim.Muon 2.11 with nesterov = True and
// adjust_lr_fn = "original"), with the conventions of task.json. tasks/newton_schulz.h has the iteration, its source,
// and the error of faithful bf16 evaluations, which is the unit of the parameter's limits.
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
  const std::vector<double> u = mixture(tensor, momentum);
  const std::vector<double> x = newton_schulz::orthogonalized(u, tensor.rows, tensor.cols, hyper[kEps]);
  const double size = step_size(tensor, hyper);
  for (int64_t i = 0; i < tensor.n; ++i) {
    double& p = tensor.buffers[kParam][i];
    p = decay * p - size * x[static_cast<size_t>(i)];
  }
  double* const scale = tensor.scale[kParam];
  if (scale == nullptr) return;
  const double error = newton_schulz::faithful_error(u, x, tensor.rows, tensor.cols, hyper[kEps]);
  std::fill(scale, scale + tensor.n, kElementShare * size * error);
}

void oracle_properties_muon(const OracleTensor& tensor, std::span<const double> hyper, std::span<double> values) {
  const std::vector<double> u = mixture(tensor, hyper[kMomentum]);
  const std::vector<double> x = newton_schulz::orthogonalized(u, tensor.rows, tensor.cols, hyper[kEps]);
  const double size = step_size(tensor, hyper);
  std::vector<double> difference(u.size()), moved(u.size());
  double param_squares = 0;
  for (size_t i = 0; i < u.size(); ++i) {
    const double expected = tensor.buffers[kParam][i];
    difference[i] = tensor.stored[kParam][i] - expected;
    // The candidate's own direction: its error over the step's size.
    moved[i] = x[i] - difference[i] / size;
    const double before = expected + size * x[i];  // decayed
    param_squares += before * before;
  }
  const double error = newton_schulz::frobenius(difference);
  const double faithful = size * newton_schulz::faithful_error(u, x, tensor.rows, tensor.cols, hyper[kEps]) +
                          kParamUnit * std::sqrt(param_squares);
  values[0] = error == 0 ? 0 : error / faithful;
  values[1] = newton_schulz::outside_of_band(u, moved.data(), tensor.rows, tensor.cols, hyper[kEps]);
}

}  // namespace stepbench
