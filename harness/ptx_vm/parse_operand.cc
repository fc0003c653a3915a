// Operands of instructions and constant expressions (PTX ISA sections 4.6 and 6). Says nothing about which operands an
// opcode takes: that is the decoder's part.
#include <bit>
#include <charconv>
#include <system_error>

#include "harness/ptx_vm/parser.h"

namespace stepbench::ptx {

namespace {

// PTX ISA section 10. Those with a component are written with it: "%tid.x".
constexpr std::string_view kVectorSpecials[] = {"%tid",       "%ntid",       "%ctaid",         "%nctaid",
                                                "%clusterid", "%nclusterid", "%cluster_ctaid", "%cluster_nctaid"};
constexpr std::string_view kScalarSpecials[] = {"%laneid",
                                                "%warpid",
                                                "%nwarpid",
                                                "%smid",
                                                "%nsmid",
                                                "%gridid",
                                                "%is_explicit_cluster",
                                                "%cluster_ctarank",
                                                "%cluster_nctarank",
                                                "%lanemask_eq",
                                                "%lanemask_le",
                                                "%lanemask_lt",
                                                "%lanemask_ge",
                                                "%lanemask_gt",
                                                "%clock",
                                                "%clock_hi",
                                                "%clock64",
                                                "%globaltimer",
                                                "%globaltimer_lo",
                                                "%globaltimer_hi",
                                                "%total_smem_size",
                                                "%dynamic_smem_size",
                                                "%aggr_smem_size",
                                                "%current_graph_exec"};
constexpr std::string_view kNumberedSpecials[] = {"%envreg", "%pm", "%reserved_smem_offset_"};

/// Binary operators by precedence, higher binds tighter; 0 = none.
int precedence(const Token& token, const Token& ahead, std::string_view* op) {
  if (token.kind != TokenKind::kPunct) return 0;
  switch (token.text[0]) {
    case '*': *op = "*"; return 6;
    case '/': *op = "/"; return 6;
    case '%': *op = "%"; return 6;
    case '+': *op = "+"; return 5;
    case '-': *op = "-"; return 5;
    case '<': *op = "<<"; return ahead.is('<') && ahead.begin == token.end ? 4 : 0;
    case '>': *op = ">>"; return ahead.is('>') && ahead.begin == token.end ? 4 : 0;
    case '&': *op = "&"; return 3;
    case '^': *op = "^"; return 2;
    case '|': *op = "|"; return 1;
    default: return 0;
  }
}

}  // namespace

bool Parser::constant(Constant* value) { return constant_binary(1, 0, value); }

bool Parser::constant_binary(int min_precedence, int depth, Constant* value) {
  if (!constant_unary(depth, value)) return false;
  for (;;) {
    std::string_view op;
    const int binds = precedence(token_, ahead_, &op);
    if (binds < min_precedence || binds == 0) return true;
    const int32_t line = token_.line;
    if (value->is_float) return refuse("arithmetic on floating point constants is not supported", line);
    advance();
    if (op.size() == 2) advance();
    Constant right;
    if (!constant_binary(binds + 1, depth + 1, &right)) return false;
    if (right.is_float) return refuse("arithmetic on floating point constants is not supported", line);
    const uint64_t a = value->bits, b = right.bits;
    switch (op[0]) {
      case '*': value->bits = a * b; break;
      case '+': value->bits = a + b; break;
      case '-': value->bits = a - b; break;
      case '&': value->bits = a & b; break;
      case '^': value->bits = a ^ b; break;
      case '|': value->bits = a | b; break;
      case '<': value->bits = b > 63 ? 0 : a << b; break;
      default:  // / % >> differ between signed and unsigned, which only literals with the top bit set could tell apart
        if (((a | b) >> 63) != 0) return refuse("a constant's division or right shift of a negative number", line);
        if (op[0] == '>') {
          value->bits = b > 63 ? 0 : a >> b;
          break;
        }
        if (b == 0) return refuse("a constant is divided by zero", line);
        value->bits = op[0] == '/' ? a / b : a % b;
    }
  }
}

bool Parser::constant_unary(int depth, Constant* value) {
  if (depth > kMaxConstantDepth) return refuse("a constant expression is nested too deeply", token_.line);
  if (token_.kind == TokenKind::kInteger || token_.kind == TokenKind::kFloat) {
    value->is_float = token_.kind == TokenKind::kFloat;
    value->is_double = token_.is_double;
    value->bits = token_.bits;
    advance();
    return true;
  }
  if (token_.kind == TokenKind::kDotWord && token_.text.size() > 1 && token_.text[1] >= '0' && token_.text[1] <= '9') {
    double number = 0;  // ".5"
    const auto parsed = std::from_chars(token_.text.data(), token_.text.data() + token_.text.size(), number);
    if (parsed.ec != std::errc() || parsed.ptr != token_.text.data() + token_.text.size())
      return unexpected("a constant");
    value->is_float = value->is_double = true;
    value->bits = std::bit_cast<uint64_t>(number);
    advance();
    return true;
  }
  if (accept('(')) return constant_binary(1, depth + 1, value) && expect(')', "')'");
  const bool is_minus = token_.is('-'), is_plus = token_.is('+'), is_not = token_.is('~');
  if (!is_minus && !is_plus && !is_not) return unexpected("a constant");
  const int32_t line = token_.line;
  advance();
  if (!constant_unary(depth + 1, value)) return false;
  if (is_plus) return true;
  if (value->is_float) {
    if (is_not) return refuse("'~' on a floating point constant", line);
    value->bits ^= value->is_double ? 1ull << 63 : 1ull << 31;
  } else {
    value->bits = is_minus ? 0 - value->bits : ~value->bits;
  }
  return true;
}

bool Parser::displacement(int64_t* sum) {
  uint64_t total = 0;
  while (token_.is('+') || token_.is('-')) {
    const bool is_minus = token_.is('-');
    const int32_t line = token_.line;
    advance();
    Constant value;
    if (!constant_binary(6, 0, &value)) return false;  // products bind tighter than the sum
    if (value.is_float) return refuse("an address has a floating point displacement", line);
    total = is_minus ? total - value.bits : total + value.bits;
  }
  *sum = static_cast<int64_t>(total);
  return true;
}

bool Parser::special(std::string_view name, Operand* result) {
  bool is_special = false, has_component = false;
  for (const std::string_view known : kScalarSpecials) is_special |= name == known;
  for (const std::string_view known : kVectorSpecials) has_component |= name == known;
  for (const std::string_view known : kNumberedSpecials) is_special |= name.substr(0, known.size()) == known;
  if (!is_special && !has_component) return false;
  result->kind = OperandKind::kSpecial;
  result->name = name;
  if (has_component && (token_.is_dot(".x") || token_.is_dot(".y") || token_.is_dot(".z") || token_.is_dot(".w"))) {
    result->name += token_.text;
    advance();
  }
  return true;
}

void Parser::use_label(std::string_view name, size_t index) {
  LabelUse use;
  use.name = name;
  use.line = token_.line;
  use.instruction = function_.body.size();  // the instruction being read is appended when it is complete
  use.operand = index;
  scopes_.back().uses.push_back(std::move(use));
}

bool Parser::operand_word(Operand* result, bool is_top, size_t index) {
  const std::string_view name = token_.text;
  const int32_t line = token_.line;
  if (name == "_") {
    result->kind = OperandKind::kSink;
    advance();
    return true;
  }
  if (Entity* entity = find(name)) {
    advance();
    if (entity->is_register) {
      result->kind = OperandKind::kRegister;
      result->reg = use_register(entity);
      return true;
    }
    result->kind = OperandKind::kSymbol;
    result->name = entity->unique;
    return displacement(&result->displacement);
  }
  if (name == "WARP_SZ") {
    result->kind = OperandKind::kInteger;
    result->integer = 32;
    advance();
    return true;
  }
  if (name[0] == '%') {
    advance();
    if (special(name, result)) return true;
    return refuse("register " + quoted(name) + " is not declared", line);
  }
  const std::string key(name);
  if (variable_index_.count(key) > 0 || function_index_.count(key) > 0) {
    result->kind = OperandKind::kSymbol;
    result->name = key;
    advance();
    return displacement(&result->displacement);
  }
  if (!is_top) return refuse(quoted(key) + " is not declared", line);
  result->kind = OperandKind::kLabel;  // must turn up before its scope ends
  use_label(name, index);
  advance();
  return true;
}

bool Parser::operand_vector(Operand* result) {
  advance();
  result->kind = OperandKind::kVector;
  do {
    if (token_.is('{') || token_.is('[')) return unexpected("a register or constant");
    if (result->elements.size() >= kMaxElements) return refuse("a vector operand is too long", token_.line);
    Operand element;
    if (!operand(&element, false, 0)) return false;
    result->elements.push_back(std::move(element));
  } while (accept(','));
  return expect('}', "',' or '}'");
}

// [base], [base + displacement], [absolute], and with further parts for tensor copies: [map, {x, y}]. The further parts
// become `elements`.
bool Parser::operand_memory(Operand* result) {
  advance();
  result->kind = OperandKind::kMemory;
  if (token_.kind == TokenKind::kWord) {
    Operand base;
    if (!operand_word(&base, false, 0)) return false;
    if (base.kind != OperandKind::kRegister && base.kind != OperandKind::kSymbol)
      return refuse("an address starts with neither a register, a variable nor a number", token_.line);
    result->reg = base.reg;
    result->name = std::move(base.name);
    result->displacement = base.displacement;
    if (base.kind == OperandKind::kRegister && !displacement(&result->displacement)) return false;
  } else {
    Constant value;
    if (!constant(&value)) return false;
    if (value.is_float) return refuse("an address is a floating point number", token_.line);
    result->displacement = static_cast<int64_t>(value.bits);
  }
  while (accept(',')) {
    if (token_.is('[')) return unexpected("a register or vector");
    if (result->elements.size() >= kMaxElements) return refuse("an address has too many parts", token_.line);
    Operand part;
    if (!operand(&part, false, 0)) return false;
    result->elements.push_back(std::move(part));
  }
  return expect(']', "']'");
}

// `is_top` operands may be labels and may be pairs d|p; the others are elements. Depth is bounded by construction: a
// memory operand holds vectors, a vector holds neither.
bool Parser::operand(Operand* result, bool is_top, size_t index) {
  if (++operands_ > kMaxOperands) return refuse("the text has too many operands", token_.line);
  if (token_.is('{')) return operand_vector(result);
  if (token_.is('[')) return operand_memory(result);
  if (accept('!')) {
    if (token_.kind != TokenKind::kWord) return unexpected("a predicate register");
    if (!operand_word(result, false, 0)) return false;
    if (result->kind != OperandKind::kRegister)
      return refuse("'!' stands before something else than a register", token_.line);
    result->negated = true;
    return true;
  }
  if (token_.kind != TokenKind::kWord) {
    if (token_.kind != TokenKind::kInteger && token_.kind != TokenKind::kFloat && token_.kind != TokenKind::kDotWord &&
        !token_.is('-') && !token_.is('+') && !token_.is('~') && !token_.is('('))
      return unexpected("an operand");
    Constant value;
    if (!constant(&value)) return false;
    result->kind = value.is_float ? OperandKind::kFloat : OperandKind::kInteger;
    result->float_is_double = value.is_double;
    if (value.is_float)
      result->float_bits = value.bits;
    else
      result->integer = static_cast<int64_t>(value.bits);
    return true;
  }
  if (!operand_word(result, is_top, index)) return false;
  if (!is_top || !token_.is('|') || (result->kind != OperandKind::kRegister && result->kind != OperandKind::kSink))
    return true;
  advance();
  Operand first = std::move(*result), second;
  if (token_.kind != TokenKind::kWord) return unexpected("a register or '_'");
  if (!operand_word(&second, false, 0)) return false;
  if (second.kind != OperandKind::kRegister && second.kind != OperandKind::kSink)
    return refuse("the second half of a pair is not a register", token_.line);
  *result = Operand{};
  result->kind = OperandKind::kPair;
  result->elements.push_back(std::move(first));
  result->elements.push_back(std::move(second));
  return true;
}

}  // namespace stepbench::ptx
