// Allocations, init bits and the general memory access. The fast paths are in memory_ops.cc.
#include "harness/ptx_vm/memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace stepbench::vm {
namespace {

constexpr uint64_t kAlign = 256;
constexpr uint64_t kGuard = 1 << 20;  // unmapped device addresses behind every allocation
constexpr uint64_t kLastAddress = uint64_t{1} << 62;
constexpr size_t kKeptFreed = 4096;

// splitmix64 (Steele, Lea, Flood 2014): one step.
uint64_t mix(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

}  // namespace

void StorageDeleter::operator()(std::byte* storage) const { std::free(storage); }

Result<uint32_t> AddressSpace::allocate(const AllocationSpec& spec) {
  const uint64_t base = next_address_;
  if (spec.bytes >= kLastAddress || base + spec.bytes + spec.offset_bytes >= kLastAddress) {
    return Error{ErrorCode::kResource, "device address space is used up", "allocate " + spec.label, "", ""};
  }
  Result<uint32_t> id = allocate_at(base, spec);
  if (id.ok()) {
    const uint64_t end = base + spec.offset_bytes + spec.bytes + kGuard;
    // Exactly 256-byte aligned, not more: code must not rely on better alignment.
    next_address_ = (end + 2 * kAlign - 1) / (2 * kAlign) * (2 * kAlign) + kAlign;
  }
  return id;
}

Result<uint32_t> AddressSpace::allocate_at(uint64_t address, const AllocationSpec& spec) {
  auto allocation = std::make_unique<Allocation>();
  const uint64_t total = spec.offset_bytes + spec.bytes;
  const uint64_t room = (total + 63) / 64 * 64 + 64;
  void* storage = nullptr;
  if (posix_memalign(&storage, kAlign, room) != 0) {
    return Error{ErrorCode::kResource, "no host memory for a device buffer", "allocate " + spec.label, "",
                 fmt::format("{} bytes", spec.bytes)};
  }
  allocation->storage.reset(static_cast<std::byte*>(storage));
  allocation->host = allocation->storage.get() + spec.offset_bytes;
  allocation->lo = address + spec.offset_bytes;
  allocation->bytes = spec.bytes;
  allocation->bit_base = address;
  allocation->read_only = spec.read_only;
  allocation->label = spec.label;
  allocation->id = next_id_++;
  try {
    allocation->initialised.assign(room / 8 + 16, 0);
    poison(*allocation, 0);
    const uint32_t id = allocation->id;
    by_id_[id] = allocation.get();
    const auto place = std::upper_bound(sorted_.begin(), sorted_.end(), allocation->lo,
                                        [](uint64_t lo, const auto& other) { return lo < other->lo; });
    sorted_.insert(place, std::move(allocation));
    return id;
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kResource, "no host memory for a device buffer", "allocate " + spec.label, "",
                 fmt::format("{} bytes", spec.bytes)};
  }
}

void AddressSpace::release(uint32_t id) {
  const auto found = by_id_.find(id);
  SB_ASSERT(found != by_id_.end());
  Allocation& allocation = *found->second;
  by_id_.erase(found);
  allocation.freed = true;
  allocation.storage.reset();
  allocation.host = nullptr;
  allocation.initialised = {};
  allocation.shadow = {};
  // Freed ranges stay known for messages, up to a limit.
  if (++freed_count_ > 2 * kKeptFreed) {
    size_t drop = freed_count_ - kKeptFreed;
    std::erase_if(sorted_, [&drop](const auto& other) { return other->freed && drop > 0 && drop-- > 0; });
    freed_count_ = kKeptFreed;
  }
}

void AddressSpace::forget_freed_below(uint64_t address) {
  const size_t dropped = std::erase_if(
      sorted_, [address](const auto& allocation) { return allocation->freed && allocation->lo < address; });
  freed_count_ -= std::min(freed_count_, dropped);
}

Allocation& AddressSpace::get(uint32_t id) {
  const auto found = by_id_.find(id);
  SB_ASSERT(found != by_id_.end());
  return *found->second;
}

const Allocation& AddressSpace::get(uint32_t id) const {
  const auto found = by_id_.find(id);
  SB_ASSERT(found != by_id_.end());
  return *found->second;
}

Allocation* AddressSpace::find(uint64_t address) {
  const auto above = std::upper_bound(sorted_.begin(), sorted_.end(), address,
                                      [](uint64_t lo, const auto& other) { return lo < other->lo; });
  if (above == sorted_.begin()) return nullptr;
  Allocation* below = std::prev(above)->get();
  return address - below->lo < below->bytes ? below : nullptr;
}

