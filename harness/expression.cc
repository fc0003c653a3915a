// One language in one file: scan, compile and evaluate share its tables, hence the length.
// Integer expressions of the plan language over muParser.
//
// muParser computes in double and knows real-number operators; here its built-in ones are off and checked integer
// operators stand in their place, so that every value is an integer of at most 2^53 in magnitude and division truncates
// as in C. A scan before muParser checks the grammar (exact columns in messages) and replaces sum(), max() with one
// argument, and prefix() by variables of the same width, whose values come from tables that are filled once per list of
// tensors.
//
// A define is a value: "A": "1 + 2" makes `A * 2` six. In C the same text as a macro gives five; authors who want both
// to agree write parentheses.
#include "harness/expression.h"

#include <fmt/format.h>
#include <muParser.h>

#include <array>
#include <cctype>
#include <map>
#include <unordered_map>

#include "harness/plan_messages.h"
#include "harness/stages.h"

namespace stepbench {

namespace {

constexpr size_t kMaxTextBytes = 2000;
constexpr size_t kMaxDepth = 64;                  ///< of parentheses
constexpr size_t kMaxDefineDepth = 32;            ///< of defines in defines
constexpr uint64_t kMaxEvaluations = 20'000'000;  ///< per instance and list: about two seconds

enum Name : uint32_t { kN, kRows, kCols, kIndex, kCount, kIteration, kTensors, kTotal, kMaxN, kSms, kNameCount };
constexpr std::array<const char*, kNameCount> kNames = {"n",         "rows",    "cols",  "index", "count",
                                                        "iteration", "tensors", "total", "max_n", "sms"};
constexpr uint32_t bit(uint32_t name) { return 1u << name; }
constexpr uint32_t kPrefixBit = 1u << kNameCount;
constexpr uint32_t kTensorBits = bit(kN) | bit(kRows) | bit(kCols) | bit(kIndex) | kPrefixBit;
constexpr uint32_t kVaryingBits = kTensorBits | bit(kCount) | bit(kIteration);

/// What is wrong and where (0-based byte in the text). Thrown and caught inside this file.
struct Problem {
  size_t position = 0;
  std::string message;
  std::string found;
};

/// What an operator or function objects to; its position is found by whoever knows the text.
struct OperatorProblem {
  const char* word;
  const char* message;
};

int64_t integer(double value) { return static_cast<int64_t>(value); }

double checked(int64_t value, bool overflow, const char* word) {
  if (overflow || value > kMaxExpressionValue || value < -kMaxExpressionValue)
    throw OperatorProblem{word, "the value is beyond 2^53"};
  return static_cast<double>(value);
}

double add(double a, double b) { return checked(integer(a) + integer(b), false, "+"); }
double subtract(double a, double b) { return checked(integer(a) - integer(b), false, "-"); }
double multiply(double a, double b) {
  int64_t product = 0;
  const bool overflow = __builtin_mul_overflow(integer(a), integer(b), &product);
  return checked(product, overflow, "*");
}
double divide(double a, double b) {
  if (integer(b) == 0) throw OperatorProblem{"/", "division by zero"};
  return static_cast<double>(integer(a) / integer(b));
}
double modulo(double a, double b) {
  if (integer(b) == 0) throw OperatorProblem{"%", "division by zero"};
  return static_cast<double>(integer(a) % integer(b));
}
double less(double a, double b) { return a < b ? 1 : 0; }
double less_equal(double a, double b) { return a <= b ? 1 : 0; }
double greater(double a, double b) { return a > b ? 1 : 0; }
double greater_equal(double a, double b) { return a >= b ? 1 : 0; }
double equal(double a, double b) { return integer(a) == integer(b) ? 1 : 0; }
double not_equal(double a, double b) { return integer(a) != integer(b) ? 1 : 0; }
double logical_and(double a, double b) { return integer(a) != 0 && integer(b) != 0 ? 1 : 0; }
double logical_or(double a, double b) { return integer(a) != 0 || integer(b) != 0 ? 1 : 0; }
double identity(double a) { return a; }
double negate(double a) { return static_cast<double>(-integer(a)); }
double logical_not(double a) { return integer(a) == 0 ? 1 : 0; }

double ceil_div(double a, double b) {
  if (integer(b) <= 0) throw OperatorProblem{"ceil_div", "ceil_div needs a positive divisor"};
  const int64_t quotient = integer(a) / integer(b);
  return static_cast<double>(quotient + (integer(a) % integer(b) > 0 ? 1 : 0));
}
double align(double x, double a) {
  if (integer(a) <= 0) throw OperatorProblem{"align", "align needs a positive alignment"};
  const int64_t steps = integer(x) / integer(a) + (integer(x) % integer(a) > 0 ? 1 : 0);
  int64_t product = 0;
  const bool overflow = __builtin_mul_overflow(steps, integer(a), &product);
  return checked(product, overflow, "align");
}
double smallest(const double* values, int count) { return *std::min_element(values, values + count); }
double largest(const double* values, int count) { return *std::max_element(values, values + count); }

bool is_name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_name_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Value of a literal: decimal without a leading zero (C would read octal), or hexadecimal.
int64_t literal_value(std::string_view word, size_t position) {
  const bool hex = word.size() > 2 && word[0] == '0' && (word[1] == 'x' || word[1] == 'X');
  const std::string_view digits = hex ? word.substr(2) : word;
  int64_t value = 0;
  for (const char c : digits) {
    const bool valid = hex ? std::isxdigit(static_cast<unsigned char>(c)) != 0 : is_digit(c);
    if (!valid) throw Problem{position, fmt::format("`{}` is not an integer", shortened(word, 40)), std::string(word)};
    const int digit = is_digit(c) ? c - '0' : std::tolower(static_cast<unsigned char>(c)) - 'a' + 10;
    value = value * (hex ? 16 : 10) + digit;
    if (value > kMaxExpressionValue)
      throw Problem{position, fmt::format("`{}` is beyond 2^53", shortened(word, 40)), std::string(word)};
  }
  if (!hex && word.size() > 1 && word[0] == '0')
    throw Problem{position, fmt::format("`{}` has a leading zero, which C reads as octal", shortened(word, 40)),
                  std::string(word)};
  return value;
}

/// muParser's hook for values. The scan has checked them; this only reads.
int read_literal(const char* text, int* position, double* value) {
  if (!is_digit(text[0])) return 0;
  int length = 0;
  while (is_name_char(text[length])) ++length;
  *value = static_cast<double>(literal_value(std::string_view(text, static_cast<size_t>(length)), 0));
  *position += length;
  return 1;
}

/// muParser with integer operators only.
class IntegerParser : public mu::ParserBase {
 public:
  IntegerParser() {
    AddValIdent(read_literal);
    define_characters();
    EnableBuiltInOprt(false);
    EnableOptimizer(false);  // an untaken branch must not be computed while parsing
    DefineOprt("||", logical_or, 1);
    DefineOprt("&&", logical_and, 2);
    DefineOprt("==", equal, 3);
    DefineOprt("!=", not_equal, 3);
    DefineOprt("<", less, 4);
    DefineOprt("<=", less_equal, 4);
    DefineOprt(">", greater, 4);
    DefineOprt(">=", greater_equal, 4);
    DefineOprt("+", stepbench::add, 5);
    DefineOprt("-", subtract, 5);
    DefineOprt("*", multiply, 6);
    DefineOprt("/", divide, 6);
    DefineOprt("%", modulo, 6);
    DefineInfixOprt("+", identity, 8, false);
    DefineInfixOprt("-", negate, 8, false);
    DefineInfixOprt("!", logical_not, 8, false);
    DefineFun("ceil_div", ceil_div, false);
    DefineFun("align", align, false);
    DefineFun("min", smallest, false);
    DefineFun("max", largest, false);
  }
  void InitCharSets() override { define_characters(); }
  void InitFun() override {}
  void InitConst() override {}
  void InitOprt() override {}

