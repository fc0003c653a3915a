// Candidates: reading the file, finding the plan in its first comment, and checking the plan against the task.
// Compiles and runs nothing.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>

#include "harness/plan.h"
#include "harness/plan_json.h"
#include "harness/plan_messages.h"
#include "harness/stages.h"

namespace stepbench {

namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;
constexpr std::string_view kMark = "/*stepbench";
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

Error input_error(const std::string& path, std::string message) {
  return Error{ErrorCode::kInvalidInput, std::move(message), path, "", ""};
}

const char* kind_of_file(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a named pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

/// What open() says of a name. Only what is not about the file itself is the machine's fault.
Error open_error(const std::string& path, int code) {
  const std::string place = path.empty() ? "\"\"" : path;
  if (code == ENOENT || code == ENOTDIR) {
    if (path != "-") return Error{ErrorCode::kNotFound, "there is no such file", place, "", ""};
    return Error{ErrorCode::kNotFound, "there is no such file; standard input is not read, so give the name of a file",
                 place, "", ""};
  }
  const bool machine = code == EMFILE || code == ENFILE || code == ENOMEM || code == EIO || code == EINTR;
  std::string reason = std::strerror(code);
  reason[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(reason[0])));
  return Error{machine ? ErrorCode::kIo : ErrorCode::kInvalidInput,
               fmt::format("the file cannot be opened: {}", reason), place, "", ""};
}

/// Whole text of a regular file of at most 1 MiB.
Result<std::string> read_file(const std::string& path) {
  // Non-blocking, so that a named pipe cannot hold us before fstat says what it is.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return open_error(path, errno);
  struct stat status {};
  if (fstat(file, &status) != 0) {
    const int code = errno;
    close(file);
    return Error{ErrorCode::kIo, fmt::format("the file cannot be examined: {}", std::strerror(code)), path, "", ""};
  }
  if (!S_ISREG(status.st_mode)) {
    close(file);
    return Error{ErrorCode::kInvalidInput,
                 S_ISDIR(status.st_mode) ? "this is a directory" : "this is not a regular file", path, "a source file",
                 kind_of_file(status.st_mode)};
  }
  if (status.st_size > static_cast<off_t>(kMaxFileBytes)) {
    close(file);
    return Error{ErrorCode::kInvalidInput, "the file is larger than 1 MiB", path, "",
                 fmt::format("{} bytes", status.st_size)};
  }
  std::string text;
  char block[65536];
  while (text.size() <= kMaxFileBytes) {
    const ssize_t got = read(file, block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      const int code = errno;
      close(file);
      return Error{ErrorCode::kIo, fmt::format("the file cannot be read: {}", std::strerror(code)), path, "", ""};
    }
    if (got == 0) break;
    text.append(block, static_cast<size_t>(got));
  }
  if (close(file) != 0)
    return Error{ErrorCode::kIo, fmt::format("the file cannot be closed: {}", std::strerror(errno)), path, "", ""};
  return text;
}

/// First byte that is not well-formed UTF-8 (RFC 3629: shortest form, no surrogates, at most U+10FFFF); npos when all
/// is.
size_t first_invalid_utf8(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto follows = [&](size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  for (size_t i = 0; i < text.size();) {
    const unsigned lead = byte(i);
    if (lead < 0x80) {
      ++i;
    } else if (lead >= 0xC2 && lead <= 0xDF) {
      if (!follows(i + 1)) return i;
      i += 2;
    } else if (lead >= 0xE0 && lead <= 0xEF) {
      const unsigned least = lead == 0xE0 ? 0xA0 : 0x80;
      const unsigned most = lead == 0xED ? 0x9F : 0xBF;
      if (byte(i + 1) < least || byte(i + 1) > most || !follows(i + 2)) return i;
      i += 3;
    } else if (lead >= 0xF0 && lead <= 0xF4) {
      const unsigned least = lead == 0xF0 ? 0x90 : 0x80;
      const unsigned most = lead == 0xF4 ? 0x8F : 0xBF;
      if (byte(i + 1) < least || byte(i + 1) > most || !follows(i + 2) || !follows(i + 3)) return i;
      i += 4;
    } else {
      return i;
    }
  }
  return std::string_view::npos;
}

int64_t line_of(std::string_view text, size_t offset) {
  return 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(std::min(offset, text.size())), '\n');
}

/// Strips a byte order mark and refuses what is not text.
Result<void> clean_text(const std::string& path, std::string& text) {
  if (text.size() > kMaxFileBytes)
    return Error{ErrorCode::kInvalidInput, "the file is larger than 1 MiB", path, "",
                 fmt::format("{} bytes", text.size())};
  const size_t skipped = std::string_view(text).substr(0, 3) == kByteOrderMark ? 3 : 0;
  text.erase(0, skipped);
  if (text.find_first_not_of(" \t\r\n\v\f") == std::string::npos) return input_error(path, "the file is empty");
  if (const size_t bad = first_invalid_utf8(text); bad != std::string_view::npos)
    return Error{ErrorCode::kInvalidInput,
                 fmt::format("the file is not UTF-8: byte {} in line {}", bad + skipped, line_of(text, bad)),
                 fmt::format("{}:{}", path, line_of(text, bad)), "",
                 fmt::format("0x{:02X}", static_cast<unsigned char>(text[bad]))};
  if (const size_t zero = text.find('\0'); zero != std::string::npos)
    return input_error(fmt::format("{}:{}", path, line_of(text, zero)),
                       fmt::format("the file has a NUL byte: byte {} in line {}", zero + skipped, line_of(text, zero)));
  return {};
}

/// Where the plan lies in a CUDA source.
struct PlanComment {
  bool found = false;
  size_t begin = 0, end = 0;  ///< of the JSON
};

bool is_plan_mark(std::string_view source, size_t at) {
  if (source.substr(at, kMark.size()) != kMark) return false;
  const size_t next = at + kMark.size();
  const char c = next < source.size() ? source[next] : ' ';
  return std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_';
}

/// End of the string, character or raw string literal that begins at `at`; a line's end stops a broken one.
size_t end_of_literal(std::string_view source, size_t at) {
  const char quote = source[at];
  if (quote == '"' && at > 0 && source[at - 1] == 'R') {
    const size_t open = source.find('(', at);
    if (open == std::string_view::npos || open - at > 17) return at + 1;
    const std::string closing = fmt::format("){}\"", source.substr(at + 1, open - at - 1));
    const size_t end = source.find(closing, open);
    return end == std::string_view::npos ? source.size() : end + closing.size();
  }
  for (size_t i = at + 1; i < source.size(); ++i) {
    if (source[i] == '\\')
      ++i;
    else if (source[i] == quote)
      return i + 1;
    else if (source[i] == '\n')
      return i;
  }
  return source.size();
}

/// True for a ' that separates digits (1'000) and does not begin a character.
bool is_digit_separator(std::string_view source, size_t at) {
  const auto alnum = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  return source[at] == '\'' && at > 0 && at + 1 < source.size() && alnum(source[at - 1]) && alnum(source[at + 1]) &&
         (at + 2 >= source.size() || source[at + 2] != '\'');
}

/// Walks over the comments. The plan is the first one; a plan anywhere else is a mistake worth a message.
Judged<PlanComment> find_plan(const std::string& path, std::string_view source) {
  PlanComment plan;
  int comments = 0;
  int64_t plan_line = 0;
  for (size_t i = 0; i < source.size();) {
    const char c = source[i];
    if ((c == '"' || c == '\'') && !is_digit_separator(source, i)) {
      i = end_of_literal(source, i);
      continue;
    }
    if (c != '/' || i + 1 >= source.size() || (source[i + 1] != '/' && source[i + 1] != '*')) {
      ++i;
      continue;
    }
    ++comments;
    if (source[i + 1] == '/') {
      i = std::min(source.find('\n', i), source.size());
      continue;
    }
    const size_t end = source.find("*/", i + 2);
    const std::string place = fmt::format("{}:{}", path, line_of(source, i));
    if (is_plan_mark(source, i)) {
      if (end == std::string_view::npos) return plan_failure(place, "", "the plan's comment is not closed by */");
      if (plan.found) return plan_failure(place, "", fmt::format("a second plan, the first is in line {}", plan_line));
      if (comments > 1)
        return plan_failure(place, "", "the plan must be the file's first comment; put it above the others");
      plan = {true, i + kMark.size(), end};
      plan_line = line_of(source, i);
    }
    if (end == std::string_view::npos) break;
    i = end + 2;
  }
  return plan;
}

std::string stem_json(const std::string& path) { return path.substr(0, path.size() - 4) + ".json"; }

bool has_suffix(std::string_view text, std::string_view suffix) {
  return text.size() > suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}

}  // namespace

