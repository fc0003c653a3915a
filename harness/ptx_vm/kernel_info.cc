// Layout of kernel parameters and thread limits from a PTX entry (see kernel_info.h).
#include "harness/ptx_vm/kernel_info.h"

#include <algorithm>
#include <string_view>

namespace stepbench::ptx {
namespace {

constexpr int32_t kMaxThreads = 1024;

/// Bytes of a fundamental type that a kernel parameter may have, 0 if `type` is none (PTX ISA 5.2).
uint64_t scalar_bytes(std::string_view type) {
  const size_t digits = type.find_first_of("0123456789");
  if (digits == std::string_view::npos || type == "pred") return 0;
  const std::string_view width = type.substr(digits);
  if (width == "8") return 1;
  if (width == "16") return 2;
  if (width == "32" || width == "16x2") return 4;
  return width == "64" ? 8 : 0;
}

int32_t threads(const std::array<int32_t, 3>& v) { return v[0] > 0 ? v[0] * std::max(v[1], 1) * std::max(v[2], 1) : 0; }

}  // namespace

KernelInfo kernel_info(const Function& entry) {
  KernelInfo info;
  info.entry = entry.name;
  uint32_t cursor = 0;
  for (const Variable& parameter : entry.parameters) {
    KernelParameter row;
    row.bytes = static_cast<uint32_t>(parameter.bytes);
    row.align_bytes = std::max(parameter.align_bytes, 1u);
    cursor = (cursor + row.align_bytes - 1) / row.align_bytes * row.align_bytes;
    row.offset_bytes = cursor;
    cursor += row.bytes;
    const bool is_float = parameter.type == "f32" || parameter.type == "f64";
    row.kind = is_float                                          ? ScalarKind::kFloat
               : scalar_bytes(parameter.type) == parameter.bytes ? ScalarKind::kInteger
                                                                 : ScalarKind::kBytes;
    info.parameters.push_back(row);
  }
  info.parameter_bytes = cursor;
  const int32_t exact = threads(entry.required_threads), most = threads(entry.max_threads);
  info.exact_threads = exact > 0;
  info.max_threads = exact > 0 ? exact : most > 0 ? std::min(most, kMaxThreads) : kMaxThreads;
  return info;
}

}  // namespace stepbench::ptx
