// Records -> one row per candidate for the terminal. A pure function: no device, no disk, no clock.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/model.h"

namespace stepbench {

struct SummaryRow {
  std::string candidate;  ///< as given by the user
  std::string task;
  Verdict verdict = Verdict::kHarnessError;
  std::string where;                    ///< check and case of the failure; empty when passed
  double modelled_bytes_per_param = 0;  ///< 0: not known; a model, never a measurement
  double ideal_bytes_per_param = 0;     ///< the task's floor; 0: not known
  int32_t registers = -1;               ///< of the kernel that uses most; -1: not known
  std::string replay;                   ///< command; empty when passed
};

std::vector<SummaryRow> summarize(std::span<const EvalRecord> records);

/// A table of plain text with a header line, columns aligned, no trailing spaces. The first two words of a row are the
/// candidate and its verdict, so that a script can read them.
std::string render_table(std::span<const SummaryRow> rows);

}  // namespace stepbench
