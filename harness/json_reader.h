// Reading the JSON files of a task with precise errors: every complaint names the file, the JSON pointer, what was
// expected and what was found. Private to task.cc, shapes.cc and mutants.cc; it knows no task.
//
// Inside these files a broken input is thrown as JsonProblem and turned into a Result at the file's own border, so
// that reading code stays one line per field. Nothing throws across a header of the harness.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/result.h"

namespace stepbench {

/// Thrown and caught within one .cc file; carries the finished Error.
struct JsonProblem {
  Error error;
};

/// One value of a JSON file together with where it stands.
class JsonReader {
 public:
  using Json = nlohmann::ordered_json;

  JsonReader(const Json& value, std::string file, std::string pointer)
      : value_(&value), file_(std::move(file)), pointer_(std::move(pointer)) {}

  /// An object whose keys are all on the list. Unknown keys are refused with the nearest known one.
  void only_keys(std::span<const std::string_view> known) const;
  void only_keys(std::initializer_list<std::string_view> known) const {
    only_keys(std::span<const std::string_view>(known.begin(), known.size()));
  }
  bool has(const char* key) const;
  JsonReader at(const char* key) const;                             ///< required
  std::vector<JsonReader> items() const;                            ///< of an array
  std::vector<std::pair<std::string, JsonReader>> members() const;  ///< of an object, in file order

  std::string text() const;
  std::string one_of(std::span<const std::string_view> words) const;
  double number() const;  ///< finite
  int64_t integer(int64_t least, int64_t most) const;
  bool boolean() const;
  bool is_array() const { return value_->is_array(); }
  bool is_object() const { return value_->is_object(); }
  bool is_text() const { return value_->is_string(); }

  [[noreturn]] void fail(std::string message, std::string expected = "", std::string found = "") const;
  const std::string& pointer() const { return pointer_; }

 private:
  std::string shown() const;
  const Json* value_;
  std::string file_, pointer_;
};

/// The whole text of a file. kNotFound when it cannot be opened, kIo when it cannot be read.
Result<std::string> read_text_file(const std::string& path);

/// Parses JSON (duplicate keys are refused). Throws JsonProblem with line and column.
nlohmann::ordered_json parse_json(const std::string& file, const std::string& text);

/// The known word with the smallest edit distance; empty when none is near.
std::string nearest_word(std::string_view word, std::span<const std::string_view> known);

/// "a, b, c"
std::string joined(std::span<const std::string_view> words);

}  // namespace stepbench