const Allocation* AddressSpace::nearest(uint64_t address) const {
  const auto above = std::upper_bound(sorted_.begin(), sorted_.end(), address,
                                      [](uint64_t lo, const auto& other) { return lo < other->lo; });
  const Allocation* below_it = nullptr;
  for (auto i = above; i != sorted_.begin() && below_it == nullptr;) {
    --i;
    if (!(*i)->freed) below_it = i->get();
  }
  const Allocation* above_it = nullptr;
  for (auto i = above; i != sorted_.end() && above_it == nullptr; ++i) {
    if (!(*i)->freed) above_it = i->get();
  }
  if (below_it == nullptr || above_it == nullptr) return below_it != nullptr ? below_it : above_it;
  const uint64_t end = below_it->lo + below_it->bytes;
  const uint64_t past = address > end ? address - end : 0;
  return past <= above_it->lo - address ? below_it : above_it;
}

// Every 16-bit half is a signalling NaN of bf16, and so every word one of f32: a value that was never written
// does not look like a plausible one, whatever the type.
void poison(Allocation& allocation, uint64_t seed) {
  uint64_t state = seed ^ 0x706f69736f6eull;
  std::byte* to = allocation.host;
  uint64_t left = allocation.bytes;
  while (left > 0) {
    const uint64_t random = mix(state) & 0x003f003f003f003full;
    // 0x7f80 + 1..0x3e: exponent all ones, quiet bit clear, mantissa not zero.
    uint64_t word = 0;
    for (int k = 0; k < 4; ++k) {
      const uint64_t part = (random >> (16 * k)) & 0x3f;
      word |= (0x7f80 + (part == 0 ? 1 : part)) << (16 * k);
    }
    const uint64_t count = std::min<uint64_t>(left, 8);
    std::memcpy(to, &word, count);
    to += count;
    left -= count;
  }
  std::fill(allocation.initialised.begin(), allocation.initialised.end(), uint8_t{0});
}

bool bits_set(const uint8_t* bits, uint64_t first, uint64_t count) {
  uint64_t bit = first;
  const uint64_t end = first + count;
  while (bit < end && (bit & 7) != 0) {
    if ((bits[bit >> 3] >> (bit & 7) & 1) == 0) return false;
    ++bit;
  }
  while (end - bit >= 8 && bit < end) {
    if (bits[bit >> 3] != 0xff) return false;
    bit += 8;
  }
  while (bit < end) {
    if ((bits[bit >> 3] >> (bit & 7) & 1) == 0) return false;
    ++bit;
  }
  return true;
}

void set_bits(uint8_t* bits, uint64_t first, uint64_t count) {
  uint64_t bit = first;
  uint64_t left = count;
  if ((bit & 7) + left <= 8) {
    bits[bit >> 3] = static_cast<uint8_t>(bits[bit >> 3] | ((1u << left) - 1) << (bit & 7));
    return;
  }
  if ((bit & 7) != 0) {
    const uint64_t head = 8 - (bit & 7);
    bits[bit >> 3] = static_cast<uint8_t>(bits[bit >> 3] | 0xffu << (bit & 7));
    bit += head;
    left -= head;
  }
  std::memset(bits + (bit >> 3), 0xff, left / 8);
  bit += left / 8 * 8;
  left &= 7;
  if (left > 0) bits[bit >> 3] = static_cast<uint8_t>(bits[bit >> 3] | ((1u << left) - 1));
}

namespace {

bool any_bit_set(const uint8_t* bits, uint64_t first, uint64_t count) {
  for (uint64_t bit = first; bit < first + count; ++bit) {
    if ((bits[bit >> 3] >> (bit & 7) & 1) != 0) return true;
  }
  return false;
}

bool fail(ExecState& state, FaultReason reason, MemorySpace space, int lane, uint64_t address, uint32_t bytes,
          Access access) {
  state.faulted = true;
  state.fault = FaultRecord{};
  state.fault.reason = reason;
  state.fault.space = space;
  state.fault.is_store = access == Access::kStore;
  state.fault.is_atomic = access == Access::kAtomic;
  state.fault.lane = lane;
  state.fault.address = address;
  state.fault.bytes = bytes;
  return false;
}

}  // namespace

void clear_bits(uint8_t* bits, uint64_t first, uint64_t count) {
  for (uint64_t bit = first; bit < first + count; ++bit) {
    bits[bit >> 3] = static_cast<uint8_t>(bits[bit >> 3] & ~(1u << (bit & 7)));
  }
}

bool fill_cache(ExecState& state, AccessCache& cache, uint64_t address, bool for_store) {
  const Allocation* allocation = state.memory->find(address);
  if (allocation == nullptr || allocation->freed || (for_store && allocation->read_only)) return false;
  cache.lo = allocation->lo;
  cache.bytes = allocation->bytes;
  cache.host = allocation->host;
  cache.initialised = const_cast<uint8_t*>(allocation->initialised.data());
  cache.bit_base = allocation->bit_base;
  return true;
}

