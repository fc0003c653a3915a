// A record for people: the report of one evaluation, its one-line form, and the progress line of a terminal.
#pragma once

#include <chrono>
#include <mutex>
#include <string>

#include "harness/stages.h"

namespace stepbench {

struct ReportStyle {
  bool colour = false;
  bool profile = false;  ///< also where the evaluation's own time went
  int width = 0;         ///< longest line, in characters; 0: as long as it gets
};

/// Several lines, ending with a newline.
std::string render_report(const EvalRecord& record, const ReportStyle& style);
/// The part that describes a failure, indented, ending with a newline.
std::string render_failure(const Failure& failure, const std::string& replay_command, const ReportStyle& style);
/// "wrong_result  path  check case  replay command".
std::string render_line(const EvalRecord& record);

/// Columns of the terminal behind this descriptor; 0 when it is none.
int terminal_width(int descriptor);

/// True when text to this descriptor may carry colours: a terminal, and NO_COLOR is not set.
bool wants_colour(int descriptor);

/// One line on standard error that is written over and over. Silent when standard error is not a terminal, when told to
/// be quiet, and in the first second. May be called from several threads.
class ProgressLine {
 public:
  explicit ProgressLine(bool quiet);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine();

  void show(const std::string& subject, const Progress& progress);
  /// Removes the line, so that other text can be printed.
  void clear();

 private:
  const bool active_;
  const std::chrono::steady_clock::time_point start_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point last_;
  bool shown_ = false;
};

}  // namespace stepbench
