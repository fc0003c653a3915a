// LAMB in double precision (You et al., "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes", ICLR
// 2020, algorithm 2, with phi(z) = z), with the conventions of task.json. Norms are those of one tensor.
#include <algorithm>
#include <array>
#include <cmath>

#include "tasks/oracle.h"
#include "tasks/spread.h"

namespace stepbench {

namespace {
enum Field { kStep, kLr, kBeta1, kBeta2, kEps, kWeightDecay, kBc1, kBc2, kBc2Sqrt, kGradScale, kFoundInf };
enum Buffer { kParam, kGrad, kExpAvg, kExpAvgSq };

/// Room for bias corrections that a candidate computes itself with a powf that is good to 4 ulp, as in tasks/adamw.
constexpr double kPowerRoom = 1;

/// Smallest normal fp32 number: below it rounding errors no longer shrink with the value, and terms are taken as at
/// least this large where an error in them is divided by a denominator that may be as small as eps.
constexpr double kLeastNormal = 0x1p-126;

/// What the sums of squares of both norms may add to the ratio's relative error, 1e-6, in units of the parameter's
/// limit of 1.6e-6. Sums in fp32 with some hundred partial sums stay below a fifth of it.
constexpr double kRatioRoom = 1e-6 / 1.6e-6;

struct Scalars {
  double lr, beta1, beta2, eps, weight_decay, power_room;
  /// To multiply by: an oracle takes its time for divisions.
  double inverse_grad_scale, inverse_correction1, inverse_correction2;

  explicit Scalars(std::span<const double> hyper)
      : lr(hyper[kLr]),
        beta1(hyper[kBeta1]),
        beta2(hyper[kBeta2]),
        eps(hyper[kEps]),
        weight_decay(hyper[kWeightDecay]),
        inverse_grad_scale(1 / hyper[kGradScale]) {
    // Derived again, not taken from hyper[]: those are rounded to fp32 for the candidate's convenience.
    const double power1 = std::pow(beta1, hyper[kStep]), power2 = std::pow(beta2, hyper[kStep]);
    const double bias_correction1 = 1 - power1, bias_correction2 = 1 - power2;
    inverse_correction1 = 1 / bias_correction1;
    inverse_correction2 = 1 / bias_correction2;
    power_room = 1 + kPowerRoom * (power1 / bias_correction1 + 0.5 * power2 / bias_correction2);
  }
};

/// What the trust ratio is made of. Errors of u change its norm, to first order, by the sum of u times them: a random
/// walk, whose squared length for errors of the scale's size is `walk`.
struct Sums {
  double param_squares = 0, update_squares = 0, walk = 0;

