// A folder of byte strings by content address: compiled code, and small facts that are slow to find out. Losing it
// costs time and nothing else, so every failure to read is a miss and every failure to write may be ignored.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "harness/result.h"

namespace stepbench {

/// `wanted`, or $XDG_CACHE_HOME/stepbench, or ~/.cache/stepbench. Empty when there is no home.
std::string cache_folder(const std::string& wanted);

/// The entry, or nothing when it is missing, torn, corrupt or of another format. `key` is hex.
std::optional<std::string> read_cache(const std::string& folder, const std::string& key);

inline constexpr uint64_t kCacheLimit_bytes = 1ull << 30;

/// Writes an entry so that readers see all of it or none, whoever else writes it at the same time. Now and then removes
/// the entries that were not used for longest until the folder is within `limit_bytes`.
Result<void> write_cache(const std::string& folder, const std::string& key, std::string_view bytes,
                         uint64_t limit_bytes = kCacheLimit_bytes);

/// Removes entries, oldest first, until the folder is within nine tenths of the limit, if it was above the limit.
void trim_cache(const std::string& folder, uint64_t limit_bytes);

}  // namespace stepbench