 private:
  void define_characters() {
    DefineNameChars("0123456789_$abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
    DefineOprtChars("+-*/%<>=!&|");
    DefineInfixOprtChars("+-!");
  }
};

enum class AggregateKind : uint8_t { kSum, kMax, kPrefix };

struct NamedUse {
  std::string name;
  size_t position = 0;
};
struct AggregateCall {
  AggregateKind kind = AggregateKind::kSum;
  size_t begin = 0;  ///< of the inner text
  std::string inner;
};

/// What the scan finds in one text.
struct Scan {
  std::string rewritten;        ///< same length; aggregates replaced by $0, $1 ... and spaces
  std::vector<NamedUse> names;  ///< first use of each name
  std::vector<AggregateCall> aggregates;
  std::map<std::string, size_t, std::less<>> operators;  ///< first use of each operator and function
};

/// Functions of the language and how many arguments they take (least, most).
struct FunctionRow {
  const char* name;
  size_t least, most;
};
constexpr FunctionRow kFunctions[] = {{"ceil_div", 2, 2}, {"align", 2, 2}, {"min", 2, 64},
                                      {"max", 1, 64},     {"sum", 1, 1},   {"prefix", 1, 1}};

const FunctionRow* find_function(std::string_view name) {
  for (const FunctionRow& row : kFunctions)
    if (name == row.name) return &row;
  return nullptr;
}

/// Grammar: operands and operators alternate; parentheses, calls and ?: are balanced.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  Scan run() {
    if (text_.size() > kMaxTextBytes)
      throw Problem{0, fmt::format("the expression is longer than {} bytes", kMaxTextBytes), ""};
    scan_.rewritten.assign(text_.size(), ' ');
    bool any = false;
    while (skip_space(), at_ < text_.size()) {
      any = true;
      want_operand_ ? operand() : operation();
    }
    if (!any) throw Problem{0, "the expression is empty", ""};
    if (want_operand_)
      throw Problem{text_.size(), "the expression ends where a value is expected", "end of expression"};
    if (!open_.empty()) throw Problem{text_.size(), "a `)` is missing", "end of expression"};
    if (conditions_ > 0) throw Problem{text_.size(), "a `?` has no `:`", "end of expression"};
    return std::move(scan_);
  }

