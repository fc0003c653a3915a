// The SARIF form against the specification: "Static Analysis Results Interchange Format (SARIF) Version 2.1.0", OASIS
// Standard. For every kind of object that may occur: which properties it may have, which it must have, of what type and
// with which values. A validator of the whole schema is not in the tree; these are its rules for what is written here,
// and what only the text says (section numbers beside them).
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "scoring/regress_render.h"
#include "tests/scoring/records.h"

using namespace stepbench;
using nlohmann::json;

namespace {

/// Type of a property: "string", "uri", "integer", "boolean", "strings" (an object of strings), one of the kinds below,
/// or an array of it with "[]" behind. A text with bars is an enumeration.
struct Kind {
  std::map<std::string, std::string> properties;
  std::set<std::string> required;
};

/// Section 3, as far as this output may go. Properties of the standard that are not listed would be refused here: a new
/// one needs its row.
const std::map<std::string, Kind>& kinds() {
  static const std::string level = "none|note|warning|error";
  static const std::map<std::string, Kind> table = {
      {"sarifLog", {{{"$schema", "uri"}, {"version", "2.1.0"}, {"runs", "run[]"}}, {"version", "runs"}}},  // 3.13
      {"run", {{{"tool", "tool"}, {"invocations", "invocation[]"}, {"results", "result[]"}}, {"tool"}}},   // 3.14
      {"tool", {{{"driver", "toolComponent"}}, {"driver"}}},                                               // 3.18
      {"toolComponent",                                                                                    // 3.19
       {{{"name", "string"}, {"version", "string"}, {"rules", "reportingDescriptor[]"}}, {"name"}}},
      {"reportingDescriptor",  // 3.49
       {{{"id", "string"},
         {"shortDescription", "multiformatMessageString"},
         {"defaultConfiguration", "reportingConfiguration"}},
        {"id"}}},
      {"multiformatMessageString", {{{"text", "string"}, {"markdown", "string"}}, {"text"}}},  // 3.12
      {"reportingConfiguration", {{{"level", level}, {"enabled", "boolean"}}, {}}},            // 3.50
      {"invocation",                                                                           // 3.20
       {{{"executionSuccessful", "boolean"}, {"toolExecutionNotifications", "notification[]"}},
        {"executionSuccessful"}}},
      {"notification", {{{"level", level}, {"message", "message"}}, {"message"}}},        // 3.58
      {"message", {{{"text", "string"}, {"markdown", "string"}, {"id", "string"}}, {}}},  // 3.11
      {"result",                                                                          // 3.27
       {{{"ruleId", "string"},
         {"ruleIndex", "integer"},
         {"kind", "pass|open|informational|notApplicable|review|fail"},
         {"level", level},
         {"message", "message"},
         {"locations", "location[]"},
         {"partialFingerprints", "strings"}},
        {"message"}}},
      {"location", {{{"physicalLocation", "physicalLocation"}}, {}}},                                    // 3.28
      {"physicalLocation", {{{"artifactLocation", "artifactLocation"}, {"region", "region"}}, {}}},      // 3.29
      {"artifactLocation", {{{"uri", "uri"}, {"uriBaseId", "string"}, {"index", "integer"}}, {}}},       // 3.4
      {"region", {{{"startLine", "integer"}, {"endLine", "integer"}, {"startColumn", "integer"}}, {}}},  // 3.30
  };
  return table;
}

/// A URI or relative reference (RFC 3986, section 4.1), by its alphabet and percent codes.
bool is_uri(const std::string& text) {
  static const std::regex rule("([A-Za-z0-9._~:/?#\\[\\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+");
  return std::regex_match(text, rule);
}

/// Breaches of the table, each with the JSON pointer.
std::vector<std::string> breaches(const json& value, const std::string& type, const std::string& at) {
  const auto wrong = [&](const std::string& what) { return std::vector<std::string>{at + ": " + what}; };
  std::vector<std::string> found;
  const auto add = [&](const std::vector<std::string>& more) { found.insert(found.end(), more.begin(), more.end()); };
  if (type.ends_with("[]")) {
    if (!value.is_array()) return wrong("not an array");
    for (size_t i = 0; i < value.size(); ++i)
      add(breaches(value[i], type.substr(0, type.size() - 2), at + "/" + std::to_string(i)));
    return found;
  }
  if (type == "integer") return value.is_number_integer() ? found : wrong("not an integer");
  if (type == "boolean") return value.is_boolean() ? found : wrong("not a boolean");
  if (type == "strings") {
    if (!value.is_object()) return wrong("not an object");
    for (const auto& [name, text] : value.items()) add(breaches(text, "string", at + "/" + name));
    return found;
  }
  const auto kind = kinds().find(type);
  if (kind == kinds().end()) {
    if (!value.is_string()) return wrong("not a string");
    const std::string text = value.get<std::string>();
    if (type == "string") return found;
    if (type == "uri") return is_uri(text) ? found : wrong("not a URI: " + text);
    const std::string bars = "|" + type + "|";
    return bars.find("|" + text + "|") == std::string::npos ? wrong("not one of " + type) : found;
  }
  if (!value.is_object()) return wrong("not an object");
  for (const auto& [name, property] : value.items()) {
    const auto known = kind->second.properties.find(name);
    if (known == kind->second.properties.end())
      add(wrong("no property of " + type + ": " + name));
    else
      add(breaches(property, known->second, at + "/" + name));
  }
  for (const std::string& name : kind->second.required)
    if (!value.contains(name)) add(wrong("lacks " + name));
  return found;
}

/// What the text says beyond the schema.
std::vector<std::string> text_breaches(const json& log) {
  std::vector<std::string> found;
  const auto check = [&](bool right, const std::string& what) {
    if (!right) found.push_back(what);
  };
  for (const json& run : log.at("runs")) {
    const json& rules = run.at("tool").at("driver").at("rules");
    std::set<std::string> ids;
    for (const json& rule : rules) check(ids.insert(rule.at("id")).second, "3.19: rules are unique");
    for (const json& result : run.at("results")) {
      const int index = result.at("ruleIndex");
      check(index >= 0 && static_cast<size_t>(index) < rules.size(), "3.27.6: the index is one of the rules");
      check(rules.at(static_cast<size_t>(index)).at("id") == result.at("ruleId"), "3.27.5: id and index agree");
      check(result.at("kind") == "fail" || result.at("level") == "none", "3.27.10: only a failure has a level");
      check(!result.at("message").value("text", "").empty(), "3.11: a message has a text or an id");
      for (const json& location : result.at("locations")) {
        const json& place = location.at("physicalLocation");
        check(place.contains("artifactLocation"), "3.29: an address or an artifact");
        check(place.at("region").at("startLine").get<int64_t>() >= 1, "3.30: lines count from 1");
        const std::string uri = place.at("artifactLocation").at("uri");
        check(!uri.starts_with("/"), "3.4: an absolute path is a file URI");
      }
    }
    for (const json& invocation : run.at("invocations"))
      for (const json& notification : invocation.at("toolExecutionNotifications"))
        check(!notification.at("message").value("text", "").empty(), "3.11: a message has a text or an id");
  }
  return found;
}

json log_of(const std::string& path, const std::string& message) {
  const EvalRecord before = test::passed_record("adamw", path);
  EvalRecord wrong = before, unjudged = test::passed_record("lion", path);
  const EvalRecord judged = unjudged;
  for (EvalRecord* record : {&wrong, &unjudged}) {
    record->verdict = record == &wrong ? Verdict::kWrongResult : Verdict::kHarnessError;
    record->failure = Failure{};
    record->failure->verdict = record->verdict;
    record->failure->check = "edges";
    record->failure->message = message;
    record->environment.driver = "590.10";
  }
  const std::vector<EvalRecord> old_side = {before, judged}, new_side = {wrong, unjudged};
  return json::parse(render_regress_sarif(compare_records(old_side, new_side, {})));
}

}  // namespace

