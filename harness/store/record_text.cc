// JSON text as the store keeps it, and rows of small facts as JSON. What a record's fields mean is record.cc's.
#include <fmt/format.h>

#include <cmath>
#include <concepts>
#include <nlohmann/json.hpp>

#include "harness/record.h"
#include "harness/stages.h"
#include "harness/store/columns.h"
#include "harness/store/internal.h"

namespace stepbench {
namespace {

using Json = nlohmann::ordered_json;

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Result<Json> parse_bounded(std::string_view text) {
  if (const Result<void> shallow = check_nesting(text); !shallow.ok()) return shallow.error();
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    return Error{ErrorCode::kInvalidRecord, "not a JSON text", fmt::format("byte {}", error.byte), "a record", ""};
  } catch (const Json::exception& error) {
    return Error{ErrorCode::kInvalidRecord, error.what(), "", "a record", ""};
  }
}

struct JsonColumns {
  Json object = Json::object();
  void operator()(const char* name, const std::string& value) { object[name] = value; }
  void operator()(const char* name, Verdict value) { object[name] = std::string(to_text(value)); }
  void operator()(const char* name, double value) {
    if (std::isfinite(value))
      object[name] = value;
    else
      object[name] = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  }
  template <std::integral T>
  void operator()(const char* name, T value) {
    object[name] = value;
  }
};

}  // namespace

std::string row_to_json(const StoreRow& row) {
  JsonColumns json;
  json("sequence", row.sequence);
  columns(json, row);
  return dump(json.object);
}

Result<std::string> canonical_record_json(std::string_view text) {
  const Result<Json> json = parse_bounded(text);
  if (!json.ok()) return json.error();
  if (!json.value().is_object())
    return Error{ErrorCode::kInvalidRecord, "wrong type", "/", "an object", json.value().type_name()};
  return dump(json.value());
}

Result<std::vector<std::string>> split_json_list(std::string_view text) {
  const Result<Json> json = parse_bounded(text);
  if (!json.ok()) return json.error();
  std::vector<std::string> texts;
  if (!json.value().is_array()) return std::vector<std::string>{std::string(text)};
  for (const Json& member : json.value()) texts.push_back(dump(member));
  return texts;
}

}  // namespace stepbench
