// The VM's form of a tensor map: the view itself in the 128 bytes, behind a mark, and a sum over all of it, so that
// bytes that the harness did not make are told from a map.
#pragma once

#include <optional>
#include <span>

#include "harness/device.h"

namespace stepbench::vm {

TensorMapBytes encode_tensor_map(const TensorMapSpec& spec);
/// Nothing when the bytes are no map.
std::optional<TensorMapSpec> decode_tensor_map(std::span<const std::byte> bytes);

}  // namespace stepbench::vm
