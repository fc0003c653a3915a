// Formulas in double precision over named values: derived hyperparameters ("1 - beta1^step") and draw conditions.
// Integer expressions of launch plans are another language (expression.cc).
#pragma once

#include <span>
#include <string>
#include <utility>

#include "harness/result.h"

namespace stepbench {

/// Value of `text` in double. Names outside `variables` and results that are not finite are kInvalidTask.
Result<double> evaluate_formula(const std::string& text, std::span<const std::pair<std::string, double>> variables);

/// Product of `text` over step = 1, 2 ... up to the value of `step` in `variables`. Every factor must lie between 0 and
/// 1, so that the product only falls; once it is below kNoProduct it counts as 0 and no further factor is evaluated.
Result<double> evaluate_product(const std::string& text, std::span<const std::pair<std::string, double>> variables);
inline constexpr double kNoProduct = 0x1p-200;

}  // namespace stepbench
