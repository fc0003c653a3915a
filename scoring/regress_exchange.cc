// The forms that programs read: JUnit XML, SARIF, JSON.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "harness/stages.h"
#include "scoring/board_text.h"
#include "scoring/regress_render.h"

namespace stepbench {
namespace {

using nlohmann::ordered_json;

constexpr int kRegressVersion = 1;  // of the JSON form: fields are added, never renamed

// ---------------------------------------------------------------------------------------------- JUnit

/// Text for an attribute or an element. What XML 1.0 (section 2.2) does not allow, not even as a reference, becomes
/// U+FFFD; line ends are references, because an attribute's would become spaces.
std::string xml_text(const std::string& text) {
  const std::string valid = valid_utf8(text);
  std::string escaped;
  for (size_t i = 0; i < valid.size(); ++i) {
    const char c = valid[i];
    switch (c) {
      case '&': escaped += "&amp;"; continue;
      case '<': escaped += "&lt;"; continue;
      case '>': escaped += "&gt;"; continue;  // "]]>" may not stand in text
      case '"': escaped += "&quot;"; continue;
      case '\'': escaped += "&apos;"; continue;
      case '\n': escaped += "&#10;"; continue;
      case '\t': escaped += "&#9;"; continue;
      case '\r': escaped += "&#13;"; continue;
      default: break;
    }
    const std::string_view rest = std::string_view(valid).substr(i);
    if (static_cast<unsigned char>(c) < 0x20) {
      escaped += "\xEF\xBF\xBD";
    } else if (rest.starts_with("\xEF\xBF\xBE") || rest.starts_with("\xEF\xBF\xBF")) {  // U+FFFE, U+FFFF
      escaped += "\xEF\xBF\xBD";
      i += 2;
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string sentence(const RegressFinding& finding) {
  return finding.subject.empty() ? finding.message : finding.subject + ": " + finding.message;
}

/// One test case; counts what it is.
struct JUnitCounts {
  size_t tests = 0, failures = 0, errors = 0, skipped = 0;
};

std::string junit_case(const CandidateComparison& candidate, Aspect aspect, JUnitCounts& counts) {
  std::vector<const RegressFinding*> worse, skipped, others;
  for (const RegressFinding& finding : candidate.findings) {
    if (finding.aspect != aspect) continue;
    (finding.change == Change::kWorse         ? worse
     : finding.change == Change::kNotCompared ? skipped
                                              : others)
        .push_back(&finding);
  }
  if (worse.empty() && skipped.empty() && others.empty()) return "";
  ++counts.tests;
  std::string text =
      fmt::format("    <testcase classname=\"{}\" name=\"{}\" file=\"{}\" time=\"0\">\n", xml_text(candidate.task),
                  xml_text(fmt::format("{} {}", candidate.name, to_text(aspect))), xml_text(candidate.path));
  const auto joined = [](const std::vector<const RegressFinding*>& findings) {
    std::string lines;
    for (const RegressFinding* finding : findings)
      lines += fmt::format("{}{}", lines.empty() ? "" : "\n", sentence(*finding));
    return lines;
  };
  const bool not_judged = aspect == Aspect::kVerdict && candidate.new_verdict == Verdict::kHarnessError;
  if (!worse.empty()) {
    ++counts.failures;
    std::string body = joined(worse);
    if (!candidate.replay_command.empty()) body += "\nreplay: " + candidate.replay_command;
    text += fmt::format("      <failure type=\"{}\" message=\"{}\">{}</failure>\n", to_text(aspect),
                        xml_text(sentence(*worse[0])), xml_text(body));
  } else if (not_judged) {
    ++counts.errors;
    text += fmt::format("      <error type=\"harness_error\" message=\"{}\"/>\n",
                        xml_text(joined(skipped.empty() ? others : skipped)));
  } else if (!skipped.empty() && others.empty()) {
    ++counts.skipped;
    text += fmt::format("      <skipped message=\"{}\"/>\n", xml_text(joined(skipped)));
  }
  std::vector<const RegressFinding*> remarks = others;
  if (!worse.empty() || !others.empty()) remarks.insert(remarks.end(), skipped.begin(), skipped.end());
  if (!remarks.empty() && !not_judged)
    text += fmt::format("      <system-out>{}</system-out>\n", xml_text(joined(remarks)));
  return text + "    </testcase>\n";
}

// ---------------------------------------------------------------------------------------------- SARIF

/// Path -> URI reference (RFC 3986): all but unreserved characters and "/" as percent codes; an absolute path gets the
/// file scheme. A colon is encoded too, so that no path looks like a scheme.
std::string uri_of(const std::string& path) {
  std::string_view rest = path;
  while (rest.starts_with("./")) rest.remove_prefix(2);
  std::string uri = rest.starts_with("/") ? "file://" : "";
  for (const char c : rest) {
    const bool unreserved = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                            c == '.' || c == '_' || c == '~' || c == '/';
    uri += unreserved ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return uri;
}

constexpr const char* kRuleTexts[kAspectCount] = {
    "A candidate that passed does not pass any more",
    "A candidate's worst error has grown",
    "A candidate drifts further from the oracle over many steps",
    "A candidate has become slower against the same baseline",
    "A candidate spills more registers or moves more bytes",
};

std::string rule_id(Aspect aspect) { return fmt::format("regression/{}", to_text(aspect)); }

ordered_json sarif_result(const CandidateComparison& candidate, const RegressFinding& finding) {
  const std::string identity =
      fmt::format("{}\n{}\n{}\n{}", candidate.task, candidate.name, to_text(finding.aspect), finding.subject);
  ordered_json location;
  location["artifactLocation"]["uri"] = uri_of(valid_utf8(candidate.path));
  location["region"]["startLine"] = candidate.line;
  std::string message = sentence(finding);
  if (!candidate.replay_command.empty()) message += ". Replay: " + candidate.replay_command;
  ordered_json result;
  result["ruleId"] = rule_id(finding.aspect);
  result["ruleIndex"] = static_cast<int>(finding.aspect);
  result["kind"] = "fail";
  result["level"] = "error";
  result["message"]["text"] = valid_utf8(message);
  result["locations"] = ordered_json::array({{{"physicalLocation", location}}});
  result["partialFingerprints"]["stepbenchRegress/v1"] = sha256_hex(identity);
  return result;
}

// ---------------------------------------------------------------------------------------------- JSON

ordered_json number(const std::optional<double>& value) {
  if (!value) return nullptr;
  if (std::isnan(*value)) return "nan";
  if (std::isinf(*value)) return *value > 0 ? "inf" : "-inf";
  return *value;
}

ordered_json text_or_null(const std::optional<Verdict>& verdict) {
  if (!verdict) return nullptr;
  return std::string(to_text(*verdict));
}

const char* text_of(Presence presence) {
  switch (presence) {
    case Presence::kBoth: return "both";
    case Presence::kMissing: return "missing";
    case Presence::kAdded: return "added";
  }
  SB_ASSERT(false);
  return "";
}

ordered_json json_of(const RegressFinding& finding) {
  ordered_json json;
  json["aspect"] = to_text(finding.aspect);
  json["change"] = to_text(finding.change);
  json["subject"] = valid_utf8(finding.subject);
  json["message"] = valid_utf8(finding.message);
  json["before"] = number(finding.before);
  json["after"] = number(finding.after);
  json["ratio_low"] = number(finding.low);
  json["ratio_high"] = number(finding.high);
  return json;
}

ordered_json json_of(const CandidateComparison& candidate) {
  ordered_json json;
  json["task"] = valid_utf8(candidate.task);
  json["name"] = valid_utf8(candidate.name);
  json["path"] = valid_utf8(candidate.path);
  json["line"] = candidate.line;
  json["presence"] = text_of(candidate.presence);
  json["old_id"] = candidate.old_id;
  json["new_id"] = candidate.new_id;
  json["old_verdict"] = text_or_null(candidate.old_verdict);
  json["new_verdict"] = text_or_null(candidate.new_verdict);
  json["source_changed"] = candidate.source_changed;
  json["replay_command"] = valid_utf8(candidate.replay_command);
  json["findings"] = ordered_json::array();
  for (const RegressFinding& finding : candidate.findings) json["findings"].push_back(json_of(finding));
  return json;
}

}  // namespace

std::string render_regress_junit(const RegressReport& report) {
  std::map<std::string, std::pair<std::string, JUnitCounts>> suites;  // by task
  JUnitCounts all;
  for (const CandidateComparison& candidate : report.candidates) {
    auto& [cases, counts] = suites[candidate.task];
    for (int i = 0; i < kAspectCount; ++i) cases += junit_case(candidate, static_cast<Aspect>(i), counts);
  }
  std::string body;
  for (const auto& [task, suite] : suites) {
    const auto& [cases, counts] = suite;
    body += fmt::format(
        "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"0\">\n{}"
        "  </testsuite>\n",
        xml_text(task), counts.tests, counts.failures, counts.errors, counts.skipped, cases);
    all.tests += counts.tests;
    all.failures += counts.failures;
    all.errors += counts.errors;
    all.skipped += counts.skipped;
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuites name=\"stepbench regress\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" "
      "time=\"0\">\n{}</testsuites>\n",
      all.tests, all.failures, all.errors, all.skipped, body);
}

std::string render_regress_sarif(const RegressReport& report) {
  ordered_json driver;
  driver["name"] = "stepbench regress";
  driver["version"] = STEPBENCH_VERSION;
  driver["rules"] = ordered_json::array();
  for (int i = 0; i < kAspectCount; ++i) {
    ordered_json rule;
    rule["id"] = rule_id(static_cast<Aspect>(i));
    rule["shortDescription"]["text"] = kRuleTexts[i];
    rule["defaultConfiguration"]["level"] = "error";
    driver["rules"].push_back(rule);
  }
  ordered_json results = ordered_json::array(), notifications = ordered_json::array();
  const auto notify = [&](const std::string& text) {
    notifications.push_back({{"level", "note"}, {"message", {{"text", valid_utf8(text)}}}});
  };
  for (const EnvironmentDifference& difference : report.environment)
    notify(fmt::format("{}: {}, was {}", difference.field, difference.after, difference.before));
  for (const CandidateComparison& candidate : report.candidates)
    for (const RegressFinding& finding : candidate.findings) {
      if (finding.change == Change::kWorse) results.push_back(sarif_result(candidate, finding));
      if (finding.change == Change::kNotCompared)
        notify(fmt::format("{} {}: {} not compared: {}", candidate.task, candidate.name, to_text(finding.aspect),
                           sentence(finding)));
    }
  ordered_json run;
  run["tool"]["driver"] = driver;
  run["invocations"] =
      ordered_json::array({{{"executionSuccessful", true}, {"toolExecutionNotifications", notifications}}});
  run["results"] = results;
  ordered_json log;
  log["$schema"] = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";
  log["version"] = "2.1.0";
  log["runs"] = ordered_json::array({run});
  return log.dump(1) + "\n";
}

std::string render_regress_json(const RegressReport& report) {
  ordered_json json;
  json["regress_version"] = kRegressVersion;
  json["tolerance_ratio"] = report.rule.tolerance_ratio;
  json["error_factor"] = report.rule.error_factor;
  json["noticeable_share"] = report.rule.noticeable_share;
  json["require_all"] = report.rule.require_all;
  json["matched"] = report.matched;
  json["missing"] = report.missing;
  json["added"] = report.added;
  json["not_judged"] = report.not_judged;
  for (int i = 0; i < kChangeCount; ++i)
    json["counts"][std::string(to_text(static_cast<Change>(i)))] = report.counts[i];
  json["environment"] = ordered_json::array();
  for (const EnvironmentDifference& difference : report.environment)
    json["environment"].push_back({{"field", difference.field},
                                   {"before", valid_utf8(difference.before)},
                                   {"after", valid_utf8(difference.after)},
                                   {"candidates", difference.candidates},
                                   {"consequence", difference.consequence}});
  json["candidates"] = ordered_json::array();
  for (const CandidateComparison& candidate : report.candidates) json["candidates"].push_back(json_of(candidate));
  return json.dump(1) + "\n";
}

}  // namespace stepbench
