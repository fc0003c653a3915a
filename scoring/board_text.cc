// Escaping. Unicode's classes of characters are listed by hand, each with its reason: the board needs a few dozen of
// them, and no library's opinion of what is printable.
#include "scoring/board_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/stages.h"

namespace stepbench {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

struct CodePointRange {
  char32_t first, last;
  const char* name;
};

/// Never of use in a name or a message, and always able to deceive.
constexpr CodePointRange kMarkedEverywhere[] = {
    {0x0000, 0x0008, "control character"},
    {0x000B, 0x001F, "control character"},
    {0x007F, 0x009F, "control character"},
    {0x00AD, 0x00AD, "soft hyphen"},
    {0x034F, 0x034F, "combining grapheme joiner"},
    {0x115F, 0x1160, "blank Hangul filler"},
    {0x17B4, 0x17B5, "invisible Khmer vowel"},
    {0x180B, 0x180F, "Mongolian variation selector"},
    {0x200B, 0x200B, "zero-width space"},
    {0x2028, 0x2029, "line or paragraph separator"},
    {0x202A, 0x202E, "override of the writing direction"},
    {0x2060, 0x2065, "invisible operator"},
    {0x2066, 0x2069, "isolate of the writing direction"},
    {0x206A, 0x206F, "deprecated format character"},
    {0x2800, 0x2800, "blank Braille pattern"},
    {0x3164, 0x3164, "blank Hangul filler"},
    {0xFEFF, 0xFEFF, "zero-width no-break space"},
    {0xFFA0, 0xFFA0, "blank Hangul filler"},
    {0xFFF0, 0xFFFB, "annotation or reserved character"},
    {0x1BCA0, 0x1BCA3, "shorthand format control"},
    {0x1D173, 0x1D17A, "musical format control"},
    {0xE0000, 0xE0FFF, "tag character"},
};

/// Needed to write some languages and emoji, but not to write CUDA.
constexpr CodePointRange kMarkedInSource[] = {
    {0x061C, 0x061C, "Arabic letter mark"},
    {0x200C, 0x200D, "zero-width joiner or non-joiner"},
    {0x200E, 0x200F, "mark of the writing direction"},
    {0xFE00, 0xFE0F, "variation selector"},
};

template <size_t kCount>
const char* find_name(const CodePointRange (&ranges)[kCount], char32_t c) {
  for (const CodePointRange& range : ranges)
    if (c >= range.first && c <= range.last) return range.name;
  return nullptr;
}

void append_utf8(std::string& text, char32_t c) {
  const auto add = [&](char32_t byte) { text += static_cast<char>(static_cast<unsigned char>(byte)); };
  if (c < 0x80) {
    add(c);
  } else if (c < 0x800) {
    add(0xC0 | c >> 6);
    add(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    add(0xE0 | c >> 12);
    add(0x80 | (c >> 6 & 0x3F));
    add(0x80 | (c & 0x3F));
  } else {
    add(0xF0 | c >> 18);
    add(0x80 | (c >> 12 & 0x3F));
    add(0x80 | (c >> 6 & 0x3F));
    add(0x80 | (c & 0x3F));
  }
}

std::string mark(char32_t c) { return fmt::format("[U+{:04X}]", static_cast<uint32_t>(c)); }

/// Reads the code point at `at` and moves `at` behind it. By the table of well-formed sequences of the Unicode
/// Standard (chapter 3, table 3-7): no overlong forms, no surrogates.
char32_t next_code_point(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) -> uint32_t {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;  // 0 is no continuation byte
  };
  const uint32_t first = byte(at++);
  if (first < 0x80) return first;
  const int more = first >= 0xC2 && first <= 0xDF   ? 1
                   : first >= 0xE0 && first <= 0xEF ? 2
                   : first >= 0xF0 && first <= 0xF4 ? 3
                                                    : 0;
  if (more == 0) return kReplacement;
  const uint32_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const uint32_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (byte(at) < low || byte(at) > high) return kReplacement;
  char32_t c = first & (0x3Fu >> more);
  for (int i = 0; i < more; ++i) {
    const uint32_t next = byte(at + static_cast<size_t>(i));
    if (next < 0x80 || next > 0xBF) return kReplacement;
    c = c << 6 | (next & 0x3F);
  }
  at += static_cast<size_t>(more);
  return c;
}

bool append_html_character(std::string& html, char32_t c) {
  switch (c) {
    case '&': html += "&amp;"; return true;
    case '<': html += "&lt;"; return true;
    case '>': html += "&gt;"; return true;
    case '"': html += "&quot;"; return true;
    case '\'': html += "&#39;"; return true;
    case '`': html += "&#96;"; return true;  // old browsers took it for a quote around attributes
    default: return false;
  }
}

}  // namespace

