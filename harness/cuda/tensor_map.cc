// Tensor maps through the driver (see tensor_map.h): cuTensorMapEncodeTiled of the CUDA driver API manual, "Tensor Map
// Object Management", with its enumerations as numbers.
#include "harness/cuda/tensor_map.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <span>

#include "harness/stages.h"

namespace stepbench::cuda {
namespace {

/// CUtensorMapDataType. There is no signed type of 16 bits; a copy does not ask for the sign.
int data_type(DType dtype) {
  switch (dtype) {
    case DType::kU8: return 0;
    case DType::kI16: return 1;
    case DType::kI32: return 3;
    case DType::kF16: return 6;
    case DType::kF32: return 7;
    case DType::kBf16: return 9;
  }
  SB_ASSERT(false);
  return 0;
}

std::string describe(const TensorMapSpec& spec) {
  const auto rank = static_cast<size_t>(spec.rank);
  return fmt::format("{} dims [{}], strides_bytes [{}], box [{}], element_strides [{}] at {:#x}", to_text(spec.dtype),
                     fmt::join(std::span(spec.dims).first(rank), ", "),
                     fmt::join(std::span(spec.strides_bytes).first(rank - 1), ", "),
                     fmt::join(std::span(spec.box).first(rank), ", "),
                     fmt::join(std::span(spec.element_strides).first(rank), ", "), spec.address);
}

}  // namespace

Result<TensorMapBytes> encode_tensor_map(const Driver& driver, const TensorMapSpec& spec) {
  if (driver.tensor_map_encode_tiled == nullptr)
    return Error{ErrorCode::kUnsupported, "the NVIDIA driver makes no tensor maps", "cuTensorMapEncodeTiled",
                 "CUDA 12.0 or later", "CUDA " + version_text(driver.version)};
  constexpr int kNoInterleave = 0;
  std::array<unsigned long long, TensorMapSpec::kMaxRank> dims{};
  std::array<unsigned long long, TensorMapSpec::kMaxRank - 1> strides{};
  std::copy(spec.dims.begin(), spec.dims.end(), dims.begin());
  std::copy(spec.strides_bytes.begin(), spec.strides_bytes.end(), strides.begin());
  alignas(64) TensorMapBytes map{};
  const Status status = driver.tensor_map_encode_tiled(
      map.data(), data_type(spec.dtype), static_cast<unsigned>(spec.rank), spec.address, dims.data(), strides.data(),
      spec.box.data(), spec.element_strides.data(), kNoInterleave, static_cast<int>(spec.swizzle),
      static_cast<int>(spec.l2), spec.nan_outside ? 1 : 0);
  if (status == kSuccess) return map;
  if (status == kInvalidValue)
    return Error{ErrorCode::kInvalidInput, fmt::format("the driver refuses it: {}", describe(spec)),
                 "cuTensorMapEncodeTiled", "", status_text(driver, status)};
  if (status == kNotSupported)
    return Error{ErrorCode::kUnsupported, "this GPU has no tensor maps", "cuTensorMapEncodeTiled",
                 "compute capability 9.0 or later", status_text(driver, status)};
  return Error{ErrorCode::kUnavailable, "the driver fails to make a tensor map", "cuTensorMapEncodeTiled", "",
               status_text(driver, status)};
}

}  // namespace stepbench::cuda
