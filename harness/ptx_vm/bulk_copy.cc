// Bulk copies and mbarrier objects (see bulk_copy.h). References are to the PTX ISA manual (CUDA 13.0), section 9.7.
#include "harness/ptx_vm/bulk_copy.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "harness/ptx_vm/tensor_map.h"
#include "harness/stages.h"

namespace stepbench::vm {
namespace {

constexpr uint32_t kMaxCount = (1u << 20) - 1;  // "mbarrier": ranges of counts and of the tx-count
constexpr uint64_t kMaxPendingBytes = uint64_t{4} << 20;
constexpr uint64_t kMaxPendingStores = 4096;

bool fail_with(ExecState& state, int lane, FaultKind kind, const char* sentence) {
  state.faulted = true;
  state.fault = FaultRecord{};
  state.fault.reason = FaultReason::kOther;
  state.fault.other_kind = static_cast<uint8_t>(kind);
  state.fault.sentence = sentence;
  state.fault.lane = lane;
  return false;
}

/// Memory faults that resolve() does not find itself.
bool fail_at(ExecState& state, int lane, FaultReason reason, uint64_t shared_offset, uint32_t bytes, bool store) {
  state.faulted = true;
  state.fault = FaultRecord{};
  state.fault.reason = reason;
  state.fault.space = MemorySpace::kShared;
  state.fault.is_store = store;
  state.fault.lane = lane;
  state.fault.address = kSharedBase + shared_offset;
  state.fault.bytes = bytes;
  return false;
}

// ------------------------------------------------------------------------------------------------ mbarrier

/// One object, in 8 bytes of shared memory.
struct Mbarrier {
  uint32_t expected = 0, pending = 0;
  int32_t tx = 0;
  bool odd = false;  ///< parity of the current phase
};
constexpr uint64_t kValid = uint64_t{1} << 63, kOdd = uint64_t{1} << 62;

uint64_t to_word(const Mbarrier& b) {
  return kValid | (b.odd ? kOdd : 0) | uint64_t{b.expected} | uint64_t{b.pending} << 20 |
         static_cast<uint64_t>(b.tx + (1 << 21)) << 40;
}
std::optional<Mbarrier> from_word(uint64_t word) {
  if ((word & kValid) == 0) return std::nullopt;
  Mbarrier b;
  b.expected = static_cast<uint32_t>(word & kMaxCount);
  b.pending = static_cast<uint32_t>(word >> 20 & kMaxCount);
  b.tx = static_cast<int32_t>(word >> 40 & 0x3fffff) - (1 << 21);
  b.odd = (word & kOdd) != 0;
  return b;
}

/// "Phase completion": no arrivals and no bytes are outstanding.
void settle(Mbarrier& b) {
  if (b.pending != 0 || b.tx != 0) return;
  b.odd = !b.odd;
  b.pending = b.expected;
}

bool read_barrier(ExecState& state, int lane, const Resolved& at, Mbarrier& out) {
  uint64_t word = 0;
  std::memcpy(&word, at.host, sizeof word);
  const std::optional<Mbarrier> barrier = from_word(word);
  if (!barrier)
    return fail_with(state, lane, FaultKind::kTrap, "there is no mbarrier at this address: mbarrier.init makes one");
  out = *barrier;
  return true;
}
void write_barrier(const Resolved& at, const Mbarrier& b) {
  const uint64_t word = to_word(b);
  std::memcpy(at.host, &word, sizeof word);
}

bool add_bytes(ExecState& state, int lane, Mbarrier& b, int64_t bytes) {
  const int64_t tx = b.tx + bytes;
  if (tx > int64_t{kMaxCount} || tx < -int64_t{kMaxCount})
    return fail_with(state, lane, FaultKind::kTrap, "the mbarrier's tx-count leaves its range of 2^20 - 1 bytes");
  b.tx = static_cast<int32_t>(tx);
  return true;
}

bool resolve_barrier(ExecState& state, const Decoded& instruction, int lane, MemorySpace space, uint64_t address,
                     Access access, Resolved& at) {
  if (!resolve(state, instruction, lane, space, address, 8, access, at)) return false;
  if (at.space == MemorySpace::kShared) return true;
  return fail_with(state, lane, FaultKind::kTrap, "an mbarrier lies in shared memory");
}

void write_shared(ExecState& state, uint32_t to, std::span<const std::byte> bytes) {
  std::memcpy(state.shared + to, bytes.data(), bytes.size());
  set_bits(state.shared_initialised, to, bytes.size());
}

/// A load's bytes arrive, and its mbarrier learns of them ("complete-tx operation").
bool complete(ExecState& state, int lane, const PendingLoad& load) {
  write_shared(state, load.to, load.bytes);
  uint64_t word = 0;
  std::memcpy(&word, state.shared + load.barrier, sizeof word);
  std::optional<Mbarrier> barrier = from_word(word);
  if (!barrier)
    return fail_with(state, lane, FaultKind::kTrap,
                     "the mbarrier of a bulk copy was overwritten before the copy ended");
  if (!add_bytes(state, lane, *barrier, -static_cast<int64_t>(load.bytes.size()))) return false;
  settle(*barrier);
  word = to_word(*barrier);
  std::memcpy(state.shared + load.barrier, &word, sizeof word);
  return true;
}

/// The oldest load of those that signal this mbarrier, or of all. False: there is none, or a fault.
bool complete_one(ExecState& state, int lane, std::optional<uint32_t> barrier) {
  std::vector<PendingLoad>& loads = state.bulk->loads;
  const auto found = std::find_if(loads.begin(), loads.end(),
                                  [&](const PendingLoad& load) { return !barrier || load.barrier == *barrier; });
  if (found == loads.end()) return false;
  const PendingLoad load = std::move(*found);
  loads.erase(found);
  state.bulk->load_bytes -= load.bytes.size();
  return complete(state, lane, load);
}

// ------------------------------------------------------------------------------------------------ boxes

/// What a copy goes through: every element inside the view or, for a store, every piece of 16 bytes with one in it. The
/// accelerator stores nothing smaller, so a row that does not end at a multiple of 16 bytes takes what lies behind it
/// along (found on an H200; the PTX manual says nothing of it, Triton's descriptor stores had the same fault).
enum class Reach : uint8_t { kElements, kPieces };
constexpr int64_t kPieceBytes = 16;

/// Calls f(address, byte in the box, bytes) for every run inside the view; f returns false to stop.
template <class F>
bool for_each_row(const BulkBox& box, Reach reach, F f) {
  const TensorMapSpec& view = box.view;
  const auto rank = static_cast<size_t>(view.rank);
  const int64_t element = dtype_bytes(view.dtype);
  std::array<int64_t, TensorMapSpec::kMaxRank> count{1, 1, 1, 1, 1};
  for (size_t i = 0; i < rank; ++i) count[i] = (view.box[i] + view.element_strides[i] - 1) / view.element_strides[i];
  const int64_t first = std::max<int64_t>(box.at[0], 0);
  const int64_t unit = reach == Reach::kPieces ? kPieceBytes / element : 1;
  const int64_t row_end = (static_cast<int64_t>(view.dims[0]) + unit - 1) / unit * unit;
  const int64_t end = std::min(box.at[0] + count[0], row_end);
  int64_t rows = 1;
  for (size_t i = 1; i < rank; ++i) rows *= count[i];
  for (int64_t row = 0; row < rows && first < end; ++row) {
    int64_t rest = row;
    uint64_t address = view.address + static_cast<uint64_t>(first * element);
    bool inside = true;
    for (size_t i = 1; i < rank; ++i) {
      const int64_t x = box.at[i] + rest % count[i] * view.element_strides[i];
      rest /= count[i];
      inside = inside && x >= 0 && x < static_cast<int64_t>(view.dims[i]);
      address += static_cast<uint64_t>(x) * view.strides_bytes[i - 1];
    }
    if (!inside) continue;
    const auto offset = static_cast<uint64_t>((row * count[0] + first - box.at[0]) * element);
    if (!f(address, offset, static_cast<uint32_t>((end - first) * element))) return false;
  }
  return true;
}

uint32_t box_bytes(const TensorMapSpec& view) {
  uint64_t elements = 1;
  for (size_t i = 0; i < static_cast<size_t>(view.rank); ++i)
    elements *= (view.box[i] + view.element_strides[i] - 1) / view.element_strides[i];
  return static_cast<uint32_t>(elements * dtype_bytes(view.dtype));
}

/// Sectors of 32 bytes under rows that ascend; neighbours share theirs.
struct Sectors {
  uint64_t count = 0, last = ~uint64_t{0};
  void add(uint64_t address, uint32_t bytes) {
    const uint64_t from = address >> 5, to = (address + bytes - 1) >> 5;
    count += to - from + (from == last ? 0 : 1);
    last = to;
  }
};

bool overlaps(uint32_t a, uint64_t a_bytes, uint32_t b, uint64_t b_bytes) { return a < b + b_bytes && b < a + a_bytes; }

/// The shared side of a copy: inside the block's memory, aligned, and clear of copies in flight.
bool check_shared(ExecState& state, int lane, uint32_t address, uint32_t bytes, uint32_t align, bool load) {
  const uint64_t offset = uint64_t{address} - kSharedBase;  // wraps below the base
  if (offset >= state.shared_bytes || bytes > state.shared_bytes - offset)
    return fail_at(state, lane, FaultReason::kOutOfBounds, offset, bytes, load);
  if (address % align != 0)
    return fail_with(state, lane, FaultKind::kMisaligned,
                     align == 128 ? "the shared memory of a bulk tensor copy must be aligned to 128 bytes"
                                  : "the shared memory of a bulk copy must be aligned to 16 bytes");
  const auto at = static_cast<uint32_t>(offset);
  const auto race = [&](const char* sentence) { return fail_with(state, lane, FaultKind::kRace, sentence); };
  for (const PendingLoad& other : state.bulk->loads)
    if (overlaps(at, bytes, other.to, other.bytes.size()))
      return race("a bulk copy uses shared memory that another one, not waited for, is writing");
  if (!load) return true;
  for (const auto& [thread, stores] : state.bulk->stores) {
    for (const std::vector<PendingStore>& group : stores.groups)
      for (const PendingStore& other : group)
        if (overlaps(at, bytes, other.from, other.bytes))
          return race("a bulk copy writes shared memory that a store, not waited for, is reading");
    for (const PendingStore& other : stores.open)
      if (overlaps(at, bytes, other.from, other.bytes))
        return race("a bulk copy writes shared memory that a store, not committed, is reading");
  }
  return true;
}

/// A row of global memory, reported by the first byte at fault.
bool resolve_row(ExecState& state, const Decoded& instruction, int lane, uint64_t address, uint32_t bytes,
                 uint32_t element, Access access, Resolved& at) {
  if (resolve_range(state, instruction, lane, MemorySpace::kGlobal, address, bytes, 1, access, at)) return true;
  if (state.fault.reason != FaultReason::kUninitialised) return false;
  for (uint32_t k = 0; k < bytes; k += element) {
    if (bits_set(at.initialised, at.bit + k, element)) continue;
    state.fault.address = address + k;
    state.fault.bytes = element;
    break;
  }
  return false;
}

/// Reads the box (issue of a load). `bytes` has its size and the fill.
bool read_box(ExecState& state, const Decoded& instruction, int lane, const BulkBox& box, std::span<std::byte> bytes) {
  const uint32_t element = dtype_bytes(box.view.dtype);
  Sectors sectors;
  const bool good = for_each_row(box, Reach::kElements, [&](uint64_t address, uint64_t offset, uint32_t count) {
    Resolved at;
    if (!resolve_row(state, instruction, lane, address, count, element, Access::kLoad, at)) return false;
    std::memcpy(bytes.data() + offset, at.host, count);
    state.counters.global_load_bytes += count;
    sectors.add(address, count);
    return true;
  });
  state.counters.global_load_sectors += sectors.count;
  state.counters.shared_wavefronts += (bytes.size() + 127) / 128;
  return good;
}

/// Checks both sides of a store (its issue).
bool check_store(ExecState& state, const Decoded& instruction, int lane, uint32_t from, const BulkBox& box) {
  const uint32_t element = dtype_bytes(box.view.dtype);
  const int64_t row_bytes = (static_cast<int64_t>(box.view.dims[0]) - std::max<int64_t>(box.at[0], 0)) * element;
  Sectors sectors;
  const bool good = for_each_row(box, Reach::kPieces, [&](uint64_t address, uint64_t offset, uint32_t count) {
    Resolved at;
    if (!resolve_range(state, instruction, lane, MemorySpace::kShared, kSharedBase + from + offset, count, 1,
                       Access::kLoad, at))
      return false;
    if (!resolve_row(state, instruction, lane, address, count, element, Access::kStore, at)) {
      state.fault.taken_along_bytes = static_cast<uint32_t>(std::max<int64_t>(count - row_bytes, 0));
      return false;
    }
    state.counters.global_store_bytes += count;
    sectors.add(address, count);
    return true;
  });
  state.counters.global_store_sectors += sectors.count;
  state.counters.shared_wavefronts += (box_bytes(box.view) + 127) / 128;
  return good;
}

void perform(ExecState& state, const PendingStore& store) {
  for_each_row(store.box, Reach::kPieces, [&](uint64_t address, uint64_t offset, uint32_t count) {
    Allocation* allocation = state.memory->find(address);
    SB_ASSERT(allocation != nullptr && !allocation->read_only);  // checked when it was issued
    std::memcpy(allocation->host + (address - allocation->lo), state.shared + store.from + offset, count);
    set_bits(allocation->initialised.data(), address - allocation->bit_base, count);
    return true;
  });
  --state.bulk->store_count;
}

void perform_groups(ExecState& state, ThreadStores& stores, size_t left) {
  while (stores.groups.size() > left) {
    for (const PendingStore& store : stores.groups.front()) perform(state, store);
    stores.groups.pop_front();
  }
}

bool issue_load(ExecState& state, const Decoded& instruction, int lane, const BulkBox& box, uint32_t to,
                uint32_t align) {
  const uint32_t bytes = box_bytes(box.view);
  if (!check_shared(state, lane, to, bytes, align, true)) return false;
  Resolved at;
  Mbarrier barrier;
  if (!resolve_barrier(state, instruction, lane, MemorySpace::kShared, slot<uint32_t>(state, instruction.c)[lane],
                       Access::kAtomic, at) ||
      !read_barrier(state, lane, at, barrier))
    return false;
  PendingLoad load;
  load.barrier = static_cast<uint32_t>(at.bit);
  load.to = to - kSharedBase;
  load.bytes.resize(bytes);
  if (!read_box(state, instruction, lane, box, load.bytes)) return false;
  clear_bits(state.shared_initialised, load.to, bytes);
  BulkCopies& copies = *state.bulk;
  copies.load_bytes += bytes;
  copies.loads.push_back(std::move(load));
  while (copies.load_bytes > kMaxPendingBytes)
    if (!complete_one(state, lane, std::nullopt)) return false;
  return true;
}

bool issue_store(ExecState& state, const Decoded& instruction, int lane, const BulkBox& box, uint32_t from,
                 uint32_t align) {
  // Loads may begin before the view, stores may not (CUDA C++ programming guide, "Tensor Memory Access"); an illegal
  // instruction on an H200.
  if (std::any_of(box.at.begin(), box.at.end(), [](int64_t x) { return x < 0; }))
    return fail_with(state, lane, FaultKind::kTrap,
                     "a bulk tensor store must not begin before its tensor: no coordinate may be negative");
  const uint32_t bytes = box_bytes(box.view);
  if (!check_shared(state, lane, from, bytes, align, false)) return false;
  if (!check_store(state, instruction, lane, from - kSharedBase, box)) return false;
  BulkCopies& copies = *state.bulk;
  ThreadStores& stores = copies.stores[state.warp * kLanes + static_cast<uint32_t>(lane)];
  if (copies.store_count >= kMaxPendingStores) {
    perform_groups(state, stores, 0);
    for (const PendingStore& store : stores.open) perform(state, store);
    stores.open.clear();
  }
  ++copies.store_count;
  stores.open.push_back({from - kSharedBase, bytes, box});
  return true;
}

/// The box that a lane's map and coordinates name.
std::optional<BulkBox> box_of(ExecState& state, const Decoded& instruction, int lane) {
  const uint64_t address = slot<uint64_t>(state, instruction.b)[lane];
  const auto wrong = [&](FaultKind kind, const char* sentence) {
    fail_with(state, lane, kind, sentence);
    return std::nullopt;
  };
  // On a GPU a map may lie in constant or global memory too, where kernels could make one.
  if (address < kParameterBase || address >= kConstBase)
    return wrong(FaultKind::kUnsupported, "the VM takes tensor maps from kernel parameters alone");
  if (address % 64 != 0) return wrong(FaultKind::kMisaligned, "a tensor map must be aligned to 64 bytes");
  const Allocation* parameters = state.memory->find(address);
  std::optional<TensorMapSpec> view;
  if (parameters != nullptr && parameters->bytes - (address - parameters->lo) >= sizeof(TensorMapBytes))
    view = decode_tensor_map(std::span(parameters->host + (address - parameters->lo), sizeof(TensorMapBytes)));
  if (!view)
    return wrong(FaultKind::kTrap, "there is no tensor map at this address: it is null, or no tensor_map argument");
  if (view->rank != static_cast<int32_t>(instruction.flags))
    return wrong(FaultKind::kTrap, "the tensor map has another number of dimensions than the instruction");
  if (view->swizzle != TensorMapSwizzle::kNone)
    return wrong(FaultKind::kUnsupported, "tensor maps with a swizzle are not supported by the VM");
  if (view->nan_outside)
    return wrong(FaultKind::kUnsupported, "tensor maps that fill with NaN are not supported by the VM");
  BulkBox box;
  box.view = *view;
  for (size_t i = 0; i < static_cast<size_t>(view->rank); ++i) box.at[i] = slot<int32_t>(state, instruction.v[i])[lane];
  // An illegal instruction on an H200; the manual's text on coordinates does not say so, Triton's tutorial on TMA does.
  if (box.at[0] * static_cast<int64_t>(dtype_bytes(view->dtype)) % kPieceBytes != 0)
    return wrong(FaultKind::kMisaligned,
                 "the first coordinate of a bulk tensor copy must be a multiple of 16 bytes, before the start as well");
  return box;
}

/// A copy of plain bytes (cp.async.bulk without .tensor) as a box.
std::optional<BulkBox> plain_box(ExecState& state, const Decoded& instruction, int lane) {
  BulkBox box;
  box.view.address = slot<uint64_t>(state, instruction.b)[lane];
  box.view.dtype = DType::kU8;
  const uint32_t bytes = slot<uint32_t>(state, instruction.e)[lane];
  box.view.dims[0] = box.view.box[0] = bytes;
  if (bytes % 16 != 0 || box.view.address % 16 != 0) {
    fail_with(state, lane, FaultKind::kMisaligned, "size and address of a bulk copy must be multiples of 16 bytes");
    return std::nullopt;
  }
  if (bytes > state.shared_bytes) {
    fail_with(state, lane, FaultKind::kOutOfBounds, "a bulk copy of more bytes than the block has shared memory");
    return std::nullopt;
  }
  return box;
}

/// `issue` for every active lane, with its box and its shared address.
template <class Box, class Issue>
void for_each_lane(LaneState& lanes, const Decoded& instruction, Box box_of_lane, Issue issue, uint32_t align) {
  ExecState& state = static_cast<ExecState&>(lanes);
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((state.mask >> lane & 1) == 0) continue;
    const std::optional<BulkBox> box = box_of_lane(state, instruction, lane);
    if (!box) return;
    const uint32_t shared = slot<uint32_t>(state, instruction.a)[lane] + static_cast<uint32_t>(instruction.immediate);
    if (!issue(state, instruction, lane, *box, shared, align)) return;
  }
}

bool access_barrier(ExecState& state, const Decoded& instruction, int lane) {
  const auto op = static_cast<MbarrierOp>(instruction.flags & 15);
  const auto space = static_cast<MemorySpace>(instruction.flags >> kBulkSpaceShift & 7);
  const bool narrow = space == MemorySpace::kShared;
  const uint64_t address =
      narrow ? static_cast<uint32_t>(slot<uint32_t>(state, instruction.a)[lane] +
                                     static_cast<uint32_t>(instruction.immediate))
             : slot<uint64_t>(state, instruction.a)[lane] + static_cast<uint64_t>(instruction.immediate);
  Resolved at;
  if (op == MbarrierOp::kInit) {
    const uint32_t count = slot<uint32_t>(state, instruction.b)[lane];
    if (!resolve_barrier(state, instruction, lane, space, address, Access::kStore, at)) return false;
    if (count < 1 || count > kMaxCount)
      return fail_with(state, lane, FaultKind::kTrap, "the count of an mbarrier must be 1 to 2^20 - 1");
    set_bits(at.initialised, at.bit, 8);
    write_barrier(at, {count, count, 0, false});
    return true;
  }
  if (!resolve_barrier(state, instruction, lane, space, address, Access::kAtomic, at)) return false;
  Mbarrier barrier;
  if (!read_barrier(state, lane, at, barrier)) return false;
  if (op == MbarrierOp::kInval) {
    for (const PendingLoad& load : state.bulk->loads)
      if (load.barrier == at.bit)
        return fail_with(state, lane, FaultKind::kRace, "mbarrier.inval of a barrier that a bulk copy will signal");
    std::memset(at.host, 0, 8);
    clear_bits(at.initialised, at.bit, 8);
    return true;
  }
  if (op == MbarrierOp::kTest) {
    const bool odd = (instruction.flags & kMbarrierParity) != 0
                         ? (slot<uint32_t>(state, instruction.b)[lane] & 1) != 0
                         : (slot<uint64_t>(state, instruction.b)[lane] & kOdd) != 0;
    // No more of them than the phase in question needs: what was not expected in it has not arrived yet.
    while (odd == barrier.odd && complete_one(state, lane, static_cast<uint32_t>(at.bit)))
      if (!read_barrier(state, lane, at, barrier)) return false;
    if (state.faulted) return false;
    slot<uint32_t>(state, instruction.d)[lane] = odd != barrier.odd ? 1 : 0;
    return true;
  }
  const uint64_t before = to_word(barrier);
  if (op != MbarrierOp::kArrive) {
    const uint32_t bytes = slot<uint32_t>(state, instruction.b)[lane];
    if (bytes > kMaxCount || !add_bytes(state, lane, barrier, bytes))
      return fail_with(state, lane, FaultKind::kTrap, "the mbarrier's tx-count leaves its range of 2^20 - 1 bytes");
  }
  if (op != MbarrierOp::kExpect) {
    const bool counted = op == MbarrierOp::kArrive && (instruction.flags & kMbarrierHasCount) != 0;
    const uint32_t count = counted ? slot<uint32_t>(state, instruction.b)[lane] : 1;
    if (count < 1 || count > barrier.pending)
      return fail_with(state, lane, FaultKind::kTrap, "more arrivals at an mbarrier than its phase still expects");
    barrier.pending -= count;
    settle(barrier);
    if (instruction.d != kNoSlot) slot<uint64_t>(state, instruction.d)[lane] = before;
  }
  write_barrier(at, barrier);
  return true;
}

}  // namespace

