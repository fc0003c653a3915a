// A sequence of numbers and byte strings as one byte string: the form of the compile child's request and answer and of
// cache entries. Little endian, each string behind its 8-byte length. Not a file format for users; readers check every
// length and never trust the writer.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stepbench {

class FieldWriter {
 public:
  void number(uint64_t value) {
    char bytes[8];
    for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(value >> (8 * i));
    bytes_.append(bytes, 8);
  }
  void text(std::string_view value) {
    number(value.size());
    bytes_.append(value);
  }
  void texts(const std::vector<std::string>& values) {
    number(values.size());
    for (const std::string& value : values) text(value);
  }
  void pairs(const std::vector<std::pair<std::string, std::string>>& values) {
    number(values.size());
    for (const auto& [first, second] : values) {
      text(first);
      text(second);
    }
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Reads what FieldWriter wrote. After the first field that is not there, every field is empty and ok() is false.
class FieldReader {
 public:
  explicit FieldReader(std::string_view bytes) : rest_(bytes) {}
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && rest_.empty(); }
  std::string_view rest() const { return rest_; }

  uint64_t number() {
    if (!ok_ || rest_.size() < 8) return fail();
    uint64_t value = 0;
    for (size_t i = 0; i < 8; ++i) value |= static_cast<uint64_t>(static_cast<unsigned char>(rest_[i])) << (8 * i);
    rest_.remove_prefix(8);
    return value;
  }
  std::string_view view() {
    const uint64_t size = number();
    if (!ok_ || size > rest_.size()) {
      fail();
      return {};
    }
    const std::string_view value = rest_.substr(0, static_cast<size_t>(size));
    rest_.remove_prefix(static_cast<size_t>(size));
    return value;
  }
  std::string text() { return std::string(view()); }
  std::vector<std::string> texts() {
    std::vector<std::string> values;
    for (uint64_t left = number(); ok_ && left > 0; --left) {
      std::string value = text();
      if (ok_) values.push_back(std::move(value));
    }
    return values;
  }
  std::vector<std::pair<std::string, std::string>> pairs() {
    std::vector<std::pair<std::string, std::string>> values;
    for (uint64_t left = number(); ok_ && left > 0; --left) {
      std::string first = text(), second = text();
      if (ok_) values.emplace_back(std::move(first), std::move(second));
    }
    return values;
  }

 private:
  uint64_t fail() {
    ok_ = false;
    rest_ = {};
    return 0;
  }
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace stepbench