 private:
  struct Open {
    const FunctionRow* function = nullptr;
    size_t position = 0;
    size_t arguments = 1;
    size_t outer_conditions = 0;
  };

  void skip_space() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
  std::string_view word_at(size_t at) const {
    size_t end = at;
    while (end < text_.size() && (is_name_char(text_[end]) || text_[end] == '.')) ++end;
    return text_.substr(at, end - at);
  }
  void copy(size_t length) {
    for (size_t i = 0; i < length; ++i) scan_.rewritten[at_ + i] = text_[at_ + i];
    at_ += length;
  }
  void note(std::string_view word, size_t position) { scan_.operators.emplace(std::string(word), position); }
  [[noreturn]] void unexpected() const {
    const std::string_view word = is_name_char(text_[at_]) ? word_at(at_) : text_.substr(at_, character_length());
    const std::string shown = shortened(word, 40);
    throw Problem{at_, fmt::format("unexpected `{}`, {} is expected", shown, want_operand_ ? "a value" : "an operator"),
                  shown};
  }
  size_t character_length() const {
    size_t length = 1;
    while (at_ + length < text_.size() && (static_cast<unsigned char>(text_[at_ + length]) & 0xC0) == 0x80) ++length;
    return length;
  }

  void operand() {
    const char c = text_[at_];
    if (c == '+' || c == '-' || c == '!') {
      copy(1);
    } else if (c == '(') {
      push(nullptr);
      copy(1);
    } else if (is_digit(c)) {
      const std::string_view word = word_at(at_);
      literal_value(word, at_);
      copy(word.size());
      want_operand_ = false;
    } else if (is_name_start(c)) {
      name();
    } else {
      unexpected();
    }
  }

