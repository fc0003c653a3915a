// Folders and patterns.
#include "harness/candidate_files.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <set>

namespace stepbench {
namespace {

namespace fs = std::filesystem;

Result<std::vector<std::string>> files_below(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code status;
  fs::recursive_directory_iterator entry(folder, status);
  for (; !status && entry != fs::recursive_directory_iterator(); entry.increment(status)) {
    const fs::path& path = entry->path();
    std::error_code unreadable;
    if (path.filename().string().starts_with(".")) {
      if (entry->is_directory(unreadable)) entry.disable_recursion_pending();
      continue;
    }
    const bool is_candidate = path.extension() == ".cu" || path.extension() == ".ptx";
    if (is_candidate && entry->is_regular_file(unreadable)) files.push_back(path.string());
  }
  if (status) return Error{ErrorCode::kIo, fmt::format("cannot read the folder: {}", status.message()), folder, "", ""};
  if (files.empty())
    return Error{ErrorCode::kNotFound, "no candidates in this folder", folder, "files .cu or .ptx", ""};
  std::sort(files.begin(), files.end());
  return files;
}

Result<std::vector<std::string>> matches_of(const std::string& pattern) {
  glob_t found{};
  const int status = ::glob(pattern.c_str(), 0, nullptr, &found);
  std::vector<std::string> paths;
  for (size_t i = 0; status == 0 && i < found.gl_pathc; ++i) paths.emplace_back(found.gl_pathv[i]);
  ::globfree(&found);
  if (status == 0) return paths;
  if (status == GLOB_NOMATCH) return Error{ErrorCode::kNotFound, "nothing matches this pattern", pattern, "", ""};
  return Error{ErrorCode::kIo, "cannot look for this pattern", pattern, "", ""};
}

}  // namespace

Result<std::vector<std::string>> candidate_files(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  std::set<std::string> seen;
  const auto add = [&](const std::string& path) -> Result<void> {
    std::error_code status;
    if (!fs::is_directory(path, status)) {
      if (seen.insert(path).second) files.push_back(path);
      return {};
    }
    const Result<std::vector<std::string>> below = files_below(path);
    if (!below.ok()) return below.error();
    for (const std::string& file : below.value())
      if (seen.insert(file).second) files.push_back(file);
    return {};
  };
  for (const std::string& path : paths) {
    std::error_code status;
    const bool is_pattern = !fs::exists(path, status) && path.find_first_of("*?[") != std::string::npos;
    Result<std::vector<std::string>> matches = std::vector<std::string>{path};
    if (is_pattern) matches = matches_of(path);
    if (!matches.ok()) return matches.error();
    for (const std::string& match : matches.value())
      if (const Result<void> added = add(match); !added.ok()) return added.error();
  }
  return files;
}

}  // namespace stepbench
