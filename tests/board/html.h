// A strict reader of HTML for tests: what it accepts is a small part of what browsers accept, and every character that
// is not where this part has it is an error. Written independently of the escaping that it tests: it takes entities
// apart instead of making them.
#pragma once

#include <cctype>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace stepbench::html {

struct Element {
  std::string tag;
  std::map<std::string, std::string> attributes;
  std::string text;  ///< of this element and all in it, entities resolved
  size_t depth = 0;
};

struct Page {
  std::vector<Element> elements;  ///< in order of their start tags

  std::vector<const Element*> all(const std::string& tag) const {
    std::vector<const Element*> found;
    for (const Element& element : elements)
      if (element.tag == tag) found.push_back(&element);
    return found;
  }
  const Element* by_id(const std::string& id) const {
    for (const Element& element : elements)
      if (element.attributes.count("id") && element.attributes.at("id") == id) return &element;
    return nullptr;
  }
};

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Page read() {
    take("<!doctype html>");
    while (at_ < text_.size()) {
      if (text_[at_] == '<')
        read_tag();
      else
        add_text(read_character());
    }
    if (!open_.empty()) fail("not closed: " + page_.elements[open_.back()].tag);
    return std::move(page_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    const size_t from = at_ < 60 ? 0 : at_ - 60;
    throw std::runtime_error(what + " near: " + std::string(text_.substr(from, 120)));
  }

  void take(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) fail("expected " + std::string(word));
    at_ += word.size();
  }

  static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
  }

  std::string read_name() {
    const size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    if (begin == at_) fail("expected a name");
    return std::string(text_.substr(begin, at_ - begin));
  }

  /// One character, or one entity. "<", ">" and quotes must not stand as they are.
  std::string read_character() {
    static const std::map<std::string, std::string> entities = {{"amp", "&"},   {"lt", "<"},  {"gt", ">"},
                                                                {"quot", "\""}, {"#39", "'"}, {"#96", "`"}};
    const char c = text_[at_];
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7F) fail("a control character");
    if (c == '<' || c == '>') fail("a bare angle bracket");
    ++at_;
    if (c != '&') return std::string(1, c);
    const size_t end = text_.find(';', at_);
    if (end == std::string_view::npos) fail("an entity without an end");
    const auto found = entities.find(std::string(text_.substr(at_, end - at_)));
    if (found == entities.end()) fail("an unknown entity");
    at_ = end + 1;
    return found->second;
  }

  void add_text(const std::string& text) {
    for (const size_t index : open_) page_.elements[index].text += text;
  }

  void read_tag() {
    static const std::set<std::string> without_end = {"meta", "link", "input", "br"};
    take("<");
    if (text_[at_] == '/') {
      ++at_;
      const std::string tag = read_name();
      take(">");
      if (open_.empty() || page_.elements[open_.back()].tag != tag) fail("wrong end tag " + tag);
      open_.pop_back();
      return;
    }
    Element element;
    element.tag = read_name();
    element.depth = open_.size();
    bool is_closed = without_end.count(element.tag) > 0;
    while (text_[at_] != '>') {
      if (text_.substr(at_, 2) == "/>") {
        is_closed = true;
        ++at_;
        break;
      }
      if (text_[at_] == '\n' || text_[at_] == ' ') {
        ++at_;
        continue;
      }
      read_attribute(element);
    }
    take(">");
    page_.elements.push_back(std::move(element));
    if (!is_closed) open_.push_back(page_.elements.size() - 1);
  }

  void read_attribute(Element& element) {
    const std::string name = read_name();
    std::string value;
    if (text_[at_] == '=') {
      take("=\"");
      while (at_ < text_.size() && text_[at_] != '"') value += read_character();
      take("\"");
    }
    if (!element.attributes.emplace(name, value).second) fail("the attribute twice: " + name);
  }

  std::string_view text_;
  size_t at_ = 0;
  Page page_;
  std::vector<size_t> open_;
};

inline Page read(std::string_view text) { return Reader(text).read(); }

}  // namespace stepbench::html
