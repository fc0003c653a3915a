// One element of AdamW in double precision, for the oracles of tasks that differ in how they store it (Loshchilov,
// Hutter, "Decoupled Weight Decay Regularization", ICLR 2019, algorithm 2; bias corrections of Kingma, Ba, "Adam", ICLR
// 2015). The conventions and scales are those of tasks/adamw. Nothing is rounded here.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

namespace stepbench {

/// Hyper of a task whose first fields are step, lr, beta1, beta2, eps, weight_decay, four derived ones, grad_scale and
/// found_inf. Derived values are computed again, in double.
struct AdamWScalars {
  double lr, beta1, beta2, eps, weight_decay, grad_scale;
  bool skipped;  ///< nothing changes in this step
  double bias_correction1, bias_correction2;
  /// Inverses, to multiply by: an oracle takes its time for divisions.
  double inverse_grad_scale, inverse_correction1, inverse_correction2;
  /// Room for bias corrections computed in fp32 with a powf that is good to 4 ulp: 2^-21 of beta^t, of which
  /// beta^t / (1 - beta^t) arrive in the correction.
  double power_room;

  explicit AdamWScalars(std::span<const double> hyper)
      : lr(hyper[1]),
        beta1(hyper[2]),
        beta2(hyper[3]),
        eps(hyper[4]),
        weight_decay(hyper[5]),
        grad_scale(hyper[10]),
        skipped(hyper[11] != 0) {
    const double power1 = std::pow(beta1, hyper[0]), power2 = std::pow(beta2, hyper[0]);
    bias_correction1 = 1 - power1;
    bias_correction2 = 1 - power2;
    inverse_grad_scale = 1 / grad_scale;
    inverse_correction1 = 1 / bias_correction1;
    inverse_correction2 = 1 / bias_correction2;
    power_room = 1 + power1 / bias_correction1 + 0.5 * power2 / bias_correction2;
  }
};

struct AdamWElement {
  double m = 0, v = 0;  ///< new moments
  double movement = 0;  ///< lr * (m_hat / (sqrt(v_hat) + eps) + weight_decay * p), to be subtracted
  double m_scale = 0, v_scale = 0, movement_scale = 0;  ///< OracleTensor::scale of the three
};

/// `p` is the weight that the decay is computed from.
[[gnu::always_inline]] inline AdamWElement adamw_element(const AdamWScalars& s, double p, double grad, double m,
                                                         double v) {
  // Smallest normal fp32 number: below it rounding errors no longer shrink with the value, and a product such as
  // step_size * m may vanish before it is divided by a denominator as small as eps.
  constexpr double kLeastNormal = 0x1p-126;
  AdamWElement out;
  const double g = grad * s.inverse_grad_scale;
  out.m_scale = s.beta1 * std::fabs(m) + (1 - s.beta1) * std::fabs(g);
  out.m = s.beta1 * m + (1 - s.beta1) * g;
  out.v = s.beta2 * v + (1 - s.beta2) * g * g;
  out.v_scale = out.v;  // both terms are positive
  const double rate = 1 / (std::sqrt(out.v * s.inverse_correction2) + s.eps);
  out.movement_scale = s.lr * ((out.m_scale + kLeastNormal) * s.inverse_correction1 * rate * s.power_room +
                               s.weight_decay * std::fabs(p)) +
                       kLeastNormal * rate;
  out.movement = s.lr * (out.m * s.inverse_correction1 * rate + s.weight_decay * p);
  return out;
}

/// For oracles: writes where a span is wanted.
inline void put(double* span, int64_t i, double value) {
  if (span != nullptr) span[i] = value;
}

}  // namespace stepbench
