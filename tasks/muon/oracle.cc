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
  newton_schulz::for_each_element(u.size(), tensor.threads, [&](size_t i) {
    u[i] = (1 - momentum) * tensor.buffers[kGrad][i] + momentum * tensor.buffers[kMomentumBuffer][i];
  });
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
constexpr size_t kNumbers = 2;
void keep(const Direction& direction, int threads, std::vector<double>& work) {
  work.resize(kNumbers + direction.x.size());
  work[0] = direction.allowed.error;
  work[1] = static_cast<double>(direction.allowed.lifted);
  newton_schulz::for_each_element(direction.x.size(), threads, [&](size_t i) { work[kNumbers + i] = direction.x[i]; });
}
Direction make_direction(const OracleTensor& tensor, std::span<const double> hyper, bool with_allowance) {
  const std::vector<double> u = mixture(tensor, hyper[kMomentum]);
  Direction made{newton_schulz::orthogonalized(u, tensor.rows, tensor.cols, hyper[kEps], {}, tensor.threads), {}};
  if (with_allowance)
    made.allowed = newton_schulz::allowance(u, made.x, tensor.rows, tensor.cols, hyper[kEps], tensor.threads);
  return made;
}
}  // namespace

void oracle_muon(const OracleTensor& tensor, std::span<const double> hyper, int64_t, int64_t) {
  const double momentum = hyper[kMomentum], decay = 1 - hyper[kLr] * hyper[kWeightDecay];
  const auto elements = static_cast<size_t>(tensor.n);
  newton_schulz::for_each_element(elements, tensor.threads, [&](size_t i) {
    double& m = tensor.buffers[kMomentumBuffer][i];
    const double g = tensor.buffers[kGrad][i];
    if (double* const scale = tensor.scale[kMomentumBuffer])
      scale[i] = momentum * std::fabs(m) + (1 - momentum) * std::fabs(g);
    m = momentum * m + (1 - momentum) * g;
  });
  double* const scale = tensor.scale[kParam];
  const Direction direction = make_direction(tensor, hyper, scale != nullptr);
  const double size = step_size(tensor, hyper);
  newton_schulz::for_each_element(elements, tensor.threads, [&](size_t i) {
    double& p = tensor.buffers[kParam][i];
    p = decay * p - size * direction.x[i];
  });
  if (scale == nullptr) return;
  const double share = kElementShare * size * direction.allowed.error;
  newton_schulz::for_each_element(elements, tensor.threads, [&](size_t i) { scale[i] = share; });
  if (tensor.work != nullptr) keep(direction, tensor.threads, *tensor.work);
}

void oracle_properties_muon(const OracleTensor& tensor, std::span<const double> hyper, std::span<double> values) {
  const bool known = tensor.work != nullptr && !tensor.work->empty();
  const Direction made = known ? Direction{} : make_direction(tensor, hyper, true);
  const newton_schulz::Allowance allowed =
      known ? newton_schulz::Allowance{(*tensor.work)[0], static_cast<int64_t>((*tensor.work)[1])} : made.allowed;
  const double* const direction = known ? tensor.work->data() + kNumbers : made.x.data();
  const double size = step_size(tensor, hyper);
  const auto elements = static_cast<size_t>(tensor.n);
  const double* const expected = tensor.buffers[kParam];
  const auto difference = [&](size_t i) { return tensor.stored[kParam][i] - expected[i]; };
  const double error = std::sqrt(newton_schulz::sum_over_elements(
      elements, tensor.threads, [&](size_t i) { return difference(i) * difference(i); }));
  const double param_squares = newton_schulz::sum_over_elements(elements, tensor.threads, [&](size_t i) {
    const double before = expected[i] + size * direction[i];  // decayed
    return before * before;
  });
  const double faithful = size * allowed.error + kParamUnit * std::sqrt(param_squares);
  values[0] = error == 0 ? 0 : error / faithful;
  // The candidate's own direction: its error over the step's size.
  Unfilled<double> moved(elements);
  newton_schulz::for_each_element(elements, tensor.threads,
                                  [&](size_t i) { moved[i] = direction[i] - difference(i) / size; });
  values[1] = newton_schulz::outside_of_band(allowed.lifted, moved.data(), tensor.rows, tensor.cols);
}

}  // namespace stepbench
