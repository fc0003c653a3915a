// In-memory headers (see headers.h). What NVRTC 13.0 does with them was established by experiment: lookup is by the
// spelling alone, brackets and quotes alike, and never relative to the including header. Over 500 lines because our
// small replacements of the C headers and the list of allowed headers stand here in full.
#include "harness/headers.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>

#include "harness/nvrtc.h"

namespace stepbench {

namespace {

struct OwnHeader {
  std::string_view name, text;
};

// The fixed-width types are those of libcu++ under NVRTC (64 bits = long long), so that both can be included.
constexpr std::string_view kStdint = R"(#ifndef STEPBENCH_STDINT_H
#define STEPBENCH_STDINT_H
typedef signed char int8_t;
typedef signed short int16_t;
typedef signed int int32_t;
typedef signed long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef int64_t intptr_t;
typedef uint64_t uintptr_t;
typedef int64_t intmax_t;
typedef uint64_t uintmax_t;
#ifndef INT8_MAX
#define INT8_MIN (-128)
#define INT16_MIN (-32767 - 1)
#define INT32_MIN (-2147483647 - 1)
#define INT64_MIN (-9223372036854775807ll - 1)
#define INT8_MAX 127
#define INT16_MAX 32767
#define INT32_MAX 2147483647
#define INT64_MAX 9223372036854775807ll
#define UINT8_MAX 255
#define UINT16_MAX 65535
#define UINT32_MAX 4294967295u
#define UINT64_MAX 18446744073709551615ull
#endif
namespace std {
using ::int8_t; using ::int16_t; using ::int32_t; using ::int64_t;
using ::uint8_t; using ::uint16_t; using ::uint32_t; using ::uint64_t;
using ::intptr_t; using ::uintptr_t; using ::intmax_t; using ::uintmax_t;
}
#endif
)";

constexpr std::string_view kMath = R"(#ifndef STEPBENCH_MATH_H
#define STEPBENCH_MATH_H
#ifndef INFINITY
#define INFINITY (__int_as_float(0x7f800000))
#endif
#ifndef NAN
#define NAN (__int_as_float(0x7fffffff))
#endif
#ifndef HUGE_VALF
#define HUGE_VALF (__int_as_float(0x7f800000))
#define HUGE_VAL (__longlong_as_double(0x7ff0000000000000ll))
#endif
#ifndef M_PI
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_SQRT2 1.41421356237309504880
#endif
namespace std {
using ::abs; using ::fabs; using ::fmod; using ::fma; using ::fmax; using ::fmin; using ::exp; using ::exp2;
using ::expm1; using ::log; using ::log10; using ::log1p; using ::log2; using ::pow; using ::sqrt; using ::cbrt;
using ::hypot; using ::sin; using ::cos; using ::tan; using ::asin; using ::acos; using ::atan; using ::atan2;
using ::sinh; using ::cosh; using ::tanh; using ::erf; using ::erfc; using ::ceil; using ::floor; using ::trunc;
using ::round; using ::rint; using ::nearbyint; using ::ldexp; using ::frexp; using ::copysign; using ::isnan;
using ::isinf; using ::isfinite; using ::signbit;
using ::fabsf; using ::fmodf; using ::fmaf; using ::fmaxf; using ::fminf; using ::expf; using ::exp2f; using ::logf;
using ::log2f; using ::log1pf; using ::powf; using ::sqrtf; using ::tanhf; using ::floorf; using ::ceilf;
}
#endif
)";

constexpr std::string_view kLimits = R"(#ifndef STEPBENCH_LIMITS_H
#define STEPBENCH_LIMITS_H
#ifndef CHAR_BIT
#define CHAR_BIT 8
#define SCHAR_MIN (-128)
#define SCHAR_MAX 127
#define UCHAR_MAX 255
#define CHAR_MIN SCHAR_MIN
#define CHAR_MAX SCHAR_MAX
#define SHRT_MIN (-32767 - 1)
#define SHRT_MAX 32767
#define USHRT_MAX 65535
#define INT_MIN (-2147483647 - 1)
#define INT_MAX 2147483647
#define UINT_MAX 4294967295u
#define LONG_MIN (-9223372036854775807l - 1)
#define LONG_MAX 9223372036854775807l
#define ULONG_MAX 18446744073709551615ul
#define LLONG_MIN (-9223372036854775807ll - 1)
#define LLONG_MAX 9223372036854775807ll
#define ULLONG_MAX 18446744073709551615ull
#endif
#endif
)";

