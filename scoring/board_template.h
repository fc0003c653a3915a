// Templates: text with named places -> a page. A thin skin over a Mustache library (the only file that includes it)
// that makes two mistakes impossible: a place without a value stops the program instead of showing nothing, and text
// reaches a page unescaped only when it has the type `Markup` and the template says so too, with three braces.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace stepbench {

/// HTML or SVG that our own functions made out of escaped text.
struct Markup {
  std::string html;
};

/// Values of the named places of one template, or of one row of a list in it.
struct View {
  using Value = std::variant<std::string, Markup, bool, std::vector<View>>;
  std::vector<std::pair<std::string, Value>> values;

  View& text(std::string name, std::string value);
  View& markup(std::string name, std::string html);
  View& flag(std::string name, bool value);
  View& list(std::string name, std::vector<View> rows);
};

/// {{name}} text, escaped by html_text · {{{name}}} markup · {{#name}} .. {{/name}} once per row of a list, or once
/// when a flag is set · {{^name}} .. {{/name}} when the list is empty or the flag is not set. Inside of a list the
/// names of the row come first, then those around it.
class Template {
 public:
  /// `name` is for messages. A template that cannot be read is our own mistake and stops the program.
  Template(std::string name, std::string_view text);
  ~Template();
  Template(Template&&) noexcept;

  std::string render(const View& view) const;

 private:
  struct Parsed;
  std::unique_ptr<Parsed> parsed_;
};

/// A file of scoring/board/ as it was when the program was built. Our own mistake when there is none of this name.
std::string_view board_asset(std::string_view file);

}  // namespace stepbench
