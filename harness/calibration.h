// The rates of a GPU, kept from one run to the next in the cache folder, one entry per GPU.
#pragma once

#include <optional>
#include <string>

#include "harness/stages.h"

namespace stepbench {

/// What was kept for this GPU; nothing when it was never measured or the entry is lost.
std::optional<Calibration> load_calibration(const std::string& gpu_uuid);
/// Losing it costs the next run a second: a folder that cannot be written is no error of an evaluation.
Result<void> save_calibration(const Calibration& calibration);

/// What was kept, or measured now and kept. `fresh`: measured in any case.
Result<Calibration> calibration_of(const DeviceSource& source, const std::string& gpu_uuid,
                                   const CompiledModule& own_kernels, bool fresh);

}  // namespace stepbench
