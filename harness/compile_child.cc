// The compile child: request on standard input, NVRTC loaded and warmed up, everything else given away (sandbox.h), one
// compilation, answer on descriptor 3. Judges nothing; compile.cc does.
#include "harness/compile_child.h"

#include <unistd.h>

#include <cerrno>

#include "harness/child_process.h"
#include "harness/fields.h"
#include "harness/sandbox.h"

namespace stepbench {

namespace {

constexpr std::string_view kReady = "ready";
constexpr std::string_view kTrouble = "trouble";
constexpr std::string_view kDone = "done";

void put_output(FieldWriter& fields, const NvrtcOutput& output) {
  fields.number(static_cast<uint64_t>(output.status));
  fields.text(output.log);
  fields.text(output.ptx);
  fields.text(output.cubin);
  fields.pairs(output.lowered);
}

NvrtcOutput get_output(FieldReader& fields) {
  NvrtcOutput output;
  output.status = static_cast<int>(fields.number());
  output.log = fields.text();
  output.ptx = fields.text();
  output.cubin = fields.text();
  output.lowered = fields.pairs();
  return output;
}

bool read_input(std::string& text) {
  std::string buffer(256 << 10, '\0');
  for (;;) {
    const ssize_t got = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (got == 0) return true;
    if (got > 0)
      text.append(buffer, 0, static_cast<size_t>(got));
    else if (errno != EINTR)
      return false;
  }
}

int answer_trouble(const std::string& nonce, const Error& error) {
  FieldWriter fields;
  fields.text(nonce);
  fields.text(kTrouble);
  fields.text(error.message);
  fields.text(error.place);
  fields.text(error.found);
  return write_answer(fields.take()) ? 0 : 1;
}

std::string arch_of(const std::vector<std::string>& options) {
  for (const std::string& option : options)
    if (option.starts_with("--gpu-architecture=")) return option;
  return "--gpu-architecture=sm_90a";
}

/// Runs before anything of the candidate is looked at: what NVRTC loads lazily is loaded now, with files still in
/// reach.
NvrtcOutput warm_up(const Nvrtc& nvrtc, const NvrtcInput& input) {
  NvrtcInput warm;
  warm.program_name = "warm_up.cu";
  warm.source = "extern \"C\" __global__ void warm_up(float* p) { *p = 1; }\n";
  warm.options = {arch_of(input.options), "-lineinfo", "--ptxas-options=-v"};
  return nvrtc.compile(warm);
}

int answer_request(const CompileRequest& request) {
  Result<Nvrtc> loaded = Nvrtc::load(request.library);
  if (!loaded.ok()) return answer_trouble(request.nonce, loaded.error());
  const Nvrtc& nvrtc = loaded.value();
  const NvrtcOutput warm = warm_up(nvrtc, request.input);
  if (warm.status != kNvrtcSuccess) {
    const std::string option = arch_of(request.input.options);
    return answer_trouble(request.nonce, Error{ErrorCode::kUnavailable,
                                               warm.status == kNvrtcInvalidOption
                                                   ? "NVRTC " + nvrtc.version() + " does not know the option " +
                                                         option + "; a newer one is needed"
                                                   : "NVRTC " + nvrtc.version() + " cannot compile an empty kernel",
                                               request.library, "", warm.log.substr(0, warm.log.find('\n'))});
  }
  if (::chdir("/") != 0)
    return answer_trouble(request.nonce, Error{ErrorCode::kIo, "cannot leave the folder", "/", "", ""});
  if (const Result<void> sealed = seal_compiler(); !sealed.ok()) return answer_trouble(request.nonce, sealed.error());

  FieldWriter ready;
  ready.text(request.nonce);
  ready.text(kReady);
  if (!write_answer(ready.take())) return 1;

  const NvrtcOutput output = nvrtc.compile(request.input);
  NvrtcOutput plain;
  std::string refused_ptx;
  const bool failed = output.status != kNvrtcSuccess;
  // NVRTC compiles name expressions as the lines of this file, which its messages name.
  const bool names_refused =
      failed && !request.input.names.empty() && output.log.find("__nv_name_map") != std::string::npos;
  if (names_refused) {
    NvrtcInput input = request.input;
    input.names.clear();
    plain = nvrtc.compile(input);
  } else if (failed && output.log.find("ptxas ") != std::string::npos) {
    NvrtcInput input = request.input;
    for (std::string& option : input.options)
      if (option.starts_with("--gpu-architecture=")) option = "--gpu-architecture=" + request.virtual_arch;
    refused_ptx = nvrtc.compile(input).ptx;
  }

  FieldWriter fields;
  fields.text(request.nonce);
  fields.text(kDone);
  put_output(fields, output);
  fields.number(names_refused ? 1 : 0);
  put_output(fields, plain);
  fields.text(refused_ptx);
  return write_answer(fields.take()) ? 0 : 1;
}

}  // namespace

std::string encode_request(const CompileRequest& request) {
  FieldWriter fields;
  fields.text(request.nonce);
  fields.text(request.library);
  fields.text(request.virtual_arch);
  fields.text(request.input.source);
  fields.text(request.input.program_name);
  fields.pairs(request.input.headers);
  fields.texts(request.input.options);
  fields.texts(request.input.names);
  return fields.take();
}

std::optional<CompileRequest> decode_request(std::string_view bytes) {
  FieldReader fields(bytes);
  CompileRequest request;
  request.nonce = fields.text();
  request.library = fields.text();
  request.virtual_arch = fields.text();
  request.input.source = fields.text();
  request.input.program_name = fields.text();
  request.input.headers = fields.pairs();
  request.input.options = fields.texts();
  request.input.names = fields.texts();
  if (!fields.at_end()) return std::nullopt;
  return request;
}

CompileAnswer decode_answer(std::string_view bytes, const std::string& nonce) {
  CompileAnswer answer;
  FieldReader fields(bytes);
  const auto kind = [&]() -> std::string {
    if (fields.text() != nonce) return {};
    return fields.text();
  };
  const std::string first = kind();
  if (first == kTrouble) {
    answer.trouble = fields.text();
    answer.trouble_place = fields.text();
    answer.trouble_found = fields.text();
    if (!fields.ok()) answer.trouble = "the compile child did not finish its answer";
    return answer;
  }
  answer.ready = first == kReady;
  if (!answer.ready || kind() != kDone) return answer;
  answer.output = get_output(fields);
  answer.names_refused = fields.number() != 0;
  answer.plain = get_output(fields);
  answer.refused_ptx = fields.text();
  answer.complete = fields.at_end();
  return answer;
}

int compile_child_main() {
  become_child();
  std::string input;
  if (!read_input(input)) return 1;
  const std::optional<CompileRequest> request = decode_request(input);
  if (!request) return 2;
  // Straight out: the destructors of a 100 MB compiler have nothing left to tell.
  ::_exit(answer_request(*request));
}

}  // namespace stepbench
