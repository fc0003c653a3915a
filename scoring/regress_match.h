// Which old and which new record are of one candidate. The rule stands in regress.h.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/model.h"

namespace stepbench {

/// One of the two may be null. The records outlive it.
struct RecordPair {
  const EvalRecord* before = nullptr;
  const EvalRecord* after = nullptr;
};

/// By task, then name of the candidate.
std::vector<RecordPair> match_records(std::span<const EvalRecord> old_records, std::span<const EvalRecord> new_records);

/// "NAME: path" of a submission, else the path.
std::string candidate_name(const EvalRecord& record);

}  // namespace stepbench
