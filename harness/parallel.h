// Work shared among threads that live as long as the call.
#pragma once

#include <cstddef>
#include <functional>

namespace stepbench {

/// Runs work(i) for i in [0, count) on up to `threads` threads, the caller's among them, and returns when all is done.
/// Indices are handed out in order. `work` must not throw.
void run_parallel(int threads, size_t count, const std::function<void(size_t)>& work);

}  // namespace stepbench
