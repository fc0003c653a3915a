// Asynchronous bulk copies between global and shared memory, and the mbarrier objects that say when they are done
// (PTX ISA, sections "Data Movement and Conversion Instructions: Asynchronous copy" and "mbarrier").
//
// A copy is checked and, where it loads, read when it is issued; what it writes appears as late as the PTX ISA allows:
// a load's when somebody tests its mbarrier for a phase that needs it, a store's when its thread waits for the group,
// or when the block ends. Until then the bytes of a load's destination count as never written, and a source must not be
// loaded over: code that does not wait is a fault or gives a wrong result here, every time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "harness/device.h"
#include "harness/ptx_vm/memory.h"

namespace stepbench::vm {

/// A view and where in it the box begins; copies of plain bytes are a view of one dimension.
struct BulkBox {
  TensorMapSpec view;
  std::array<int64_t, TensorMapSpec::kMaxRank> at{};
};

struct PendingLoad {
  uint32_t barrier = 0;  ///< byte of the block's shared memory, as all places here
  uint32_t to = 0;
  std::vector<std::byte> bytes;
};
struct PendingStore {
  uint32_t from = 0, bytes = 0;
  BulkBox box;
};
/// Stores of one thread: groups in order of their commits, and those behind the last commit.
struct ThreadStores {
  std::deque<std::vector<PendingStore>> groups;
  std::vector<PendingStore> open;
};

/// What a block has in flight.
struct BulkCopies {
  std::vector<PendingLoad> loads;
  uint64_t load_bytes = 0;
  std::map<uint32_t, ThreadStores> stores;  ///< by thread of the block
  uint64_t store_count = 0;
  bool empty() const { return loads.empty() && stores.empty(); }
};

/// Decoded::flags of the handlers below: the space of mbarriers and of a copy's shared side.
inline constexpr int kBulkSpaceShift = 8;
enum class MbarrierOp : uint8_t { kInit, kInval, kExpect, kArrive, kArriveExpect, kTest };
inline constexpr uint16_t kMbarrierParity = 1 << 4, kMbarrierHasCount = 1 << 5;

/// d: state or predicate; a: address; b: count, bytes, state or parity.
void mbarrier_access(LaneState& state, const Decoded& instruction);
/// a: shared address, b: map, c: mbarrier (loads), v: coordinates, flags: rank.
void tensor_load(LaneState& state, const Decoded& instruction);
void tensor_store(LaneState& state, const Decoded& instruction);
/// a: shared address, b: global address, e: bytes, c: mbarrier (loads).
void plain_load(LaneState& state, const Decoded& instruction);
void plain_store(LaneState& state, const Decoded& instruction);
void commit_group(LaneState& state, const Decoded& instruction);
/// immediate: groups that may stay.
void wait_group(LaneState& state, const Decoded& instruction);

/// The block's end: stores take place, loads are forgotten.
void finish_bulk(ExecState& state, BulkCopies& copies);

}  // namespace stepbench::vm
