// Reports on narrow terminals: broken at spaces, no word lost, what the compiler said of the source left alone.
#include <sstream>

#include "harness/report.h"
#include "tests/bad_input/support.h"

namespace stepbench::bad_input {
namespace {

EvalRecord failed_record() {
  EvalRecord record;
  record.id = "0123456789abcdef";
  record.task = "adamw";
  record.suite = "smoke";
  record.candidate.path = "a.cu";
  record.environment.device = "vm";
  record.verdict = Verdict::kCompileError;
  record.replay_command = "stepbench replay 0123456789abcdef";
  Failure failure;
  failure.verdict = record.verdict;
  failure.message =
      "the \xC3\xA4nderung of this line is told in a sentence that is longer than any narrow terminal is wide";
  failure.place = "a.cu:3";
  failure.check = "compile";
  failure.detail =
      "a.cu(3): error: expected an expression\n    const float a_name_that_is_long_enough_to_pass_the_edge_of_it = "
      ";\n" +
      std::string(68, ' ') + "^";
  record.failure = failure;
  record.cases = {{"edges", "n257/gaussian/t10", Verdict::kPassed, 1542, 0.25, "param", 3}};
  record.drift = {{"small_net_div2/constant/t1-200", "exp_avg", {{200, 1e-7, -3e-7, HUGE_VAL}}, 0.9, 1e-5}};
  return record;
}

std::string words_of(const std::string& text) {
  std::istringstream stream(text);
  std::string all;
  for (std::string word; stream >> word;) all += word + " ";
  return all;
}

TEST_CASE("a report is broken at the terminal's width") {
  const EvalRecord record = failed_record();
  for (const bool colour : {false, true}) {
    const std::string whole = render_report(record, {colour, false, 0});
    for (const int width : {50, 60, 80, 100, 1000}) {
      INFO(width);
      const std::string text = render_report(record, {colour, false, width});
      INFO(text);
      CHECK(words_of(text) == words_of(whole));
      if (width == 1000) CHECK(text == whole);
      if (colour) continue;
      std::istringstream lines(text);
      for (std::string line; std::getline(lines, line);) {
        INFO(line);
        const bool is_source = line.find("const float") != std::string::npos || line.ends_with(" ^") ||
                               line.starts_with("  replay ");                 // a command to be copied
        CHECK((is_source || line.size() <= static_cast<size_t>(width) + 1));  // one character of two bytes
      }
      CHECK_THAT(text, Catch::Contains("\n" + std::string(12 + 68, ' ') + "^\n"));
      CHECK_THAT(text, Catch::Contains("stepbench replay 0123456789abcdef\n"));
    }
  }
}

TEST_CASE("numbers that say nothing are words") {
  const std::string text = render_report(failed_record(), {});
  CHECK_THAT(text, Catch::Contains("-3.0e-07 (the same in every element)") && !Catch::Contains("inf sigma"));
  EvalRecord finite = failed_record();  // control
  finite.drift[0].points[0].bias_sigma = 1.5;
  CHECK_THAT(render_report(finite, {}), Catch::Contains("(1.5 sigma)"));
  EvalRecord unread = failed_record();
  unread.task = "";
  CHECK_THAT(render_report(unread, {}), Catch::Contains("task unknown, suite smoke"));
  // A fault has no value: neither "expected 0" nor "got 0".
  EvalRecord fault = failed_record();
  fault.failure->verdict = fault.verdict = Verdict::kOutOfBounds;
  fault.failure->element = 3;
  CHECK_THAT(render_report(fault, {}), !Catch::Contains("expected  0") && !Catch::Contains("got  "));
  CHECK_THAT(render_line(fault), Catch::StartsWith("a.cu  out_of_bounds  a.cu:3:  the "));
}

}  // namespace
}  // namespace stepbench::bad_input
