// Formulas in double precision, evaluated by muParser. See formula.h.
#include "harness/formula.h"

#include <muParser.h>

#include <cmath>
#include <memory>
#include <unordered_map>
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

/// A parser and the values it points to. muParser translates a formula when it is first evaluated.
struct Bound {
  mu::Parser parser;
  std::vector<double> values;

  Bound(const std::string& text, Variables variables) : values(variables.size()) {
    for (size_t i = 0; i < values.size(); ++i) parser.DefineVar(variables[i].first, &values[i]);
    parser.SetExpr(text);
  }
  Bound(const Bound&) = delete;  // the parser points into `values`
  Bound& operator=(const Bound&) = delete;

  void set(Variables variables) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = variables[i].second;
  }
  /// Name of a variable that the formula has changed: that would count for the formulas after it. Empty if none.
  std::string assigned(Variables variables) const {
    for (size_t i = 0; i < values.size(); ++i)
      if (values[i] != variables[i].second && !std::isnan(variables[i].second)) return variables[i].first;
    return "";
  }
};

/// The parser of a formula over variables of these names, with their values. A thread keeps its parsers:
/// hyperparameters are derived anew for every step, and to translate the formulas of one step takes longer than an
/// oracle's step of a small list. Throws mu::ParserError; the caller removes a formula that cannot be evaluated with
/// forget().
class Parsers {
 public:
  Bound& find(const std::string& text, Variables variables) {
    key_ = text;
    for (const auto& variable : variables) (key_ += '\n') += variable.first;
    if (bound_.size() >= kMostKept) bound_.clear();  // no task has so many
    std::unique_ptr<Bound>& place = bound_[key_];
    if (place == nullptr) place = std::make_unique<Bound>(text, variables);
    place->set(variables);
    return *place;
  }
  void forget() { bound_.clear(); }

 private:
  static constexpr size_t kMostKept = 256;
  std::string key_;
  std::unordered_map<std::string, std::unique_ptr<Bound>> bound_;
};

Parsers& parsers() {
  static thread_local Parsers of_this_thread;
  return of_this_thread;
}

}  // namespace

Result<double> evaluate_formula(const std::string& text, Variables variables) {
  try {
    Bound& bound = parsers().find(text, variables);
    const double value = bound.parser.Eval();
    if (const std::string name = bound.assigned(variables); !name.empty())
      return formula_error(text, "a formula assigns to " + name, "an expression without assignment");
    if (!std::isfinite(value))
      return formula_error(text, "a formula has no finite value", "a finite number", std::to_string(value));
    return value;
  } catch (const mu::ParserError& error) {
    parsers().forget();
    return formula_error(text, "a formula cannot be evaluated: " + error.GetMsg());
  }
}

Result<double> evaluate_product(const std::string& text, Variables variables) {
  size_t step = 0;
  while (step < variables.size() && variables[step].first != "step") ++step;
  if (step == variables.size()) return formula_error(text, "a product over the steps needs a hyperparameter \"step\"");
  const double last = variables[step].second;
  try {
    Bound& bound = parsers().find(text, variables);
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
    parsers().forget();
    return formula_error(text, "a formula cannot be evaluated: " + error.GetMsg());
  }
}

}  // namespace stepbench
