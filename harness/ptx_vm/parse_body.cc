// Statements of function bodies: scopes, registers, local variables, labels, instructions, call sequences. Names of
// inner scopes get a suffix that no PTX name can have ("param0#7"), so that a function keeps one flat table. Registers
// enter the table when they are first used, so that %r<N> costs nothing by itself.
#include <algorithm>

#include "harness/ptx_vm/parser.h"

namespace stepbench::ptx {

namespace {

bool is_number(std::string_view digits, uint64_t* value) {
  if (digits.empty() || digits.size() > 9 || (digits.size() > 1 && digits[0] == '0')) return false;
  uint64_t sum = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return false;
    sum = sum * 10 + static_cast<uint64_t>(c - '0');
  }
  *value = sum;
  return true;
}

std::string numbered(int32_t number) { return std::string(1, '#').append(std::to_string(number)); }

}  // namespace

// ------------------------------------------------------------------------------------------ scopes and names

void Parser::open_scope() {
  scopes_.emplace_back();
  scopes_.back().suffix = numbered(++scopes_opened_);
}

/// Resolves the labels used in the innermost scope; what it does not define waits for the next one out.
bool Parser::close_scope() {
  Scope scope = std::move(scopes_.back());
  scopes_.pop_back();
  for (LabelUse& use : scope.uses) {
    const auto found = scope.labels.find(use.name);
    if (found == scope.labels.end()) {
      if (scopes_.empty()) return refuse(quoted(use.name) + " is neither declared nor a label of this scope", use.line);
      scopes_.back().uses.push_back(std::move(use));
    } else if (use.table.empty()) {
      function_.body[use.instruction].operands[use.operand].name = found->second;
    } else {
      function_.branch_targets[use.table][use.entry] = found->second;
    }
  }
  return true;
}

/// The range such as %r<8> that `name` is a member of.
const RegisterRange* Parser::find_in_range(std::string_view name, const Scope& scope) const {
  if (scope.ranges.empty()) return nullptr;
  for (size_t take = 1; take < name.size() && take <= 9; ++take) {
    if (name[name.size() - take] < '0' || name[name.size() - take] > '9') return nullptr;
    uint64_t number = 0;
    if (!is_number(name.substr(name.size() - take), &number)) continue;
    const auto range = scope.ranges.find(name.substr(0, name.size() - take));
    if (range != scope.ranges.end() && number < range->second.count) return &range->second;
  }
  return nullptr;
}

bool Parser::declare(std::string_view name, Entity entity, int32_t line) {
  if (find_in_range(name, scopes_.back()) != nullptr)
    return refuse(quoted(name) + " is declared twice in its scope", line);
  if (!scopes_.back().names.try_emplace(name, std::move(entity)).second)
    return refuse(quoted(name) + " is declared twice in its scope", line);
  return true;
}

/// A variable's name in the function's flat table; differs from all module-scope names too, so that a name in the tree
/// means one thing.
std::string Parser::unique_variable(const std::string& name) {
  const std::string unique = name + scopes_.back().suffix;
  if (variable_index_.count(unique) == 0 && function_index_.count(unique) == 0) return unique;
  return name + numbered(++scopes_opened_);
}

/// The register or variable that `name` means here; null when the function declares none. Innermost scope first; a
/// member of a range such as %r<8> becomes an entity of its own when it is first asked for.
Entity* Parser::find(std::string_view name) {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (const auto found = scope->names.find(name); found != scope->names.end()) return &found->second;
    const RegisterRange* range = find_in_range(name, *scope);
    if (range == nullptr) continue;
    Entity entity;
    entity.is_register = true;
    entity.type = range->type;
    entity.unique = std::string(name) + scope->suffix;
    return &scope->names.emplace(name, std::move(entity)).first->second;
  }
  return nullptr;
}

int32_t Parser::use_register(Entity* entity) {
  if (entity->reg < 0) {
    entity->reg = static_cast<int32_t>(function_.registers.size());
    function_.registers.push_back({entity->unique, std::string(entity->type)});
  }
  return entity->reg;
}