bool resolve(ExecState& state, const Decoded& instruction, int lane, MemorySpace space, uint64_t address,
             uint32_t bytes, Access access, Resolved& out) {
  return resolve_range(state, instruction, lane, space, address, bytes, bytes, access, out);
}

bool resolve_range(ExecState& state, const Decoded& instruction, int lane, MemorySpace space, uint64_t address,
                   uint32_t bytes, uint32_t align, Access access, Resolved& out) {
  if (space == MemorySpace::kGeneric) {
    if (address - kSharedWindow < kWindowBytes) {
      space = MemorySpace::kShared;
      address -= kSharedWindow;
    } else if (address - kLocalWindow < kWindowBytes) {
      space = MemorySpace::kLocal;
      address -= kLocalWindow;
    } else {
      space = MemorySpace::kGlobal;
    }
  }
  if (space == MemorySpace::kShared || space == MemorySpace::kLocal) {
    const bool shared = space == MemorySpace::kShared;
    const uint64_t base = shared ? kSharedBase : kLocalBase;
    const uint64_t room = shared ? state.shared_bytes : state.local_bytes;
    const uint64_t offset = address - base;
    if (offset >= room || bytes > room - offset) {
      return fail(state, FaultReason::kOutOfBounds, space, lane, address, bytes, access);
    }
    const uint64_t skip = shared ? 0 : static_cast<uint64_t>(lane) * state.local_stride;
    out.host = (shared ? state.shared : state.local) + skip + offset;
    out.initialised = shared ? state.shared_initialised : state.local_initialised;
    out.bit = skip + offset;
    out.shadow = nullptr;
  } else {
    Allocation* allocation = state.memory->find(address);
    if (allocation == nullptr) {
      const FaultReason reason = address < 4096 ? FaultReason::kNull : FaultReason::kOutOfBounds;
      return fail(state, reason, MemorySpace::kGlobal, lane, address, bytes, access);
    }
    if (allocation->freed) return fail(state, FaultReason::kFreed, MemorySpace::kGlobal, lane, address, bytes, access);
    if (bytes > allocation->bytes - (address - allocation->lo)) {
      return fail(state, FaultReason::kOutOfBounds, MemorySpace::kGlobal, lane, address, bytes, access);
    }
    if (allocation->read_only && access != Access::kLoad) {
      return fail(state, FaultReason::kReadOnly, MemorySpace::kGlobal, lane, address, bytes, access);
    }
    space = MemorySpace::kGlobal;
    out.host = allocation->host + (address - allocation->lo);
    out.initialised = allocation->initialised.data();
    out.bit = address - allocation->bit_base;
    out.shadow = nullptr;
    if (state.races != nullptr && !allocation->read_only) {
      if (allocation->shadow.empty()) {
        allocation->shadow.resize((allocation->lo - allocation->bit_base + allocation->bytes + 3) / 4 + 1);
      }
      out.shadow = allocation->shadow.data() + (address - allocation->bit_base) / 4;
    }
  }
  out.space = space;
  if (address % align != 0) return fail(state, FaultReason::kMisaligned, space, lane, address, bytes, access);
  if (access != Access::kStore) {
    // Local memory: a copy of a struct carries its padding along, so only an access to nothing written at all counts.
    const bool good = space == MemorySpace::kLocal ? any_bit_set(out.initialised, out.bit, bytes)
                                                   : bits_set(out.initialised, out.bit, bytes);
    if (!good) return fail(state, FaultReason::kUninitialised, space, lane, address, bytes, access);
  }
  if (state.races != nullptr && space != MemorySpace::kLocal) {
    return check_race(state, instruction, lane, address, bytes, access, out);
  }
  return true;
}

