// The forms of a comparison: what each says of a known one, and what hostile names and messages do to it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "scoring/regress_render.h"
#include "tests/scoring/records.h"

using namespace stepbench;
using nlohmann::json;
using stepbench::test::passed_record;
using stepbench::test::timed_list;

namespace {

/// One regression of a verdict, one of speed, one improvement, one candidate that could not be judged, one missing.
struct Sides {
  std::vector<EvalRecord> before, after;
};

EvalRecord failed(EvalRecord record, Verdict verdict, const std::string& message) {
  record.verdict = verdict;
  record.failure = Failure{};
  record.failure->verdict = verdict;
  record.failure->check = "edges";
  record.failure->case_name = "n1/gaussian/t2";
  record.failure->message = message;
  record.failure->place = record.candidate.path + ":15";
  record.replay_command = "stepbench replay 0123456789abcdef";
  return record;
}

Sides known_sides() {
  Sides sides;
  const auto record = [](const char* task, const std::string& path, double speedup) {
    EvalRecord one = passed_record(task, path);
    one.timing = {timed_list("small", speedup)};
    return one;
  };
  sides.before = {record("adamw", "k/wrong.cu", 1.5), record("adamw", "k/slow.cu", 1.5),
                  record("lion", "k/fast.cu", 1.5), record("lion", "k/lost.cu", 1.5), record("lion", "k/gone.cu", 1.5)};
  sides.after = {failed(record("adamw", "k/wrong.cu", 1.5), Verdict::kWrongResult, "param differs"),
                 record("adamw", "k/slow.cu", 1.4), record("lion", "k/fast.cu", 1.8),
                 failed(record("lion", "k/lost.cu", 1.5), Verdict::kHarnessError, "the driver went away")};
  for (EvalRecord& one : sides.after) one.environment.driver = "590.10";
  return sides;
}

RegressReport known_report() {
  const Sides sides = known_sides();
  return compare_records(sides.before, sides.after, {});
}

/// Names and messages as an attacker would choose them.
RegressReport hostile_report(const std::string& text) {
  EvalRecord before = passed_record("adamw", text), after = failed(before, Verdict::kWrongResult, text);
  after.failure->case_name = text;
  after.replay_command = text;
  before.environment.host = text;
  after.environment.host = text + "2";
  return compare_records({&before, 1}, {&after, 1}, {});
}

const std::vector<std::string>& hostile_texts() {
  static const std::vector<std::string> texts = {
      "a\"b'c<d>&e]]>f.cu",
      "</failure><script>alert(1)</script>",
      "line\nbreak\r\n::error::injected\ttab",
      "::error file=x::y%0A%",
      "| cell | <img src=x onerror=y> [link](javascript:z) `code` @somebody #1",
      std::string("nul\0and\x01\x1b[31mred\x7f", 17),
      "not utf-8 \xff\xfe\xc3(",
      "non-characters \xEF\xBF\xBE\xEF\xBF\xBF, C1 \xC2\x9B"
      "31m",
      "../../etc/passwd?x#y",
      "https://example.org/a.cu",
      "100%25 \xC3\xA4\xE2\x82\xAC\xF0\x9F\x9A\x80.cu",
  };
  return texts;
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// Well-formed as far as one can see without a parser: every '<' opens a tag of ours, every '&' one of the references
/// of xml_text, attributes hold no '<', and no character that XML 1.0 forbids.
void check_xml(const std::string& xml) {
  const std::vector<std::string> tags = {"<?xml ",     "<testsuites ", "</testsuites>", "<testsuite ", "</testsuite>",
                                         "<testcase ", "</testcase>",  "<failure ",     "</failure>",  "<error ",
                                         "<skipped ",  "<system-out>", "</system-out>"};
  const std::vector<std::string> references = {"&amp;", "&lt;", "&gt;", "&quot;", "&apos;", "&#10;", "&#9;", "&#13;"};
  for (size_t i = 0; i < xml.size(); ++i) {
    const auto starts_here = [&](const std::string& part) { return xml.compare(i, part.size(), part) == 0; };
    if (xml[i] == '<') REQUIRE(std::any_of(tags.begin(), tags.end(), starts_here));
    if (xml[i] == '&') REQUIRE(std::any_of(references.begin(), references.end(), starts_here));
    REQUIRE((static_cast<unsigned char>(xml[i]) >= 0x20 || xml[i] == '\n'));
  }
  REQUIRE(xml.find("\xEF\xBF\xBE") == std::string::npos);
  REQUIRE(xml.find("\xEF\xBF\xBF") == std::string::npos);
  for (const char* pair : {"testsuites", "testsuite", "testcase", "failure", "system-out"}) {
    const std::string name = pair;
    REQUIRE(count_of(xml, "<" + name + ">") + count_of(xml, "<" + name + " ") == count_of(xml, "</" + name + ">"));
  }
}

}  // namespace

TEST_CASE("the table names differences of environment first, then what changed, then the sum") {
  // The samples lie evenly, 0.0002 apart in the logarithm: by the fractions of speedup_test.cc their median's interval
  // is 9.80 of these on either side, that of the ratio of two sqrt(2) times as wide.
  const std::string table = render_regress_table(known_report(), false);
  INFO(table);
  CHECK(
      table ==
      "environment  driver: 590.10, was 580.65 (4 candidates)\n"
      "\n"
      "adamw  k/slow.cu\n"
      "  WORSE        speed     small: slower: -6.67 % (-6.92 % to -6.41 %); 1.4 times the baseline's speed, was 1.5\n"
      "adamw  k/wrong.cu\n"
      "  WORSE        verdict   edges n1/gaussian/t2: wrong_result now, passed before: param differs\n"
      "               replay    stepbench replay 0123456789abcdef\n"
      "lion  k/fast.cu\n"
      "  better       speed     small: faster: +20.00 % (+19.67 % to +20.33 %); 1.8 times the baseline's speed, was "
      "1.5\n"
      "lion  k/gone.cu\n"
      "  noted        verdict   not among the new records; was passed\n"
      "lion  k/lost.cu\n"
      "  not compared verdict   the new record is harness_error: the driver went away\n"
      "\n"
      "4 candidates compared, 1 only old, 0 only new: 2 regressions, 1 improvement, 1 noted, 1 not compared; 1 "
      "candidate could not be judged\n");
}

TEST_CASE("a candidate without changes takes one line, all of them on request") {
  const EvalRecord record = passed_record("adamw", "a.cu");
  const RegressReport report = compare_records({&record, 1}, {&record, 1}, {});
  CHECK(render_regress_table(report, false) ==
        "adamw  a.cu\n"
        "  same         verdict   passed, as before\n"
        "\n"
        "1 candidate compared, 0 only old, 0 only new: 0 regressions, 0 improvements, 0 noted, 0 not compared\n");
  CHECK(count_of(render_regress_table(report, true), "  same ") == 3);
  CHECK(render_regress_table(compare_records({}, {}, {}), false) ==
        "0 candidates compared, 0 only old, 0 only new: 0 regressions, 0 improvements, 0 noted, 0 not compared\n");
}

TEST_CASE("JUnit: failures, errors, skipped and passed add up") {
  const std::string xml = render_regress_junit(known_report());
  INFO(xml);
  check_xml(xml);
  CHECK(xml.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"stepbench regress\" "));
  // wrong: verdict. slow, fast: verdict, errors, speed, resources each. gone, lost: verdict.
  CHECK_THAT(xml, Catch::Contains("tests=\"11\" failures=\"2\" errors=\"1\" skipped=\"0\""));
  CHECK_THAT(xml, Catch::Contains("<testsuite name=\"adamw\" tests=\"5\" failures=\"2\" errors=\"0\" skipped=\"0\""));
  CHECK_THAT(xml, Catch::Contains("<testsuite name=\"lion\" tests=\"6\" failures=\"0\" errors=\"1\" skipped=\"0\""));
  CHECK(count_of(xml, "<testcase ") == 11);
  CHECK(count_of(xml, "<failure ") == 2);
  CHECK(count_of(xml, "<error ") == 1);
  CHECK_THAT(xml, Catch::Contains("classname=\"adamw\" name=\"k/wrong.cu verdict\" file=\"k/wrong.cu\""));
  EvalRecord before = passed_record("adamw", "a.cu"), after = before;
  after.suite = "full";
  CHECK_THAT(
      render_regress_junit(compare_records({&before, 1}, {&after, 1}, {})),
      Catch::Contains("skipped=\"1\"") && Catch::Contains("<skipped message=\"the suite was standard and is full\"/>"));
}

