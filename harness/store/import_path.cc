// Import of whole files, whatever they hold: the beginning and the name tell stores, record files and JSON Lines apart.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "harness/record_folder.h"
#include "harness/store.h"

namespace stepbench {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxRecordFileBytes = 256ull << 20;

bool is_sqlite_file(const std::string& path) {
  constexpr std::string_view kMagic("SQLite format 3\0", 16);  // https://www.sqlite.org/fileformat.html, section 1.3
  char first[16] = {};
  std::ifstream file(path, std::ios::binary);
  return file.read(first, sizeof(first)) && std::string_view(first, sizeof(first)) == kMagic;
}

}  // namespace

Result<StoreImport> import_path(Store& store, const std::string& path, const StoreProgress& progress) {
  if (path == "-") return import_records(store, std::cin, "standard input", progress);
  if (is_sqlite_file(path)) {
    const Result<StorePtr> from = open_store(path, {});
    if (!from.ok()) return from.error();
    return import_store(store, *from.value(), progress);
  }
  if (path.ends_with(".json")) {
    const Result<std::string> text = read_file(path, kMaxRecordFileBytes);
    if (!text.ok()) return text.error();
    return import_record_file(store, text.value(), path);
  }
  std::error_code status;
  if (!fs::exists(path, status)) return Error{ErrorCode::kNotFound, "no such file", path, "", ""};
  std::ifstream in(path, std::ios::binary);
  if (!in) return Error{ErrorCode::kIo, "cannot open file", path, "", ""};
  return import_records(store, in, path, progress);
}

Result<std::vector<std::string>> files_with_records(const std::string& path) {
  std::error_code status;
  if (!fs::is_directory(path, status)) return std::vector<std::string>{path};
  std::vector<std::string> found;
  fs::directory_iterator entry(path, status);
  for (; !status && entry != fs::directory_iterator(); entry.increment(status)) {
    const fs::path& file = entry->path();
    std::error_code unreadable;
    const bool is_hidden = file.filename().string().starts_with(".");
    const bool holds_records = file.extension() == ".json" || file.extension() == ".jsonl" || file.extension() == ".db";
    if (!is_hidden && holds_records && entry->is_regular_file(unreadable)) found.push_back(file.string());
  }
  if (status) return Error{ErrorCode::kIo, fmt::format("cannot read the folder: {}", status.message()), path, "", ""};
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace stepbench
