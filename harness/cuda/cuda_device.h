// An NVIDIA GPU as a Device.
#pragma once

#include <memory>

#include "harness/cuda/gpu.h"

namespace stepbench::cuda {

/// A fresh device (modules and buffers of its own) on a GPU that was started.
std::unique_ptr<Device> open_device(std::shared_ptr<Gpu> gpu);

}  // namespace stepbench::cuda
