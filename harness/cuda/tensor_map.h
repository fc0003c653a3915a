// Tensor maps through the driver. Knows nothing of buffers: the caller has checked what the map may reach.
#pragma once

#include "harness/cuda/driver.h"
#include "harness/device.h"

namespace stepbench::cuda {

/// kUnsupported where the driver has no tensor maps, kInvalidInput with the view in words when it refuses this one.
Result<TensorMapBytes> encode_tensor_map(const Driver& driver, const TensorMapSpec& spec);

}  // namespace stepbench::cuda
