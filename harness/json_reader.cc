// Reading the JSON files of a task with precise errors. See json_reader.h.
#include "harness/json_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

namespace stepbench {

namespace {

/// Levenshtein distance, two rows.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

/// JSON pointer token (RFC 6901): '~' and '/' are escaped.
std::string pointer_token(std::string_view key) {
  std::string out;
  for (const char c : key) {
    if (c == '~')
      out += "~0";
    else if (c == '/')
      out += "~1";
    else
      out += c;
  }
  return out;
}

}  // namespace

std::string nearest_word(std::string_view word, std::span<const std::string_view> known) {
  std::string_view best;
  size_t best_distance = word.size() / 2 + 2;  // farther than this is no help
  for (const std::string_view candidate : known) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return std::string(best);
}

std::string joined(std::span<const std::string_view> words) { return fmt::format("{}", fmt::join(words, ", ")); }

void JsonReader::fail(std::string message, std::string expected, std::string found) const {
  throw JsonProblem{Error{.code = ErrorCode::kInvalidTask,
                          .message = std::move(message),
                          .place = file_ + " at " + (pointer_.empty() ? "/" : pointer_),
                          .expected = std::move(expected),
                          .found = std::move(found)}};
}

std::string JsonReader::shown() const {
  std::string text = value_->dump(-1, ' ', false, Json::error_handler_t::replace);
  constexpr size_t kLongest = 60;
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

void JsonReader::only_keys(std::span<const std::string_view> known) const {
  if (!value_->is_object()) fail("wrong kind of value", "an object", shown());
  for (const auto& [key, value] : value_->items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string near = nearest_word(key, known);
    fail("unknown key", near.empty() ? "one of " + joined(known) : "perhaps \"" + near + "\"", "\"" + key + "\"");
  }
}

bool JsonReader::has(const char* key) const { return value_->is_object() && value_->contains(key); }

JsonReader JsonReader::at(const char* key) const {
  if (!value_->is_object()) fail("wrong kind of value", "an object", shown());
  const auto it = value_->find(key);
  if (it == value_->end()) fail("a key is missing", std::string("\"") + key + "\"", "no such key");
  return JsonReader(*it, file_, pointer_ + "/" + pointer_token(key));
}

std::vector<JsonReader> JsonReader::items() const {
  if (!value_->is_array()) fail("wrong kind of value", "an array", shown());
  std::vector<JsonReader> out;
  out.reserve(value_->size());
  for (size_t i = 0; i < value_->size(); ++i) out.emplace_back((*value_)[i], file_, pointer_ + "/" + std::to_string(i));
  return out;
}

std::vector<std::pair<std::string, JsonReader>> JsonReader::members() const {
  if (!value_->is_object()) fail("wrong kind of value", "an object", shown());
  std::vector<std::pair<std::string, JsonReader>> out;
  for (const auto& [key, value] : value_->items())
    out.emplace_back(key, JsonReader(value, file_, pointer_ + "/" + pointer_token(key)));
  return out;
}

std::string JsonReader::text() const {
  if (!value_->is_string()) fail("wrong kind of value", "a string", shown());
  return value_->get<std::string>();
}

std::string JsonReader::one_of(std::span<const std::string_view> words) const {
  const std::string word = text();
  if (std::find(words.begin(), words.end(), word) == words.end())
    fail("unknown word", "one of " + joined(words), "\"" + word + "\"");
  return word;
}

double JsonReader::number() const {
  if (!value_->is_number()) fail("wrong kind of value", "a number", shown());
  const double value = value_->get<double>();
  if (!std::isfinite(value)) fail("a number is out of range", "a finite number", shown());
  return value;
}

int64_t JsonReader::integer(int64_t least, int64_t most) const {
  const std::string expected = fmt::format("an integer from {} to {}", least, most);
  if (!value_->is_number_integer()) fail("wrong kind of value", expected, shown());
  // An unsigned number above INT64_MAX would come out negative.
  if (value_->is_number_unsigned() && value_->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
    fail("a number is out of range", expected, shown());
  const int64_t value = value_->get<int64_t>();
  if (value < least || value > most) fail("a number is out of range", expected, shown());
  return value;
}

bool JsonReader::boolean() const {
  if (!value_->is_boolean()) fail("wrong kind of value", "true or false", shown());
  return value_->get<bool>();
}

Result<std::string> read_text_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return Error{.code = ErrorCode::kNotFound,
                 .message = std::string("a file cannot be opened: ") + std::strerror(errno),
                 .place = path,
                 .expected = "",
                 .found = ""};
  }
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad()) {
    return Error{
        .code = ErrorCode::kIo, .message = "a file cannot be read", .place = path, .expected = "", .found = ""};
  }
  return std::move(text).str();
}

nlohmann::ordered_json parse_json(const std::string& file, const std::string& text) {
  using Json = nlohmann::ordered_json;
  // The library keeps both of two equal keys in an ordered object or drops one: either would hide a mistake.
  std::vector<std::set<std::string>> keys;
  std::string duplicate;
  const auto watch = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second && duplicate.empty())
      duplicate = value.get<std::string>();
    return true;
  };
  Json json;
  try {
    json = Json::parse(text, watch);
  } catch (const Json::parse_error& error) {
    // error.byte counts from 1 and points behind the byte that could not be read.
    const size_t end = std::min(text.size(), error.byte == 0 ? size_t{0} : error.byte - 1);
    const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), '\n') + 1;
    const size_t line_start = text.rfind('\n', end == 0 ? 0 : end - 1);
    const size_t column = line_start == std::string::npos || end == 0 ? end + 1 : end - line_start;
    throw JsonProblem{Error{.code = ErrorCode::kInvalidTask,
                            .message = "the file is not JSON",
                            .place = fmt::format("{}:{}:{}", file, line, column),
                            .expected = "",
                            .found = ""}};
  }
  if (!duplicate.empty()) {
    throw JsonProblem{Error{.code = ErrorCode::kInvalidTask,
                            .message = "a key stands twice in one object",
                            .place = file,
                            .expected = "",
                            .found = "\"" + duplicate + "\""}};
  }
  return json;
}

}  // namespace stepbench
