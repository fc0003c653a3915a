// Threads for the loops of one oracle (see spread.h).
#include "tasks/spread.h"

#include <atomic>
#include <system_error>
#include <thread>

namespace stepbench {

void spread(int64_t threads, size_t count, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next{0};
  const auto run = [&] {
    for (size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) work(i);
  };
  std::vector<std::jthread> pool;
  for (int64_t t = 1; t < threads && pool.size() + 1 < count; ++t) {
    try {
      pool.emplace_back(run);
    } catch (const std::system_error&) {
      break;  // no more threads to be had: the ones that run do the work
    }
  }
  run();
}

}  // namespace stepbench