  void name() {
    const std::string_view dotted = word_at(at_);
    const std::string_view word = dotted.substr(0, dotted.find('.'));
    size_t next = at_ + word.size();
    while (next < text_.size() && is_space(text_[next])) ++next;
    const bool call = next < text_.size() && text_[next] == '(';
    const FunctionRow* function = find_function(word);
    if (!call) {
      if (function != nullptr)
        throw Problem{at_, fmt::format("`{}` is a function, `(` is expected after it", word), std::string(word)};
      bool seen = false;
      for (const NamedUse& use : scan_.names) seen = seen || use.name == word;
      if (!seen) scan_.names.push_back({std::string(word), at_});
      copy(word.size());
      want_operand_ = false;
      return;
    }
    if (function == nullptr) {
      std::vector<std::string> known;
      for (const FunctionRow& row : kFunctions) known.emplace_back(row.name);
      throw Problem{at_, fmt::format("unknown function `{}`{}", shortened(word, 40), did_you_mean(word, known)),
                    std::string(word)};
    }
    if (aggregate(*function, next)) return;
    note(word, at_);
    push(function);
    copy(next + 1 - at_);
  }

  /// sum(x), prefix(x), max(x) with one argument: takes the whole call out of the text.
  bool aggregate(const FunctionRow& function, size_t parenthesis) {
    if (function.least != 1) return false;
    size_t depth = 0;
    size_t commas = 0;
    size_t end = parenthesis;
    for (; end < text_.size(); ++end) {
      if (text_[end] == '(') ++depth;
      if (text_[end] == ')' && --depth == 0) break;
      if (text_[end] == ',' && depth == 1) ++commas;
      if (depth > kMaxDepth) throw Problem{end, "parentheses are nested too deeply", "("};
    }
    if (end == text_.size()) throw Problem{text_.size(), "a `)` is missing", "end of expression"};
    if (commas > 0) {
      if (function.most > 1) return false;
      throw Problem{at_, fmt::format("`{}` takes one argument, found {}", function.name, commas + 1), function.name};
    }
    const std::string_view name(function.name);
    AggregateCall call;
    call.kind = name == "sum" ? AggregateKind::kSum : name == "max" ? AggregateKind::kMax : AggregateKind::kPrefix;
    call.begin = parenthesis + 1;
    call.inner = std::string(text_.substr(call.begin, end - call.begin));
    const std::string variable = fmt::format("${}", scan_.aggregates.size());
    for (size_t i = 0; i < variable.size(); ++i) scan_.rewritten[at_ + i] = variable[i];
    scan_.aggregates.push_back(std::move(call));
    at_ = end + 1;
    want_operand_ = false;
    return true;
  }

  void operation() {
    const char c = text_[at_];
    const std::string_view two = text_.substr(at_, 2);
    if (c == ')') {
      pop();
    } else if (c == ',') {
      if (open_.empty() || open_.back().function == nullptr)
        throw Problem{at_, "unexpected `,` outside of a function call", ","};
      if (conditions_ > 0) throw Problem{at_, "a `?` has no `:`", ","};
      ++open_.back().arguments;
      copy(1);
      want_operand_ = true;
    } else if (c == '?') {
      ++conditions_;
      copy(1);
      want_operand_ = true;
    } else if (c == ':') {
      if (conditions_ == 0) throw Problem{at_, "a `:` has no `?`", ":"};
      --conditions_;
      copy(1);
      want_operand_ = true;
    } else if (two == "<=" || two == ">=" || two == "==" || two == "!=" || two == "&&" || two == "||") {
      note(two, at_);
      copy(2);
      want_operand_ = true;
    } else if (std::string_view("+-*/%<>").find(c) != std::string_view::npos) {
      note(text_.substr(at_, 1), at_);
      copy(1);
      want_operand_ = true;
    } else {
      unexpected();
    }
  }

