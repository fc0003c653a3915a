// Physical GPU memory mapped at random addresses between unmapped granules, and the pool that keeps such mappings from
// one owner to the next. Knows nothing of buffers.
//
// Making and removing a mapping takes five calls of the driver, about 0.15 ms on an H200, or twice that where it is
// read-only; a check of hundreds of small cases over hundreds of tensors would spend most of its time there. So a
// mapping that nobody needs any more goes into the pool, and the next owner that asks for as many bytes of the same
// kind gets one at random of those there.
//
// Why a candidate learns nothing from a mapping that had another owner:
// - The work of the earlier owner has ended, or stands in front of all later work: launches and timed steps are waited
//   for, and what the harness itself queues goes to the default stream, which orders it before the fill below.
// - All bytes are overwritten: with the new owner's pattern, before it gets the mapping, then with its buffers' poison.
// - What a kernel can keep are addresses, in its module's variables. A module lives as long as the device that loaded
//   it (CudaDevice), which is a case of a check or a timed list. There, and only there, several sessions share a
//   device, and a scratch buffer of a session that was closed may come back as scratch or table of one that is opened
//   later, while the module of the first is still loaded. That module runs only in steps of its own, each of which
//   poisons its scratch; an address that it kept leads to memory of another session of the same device, as any
//   address of that device's other buffers does that it might guess. Without the pool such an address would fault.
// - Two runs of one case may see the same address for a buffer of which there is only one of its size; before, no
//   address came twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "harness/result.h"

namespace stepbench::cuda {

class Gpu;

/// From the system; what must not be foreseen.
uint64_t random_u64();

/// Physical memory mapped at `begin`, and a second time at `alias` where kernels may not write at `begin`.
struct Mapping {
  uint64_t reserved = 0, reserved_bytes = 0;
  uint64_t begin = 0, bytes = 0;  ///< bytes 0: nothing is mapped
  uint64_t alias_reserved = 0, alias_reserved_bytes = 0, alias = 0;
  uint64_t writable() const { return alias != 0 ? alias : begin; }
};

/// Used by one thread at a time. The Gpu's, which clears it before the context goes.
class MappingPool {
 public:
  static constexpr uint64_t kMostMappingBytes = uint64_t{64} << 20;  ///< of one that is kept
  static constexpr uint64_t kMostBytes = uint64_t{8} << 30;          ///< of all, and a sixteenth of the GPU's
  static constexpr size_t kMostMappings = 8192;

  explicit MappingPool(Gpu& gpu);
  MappingPool(const MappingPool&) = delete;
  MappingPool& operator=(const MappingPool&) = delete;

  /// `bytes`: a multiple of the granule; 0: an unmapped place only. All of it holds `pattern`. Where memory is short,
  /// the pool is emptied first; kResource when that is not enough. The context is current.
  Result<Mapping> take(uint64_t bytes, bool read_only, unsigned char pattern);
  /// Keeps the mapping, or removes it, or larger ones, where there are enough. Does nothing when the GPU is lost.
  void give_back(const Mapping& mapping);
  /// Removes all that is here.
  void clear();

  size_t size() const { return count_; }

 private:
  using Kind = std::pair<uint64_t, bool>;  ///< bytes, read-only

  Result<void> reserve(uint64_t bytes, uint64_t& address);
  Result<Mapping> map(uint64_t bytes, bool read_only);
  void unmap(const Mapping& mapping);

  Gpu& gpu_;
  std::map<Kind, std::vector<Mapping>> free_;  ///< no list is empty
  uint64_t bytes_ = 0;
  size_t count_ = 0;
};

}  // namespace stepbench::cuda
