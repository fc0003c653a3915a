// NVRTC by dlopen (see nvrtc.h). The signatures are those of NVIDIA's NVRTC manual, version 11.1 (cubin output) and
// later.
#include "harness/nvrtc.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace stepbench {

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

bool is_file(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

bool is_folder(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

/// Paths matching a pattern, the highest version number first.
std::vector<std::string> matches(const std::string& pattern) {
  std::vector<std::string> paths;
  glob_t found{};
  if (::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0)
    for (size_t i = 0; i < found.gl_pathc; ++i) paths.emplace_back(found.gl_pathv[i]);
  ::globfree(&found);
  std::sort(paths.begin(), paths.end(),
            [](const std::string& a, const std::string& b) { return ::strverscmp(a.c_str(), b.c_str()) > 0; });
  return paths;
}

constexpr const char* kAdvice =
    "run `make deps`, set STEPBENCH_NVRTC to the library file, or give a .ptx candidate, which needs no compiler";

/// The file behind a name that only the loader can resolve.
std::string resolve_by_loader(const char* soname) {
  void* library = ::dlopen(soname, RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return {};
  const link_map* map = nullptr;
  std::string path;
  if (::dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name != nullptr) path = map->l_name;
  ::dlclose(library);
  return path;
}

/// NVRTC opens its built-in functions' library lazily and by name only; taking it from the same folder first keeps the
/// two from coming out of different toolkits.
void preload_builtins(const std::string& nvrtc_path) {
  const std::string folder = nvrtc_path.substr(0, nvrtc_path.rfind('/') + 1);
  if (folder.empty()) return;
  for (const std::string& path : matches(folder + "libnvrtc-builtins.so.*"))
    if (::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL) != nullptr) return;
}

template <class Function>
bool bind(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

/// A string that a size call and a fill call of NVRTC describe.
template <class Size, class Fill>
std::string fetch(void* program, Size size_of, Fill fill) {
  size_t size = 0;
  if (size_of(program, &size) != kNvrtcSuccess || size == 0) return {};
  std::string text(size, '\0');
  if (fill(program, text.data()) != kNvrtcSuccess) return {};
  return text;
}

void drop_final_nul(std::string& text) {
  while (!text.empty() && text.back() == '\0') text.pop_back();
}

/// The number that ends where `text` ends, or -1.
int32_t final_number(std::string_view text) {
  size_t begin = text.size();
  while (begin > 0 && text[begin - 1] >= '0' && text[begin - 1] <= '9') --begin;
  int32_t value = -1;
  const auto [end, code] = std::from_chars(text.data() + begin, text.data() + text.size(), value);
  return code == std::errc() ? value : -1;
}

/// The number in front of `unit` in a line of ptxas' report, or -1.
int32_t number_before(std::string_view line, std::string_view unit) {
  const size_t at = line.find(unit);
  return at == std::string_view::npos ? -1 : final_number(line.substr(0, at));
}

/// Sum of all "N bytes cmem[k]"; -1 when the report names none.
int32_t constant_bytes(std::string_view line) {
  int32_t sum = -1;
  for (size_t at = line.find(" bytes cmem["); at != std::string_view::npos; at = line.find(" bytes cmem[", at + 1))
    sum = std::max(sum, 0) + std::max(final_number(line.substr(0, at)), 0);
  return sum;
}

}  // namespace

std::vector<std::string> toolkit_folders(const std::vector<std::string>& subs) {
  std::string root = environment("STEPBENCH_ROOT");
  if (root.empty()) root = STEPBENCH_SOURCE_ROOT;
  // Wheels put a toolkit, or a part of one, at nvidia/<name>/ or nvidia/; never more than two levels down.
  std::vector<std::string> places;
  for (const char* pattern : {"/.deps/nvidia", "/.deps/nvidia/*", "/.deps/nvidia/*/*"})
    for (std::string& path : matches(root + pattern)) places.push_back(std::move(path));
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const std::string home = environment(name); !home.empty()) places.push_back(home);
  for (std::string& path : matches("/usr/local/cuda*")) places.push_back(std::move(path));
  std::vector<std::string> folders;
  for (const std::string& place : places)
    for (const std::string& sub : subs)
      if (std::string folder = place + "/" + sub; is_folder(folder)) folders.push_back(std::move(folder));
  return folders;
}

Result<std::string> find_nvrtc() {
  if (const std::string set = environment("STEPBENCH_NVRTC"); !set.empty()) {
    if (is_file(set)) return set;
    return Error{ErrorCode::kUnavailable, std::string("there is no NVRTC at $STEPBENCH_NVRTC; ") + kAdvice, "",
                 "a library file", set};
  }
  for (const std::string& folder : toolkit_folders({"lib64", "lib", "targets/x86_64-linux/lib"})) {
    for (const char* name : {"/libnvrtc.so.13", "/libnvrtc.so.12"})
      if (std::string path = folder + name; is_file(path)) return path;
    for (const std::string& path : matches(folder + "/libnvrtc.so*"))
      if (is_file(path)) return path;
  }
  for (const char* soname : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"})
    if (std::string path = resolve_by_loader(soname); !path.empty()) return path;
  return Error{ErrorCode::kUnavailable,
               std::string("there is no NVRTC, the CUDA compiler, on this machine; ") + kAdvice, "", "", ""};
}

Result<Nvrtc> Nvrtc::load(const std::string& path) {
  preload_builtins(path);
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = ::dlerror();
    return Error{ErrorCode::kUnavailable, std::string("cannot load NVRTC; ") + kAdvice, path, "a shared library",
                 reason == nullptr ? "no reason given" : reason};
  }
  Nvrtc nvrtc;
  const bool complete =
      bind(library, "nvrtcVersion", nvrtc.get_version_) && bind(library, "nvrtcCreateProgram", nvrtc.create_) &&
      bind(library, "nvrtcDestroyProgram", nvrtc.destroy_) && bind(library, "nvrtcCompileProgram", nvrtc.compile_) &&
      bind(library, "nvrtcAddNameExpression", nvrtc.add_name_) &&
      bind(library, "nvrtcGetLoweredName", nvrtc.lowered_name_) &&
      bind(library, "nvrtcGetProgramLogSize", nvrtc.log_size_) && bind(library, "nvrtcGetProgramLog", nvrtc.log_) &&
      bind(library, "nvrtcGetPTXSize", nvrtc.ptx_size_) && bind(library, "nvrtcGetPTX", nvrtc.ptx_) &&
      bind(library, "nvrtcGetCUBINSize", nvrtc.cubin_size_) && bind(library, "nvrtcGetCUBIN", nvrtc.cubin_);
  int major = 0, minor = 0;
  if (!complete || nvrtc.get_version_(&major, &minor) != kNvrtcSuccess)
    return Error{ErrorCode::kUnavailable, std::string("this library is no usable NVRTC; ") + kAdvice, path,
                 "NVRTC 11.8 or later", "a library without its calls"};
  nvrtc.version_ = std::to_string(major) + "." + std::to_string(minor);
  return nvrtc;
}

NvrtcOutput Nvrtc::compile(const NvrtcInput& input) const {
  std::vector<const char*> names, texts, options;
  for (const auto& [name, text] : input.headers) {
    names.push_back(name.c_str());
    texts.push_back(text.c_str());
  }
  for (const std::string& option : input.options) options.push_back(option.c_str());

  NvrtcOutput output;
  Program program = nullptr;
  output.status = create_(&program, input.source.c_str(), input.program_name.c_str(), static_cast<int>(names.size()),
                          texts.data(), names.data());
  if (output.status != kNvrtcSuccess) return output;
  for (const std::string& name : input.names) add_name_(program, name.c_str());
  output.status = compile_(program, static_cast<int>(options.size()), options.data());
  output.log = fetch(program, log_size_, log_);
  drop_final_nul(output.log);
  if (output.status == kNvrtcSuccess) {
    output.ptx = fetch(program, ptx_size_, ptx_);
    drop_final_nul(output.ptx);
    output.cubin = fetch(program, cubin_size_, cubin_);
    for (const std::string& name : input.names) {
      const char* lowered = nullptr;
      if (lowered_name_(program, name.c_str(), &lowered) == kNvrtcSuccess && lowered != nullptr)
        output.lowered.emplace_back(name, lowered);
    }
  }
  destroy_(&program);
  return output;
}

std::vector<KernelResources> parse_resources(const std::string& log, std::string& rest) {
  // ptxas info    : Compiling entry function 'k' for 'sm_90a'
  // ptxas info    : Function properties for k
  // ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
  // ptxas info    : Used 24 registers, used 1 barriers, 512 bytes smem, 400 bytes cmem[0]
  std::vector<KernelResources> kernels;
  std::string function;  // whose properties come next: device functions that were not inlined are reported too
  const std::string_view text = log;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    constexpr std::string_view kCompiling = "Compiling entry function '", kProperties = "Function properties for ";
    const bool report = line.starts_with("ptxas info") || line.starts_with("ptxas         .");
    if (!report || line.find(": (C") != std::string_view::npos) {  // "(C7508) ..." is advice to the author
      rest.append(line).append("\n");
    } else if (const size_t at = line.find(kCompiling); at != std::string_view::npos) {
      const size_t from = at + kCompiling.size();
      KernelResources& kernel = kernels.emplace_back();
      kernel.entry = line.substr(from, line.find('\'', from) - from);
      function = kernel.entry;
    } else if (const size_t place = line.find(kProperties); place != std::string_view::npos) {
      function = line.substr(place + kProperties.size());
    } else if (!kernels.empty() && line.find(" bytes stack frame") != std::string_view::npos) {
      if (function != kernels.back().entry) continue;
      kernels.back().stack_bytes = number_before(line, " bytes stack frame");
      kernels.back().spill_store_bytes = number_before(line, " bytes spill stores");
      kernels.back().spill_load_bytes = number_before(line, " bytes spill loads");
    } else if (!kernels.empty() && line.find(": Used ") != std::string_view::npos) {
      kernels.back().registers = number_before(line, " registers");
      kernels.back().shared_bytes = std::max(number_before(line, " bytes smem"), 0);
      kernels.back().constant_bytes = constant_bytes(line);
    }
  }
  while (rest.ends_with("\n\n")) rest.pop_back();
  if (rest == "\n") rest.clear();
  return kernels;
}

std::vector<std::string> ptx_entries(const std::string& ptx) {
  std::vector<std::string> entries;
  const auto is_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' ||
           c == '%';
  };
  bool name_expected = false;
  for (size_t i = 0; i < ptx.size();) {
    const char c = ptx[i];
    if (c == '/' && ptx.compare(i, 2, "//") == 0) {
      i = std::min(ptx.find('\n', i), ptx.size());
    } else if (c == '/' && ptx.compare(i, 2, "/*") == 0) {
      const size_t end = ptx.find("*/", i + 2);
      i = end == std::string::npos ? ptx.size() : end + 2;
    } else if (c == '"') {
      const size_t end = ptx.find('"', i + 1);
      i = end == std::string::npos ? ptx.size() : end + 1;
    } else if (is_name(c) || c == '.') {
      size_t end = i + 1;
      while (end < ptx.size() && is_name(ptx[end])) ++end;
      const std::string_view word = std::string_view(ptx).substr(i, end - i);
      if (name_expected) entries.emplace_back(word);
      name_expected = word == ".entry";
      i = end;
    } else {
      ++i;
    }
  }
  return entries;
}

}  // namespace stepbench
