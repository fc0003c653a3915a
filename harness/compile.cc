// The parent's side of a compilation: checks what the plan asks of the compiler, gathers headers, asks the cache, else
// a compile child, and turns what comes back into a module or a verdict. Longer than most files because the whole
// judgement of one compilation is in it. What it does not do: look at what the code does (admission.cc).
#include <cxxabi.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <csignal>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <set>

#include "harness/cache.h"
#include "harness/child_process.h"
#include "harness/compile_child.h"
#include "harness/fields.h"
#include "harness/headers.h"
#include "harness/nvrtc.h"
#include "harness/stages.h"

namespace stepbench {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kFormat = "compiled 1";    // part of every cache key: change it with the rules of this file
constexpr const char* kProgramName = "candidate.cu";  // fixed: it leaks into symbol names (seen, NVRTC 13.0)
constexpr const char* kPlanLines = "plan defines";    // where the lines of the defines are reported
constexpr size_t kLogLimit_bytes = 64 << 10;
constexpr const char* kCheck = "compile";
constexpr const char* kReplacement = "\xEF\xBF\xBD";  // U+FFFD

double since_ms(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

Failure failure(Verdict verdict, std::string message, std::string place = {}, std::string detail = {}) {
  Failure result;
  result.verdict = verdict;
  result.message = std::move(message);
  result.place = std::move(place);
  result.check = kCheck;
  result.detail = std::move(detail);
  return result;
}

// --------------------------------------------------------------------------------------------- text

/// Last part of the path, safe inside the quotes of a #line directive.
std::string base_name(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  for (char& c : name)
    if (static_cast<unsigned char>(c) < 32 || c == '"' || c == '\\' || c == 127) c = '_';
  return name.empty() ? kProgramName : name;
}

/// Length of the well-formed UTF-8 sequence at the front, or 0 (Unicode 15, table 3-7).
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto tail = [&](size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return tail(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const unsigned low = lead == 0xE0 ? 0xA0 : 0x80, high = lead == 0xED ? 0x9F : 0xBF;
    return byte(1) >= low && byte(1) <= high && tail(2) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const unsigned low = lead == 0xF0 ? 0x90 : 0x80, high = lead == 0xF4 ? 0x8F : 0xBF;
    return byte(1) >= low && byte(1) <= high && tail(2) && tail(3) ? 4 : 0;
  }
  return 0;
}

/// Text cut at the limit, between characters, with a mark.
std::string bounded(std::string text) {
  if (text.size() <= kLogLimit_bytes) return text;
  size_t end = kLogLimit_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  const size_t dropped = text.size() - end;
  text.resize(end);
  return text + fmt::format("\n[... cut, {} more bytes]\n", dropped);
}

/// Compiler output as it may be shown and stored: valid UTF-8, no control characters, no folders.
std::string sanitised(const std::string& log) {
  std::string text;
  std::string_view rest = log;
  bool line_start = true;
  while (!rest.empty()) {
    if (line_start) {
      // "/some/where/file(3): error": only a #line directive of the author's can have put a folder there.
      const size_t open = rest.find('('), end = rest.find('\n');
      const size_t slash =
          open != std::string_view::npos && open < end ? rest.substr(0, open).rfind('/') : std::string_view::npos;
      if (slash != std::string_view::npos && rest.front() == '/') rest.remove_prefix(slash + 1);
      line_start = false;
    }
    const size_t length = utf8_length(rest);
    const char c = rest.front();
    if (length == 0) {
      text += kReplacement;
    } else if (length > 1 || c == '\n' || c == '\t' || (static_cast<unsigned char>(c) >= 32 && c != 127)) {
      text.append(rest.substr(0, length));
    }
    line_start = c == '\n';
    rest.remove_prefix(std::max<size_t>(length, 1));
  }
  return text;
}

/// A compilation's log for the author: sanitised, and under the author's file name.
std::string author_log(const std::string& log, const std::string& file) {
  std::string text = sanitised(log);
  const std::string fixed = fmt::format("\"{}\".", kProgramName);
  for (size_t at = text.find(fixed); at != std::string::npos; at = text.find(fixed, at + file.size() + 3))
    text.replace(at, fixed.size(), "\"" + file + "\".");
  return text;
}

/// First error of a log: "file:line: text" and its place.
struct FirstError {
  std::string message, place;
};
FirstError first_error(const std::string& log) {
  std::string_view rest = log, fallback;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    for (const std::string_view kind : {"): error", "): catastrophic error", "): internal error"}) {
      const size_t at = line.find(kind);
      if (at == std::string_view::npos) continue;
      const size_t open = line.substr(0, at).rfind('('), colon = line.find(": ", at + kind.size());
      if (open == std::string_view::npos || colon == std::string_view::npos) continue;
      const std::string place = fmt::format("{}:{}", line.substr(0, open), line.substr(open + 1, at - open - 1));
      return {fmt::format("{}: {}", place, line.substr(colon + 2)), place};
    }
    if (fallback.empty() &&
        (line.find("error") != std::string_view::npos || line.find("fatal") != std::string_view::npos))
      fallback = line;
  }
  return {fallback.empty() ? "the compiler gave no reason" : std::string(fallback), {}};
}

/// Place in the author's source of line `ptx_line` of PTX compiled with line information: the last `.loc` before it.
/// PTX ISA, "Debugging directives".
std::string source_place(const std::string& ptx, int64_t ptx_line) {
  int64_t line_number = 0, file = 0, source_line = 0;
  std::map<int64_t, std::string> files;
  std::string_view rest = ptx;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    ++line_number;
    const std::string text(line.substr(std::min(line.find_first_not_of(" \t"), line.size())));
    long long a = 0, b = 0;
    char name[256] = "";
    if (line_number <= ptx_line && std::sscanf(text.c_str(), ".loc %lld %lld", &a, &b) == 2) {
      file = a;
      source_line = b;
    } else if (std::sscanf(text.c_str(), ".file %lld \"%255[^\"]\"", &a, name) == 2) {
      files[a] = base_name(name);
    }
  }
  return files.contains(file) && source_line > 0 ? fmt::format("{}:{}", files[file], source_line) : std::string();
}

