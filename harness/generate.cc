// Counter-based values (see generate.h). The device's twin is sb_generate in own_kernels.cc; a GPU test compares them.
// The loop is in value_loops_level.cc.
#include "harness/generate.h"

#include "harness/result.h"
#include "harness/value_loops.h"

namespace stepbench {
namespace {

size_t stored_bytes(DType dtype) {
  switch (dtype) {
    case DType::kF32: return 4;
    case DType::kBf16:
    case DType::kF16: return 2;
    case DType::kU8:
    case DType::kI32:
    case DType::kI16: break;
  }
  SB_ASSERT(false);
  return 0;
}

}  // namespace

void generate_values(const GenerateSpec& spec, int64_t first, int64_t count, std::vector<std::byte>& out) {
  SB_ASSERT(first >= 0 && count >= 0);
  out.resize(static_cast<size_t>(count) * stored_bytes(spec.dtype));
  generate_values(spec, first, std::span(out));
}

void generate_values(const GenerateSpec& spec, int64_t first, std::span<std::byte> out) {
  SB_ASSERT(first >= 0 && out.size() % stored_bytes(spec.dtype) == 0);
  value_loops().generate(spec, static_cast<uint64_t>(first), out.size() / stored_bytes(spec.dtype), out.data());
}

std::vector<std::byte> generated_values(const GenerateSpec& spec, int64_t first, int64_t count) {
  std::vector<std::byte> out;
  generate_values(spec, first, count, out);
  return out;
}

}  // namespace stepbench