bool Parser::register_operand(std::string_view name, int32_t line, int32_t* reg) {
  Entity* entity = find(name);
  if (entity == nullptr || !entity->is_register) return refuse("register " + quoted(name) + " is not declared", line);
  *reg = use_register(entity);
  return true;
}

// ------------------------------------------------------------------------------------------ statements

bool Parser::body() {
  advance();
  size_t depth = 1;
  while (depth > 0) {
    if (token_.is('{')) {
      if (depth >= kMaxScopes) return refuse("scopes are nested too deeply", token_.line);
      ++depth;
      open_scope();
      advance();
    } else if (token_.is('}')) {
      --depth;
      advance();
      if (!close_scope()) return false;
    } else if (!statement()) {
      return false;
    }
  }
  return true;
}

bool Parser::statement() {
  if (accept(';')) return true;
  if (token_.kind == TokenKind::kDotWord) return body_directive();
  if (token_.kind == TokenKind::kWord && ahead_.is(':')) {
    const std::string_view name = token_.text;
    const int32_t line = token_.line;
    advance();
    advance();
    return label(name, line);
  }
  if (token_.kind == TokenKind::kWord || token_.is('@')) return instruction();
  return unexpected("a statement or '}'");
}

bool Parser::body_directive() {
  const std::string_view name = token_.text;
  if (name == ".loc") return location();
  if (name == ".reg") return registers();
  if (name == ".param") return body_variables(Space::kParam);
  if (name == ".shared") return body_variables(Space::kShared);
  if (name == ".local") return body_variables(Space::kLocal);
  if (name == ".global") return body_variables(Space::kGlobal);
  if (name == ".const") return body_variables(Space::kConst);
  if (name == ".file") return directive_file();
  if (name == ".section") return directive_section();
  if (name == ".pragma") {
    advance();
    do {
      if (token_.kind != TokenKind::kString) return unexpected("a string");
      advance();
    } while (accept(','));
    return expect(';', "';'");
  }
  return unexpected("a directive of a function body");
}

// .loc file line column [, function_name label [+ offset], inlined_at file line column]
bool Parser::location() {
  advance();
  const auto three = [&](std::array<int32_t, 3>* numbers) {
    for (int32_t& number : *numbers) {
      uint64_t value = 0;
      if (!integer("a number", INT32_MAX, &value)) return false;
      number = static_cast<int32_t>(value);
    }
    return true;
  };
  std::array<int32_t, 3> here{};
  if (!three(&here)) return false;
  SourceFrame frame{here[0], here[1]};
  while (accept(',')) {
    std::string_view attribute;
    if (!word("function_name or inlined_at", &attribute)) return false;
    if (attribute == "function_name") {
      std::string_view symbol;
      int64_t ignored = 0;
      if (!word("a label", &symbol) || !displacement(&ignored)) return false;
    } else if (attribute == "inlined_at") {
      // The place it was inlined into has usually been seen before, with its own place of inlining.
      std::array<int32_t, 3> outer{};
      if (!three(&outer)) return false;
      const auto known = frames_.find(outer);
      frame = known == frames_.end() ? SourceFrame{outer[0], outer[1]} : known->second;
      if (frame.author_file == here[0]) frame.author_line = here[1];
    } else {
      return refuse("an attribute of .loc that PTX does not know", token_.line);
    }
  }
  frames_[here] = frame;
  place_.file = here[0];
  place_.source_line = here[1];
  if (frame.author_line != 0) {  // line 0 is code of the compiler's own: the last line is still the nearest
    place_.author_file = frame.author_file;
    place_.author_line = frame.author_line;
  }
  if (function_.place.author_line == 0 &&
      frame.author_line != 0) {  // the function's own, and that of what stands before the first `.loc`
    const auto fill = [&](Place* place) {
      const int32_t line = place->ptx_line;
      *place = place_;
      place->ptx_line = line;
    };
    fill(&function_.place);
    for (Instruction& before : function_.body) fill(&before.place);
  }
  return true;
}

