// Records from whatever holds them: a folder, a record file, a list, JSON Lines, a store. Of several records of one
// candidate made the same way only the newest is kept, so that a long history costs no memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/model.h"
#include "harness/result.h"

namespace stepbench {

struct RecordSource {
  std::vector<EvalRecord> records;  ///< newest per task, submission's name, path, task version, suite and device
  int64_t read = 0;                 ///< records seen, of this task
  int64_t partial = 0;              ///< left out: passed, but only a part of the checks was run
  int64_t unreadable = 0;           ///< files of a folder that are no records
  std::string first_unreadable;     ///< the first of them, with the reason
};

/// `task` empty: all tasks. A folder is read without its subfolders (files .json and .jsonl, hidden ones left out), and
/// files in it that are no records are counted, not an error: a folder may hold other things. A file named by the user
/// must hold records only. kNotFound, kInvalidRecord (place is FILE:LINE or FILE: /INDEX), kInvalidInput, kIo, and
/// those of open_store.
Result<RecordSource> load_records(const std::string& path, const std::string& task);

}  // namespace stepbench
