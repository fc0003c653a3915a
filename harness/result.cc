// Text of errors, and what happens when an assertion fails.
#include "harness/result.h"

#include <cstdio>

namespace stepbench {

std::string to_text(const Error& error) {
  std::string text = error.place.empty() ? error.message : error.place + ": " + error.message;
  if (error.expected.empty() && error.found.empty()) return text;
  text += " (";
  if (!error.expected.empty()) text += "expected " + error.expected;
  if (!error.expected.empty() && !error.found.empty()) text += ", ";
  if (!error.found.empty()) text += "found " + error.found;
  return text + ")";
}

void assertion_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr,
               "stepbench: assertion failed at %s:%d: %s\nstepbench: this is a bug in StepBench, please report it\n",
               file, line, expression);
  std::abort();
}

}  // namespace stepbench