TEST_CASE("SARIF: every object has what the standard asks for and nothing that it does not know") {
  for (const char* path : {"k/wrong.cu", "/abs/wrong.cu", "./a b/\xC3\xA4.cu", "c:\\wrong.cu", "\xFF\xFE.cu"}) {
    for (const char* message : {"param differs", "", "line\nbreak \x01 \"quotes\" \xFF"}) {
      INFO(path << ", " << message);
      const json log = log_of(path, message);
      REQUIRE(log.at("runs").at(0).at("results").size() == 1);
      REQUIRE(log.at("runs").at(0).at("invocations").at(0).at("toolExecutionNotifications").size() >= 2);
      CHECK(breaches(log, "sarifLog", "") == std::vector<std::string>());
      CHECK(text_breaches(log) == std::vector<std::string>());
    }
  }
  const EvalRecord record = test::passed_record("adamw", "a.cu");
  const json nothing = json::parse(render_regress_sarif(compare_records({&record, 1}, {&record, 1}, {})));
  CHECK(breaches(nothing, "sarifLog", "") == std::vector<std::string>());
  CHECK(nothing.at("runs").at(0).at("results").is_array());  // 3.14: an empty list says that nothing was found
}

TEST_CASE("SARIF: what breaks the rules is found") {
  const json good = log_of("k/wrong.cu", "param differs");
  const struct {
    const char* name;
    std::function<void(json&)> spoil;
    const char* breach;
  } rows[] = {
      {"another version", [](json& log) { log["version"] = "2.0.0"; }, "/version: not one of"},
      {"no runs", [](json& log) { log.erase("runs"); }, ": lacks runs"},
      {"a property of nobody", [](json& log) { log["runs"][0]["rulez"] = 1; }, "no property of run: rulez"},
      {"no tool name", [](json& log) { log["runs"][0]["tool"]["driver"].erase("name"); }, "driver: lacks name"},
      {"a number for a text", [](json& log) { log["runs"][0]["results"][0]["message"]["text"] = 7; }, "not a string"},
      {"a level of another tool", [](json& log) { log["runs"][0]["results"][0]["level"] = "fatal"; },
       "not one of none"},
      {"a path with a blank",
       [](json& log) {
         log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] = "a b.cu";
       },
       "not a URI"},
      {"a fraction for a line",
       [](json& log) { log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"] = 1.5; },
       "not an integer"},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    json spoilt = good;
    row.spoil(spoilt);
    const std::vector<std::string> found = breaches(spoilt, "sarifLog", "");
    REQUIRE(found.size() == 1);
    CHECK_THAT(found[0], Catch::Contains(row.breach));
  }
  json line = good;
  line["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"] = 0;
  line["runs"][0]["results"][0]["ruleIndex"] = 1;
  CHECK(text_breaches(line).size() == 2);
}
