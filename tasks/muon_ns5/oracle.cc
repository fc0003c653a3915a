// Newton-Schulz orthogonalisation in double precision (tasks/newton_schulz.h has the formula and its source), with the
// conventions of task.json. The unit of all limits is the error of a faithful bf16 evaluation on the same data.
#include <algorithm>
#include <cmath>

#include "tasks/newton_schulz.h"
#include "tasks/oracle.h"

namespace stepbench {

namespace {
enum Field { kStep, kEps };
enum Buffer { kGrad, kOrtho };

/// One element may carry this much of the whole error: its limit is there to name what is grossly wrong, or not a
/// number. The properties judge the rest. (The task's step_scale_ratio is a half.)
constexpr double kElementShare = 1024;

std::vector<double> gradient(const OracleTensor& tensor) {
  return {tensor.buffers[kGrad], tensor.buffers[kGrad] + tensor.n};
}
}  // namespace

void oracle_muon_ns5(const OracleTensor& tensor, std::span<const double> hyper, int64_t, int64_t) {
  const std::vector<double> g = gradient(tensor);
  const std::vector<double> x =
      newton_schulz::orthogonalized(g, tensor.rows, tensor.cols, hyper[kEps], {}, tensor.threads);
  std::copy(x.begin(), x.end(), tensor.buffers[kOrtho]);
  double* const scale = tensor.scale[kOrtho];
  if (scale == nullptr) return;
  const newton_schulz::Allowance allowed =
      newton_schulz::allowance(g, x, tensor.rows, tensor.cols, hyper[kEps], tensor.threads);
  std::fill(scale, scale + tensor.n, kElementShare * allowed.error);
  if (tensor.work != nullptr) *tensor.work = {allowed.error, static_cast<double>(allowed.lifted)};
}

void oracle_properties_muon_ns5(const OracleTensor& tensor, std::span<const double> hyper, std::span<double> values) {
  const std::vector<double> exact(tensor.buffers[kOrtho], tensor.buffers[kOrtho] + tensor.n);
  const double error = std::sqrt(newton_schulz::sum_over_elements(exact.size(), tensor.threads, [&](size_t i) {
    const double difference = exact[i] - tensor.stored[kOrtho][i];
    return difference * difference;
  }));
  const bool known = tensor.work != nullptr && !tensor.work->empty();
  const newton_schulz::Allowance allowed =
      known ? newton_schulz::Allowance{(*tensor.work)[0], static_cast<int64_t>((*tensor.work)[1])}
            : newton_schulz::allowance(gradient(tensor), exact, tensor.rows, tensor.cols, hyper[kEps], tensor.threads);
  values[0] = error == 0 ? 0 : error / allowed.error;
  values[1] = newton_schulz::outside_of_band(allowed.lifted, tensor.stored[kOrtho], tensor.rows, tensor.cols);
}

}  // namespace stepbench
