// The only user of the Mustache library (kainjow). Partials and lambdas, whose results the library would read as
// templates again, are not offered: what a candidate calls itself is never read as one.
#include "scoring/board_template.h"

#include <fmt/format.h>

#include <cstdio>
#include <kainjow/mustache.hpp>
#include <set>

#include "harness/result.h"
#include "scoring/board_text.h"

namespace stepbench {
namespace {

namespace mustache = kainjow::mustache;

[[noreturn]] void fail(const std::string& name, const std::string& what) {
  fmt::print(stderr, "board template {}: {}\n", name, what);
  SB_ASSERT(false);
  std::abort();
}

/// Names in three braces.
std::set<std::string> raw_names(std::string_view text) {
  std::set<std::string> names;
  for (size_t at = text.find("{{{"); at != std::string_view::npos; at = text.find("{{{", at + 3)) {
    const size_t end = text.find("}}}", at);
    if (end != std::string_view::npos) names.emplace(text.substr(at + 3, end - at - 3));
  }
  return names;
}

/// The library's context shows nothing for a name that has no value; this one stops.
class StrictContext : public mustache::context<std::string> {
 public:
  StrictContext(const mustache::data* data, const std::string& name)
      : mustache::context<std::string>(data), name_(name) {}
  const mustache::data* get(const std::string& name) const override {
    const mustache::data* found = mustache::context<std::string>::get(name);
    if (!found) fail(name_, "no value for " + name);
    return found;
  }

 private:
  const std::string& name_;
};

}  // namespace

View& View::text(std::string name, std::string value) {
  values.emplace_back(std::move(name), std::move(value));
  return *this;
}

View& View::markup(std::string name, std::string html) {
  values.emplace_back(std::move(name), Markup{std::move(html)});
  return *this;
}

View& View::flag(std::string name, bool value) {
  values.emplace_back(std::move(name), value);
  return *this;
}

View& View::list(std::string name, std::vector<View> rows) {
  values.emplace_back(std::move(name), std::move(rows));
  return *this;
}

struct Template::Parsed {
  std::string name;
  std::set<std::string> raw;
  mutable mustache::mustache tree;  // rendering is const in effect, but not in the library's signatures

  Parsed(std::string of, std::string_view text) : name(std::move(of)), raw(raw_names(text)), tree(std::string(text)) {}

  mustache::data data_of(const View& view) const {
    mustache::data data;
    for (const auto& [key, value] : view.values) {
      if (const auto* text = std::get_if<std::string>(&value)) {
        if (raw.count(key)) fail(name, key + " is text, but stands in three braces");
        data[key] = mustache::data(*text);
      } else if (const auto* markup = std::get_if<Markup>(&value)) {
        if (!raw.count(key)) fail(name, key + " is markup, but does not stand in three braces");
        data[key] = mustache::data(markup->html);
      } else if (const auto* flag = std::get_if<bool>(&value)) {
        data[key] = mustache::data(*flag);
      } else {
        mustache::data list(mustache::data::type::list);
        for (const View& row : std::get<std::vector<View>>(value)) list.push_back(data_of(row));
        data[key] = std::move(list);
      }
    }
    return data;
  }
};

Template::Template(std::string name, std::string_view text) : parsed_(std::make_unique<Parsed>(std::move(name), text)) {
  if (!parsed_->tree.is_valid()) fail(parsed_->name, parsed_->tree.error_message());
  parsed_->tree.set_custom_escape([](const std::string& value) { return html_text(value); });
}

Template::~Template() = default;
Template::Template(Template&&) noexcept = default;

std::string Template::render(const View& view) const {
  const mustache::data data = parsed_->data_of(view);
  StrictContext context(&data, parsed_->name);
  std::ostringstream page;
  parsed_->tree.render(context, page);
  if (!parsed_->tree.is_valid()) fail(parsed_->name, parsed_->tree.error_message());
  return page.str();
}

}  // namespace stepbench
