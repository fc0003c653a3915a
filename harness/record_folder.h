// The folder of finished records: one file per evaluation, written whole or not at all.
#pragma once

#include <string>
#include <string_view>

#include "harness/model.h"
#include "harness/result.h"

namespace stepbench {

/// `given` when not empty, else $STEPBENCH_RECORDS, else $XDG_STATE_HOME/stepbench/records, else
/// ~/.local/state/stepbench/records. kUsage when none of them is known.
Result<std::string> records_folder(const std::string& given);

/// Creates the folder when needed and writes <folder>/<record.id>.json. Returns the file's path.
Result<std::string> save_record(const std::string& folder, const EvalRecord& record);

/// A record by its id, by any unique beginning of it (4 digits at least), or by the path of a record file. kNotFound,
/// kUsage (more than one id begins so), kInvalidRecord.
Result<EvalRecord> find_record(const std::string& folder, const std::string& id_or_path);

/// Writes to an unnamed file, syncs it and gives it its name in one step: whoever reads `path` finds the old
/// content or the new one, and a process killed in between leaves nothing behind.
Result<void> write_file_atomically(const std::string& path, std::string_view content);

/// kNotFound, kInvalidInput (a directory, more than `limit_bytes`), kIo.
Result<std::string> read_file(const std::string& path, uint64_t limit_bytes);

}  // namespace stepbench
