// What a launch needs to know of a kernel, read off its PTX declaration: shared by the VM and the CUDA device, so that
// one plan is checked and packed alike for both.
#pragma once

#include "harness/device.h"
#include "harness/ptx_vm/ptx.h"

namespace stepbench::ptx {

/// Parameters in the layout of the parameter space (PTX ISA 5.1.6) and the thread limits of the directives. Parameters
/// must lie in .param space. Static shared memory is left at 0: where it lies is for the device.
KernelInfo kernel_info(const Function& entry);

}  // namespace stepbench::ptx