TEST_CASE("SARIF: a result per regression, with what code scanning asks for") {
  const json log = json::parse(render_regress_sarif(known_report()));
  CHECK(log["version"] == "2.1.0");
  CHECK(log["$schema"].get<std::string>().find("sarif-schema-2.1.0.json") != std::string::npos);
  REQUIRE(log["runs"].size() == 1);
  const json& run = log["runs"][0];
  CHECK(run["tool"]["driver"]["name"] == "stepbench regress");
  CHECK(run["invocations"][0]["executionSuccessful"] == true);
  REQUIRE(run["results"].size() == 2);
  for (const json& result : run["results"]) {
    const json& rules = run["tool"]["driver"]["rules"];
    CHECK(rules.at(result["ruleIndex"].get<size_t>())["id"] == result["ruleId"]);
    CHECK(result["level"] == "error");
    CHECK(result["kind"] == "fail");
    CHECK_FALSE(result["message"]["text"].get<std::string>().empty());
    const json& place = result["locations"].at(0)["physicalLocation"];
    CHECK_FALSE(place["artifactLocation"]["uri"].get<std::string>().empty());
    CHECK(place["region"]["startLine"].get<int>() >= 1);
    CHECK(result["partialFingerprints"]["stepbenchRegress/v1"].get<std::string>().size() == 64);
  }
  const json& wrong = run["results"][1];
  CHECK(wrong["ruleId"] == "regression/verdict");
  CHECK(wrong["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "k/wrong.cu");
  CHECK(wrong["locations"][0]["physicalLocation"]["region"]["startLine"] == 15);
  // The driver, and the candidate that was not judged.
  const json& notifications = run["invocations"][0]["toolExecutionNotifications"];
  REQUIRE(notifications.size() == 2);
  CHECK(notifications[1]["message"]["text"].get<std::string>().find("the driver went away") != std::string::npos);
  // The same regression has the same fingerprint in another run, another candidate's another.
  const json again = json::parse(render_regress_sarif(known_report()));
  CHECK(again["runs"][0]["results"][0]["partialFingerprints"] == run["results"][0]["partialFingerprints"]);
  CHECK(run["results"][0]["partialFingerprints"] != run["results"][1]["partialFingerprints"]);
}

TEST_CASE("SARIF: paths as URI references") {
  const struct {
    const char* path;
    const char* uri;
  } rows[] = {{"k/a.cu", "k/a.cu"},
              {"./k/a.cu", "k/a.cu"},
              {"../a.cu", "../a.cu"},
              {"/abs/a.cu", "file:///abs/a.cu"},
              {"with space/\xC3\xA4.cu", "with%20space/%C3%A4.cu"},
              {"a%20b?c#d.cu", "a%2520b%3Fc%23d.cu"},
              {"https://x/a.cu", "https%3A//x/a.cu"}};
  for (const auto& row : rows) {
    const json log = json::parse(render_regress_sarif(hostile_report(row.path)));
    CHECK(log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == row.uri);
  }
}

TEST_CASE("annotations: one error per regression, escaped as GitHub's toolkit does") {
  CHECK(render_regress_annotations(known_report()) ==
        "::error file=k/slow.cu,line=1,title=adamw%3A speed::small: slower: -6.67 %25 (-6.92 %25 to -6.41 %25); 1.4 "
        "times the baseline's speed, was 1.5\n"
        "::error file=k/wrong.cu,line=15,title=adamw%3A verdict::edges n1/gaussian/t2: wrong_result now, passed "
        "before: param differs%0Areplay: stepbench replay 0123456789abcdef\n"
        "::warning file=k/lost.cu,line=15,title=lion%3A verdict::the new record is harness_error: the driver went "
        "away%0Areplay: stepbench replay 0123456789abcdef\n"
        "::notice title=StepBench::4 candidates compared, 1 only old, 0 only new: 2 regressions, 1 improvement, 1 "
        "noted, 1 not compared; 1 candidate could not be judged\n");
}

TEST_CASE("Markdown: regressions first, what is the same folded away") {
  const std::string text = render_regress_markdown(known_report());
  INFO(text);
  CHECK(text.starts_with("### StepBench: 2 regressions\n\n4 candidates compared"));
  CHECK(text.find("**worse**") < text.find("| better |"));
  CHECK(count_of(text, "**worse**") == 2);
  CHECK(count_of(text, "<details>") == 1);
  const EvalRecord record = passed_record("adamw", "a.cu");
  CHECK_THAT(render_regress_markdown(compare_records({&record, 1}, {&record, 1}, {})),
             Catch::StartsWith("### StepBench: no regression\n") && !Catch::Contains("worse"));
}

TEST_CASE("JSON: everything, with null for what is not known") {
  const json report = json::parse(render_regress_json(known_report()));
  CHECK(report["regress_version"] == 1);
  CHECK(report["counts"]["worse"] == 2);
  CHECK(report["counts"]["better"] == 1);
  CHECK(report["not_judged"] == 1);
  CHECK(report["environment"][0]["field"] == "driver");
  REQUIRE(report["candidates"].size() == 5);
  const json& slow = report["candidates"][0];
  CHECK(slow["path"] == "k/slow.cu");
  CHECK(slow["old_verdict"] == "passed");
  const auto speed = std::find_if(slow["findings"].begin(), slow["findings"].end(),
                                  [](const json& finding) { return finding["aspect"] == "speed"; });
  REQUIRE(speed != slow["findings"].end());
  CHECK((*speed)["change"] == "worse");
  CHECK((*speed)["before"].get<double>() == Approx(1.5));
  CHECK((*speed)["after"].get<double>() == Approx(1.4));
  CHECK((*speed)["ratio_low"].get<double>() < 1.4 / 1.5);
  CHECK((*speed)["ratio_high"].get<double>() > 1.4 / 1.5);
  CHECK(slow["findings"][0]["before"].is_null());
  const json& gone = report["candidates"][3];
  CHECK(gone["presence"] == "missing");
  CHECK(gone["new_verdict"].is_null());
}

TEST_CASE("hostile names and messages stay what they are: text") {
  for (const std::string& text : hostile_texts()) {
    INFO(text);
    const RegressReport report = hostile_report(text);
    REQUIRE(report.count(Change::kWorse) == 1);
    check_xml(render_regress_junit(report));
    CHECK(json::parse(render_regress_sarif(report))["runs"][0]["results"].size() == 1);
    CHECK(json::parse(render_regress_json(report))["candidates"].size() == 1);

    // One error, one notice: a line break in a name starts no command of its own.
    const std::string annotations = render_regress_annotations(report);
    CHECK(count_of(annotations, "\n") == 2);
    CHECK(count_of("\n" + annotations, "\n::") == 2);
    CHECK(annotations.find('\r') == std::string::npos);

    const std::string table = render_regress_table(report, true);
    for (const char c : table) {
      const auto byte = static_cast<unsigned char>(c);
      REQUIRE((byte >= 0x20 || c == '\n'));
      REQUIRE(byte != 0x7F);
    }
    CHECK(table.find("\xC2\x9B") == std::string::npos);
    CHECK(count_of(table, "\n") == 7);

    const std::string markdown = render_regress_markdown(report);
    CHECK(markdown.find("<img") == std::string::npos);
    CHECK(markdown.find("<script") == std::string::npos);
    CHECK(count_of(markdown, "\n| ") == 2);  // header and the one row, whose cells hold no line break
  }
}

TEST_CASE("values that are no numbers are text in JSON") {
  EvalRecord before = passed_record("adamw", "a.cu"), after = before;
  before.modelled_bytes_per_param = 1;
  after.modelled_bytes_per_param = std::numeric_limits<double>::infinity();
  const json report = json::parse(render_regress_json(compare_records({&before, 1}, {&after, 1}, {})));
  CHECK(report["candidates"][0]["findings"].back()["after"] == "inf");
}
