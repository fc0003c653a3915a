// Is a stochastic rounding one? Statistics over the decisions of one step, for candidates that bring their own random
// numbers: each value may be right by itself and the whole still wrong, when decisions are biased or depend on one
// another. Part of the judgement of a step (check_step.cc).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/model.h"

namespace stepbench {

/// Decisions of one buffer in one step. An element whose exact value lies a share f of the way from its neighbour
/// towards zero to the one away from it goes outwards with probability f.
struct RoundingDecisions {
  /// Per tensor and element: (got - exact) away from zero in units of the gap; expectation 0.
  std::vector<std::vector<float>> residual;
  std::vector<std::vector<float>> variance;  ///< f (1 - f)
  std::vector<std::vector<float>> share;     ///< f
  std::vector<std::vector<bool>> negative;   ///< of the exact value
};

/// Adds one tensor, or, where it `continues`, more elements to the last one. Elements whose exact value is known to
/// less than 1/256 of the gap (`limit`, in the units of the values) are left out: their residual and variance are 0.
void add_decisions(RoundingDecisions& decisions, std::span<const double> exact, std::span<const double> got,
                   std::span<const double> limit, DType dtype, bool continues = false);

/// A statistic that a fair and independent rounding keeps below kMostSigma but once in 5e8.
struct RoundingFault {
  std::string what;  ///< in words
  double sigma = 0;  ///< in standard errors, with sign
};
inline constexpr double kMostSigma = 6;

/// The worst of all statistics beyond kMostSigma: bias of positive and of negative values, dependence on f, correlation
/// between elements at fixed distances, with `previous` (the step before, same tensors; may be null) and, unless
/// `parts`, between tensors that follow one another. Statistics of too few decisions are left out.
struct RoundingJudgement {
  double worst_sigma = 0;
  std::string worst;                   ///< its name; empty when there were too few decisions for any
  std::optional<RoundingFault> fault;  ///< the worst one, when beyond kMostSigma
};
RoundingJudgement judge_rounding(const RoundingDecisions& decisions, const RoundingDecisions* previous, bool parts);

}  // namespace stepbench
