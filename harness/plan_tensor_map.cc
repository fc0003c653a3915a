// Numbers and reach of tensor maps in plans (see plan_tensor_map.h).
#include "harness/plan_tensor_map.h"

#include <fmt/format.h>

#include "harness/stages.h"

namespace stepbench {

namespace {

uint32_t swizzle_bytes(TensorMapSwizzle swizzle) {
  switch (swizzle) {
    case TensorMapSwizzle::kNone: return 0;
    case TensorMapSwizzle::k32B: return 32;
    case TensorMapSwizzle::k64B: return 64;
    case TensorMapSwizzle::k128B: return 128;
  }
  return 0;
}

/// Where the numbers of one kind begin among the values.
struct Places {
  size_t rank, dims, strides, box, element_strides, at;
  explicit Places(const PlanTensorMap& map)
      : rank(map.dims.size()),
        dims(0),
        strides(rank),
        box(2 * rank - 1),
        element_strides(3 * rank - 1),
        at(4 * rank - 1) {}
};

}  // namespace

std::vector<TensorMapExpression> tensor_map_expressions(const PlanTensorMap& map, DType dtype) {
  const size_t rank = map.dims.size();
  SB_ASSERT(rank >= 1 && rank <= TensorMapSpec::kMaxRank && map.box.size() == rank);
  SB_ASSERT(map.strides_bytes.empty() || map.strides_bytes.size() == rank - 1);
  SB_ASSERT(map.element_strides.empty() || map.element_strides.size() == rank);
  std::vector<TensorMapExpression> all;
  for (size_t i = 0; i < rank; ++i) all.push_back({fmt::format("dims[{}]", i), map.dims[i]});
  std::string dense = fmt::format("{}", dtype_bytes(dtype));
  for (size_t i = 0; i + 1 < rank; ++i) {
    dense = fmt::format("({}) * {}", map.dims[i], dense);
    all.push_back({fmt::format("strides_bytes[{}]", i), map.strides_bytes.empty() ? dense : map.strides_bytes[i]});
  }
  for (size_t i = 0; i < rank; ++i) all.push_back({fmt::format("box[{}]", i), map.box[i]});
  for (size_t i = 0; i < rank; ++i)
    all.push_back({fmt::format("element_strides[{}]", i), map.element_strides.empty() ? "1" : map.element_strides[i]});
  all.push_back({"at", map.at});
  return all;
}

std::optional<TensorMapComplaint> check_tensor_map(const PlanTensorMap& map, DType dtype,
                                                   std::span<const int64_t> values, uint64_t buffer_bytes,
                                                   int64_t shared_bytes) {
  const Places places(map);
  SB_ASSERT(values.size() == places.at + 1);
  std::optional<TensorMapComplaint> complaint;
  const auto wrong = [&](size_t place, bool of_tensor, std::string message) {
    if (!complaint) complaint = TensorMapComplaint{static_cast<int>(place), std::move(message), of_tensor};
  };
  const auto within = [&](size_t place, int64_t least, int64_t most) {
    if (values[place] < least) wrong(place, false, fmt::format("is {}, less than {}", values[place], least));
    if (values[place] > most) wrong(place, false, fmt::format("is {}, more than {}", values[place], most));
  };
  const auto element = static_cast<int64_t>(dtype_bytes(dtype));
  // The plan's own numbers first: they are wrong for every tensor.
  for (size_t i = 0; i < places.rank; ++i) within(places.box + i, 1, kMaxTensorMapBox);
  within(places.element_strides, 1, 1);  // the accelerator has none for the innermost dimension
  for (size_t i = 1; i < places.rank; ++i) within(places.element_strides + i, 1, kMaxTensorMapElementStride);
  within(places.at, 0, kMaxTensorMapStride);
  if (complaint) return complaint;
  const int64_t inner_bytes = values[places.box] * element;
  if (inner_bytes % kTensorMapAlign != 0)
    wrong(places.box, false,
          fmt::format("is {}, {} bytes of {}, which is not a multiple of {} bytes", values[places.box], inner_bytes,
                      to_text(dtype), kTensorMapAlign));
  if (const auto span = static_cast<int64_t>(swizzle_bytes(map.swizzle)); span > 0 && inner_bytes > span)
    wrong(places.box, false,
          fmt::format("is {}, {} bytes of {}, more than the {} bytes of the swizzle", values[places.box], inner_bytes,
                      to_text(dtype), span));
  int64_t box_bytes = element;  // at most 256^5 * 4 < 2^43
  for (size_t i = 0; i < places.rank; ++i)
    box_bytes *= (values[places.box + i] + values[places.element_strides + i] - 1) / values[places.element_strides + i];
  if (!complaint && box_bytes > shared_bytes)
    complaint = TensorMapComplaint{
        -1, fmt::format("one box is {} bytes, more than the {} of a block's shared memory", box_bytes, shared_bytes)};
  // Then what depends on a tensor's size.
  for (size_t i = 0; i < places.rank; ++i) {
    if (values[places.dims + i] == 0) wrong(places.dims + i, true, "is 0, less than 1");
    within(places.dims + i, 1, kMaxTensorMapDim);
  }
  for (size_t i = 0; i + 1 < places.rank; ++i) {
    const int64_t stride = values[places.strides + i];
    within(places.strides + i, 1, kMaxTensorMapStride);
    if (stride % kTensorMapAlign != 0)
      wrong(places.strides + i, true, fmt::format("is {}, not a multiple of {} bytes", stride, kTensorMapAlign));
  }
  if (complaint) return complaint;
  uint64_t at_bytes = 0;
  const uint64_t reach = tensor_map_reach_bytes(make_tensor_map(map, dtype, values, at_bytes));
  if (at_bytes > buffer_bytes || reach > buffer_bytes - at_bytes)
    complaint = TensorMapComplaint{
        -1, fmt::format("it reaches to byte {} of a buffer of {} bytes", at_bytes + reach, buffer_bytes)};
  return complaint;
}

TensorMapSpec make_tensor_map(const PlanTensorMap& map, DType dtype, std::span<const int64_t> values,
                              uint64_t& at_bytes) {
  const Places places(map);
  TensorMapSpec spec;
  spec.dtype = dtype;
  spec.rank = static_cast<int32_t>(places.rank);
  spec.swizzle = map.swizzle;
  spec.l2 = map.l2;
  spec.nan_outside = map.nan_outside;
  for (size_t i = 0; i < places.rank; ++i) {
    spec.dims[i] = static_cast<uint64_t>(values[places.dims + i]);
    if (i + 1 < places.rank) spec.strides_bytes[i] = static_cast<uint64_t>(values[places.strides + i]);
    spec.box[i] = static_cast<uint32_t>(values[places.box + i]);
    spec.element_strides[i] = static_cast<uint32_t>(values[places.element_strides + i]);
  }
  at_bytes = static_cast<uint64_t>(values[places.at]) * dtype_bytes(dtype);
  return spec;
}

uint64_t tensor_map_reach_bytes(const TensorMapSpec& spec) {
  // Five dimensions of 2^32 with strides below 2^40 stay below 2^75.
  auto last = static_cast<unsigned __int128>(spec.dims[0]) * dtype_bytes(spec.dtype);
  for (size_t i = 1; i < static_cast<size_t>(spec.rank); ++i)
    last += static_cast<unsigned __int128>(spec.dims[i] - 1) * spec.strides_bytes[i - 1];
  constexpr auto kMost = static_cast<unsigned __int128>(uint64_t{1} << 62);
  return static_cast<uint64_t>(last > kMost ? kMost : last);
}

uint32_t tensor_map_box_elements(const TensorMapSpec& spec, int dimension) {
  const auto i = static_cast<size_t>(dimension);
  return (spec.box[i] + spec.element_strides[i] - 1) / spec.element_strides[i];
}

}  // namespace stepbench
