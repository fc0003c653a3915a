// Paths as a user gives them -> candidate files. It looks at names only; whether a file is a candidate shows when it is
// read.
#pragma once

#include <string>
#include <vector>

#include "harness/result.h"

namespace stepbench {

/// A file stands for itself, a folder for every .cu and .ptx in it and below (by name; hidden ones are left out, links
/// to folders not followed), and what is no file but holds `*`, `?` or `[` for what matches it as in a shell. Each file
/// is given once, in the order of the paths. A path that does not exist is passed on. kNotFound: a folder without
/// candidates, a pattern without matches. kIo.
Result<std::vector<std::string>> candidate_files(const std::vector<std::string>& paths);

}  // namespace stepbench
