// The numbers of a `tensor_map` argument of a plan: what it may describe, checked before any device is asked. The rules
// are those of cuTensorMapEncodeTiled (CUDA driver API manual, "Tensor Map Object Management") without interleaving,
// and one more: a map reaches no byte outside of its buffer. Knows nothing of JSON or devices.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/device.h"
#include "harness/model.h"

namespace stepbench {

/// As written; all texts are integer expressions, innermost dimension first.
struct PlanTensorMap {
  std::string of;                          ///< a buffer, or "scratch.<name>"
  std::optional<DType> dtype;              ///< none: the buffer's
  std::vector<std::string> dims;           ///< elements; 1 to 5 of them
  std::vector<std::string> strides_bytes;  ///< of dims 1 and up; empty: without gaps
  std::vector<std::string> box;
  std::vector<std::string> element_strides;  ///< empty: all 1
  std::string at = "0";                      ///< first element, counted in the buffer
  TensorMapSwizzle swizzle = TensorMapSwizzle::kNone;
  TensorMapL2 l2 = TensorMapL2::kNone;
  bool nan_outside = false;
  bool or_null = false;  ///< where a tensor cannot carry the map, the kernel gets 128 zero bytes
};

inline constexpr uint32_t kTensorMapAlign = 16;   ///< of addresses and strides, bytes
inline constexpr int64_t kMaxTensorMapBox = 256;  ///< elements in one dimension
inline constexpr int64_t kMaxTensorMapElementStride = 8;
inline constexpr int64_t kMaxTensorMapDim = int64_t{1} << 32;
inline constexpr int64_t kMaxTensorMapStride = (int64_t{1} << 40) - 16;  ///< bytes

struct TensorMapExpression {
  std::string name;  ///< "box[1]"
  std::string text;
};
/// The expressions of a map, in the order in which they are compiled and evaluated.
std::vector<TensorMapExpression> tensor_map_expressions(const PlanTensorMap& map, DType dtype);

/// What is wrong with a map's numbers.
struct TensorMapComplaint {
  int expression = -1;  ///< index in tensor_map_expressions; -1: more than one number is at fault
  std::string message;
  bool of_tensor = false;  ///< this tensor's size does not allow the map: what `or_null` is for
};
/// Checks values in the order of tensor_map_expressions. `buffer_bytes`: of the buffer, of which the map begins at
/// element `at`; `shared_bytes`: what a block can have.
std::optional<TensorMapComplaint> check_tensor_map(const PlanTensorMap& map, DType dtype,
                                                   std::span<const int64_t> values, uint64_t buffer_bytes,
                                                   int64_t shared_bytes);
/// Everything but the address, for numbers that passed; `at_bytes`: where it begins in its buffer.
TensorMapSpec make_tensor_map(const PlanTensorMap& map, DType dtype, std::span<const int64_t> values,
                              uint64_t& at_bytes);
/// Bytes from the map's address to the end of its last element.
uint64_t tensor_map_reach_bytes(const TensorMapSpec& spec);
/// Elements that one instruction moves along a dimension: ceil(box / element stride).
uint32_t tensor_map_box_elements(const TensorMapSpec& spec, int dimension);

}  // namespace stepbench