constexpr std::string_view kFloat = R"(#ifndef STEPBENCH_FLOAT_H
#define STEPBENCH_FLOAT_H
#ifndef FLT_MAX
#define FLT_RADIX 2
#define FLT_MANT_DIG 24
#define FLT_EPSILON 1.19209290e-7f
#define FLT_MIN 1.17549435e-38f
#define FLT_TRUE_MIN 1.40129846e-45f
#define FLT_MAX 3.40282347e+38f
#define DBL_MANT_DIG 53
#define DBL_EPSILON 2.2204460492503131e-16
#define DBL_MIN 2.2250738585072014e-308
#define DBL_MAX 1.7976931348623157e+308
#endif
#endif
)";

constexpr std::string_view kStddef = R"(#ifndef STEPBENCH_STDDEF_H
#define STEPBENCH_STDDEF_H
typedef long int ptrdiff_t;
#ifndef NULL
#define NULL 0
#endif
#ifndef offsetof
#define offsetof(type, member) __builtin_offsetof(type, member)
#endif
namespace std {
using ::size_t; using ::ptrdiff_t;
using nullptr_t = decltype(nullptr);
}
#endif
)";

// printf and assert are built into NVRTC; the headers exist so that including them is no error.
constexpr std::string_view kEmpty = "// built in\n";

// The driver's header is host code; kernels want one type of it, the opaque 128-byte descriptor (CUDA driver API
// manual).
constexpr std::string_view kCuda = R"(#ifndef STEPBENCH_CUDA_H
#define STEPBENCH_CUDA_H
struct alignas(64) CUtensorMap { unsigned long long opaque[16]; };
#endif
)";

constexpr std::array<OwnHeader, 15> kOwn = {{{"stdint.h", kStdint},
                                             {"cstdint", kStdint},
                                             {"math.h", kMath},
                                             {"cmath", kMath},
                                             {"limits.h", kLimits},
                                             {"climits", kLimits},
                                             {"float.h", kFloat},
                                             {"cfloat", kFloat},
                                             {"stddef.h", kStddef},
                                             {"cstddef", kStddef},
                                             {"stdio.h", kEmpty},
                                             {"cstdio", kEmpty},
                                             {"assert.h", kEmpty},
                                             {"cassert", kEmpty},
                                             {"cuda.h", kCuda}}};

/// Toolkit headers a candidate may name. A trailing slash allows the folder.
constexpr std::array<std::string_view, 43> kToolkit = {"cuda_fp16.h",
                                                       "cuda_bf16.h",
                                                       "cuda_fp8.h",
                                                       "cuda_fp6.h",
                                                       "cuda_fp4.h",
                                                       "vector_types.h",
                                                       "vector_functions.h",
                                                       "math_constants.h",
                                                       "cuComplex.h",
                                                       "mma.h",
                                                       "cuda_pipeline.h",
                                                       "cuda_pipeline_primitives.h",
                                                       "cuda_awbarrier.h",
                                                       "cuda_awbarrier_primitives.h",
                                                       "cooperative_groups.h",
                                                       "cooperative_groups/reduce.h",
                                                       "cooperative_groups/scan.h",
                                                       "cooperative_groups/memcpy_async.h",
                                                       "cuda_runtime.h",
                                                       "cuda_runtime_api.h",
                                                       "device_launch_parameters.h",
                                                       "device_functions.h",
                                                       "sm_20_intrinsics.h",
                                                       "sm_30_intrinsics.h",
                                                       "device_types.h",
                                                       "curand_kernel.h",
                                                       "curand_philox4x32_x.h",
                                                       "nv/target",
                                                       "cuda/ptx",
                                                       "cuda/atomic",
                                                       "cuda/barrier",
                                                       "cuda/latch",
                                                       "cuda/semaphore",
                                                       "cuda/pipeline",
                                                       "cuda/functional",
                                                       "cuda/cmath",
                                                       "cuda/bit",
                                                       "cuda/warp",
                                                       "cuda/annotated_ptr",
                                                       "cuda/std/",
                                                       "cub/block/",
                                                       "cub/warp/",
                                                       "cub/thread/"};

