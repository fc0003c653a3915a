// AdamW behind a clipped global gradient norm, in double precision: the norm over the whole list as in
// torch.nn.utils.clip_grad_norm_ (Pascanu, Mikolov, Bengio, "On the difficulty of training recurrent neural networks",
// ICML 2013, algorithm 1, with torch's 1e-6), then one step of tasks/adamw per element.
#include "tasks/oracle.h"
#include "tasks/adamw_update.h"

#include <cmath>

namespace stepbench {

namespace {
enum Field { kMaxNorm = 12 };  // the fields before it are those of AdamWScalars
enum Buffer { kParam, kGrad, kExpAvg, kExpAvgSq };

constexpr double kNormEps = 1e-6;

/// Relative error that a candidate's norm may have. Sums of squares in fp32 with as many partial sums as a GPU has
/// threads stay far below it. It is for equal gradients that it is so wide: a thousand equal squares, added one after
/// the other, are rounded in the same direction and were seen 6e-6 off. One sum over 300,000 is 100 times beyond.
constexpr double kNormError = 1e-5;
/// The same in units of the limits: 4e-7 of the scale for both moments, 1.6e-6 for the parameter.
constexpr double kMomentRoom = kNormError / 4e-7;
constexpr double kParamRoom = kNormError / 1.6e-6;

/// By how much gradients are multiplied, and how much of the norm's relative error arrives in that.
struct Clip {
  double coefficient = 1, sensitivity = 0;

  Clip(double norm, double max_norm) {
    const double wanted = max_norm / (norm + kNormEps);
    coefficient = std::fmin(1.0, wanted);
    // Just above the threshold a candidate may find itself just below.
    if (wanted < 1 + 2 * kNormError) sensitivity = norm / (norm + kNormEps);
  }
};
}  // namespace

void oracle_reduce_clip_adamw(const OracleTensor& tensor, std::span<const double> hyper, std::span<double> totals) {
  const AdamWScalars s(hyper);
  if (s.skipped) return;
  const double* const grad = tensor.buffers[kGrad];
  double sum = 0;
  for (int64_t i = 0; i < tensor.n; ++i) {
    const double g = grad[i] * s.inverse_grad_scale;
    sum += g * g;
  }
  totals[0] += sum;
}

ORACLE_EACH_LEVEL
void oracle_clip_adamw(const OracleTensor& tensor, std::span<const double> hyper, int64_t first, int64_t last) {
  const AdamWScalars s(hyper);
  const Clip clip(std::sqrt(tensor.totals[0]), hyper[kMaxNorm]);
  double* const param = tensor.buffers[kParam];
  const double* const grad = tensor.buffers[kGrad];
  double* const exp_avg = tensor.buffers[kExpAvg];
  double* const exp_avg_sq = tensor.buffers[kExpAvgSq];
  double* const param_scale = tensor.scale[kParam];
  double* const exp_avg_scale = tensor.scale[kExpAvg];
  double* const exp_avg_sq_scale = tensor.scale[kExpAvgSq];
  const bool wants_scale = param_scale != nullptr;  // of all or of none
  ORACLE_ELEMENTS
  for (int64_t i = first; i < last; ++i) {
    AdamWElement e;  // a skipped step moves nothing
    if (s.skipped) {
      e.m = exp_avg[i];
      e.v = exp_avg_sq[i];
    } else {
      const double clipped = grad[i] * clip.coefficient;
      e = adamw_element(s, param[i], clipped, exp_avg[i], exp_avg_sq[i]);
      // What an error of the norm does: the gradient's share of m and, twice, of v; both in the step, v by half.
      const double g = clipped * s.inverse_grad_scale;
      const double m_share = (1 - s.beta1) * std::fabs(g) * clip.sensitivity;
      const double v_share = (1 - s.beta2) * g * g * clip.sensitivity;
      const double denominator = std::sqrt(e.v * s.inverse_correction2) + s.eps;
      const double through_v = e.v > 0 ? std::fabs(e.m) * v_share / e.v : 0;
      e.m_scale += kMomentRoom * m_share;
      e.v_scale += kMomentRoom * 2 * v_share;
      e.movement_scale += s.lr * kParamRoom * (m_share + through_v) * s.inverse_correction1 / denominator;
    }
    param[i] -= e.movement;
    exp_avg[i] = e.m;
    exp_avg_sq[i] = e.v;
    if (wants_scale) {
      param_scale[i] = e.movement_scale;
      exp_avg_scale[i] = e.m_scale;
      exp_avg_sq_scale[i] = e.v_scale;
    }
  }
}

}  // namespace stepbench
