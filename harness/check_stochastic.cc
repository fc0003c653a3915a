// Statistics of stochastic rounding. See check_stochastic.h.
//
// With r = residual and q = its variance, every statistic is sum(w r) / sqrt(sum(w^2 q)) or sum(r r') / sqrt(sum(q
// q')): mean 0 and variance 1 when decisions are fair and independent, whatever the values are.
#include "harness/check_stochastic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/stages.h"

namespace stepbench {

namespace {

/// How well f is known: values are compared after fp32 arithmetic, which moves f by about 2^-15. Keeps a value that is
/// exactly representable, f = 0 but for that, from weighing infinitely.
constexpr double kVarianceFloor = 1e-4;
constexpr double kMostUncertainty = 1.0 / 256;

// Below these sums a statistic is no longer close to normal at six standard errors.
constexpr double kLeastVariance = 700;
constexpr double kLeastPairVariance = 100;

/// Distances between elements of a tensor: threads of a pair, a quad, a warp, a block; halves of a word; vectors.
constexpr size_t kLags[] = {1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 65536};

struct Sum {
  double value = 0, variance = 0;
};

void add_pairs(Sum& sum, std::span<const float> r, std::span<const float> q, std::span<const float> r2,
               std::span<const float> q2) {
  const size_t count = std::min(r.size(), r2.size());
  float value = 0, variance = 0;  // in parts short enough for fp32 sums
  constexpr size_t kPart = 256;
  for (size_t first = 0; first < count; first += kPart) {
    value = variance = 0;
    for (size_t i = first; i < std::min(count, first + kPart); ++i) {
      value += r[i] * r2[i];
      variance += q[i] * q2[i];
    }
    sum.value += static_cast<double>(value);
    sum.variance += static_cast<double>(variance);
  }
}

class Worst {
 public:
  void add(const Sum& sum, double least, const std::string& what) {
    if (sum.variance < least) return;
    const double sigma = sum.value / std::sqrt(sum.variance);
    if (!judgement_.worst.empty() && std::fabs(sigma) <= std::fabs(judgement_.worst_sigma)) return;
    judgement_.worst_sigma = sigma;
    judgement_.worst = what;
  }
  RoundingJudgement take() {
    if (std::fabs(judgement_.worst_sigma) > kMostSigma)
      judgement_.fault = RoundingFault{judgement_.worst, judgement_.worst_sigma};
    return std::move(judgement_);
  }

 private:
  RoundingJudgement judgement_;
};

}  // namespace

void add_decisions(RoundingDecisions& decisions, std::span<const double> exact, std::span<const double> got,
                   std::span<const double> limit, DType dtype, bool continues) {
  SB_ASSERT(got.size() == exact.size() && limit.size() == exact.size());
  SB_ASSERT(!continues || !decisions.residual.empty());
  if (!continues) {
    decisions.residual.emplace_back();
    decisions.variance.emplace_back();
    decisions.share.emplace_back();
    decisions.negative.emplace_back();
  }
  const size_t first = decisions.residual.back().size(), n = exact.size();
  decisions.residual.back().resize(first + n);
  decisions.variance.back().resize(first + n);
  decisions.share.back().resize(first + n);
  decisions.negative.back().resize(first + n);
  const std::span<float> residual = std::span(decisions.residual.back()).subspan(first);
  const std::span<float> variance = std::span(decisions.variance.back()).subspan(first);
  const std::span<float> share = std::span(decisions.share.back()).subspan(first);
  for (size_t i = 0; i < n; ++i) {
    const double magnitude = std::fabs(exact[i]);
    const double ulp = ulp_of(dtype, exact[i]);
    if (!std::isfinite(exact[i]) || !std::isfinite(got[i]) || !(limit[i] <= kMostUncertainty * ulp)) continue;
    const double position = magnitude / ulp;
    const double f = position - std::floor(position);
    const double outward = (std::signbit(exact[i]) ? -got[i] : got[i]) - magnitude;
    residual[i] = static_cast<float>(outward / ulp);
    variance[i] = static_cast<float>(f * (1 - f) + kVarianceFloor);
    share[i] = static_cast<float>(f);
    decisions.negative.back()[first + i] = std::signbit(exact[i]);
  }
}

RoundingJudgement judge_rounding(const RoundingDecisions& decisions, const RoundingDecisions* previous, bool parts) {
  const size_t tensors = decisions.residual.size();
  Worst worst;
  Sum sign[2], slope;
  for (size_t t = 0; t < tensors; ++t) {
    for (size_t i = 0; i < decisions.residual[t].size(); ++i) {
      const auto r = static_cast<double>(decisions.residual[t][i]), q = static_cast<double>(decisions.variance[t][i]);
      const double weight = static_cast<double>(decisions.share[t][i]) - 0.5;
      Sum& bias = sign[decisions.negative[t][i] ? 1 : 0];
      bias.value += r;
      bias.variance += q;
      slope.value += r * weight;
      slope.variance += q * weight * weight;
    }
  }
  worst.add(sign[0], kLeastVariance, "positive values are rounded with a bias");
  worst.add(sign[1], kLeastVariance, "negative values are rounded with a bias");
  worst.add(slope, kLeastPairVariance / 2, "the chance of going up is not the discarded fraction");

  for (const size_t lag : kLags) {
    Sum sum;
    for (size_t t = 0; t < tensors; ++t) {
      const std::span<const float> r(decisions.residual[t]), q(decisions.variance[t]);
      if (r.size() <= lag) continue;
      add_pairs(sum, r, q, r.subspan(lag), q.subspan(lag));
    }
    worst.add(sum, kLeastPairVariance, fmt::format("elements {} apart are rounded alike", lag));
  }
  if (!parts) {
    Sum sum;
    for (size_t t = 1; t < tensors; ++t)
      add_pairs(sum, decisions.residual[t - 1], decisions.variance[t - 1], decisions.residual[t],
                decisions.variance[t]);
    worst.add(sum, kLeastPairVariance, "the same elements of one tensor and the next are rounded alike");
  }
  if (previous != nullptr) {
    SB_ASSERT(previous->residual.size() == tensors);
    Sum sum;
    for (size_t t = 0; t < tensors; ++t)
      add_pairs(sum, previous->residual[t], previous->variance[t], decisions.residual[t], decisions.variance[t]);
    worst.add(sum, kLeastPairVariance, "an element is rounded alike in one step and the next");
  }
  return worst.take();
}

}  // namespace stepbench