/// ptxas knows only lines of PTX: "ptxas <stdin>, line 33; error   : Unknown modifier".
FirstError first_ptxas_error(const std::string& log, const std::string& ptx) {
  const size_t at = log.find("; error"), begin = log.rfind("line ", at);
  if (at == std::string::npos || begin == std::string::npos) return first_error(log);
  const std::string place = source_place(ptx, std::atoll(log.c_str() + begin + 5));
  const size_t colon = log.find(": ", at);
  std::string text = colon == std::string::npos ? "the assembler refused this code"
                                                : log.substr(colon + 2, log.find('\n', colon) - colon - 2);
  text += " (from the assembler, ptxas)";
  return {place.empty() ? text : place + ": " + text, place};
}

std::string joined(const std::vector<std::string>& parts) { return fmt::format("{}", fmt::join(parts, ", ")); }

// --------------------------------------------------------------------------------------------- options

constexpr const char* kOptionList =
    "--fmad=true|false --use_fast_math --ftz=true|false --prec-div=true|false --prec-sqrt=true|false "
    "--maxrregcount=16..255 "
    "--std=c++14|c++17|c++20 --extra-device-vectorization --restrict --ptxas-options=-O0..-O3";

/// The plan's options in NVRTC's long spelling, or the first one that is not on the list.
Judged<std::vector<std::string>> checked_options(const std::vector<std::string>& wanted) {
  std::vector<std::string> options;
  std::set<std::string> names;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto refuse = [&](std::string_view why) {
      return failure(Verdict::kBadCandidate,
                     fmt::format("option \"{}\" {}; allowed: {}", sanitised(wanted[i]), why, kOptionList),
                     fmt::format("/options/{}", i));
    };
    const std::string& option = wanted[i];
    const size_t equals = std::min(option.find('='), option.size());
    std::string name = option.substr(0, equals);
    const std::string value = option.substr(std::min(equals + 1, option.size()));
    const bool has_value = equals < option.size();
    if (name.starts_with("--"))
      name.erase(0, 2);
    else if (name.starts_with("-"))
      name.erase(0, 1);
    else
      return refuse("is not on the list");
    if (name == "Xptxas") name = "ptxas-options";
    bool right = false;
    if (name == "use_fast_math" || name == "extra-device-vectorization" || name == "restrict") {
      right = !has_value;
    } else if (name == "fmad" || name == "ftz" || name == "prec-div" || name == "prec-sqrt") {
      right = value == "true" || value == "false";
    } else if (name == "std") {
      right = value == "c++14" || value == "c++17" || value == "c++20";
    } else if (name == "ptxas-options") {
      right = value == "-O0" || value == "-O1" || value == "-O2" || value == "-O3";
    } else if (name == "maxrregcount") {
      const bool digits =
          !value.empty() && value.size() <= 3 && value.find_first_not_of("0123456789") == std::string::npos;
      const int count = digits ? std::atoi(value.c_str()) : 0;
      right = count >= 16 && count <= 255;
    } else {
      return refuse("is not on the list");
    }
    if (!right) return refuse("has a value that is not allowed");
    if (!names.insert(name).second) return refuse("is given twice");
    options.push_back("--" + name + (has_value ? "=" + value : ""));
  }
  return options;
}

// --------------------------------------------------------------------------------------------- kernels

struct WantedKernel {
  std::string name, pointer;
};

