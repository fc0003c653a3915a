// Integer expressions: values, exact columns of errors, and the cost over long lists. Expected values are worked out by
// hand or, for sums over a list, by closed forms.
#include "harness/expression.h"

#include "harness/plan_messages.h"
#include "tests/plan/fixtures.h"

namespace stepbench {
namespace {

using testing::shapes;

const std::vector<std::pair<std::string, std::string>> kDefines = {
    {"VEC", "4"},     {"BLOCK", "256"},         {"TILE", "VEC * BLOCK"}, {"SUM", "1 + 2"},
    {"HEX", "0x100"}, {"LOOP_A", "LOOP_B + 1"}, {"LOOP_B", "LOOP_A"},    {"SELF", "SELF"},
    {"REAL", "1.5"},  {"PER", "n / cols"},      {"ALL", "sum(n)"},       {"BAD", "1 +"}};

ExpressionScope scope_of(const std::vector<TensorShape>& list, int64_t tensor) {
  ExpressionScope scope;
  scope.tensors = list;
  scope.tensor = tensor;
  scope.defines = kDefines;
  return scope;
}

TEST_CASE("values of expressions") {
  // n: 24, 5, 0, 12; rows and cols: 4x6, 5x1, 0x7, 3x4
  const std::vector<TensorShape> list = shapes({{4, 6}, {5}, {0, 7}, {3, 2, 2}});
  struct Row {
    const char* name;
    int64_t tensor;
    const char* text;
    int64_t value;
  };
  const Row rows[] = {
      {"literal", -1, "7", 7},
      {"spaces", -1, "  7\t\n", 7},
      {"hex", -1, "0xfF", 255},
      {"zero", -1, "0", 0},
      {"largest", -1, "9007199254740992", int64_t{1} << 53},
      {"precedence", -1, "1 + 2 * 3", 7},
      {"parentheses", -1, "(1 + 2) * 3", 9},
      {"left to right", -1, "100 - 10 - 1", 89},
      {"left to right, division", -1, "100 / 10 / 5", 2},
      {"truncating", -1, "7 / 2", 3},
      {"truncating toward zero", -1, "-7 / 2", -3},
      {"remainder", -1, "7 % 4", 3},
      {"remainder has the dividend's sign", -1, "-7 % 4", -3},
      {"unary minus binds first", -1, "-2 * -3", 6},
      {"two signs", -1, "3 - -2", 5},
      {"two signs without space", -1, "3--2", 5},
      {"unary plus", -1, "+3", 3},
      {"not", -1, "!0 + !5", 1},
      {"less", -1, "(1 < 2) + (2 < 1) + (1 <= 1) + (2 >= 3)", 2},
      {"equal", -1, "(3 == 3) * 10 + (3 != 3)", 10},
      {"and, or", -1, "(1 && 0) + (1 || 0) * 2", 2},
      {"comparison binds looser than sum", -1, "1 + 1 == 2", 1},
      {"condition", -1, "3 > 2 ? 10 : 20", 10},
      {"condition, other", -1, "3 < 2 ? 10 : 20", 20},
      {"nested conditions", -1, "0 ? 1 : 1 ? 2 : 3", 2},
      {"untaken branch is not computed", -1, "0 ? 1 / 0 : 4", 4},
      {"condition in a call", -1, "max(1, 2 > 1 ? 7 : 3)", 7},
      {"ceil_div", -1, "ceil_div(7, 4)", 2},
      {"ceil_div exact", -1, "ceil_div(8, 4)", 2},
      {"ceil_div of zero", -1, "ceil_div(0, 4)", 0},
      {"ceil_div negative", -1, "ceil_div(-7, 4)", -1},
      {"align", -1, "align(13, 8)", 16},
      {"align exact", -1, "align(16, 8)", 16},
      {"align zero", -1, "align(0, 8)", 0},
      {"min", -1, "min(3, 2)", 2},
      {"min of three", -1, "min(3, 2, 1)", 1},
      {"max", -1, "max(3, 2)", 3},
      {"max of three", -1, "max(3, 2, 9)", 9},
      {"calls in calls", -1, "ceil_div(max(7, 9), min(2, 4))", 5},
      {"tensors", -1, "tensors", 4},
      {"total", -1, "total", 41},
      {"max_n", -1, "max_n", 24},
      {"sms", -1, "sms", 132},
      {"n", 0, "n", 24},
      {"rows, cols", 0, "rows * 100 + cols", 406},
      {"cols of 1-D", 1, "rows * 100 + cols", 501},
      {"cols is the product of the rest", 3, "rows * 100 + cols", 304},
      {"empty tensor", 2, "n + rows", 0},
      {"index", 3, "index", 3},
      {"define", -1, "VEC", 4},
      {"define of defines", 0, "ceil_div(n, TILE)", 1},
      {"define is a value", -1, "SUM * 2", 6},
      {"define in hex", -1, "HEX", 256},
      {"define with sizes", 0, "PER", 4},
      {"define with a sum", -1, "ALL + 1", 42},
      {"sum", -1, "sum(n)", 41},
      {"sum of an expression", -1, "sum(ceil_div(n, 8))", 6},  // 3 + 1 + 0 + 2
      {"sum of align", -1, "sum(align(n * 4, 256))", 768},
      {"max over tensors", -1, "max(rows)", 5},
      {"max over tensors in max", -1, "max(max(rows), 7)", 7},
      {"max with spaces", -1, "max ( rows * cols )", 24},
      {"sum of sums", -1, "sum(sum(n) + 1)", 168},
      {"sum of max", -1, "sum(max(n) - n)", 55},  // 0 + 19 + 24 + 12
      {"prefix of the first", 0, "prefix(n)", 0},
      {"prefix of the third", 2, "prefix(n)", 29},
      {"prefix of the last", 3, "prefix(n * 2) + 1", 59},
      {"sum of prefix", -1, "sum(prefix(n))", 82},  // 0 + 24 + 29 + 29
      {"prefix of prefix", 3, "prefix(prefix(n))", 53},
      {"two aggregates", 1, "sum(n) - prefix(n)", 17},
      {"aggregate as argument", -1, "ceil_div(sum(n), 2)", 21},
      {"index in a sum", -1, "sum(index)", 6},
  };
  for (const Row& row : rows) {
    INFO(row.name << ": " << row.text);
    const Result<int64_t> value = evaluate_expression(row.text, scope_of(list, row.tensor));
    INFO((value.ok() ? "" : to_text(value.error())));
    REQUIRE(value.ok());
    CHECK(value.value() == row.value);
  }
}

TEST_CASE("errors of expressions name the column") {
  const std::vector<TensorShape> list = shapes({{4, 6}, {5}, {0, 7}});
  struct Row {
    const char* name;
    int64_t tensor;
    const char* text;
    int column;
    const char* message;
  };
  const Row rows[] = {
      {"empty", 0, "", 1, "empty"},
      {"blank", 0, "   ", 1, "empty"},
      {"fraction", 0, "n + 1.5", 5, "`1.5` is not an integer"},
      {"suffix", 0, "256u", 1, "`256u` is not an integer"},
      {"exponent", 0, "2 * 1e3", 5, "`1e3` is not an integer"},
      {"octal", 0, "010", 1, "octal"},
      {"literal beyond", 0, "9007199254740993", 1, "beyond 2^53"},
      {"long literal", 0, "1 + 99999999999999999999999999", 5, "beyond 2^53"},
      {"unknown name", 0, "2 * nn", 5, "unknown name `nn`"},
      {"near name", 0, "row * 2", 1, "did you mean `rows`"},
      {"near define", 0, "n / BLOK", 5, "did you mean `BLOCK`"},
      {"unknown function", 0, "1 + ceil(n, 2)", 5, "unknown function `ceil`"},
      {"function without call", 0, "1 + min", 5, "`min` is a function"},
      {"trailing garbage", 0, "n 2", 3, "unexpected `2`"},
      {"trailing name", 0, "n x", 3, "unexpected `x`"},
      {"trailing symbol", 0, "n $", 3, "unexpected `$`"},
      {"not ASCII", 0, "n + \xC3\xA9", 5, "unexpected `\xC3\xA9`"},
      {"ends early", 0, "n +", 4, "ends where a value is expected"},
      {"operator first", 0, "* n", 1, "unexpected `*`"},
      {"two operators", 0, "n * / 2", 5, "unexpected `/`"},
      {"assignment", 0, "n = 2", 3, "unexpected `=`"},
      {"power", 0, "n ^ 2", 3, "unexpected `^`"},
      {"unclosed", 0, "(n + 1", 7, "`)` is missing"},
      {"unopened", 0, "n + 1)", 6, "unexpected `)`"},
      {"empty parentheses", 0, "()", 2, "unexpected `)`"},
      {"comma outside", 0, "1, 2", 2, "unexpected `,`"},
      {"comma in parentheses", 0, "(1, 2)", 3, "unexpected `,`"},
      {"too few", 0, "1 + ceil_div(3)", 5, "takes two arguments, found 1"},
      {"too many", 0, "align(1, 2, 3)", 1, "takes two arguments, found 3"},
      {"one minimum", 0, "min(1)", 1, "two or more arguments, found 1"},
      {"sum of two", 0, "2 * sum(n, rows)", 5, "takes one argument, found 2"},
      {"sum of nothing", 0, "sum()", 5, "empty"},
      {"in a sum", 0, "1 + sum(n * x)", 13, "unknown name `x`"},
      {"in a sum of a sum", 0, "sum(sum(y))", 9, "unknown name `y`"},
      {"unclosed sum", 0, "sum(n", 6, "`)` is missing"},
      {"question alone", 0, "n ? 1", 6, "no `:`"},
      {"colon alone", 0, "n : 1", 3, "no `?`"},
      {"division by zero", 0, "5 + 1 / 0", 7, "division by zero"},
      {"remainder by zero", 0, "7 % (n - n)", 3, "division by zero"},
      {"ceil_div by zero", 0, "2 * ceil_div(n, 0)", 5, "positive divisor"},
      {"align to zero", 0, "align(n, 0)", 1, "positive alignment"},
      {"zero in a sum", 0, "sum(rows / n)", 10, "tensor 2: division by zero"},
      {"product beyond", 0, "9007199254740992 * 2", 18, "beyond 2^53"},
      {"product beyond 64 bits", 0, "9007199254740992 * 9007199254740992", 18, "beyond 2^53"},
      {"sum beyond", 0, "9007199254740992 + 1", 18, "beyond 2^53"},
      {"sum over tensors beyond", 0, "sum(9007199254740992)", 5, "beyond 2^53"},
      {"loop of defines", 0, "1 + LOOP_A", 5, "depends on itself"},
      {"define of itself", 0, "SELF", 1, "depends on itself"},
      {"define not an integer", 0, "2 + REAL", 5, "define `REAL`: `1.5` is not an integer"},
      {"broken define", 0, "BAD", 1, "define `BAD`: the expression ends"},
      {"n in a step", -1, "2 * n", 5, "`n` has no value"},
      {"prefix in a step", -1, "prefix(n)", 8, "`prefix` has no value"},
      {"define with n in a step", -1, "PER", 1, "`n` has no value"},
  };
  for (const Row& row : rows) {
    INFO(row.name << ": " << row.text);
    const Result<int64_t> value = evaluate_expression(row.text, scope_of(list, row.tensor));
    REQUIRE_FALSE(value.ok());
    INFO(to_text(value.error()));
    CHECK(value.error().code == ErrorCode::kInvalidInput);
    CHECK(value.error().place == std::string("column ").append(std::to_string(row.column)));
    CHECK_THAT(value.error().message, Catch::Contains(row.message));
  }
}

TEST_CASE("depth and length are bounded") {
  const std::vector<TensorShape> list = shapes({{3}});
  const auto nested = [](size_t depth) { return std::string(depth, '(') + "1" + std::string(depth, ')'); };
  CHECK(evaluate_expression(nested(60), scope_of(list, 0)).ok());
  CHECK_FALSE(evaluate_expression(nested(70), scope_of(list, 0)).ok());
  std::string sums = "n";
  for (int i = 0; i < 70; ++i) sums = std::string("sum(").append(sums).append(")");
  CHECK_FALSE(evaluate_expression(sums, scope_of(list, 0)).ok());
  std::string many = "1";
  for (int i = 0; i < 400; ++i) many += "+1";
  CHECK(evaluate_expression(many, scope_of(list, 0)).value() == 401);
  for (int i = 0; i < 1000; ++i) many += "+1";
  CHECK_FALSE(evaluate_expression(many, scope_of(list, 0)).ok());
  const auto name = [](int i) { return std::string("D").append(std::to_string(i)); };
  std::vector<std::pair<std::string, std::string>> chain = {{"D0", "n"}};
  for (int i = 1; i <= 40; ++i) chain.emplace_back(name(i), name(i - 1).append(" + ").append(name(i > 1 ? i - 2 : 0)));
  ExpressionScope scope = scope_of(list, 0);
  scope.defines = chain;
  // Fibonacci with D0 = 3, D1 = 6: a chain whose naive evaluation would double at every step.
  CHECK(evaluate_expression("D25", scope).value() == 3 * 196418);
  CHECK_FALSE(evaluate_expression("D40", scope).ok());
}

TEST_CASE("iteration and count") {
  const std::vector<TensorShape> list = shapes({{2, 3}, {2, 3}, {7}});
  ExpressionScope scope = scope_of(list, 0);
  scope.count = 2;
  scope.iteration = 5;
  CHECK(evaluate_expression("(iteration % 2) * rows * cols * 2", scope).value() == 12);
  CHECK(evaluate_expression("count * n", scope).value() == 12);
  CHECK(evaluate_expression("sum(n * iteration)", scope).value() == 95);
}

TEST_CASE("empty list") {
  const std::vector<TensorShape> none;
  CHECK(evaluate_expression("sum(n) + max(n) + total + max_n + tensors", scope_of(none, -1)).value() == 0);
}

TEST_CASE("prefix and index count groups in a shape launch") {
  // A = 2x3 (tensors 0, 2), B = 7 (tensor 1), C = 3x2 (tensor 3): same n as A, other dimensions.
  const std::vector<TensorShape> list = shapes({{2, 3}, {7}, {2, 3}, {3, 2}});
  const std::vector<ShapeGroup> groups = group_by_shape(list);
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].tensors == std::vector<int64_t>{0, 2});
  Expressions expressions(kDefines);
  const int prefix = expressions.add("prefix(n)").value();
  const int index = expressions.add("index").value();
  expressions.bind(list, groups, 132);
  const int64_t expected[] = {0, 12, 19};  // A's two tensors, then B
  for (int64_t g = 0; g < 3; ++g) {
    const ExpressionPoint point{groups[static_cast<size_t>(g)].tensors.front(), g, 1, 0};
    CHECK(expressions.evaluate(prefix, point).value() == expected[g]);
    CHECK(expressions.evaluate(index, point).value() == g);
  }
  CHECK(expressions.evaluate(prefix, {3, -1, 1, 0}).value() == 19);  // list order: 6 + 7 + 6
}

