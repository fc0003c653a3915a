// libFuzzer: arbitrary bytes as PTX text. Whatever parses is also put through admission.
//   cmake -S . -B build/fuzz -DSTEPBENCH_FUZZ=ON -DSTEPBENCH_SANITIZE=ON -DCMAKE_CXX_COMPILER=clang++
//   cmake --build build/fuzz --target fuzz_ptx_parse
//   build/fuzz/fuzz_ptx_parse -dict=tests/fuzz/ptx_parse.dict CORPUS tests/ptx/data
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "harness/ptx_vm/ptx.h"
#include "harness/stages.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(data[i]);
  const auto parsed = stepbench::ptx::parse(text);
  if (!parsed.ok()) return 0;
  stepbench::CompiledModule module;
  module.ptx = text;
  stepbench::Candidate candidate;
  candidate.path = "x.cu";
  candidate.source = text;
  const auto judged = stepbench::admit(module, candidate);
  SB_ASSERT(judged.value.has_value() != judged.failure.has_value());
  return 0;
}
