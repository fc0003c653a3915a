// What compile.cc asks of the compile child, and what it answers. Own framing (fields.h): the parent never parses
// anything richer than lengths from a process that has run candidate text through a compiler.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "harness/nvrtc.h"

namespace stepbench {

struct CompileRequest {
  std::string nonce;         ///< the answer must repeat it
  std::string library;       ///< path of NVRTC
  std::string virtual_arch;  ///< "compute_90a": PTX only, to find the place of what ptxas refused
  NvrtcInput input;
};

struct CompileAnswer {
  bool ready = false;   ///< NVRTC loaded and warm, process sealed, compilation begun
  std::string trouble;  ///< the world's fault in one sentence; empty when there is none
  std::string trouble_place, trouble_found;
  bool complete = false;  ///< what follows is there
  NvrtcOutput output;
  bool names_refused = false;  ///< compilation failed with name expressions ...
  NvrtcOutput plain;           ///< ... and this is the one without them
  std::string refused_ptx;     ///< PTX that ptxas did not take
};

std::string encode_request(const CompileRequest& request);
std::optional<CompileRequest> decode_request(std::string_view bytes);
/// Decodes as much as is there; a child that died while compiling leaves `ready` without `complete`.
CompileAnswer decode_answer(std::string_view bytes, const std::string& nonce);

}  // namespace stepbench