// .reg .type name, name<N>, ...;
bool Parser::registers() {
  advance();
  Variable head;
  head.space = Space::kReg;
  std::string type;
  uint32_t vector = 1;
  if (!variable_head(&head, &type, &vector)) return false;
  const std::string_view stored_type = last_type_;
  do {
    if (!count_declaration()) return false;
    const int32_t line = token_.line;
    std::string_view name;
    if (!word("a register name", &name)) return false;
    if (accept('<')) {
      uint64_t count = 0;
      if (!integer("a number of registers", kMaxRegisterRange, &count) || !expect('>', "'>'")) return false;
      if (!scopes_.back().ranges.try_emplace(name, RegisterRange{stored_type, count}).second)
        return refuse(quoted(name) + "<> is declared twice in its scope", line);
      continue;
    }
    Entity entity;
    entity.is_register = true;
    entity.type = stored_type;
    entity.unique = std::string(name) + scopes_.back().suffix;
    if (!declare(name, std::move(entity), line)) return false;
  } while (accept(','));
  return expect(';', "',' or ';'");
}

// .shared, .local, .param of a function; .global and .const live as long as the module and go there.
bool Parser::body_variables(Space space) {
  advance();
  Variable head;
  head.space = space;
  std::string type;
  uint32_t vector = 1;
  if (!variable_head(&head, &type, &vector)) return false;
  const bool is_static = space == Space::kGlobal || space == Space::kConst;
  do {
    if (!count_declaration()) return false;
    Variable variable;
    if (!variable_declarator(head, vector, is_static, &variable)) return false;
    Entity entity;
    entity.unique = is_static ? variable.name + numbered(++scopes_opened_) : unique_variable(variable.name);
    variable.name = entity.unique;
    if (!declare(last_name_, std::move(entity), variable.place.ptx_line)) return false;
    if (is_static) {
      if (!add_module_variable(std::move(variable))) return false;
    } else {
      function_.variables.push_back(std::move(variable));
    }
  } while (accept(','));
  return expect(';', "',' or ';'");
}

bool Parser::label(std::string_view name, int32_t line) {
  if (!count_declaration()) return false;
  std::string unique = std::string(name) + scopes_.back().suffix;
  if (!scopes_.back().labels.try_emplace(name, unique).second)
    return refuse("label " + quoted(name) + " is defined twice in its scope", line);
  if (token_.is_dot(".branchtargets") || token_.is_dot(".calltargets") || token_.is_dot(".callprototype"))
    return label_directive(unique);
  function_.labels[unique] = static_cast<int32_t>(function_.body.size());
  return true;
}

// label: .branchtargets L1, L2;   label: .calltargets f, g;   label: .callprototype (returns) _ (parameters);
bool Parser::label_directive(const std::string& unique) {
  if (token_.is_dot(".callprototype")) return prototype();
  const bool is_branch = token_.is_dot(".branchtargets");
  advance();
  std::vector<std::string>& targets = (is_branch ? function_.branch_targets : function_.call_targets)[unique];
  do {
    if (!count_declaration()) return false;
    const int32_t line = token_.line;
    std::string_view name;
    if (!word(is_branch ? "a label" : "a function name", &name)) return false;
    if (is_branch && token_.is('<')) return refuse("label ranges in .branchtargets are not supported", line);
    if (is_branch) {
      LabelUse use;
      use.name = name;
      use.line = line;
      use.table = unique;
      use.entry = targets.size();
      scopes_.back().uses.push_back(std::move(use));
      targets.emplace_back();
    } else {
      targets.emplace_back(name);
      if (function_index_.count(targets.back()) == 0)
        return refuse("function " + quoted(targets.back()) + " is not declared", line);
    }
  } while (accept(','));
  return expect(';', "',' or ';'");
}

/// Read for its form only: the widths of a call's values stand in the caller's .param variables.
bool Parser::prototype() {
  advance();
  bool has_name = false;
  while (!token_.is(';')) {
    if (token_.is('(')) {
      if (!skip_balanced()) return false;
    } else if (token_.kind == TokenKind::kWord && !has_name) {
      has_name = true;
      advance();
    } else if (token_.is_dot(".noreturn")) {
      advance();
    } else if (token_.is_dot(".abi_preserve") || token_.is_dot(".abi_preserve_control")) {
      uint64_t ignored = 0;
      advance();
      if (!integer("a number", UINT32_MAX, &ignored)) return false;
    } else {
      return unexpected("a prototype");
    }
  }
  if (!has_name) return unexpected("'_'");
  advance();
  return true;
}

