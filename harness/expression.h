// Integer expressions of a plan, compiled once and evaluated for many tensors. The public one-shot form is
// evaluate_expression in stages.h. Knows nothing of launches or devices.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/model.h"
#include "harness/result.h"

namespace stepbench {

inline constexpr int64_t kMaxExpressionValue = int64_t{1} << 53;  ///< integers are exact in a double up to here

/// Tensors of the list that share their dimensions, in list order.
struct ShapeGroup {
  std::vector<int64_t> tensors;
};

/// Groups in order of their first tensor.
std::vector<ShapeGroup> group_by_shape(std::span<const TensorShape> tensors);

/// Where an expression is evaluated.
struct ExpressionPoint {
  int64_t tensor = -1;  ///< gives n, rows, cols; in a shape launch the group's first tensor; -1 in a step launch
  int64_t group = -1;   ///< >= 0 in a shape launch: `index` is the group's number and prefix() counts whole groups
  int64_t count = 1;    ///< tensors in this launch
  int64_t iteration = 0;
  bool operator==(const ExpressionPoint&) const = default;
};

/// Names of the plan language that a define must not take: sizes and functions.
std::span<const std::string> expression_names();

/// A set of compiled expressions over one list of defines. sum(), max() and prefix() are evaluated once per list, not
/// once per use. Not thread-safe; instances are independent.
class Expressions {
 public:
  explicit Expressions(std::span<const std::pair<std::string, std::string>> defines);
  ~Expressions();
  Expressions(Expressions&&) noexcept;
  Expressions& operator=(Expressions&&) noexcept;

  /// Sets the list that evaluate() works on and forgets earlier values. The spans must outlive the evaluations.
  void bind(std::span<const TensorShape> tensors, std::span<const ShapeGroup> groups, int64_t sms);

  /// Compiles (the same text gives the same handle). kInvalidInput with place "column N".
  Result<int> add(const std::string& text);
  /// Refuses names that have no meaning in a launch of this scope: sizes of a tensor in a step launch, `count` outside
  /// a shape launch.
  std::optional<Error> check(int handle, LaunchFor scope) const;
  Result<int64_t> evaluate(int handle, const ExpressionPoint& point);
  const std::string& text(int handle) const;
  /// How often an expression was computed, for tests of the cost.
  uint64_t evaluations() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stepbench
