// The headers that a candidate may include, held in memory: small ones of our own, and those of the CUDA toolkit that
// are on a list, with everything they include themselves. NVRTC gets no include path and cannot open files (sandbox.h),
// so what is not handed over here does not exist for a candidate.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/result.h"

namespace stepbench {

/// One #include line of a source file.
struct IncludeLine {
  std::string name;  ///< between the brackets or quotes; the macro's text for #include MACRO
  int line = 0;
  bool computed = false;  ///< names a macro instead of a header
};

/// What a look at a source before compiling it finds. Comments, line splices, digraphs, raw strings are understood;
/// conditions are not evaluated, so lines switched off by #if count.
struct SourceScan {
  std::vector<IncludeLine> includes;
  int nul_line = 0;         ///< first line with a NUL byte; 0 = none
  std::string clock_macro;  ///< __DATE__, __TIME__ or __TIMESTAMP__, which make builds differ; empty = none
  int clock_line = 0;
};
SourceScan scan_source(std::string_view source);

/// On the list, ours or the toolkit's.
bool is_allowed_header(std::string_view name);
/// Ours: needs no toolkit.
std::optional<std::string_view> own_header(std::string_view name);
/// All of ours in one text: what a cached fact about headers depends on besides the toolkit's files.
std::string own_headers_text();
/// The list as text, for messages.
std::string allowed_headers_text();
/// For a C++ standard header that has a device version in libcu++: the name to write instead; else empty.
std::string suggested_header(std::string_view name);

/// The toolkit's include folder: $STEPBENCH_CUDA_INCLUDE when set, else beside NVRTC. kUnavailable "toolkit headers
/// missing".
Result<std::string> find_include_folder();

/// Header names and texts, ready for NVRTC: `names` and all that they include, transitively. Include lines are
/// rewritten to the header's full name, because NVRTC looks up exactly the text between the brackets, whatever folder
/// the including header lies in. `folder` may be empty when all names are ours. kUnavailable: the toolkit lacks a
/// header on the list.
struct HeaderSet {
  std::vector<std::pair<std::string, std::string>> headers;
  std::vector<std::string> files;  ///< paths of the toolkit files read
};
Result<HeaderSet> collect_headers(const std::string& folder, const std::vector<std::string>& names);

}  // namespace stepbench
