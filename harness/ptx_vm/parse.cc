// PTX text -> Module: directives, functions and their signatures (PTX ISA sections 5, 7.1 and 11). Variables are read
// in parse_variable.cc, statements of function bodies in parse_body.cc, operands in parse_operand.cc. What PTX has and
// this parser does not know is refused, not skipped: what parses is what the tree says.
#include <algorithm>

#include "harness/ptx_vm/parser.h"

namespace stepbench::ptx {

// ------------------------------------------------------------------------------------------ tokens and errors

void Parser::advance() {
  previous_end_ = token_.end;
  token_ = ahead_;
  if (token_.kind != TokenKind::kEnd && token_.kind != TokenKind::kBad) ahead_ = lexer_.next();
}

bool Parser::accept(char c) {
  if (!token_.is(c)) return false;
  advance();
  return true;
}

bool Parser::expect(char c, const char* expected) { return accept(c) || unexpected(expected); }

bool Parser::unexpected(const std::string& expected) {
  if (error_) return false;
  if (token_.kind == TokenKind::kBad) return refuse(token_.problem, token_.line);
  error_ = Error{ErrorCode::kInvalidInput, "the PTX text is malformed", "line " + std::to_string(token_.line), expected,
                 show(token_)};
  return false;
}

bool Parser::refuse(const std::string& message, int32_t line) {
  if (!error_) {
    error_ = Error{ErrorCode::kInvalidInput, message, "line " + std::to_string(line), "", ""};
    if (token_.line == line && token_.kind != TokenKind::kEnd) error_->found = show(token_);
  }
  return false;
}

bool Parser::integer(const char* expected, uint64_t limit, uint64_t* value) {
  if (token_.kind != TokenKind::kInteger) return unexpected(expected);
  if (token_.bits > limit)
    return refuse(std::string(expected) + " is above the limit of " + std::to_string(limit), token_.line);
  *value = token_.bits;
  advance();
  return true;
}

bool Parser::word(const char* expected, std::string_view* name) {
  if (token_.kind != TokenKind::kWord) return unexpected(expected);
  *name = token_.text;
  advance();
  return true;
}

bool Parser::count_declaration() {
  if (++declarations_ > kMaxDeclarations) return refuse("the text has too many declarations", token_.line);
  return true;
}

// ------------------------------------------------------------------------------------------ module

Result<Module> Parser::run() {
  ahead_ = lexer_.next();
  advance();
  bool is_good = true;
  while (is_good && token_.kind != TokenKind::kEnd) is_good = module_statement();
  if (is_good && !has_version_) is_good = unexpected(".version");
  if (is_good && !has_target_) is_good = unexpected(".target");
  if (is_good) is_good = finish_aliases();
  if (error_) return std::move(*error_);
  SB_ASSERT(is_good);
  return std::move(module_);
}

bool Parser::module_statement() {
  if (accept(';')) return true;
  if (token_.kind != TokenKind::kDotWord) return unexpected("a directive");
  const std::string_view directive = token_.text;
  if (directive == ".version") {
    advance();
    if (token_.kind != TokenKind::kFloat) return unexpected("a version such as 9.0");
    module_.version = token_.text;
    has_version_ = true;
    advance();
    return true;
  }
  if (!has_version_) return unexpected(".version");
  if (directive == ".target") {
    advance();
    std::string_view name;
    if (!word("a target such as sm_90a", &name)) return false;
    module_.target = name;
    has_target_ = true;
    while (accept(','))
      if (!word("a target option", &name)) return false;
    return true;
  }
  if (!has_target_) return unexpected(".target");
  if (directive == ".address_size") {
    advance();
    const int32_t line = token_.line;
    uint64_t bits = 0;
    if (!integer("64", 64, &bits)) return false;
    return bits == 64 || refuse("only 64-bit addresses are supported", line);
  }
  if (directive == ".file") return directive_file();
  if (directive == ".section") return directive_section();
  if (directive == ".alias") return directive_alias();
  if (directive == ".pragma") {
    advance();
    do {
      if (token_.kind != TokenKind::kString) return unexpected("a string");
      advance();
    } while (accept(','));
    return expect(';', "';'");
  }
  if (directive == ".loc") return location();

  std::string link;
  if (!linkage(&link)) return false;
  if (token_.is_dot(".entry") || token_.is_dot(".func")) return function(token_.is_dot(".entry"), link);
  if (token_.kind == TokenKind::kDotWord)
    if (const auto space = space_of(token_.text); space && *space != Space::kLocal && *space != Space::kParam)
      return module_variables(*space, link);
  return unexpected(link.empty() ? "a module directive" : "a variable or function");
}

bool Parser::linkage(std::string* kind) {
  while (token_.is_dot(".visible") || token_.is_dot(".extern") || token_.is_dot(".weak") || token_.is_dot(".common")) {
    if (!kind->empty()) return unexpected("one linking directive");
    *kind = token_.text.substr(1);
    advance();
  }
  return true;
}

// .file index "name" [, timestamp, size]
bool Parser::directive_file() {
  advance();
  uint64_t index = 0, ignored = 0;
  if (!integer("a file number", INT32_MAX, &index) || !count_declaration()) return false;
  if (token_.kind != TokenKind::kString) return unexpected("a file name");
  module_.files[static_cast<int32_t>(index)] = token_.text;
  advance();
  while (accept(','))
    if (!integer("a number", UINT64_MAX, &ignored)) return false;
  return true;
}

// .section name { DWARF data }: no part of the program
bool Parser::directive_section() {
  advance();
  if (token_.kind != TokenKind::kDotWord && token_.kind != TokenKind::kWord) return unexpected("a section name");
  advance();
  return skip_balanced();
}

/// Skips a group in braces or parentheses, whatever it holds.
bool Parser::skip_balanced() {
  if (!token_.is('{') && !token_.is('(')) return unexpected("'{' or '('");
  int64_t depth = 0;
  do {
    if (token_.kind == TokenKind::kEnd || token_.kind == TokenKind::kBad) return unexpected("a closing bracket");
    if (token_.is('{') || token_.is('(')) ++depth;
    if (token_.is('}') || token_.is(')')) --depth;
    advance();
  } while (depth > 0);
  return true;
}

// .alias name, target;
bool Parser::directive_alias() {
  advance();
  std::string_view name, target;
  if (!count_declaration() || !word("a function name", &name) || !expect(',', "','") ||
      !word("a function name", &target))
    return false;
  for (const std::string_view used : {name, target})
    if (function_index_.count(std::string(used)) == 0)
      return refuse("function " + quoted(used) + " is not declared", token_.line);
  aliases_.emplace_back(name, target);
  return expect(';', "';'");
}

/// Calls of an alias become calls of its target; the alias' declaration goes.
bool Parser::finish_aliases() {
  if (aliases_.empty()) return true;
  std::unordered_map<std::string, std::string> target_of;
  for (const auto& [name, target] : aliases_) {
    if (!module_.functions[function_index_[name]].is_declaration)
      return refuse("alias " + quoted(name) + " has a body of its own", token_.line);
    if (module_.functions[function_index_[target]].is_declaration)
      return refuse("alias " + quoted(name) + " stands for a function without a body", token_.line);
    target_of[name] = target;
  }
  const auto rename = [&](std::string* name) {
    if (const auto found = target_of.find(*name); found != target_of.end()) *name = found->second;
  };
  for (Function& each : module_.functions) {
    for (Instruction& instruction : each.body)
      for (Operand& operand : instruction.operands) {
        if (operand.kind == OperandKind::kSymbol) rename(&operand.name);
        for (Operand& element : operand.elements)
          if (element.kind == OperandKind::kSymbol) rename(&element.name);
      }
    for (auto& [name, targets] : each.call_targets)
      for (std::string& target : targets) rename(&target);
  }
  for (Variable& variable : module_.variables)
    for (InitializerAddress& address : variable.addresses) rename(&address.symbol);
  std::erase_if(module_.functions, [&](const Function& each) { return target_of.count(each.name) > 0; });
  return true;
}

// ------------------------------------------------------------------------------------------ functions

bool Parser::function(bool is_entry, const std::string& link) {
  advance();
  function_ = Function{};
  function_.is_entry = is_entry;
  scopes_.clear();
  scopes_.emplace_back();
  place_ = Place{};
  frames_.clear();
  while (token_.is_dot(".attribute")) {
    advance();
    if (!skip_balanced()) return false;
  }
  if (!is_entry && token_.is('(') && !parameter_list(&function_.returns)) return false;
  function_.place.ptx_line = token_.line;
  std::string_view name;
  if (!word("a function name", &name)) return false;
  function_.name = name;
  if (variable_index_.count(function_.name) > 0)
    return refuse(quoted(function_.name) + " is declared twice", function_.place.ptx_line);
  if (token_.is('(') && !parameter_list(&function_.parameters)) return false;
  if (!function_directives()) return false;

  // Known from here on: a function may call itself.
  const auto known = function_index_.find(function_.name);
  if (known != function_index_.end() && !module_.functions[known->second].is_declaration && !token_.is(';'))
    return refuse("function " + quoted(function_.name) + " is defined twice", function_.place.ptx_line);
  if (known == function_index_.end()) {
    if (!count_declaration()) return false;
    function_index_[function_.name] = module_.functions.size();
    module_.functions.emplace_back();
    module_.functions.back().name = function_.name;
    module_.functions.back().is_declaration = true;
  }
  const size_t index = function_index_[function_.name];
  if (accept(';')) {
    function_.is_declaration = true;
    if (module_.functions[index].is_declaration) module_.functions[index] = std::move(function_);
    return true;
  }
  if (link == "extern") return unexpected("';' after an extern function");
  if (!token_.is('{')) return unexpected("'{' or ';'");
  if (!body()) return false;
  module_.functions[index] = std::move(function_);
  return true;
}

bool Parser::parameter_list(std::vector<Variable>* list) {
  advance();
  if (accept(')')) return true;
  do {
    if (!token_.is_dot(".param") && !token_.is_dot(".reg")) return unexpected(".param or .reg");
    if (!count_declaration()) return false;
    Variable head;
    head.space = token_.is_dot(".reg") ? Space::kReg : Space::kParam;
    advance();
    std::string type;
    uint32_t vector = 1;
    if (!variable_head(&head, &type, &vector)) return false;
    Variable parameter;
    if (!variable_declarator(head, vector, false, &parameter)) return false;
    Entity entity;
    entity.is_register = head.space == Space::kReg;
    parameter.name = unique_variable(parameter.name);
    entity.unique = parameter.name;
    entity.type = entity.is_register ? last_type_ : std::string_view();
    list->push_back(std::move(parameter));
    if (last_name_ != "_" && !declare(last_name_, std::move(entity), list->back().place.ptx_line)) return false;
  } while (accept(','));
  return expect(')', "',' or ')'");
}

bool Parser::three_numbers(std::array<int32_t, 3>* numbers) {
  advance();
  *numbers = {1, 1, 1};
  for (size_t i = 0; i < 3; ++i) {
    if (i > 0 && !accept(',')) break;
    uint64_t value = 0;
    if (!integer("a number of threads or blocks", INT32_MAX, &value)) return false;
    (*numbers)[i] = static_cast<int32_t>(value);
  }
  return true;
}

// PTX ISA section 11.4 and .noreturn; limits that only guide ptxas are read and dropped.
bool Parser::function_directives() {
  while (token_.kind == TokenKind::kDotWord) {
    const std::string_view name = token_.text;
    uint64_t ignored = 0;
    if (name == ".maxntid") {
      if (!three_numbers(&function_.max_threads)) return false;
    } else if (name == ".reqntid") {
      if (!three_numbers(&function_.required_threads)) return false;
    } else if (name == ".reqnctapercluster") {
      if (!three_numbers(&function_.required_cluster)) return false;
    } else if (name == ".minnctapersm" || name == ".maxnctapersm" || name == ".maxnreg" || name == ".maxclusterrank" ||
               name == ".abi_preserve" || name == ".abi_preserve_control") {
      advance();
      if (!integer("a number", UINT32_MAX, &ignored)) return false;
    } else if (name == ".noreturn" || name == ".explicitcluster" || name == ".blocksareclusters") {
      advance();
    } else if (name == ".pragma") {
      advance();
      do {
        if (token_.kind != TokenKind::kString) return unexpected("a string");
        advance();
      } while (accept(','));
      if (!expect(';', "';'")) return false;
    } else {
      return unexpected("a performance directive, '{' or ';'");
    }
  }
  return true;
}

Result<Module> parse(std::string_view text) {
  while (!text.empty() && text.back() == '\0') text.remove_suffix(1);  // compilers count the terminator
  if (text.size() > kMaxTextBytes)
    return Error{ErrorCode::kInvalidInput, "the PTX text is too long", "", "at most 64 MiB",
                 std::to_string(text.size()) + " bytes"};
  return Parser(text).run();
}

}  // namespace stepbench::ptx