  void push(const FunctionRow* function) {
    if (open_.size() >= kMaxDepth) throw Problem{at_, "parentheses are nested too deeply", "("};
    open_.push_back({function, at_, 1, conditions_});
    conditions_ = 0;
  }
  void pop() {
    if (open_.empty()) throw Problem{at_, "unexpected `)`", ")"};
    const Open open = open_.back();
    open_.pop_back();
    if (conditions_ > 0) throw Problem{at_, "a `?` has no `:`", ")"};
    conditions_ = open.outer_conditions;
    if (open.function != nullptr && (open.arguments < open.function->least || open.arguments > open.function->most ||
                                     (open.arguments < 2 && open.function->most > 1)))
      throw Problem{open.position,
                    fmt::format("`{}` takes {} arguments, found {}", open.function->name,
                                open.function->most == 2 ? "two" : "two or more", open.arguments),
                    open.function->name};
    copy(1);
  }

  std::string_view text_;
  size_t at_ = 0;
  bool want_operand_ = true;
  size_t conditions_ = 0;  ///< `?` without `:` at this level
  std::vector<Open> open_;
  Scan scan_;
};

/// sum, max and running sums of one inner expression over the list.
struct Totals {
  bool valid = false;
  int64_t count = 0, iteration = 0;  ///< the point they belong to, when the inner expression uses these
  int64_t sum = 0, max = 0;
  std::vector<int64_t> prefix;        ///< [i] = sum over tensors before i; one more entry than tensors
  std::vector<int64_t> group_prefix;  ///< [g] = sum over the tensors of the groups before g
};

struct Node {
  struct Slot {
    int node = -1;
    AggregateKind kind = AggregateKind::kSum;
    size_t position = 0;
    std::string name;
    double value = 0;
  };
  std::string text;
  Scan scan;
  IntegerParser parser;
  std::array<double, kNameCount> names{};
  std::array<size_t, kNameCount + 1> first_use{};  ///< position by name, prefix() last
  uint32_t direct = 0;                             ///< names in the text itself
  uint32_t uses = 0;          ///< with those of its defines and, where they matter, of its aggregates
  std::vector<Slot> defines;  ///< never resized once muParser holds pointers into it
  std::vector<Slot> aggregates;
  bool has_memo = false;
  ExpressionPoint memo_point;
  int64_t memo = 0;
  Totals totals;
};

}  // namespace

struct Expressions::State {
  std::vector<std::pair<std::string, std::string>> defines;
  std::unordered_map<std::string, const std::string*> define_text;
  std::vector<std::unique_ptr<Node>> nodes;
  std::unordered_map<std::string, int> by_text;
  std::vector<std::string> define_stack;
  size_t compile_depth = 0;
  std::span<const TensorShape> tensors;
  std::span<const ShapeGroup> groups;
  int64_t sms = 132, total = 0, max_n = 0;
  uint64_t evaluations = 0;

  int compile(const std::string& text);
  void bind_names(Node& node);
  [[noreturn]] void unknown_name(const NamedUse& use) const;
  int64_t value_of(Node& node, const ExpressionPoint& point);
  const Totals& totals_of(Node& node, const ExpressionPoint& point);
  int64_t compute(Node& node, const ExpressionPoint& point);
};

void Expressions::State::unknown_name(const NamedUse& use) const {
  std::vector<std::string> known(kNames.begin(), kNames.end());
  for (const auto& [name, value] : defines) known.push_back(name);
  throw Problem{use.position,
                fmt::format("unknown name `{}`{}", shortened(use.name, 40), did_you_mean(use.name, known)),
                shortened(use.name, 40)};
}

int Expressions::State::compile(const std::string& text) {
  if (const auto found = by_text.find(text); found != by_text.end()) return found->second;
  auto node = std::make_unique<Node>();
  node->text = text;
  node->scan = Scanner(text).run();
  bind_names(*node);
  try {
    node->parser.SetExpr(node->scan.rewritten);
    node->parser.GetUsedVar();  // parses without computing
  } catch (const mu::ParserError& error) {
    const int position = error.GetPos();
    throw Problem{position > 0 ? std::min(static_cast<size_t>(position), text.size()) : 0, "this is not an expression",
                  shortened(error.GetToken(), 40)};
  }
  const int handle = static_cast<int>(nodes.size());
  nodes.push_back(std::move(node));
  by_text.emplace(text, handle);
  return handle;
}

