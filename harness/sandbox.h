// Takes from the compile child, for good, what a compiler does not need once it is warm.
#pragma once

#include "harness/result.h"

namespace stepbench {

/// From here on this process opens no file, makes no process, no socket and no executable memory, writes no file and
/// dumps no core. It may compute, allocate, start threads and use the descriptors that it has. kUnavailable when the
/// kernel cannot do that.
Result<void> seal_compiler();

}  // namespace stepbench