std::vector<char32_t> code_points(std::string_view text) {
  std::vector<char32_t> points;
  points.reserve(text.size());
  for (size_t at = 0; at < text.size();) points.push_back(next_code_point(text, at));
  return points;
}

std::string html_text(std::string_view text) {
  std::string html;
  html.reserve(text.size() + text.size() / 8);
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    if (append_html_character(html, c)) continue;
    if (find_name(kMarkedEverywhere, c)) {
      html += mark(c);
    } else {
      append_utf8(html, c);
    }
  }
  return html;
}

std::string visible_text(std::string_view text) {
  std::string visible;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    if (find_name(kMarkedEverywhere, c))
      visible += mark(c);
    else
      append_utf8(visible, c);
  }
  return visible;
}

std::string html_source(std::string_view line) {
  std::string html;
  html.reserve(line.size() + line.size() / 8);
  for (size_t at = 0; at < line.size();) {
    const char32_t c = next_code_point(line, at);
    if (append_html_character(html, c)) continue;
    const char* name = find_name(kMarkedEverywhere, c);
    if (!name) name = find_name(kMarkedInSource, c);
    if (name) {
      html += fmt::format("<b class=\"mark\" title=\"{}\">{}</b>", name, mark(c));
    } else {
      append_utf8(html, c);
    }
  }
  return html;
}

std::string valid_utf8(std::string_view text) {
  std::string valid;
  for (size_t at = 0; at < text.size();) append_utf8(valid, next_code_point(text, at));
  return valid;
}

std::string csv_field(std::string_view text) {
  std::string field;
  bool needs_quotes = false;
  bool is_first = true;
  for (size_t at = 0; at < text.size(); is_first = false) {
    const char32_t c = next_code_point(text, at);
    // What starts a formula in Excel, LibreOffice or Google Sheets, by OWASP's page on CSV injection; the wide forms
    // are taken for the narrow ones under East Asian settings. Spaces in front are skipped by some.
    const bool starts_formula = c == '=' || c == '+' || c == '-' || c == '@' || c == '\t' || c == '\r' || c == '\n' ||
                                c == ' ' || c == 0xFF1D || c == 0xFF0B || c == 0xFF0D || c == 0xFF20;
    if (is_first && starts_formula) field += '\'';
    if (c == ',' || c == '"' || c == '\n' || c == ';' || c == '\t') needs_quotes = true;
    if (c == '"') field += '"';
    if (find_name(kMarkedEverywhere, c)) {
      field += mark(c);
    } else {
      append_utf8(field, c);
    }
  }
  return needs_quotes ? fmt::format("\"{}\"", field) : field;
}

std::string markdown_cell(std::string_view text) {
  constexpr std::u32string_view kMarkup = U"\\`*_[]()|~$@#:";
  std::string cell;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    if (c == '\n' || c == '\t') {
      cell += ' ';
    } else if (c == '&' || c == '<' || c == '>') {
      append_html_character(cell, c);
    } else if (find_name(kMarkedEverywhere, c)) {
      cell += fmt::format("\\[U+{:04X}\\]", static_cast<uint32_t>(c));
    } else {
      if (kMarkup.find(c) != std::u32string_view::npos) cell += '\\';
      append_utf8(cell, c);
    }
  }
  return cell;
}

std::string shortened(std::string_view text, size_t limit) {
  SB_ASSERT(limit >= 1);
  std::string result;
  size_t count = 0;
  for (size_t at = 0; at < text.size(); ++count) {
    const size_t before = at;
    const char32_t c = next_code_point(text, at);
    if (count + 1 == limit && at < text.size()) return result + "…";
    if (c == '\n' || c == '\r' || c == '\t') {
      result += ' ';
    } else {
      result += text.substr(before, at - before);
    }
  }
  return result;
}

std::string page_name(std::string_view text) {
  constexpr size_t kLongest = 64;
  const auto is_plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-'; };
  if (!text.empty() && text.size() <= kLongest && text[0] != '-' && !text.starts_with("x-") &&
      std::all_of(text.begin(), text.end(), is_plain))
    return std::string(text);
  return fmt::format("x-{}", sha256_hex(text).substr(0, 32));
}

}  // namespace stepbench
