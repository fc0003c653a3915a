// Mapped GPU memory and its pool (see mapping.h).
#include "harness/cuda/mapping.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <iterator>

#include "harness/cuda/gpu.h"

namespace stepbench::cuda {
namespace {

// Random addresses lie in [2 TiB, 64 TiB): far from where a process has its own memory (at the top of 128 TiB), because
// GPU and host share one space of addresses.
constexpr uint64_t kLowestAddress = uint64_t{1} << 41, kHighestAddress = uint64_t{1} << 46;
constexpr int kAddressTries = 4;
constexpr uint64_t kShareOfMemory = 16;

}  // namespace

uint64_t random_u64() {
  uint64_t value = 0;
  // 8 bytes are never split or interrupted (getrandom(2)); a failure means a kernel without it.
  SB_ASSERT(::getrandom(&value, sizeof(value), 0) == static_cast<ssize_t>(sizeof(value)));
  return value;
}

MappingPool::MappingPool(Gpu& gpu) : gpu_(gpu) {}

/// Address space with nothing in it, at a random place where the driver grants it.
Result<void> MappingPool::reserve(uint64_t bytes, uint64_t& address) {
  const uint64_t granule = gpu_.granule_bytes();
  Status status = kSuccess;
  for (int i = 0; i < kAddressTries; ++i) {
    const uint64_t place = kLowestAddress + random_u64() % (kHighestAddress - kLowestAddress);
    Address got = 0;
    status = gpu_.driver().address_reserve(&got, bytes, granule, place / granule * granule, 0);
    if (status == kSuccess) {
      address = got;
      return {};
    }
  }
  return gpu_.check(status, "cuMemAddressReserve", fmt::format("{} bytes", bytes));
}

Result<Mapping> MappingPool::map(uint64_t bytes, bool read_only) {
  const Driver& driver = gpu_.driver();
  const uint64_t granule = gpu_.granule_bytes();
  Mapping mapping;
  mapping.reserved_bytes = bytes + 2 * granule;
  if (const Result<void> done = reserve(mapping.reserved_bytes, mapping.reserved); !done.ok()) return done.error();
  mapping.begin = mapping.reserved + granule;
  if (bytes == 0) return mapping;

  AllocationProperties properties;
  properties.location.id = gpu_.device();
  MemoryHandle handle = 0;
  if (const Result<void> done = gpu_.check(driver.memory_create(&handle, bytes, &properties, 0), "cuMemCreate",
                                           fmt::format("{} bytes", bytes));
      !done.ok()) {
    unmap(mapping);
    return done.error();
  }
  const auto map_at = [&](uint64_t address, int flags) -> Result<void> {
    if (const Result<void> done = gpu_.check(driver.memory_map(address, bytes, 0, handle, 0), "cuMemMap"); !done.ok())
      return done;
    AccessDescription access;
    access.location.id = gpu_.device();
    access.flags = flags;
    return gpu_.check(driver.memory_set_access(address, bytes, &access, 1), "cuMemSetAccess");
  };
  Result<void> done = map_at(mapping.begin, read_only ? kProtectRead : kProtectReadWrite);
  if (done.ok()) mapping.bytes = bytes;
  if (done.ok() && read_only) {
    mapping.alias_reserved_bytes = bytes + 2 * granule;
    done = reserve(mapping.alias_reserved_bytes, mapping.alias_reserved);
    if (done.ok()) done = map_at(mapping.alias_reserved + granule, kProtectReadWrite);
    if (done.ok()) mapping.alias = mapping.alias_reserved + granule;
  }
  // The memory itself goes when its last mapping goes.
  const Result<void> released = gpu_.check(driver.memory_release(handle), "cuMemRelease");
  if (done.ok()) done = released;
  if (done.ok()) return mapping;
  unmap(mapping);
  return done.error();
}

/// Failures are of no consequence here: the context ends with the process at the latest.
void MappingPool::unmap(const Mapping& mapping) {
  if (gpu_.lost()) return;
  const Driver& driver = gpu_.driver();
  // A fill that nobody has waited for may still be under way.
  if (!gpu_.check(driver.context_synchronize(), "cuCtxSynchronize").ok()) return;
  if (mapping.bytes != 0)
    static_cast<void>(gpu_.check(driver.memory_unmap(mapping.begin, mapping.bytes), "cuMemUnmap"));
  if (mapping.alias != 0)
    static_cast<void>(gpu_.check(driver.memory_unmap(mapping.alias, mapping.bytes), "cuMemUnmap"));
  for (const auto& [address, bytes] : {std::pair(mapping.reserved, mapping.reserved_bytes),
                                       std::pair(mapping.alias_reserved, mapping.alias_reserved_bytes)})
    if (address != 0) static_cast<void>(gpu_.check(driver.address_free(address, bytes), "cuMemAddressFree"));
}

Result<Mapping> MappingPool::take(uint64_t bytes, bool read_only, unsigned char pattern) {
  Result<Mapping> taken = Mapping();
  if (const auto found = free_.find({bytes, read_only && bytes != 0}); found != free_.end()) {
    std::vector<Mapping>& list = found->second;
    std::swap(list[random_u64() % list.size()], list.back());
    taken = list.back();
    list.pop_back();
    if (list.empty()) free_.erase(found);
    bytes_ -= bytes;
    --count_;
  } else {
    taken = map(bytes, read_only);
    if (!taken.ok() && taken.error().code == ErrorCode::kResource && count_ > 0) {
      clear();
      taken = map(bytes, read_only);
    }
  }
  if (!taken.ok() || bytes == 0) return taken;
  const Result<void> filled =
      gpu_.check(gpu_.driver().fill_u8(taken.value().writable(), pattern, bytes), "cuMemsetD8", "pattern");
  if (filled.ok()) return taken;
  unmap(taken.value());
  return filled.error();
}

void MappingPool::give_back(const Mapping& mapping) {
  if (mapping.reserved == 0 || !gpu_.ready().ok()) return;
  if (mapping.bytes > kMostMappingBytes) return unmap(mapping);
  free_[{mapping.bytes, mapping.alias != 0}].push_back(mapping);
  bytes_ += mapping.bytes;
  ++count_;
  // The largest go first: where there is more to compute, a mapping costs less beside it.
  const uint64_t most_bytes = std::min(kMostBytes, gpu_.info().memory_bytes / kShareOfMemory);
  while (bytes_ > most_bytes || count_ > kMostMappings) {
    const auto largest = std::prev(free_.end());
    unmap(largest->second.back());
    bytes_ -= largest->first.first;
    --count_;
    largest->second.pop_back();
    if (largest->second.empty()) free_.erase(largest);
  }
}

void MappingPool::clear() {
  if (count_ > 0 && gpu_.ready().ok())
    for (const auto& [kind, list] : free_)
      for (const Mapping& mapping : list) unmap(mapping);
  free_.clear();
  bytes_ = 0;
  count_ = 0;
}

}  // namespace stepbench::cuda
