// Text forms that only records and workers share. The record itself is in stages.h (record_to_json, record_from_json).
#pragma once

#include <string>
#include <string_view>

#include "harness/model.h"
#include "harness/result.h"

namespace stepbench {

/// A candidate as one JSON object, the same that stands under "candidate" in a record.
std::string candidate_to_json(const Candidate& candidate);
/// kInvalidRecord with the JSON pointer of what is missing or of the wrong type.
Result<Candidate> candidate_from_json(std::string_view text);

/// kInvalidRecord for JSON text with more levels of brackets than any record has: printing and taking apart what it
/// becomes recurses.
Result<void> check_nesting(std::string_view json);

/// 16 lower-case hex digits, the form of salts and seeds in records and messages.
std::string hex16(uint64_t value);
/// 1 to 16 hex digits, nothing else. kUsage.
Result<uint64_t> parse_hex(std::string_view text);

/// Valid UTF-8: every byte that is not part of it becomes U+FFFD.
std::string replace_invalid_utf8(std::string_view text);

}  // namespace stepbench