Result<Judged<Candidate>> load_candidate(const std::string& path, const std::string& task_override) {
  Result<std::string> source = read_file(path);
  if (!source.ok()) return source.error();
  if (!has_suffix(path, ".ptx")) return parse_candidate(path, std::move(source).value(), "", false, task_override);
  const std::string plan_path = stem_json(path);
  Result<std::string> plan = read_file(plan_path);
  if (plan.ok() && plan.value().empty()) return input_error(plan_path, "the file is empty");
  if (!plan.ok() && (plan.error().code != ErrorCode::kNotFound || task_override.empty())) {
    Error error = plan.error();
    if (error.code == ErrorCode::kNotFound) error.message = fmt::format("there is no plan beside {}", path);
    return error;
  }
  return parse_candidate(path, std::move(source).value(), plan.ok() ? std::move(plan).value() : "", true,
                         task_override);
}

Result<Judged<Candidate>> parse_candidate(const std::string& path, std::string source, std::string plan_json,
                                          bool is_ptx, const std::string& task_override) {
  if (const Result<void> clean = clean_text(path, source); !clean.ok()) return clean.error();
  if (!task_override.empty() && !is_identifier(task_override))
    return Error{ErrorCode::kUsage, "this is not a task id (letters, digits and _)", "", "", shortened(task_override)};
  Candidate candidate;
  candidate.path = path;
  candidate.is_ptx = is_ptx;
  candidate.source = std::move(source);
  PlanComment comment;
  std::string_view text = candidate.source;
  std::string text_path = path;
  if (is_ptx) {
    text_path = has_suffix(path, ".ptx") ? stem_json(path) : path + ".json";
    if (!plan_json.empty()) {
      if (const Result<void> clean = clean_text(text_path, plan_json); !clean.ok()) return clean.error();
      comment = {true, 0, plan_json.size()};
    }
    text = plan_json;
  } else {
    const Judged<PlanComment> found = find_plan(path, candidate.source);
    if (!found.ok()) return Judged<Candidate>(*found.failure);
    comment = *found.value;
  }
  candidate.default_plan = true;
  candidate.task = task_override;
  candidate.sha256 = sha256_hex(is_ptx ? candidate.source + plan_json : candidate.source);
  if (!comment.found) {
    if (task_override.empty())
      return Judged<Candidate>(plan_failure(
          path, "",
          "the file has no plan and no task is given: begin it with /*stepbench {\"task\": ...} */ or use --task"));
    return Judged<Candidate>(std::move(candidate));
  }
  Judged<ParsedPlan> parsed = parse_plan_json(text_path, text, comment.begin, comment.end);
  if (!parsed.ok()) return Judged<Candidate>(*parsed.failure);
  ParsedPlan& plan = *parsed.value;
  if (plan.task.empty() && task_override.empty())
    return Judged<Candidate>(plan_failure(text_path, "/task", "the plan names no task: add \"task\" or use --task"));
  if (!plan.task.empty() && !task_override.empty() && plan.task != task_override)
    return Judged<Candidate>(plan_failure(
        text_path, "/task", fmt::format("the plan is for task `{}`, asked for is `{}`", plan.task, task_override)));
  if (!plan.task.empty()) candidate.task = plan.task;
  candidate.note = std::move(plan.note);
  candidate.plan = std::move(plan.plan);
  candidate.default_plan = !plan.has_launches;
  candidate.plan_line = plan.first_line;
  return Judged<Candidate>(std::move(candidate));
}

std::optional<Failure> validate_plan(const Candidate& candidate, const TaskSpec& task) {
  const Judged<PreparedPlan> prepared = prepare_plan(plan_path(candidate), candidate.plan, task);
  return prepared.failure;
}

}  // namespace stepbench