void Expressions::State::bind_names(Node& node) {
  for (const NamedUse& use : node.scan.names) {
    const auto builtin = std::find(kNames.begin(), kNames.end(), std::string_view(use.name));
    if (builtin != kNames.end()) {
      const auto name = static_cast<uint32_t>(builtin - kNames.begin());
      node.direct |= bit(name);
      node.first_use[name] = use.position;
      node.parser.DefineVar(use.name, &node.names[name]);
      continue;
    }
    const auto define = define_text.find(use.name);
    if (define == define_text.end()) unknown_name(use);
    if (std::find(define_stack.begin(), define_stack.end(), use.name) != define_stack.end())
      throw Problem{use.position, fmt::format("define `{}` depends on itself", use.name), use.name};
    if (define_stack.size() >= kMaxDefineDepth)
      throw Problem{use.position, fmt::format("defines are nested more than {} deep", kMaxDefineDepth), use.name};
    define_stack.push_back(use.name);
    Node::Slot slot;
    slot.position = use.position;
    slot.name = use.name;
    try {
      slot.node = compile(*define->second);
    } catch (const Problem& problem) {
      define_stack.clear();
      throw Problem{use.position, fmt::format("define `{}`: {}", use.name, problem.message), problem.found};
    }
    define_stack.pop_back();
    node.defines.push_back(std::move(slot));
  }
  node.uses = node.direct;
  for (const AggregateCall& call : node.scan.aggregates) {
    Node::Slot slot;
    slot.position = call.begin;
    slot.kind = call.kind;
    try {
      if (++compile_depth > kMaxDepth) throw Problem{0, "parentheses are nested too deeply", "("};
      slot.node = compile(call.inner);
      --compile_depth;
    } catch (Problem& problem) {
      compile_depth = 0;
      problem.position += call.begin;
      throw;
    }
    const uint32_t inner = nodes[static_cast<size_t>(slot.node)]->uses;
    node.uses |= inner & (bit(kCount) | bit(kIteration));
    if (call.kind == AggregateKind::kPrefix) {
      if ((node.uses & kPrefixBit) == 0) node.first_use[kNameCount] = call.begin;
      node.uses |= kPrefixBit;
    }
    node.aggregates.push_back(std::move(slot));
  }
  for (const Node::Slot& slot : node.defines) {
    const uint32_t inner = nodes[static_cast<size_t>(slot.node)]->uses;
    for (uint32_t name = 0; name <= kNameCount; ++name)
      if ((inner & ~node.uses & bit(name)) != 0) node.first_use[name] = slot.position;
    node.uses |= inner;
  }
  for (Node::Slot& slot : node.defines) node.parser.DefineVar(slot.name, &slot.value);
  for (size_t i = 0; i < node.aggregates.size(); ++i)
    node.parser.DefineVar(fmt::format("${}", i), &node.aggregates[i].value);
}

int64_t Expressions::State::value_of(Node& node, const ExpressionPoint& point) {
  if (node.has_memo && ((node.uses & kVaryingBits) == 0 || node.memo_point == point)) return node.memo;
  node.memo = compute(node, point);
  node.memo_point = point;
  node.has_memo = true;
  return node.memo;
}

