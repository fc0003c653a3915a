// The cache folder (see cache.h). An entry is a file named by its key: one line "stepbench-cache 1 <length> <sha256>",
// then the bytes. It is written under a temporary name, synced and renamed.
#include "harness/cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "harness/stages.h"

namespace stepbench {

namespace {

constexpr std::string_view kMagic = "stepbench-cache 1 ";
constexpr std::string_view kTemporary = ".writing-";
constexpr time_t kAbandoned_s = 3600;  // a temporary file this old has lost its writer

std::string head_of(std::string_view bytes) {
  return std::string(kMagic) + std::to_string(bytes.size()) + " " + sha256_hex(bytes) + "\n";
}

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  bool close() { return ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(fd, bytes.data(), bytes.size());
    if (wrote > 0)
      bytes.remove_prefix(static_cast<size_t>(wrote));
    else if (errno != EINTR)
      return false;
  }
  return true;
}

Error write_error(const char* call, const std::string& path) {
  return Error{ErrorCode::kIo, std::string("cannot write the cache: ") + call + " failed", path, "",
               std::strerror(errno)};
}

bool is_key(const std::string& key) {
  return key.size() >= 8 && key.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

std::string cache_folder(const std::string& wanted) {
  if (!wanted.empty()) return wanted;
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg != nullptr && *xdg == '/')
    return std::string(xdg) + "/stepbench";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/')
    return std::string(home) + "/.cache/stepbench";
  return {};
}

std::optional<std::string> read_cache(const std::string& folder, const std::string& key) {
  if (folder.empty() || !is_key(key)) return std::nullopt;
  const File file(::open((folder + "/" + key).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  struct stat info {};
  if (file.get() < 0 || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  std::string text(static_cast<size_t>(info.st_size), '\0');
  size_t have = 0;
  while (have < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + have, text.size() - have);
    if (got > 0)
      have += static_cast<size_t>(got);
    else if (got == 0 || errno != EINTR)
      return std::nullopt;
  }
  const size_t line_end = text.find('\n');
  if (line_end == std::string::npos || line_end > 200) return std::nullopt;
  std::string bytes = text.substr(line_end + 1);
  if (text.compare(0, line_end + 1, head_of(bytes)) != 0) return std::nullopt;
  ::futimens(file.get(), nullptr);  // recently used; may fail on a read-only folder, which harms nothing
  return bytes;
}

Result<void> write_cache(const std::string& folder, const std::string& key, std::string_view bytes,
                         uint64_t limit_bytes) {
  if (folder.empty() || !is_key(key))
    return Error{ErrorCode::kIo, "there is no cache folder", "", "XDG_CACHE_HOME or HOME", "neither"};
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code) return Error{ErrorCode::kIo, "cannot make the cache folder", folder, "", code.message()};

  std::string temporary = folder + "/" + std::string(kTemporary) + "XXXXXX";
  File file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (file.get() < 0) return write_error("mkostemp", folder);
  const bool written = write_all(file.get(), head_of(bytes)) && write_all(file.get(), bytes) &&
                       ::fsync(file.get()) == 0 && file.close() &&
                       ::rename(temporary.c_str(), (folder + "/" + key).c_str()) == 0;
  if (!written) {
    const Error error = write_error("writing", temporary);
    ::unlink(temporary.c_str());
    return error;
  }
  // Listing the folder costs time in proportion to its size: one write in sixteen does it.
  if (key.front() == '0') trim_cache(folder, limit_bytes);
  return {};
}

void trim_cache(const std::string& folder, uint64_t limit_bytes) {
  struct Entry {
    std::string path;
    timespec used{};
    uint64_t bytes = 0;
  };
  std::vector<Entry> entries;
  uint64_t total = 0;
  const time_t now = std::time(nullptr);
  std::error_code code;
  for (std::filesystem::directory_iterator it(folder, code), end; !code && it != end; it.increment(code)) {
    struct stat info {};
    const std::string path = it->path().string(), name = it->path().filename().string();
    if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    if (name.starts_with(kTemporary)) {
      if (info.st_mtime + kAbandoned_s < now) ::unlink(path.c_str());
    } else if (is_key(name)) {
      entries.push_back({path, info.st_mtim, static_cast<uint64_t>(info.st_size)});
      total += entries.back().bytes;
    }
  }
  if (total <= limit_bytes) return;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
  });
  for (const Entry& entry : entries) {
    if (total <= limit_bytes / 10 * 9) break;
    if (::unlink(entry.path.c_str()) == 0) total -= entry.bytes;
  }
}

}  // namespace stepbench