// ------------------------------------------------------------------------------------------ instructions

bool Parser::instruction() {
  if (++instructions_ > kMaxInstructions) return refuse("the text has too many instructions", token_.line);
  Instruction result;
  result.place = place_;
  result.place.ptx_line = token_.line;
  const size_t begin = token_.begin;
  if (accept('@')) {
    result.predicate_negated = accept('!');
    std::string_view guard;
    const int32_t line = token_.line;
    if (!word("a predicate register", &guard) || !register_operand(guard, line, &result.predicate)) return false;
  }
  std::string_view opcode;
  if (!word("an opcode", &opcode)) return false;
  result.opcode = opcode;
  while (token_.kind == TokenKind::kDotWord) {
    if (result.modifiers.size() >= kMaxElements) return refuse("an opcode has too many modifiers", token_.line);
    result.modifiers.emplace_back(token_.text.substr(1));
    advance();
  }
  if (opcode == "call") {
    if (!call(&result)) return false;
  } else if (!token_.is(';')) {
    do {
      if (result.operands.size() >= kMaxElements) return refuse("an instruction has too many operands", token_.line);
      Operand each;
      const size_t index = result.operands.size();
      // A label's name may also be that of a register or variable: after bra only labels count.
      if (token_.kind == TokenKind::kWord && (opcode == "bra" || (opcode == "brx" && index == 1))) {
        each.kind = OperandKind::kLabel;
        use_label(token_.text, index);
        advance();
      } else if (!operand(&each, true, index)) {
        return false;
      }
      result.operands.push_back(std::move(each));
    } while (accept(','));
  }
  if (!token_.is(';')) return unexpected("',' or ';'");
  result.text = fold(text_.substr(begin, previous_end_ - begin));
  advance();
  function_.body.push_back(std::move(result));
  return true;
}

// call [(returns),] callee [, (arguments)] [, prototype or targets];
bool Parser::call(Instruction* instruction) {
  if (token_.is('(')) {
    if (!call_list(&instruction->call_returns) || !expect(',', "','")) return false;
  }
  const int32_t line = token_.line;
  if (token_.kind != TokenKind::kWord) return unexpected("a function or register");
  Operand callee;
  if (!operand(&callee, false, 0)) return false;
  if (callee.kind == OperandKind::kSymbol && (callee.displacement != 0 || function_index_.count(callee.name) == 0))
    return refuse(quoted(callee.name) + " is called but is no function", line);
  if (callee.kind != OperandKind::kSymbol && callee.kind != OperandKind::kRegister)
    return refuse("a call's target is neither a function nor a register", line);
  instruction->operands.push_back(std::move(callee));
  if (!accept(',')) return true;
  if (token_.is('(')) {
    if (!call_list(&instruction->call_arguments)) return false;
    if (!accept(',')) return true;
  }
  if (token_.kind != TokenKind::kWord) return unexpected("a prototype's label");
  Operand prototype_label;
  prototype_label.kind = OperandKind::kLabel;
  use_label(token_.text, instruction->operands.size());
  instruction->operands.push_back(std::move(prototype_label));
  advance();
  return true;
}

bool Parser::call_list(std::vector<Operand>* list) {
  advance();
  if (accept(')')) return true;
  do {
    if (list->size() >= kMaxElements) return refuse("a call has too many arguments", token_.line);
    Operand each;
    if (!operand(&each, false, 0)) return false;
    if (each.kind == OperandKind::kVector || each.kind == OperandKind::kMemory)
      return refuse("a call's argument is neither a value nor a parameter", token_.line);
    list->push_back(std::move(each));
  } while (accept(','));
  return expect(')', "',' or ')'");
}

}  // namespace stepbench::ptx
