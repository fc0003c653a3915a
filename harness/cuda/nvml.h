// What NVIDIA's management library says of a GPU: read only, opened by dlopen, and nobody needs it: where it is
// missing, the fields keep "unknown".
#pragma once

#include <string>

#include "harness/model.h"

namespace stepbench::cuda {

/// Fills driver, sm_clock_mhz, power_limit_w, temperature_c and other_processes of the GPU with this "GPU-..." name.
void describe_gpu(const std::string& uuid, Environment& environment);

}  // namespace stepbench::cuda