void mbarrier_access(LaneState& lanes, const Decoded& instruction) {
  ExecState& state = static_cast<ExecState&>(lanes);
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((state.mask >> lane & 1) != 0 && !access_barrier(state, instruction, lane)) return;
  }
}

void tensor_load(LaneState& state, const Decoded& instruction) {
  for_each_lane(state, instruction, box_of, issue_load, 128);
}
void tensor_store(LaneState& state, const Decoded& instruction) {
  for_each_lane(state, instruction, box_of, issue_store, 128);
}
void plain_load(LaneState& state, const Decoded& instruction) {
  for_each_lane(state, instruction, plain_box, issue_load, 16);
}
void plain_store(LaneState& state, const Decoded& instruction) {
  for_each_lane(state, instruction, plain_box, issue_store, 16);
}

void commit_group(LaneState& lanes, const Decoded&) {
  ExecState& state = static_cast<ExecState&>(lanes);
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((state.mask >> lane & 1) == 0) continue;
    const auto found = state.bulk->stores.find(state.warp * kLanes + lane);
    // A group without stores counts for nothing that can be seen: it is complete at once, but has its place in order.
    if (found == state.bulk->stores.end()) continue;
    found->second.groups.push_back(std::move(found->second.open));
    found->second.open.clear();
  }
}

void wait_group(LaneState& lanes, const Decoded& instruction) {
  ExecState& state = static_cast<ExecState&>(lanes);
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((state.mask >> lane & 1) == 0) continue;
    const auto found = state.bulk->stores.find(state.warp * kLanes + lane);
    if (found == state.bulk->stores.end()) continue;
    perform_groups(state, found->second, static_cast<size_t>(instruction.immediate));
    if (found->second.groups.empty() && found->second.open.empty()) state.bulk->stores.erase(found);
  }
}

void finish_bulk(ExecState& state, BulkCopies& copies) {
  for (auto& [thread, stores] : copies.stores) {
    perform_groups(state, stores, 0);
    for (const PendingStore& store : stores.open) perform(state, store);
  }
  copies = BulkCopies();
}

}  // namespace stepbench::vm