int64_t Expressions::State::compute(Node& node, const ExpressionPoint& point) {
  if (++evaluations > kMaxEvaluations) throw Problem{0, "the plan needs too many evaluations of its expressions", ""};
  if ((node.direct & kTensorBits) != 0) {
    if (point.tensor < 0) {
      for (uint32_t name = 0; name < kNameCount; ++name)
        if ((node.direct & kTensorBits & bit(name)) != 0)
          throw Problem{node.first_use[name],
                        fmt::format("`{}` has no value in a launch that is not for a tensor", kNames[name]),
                        kNames[name]};
    }
    const TensorShape& shape = tensors[static_cast<size_t>(point.tensor)];
    node.names[kN] = static_cast<double>(shape.n);
    node.names[kRows] = static_cast<double>(shape.rows);
    node.names[kCols] = static_cast<double>(shape.cols);
    node.names[kIndex] = static_cast<double>(point.group >= 0 ? point.group : point.tensor);
  }
  node.names[kCount] = static_cast<double>(point.count);
  node.names[kIteration] = static_cast<double>(point.iteration);
  node.names[kTensors] = static_cast<double>(tensors.size());
  node.names[kTotal] = static_cast<double>(total);
  node.names[kMaxN] = static_cast<double>(max_n);
  node.names[kSms] = static_cast<double>(sms);
  for (Node::Slot& slot : node.defines) {
    try {
      slot.value = static_cast<double>(value_of(*nodes[static_cast<size_t>(slot.node)], point));
    } catch (const Problem& problem) {
      throw Problem{slot.position, fmt::format("define `{}`: {}", slot.name, problem.message), problem.found};
    }
  }
  for (Node::Slot& slot : node.aggregates) {
    try {
      if (slot.kind == AggregateKind::kPrefix && point.tensor < 0)
        throw Problem{0, "`prefix` has no value in a launch that is not for a tensor", "prefix"};
      const Totals& totals = totals_of(*nodes[static_cast<size_t>(slot.node)], point);
      switch (slot.kind) {
        case AggregateKind::kSum: slot.value = static_cast<double>(totals.sum); break;
        case AggregateKind::kMax: slot.value = static_cast<double>(totals.max); break;
        case AggregateKind::kPrefix:
          slot.value = static_cast<double>(point.group >= 0 ? totals.group_prefix[static_cast<size_t>(point.group)]
                                                            : totals.prefix[static_cast<size_t>(point.tensor)]);
          break;
      }
    } catch (Problem& problem) {
      problem.position += slot.position;
      throw;
    }
  }
  try {
    return integer(node.parser.Eval());
  } catch (const OperatorProblem& problem) {
    // The operator's first use; exact whenever the text has only one of its kind.
    const auto found = node.scan.operators.find(problem.word);
    throw Problem{found == node.scan.operators.end() ? 0 : found->second, problem.message, problem.word};
  } catch (const mu::ParserError& error) {
    throw Problem{0, "the expression cannot be computed", shortened(error.GetToken(), 40)};
  }
}

const Totals& Expressions::State::totals_of(Node& node, const ExpressionPoint& point) {
  Totals& totals = node.totals;
  const int64_t count = (node.uses & bit(kCount)) != 0 ? point.count : 0;
  const int64_t iteration = (node.uses & bit(kIteration)) != 0 ? point.iteration : 0;
  if (totals.valid && totals.count == count && totals.iteration == iteration) return totals;
  totals = Totals{};
  totals.prefix.reserve(tensors.size() + 1);
  totals.prefix.push_back(0);
  ExpressionPoint inner = point;
  inner.group = -1;
  for (size_t i = 0; i < tensors.size(); ++i) {
    inner.tensor = static_cast<int64_t>(i);
    int64_t value = 0;
    try {
      value = value_of(node, inner);
    } catch (Problem& problem) {
      if (problem.message.rfind("tensor ", 0) != 0) problem.message = fmt::format("tensor {}: {}", i, problem.message);
      throw;
    }
    totals.max = i == 0 ? value : std::max(totals.max, value);
    totals.sum += value;  // both operands are within 2^53
    if (totals.sum > kMaxExpressionValue || totals.sum < -kMaxExpressionValue)
      throw Problem{0, "the sum over the tensors is beyond 2^53", node.text};
    totals.prefix.push_back(totals.sum);
  }
  int64_t before = 0;
  totals.group_prefix.reserve(groups.size());
  for (const ShapeGroup& group : groups) {
    totals.group_prefix.push_back(before);
    for (const int64_t tensor : group.tensors) {
      const auto i = static_cast<size_t>(tensor);
      before += totals.prefix[i + 1] - totals.prefix[i];
    }
  }
  totals.count = count;
  totals.iteration = iteration;
  totals.valid = true;
  return totals;
}