void gather_kernels(const std::vector<PlanLaunch>& launches, std::vector<WantedKernel>& kernels) {
  for (const PlanLaunch& launch : launches) {
    gather_kernels(launch.launches, kernels);
    if (!launch.launches.empty() || launch.kernel.empty() || !launch.library.empty()) continue;
    const bool known = std::any_of(kernels.begin(), kernels.end(),
                                   [&](const WantedKernel& kernel) { return kernel.name == launch.kernel; });
    if (!known) kernels.push_back({launch.kernel, launch.pointer});
  }
}

/// "a::k<float>" for "_ZN1a1kIfEEvPT_"; the text itself when it is no mangled name.
std::string demangled(const std::string& entry) {
  int status = 0;
  char* text = abi::__cxa_demangle(entry.c_str(), nullptr, nullptr, &status);
  if (text == nullptr) return entry;
  std::string name = text;
  std::free(text);
  int depth = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    depth += name[i] == '<';
    depth -= name[i] == '>';
    if (depth == 0 && name[i] == '(' && name.compare(i, 21, "(anonymous namespace)") != 0) {
      name.resize(i);
      break;
    }
  }
  return name.starts_with("void ") ? name.substr(5) : name;
}

/// Names behind __global__ in the source: templates have no entry until something asks for an instance.
std::vector<std::string> declared_kernels(const std::string& source) {
  std::vector<std::string> names;
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (size_t at = source.find("__global__"); at != std::string::npos; at = source.find("__global__", at + 1)) {
    for (size_t open = source.find('(', at); open != std::string::npos && open < at + 400;
         open = source.find('(', open + 1)) {
      size_t end = open;
      while (end > at && std::isspace(static_cast<unsigned char>(source[end - 1])) != 0) --end;
      size_t begin = end;
      while (begin > at && is_word(source[begin - 1])) --begin;
      const std::string name = source.substr(begin, end - begin);
      if (name.empty() || name.starts_with("__")) continue;  // __launch_bounds__(...) and its like
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
      break;
    }
  }
  return names;
}

/// Fewest insertions, deletions and replacements between two words (Wagner and Fischer 1974).
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

std::vector<std::string> present_kernels(const std::string& ptx, const std::string& source) {
  std::vector<std::string> present;
  for (const std::string& entry : ptx_entries(ptx)) present.push_back(demangled(entry));
  for (const std::string& name : declared_kernels(source)) {
    const bool listed = std::any_of(present.begin(), present.end(), [&](const std::string& kernel) {
      const std::string bare = kernel.substr(0, kernel.find('<'));
      return bare == name || bare.ends_with("::" + name);
    });
    if (!listed) present.push_back(name);
  }
  return present;
}

Failure kernel_not_found(const WantedKernel& wanted, const std::vector<std::string>& present,
                         const std::string& detail) {
  std::string nearest;
  size_t least = wanted.name.size() / 2 + 1;
  for (const std::string& name : present) {
    const size_t distance = edit_distance(wanted.name, name);
    if (distance < least) {
      least = distance;
      nearest = name;
    }
  }
  std::string message = fmt::format("kernel \"{}\" not found", sanitised(wanted.name));
  message += present.empty() ? "; there are no kernels" : "; kernels present: " + joined(present);
  if (!nearest.empty()) message += fmt::format("; did you mean \"{}\"?", nearest);
  return failure(Verdict::kBadCandidate, message, wanted.pointer + "/kernel", detail);
}

Failure plan_needed(const std::vector<std::string>& present, const TaskSpec& task) {
  std::string args;
  for (const std::string& arg : task.default_args) args += (args.empty() ? "\"" : ", \"") + arg + "\"";
  const std::string name = present.empty() ? "my_kernel" : present.front();
  const std::string example = fmt::format(
      "/*stepbench\n{{ \"task\": \"{}\",\n  \"launches\": [ {{\"for\": \"tensor\", \"kernel\": \"{}\", \"grid\": "
      "\"ceil_div(n, 256)\", \"block\": 256,\n                 \"args\": [{}]}} ] }}\n*/\n",
      task.id, name, args);
  return failure(Verdict::kBadCandidate,
                 present.empty()
                     ? "the file has no kernel"
                     : fmt::format("the file has {} kernels and no plan that says which to launch; kernels present: {}",
                                   present.size(), joined(present)),
                 "", "a plan is needed; a minimal one, as the file's first comment:\n" + example);
}

/// Maps the plan's kernels to the entries of compiled code.
std::optional<Failure> find_entries(const std::vector<WantedKernel>& kernels,
                                    const std::vector<std::pair<std::string, std::string>>& lowered,
                                    const Candidate& candidate, const TaskSpec& task, CompiledModule& module) {
  const std::vector<std::string> entries = ptx_entries(module.ptx);
  if (candidate.default_plan) {
    if (entries.size() != 1) return plan_needed(present_kernels(module.ptx, candidate.source), task);
    module.entries[""] = entries.front();
    return std::nullopt;
  }
  for (const WantedKernel& kernel : kernels) {
    std::string entry = kernel.name;
    for (const auto& [name, symbol] : lowered)
      if (name == kernel.name) entry = symbol;
    if (std::find(entries.begin(), entries.end(), entry) == entries.end())
      return kernel_not_found(kernel, present_kernels(module.ptx, candidate.is_ptx ? "" : candidate.source), "");
    module.entries[kernel.name] = entry;
  }
  return std::nullopt;
}