bool is_plain(std::string_view name) {
  const auto fine = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '/' || c == '-';
  };
  return !name.empty() && name.front() != '/' && name.find("..") == std::string_view::npos &&
         name.find("//") == std::string_view::npos && std::all_of(name.begin(), name.end(), fine);
}

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

bool read_file(const std::string& path, std::string& text) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return false;
  struct stat info {};
  bool good = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  if (good) text.resize(static_cast<size_t>(info.st_size));
  for (size_t have = 0; good && have < text.size();) {
    const ssize_t got = ::read(fd, text.data() + have, text.size() - have);
    good = got > 0;
    if (good) have += static_cast<size_t>(got);
  }
  ::close(fd);
  return good;
}

bool exists(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

/// "a/b/../c" -> "a/c"; empty when it leaves the folder.
std::string normal(std::string_view path) {
  std::vector<std::string_view> parts;
  while (!path.empty()) {
    const size_t slash = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, slash);
    path.remove_prefix(std::min(slash + 1, path.size()));
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      parts.push_back(part);
    } else if (parts.empty()) {
      return {};
    } else {
      parts.pop_back();
    }
  }
  std::string joined;
  for (const std::string_view part : parts) joined.append(joined.empty() ? "" : "/").append(part);
  return joined;
}

/// The parts of a line `# include "name" rest`; nothing when it is none.
struct IncludeParts {
  size_t open = 0, close = 0;  ///< positions of the delimiters in the line
  bool quoted = false;
};
std::optional<IncludeParts> include_parts(std::string_view line) {
  size_t at = line.find_first_not_of(" \t");
  if (at == std::string_view::npos || line[at] != '#') return std::nullopt;
  at = line.find_first_not_of(" \t", at + 1);
  if (at == std::string_view::npos || !line.substr(at).starts_with("include")) return std::nullopt;
  at += 7;
  if (line.substr(at).starts_with("_next")) at += 5;
  at = line.find_first_not_of(" \t", at);
  if (at == std::string_view::npos || (line[at] != '<' && line[at] != '"')) return std::nullopt;
  const size_t close = line.find(line[at] == '<' ? '>' : '"', at + 1);
  if (close == std::string_view::npos) return std::nullopt;
  return IncludeParts{at, close, line[at] == '"'};
}

struct Found {
  std::string name, path;
};

/// The toolkit's file for an include line in `from` (empty for the candidate's own).
std::optional<Found> resolve(const std::string& folder, const std::string& from, std::string_view name, bool quoted) {
  if (folder.empty() || name.empty() || name.front() == '/') return std::nullopt;
  std::vector<std::string> names;
  if (quoted && from.find('/') != std::string::npos)
    names.push_back(normal(from.substr(0, from.rfind('/') + 1) + std::string(name)));
  names.push_back(normal(name));
  for (const std::string& full : names) {
    if (full.empty()) continue;
    for (const char* sub : {"/", "/cccl/"})
      if (std::string path = folder + sub + full; exists(path)) return Found{full, std::move(path)};
  }
  return std::nullopt;
}

}  // namespace