namespace {

// Distinct values among `count` numbers.
uint64_t count_distinct(uint64_t* values, int count) {
  std::sort(values, values + count);
  return static_cast<uint64_t>(std::unique(values, values + count) - values);
}

// As in memory_ops.cc: passes over 32 banks of 4 bytes.
uint64_t count_wavefronts(const uint64_t* addresses, const int* lanes, int count, uint32_t bytes) {
  const int words = bytes < 4 ? 1 : static_cast<int>(bytes / 4);
  const int group = kLanes / words;
  uint64_t total = 0;
  for (int start = 0; start < kLanes; start += group) {
    uint64_t touched[kLanes];
    int n = 0;
    for (int i = 0; i < count; ++i) {
      if (lanes[i] < start || lanes[i] >= start + group) continue;
      for (int k = 0; k < words; ++k) touched[n++] = (addresses[i] >> 2) + static_cast<uint64_t>(k);
    }
    n = static_cast<int>(count_distinct(touched, n));
    uint64_t used[32] = {};
    uint64_t most = 0;
    for (int i = 0; i < n; ++i) most = std::max(most, ++used[touched[i] & 31]);
    total += most;
  }
  return total;
}

void copy_element(ExecState& state, uint32_t slot_offset, int lane, std::byte* memory, uint32_t bytes, bool sign,
                  bool store) {
  const uint32_t slot_bytes = std::max(bytes, 2u);
  std::byte* element = state.registers + slot_offset + static_cast<uint32_t>(lane) * slot_bytes;
  if (store) {
    std::memcpy(memory, element, bytes);
  } else if (bytes == 1) {
    const uint8_t low = static_cast<uint8_t>(*memory);
    const uint16_t wide = sign ? static_cast<uint16_t>(static_cast<int16_t>(static_cast<int8_t>(low))) : low;
    std::memcpy(element, &wide, 2);
  } else {
    std::memcpy(element, memory, bytes);
  }
}

}  // namespace

void access_slowly(ExecState& state, const Decoded& instruction) {
  const uint32_t element_bytes = 1u << (instruction.flags & 3);
  const uint32_t elements = 1u << (instruction.flags >> 2 & 3);
  const uint32_t bytes = element_bytes * elements;
  const bool store = (instruction.flags & kAccessStore) != 0;
  const bool sign = (instruction.flags & kAccessSigned) != 0;
  const auto space = static_cast<MemorySpace>(instruction.flags >> kAccessSpaceShift & 7);
  const bool narrow = space == MemorySpace::kShared || space == MemorySpace::kLocal;
  uint64_t global[kLanes], shared[kLanes];
  int shared_lanes[kLanes];
  int global_count = 0, shared_count = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((state.mask >> lane & 1) == 0) continue;
    const uint64_t address =
        narrow ? static_cast<uint32_t>(slot<uint32_t>(state, instruction.a)[lane] +
                                       static_cast<uint32_t>(instruction.immediate))
               : slot<uint64_t>(state, instruction.a)[lane] + static_cast<uint64_t>(instruction.immediate);
    Resolved at;
    if (!resolve(state, instruction, lane, space, address, bytes, store ? Access::kStore : Access::kLoad, at)) return;
    for (uint32_t k = 0; k < elements; ++k) {
      copy_element(state, instruction.v[k], lane, at.host + k * element_bytes, element_bytes, sign, store);
    }
    if (store) set_bits(at.initialised, at.bit, bytes);
    if (at.space == MemorySpace::kGlobal) {
      global[global_count++] = address >> 5;
    } else if (at.space == MemorySpace::kShared) {
      shared_lanes[shared_count] = lane;
      shared[shared_count++] = address;
    } else {
      state.counters.local_bytes += bytes;
    }
  }
  const uint64_t moved = static_cast<uint64_t>(global_count) * bytes;
  if (global_count > 0) {
    const uint64_t sectors = count_distinct(global, global_count);
    (store ? state.counters.global_store_bytes : state.counters.global_load_bytes) += moved;
    (store ? state.counters.global_store_sectors : state.counters.global_load_sectors) += sectors;
  }
  if (shared_count > 0) state.counters.shared_wavefronts += count_wavefronts(shared, shared_lanes, shared_count, bytes);
}

void slow_access(LaneState& state, const Decoded& instruction) {
  access_slowly(static_cast<ExecState&>(state), instruction);
}

void copy_local(LaneState& lanes, const Decoded& instruction) {
  ExecState& state = static_cast<ExecState&>(lanes);
  const uint64_t to = static_cast<uint64_t>(instruction.immediate) - kLocalBase;
  const uint64_t from = instruction.v[0] - kLocalBase;
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((state.mask >> lane & 1) == 0) continue;
    const uint64_t skip = static_cast<uint64_t>(lane) * state.local_stride;
    std::memmove(state.local + skip + to, state.local + skip + from, instruction.v[1]);
    for (uint64_t k = 0; k < instruction.v[1]; ++k) {
      if (bits_set(state.local_initialised, skip + from + k, 1)) {
        set_bits(state.local_initialised, skip + to + k, 1);
      } else {
        clear_bits(state.local_initialised, skip + to + k, 1);
      }
    }
  }
}

void clear_local(LaneState& lanes, const Decoded& instruction) {
  ExecState& state = static_cast<ExecState&>(lanes);
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((state.mask >> lane & 1) == 0) continue;
    const uint64_t skip = static_cast<uint64_t>(lane) * state.local_stride;
    clear_bits(state.local_initialised, skip + instruction.v[0] - kLocalBase, instruction.v[1] - instruction.v[0]);
  }
}

}  // namespace stepbench::vm