// --------------------------------------------------------------------------------------------- source

/// The author's text as NVRTC takes it: no byte order mark, plain line ends, and U+FFFD for bytes that are no UTF-8
/// (NVRTC 13.0 takes a byte 0xFF for the end of the file).
std::string clean_source(std::string_view source) {
  if (source.starts_with("\xEF\xBB\xBF")) source.remove_prefix(3);
  std::string text;
  text.reserve(source.size() + 1);
  while (!source.empty()) {
    const size_t length = utf8_length(source);
    if (length == 0) {
      text += kReplacement;
    } else if (source.front() != '\r' || source.size() == 1 || source[1] != '\n') {
      text.append(source.substr(0, length));
    }
    source.remove_prefix(std::max<size_t>(length, 1));
  }
  if (!text.ends_with('\n')) text += '\n';
  return text;
}

/// A define's name or value, kept from reaching past its line.
std::string one_line(std::string value) {
  for (char& c : value)
    if (c == '\n' || c == '\r' || c == '\0') c = ' ';
  while (value.ends_with('\\')) value.pop_back();
  return value;
}

std::string with_defines(const Plan& plan, const std::string& file, const std::string& source) {
  std::string text = fmt::format("#line 1 \"{}\"\n", kPlanLines);
  for (const auto& [name, value] : plan.defines)
    text += fmt::format("#define {} {}\n", one_line(name), one_line(value));
  return text + fmt::format("#line 1 \"{}\"\n", file) + source;
}

/// A header that does not see the plan's defines: one named `T`, `N` or `size` would break most of the toolkit's. NVRTC
/// has no push_macro, so a define that was there is made again behind the header; `index` keeps nested headers apart.
std::string shielded(const std::string& header, size_t index, const Plan& plan) {
  std::string before, after;
  std::set<std::string> names;
  for (const auto& [name, value] : plan.defines) {
    const std::string bare = name.substr(0, name.find('('));
    const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
    if (bare.empty() || !std::all_of(bare.begin(), bare.end(), is_word) || !names.insert(bare).second) continue;
    before += fmt::format("#ifdef {0}\n#undef {0}\n#define STEPBENCH_HID_{1}_{0}\n#endif\n", bare, index);
    after += fmt::format("#ifdef STEPBENCH_HID_{1}_{0}\n#undef STEPBENCH_HID_{1}_{0}\n#define {2} {3}\n#endif\n", bare,
                         index, one_line(name), one_line(value));
  }
  return names.empty() ? header : before + "#line 1\n" + header + "\n" + after;
}

/// Looks at the source before any compiler does. On success `headers` holds the names that it includes.
std::optional<Failure> check_source(const std::string& source, const std::string& file,
                                    std::vector<std::string>& headers) {
  const SourceScan scan = scan_source(source);
  const auto at = [&](int line) { return fmt::format("{}:{}", file, line); };
  if (scan.nul_line != 0)
    return failure(Verdict::kCompileError, fmt::format("{}: the source has a NUL byte", at(scan.nul_line)),
                   at(scan.nul_line));
  if (scan.clock_line != 0)
    return failure(Verdict::kCompileError,
                   fmt::format("{}: {} is not available, because every build of a source must be the same",
                               at(scan.clock_line), scan.clock_macro),
                   at(scan.clock_line));
  for (const IncludeLine& include : scan.includes) {
    const std::string place = at(include.line), name = sanitised(include.name);
    if (include.computed)
      return failure(Verdict::kCompileError,
                     fmt::format("{}: an include line must name its header between <> or \"\", found {}", place, name),
                     place);
    if (!is_allowed_header(include.name)) {
      const std::string instead = suggested_header(include.name);
      return failure(Verdict::kCompileError,
                     fmt::format("{}: header {} is not on the list{}", place, name,
                                 instead.empty() ? "" : "; write <" + instead + "> instead"),
                     place, "headers that a candidate may include: " + allowed_headers_text() + "\n");
    }
    if (std::find(headers.begin(), headers.end(), include.name) == headers.end()) headers.push_back(include.name);
  }
  return std::nullopt;
}

// --------------------------------------------------------------------------------------------- facts kept in the cache

