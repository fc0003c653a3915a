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

}  // namespace stepbench
