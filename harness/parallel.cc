// Work shared among threads (see parallel.h): what oracles use, which know nothing of the harness.
#include "harness/parallel.h"

#include "tasks/spread.h"

namespace stepbench {

void run_parallel(int threads, size_t count, const std::function<void(size_t)>& work) { spread(threads, count, work); }

}  // namespace stepbench
