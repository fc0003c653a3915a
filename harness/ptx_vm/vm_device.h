// The VM as a Device.
#pragma once

#include <memory>

#include "harness/device.h"

namespace stepbench::vm {

struct VmOptions {
  bool check_races = false;  ///< look for data races as well; several times slower
};

std::unique_ptr<Device> open_vm(const VmOptions& options);

}  // namespace stepbench::vm
