// A comparison as text: for people, for pull requests, for the programs around continuous integration. Pure functions;
// each takes records that others wrote, whatever is in their names and messages.
#pragma once

#include <string>

#include "scoring/regress.h"

namespace stepbench {

/// For a terminal: differences of environment, one line per finding, a summary. `all`: also what is the same.
std::string render_regress_table(const RegressReport& report, bool all);

/// "3 candidates compared, 1 only old, 0 only new: 1 regression, 2 improvements, 0 noted, 1 not compared".
std::string regress_summary(const RegressReport& report);

/// For the comment on a pull request (GitHub's dialect): the same as a table, what is the same folded away.
std::string render_regress_markdown(const RegressReport& report);

/// Workflow commands of GitHub Actions: one `::error` per regression at the candidate's file, one `::warning` per
/// candidate that could not be judged, one `::notice` with the summary.
std::string render_regress_annotations(const RegressReport& report);

/// JUnit XML as Jenkins, GitLab and GitHub's actions read it: a suite per task, a test case per candidate and aspect.
/// Regressions are failures, candidates that could not be judged are errors, what could not be compared is skipped.
std::string render_regress_junit(const RegressReport& report);

/// SARIF 2.1.0 (OASIS): one result per regression; what could not be compared as notifications of the invocation.
std::string render_regress_sarif(const RegressReport& report);

/// One JSON object with everything; non-finite numbers are strings, as in records.
std::string render_regress_json(const RegressReport& report);

}  // namespace stepbench
