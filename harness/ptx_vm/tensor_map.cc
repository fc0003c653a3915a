// The VM's form of a tensor map (see tensor_map.h).
#include "harness/ptx_vm/tensor_map.h"

#include <cstring>

namespace stepbench::vm {
namespace {

constexpr uint64_t kMark = 0x70616d726f736e74;  // "tnsormap"

/// What fits 128 bytes; everything is a multiple of its alignment, so there is no padding in between.
struct Image {
  uint64_t mark = kMark;
  uint64_t sum = 0;
  uint64_t address = 0;
  uint64_t dims[TensorMapSpec::kMaxRank] = {};
  uint64_t strides[TensorMapSpec::kMaxRank - 1] = {};
  uint16_t box[TensorMapSpec::kMaxRank] = {};
  uint8_t element_strides[TensorMapSpec::kMaxRank] = {};
  uint8_t rank = 0, dtype = 0, swizzle = 0, l2 = 0, nan_outside = 0;
  uint8_t rest[12] = {};
};
static_assert(sizeof(Image) == sizeof(TensorMapBytes));

/// FNV-1a (Fowler, Noll, Vo) over everything behind the sum.
uint64_t sum_of(const Image& image) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(&image);
  uint64_t sum = 0xcbf29ce484222325ull;
  for (size_t i = offsetof(Image, address); i < sizeof image; ++i) sum = (sum ^ bytes[i]) * 0x100000001b3ull;
  return sum;
}

}  // namespace

TensorMapBytes encode_tensor_map(const TensorMapSpec& spec) {
  Image image;
  image.address = spec.address;
  for (size_t i = 0; i < TensorMapSpec::kMaxRank; ++i) {
    image.dims[i] = spec.dims[i];
    if (i + 1 < TensorMapSpec::kMaxRank) image.strides[i] = spec.strides_bytes[i];
    image.box[i] = static_cast<uint16_t>(spec.box[i]);
    image.element_strides[i] = static_cast<uint8_t>(spec.element_strides[i]);
  }
  image.rank = static_cast<uint8_t>(spec.rank);
  image.dtype = static_cast<uint8_t>(spec.dtype);
  image.swizzle = static_cast<uint8_t>(spec.swizzle);
  image.l2 = static_cast<uint8_t>(spec.l2);
  image.nan_outside = spec.nan_outside ? 1 : 0;
  image.sum = sum_of(image);
  TensorMapBytes bytes;
  std::memcpy(bytes.data(), &image, sizeof image);
  return bytes;
}

std::optional<TensorMapSpec> decode_tensor_map(std::span<const std::byte> bytes) {
  Image image;
  if (bytes.size() != sizeof image) return std::nullopt;
  std::memcpy(&image, bytes.data(), sizeof image);
  if (image.mark != kMark || image.sum != sum_of(image)) return std::nullopt;
  TensorMapSpec spec;
  spec.address = image.address;
  for (size_t i = 0; i < TensorMapSpec::kMaxRank; ++i) {
    spec.dims[i] = image.dims[i];
    if (i + 1 < TensorMapSpec::kMaxRank) spec.strides_bytes[i] = image.strides[i];
    spec.box[i] = image.box[i];
    spec.element_strides[i] = image.element_strides[i];
  }
  spec.rank = image.rank;
  spec.dtype = static_cast<DType>(image.dtype);
  spec.swizzle = static_cast<TensorMapSwizzle>(image.swizzle);
  spec.l2 = static_cast<TensorMapL2>(image.l2);
  spec.nan_outside = image.nan_outside != 0;
  return spec;
}

}  // namespace stepbench::vm
