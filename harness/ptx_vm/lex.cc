// PTX text -> tokens. Works on arbitrary bytes: whatever is not PTX becomes one kBad token. No grammar here.
#include "harness/ptx_vm/lex.h"

#include <bit>
#include <charconv>
#include <system_error>

namespace stepbench::ptx {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_name_char(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '$'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' || c == '\v'; }

int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

/// Value of digits in `base`; false when a digit does not belong, there is none, or 64 bits do not hold it.
bool digits_value(std::string_view digits, uint64_t base, uint64_t* value) {
  if (digits.empty()) return false;
  uint64_t sum = 0;
  for (const char c : digits) {
    const int digit = hex_value(c);
    if (digit < 0 || static_cast<uint64_t>(digit) >= base) return false;
    const auto d = static_cast<uint64_t>(digit);
    if (sum > (UINT64_MAX - d) / base) return false;
    sum = sum * base + d;
  }
  *value = sum;
  return true;
}

/// Length of the blanks and comments that start at `at`; counts lines. False for an unclosed comment.
bool blanks_end(std::string_view text, size_t* at, int32_t* line) {
  size_t i = *at;
  while (i < text.size()) {
    if (is_blank(text[i])) {
      if (text[i] == '\n') ++*line;
      ++i;
    } else if (text.substr(i, 2) == "//") {
      while (i < text.size() && text[i] != '\n') ++i;
    } else if (text.substr(i, 2) == "/*") {
      const size_t close = text.find("*/", i + 2);
      if (close == std::string_view::npos) {
        *at = i;
        return false;
      }
      for (; i < close + 2; ++i)
        if (text[i] == '\n') ++*line;
    } else {
      break;
    }
  }
  *at = i;
  return true;
}

}  // namespace

Token Lexer::bad(Token token, size_t end, const char* problem) {
  token.kind = TokenKind::kBad;
  token.end = end > text_.size() ? text_.size() : end;
  token.text = text_.substr(token.begin, token.end - token.begin);
  token.problem = problem;
  at_ = text_.size();  // nothing after a bad token is read
  return token;
}

Token Lexer::number(Token token) {
  size_t i = at_;
  const std::string_view rest = text_.substr(at_);
  const char second = rest.size() > 1 ? rest[1] : '\0';
  const bool is_prefixed = rest[0] == '0' && is_letter(second);
  if (is_prefixed) {
    while (i < text_.size() && is_name_char(text_[i])) ++i;
  } else {
    while (i < text_.size() && is_digit(text_[i])) ++i;
    bool is_decimal_float = false;
    if (i < text_.size() && text_[i] == '.') {
      is_decimal_float = true;
      ++i;
      while (i < text_.size() && is_digit(text_[i])) ++i;
    }
    if (i < text_.size() && (text_[i] == 'e' || text_[i] == 'E')) {
      size_t k = i + 1;
      if (k < text_.size() && (text_[k] == '+' || text_[k] == '-')) ++k;
      if (k < text_.size() && is_digit(text_[k])) {
        is_decimal_float = true;
        for (i = k; i < text_.size() && is_digit(text_[i]);) ++i;
      }
    }
    if (is_decimal_float) {
      double value = 0;
      const char* first = text_.data() + at_;
      const auto parsed = std::from_chars(first, text_.data() + i, value);
      if (parsed.ec != std::errc() || parsed.ptr != text_.data() + i)
        return bad(token, i, "a floating point number out of range");
      if (i < text_.size() && is_name_char(text_[i])) return bad(token, i + 1, "a number runs into a name");
      token.kind = TokenKind::kFloat;
      token.is_double = true;
      token.bits = std::bit_cast<uint64_t>(value);
      token.end = i;
      token.text = text_.substr(at_, i - at_);
      at_ = i;
      return token;
    }
    while (i < text_.size() && is_name_char(text_[i])) ++i;  // suffix U; anything else is refused below
  }
  token.end = i;
  token.text = text_.substr(at_, i - at_);
  std::string_view digits = token.text;
  if (is_prefixed && (second == 'f' || second == 'F' || second == 'd' || second == 'D')) {
    token.is_double = second == 'd' || second == 'D';
    if (digits.size() != (token.is_double ? 18u : 10u) || !digits_value(digits.substr(2), 16, &token.bits))
      return bad(token, i, "0f takes 8 and 0d takes 16 hexadecimal digits");
    token.kind = TokenKind::kFloat;
    at_ = i;
    return token;
  }
  if (digits.size() > 1 && digits.back() == 'U') digits.remove_suffix(1);
  bool is_valid = false;
  if (is_prefixed && (second == 'x' || second == 'X'))
    is_valid = digits_value(digits.substr(2), 16, &token.bits);
  else if (is_prefixed && (second == 'b' || second == 'B'))
    is_valid = digits_value(digits.substr(2), 2, &token.bits);
  else if (digits.size() > 1 && digits[0] == '0')
    is_valid = digits_value(digits, 8, &token.bits);
  else
    is_valid = digits_value(digits, 10, &token.bits);
  if (!is_valid) return bad(token, i, "not a number of at most 64 bits");
  token.kind = TokenKind::kInteger;
  at_ = i;
  return token;
}

Token Lexer::next() {
  Token token;
  const bool closed = blanks_end(text_, &at_, &line_);
  token.line = line_;
  token.begin = token.end = at_;
  if (!closed) return bad(token, at_ + 2, "a comment is not closed");
  if (at_ >= text_.size()) return token;

  const char c = text_[at_];
  const char second = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
  if (is_digit(c)) return number(token);

  size_t i = at_ + 1;
  if (is_letter(c) || c == '_' || c == '$' || (c == '%' && is_name_char(second))) {
    while (i < text_.size() && is_name_char(text_[i])) ++i;
    token.kind = TokenKind::kWord;
  } else if (c == '.' && is_name_char(second)) {
    for (;;) {
      while (i < text_.size() && is_name_char(text_[i])) ++i;
      if (i + 2 < text_.size() && text_[i] == ':' && text_[i + 1] == ':' && is_name_char(text_[i + 2]))
        i += 2;
      else
        break;
    }
    token.kind = TokenKind::kDotWord;
  } else if (c == '"') {
    while (i < text_.size() && text_[i] != '"' && text_[i] != '\n')
      i += text_[i] == '\\' && i + 1 < text_.size() && text_[i + 1] != '\n' ? 2 : 1;
    if (i >= text_.size() || text_[i] != '"') return bad(token, i, "a string is not closed on its line");
    token.kind = TokenKind::kString;
    token.text = text_.substr(at_ + 1, i - at_ - 1);
    at_ = token.end = i + 1;
    return token;
  } else if (std::string_view("{}()[]<>,;:=+-*/%&|^~!?@.").find(c) != std::string_view::npos) {
    token.kind = TokenKind::kPunct;
  } else {
    return bad(token, at_ + 1, "a character that PTX does not use");
  }
  token.end = i;
  token.text = text_.substr(at_, i - at_);
  at_ = i;
  return token;
}

std::string show(const Token& token) {
  if (token.kind == TokenKind::kEnd) return "end of text";
  constexpr size_t kLongest = 40;
  std::string shown = "'";
  for (const char c : token.text.substr(0, kLongest)) shown += c >= ' ' && c <= '~' ? c : '?';
  shown += token.text.size() > kLongest ? "...'" : "'";
  return shown;
}

std::string quoted(std::string_view name) { return std::string("'").append(name).append("'"); }

std::string fold(std::string_view text) {
  std::string folded;
  folded.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const size_t before = i;
    int32_t lines = 0;
    if (!blanks_end(text, &i, &lines)) break;
    if (i > before) {
      if (!folded.empty() && i < text.size()) folded += ' ';
    } else {
      folded += text[i++];
    }
  }
  return folded;
}

}  // namespace stepbench::ptx