TEST_CASE("sums over a long list are computed once") {
  constexpr int64_t kTensors = 8194;
  std::vector<TensorShape> list;
  for (int64_t i = 0; i < kTensors; ++i) list.push_back(make_shape({i + 1}));
  Expressions expressions(kDefines);
  const int handle = expressions.add("prefix(n) * 2 + sum(n) - max(n)").value();
  const std::vector<ShapeGroup> groups = group_by_shape(list);
  expressions.bind(list, groups, 132);
  const int64_t sum = kTensors * (kTensors + 1) / 2;
  for (int64_t i = 0; i < kTensors; ++i) {
    const int64_t before = i * (i + 1) / 2;
    REQUIRE(expressions.evaluate(handle, {i, -1, 1, 0}).value() == 2 * before + sum - kTensors);
  }
  CHECK(expressions.evaluations() <= 2 * kTensors + 16);
}

TEST_CASE("an expression that costs too much is refused, not waited for") {
  const std::vector<TensorShape> list(8194, make_shape({1}));
  Expressions expressions({});
  const int handle = expressions.add("sum(n * iteration)").value();
  expressions.bind(list, {}, 132);
  bool refused = false;
  for (int64_t i = 0; i < 100'000 && !refused; ++i) refused = !expressions.evaluate(handle, {-1, -1, 1, i}).ok();
  CHECK(refused);
}

TEST_CASE("names outside their scope") {
  Expressions expressions(kDefines);
  struct Row {
    const char* text;
    bool step, tensor, shape;
    const char* column;
  };
  const Row rows[] = {{"total + max_n + sms + tensors + iteration", true, true, true, ""},
                      {"1 + n", false, true, true, "column 5"},
                      {"cols", false, true, true, "column 1"},
                      {"index", false, true, true, "column 1"},
                      {"2 * count", false, false, true, "column 5"},
                      {"sum(n)", true, true, true, ""},
                      {"prefix(n)", false, true, true, "column 8"},
                      {"sum(prefix(n))", true, true, true, ""},
                      {"PER * 2", false, true, true, "column 1"},
                      {"ALL", true, true, true, ""}};
  for (const Row& row : rows) {
    INFO(row.text);
    const int handle = expressions.add(row.text).value();
    const std::optional<Error> step = expressions.check(handle, LaunchFor::kStep);
    CHECK(!step == row.step);
    CHECK(!expressions.check(handle, LaunchFor::kTensor) == row.tensor);
    CHECK(!expressions.check(handle, LaunchFor::kShape) == row.shape);
    if (step) CHECK(step->place == row.column);
  }
}

TEST_CASE("distance between words") {
  // Published examples: Levenshtein distance of kitten/sitting is 3, of saturday/sunday 3.
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("saturday", "sunday") == 3);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("grid", "grid") == 0);
}

}  // namespace
}  // namespace stepbench
