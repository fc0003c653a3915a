// The parser's state, shared by parse.cc (module and functions), parse_variable.cc, parse_body.cc (statements of a
// function) and parse_operand.cc (operands and constants). Internal: others include ptx.h.
//
// Recursive descent without recursion in the input's depth: scopes are a vector, vectors and memory operands nest a
// fixed number of levels, constant expressions carry a depth. Every function returns false after recording one error.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "harness/ptx_vm/lex.h"
#include "harness/ptx_vm/ptx.h"

namespace stepbench::ptx {

// Far above what compilers emit, far below what would hurt this process.
inline constexpr size_t kMaxTextBytes = 64u << 20;
inline constexpr size_t kMaxInstructions = 1u << 20;     ///< of a module
inline constexpr size_t kMaxOperands = 4u << 20;         ///< of a module, elements included
inline constexpr size_t kMaxDeclarations = 1u << 20;     ///< variables, parameters, .reg entries of a module
inline constexpr uint64_t kMaxRegisterRange = 1u << 20;  ///< N of %r<N>
inline constexpr uint64_t kMaxVariableBytes = 1ull << 40;
inline constexpr uint64_t kMaxInitializedBytes = 16ull << 20;  ///< of a module
inline constexpr uint64_t kMaxAlignBytes = 1ull << 20;
inline constexpr size_t kMaxScopes = 32;     ///< nesting
inline constexpr size_t kMaxElements = 512;  ///< of one vector, operand list or argument list
inline constexpr int kMaxConstantDepth = 32;
inline constexpr size_t kMaxDimensions = 8;

/// A name in a function's scope.
struct Entity {
  bool is_register = false;
  int32_t reg = -1;       ///< index in Function::registers; -1 until first used
  std::string_view type;  ///< of a register
  std::string unique;     ///< name in the function's flat table
};

struct RegisterRange {
  std::string_view type;
  uint64_t count = 0;
};

/// A label's use that waits for the end of its scope: the label may stand below.
struct LabelUse {
  std::string_view name;
  int32_t line = 0;
  size_t instruction = 0, operand = 0;  ///< where the name goes, or ...
  std::string table;                    ///< ... the `.branchtargets` list and ...
  size_t entry = 0;                     ///< ... its entry
};

struct Scope {
  std::string suffix;  ///< makes names of inner scopes unique; empty for the function's own
  std::unordered_map<std::string_view, Entity> names;
  std::unordered_map<std::string_view, RegisterRange> ranges;
  std::unordered_map<std::string_view, std::string> labels;
  std::vector<LabelUse> uses;
};

/// What a frame of the `.loc` chain says of the author's file.
struct SourceFrame {
  int32_t author_file = 0, author_line = 0;
};

/// A value of a constant expression (PTX ISA section 4.6): an integer or a floating point literal.
struct Constant {
  bool is_float = false, is_double = false;
  uint64_t bits = 0;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text), lexer_(text) {}
  Result<Module> run();

 private:
  // ---- tokens and errors (parse.cc)
  void advance();
  bool accept(char c);
  bool expect(char c, const char* expected);
  bool unexpected(const std::string& expected);
  bool refuse(const std::string& message, int32_t line);
  bool integer(const char* expected, uint64_t limit, uint64_t* value);
  bool word(const char* expected, std::string_view* name);

  // ---- module and functions (parse.cc)
  bool module_statement();
  bool directive_file();
  bool directive_section();
  bool directive_alias();
  bool skip_balanced();
  bool linkage(std::string* kind);
  bool function(bool is_entry, const std::string& link);
  bool parameter_list(std::vector<Variable>* list);
  bool function_directives();
  bool three_numbers(std::array<int32_t, 3>* numbers);
  bool finish_aliases();
  bool count_declaration();

  // ---- variables (parse_variable.cc)
  bool module_variables(Space space, const std::string& link);
  bool variable_head(Variable* variable, std::string* type, uint32_t* vector);
  bool variable_declarator(const Variable& head, uint32_t vector, bool may_initialize, Variable* variable);
  bool initializer(Variable* variable, uint32_t element_bytes, std::span<const uint64_t> dims, bool* is_open);
  bool initializer_value(Variable* variable, uint32_t element_bytes, uint64_t offset, std::vector<uint8_t>* bytes);
  bool add_module_variable(Variable variable);

  // ---- function bodies (parse_body.cc)
  bool body();
  bool statement();
  bool body_directive();
  bool registers();
  bool body_variables(Space space);
  bool location();
  bool label(std::string_view name, int32_t line);
  bool label_directive(const std::string& unique);
  bool prototype();
  bool instruction();
  bool call(Instruction* instruction);
  bool call_list(std::vector<Operand>* list);
  void open_scope();
  bool close_scope();
  bool declare(std::string_view name, Entity entity, int32_t line);
  std::string unique_variable(const std::string& name);
  const RegisterRange* find_in_range(std::string_view name, const Scope& scope) const;
  Entity* find(std::string_view name);
  int32_t use_register(Entity* entity);
  bool register_operand(std::string_view name, int32_t line, int32_t* reg);

  // ---- operands and constants (parse_operand.cc)
  bool operand(Operand* result, bool is_top, size_t index);
  bool operand_word(Operand* result, bool is_top, size_t index);
  bool operand_vector(Operand* result);
  bool operand_memory(Operand* result);
  bool displacement(int64_t* sum);
  bool special(std::string_view name, Operand* result);
  bool constant(Constant* value);
  bool constant_binary(int min_precedence, int depth, Constant* value);
  bool constant_unary(int depth, Constant* value);
  void use_label(std::string_view name, size_t index);

  std::string_view text_;
  Lexer lexer_;
  Token token_, ahead_;
  size_t previous_end_ = 0;                 ///< end of the token before token_
  std::string_view last_name_, last_type_;  ///< of the declarator just read, as parts of the text
  std::optional<Error> error_;

  Module module_;
  bool has_version_ = false, has_target_ = false;
  std::unordered_map<std::string, size_t> variable_index_, function_index_;
  std::vector<std::pair<std::string, std::string>> aliases_;
  size_t instructions_ = 0, operands_ = 0, declarations_ = 0;
  uint64_t initialized_bytes_ = 0;
  int32_t scopes_opened_ = 0;  ///< number of the next inner scope, module-wide

  Function function_;
  std::vector<Scope> scopes_;
  Place place_;  ///< of the last `.loc`
  std::map<std::array<int32_t, 3>, SourceFrame> frames_;
};

/// The state space that a directive such as ".shared" names.
std::optional<Space> space_of(std::string_view word);

/// Bytes of a PTX fundamental type without its dot; 0 for what is none. "pred" has 1.
uint32_t type_bytes(std::string_view type);

}  // namespace stepbench::ptx
