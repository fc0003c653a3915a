// Escaping, by tables: HTML, source, CSV, Markdown, names of files.
#include "scoring/board_text.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>

namespace stepbench {
namespace {

using namespace std::string_literals;

TEST_CASE("text is harmless in elements and attributes") {
  const struct {
    const char* name;
    std::string text, html;
  } rows[] = {
      {"plain", "naive.cu, 4 per thread", "naive.cu, 4 per thread"},
      {"nothing", "", ""},
      {"element", "<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"},
      {"end of an attribute", "\" onmouseover=\"x", "&quot; onmouseover=&quot;x"},
      {"end of an attribute in single quotes", "' x='", "&#39; x=&#39;"},
      {"back quote", "`", "&#96;"},
      {"an entity is text", "&lt;&amp;&#60;", "&amp;lt;&amp;amp;&amp;#60;"},
      {"comment", "<!-- -->", "&lt;!-- --&gt;"},
      {"template marks are text", "{{name}}{{{body}}}", "{{name}}{{{body}}}"},
      {"other writing", "größe 速度 سرعة", "größe 速度 سرعة"},
      {"line feed and tab stay", "a\n\tb", "a\n\tb"},
      {"zero byte", "a\0b"s, "a[U+0000]b"},
      {"carriage return", "a\rb", "a[U+000D]b"},
      {"escape of a terminal", "\x1b[31m", "[U+001B][31m"},
      {"control character above 127", "\xC2\x85", "[U+0085]"},
      {"right-to-left override", "a\u202Eb", "a[U+202E]b"},
      {"isolate", "\u2067x\u2069", "[U+2067]x[U+2069]"},
      {"zero-width space", "ad\u200Bmin", "ad[U+200B]min"},
      {"byte order mark", "\uFEFFx", "[U+FEFF]x"},
      {"line separator", "a\u2028b", "a[U+2028]b"},
      {"tag characters", "\U000E0041", "[U+E0041]"},
      {"blank that looks like nothing", "\u3164", "[U+3164]"},
      {"joiners are needed in names", "می\u200Cخواهم", "می\u200Cخواهم"},
      {"not UTF-8", "a\xFF\xC3", "a\uFFFD\uFFFD"},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    CHECK(html_text(row.text) == row.html);
    CHECK(html_text(visible_text(row.text)) == row.html);
  }
}

// The Unicode Standard, chapter 3, table 3-7: the first and last sequences of each line are well formed, their
// neighbours are not.
TEST_CASE("only well-formed UTF-8 is read as characters") {
  const std::u32string bad = U"\uFFFD", bad2 = bad + bad, bad3 = bad2 + bad, bad4 = bad3 + bad;
  const struct {
    const char* name;
    std::string bytes;
    std::u32string points;
  } rows[] = {
      {"first of one byte", "\0"s, U"\0"s.empty() ? std::u32string() : std::u32string(1, U'\0')},
      {"last of one byte", "\x7F", U"\x7F"},
      {"first of two bytes", "\xC2\x80", U"\u0080"},
      {"last of two bytes", "\xDF\xBF", U"\u07FF"},
      {"overlong two bytes", "\xC1\xBF", bad2},
      {"first of three bytes", "\xE0\xA0\x80", U"\u0800"},
      {"overlong three bytes", "\xE0\x9F\xBF", bad3},
      {"last before the surrogates", "\xED\x9F\xBF", U"\uD7FF"},
      {"surrogate", "\xED\xA0\x80", bad3},
      {"last of three bytes", "\xEF\xBF\xBF", U"\uFFFF"},
      {"first of four bytes", "\xF0\x90\x80\x80", U"\U00010000"},
      {"overlong four bytes", "\xF0\x8F\xBF\xBF", bad4},
      {"last of four bytes", "\xF4\x8F\xBF\xBF", U"\U0010FFFF"},
      {"beyond Unicode", "\xF4\x90\x80\x80", bad4},
      {"five bytes", "\xF8\x88\x80\x80\x80", bad4 + bad},
      {"cut short", "\xE2\x82", bad2},
      {"continuation alone", "\x80", bad},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    const std::vector<char32_t> points = code_points(row.bytes);
    CHECK(std::u32string(points.begin(), points.end()) == row.points);
  }
}

TEST_CASE("source shows what is hidden in it") {
  CHECK(html_source("if (a < b && c)") == "if (a &lt; b &amp;&amp; c)");
  // The trick of Boucher and Anderson, "Trojan Source" (2021): an override makes code look like a comment.
  CHECK(html_source("/*\u202E } */") ==
        "/*<b class=\"mark\" title=\"override of the writing direction\">[U+202E]</b> } */");
  CHECK(html_source("a\u200Db") == "a<b class=\"mark\" title=\"zero-width joiner or non-joiner\">[U+200D]</b>b");
  CHECK(html_source("\tx") == "\tx");
}

TEST_CASE("a field of CSV is no formula and one field") {
  const struct {
    const char* name;
    std::string text, field;
  } rows[] = {
      {"plain", "naive.cu", "naive.cu"},
      {"nothing", "", ""},
      {"comma", "a,b", "\"a,b\""},
      {"quote", "a\"b", "\"a\"\"b\""},
      {"line feed", "a\nb", "\"a\nb\""},
      {"formula", "=1+2", "'=1+2"},
      {"call", "=HYPERLINK(\"http://x\",\"y\")", "\"'=HYPERLINK(\"\"http://x\"\",\"\"y\"\")\""},
      {"plus", "+1", "'+1"},
      {"minus", "-1", "'-1"},
      {"at", "@SUM(A1)", "'@SUM(A1)"},
      {"tab in front", "\t=1", "\"'\t=1\""},
      {"space in front", " =1", "' =1"},
      {"carriage return in front", "\r=1", "'[U+000D]=1"},
      {"wide equals sign", "\uFF1D1", "'\uFF1D1"},
      {"equals sign inside", "a=b", "a=b"},
      {"zero byte", "a\0b"s, "a[U+0000]b"},
      {"semicolon", "a;b", "\"a;b\""},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    CHECK(csv_field(row.text) == row.field);
  }
}

TEST_CASE("a cell of Markdown is one cell and no markup") {
  const struct {
    const char* name;
    std::string text, cell;
  } rows[] = {
      {"plain", "naive", "naive"},          {"bar", "a|b", "a\\|b"},
      {"line feed", "a\nb", "a b"},         {"element", "<img src=x>", "&lt;img src=x&gt;"},
      {"link", "[x](y)", "\\[x\\]\\(y\\)"}, {"emphasis", "*a*_b_", "\\*a\\*\\_b\\_"},
      {"code", "`x`", "\\`x\\`"},           {"back slash", "a\\|b", "a\\\\\\|b"},
      {"entity", "&lt;", "&amp;lt;"},       {"override", "\u202Ex", "\\[U+202E\\]x"},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    CHECK(markdown_cell(row.text) == row.cell);
  }
}

TEST_CASE("shortened text is whole characters in one line") {
  CHECK(shortened("naive.cu", 8) == "naive.cu");
  CHECK(shortened("naive.cu", 7) == "naive.…");
  CHECK(shortened("größe", 4) == "grö…");
  CHECK(shortened("abc", 1) == "…");
  CHECK(shortened("a", 1) == "a");
  CHECK(shortened("", 1) == "");
  CHECK(shortened("a\nb\tc\rd", 10) == "a b c d");
  CHECK(code_points(shortened(std::string(10'000, 'x'), 60)).size() == 60);
}

TEST_CASE("names of files are safe, and different for different texts") {
  CHECK(page_name("adamw") == "adamw");
  CHECK(page_name("sgd_momentum-2") == "sgd_momentum-2");
  CHECK(page_name("3f2a9c0d1b7e4f58") == "3f2a9c0d1b7e4f58");
  const std::string awkward[] = {"",
                                 ".",
                                 "..",
                                 "../../etc/passwd",
                                 "a/b",
                                 "A",
                                 "a ",
                                 "a.b",
                                 "x-1",
                                 "a\0b"s,
                                 "-rf",
                                 "ä",
                                 "con\\n",
                                 std::string(65, 'a'),
                                 "a?b#c",
                                 "a%2fb",
                                 "javascript:alert(1)"};
  std::set<std::string> names;
  for (const std::string& text : awkward) {
    const std::string name = page_name(text);
    INFO(text);
    CHECK(name.size() == 34);
    CHECK(name.starts_with("x-"));
    CHECK(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos);
    names.insert(name);
  }
  CHECK(names.size() == std::size(awkward));
}

}  // namespace
}  // namespace stepbench
