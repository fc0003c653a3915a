// Tokens of PTX text. Knows comments, numbers and names; knows no grammar. Reference: PTX ISA section 4.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stepbench::ptx {

enum class TokenKind : uint8_t {
  kEnd,
  kWord,     ///< name, register, opcode; `%` and `$` belong to it, `.` does not
  kDotWord,  ///< `.global`, `.L2::128B`, `.2d`: with its dot
  kInteger,  ///< `bits` is the value
  kFloat,    ///< `bits` is the encoding, `is_double` tells 0d and decimal from 0f
  kString,   ///< without its quotes, escapes as written
  kPunct,    ///< one character
  kBad,      ///< nothing PTX knows; `problem` says why
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string_view text;      ///< part of the input; for kString the inside
  int32_t line = 1;           ///< 1-based
  size_t begin = 0, end = 0;  ///< bytes of the input
  uint64_t bits = 0;
  bool is_double = false;
  const char* problem = nullptr;  ///< kBad only

  bool is(char c) const { return kind == TokenKind::kPunct && text[0] == c; }
  bool is_dot(std::string_view word) const { return kind == TokenKind::kDotWord && text == word; }
};

/// Reads tokens one by one. The text must outlive the lexer and its tokens.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}
  Token next();

 private:
  Token number(Token token);
  Token bad(Token token, size_t end, const char* problem);

  std::string_view text_;
  size_t at_ = 0;
  int32_t line_ = 1;
};

/// A token for an error message: bounded length, printable characters only.
std::string show(const Token& token);

/// A name in single quotes.
std::string quoted(std::string_view name);

/// White space and comments folded to single blanks.
std::string fold(std::string_view text);

}  // namespace stepbench::ptx