SourceScan scan_source(std::string_view source) {
  SourceScan scan;
  if (const size_t nul = source.find('\0'); nul != std::string_view::npos)
    scan.nul_line =
        1 + static_cast<int>(std::count(source.begin(), source.begin() + static_cast<std::ptrdiff_t>(nul), '\n'));
  int line = 1, first_line = 1;
  std::string text;  // the logical line so far: comments are a blank, strings are kept
  const auto finish = [&] {
    std::string_view rest = text;
    const auto skip_blanks = [&] {
      while (!rest.empty() &&
             (rest.front() == ' ' || rest.front() == '\t' || rest.front() == '\v' || rest.front() == '\f'))
        rest.remove_prefix(1);
    };
    skip_blanks();
    const size_t mark = rest.starts_with("#") ? 1 : rest.starts_with("%:") ? 2 : rest.starts_with("?\?=") ? 3 : 0;
    rest.remove_prefix(mark);
    skip_blanks();
    if (mark != 0 && rest.starts_with("include")) {
      rest.remove_prefix(7);
      if (rest.starts_with("_next")) rest.remove_prefix(5);
      if (rest.empty() || !is_word(rest.front())) {
        skip_blanks();
        const char open = rest.empty() ? '\0' : rest.front();
        const size_t close = open == '<' ? rest.find('>') : open == '"' ? rest.find('"', 1) : std::string_view::npos;
        if (close == std::string_view::npos)
          scan.includes.push_back({std::string(rest), first_line, true});
        else
          scan.includes.push_back({std::string(rest.substr(1, close - 1)), first_line, false});
      }
    }
    text.clear();
  };
  const auto newline = [&] { ++line; };
  size_t word_begin = 0;
  const auto end_word = [&] {
    const std::string_view word = std::string_view(text).substr(word_begin);
    if (scan.clock_macro.empty() && (word == "__DATE__" || word == "__TIME__" || word == "__TIMESTAMP__")) {
      scan.clock_macro = word;
      scan.clock_line = line;
    }
  };
  for (size_t i = 0; i < source.size();) {
    const char c = source[i];
    const auto at = [&](size_t offset) { return i + offset < source.size() ? source[i + offset] : '\0'; };
    if (c == '\\' && (at(1) == '\n' || (at(1) == '\r' && at(2) == '\n'))) {  // splice
      newline();
      i += at(1) == '\n' ? 2 : 3;
      continue;
    }
    if (is_word(c)) {
      if (text.empty() || !is_word(text.back())) word_begin = text.size();
      text += c;
      ++i;
      continue;
    }
    if (!text.empty() && is_word(text.back())) end_word();
    const bool after_word = !text.empty() && is_word(text.back());
    if (c == '\n') {
      finish();
      newline();
      first_line = line;
      ++i;
    } else if (c == '/' && at(1) == '/') {
      while (i < source.size() && source[i] != '\n') {
        if (source[i] == '\\' && (at(1) == '\n' || (at(1) == '\r' && at(2) == '\n'))) {
          newline();
          i += at(1) == '\n' ? 1 : 2;
        }
        ++i;
      }
    } else if (c == '/' && at(1) == '*') {
      const size_t close = source.find("*/", i + 2);
      const size_t end = close == std::string_view::npos ? source.size() : close + 2;
      for (; i < end; ++i)
        if (source[i] == '\n') newline();
      text += ' ';
    } else if (c == '"' && after_word && text.back() == 'R') {  // raw string, with or without an encoding prefix
      const size_t open = source.find('(', i);
      const std::string end_mark =
          open == std::string_view::npos ? "\"" : ")" + std::string(source.substr(i + 1, open - i - 1)) + "\"";
      const size_t close = open == std::string_view::npos ? open : source.find(end_mark, open);
      const size_t end = close == std::string_view::npos ? source.size() : close + end_mark.size();
      for (; i < end; ++i)
        if (source[i] == '\n') newline();
      text += "\"\"";
    } else if (c == '"' || (c == '\'' && (!after_word || text.back() == 'u' || text.back() == 'U' ||
                                          text.back() == 'L' || text.ends_with("u8")))) {
      text += c;
      ++i;
      // An include line's name has no escapes; elsewhere a literal ends at its quote or, being wrong, at the line's
      // end.
      while (i < source.size() && source[i] != c && source[i] != '\n') {
        if (source[i] == '\\' && i + 1 < source.size()) {
          if (source[i + 1] == '\n') newline();
          text += source[i++];
        }
        text += source[i++];
      }
      if (i < source.size() && source[i] == c) text += source[i++];
    } else {
      if (c != '\r') text += c;
      ++i;
    }
  }
  if (!text.empty() && is_word(text.back())) end_word();
  finish();
  return scan;
}

bool is_allowed_header(std::string_view name) {
  if (own_header(name) || name == "stepbench.cuh") return true;
  if (!is_plain(name)) return false;
  return std::any_of(kToolkit.begin(), kToolkit.end(), [&](std::string_view allowed) {
    return allowed.back() == '/' ? name.size() > allowed.size() && name.starts_with(allowed) : name == allowed;
  });
}

std::optional<std::string_view> own_header(std::string_view name) {
  for (const OwnHeader& header : kOwn)
    if (header.name == name) return header.text;
  return std::nullopt;
}

std::string own_headers_text() {
  std::string text;
  for (const OwnHeader& header : kOwn) text.append(header.name).append("\n").append(header.text);
  return text;
}

