// Work shared among threads (see parallel.h).
#include "harness/parallel.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace stepbench {

void run_parallel(int threads, size_t count, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next{0};
  const auto run = [&] {
    for (size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) work(i);
  };
  std::vector<std::jthread> pool;
  for (size_t i = 1; i < std::min(static_cast<size_t>(std::max(threads, 1)), count); ++i) {
    try {
      pool.emplace_back(run);
    } catch (const std::system_error&) {
      break;  // no more threads to be had: the ones that run do the work
    }
  }
  run();
}

}  // namespace stepbench