/// A file as it was when something was found out about it; empty when it is gone.
std::string identity(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return {};
  return fmt::format("{}|{}|{}.{:09}", path, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
}

std::string key_of(std::string_view kind, const std::vector<std::string>& parts) {
  FieldWriter fields;
  fields.text(kFormat);
  fields.text(kind);
  fields.texts(parts);
  return sha256_hex(fields.take());
}

/// Version of NVRTC and its size, which tells patch releases apart; loads the library only when the cache does not
/// know.
Result<std::string> compiler_version(const std::string& library, const std::string& folder) {
  const std::string key = key_of("nvrtc", {identity(library)});
  if (std::optional<std::string> known = read_cache(folder, key)) return std::move(*known);
  const Result<Nvrtc> loaded = Nvrtc::load(library);
  if (!loaded.ok()) return loaded.error();
  const std::string version = loaded.value().version();
  static_cast<void>(write_cache(folder, key, version));  // a cache that cannot be written costs time only
  return version;
}

/// Hash over all headers that `names` bring in. `set` is filled only when they had to be read for it.
Result<std::string> headers_hash(const std::vector<std::string>& names, const std::string& include_folder,
                                 const std::string& folder, std::optional<HeaderSet>& set) {
  std::vector<std::string> parts = names;
  std::sort(parts.begin(), parts.end());
  parts.push_back(include_folder);
  parts.push_back(own_headers_text());
  const std::string key = key_of("headers", parts);
  if (const std::optional<std::string> known = read_cache(folder, key)) {
    FieldReader fields(*known);
    std::string hash = fields.text();
    const auto files = fields.pairs();
    const bool same = fields.at_end() && std::all_of(files.begin(), files.end(), [](const auto& file) {
                        return identity(file.first) == file.second;
                      });
    if (same) return hash;
  }
  Result<HeaderSet> read = collect_headers(include_folder, names);
  if (!read.ok()) return read.error();
  set = std::move(read).value();
  FieldWriter text, fact;
  text.pairs(set->headers);
  const std::string hash = sha256_hex(text.take());
  std::vector<std::pair<std::string, std::string>> files;
  for (const std::string& path : set->files) files.emplace_back(path, identity(path));
  fact.text(hash);
  fact.pairs(files);
  static_cast<void>(write_cache(folder, key, fact.take()));
  return hash;
}

std::string encode_module(const CompiledModule& module) {
  FieldWriter fields;
  fields.text(module.ptx);
  fields.text(std::string_view(reinterpret_cast<const char*>(module.cubin.data()), module.cubin.size()));
  fields.text(module.arch);
  fields.text(module.compiler);
  fields.text(module.log);
  fields.pairs({module.entries.begin(), module.entries.end()});
  fields.number(module.resources.size());
  for (const KernelResources& kernel : module.resources) {
    fields.text(kernel.entry);
    for (const int32_t value : {kernel.registers, kernel.spill_store_bytes, kernel.spill_load_bytes, kernel.stack_bytes,
                                kernel.shared_bytes, kernel.constant_bytes})
      fields.number(static_cast<uint32_t>(value));
  }
  return fields.take();
}

void set_cubin(CompiledModule& module, std::string_view bytes) {
  module.cubin.resize(bytes.size());
  std::transform(bytes.begin(), bytes.end(), module.cubin.begin(), [](char c) { return static_cast<std::byte>(c); });
}

std::optional<CompiledModule> decode_module(std::string_view bytes) {
  FieldReader fields(bytes);
  CompiledModule module;
  module.ptx = fields.text();
  set_cubin(module, fields.view());
  module.arch = fields.text();
  module.compiler = fields.text();
  module.log = fields.text();
  for (auto& [kernel, entry] : fields.pairs()) module.entries[kernel] = entry;
  for (uint64_t left = fields.number(); fields.ok() && left > 0; --left) {
    KernelResources kernel;
    kernel.entry = fields.text();
    for (int32_t* value : {&kernel.registers, &kernel.spill_store_bytes, &kernel.spill_load_bytes, &kernel.stack_bytes,
                           &kernel.shared_bytes, &kernel.constant_bytes})
      *value = static_cast<int32_t>(static_cast<uint32_t>(fields.number()));
    module.resources.push_back(std::move(kernel));
  }
  if (!fields.at_end()) return std::nullopt;
  return module;
}

// --------------------------------------------------------------------------------------------- the child

std::string fresh_nonce() {
  std::array<unsigned char, 16> bytes{};
  SB_ASSERT(::getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

bool speaks_of_memory(const std::string& text) {
  for (const char* words : {"bad_alloc", "out of memory", "Out of memory", "cannot allocate", "memory exhausted"})
    if (text.find(words) != std::string::npos) return true;
  return false;
}

Failure out_of_memory(const CompileOptions& options) {
  return failure(Verdict::kCompileError,
                 fmt::format("compilation needed more than {} MiB of memory; template recursion or a huge "
                             "unrolled loop?",
                             options.memory_limit_bytes >> 20));
}

/// What a child that did not finish says about the candidate. Error when it had not begun with it.
Result<Failure> judge_ending(const ChildResult& child, const CompileAnswer& answer, const CompileOptions& options) {
  const std::string said = sanitised(child.err + child.out);
  if (!answer.ready && child.ending != ChildEnding::kAnswerLimit)
    return Error{ErrorCode::kInternal, "the compile child ended before it began to compile",
                 own_binary() + " __compile", "",
                 child.ending == ChildEnding::kExited      ? fmt::format("exit code {}: {}", child.exit_code, said)
                 : child.ending == ChildEnding::kSignalled ? fmt::format("signal {}: {}", child.signal, said)
                                                           : "its time ran out while it loaded NVRTC"};
  constexpr const char* kHint = "; template recursion or a huge unrolled loop?";
  switch (child.ending) {
    case ChildEnding::kCpuLimit:
      return failure(Verdict::kTimeout,
                     fmt::format("compilation used more than {} s of CPU time{}", options.cpu_limit_s, kHint));
    case ChildEnding::kWallLimit:
      return failure(Verdict::kTimeout, fmt::format("compilation took more than {} s{}", options.wall_limit_s, kHint));
    case ChildEnding::kAnswerLimit:
      return failure(Verdict::kCompileError,
                     fmt::format("the compiled code is larger than {} MiB", options.output_limit_bytes >> 20));
    case ChildEnding::kSignalled:
      if (speaks_of_memory(said)) return out_of_memory(options);
      // Its own limits end a compiler in other ways, so this came from outside and is not the candidate's fault.
      if (child.signal == SIGKILL)
        return Error{ErrorCode::kResource, "the compiler was killed from outside", own_binary() + " __compile", "",
                     said};
      return failure(Verdict::kCompileError, fmt::format("compiler crashed (signal {})", child.signal), "", said);
    case ChildEnding::kExited:
      if (speaks_of_memory(said)) return out_of_memory(options);
      return failure(Verdict::kCompileError, fmt::format("compiler gave up (exit code {})", child.exit_code), "", said);
  }
  SB_ASSERT(false);
  return Failure{};
}

/// What NVRTC's refusal says about the candidate.
Failure judge_refusal(const CompileAnswer& answer, const std::vector<WantedKernel>& kernels, const Candidate& candidate,
                      const CompileOptions& options) {
  const NvrtcOutput& output = answer.output;
  const std::string file = base_name(candidate.path);
  std::string log;
  static_cast<void>(parse_resources(author_log(output.log, file), log));
  if (output.status == kNvrtcOutOfMemory || speaks_of_memory(log)) return out_of_memory(options);
  if (answer.names_refused) {
    if (answer.plain.status != kNvrtcSuccess) {
      const std::string plain_log = author_log(answer.plain.log, file);
      const FirstError error = first_error(plain_log);
      return failure(Verdict::kCompileError, error.message, error.place, bounded(plain_log));
    }
    const FirstError error = first_error(log);
    // Sound by itself, but not with one of the plan's names: an instance that does not compile, or a name that is none.
    if (!error.place.starts_with("__nv_name_map"))
      return failure(Verdict::kCompileError, error.message, error.place, bounded(log));
    for (const WantedKernel& kernel : kernels)
      if (log.find("was: \" " + kernel.name + "\"") != std::string::npos ||
          log.find("was: \"" + kernel.name + "\"") != std::string::npos)
        return kernel_not_found(kernel, present_kernels(answer.plain.ptx, candidate.source), bounded(log));
    return kernel_not_found(kernels.front(), present_kernels(answer.plain.ptx, candidate.source), bounded(log));
  }
  const FirstError error = answer.refused_ptx.empty() ? first_error(log) : first_ptxas_error(log, answer.refused_ptx);
  return failure(Verdict::kCompileError, error.message, error.place, bounded(log));
}

/// Number and letter of an architecture's name: "sm_90a" -> 90, "a". Number 0 when it is no such name.
struct Architecture {
  int number = 0;
  std::string suffix;
};
Architecture architecture_of(std::string_view name) {
  const std::string_view prefix = "sm_";
  if (!name.starts_with(prefix)) return {};
  name.remove_prefix(prefix.size());
  const size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
  const std::string_view suffix = name.substr(digits);
  if (digits == 0 || digits > 4 || (suffix != "" && suffix != "a" && suffix != "f")) return {};
  return {std::atoi(std::string(name.substr(0, digits)).c_str()), std::string(suffix)};
}

/// PTX begins with .version and .target (PTX ISA, "PTX Module Directives"). Code for an older architecture runs on a
/// newer one, code for an architecture with a letter on that one alone.
std::optional<Failure> check_ptx_head(const std::string& ptx, const std::string& arch, const std::string& file) {
  const auto wrong = [&](int64_t line, std::string message) {
    return failure(Verdict::kBadCandidate, std::move(message), fmt::format("{}:{}", file, line));
  };
  bool in_comment = false, has_version = false;
  int64_t number = 0;
  for (std::string_view rest = ptx; !rest.empty();) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    ++number;
    if (in_comment) {
      const size_t end = line.find("*/");
      if (end == std::string_view::npos) continue;
      line.remove_prefix(end + 2);
      in_comment = false;
    }
    line.remove_prefix(std::min(line.find_first_not_of(" \t\r"), line.size()));
    if (line.empty() || line.starts_with("//")) continue;
    if (line.starts_with("/*")) {
      in_comment = line.find("*/", 2) == std::string_view::npos;
      continue;
    }
    const std::string word(line.substr(0, std::min(line.find_first_of(" \t\r,;"), size_t{40})));
    if (!has_version) {
      if (word != ".version")
        return wrong(number, fmt::format("this is not PTX: expected .version, found '{}'", sanitised(word)));
      has_version = true;
      continue;
    }
    if (word != ".target") return std::nullopt;  // the parser's to say
    line.remove_prefix(std::min(line.find_first_not_of(" \t", word.size()), line.size()));
    const std::string name(line.substr(0, line.find_first_of(" \t\r,;/")));
    const Architecture target = architecture_of(name), device = architecture_of(arch);
    if (target.number == 0)
      return wrong(number, fmt::format("unknown .target (expected {} or older, found '{}')", arch,
                                       sanitised(name.substr(0, 40))));
    const bool runs = target.suffix.empty() ? target.number <= device.number
                                            : target.number == device.number && target.suffix == device.suffix;
    if (!runs) return wrong(number, fmt::format("code for {} does not run on {}: compile it for {}", name, arch, arch));
    return std::nullopt;
  }
  return std::nullopt;
}

Result<Judged<CompiledModule>> compile_ptx(const Candidate& candidate, const TaskSpec& task,
                                           const CompileOptions& options, Clock::time_point start) {
  CompiledModule module;
  module.ptx = candidate.source;
  module.arch = options.arch;
  module.compiler = "none";
  module.key = key_of("ptx", {candidate.source});
  if (module.ptx.find('\0') != std::string::npos)
    return Judged<CompiledModule>(failure(Verdict::kCompileError, "the PTX has a NUL byte"));
  const std::string file = base_name(candidate.path);
  if (std::optional<Failure> wrong = check_ptx_head(candidate.source, options.arch, file))
    return Judged<CompiledModule>(std::move(*wrong));
  std::vector<WantedKernel> kernels;
  gather_kernels(candidate.plan.launches, kernels);
  if (std::optional<Failure> wrong = find_entries(kernels, {}, candidate, task, module))
    return Judged<CompiledModule>(std::move(*wrong));
  module.compile_ms = since_ms(start);
  return Judged<CompiledModule>(std::move(module));
}

}  // namespace

Result<Judged<CompiledModule>> compile(const Candidate& candidate, const TaskSpec& task,
                                       const CompileOptions& options) {
  using Answer = Judged<CompiledModule>;
  const Clock::time_point start = Clock::now();
  if (candidate.is_ptx) return compile_ptx(candidate, task, options, start);

  // What can be judged without a compiler.
  const std::string file = base_name(candidate.path);
  Judged<std::vector<std::string>> plan_options = checked_options(candidate.plan.options);
  if (!plan_options.ok()) return Answer(std::move(*plan_options.failure));
  const std::string source = clean_source(candidate.source);
  std::vector<std::string> header_names;
  if (std::optional<Failure> wrong = check_source(source, file, header_names)) return Answer(std::move(*wrong));
  std::vector<WantedKernel> kernels;
  if (!candidate.default_plan) gather_kernels(candidate.plan.launches, kernels);
  for (const WantedKernel& kernel : kernels)
    if (kernel.name.size() > 512 || kernel.name.find_first_of(std::string("\n\r\0", 3)) != std::string::npos)
      return Answer(failure(Verdict::kBadCandidate, "a kernel's name must be one line of at most 512 characters",
                            kernel.pointer + "/kernel"));

  CompileRequest request;
  request.nonce = fresh_nonce();
  request.virtual_arch = options.arch.starts_with("sm_") ? "compute_" + options.arch.substr(3) : options.arch;
  request.input.program_name = kProgramName;
  request.input.source = with_defines(candidate.plan, file, source);
  request.input.options = {"--gpu-architecture=" + options.arch, "-lineinfo", "--ptxas-options=-v"};
  const auto is_std = [](const std::string& option) { return option.starts_with("--std="); };
  if (std::none_of(plan_options.value->begin(), plan_options.value->end(), is_std))
    request.input.options.push_back("--std=c++17");
  request.input.options.insert(request.input.options.end(), plan_options.value->begin(), plan_options.value->end());
  for (const WantedKernel& kernel : kernels) request.input.names.push_back(kernel.name);

  // Tools and headers.
  const Result<std::string> library = find_nvrtc();
  if (!library.ok()) return library.error();
  request.library = library.value();
  const std::string folder = options.use_cache ? cache_folder(options.cache_folder) : std::string();
  const Result<std::string> version = compiler_version(request.library, folder);
  if (!version.ok()) return version.error();
  const std::string header = task_header(task);
  if (const auto own = std::find(header_names.begin(), header_names.end(), "stepbench.cuh");
      own != header_names.end()) {
    header_names.erase(own);
    for (const IncludeLine& include : scan_source(header).includes) header_names.push_back(include.name);
  }
  std::string include_folder;
  if (std::any_of(header_names.begin(), header_names.end(),
                  [](const std::string& name) { return !own_header(name); })) {
    Result<std::string> found = find_include_folder();
    if (!found.ok()) return found.error();
    include_folder = std::move(found).value();
  }
  std::optional<HeaderSet> headers;
  const Result<std::string> header_hash = headers_hash(header_names, include_folder, folder, headers);
  if (!header_hash.ok()) return header_hash.error();

  // The cache.
  std::vector<std::string> parts = request.input.options;
  parts.insert(parts.end(), {"names"});
  parts.insert(parts.end(), request.input.names.begin(), request.input.names.end());
  struct stat library_info {};
  const std::string library_size =
      ::stat(request.library.c_str(), &library_info) == 0 ? std::to_string(library_info.st_size) : std::string();
  parts.insert(parts.end(), {candidate.default_plan ? "default" : "plan", version.value(), library_size, header,
                             header_hash.value(), request.input.source});
  const std::string key = key_of("module", parts);
  if (const std::optional<std::string> bytes = read_cache(folder, key)) {
    if (std::optional<CompiledModule> module = decode_module(*bytes)) {
      module->key = key;
      module->from_cache = true;
      module->compile_ms = since_ms(start);
      return Answer(std::move(*module));
    }
  }

  // The child.
  if (!headers) {
    Result<HeaderSet> read = collect_headers(include_folder, header_names);
    if (!read.ok()) return read.error();
    headers = std::move(read).value();
  }
  request.input.headers = std::move(headers->headers);
  request.input.headers.emplace_back("stepbench.cuh", header);
  header_names.emplace_back("stepbench.cuh");
  for (size_t i = 0; i < request.input.headers.size(); ++i) {
    auto& [name, text] = request.input.headers[i];
    if (std::find(header_names.begin(), header_names.end(), name) != header_names.end())
      text = shielded(text, i, candidate.plan);
  }
  ChildSpec spec;
  spec.argv = {own_binary(), "__compile"};
  spec.input = encode_request(request);
  spec.wall_limit_s = options.wall_limit_s;
  spec.cpu_limit_s = options.cpu_limit_s;
  spec.memory_limit_bytes = options.memory_limit_bytes;
  spec.answer_limit_bytes = options.output_limit_bytes;
  spec.text_limit_bytes = kLogLimit_bytes;
  if (const char* path = std::getenv("LD_LIBRARY_PATH"); path != nullptr)
    spec.environment.push_back(std::string("LD_LIBRARY_PATH=") + path);
  const Result<ChildResult> child = run_child(spec);
  if (!child.ok()) return child.error();
  const CompileAnswer answer = decode_answer(child.value().answer, request.nonce);
  if (!answer.trouble.empty())
    return Error{ErrorCode::kUnavailable, answer.trouble, answer.trouble_place, "", sanitised(answer.trouble_found)};
  if (!answer.complete || child.value().ending != ChildEnding::kExited) {
    Result<Failure> ending = judge_ending(child.value(), answer, options);
    if (!ending.ok()) return ending.error();
    return Answer(std::move(ending).value());
  }
  if (answer.output.status != kNvrtcSuccess) return Answer(judge_refusal(answer, kernels, candidate, options));

  CompiledModule module;
  module.ptx = answer.output.ptx;
  set_cubin(module, answer.output.cubin);
  module.arch = options.arch;
  module.compiler = "NVRTC " + version.value();
  module.resources = parse_resources(author_log(answer.output.log, file), module.log);
  module.log = bounded(std::move(module.log));
  module.key = key;
  if (std::optional<Failure> wrong = find_entries(kernels, answer.output.lowered, candidate, task, module))
    return Answer(std::move(*wrong));
  static_cast<void>(write_cache(folder, key, encode_module(module)));
  module.compile_ms = since_ms(start);
  return Answer(std::move(module));
}

Result<CompilerInfo> find_compiler() {
  const Result<std::string> library = find_nvrtc();
  if (!library.ok()) return library.error();
  const Result<Nvrtc> loaded = Nvrtc::load(library.value());
  if (!loaded.ok()) return loaded.error();
  CompilerInfo info;
  info.version = loaded.value().version();
  info.library = library.value();
  if (Result<std::string> folder = find_include_folder(); folder.ok()) info.include_folder = std::move(folder).value();
  return info;
}

}  // namespace stepbench