namespace {
Error to_error(const Problem& problem) {
  return Error{ErrorCode::kInvalidInput, problem.message, fmt::format("column {}", problem.position + 1), "",
               problem.found};
}
}  // namespace

std::vector<ShapeGroup> group_by_shape(std::span<const TensorShape> tensors) {
  std::vector<ShapeGroup> groups;
  std::map<std::vector<int64_t>, size_t> by_dims;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto [found, added] = by_dims.emplace(tensors[i].dims, groups.size());
    if (added) groups.emplace_back();
    groups[found->second].tensors.push_back(static_cast<int64_t>(i));
  }
  return groups;
}

std::span<const std::string> expression_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all(kNames.begin(), kNames.end());
    for (const FunctionRow& row : kFunctions) all.emplace_back(row.name);
    return all;
  }();
  return names;
}

Expressions::Expressions(std::span<const std::pair<std::string, std::string>> defines)
    : state_(std::make_unique<State>()) {
  state_->defines.assign(defines.begin(), defines.end());
  for (const auto& [name, value] : state_->defines) state_->define_text.emplace(name, &value);
}
Expressions::~Expressions() = default;
Expressions::Expressions(Expressions&&) noexcept = default;
Expressions& Expressions::operator=(Expressions&&) noexcept = default;

void Expressions::bind(std::span<const TensorShape> tensors, std::span<const ShapeGroup> groups, int64_t sms) {
  State& state = *state_;
  state.tensors = tensors;
  state.groups = groups;
  state.sms = sms;
  state.total = 0;
  state.max_n = 0;
  for (const TensorShape& shape : tensors) {
    state.total += shape.n;
    state.max_n = std::max(state.max_n, shape.n);
  }
  state.evaluations = 0;
  for (const auto& node : state.nodes) {
    node->has_memo = false;
    node->totals = Totals{};
  }
}

Result<int> Expressions::add(const std::string& text) {
  try {
    return state_->compile(text);
  } catch (const Problem& problem) {
    state_->define_stack.clear();
    state_->compile_depth = 0;
    return to_error(problem);
  }
}

std::optional<Error> Expressions::check(int handle, LaunchFor scope) const {
  const Node& node = *state_->nodes[static_cast<size_t>(handle)];
  const uint32_t forbidden =
      (scope == LaunchFor::kStep ? kTensorBits : 0) | (scope == LaunchFor::kShape ? 0 : bit(kCount));
  for (uint32_t name = 0; name <= kNameCount; ++name) {
    if ((node.uses & forbidden & bit(name)) == 0) continue;
    const std::string word = name == kNameCount ? "prefix" : kNames[name];
    const char* needed = name == kCount ? R"("for": "shape")" : R"("for": "tensor" or "for": "shape")";
    return to_error({node.first_use[name], fmt::format("`{}` needs {}", word, needed), word});
  }
  return std::nullopt;
}

Result<int64_t> Expressions::evaluate(int handle, const ExpressionPoint& point) {
  try {
    return state_->value_of(*state_->nodes[static_cast<size_t>(handle)], point);
  } catch (const Problem& problem) {
    return to_error(problem);
  }
}

const std::string& Expressions::text(int handle) const { return state_->nodes[static_cast<size_t>(handle)]->text; }
uint64_t Expressions::evaluations() const { return state_->evaluations; }

Result<int64_t> evaluate_expression(const std::string& text, const ExpressionScope& scope) {
  Expressions expressions(scope.defines);
  const Result<int> handle = expressions.add(text);
  if (!handle.ok()) return handle.error();
  SB_ASSERT(scope.tensor < static_cast<int64_t>(scope.tensors.size()));
  expressions.bind(scope.tensors, {}, scope.sms);
  ExpressionPoint point;
  point.tensor = scope.tensor < 0 ? -1 : scope.tensor;
  point.count = scope.count;
  point.iteration = scope.iteration;
  return expressions.evaluate(handle.value(), point);
}

}  // namespace stepbench
