// Formulas in double precision, evaluated by muParser. See formula.h.
#include "harness/formula.h"

#include <muParser.h>

#include <cmath>
#include <vector>

namespace stepbench {

Result<double> evaluate_formula(const std::string& text, std::span<const std::pair<std::string, double>> variables) {
  std::vector<double> values;
  values.reserve(variables.size());  // muParser keeps pointers into this
  double value = 0;
  try {
    mu::Parser parser;
    for (const auto& [name, number] : variables) {
      values.push_back(number);
      parser.DefineVar(name, &values.back());
    }
    parser.SetExpr(text);
    value = parser.Eval();
  } catch (const mu::ParserError& error) {
    return Error{.code = ErrorCode::kInvalidTask,
                 .message = "a formula cannot be evaluated: " + error.GetMsg(),
                 .place = "\"" + text + "\"",
                 .expected = "",
                 .found = ""};
  }
  // An assignment in the formula would change a value for those that come after it.
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != variables[i].second && !std::isnan(variables[i].second)) {
      return Error{.code = ErrorCode::kInvalidTask,
                   .message = "a formula assigns to " + variables[i].first,
                   .place = "\"" + text + "\"",
                   .expected = "an expression without assignment",
                   .found = ""};
    }
  }
  if (!std::isfinite(value)) {
    return Error{.code = ErrorCode::kInvalidTask,
                 .message = "a formula has no finite value",
                 .place = "\"" + text + "\"",
                 .expected = "a finite number",
                 .found = std::to_string(value)};
  }
  return value;
}

}  // namespace stepbench