std::string allowed_headers_text() {
  std::string text = "stepbench.cuh";
  for (const OwnHeader& header : kOwn) text.append(" ").append(header.name);
  for (const std::string_view name : kToolkit) text.append(" ").append(name).append(name.back() == '/' ? "*" : "");
  return text;
}

std::string suggested_header(std::string_view name) {
  constexpr std::array<std::string_view, 16> kDevice = {
      "limits", "type_traits", "utility", "array", "tuple",   "algorithm", "numeric", "functional",
      "bit",    "complex",     "atomic",  "span",  "barrier", "optional",  "variant", "initializer_list"};
  if (std::find(kDevice.begin(), kDevice.end(), name) != kDevice.end()) return "cuda/std/" + std::string(name);
  if (name == "cub/cub.cuh") return "cub/block/block_reduce.cuh";
  return {};
}

Result<std::string> find_include_folder() {
  const auto missing = [](const std::string& found) {
    return Error{
        ErrorCode::kUnavailable,
        "toolkit headers missing; run `make deps` or set STEPBENCH_CUDA_INCLUDE to a CUDA toolkit's include folder", "",
        "a folder with cuda_fp16.h", found};
  };
  const char* set = std::getenv("STEPBENCH_CUDA_INCLUDE");
  if (set != nullptr && *set != '\0') {
    if (exists(std::string(set) + "/cuda_fp16.h")) return std::string(set);
    return missing(set);
  }
  for (const std::string& folder : toolkit_folders({"include", "targets/x86_64-linux/include"}))
    if (exists(folder + "/cuda_fp16.h")) return folder;
  return missing("none");
}

Result<HeaderSet> collect_headers(const std::string& folder, const std::vector<std::string>& names) {
  HeaderSet set;
  std::set<std::string, std::less<>> seen;
  std::vector<Found> open;
  const auto add_own = [&](std::string_view name) {
    const std::optional<std::string_view> text = own_header(name);
    if (text && seen.insert(std::string(name)).second) set.headers.emplace_back(name, *text);
    return text.has_value();
  };
  const auto add_file = [&](Found found) {
    if (seen.insert(found.name).second) open.push_back(std::move(found));
  };
  for (const std::string& name : names) {
    if (add_own(name)) continue;
    std::optional<Found> found = resolve(folder, "", name, false);
    if (!found)
      return Error{ErrorCode::kUnavailable, "toolkit headers missing: this CUDA toolkit has no " + name, folder,
                   "run `make deps` or set STEPBENCH_CUDA_INCLUDE", "no such file"};
    add_file(std::move(*found));
  }
  bool thrust = false;
  while (!open.empty()) {
    const Found file = std::move(open.back());
    open.pop_back();
    std::string text;
    if (!read_file(file.path, text))
      return Error{ErrorCode::kUnavailable, "toolkit headers missing: cannot read one", file.path, "", ""};
    std::string rewritten;
    rewritten.reserve(text.size() + 1024);
    size_t copied = 0;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      const std::string_view line = std::string_view(text).substr(begin, end - begin);
      if (const std::optional<IncludeParts> parts = include_parts(line)) {
        const std::string_view name = line.substr(parts->open + 1, parts->close - parts->open - 1);
        if (!add_own(name)) {
          if (std::optional<Found> found = resolve(folder, file.name, name, parts->quoted)) {
            rewritten.append(text, copied, begin + parts->open - copied).append("<").append(found->name).append(">");
            copied = begin + parts->close + 1;
            add_file(std::move(*found));
          }
        }
      }
      begin = end + 1;
    }
    rewritten.append(text, copied, std::string::npos);
    set.headers.emplace_back(file.name, std::move(rewritten));
    set.files.push_back(file.path);
    // thrust, which CUB pulls in, includes these two through macros.
    if (!thrust && file.name.starts_with("thrust/")) {
      thrust = true;
      for (const char* name :
           {"thrust/system/cuda/detail/execution_policy.h", "thrust/system/cpp/detail/execution_policy.h"})
        if (std::optional<Found> found = resolve(folder, "", name, false)) add_file(std::move(*found));
    }
  }
  std::sort(set.headers.begin(), set.headers.end());
  std::sort(set.files.begin(), set.files.end());
  return set;
}

}  // namespace stepbench