  Sums& operator+=(const Sums& other) {
    param_squares += other.param_squares;
    update_squares += other.update_squares;
    walk += other.walk;
    return *this;
  }
};

constexpr size_t kPiece = 256;  // elements whose intermediate values stay in the first-level cache
using Piece = std::array<double, kPiece>;

/// The parts of one piece. `*_scale` may be a place that nobody reads.
struct Elements {
  const double* grad;
  double *param, *exp_avg, *exp_avg_sq;
  double *update_scale, *exp_avg_scale, *exp_avg_sq_scale;
};

double rate_of(const Scalars& s, double v) {
  return s.inverse_correction1 / (std::sqrt(v * s.inverse_correction2) + s.eps);
}

/// New moments, and the scale of the update before the trust ratio: the magnitudes in it.
Sums moments(const Scalars& s, const Elements& e, size_t count) {
  Piece u;
  const double* const __restrict grad = e.grad;
  const double* const __restrict param = e.param;
  double* const __restrict exp_avg = e.exp_avg;
  double* const __restrict exp_avg_sq = e.exp_avg_sq;
  double* const __restrict update_scale = e.update_scale;
  double* const __restrict exp_avg_scale = e.exp_avg_scale;
  double* const __restrict exp_avg_sq_scale = e.exp_avg_sq_scale;
  for (size_t i = 0; i < count; ++i) {
    const double g = grad[i] * s.inverse_grad_scale, p = param[i];
    const double m_scale = s.beta1 * std::fabs(exp_avg[i]) + (1 - s.beta1) * std::fabs(g);
    const double m = s.beta1 * exp_avg[i] + (1 - s.beta1) * g;
    const double v = s.beta2 * exp_avg_sq[i] + (1 - s.beta2) * g * g;
    const double rate = rate_of(s, v);
    u[i] = m * rate + s.weight_decay * p;
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
    exp_avg_scale[i] = m_scale;
    exp_avg_sq_scale[i] = v;  // both terms are positive
    update_scale[i] = (m_scale + kLeastNormal) * rate * s.power_room + s.weight_decay * std::fabs(p);
  }
  Sums sums;
  sums.param_squares = sum_in_lanes(count, [&](size_t i) { return param[i] * param[i]; });
  sums.update_squares = sum_in_lanes(count, [&](size_t i) { return u[i] * u[i]; });
  sums.walk = sum_in_lanes(count, [&](size_t i) { return u[i] * update_scale[i] * u[i] * update_scale[i]; });
  return sums;
}

/// Moves the parameters by `size` (the learning rate times the trust ratio) times u, and makes of the update's scale
/// that of the movement.
void move(const Scalars& s, double size, double ratio_room, const Elements& e, size_t count) {
  const double* const __restrict exp_avg = e.exp_avg;
  const double* const __restrict exp_avg_sq = e.exp_avg_sq;
  double* const __restrict param = e.param;
  double* const __restrict scale = e.update_scale;
  for (size_t i = 0; i < count; ++i) {
    const double u = exp_avg[i] * rate_of(s, exp_avg_sq[i]) + s.weight_decay * param[i];
    scale[i] = size * (scale[i] + std::fabs(u) * ratio_room);
    param[i] -= size * u;
  }
}
}  // namespace

void oracle_lamb(const OracleTensor& tensor, std::span<const double> hyper, int64_t first, int64_t last) {
  const bool skipped = hyper[kFoundInf] != 0;
  const Scalars s(hyper);
  double* const param = tensor.buffers[kParam];
  const double* const grad = tensor.buffers[kGrad];
  double* const exp_avg = tensor.buffers[kExpAvg];
  double* const exp_avg_sq = tensor.buffers[kExpAvgSq];
  double* const param_scale = tensor.scale[kParam];
  double* const exp_avg_scale = tensor.scale[kExpAvg];
  double* const exp_avg_sq_scale = tensor.scale[kExpAvgSq];

  if (skipped) {  // moves nothing
    for (double* const scale : {param_scale, exp_avg_scale, exp_avg_sq_scale})
      if (scale != nullptr)
        spread_blocks(tensor.threads, first, last,
                      [&](int64_t begin, int64_t end) { std::fill(scale + begin, scale + end, 0.0); });
    return;
  }

  // body(elements, count) for the pieces of [begin, end).
  const auto in_pieces = [&](int64_t begin, int64_t end, const auto& body) {
    Piece unread1{}, unread2{}, unread3{};
    const auto part = [](double* scale, int64_t at, Piece& unread) { return scale ? scale + at : unread.data(); };
    for (int64_t at = begin; at < end; at += static_cast<int64_t>(kPiece))
      body(Elements{grad + at, param + at, exp_avg + at, exp_avg_sq + at, part(param_scale, at, unread1),
                    part(exp_avg_scale, at, unread2), part(exp_avg_sq_scale, at, unread3)},
           static_cast<size_t>(std::min(static_cast<int64_t>(kPiece), end - at)));
  };
  const Sums sums = spread_sum<Sums>(tensor.threads, first, last, [&](int64_t begin, int64_t end) {
    Sums block;
    in_pieces(begin, end, [&](const Elements& e, size_t count) { block += moments(s, e, count); });
    return block;
  });
  const bool has_ratio = sums.param_squares > 0 && sums.update_squares > 0;
  const double ratio = has_ratio ? std::sqrt(sums.param_squares / sums.update_squares) : 1;
  const double ratio_room = has_ratio ? kRatioRoom + std::sqrt(sums.walk) / sums.update_squares : 0;
  spread_blocks(tensor.threads, first, last, [&](int64_t begin, int64_t end) {
    in_pieces(begin, end, [&](const Elements& e, size_t count) { move(s, s.lr * ratio, ratio_room, e, count); });
  });
}

}  // namespace stepbench
