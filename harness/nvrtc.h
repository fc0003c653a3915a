// NVRTC by dlopen, with our own declarations: where it lies, its version, one compilation. Building StepBench needs no
// CUDA header and no CUDA library. Knows nothing of tasks, plans or verdicts.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/model.h"
#include "harness/result.h"

namespace stepbench {

/// Folders `<toolkit>/<sub>` that exist, best first, for each place where a toolkit may lie: the project's own .deps,
/// $CUDA_HOME, $CUDA_PATH, /usr/local/cuda*. `subs` are tried in order within each place.
std::vector<std::string> toolkit_folders(const std::vector<std::string>& subs);

/// Path of the NVRTC library. $STEPBENCH_NVRTC, when set, is the only place looked at. kUnavailable with advice.
Result<std::string> find_nvrtc();

struct NvrtcInput {
  std::string source;
  std::string program_name;
  std::vector<std::pair<std::string, std::string>> headers;  ///< name -> text
  std::vector<std::string> options;
  std::vector<std::string> names;  ///< name expressions
};

struct NvrtcOutput {
  int status = 0;  ///< nvrtcResult; 0 = success
  std::string log, ptx, cubin;
  std::vector<std::pair<std::string, std::string>> lowered;  ///< name expression -> name in the PTX
};
inline constexpr int kNvrtcSuccess = 0;
inline constexpr int kNvrtcOutOfMemory = 1;
inline constexpr int kNvrtcInvalidOption = 5;

/// A loaded library. Stays loaded until the process ends: NVRTC does not support being unloaded.
class Nvrtc {
 public:
  /// kUnavailable: not a library, or one without the calls that are needed.
  static Result<Nvrtc> load(const std::string& path);
  const std::string& version() const { return version_; }  ///< "13.0"
  NvrtcOutput compile(const NvrtcInput& input) const;

 private:
  using Program = void*;
  int (*get_version_)(int*, int*) = nullptr;
  int (*create_)(Program*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*destroy_)(Program*) = nullptr;
  int (*compile_)(Program, int, const char* const*) = nullptr;
  int (*add_name_)(Program, const char*) = nullptr;
  int (*lowered_name_)(Program, const char*, const char**) = nullptr;
  int (*log_size_)(Program, size_t*) = nullptr;
  int (*log_)(Program, char*) = nullptr;
  int (*ptx_size_)(Program, size_t*) = nullptr;
  int (*ptx_)(Program, char*) = nullptr;
  int (*cubin_size_)(Program, size_t*) = nullptr;
  int (*cubin_)(Program, char*) = nullptr;
  std::string version_;
};

/// Takes ptxas' resource report (--ptxas-options=-v) out of a compilation log. `rest` receives all other lines.
std::vector<KernelResources> parse_resources(const std::string& log, std::string& rest);

/// Names of all entry points in PTX text, in order.
std::vector<std::string> ptx_entries(const std::string& ptx);

}  // namespace stepbench
