// Records on disk. Files only: what a record is stands in record.cc.
#include "harness/record_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "harness/record.h"
#include "harness/stages.h"

namespace stepbench {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxRecordBytes = 256ull << 20;
constexpr size_t kMinPrefix = 4;

Error io_error(const std::string& what, const std::string& path) {
  return {ErrorCode::kIo, what + ": " + std::strerror(errno), path, "", ""};
}

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// A file descriptor that closes itself.
struct Descriptor {
  explicit Descriptor(int opened) : fd(opened) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
  int fd;
};

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

/// Writes through a named file, for file systems without unnamed ones.
Result<void> write_named(const std::string& temporary, std::string_view content) {
  const Descriptor file(::open(temporary.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644));
  if (file.fd < 0) return io_error("cannot create file", temporary);
  if (write_all(file.fd, content) && ::fsync(file.fd) == 0) return {};
  const Error error = io_error("cannot write file", temporary);
  ::unlink(temporary.c_str());
  return error;
}

Result<EvalRecord> read_record(const std::string& path) {
  Result<std::string> text = read_file(path, kMaxRecordBytes);
  if (!text.ok()) return text.error();
  Result<EvalRecord> record = record_from_json(text.value());
  if (record.ok()) return record;
  Error error = record.error();
  error.place = error.place.empty() ? path : path + ": " + error.place;
  return error;
}

}  // namespace

Result<std::string> records_folder(const std::string& given) {
  if (!given.empty()) return given;
  if (const std::string named = from_environment("STEPBENCH_RECORDS"); !named.empty()) return named;
  if (const std::string state = from_environment("XDG_STATE_HOME"); !state.empty()) return state + "/stepbench/records";
  if (const std::string home = from_environment("HOME"); !home.empty()) return home + "/.local/state/stepbench/records";
  return Error{ErrorCode::kUsage, "no folder for records", "", "--records DIR, or STEPBENCH_RECORDS or HOME set", ""};
}

Result<void> write_file_atomically(const std::string& path, std::string_view content) {
  const fs::path parent = fs::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  const std::string temporary = fmt::format("{}/.{}.{}.tmp", folder, fs::path(path).filename().string(), ::getpid());
  {
    const Descriptor file(::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0644));
    if (file.fd < 0) {
      if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
        return io_error("cannot write into folder", folder);
      if (const Result<void> written = write_named(temporary, content); !written.ok()) return written.error();
    } else {
      if (!write_all(file.fd, content) || ::fsync(file.fd) != 0) return io_error("cannot write file", path);
      const std::string self = fmt::format("/proc/self/fd/{}", file.fd);
      // A first write needs no temporary name at all; only replacing an existing file does.
      if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0) return {};
      if (errno != EEXIST) return io_error("cannot name file", path);
      ::unlink(temporary.c_str());
      if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, temporary.c_str(), AT_SYMLINK_FOLLOW) != 0)
        return io_error("cannot name file", temporary);
    }
  }
  if (::rename(temporary.c_str(), path.c_str()) == 0) return {};
  const Error error = io_error("cannot name file", path);
  ::unlink(temporary.c_str());
  return error;
}

Result<std::string> read_file(const std::string& path, uint64_t limit_bytes) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return Error{ErrorCode::kNotFound, "no such file", path, "", ""};
    return io_error("cannot open file", path);
  }
  struct stat status {};
  if (::fstat(file.fd, &status) != 0) return io_error("cannot read file", path);
  if (S_ISDIR(status.st_mode)) return Error{ErrorCode::kInvalidInput, "is a directory", path, "a file", ""};
  std::string text;
  char block[65536];
  while (true) {
    const ssize_t count = ::read(file.fd, block, sizeof(block));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return io_error("cannot read file", path);
    if (count == 0) return text;
    text.append(block, static_cast<size_t>(count));
    if (text.size() > limit_bytes)
      return Error{ErrorCode::kInvalidInput, "file too large", path, fmt::format("{} bytes at most", limit_bytes), ""};
  }
}

Result<std::string> save_record(const std::string& folder, const EvalRecord& record) {
  std::error_code status;
  fs::create_directories(folder, status);
  if (status) return Error{ErrorCode::kIo, "cannot create the records folder: " + status.message(), folder, "", ""};
  const std::string path = folder + "/" + record.id + ".json";
  const Result<void> written = write_file_atomically(path, record_to_json(record, 1) + "\n");
  if (!written.ok()) return written.error();
  return path;
}

Result<EvalRecord> find_record(const std::string& folder, const std::string& id_or_path) {
  std::error_code status;
  const bool looks_like_path = id_or_path.find('/') != std::string::npos || id_or_path.ends_with(".json");
  if (looks_like_path) return read_record(id_or_path);
  if (id_or_path.size() < kMinPrefix || !parse_hex(id_or_path).ok())
    return Error{ErrorCode::kUsage, "not a record id", "",
                 fmt::format("{} to 16 hex digits, or the path of a record file", kMinPrefix),
                 replace_invalid_utf8(id_or_path)};
  std::vector<std::string> matches;
  for (const auto& entry : fs::directory_iterator(folder, status))
    if (entry.path().extension() == ".json" && entry.path().filename().string().starts_with(id_or_path))
      matches.push_back(entry.path().string());
  std::sort(matches.begin(), matches.end());
  if (matches.empty())
    return Error{ErrorCode::kNotFound, "no record with this id", folder, "an id printed by `stepbench eval`",
                 id_or_path};
  if (matches.size() > 1)
    return Error{ErrorCode::kUsage, "more than one record id begins so", folder, "more digits of the id",
                 fmt::format("{} matches for {}", matches.size(), id_or_path)};
  return read_record(matches.front());
}

}  // namespace stepbench
