// The race check: one shadow word per 4 bytes remembers the last write and the last reads of the current epoch.
#include "harness/ptx_vm/race.h"

namespace stepbench::vm {
namespace {

void report(ExecState& state, int lane, uint64_t address, uint32_t bytes, Access access, MemorySpace space,
            int32_t site, bool other_is_store, uint32_t owner) {
  state.faulted = true;
  state.fault = FaultRecord{};
  state.fault.reason = FaultReason::kRace;
  state.fault.space = space;
  state.fault.is_store = access == Access::kStore;
  state.fault.is_atomic = access == Access::kAtomic;
  state.fault.lane = lane;
  state.fault.address = address;
  state.fault.bytes = bytes;
  state.fault.other_site = site;
  state.fault.other_is_store = other_is_store;
  state.fault.other_owner = owner;
}

}  // namespace

bool check_race(ExecState& state, const Decoded& instruction, int lane, uint64_t address, uint32_t bytes, Access access,
                const Resolved& at) {
  RaceShadow& races = *state.races;
  const bool shared = at.space == MemorySpace::kShared;
  ShadowWord* word = shared ? races.shared : at.shadow;
  if (word == nullptr) return true;
  if (shared) word += at.bit / 4;
  const uint32_t epoch = shared ? races.shared_epoch : races.launch;
  const uint32_t owner = shared ? state.warp : state.block;
  const bool strong = access == Access::kAtomic || (instruction.flags & kAccessStrong) != 0;
  uint64_t* const last_strong = shared ? races.warp_strong : races.block_strong.data();
  // The other side did a strong operation after `then`, and this side one after that of it (all in one order: one
  // thread runs everything).
  const auto ordered = [&](uint32_t other, uint64_t then) {
    return last_strong[other] > then && last_strong[owner] > then;
  };
  const int32_t site = static_cast<int32_t>(instruction.site);
  const uint64_t words = (at.bit % 4 + bytes + 3) / 4;
  // Accesses narrower than a word share its shadow; only whole words are judged, so neighbours in one word never clash.
  const bool judged = bytes >= 4;
  for (uint64_t k = 0; k < words; ++k, ++word) {
    if (!judged) continue;
    const bool written = word->write_epoch == epoch && word->write_owner != owner &&
                         !(strong && word->write_atomic != 0) && !ordered(word->write_owner, word->write_time);
    if (written) {
      report(state, lane, address, bytes, access, at.space, word->write_site, true, word->write_owner);
      return false;
    }
    if (access != Access::kLoad) {
      const bool read = word->read_epoch == epoch && (word->read_owner != owner || word->read_several != 0) &&
                        !(strong && word->read_atomic != 0) && !ordered(word->read_owner, word->read_time);
      if (read) {
        report(state, lane, address, bytes, access, at.space, word->read_site, false, word->read_owner);
        return false;
      }
      const bool still_atomic = word->write_epoch != epoch || word->write_atomic != 0;
      word->write_atomic = strong && still_atomic ? 1 : 0;
      word->write_epoch = epoch;
      word->write_time = races.time;
      word->write_owner = owner;
      word->write_site = site;
    } else {
      if (word->read_epoch != epoch) {
        word->read_several = 0;
        word->read_atomic = strong ? 1 : 0;
      } else {
        if (word->read_owner != owner) word->read_several = 1;
        if (!strong) word->read_atomic = 0;
      }
      word->read_epoch = epoch;
      word->read_time = races.time;
      word->read_owner = owner;
      word->read_site = site;
    }
  }
  if (strong) {
    // One operation orders both kinds of memory.
    ++races.time;
    races.warp_strong[state.warp] = races.time;
    races.block_strong[state.block] = races.time;
  }
  return true;
}

}  // namespace stepbench::vm
