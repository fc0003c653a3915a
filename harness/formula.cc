// Formulas in double precision, evaluated by muParser. See formula.h.
#include "harness/formula.h"

#include <muParser.h>

#include <cmath>
#include <utility>
#include <vector>

namespace stepbench {

namespace {

using Variables = std::span<const std::pair<std::string, double>>;

Error formula_error(const std::string& text, std::string message, std::string expected = "", std::string found = "") {
  return Error{.code = ErrorCode::kInvalidTask,
               .message = std::move(message),
               .place = "\"" + text + "\"",
               .expected = std::move(expected),
               .found = std::move(found)};
}

/// A parser and the values it points to.
struct Bound {
  mu::Parser parser;
  std::vector<double> values;

  Bound(const std::string& text, Variables variables) {
    values.reserve(variables.size());  // muParser keeps pointers into this
    for (const auto& [name, number] : variables) {
      values.push_back(number);
      parser.DefineVar(name, &values.back());
    }
    parser.SetExpr(text);
  }
  /// Name of a variable that the formula has changed: that would count for the formulas after it. Empty if none.
  std::string assigned(Variables variables) const {
    for (size_t i = 0; i < values.size(); ++i)
      if (values[i] != variables[i].second && !std::isnan(variables[i].second)) return variables[i].first;
    return "";
  }
};

}  // namespace

Result<double> evaluate_formula(const std::string& text, Variables variables) {
  try {
    Bound bound(text, variables);
    const double value = bound.parser.Eval();
    if (const std::string name = bound.assigned(variables); !name.empty())
      return formula_error(text, "a formula assigns to " + name, "an expression without assignment");
    if (!std::isfinite(value))
      return formula_error(text, "a formula has no finite value", "a finite number", std::to_string(value));
    return value;
  } catch (const mu::ParserError& error) {
    return formula_error(text, "a formula cannot be evaluated: " + error.GetMsg());
  }
}

Result<double> evaluate_product(const std::string& text, Variables variables) {
  size_t step = 0;
  while (step < variables.size() && variables[step].first != "step") ++step;
  if (step == variables.size()) return formula_error(text, "a product over the steps needs a hyperparameter \"step\"");
  const double last = variables[step].second;
  try {
    Bound bound(text, variables);
    double product = 1;
    for (double t = 1; t <= last && product >= kNoProduct; ++t) {
      bound.values[step] = t;
      const double factor = bound.parser.Eval();
      if (!(factor > 0 && factor < 1))
        return formula_error(text, "a factor of a product over the steps is out of range", "above 0 and below 1",
                             std::to_string(factor) + " at step " + std::to_string(static_cast<int64_t>(t)));
      product *= factor;
    }
    bound.values[step] = last;
    if (const std::string name = bound.assigned(variables); !name.empty())
      return formula_error(text, "a formula assigns to " + name, "an expression without assignment");
    return product >= kNoProduct ? product : 0;
  } catch (const mu::ParserError& error) {
    return formula_error(text, "a formula cannot be evaluated: " + error.GetMsg());
  }
}

}  // namespace stepbench
