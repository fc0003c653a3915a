// Buffers in mapped GPU memory with guards around them: placement, host access, poison and the search for damage. Knows
// nothing of kernels, except that only their accesses are guarded.
//
// A buffer has a mapping of its own at a random address, between two reserved but unmapped granules (2 MiB on an H200),
// and ends at the end of its mapping as far as its alignment allows (less than 256 bytes off): what goes further past
// the end faults on read and write. Inside the mapping the bytes before the buffer, up to a granule, and the few behind
// it hold a pattern that is verified after each step, so that a write there is found, though a read is not. An empty
// buffer has an address where nothing is mapped. A read-only buffer is mapped twice: kernels get the address that only
// allows reading; the host writes through the other one, whose random address is told to nobody, so that a step
// changes no access rights.
//
// Mappings come from a pool (mapping.h), filled with the pattern of this Memory. A list of thousands of tensors would
// take more of them than are cheap (about 0.15 ms each where the pool has none, and 2 MiB in any case), so from
// kOwnMappings buffers on, further ones share mappings of 16 MiB, one kind for read-only buffers and one for others,
// each buffer between pattern gaps of 256 bytes to 1 KiB of random size. There only the pattern and the ends of the
// shared mapping stand between neighbours: a write into the gap is found, a read is not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/cuda/gpu.h"
#include "harness/cuda/mapping.h"
#include "harness/device.h"

namespace stepbench::cuda {

/// Bytes outside every buffer that a kernel has overwritten: the first of them, seen from the nearest buffer.
struct Damage {
  std::string buffer;       ///< label
  int64_t byte_offset = 0;  ///< from the buffer's start; negative before it
  uint64_t buffer_bytes = 0;
};

class Memory {
 public:
  static constexpr size_t kOwnMappings = 2048;

  explicit Memory(std::shared_ptr<Gpu> gpu);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  Result<uint32_t> allocate(const AllocationSpec& spec);
  void release(uint32_t id);
  uint64_t address(uint32_t id) const { return buffers_.at(id).address; }

  Result<void> write(uint32_t id, uint64_t offset_bytes, std::span<const std::byte> bytes);
  Result<void> read(uint32_t id, uint64_t offset_bytes, std::span<std::byte> bytes);
  Result<void> write_all(std::span<const WriteRequest> requests);
  Result<void> read_all(std::span<const ReadRequest> requests);
  /// `generate_kernel` is sb_generate of own_kernels.h.
  Result<void> generate(uint32_t id, const GenerateSpec& spec, Function generate_kernel);
  /// One launch for all; `kernel` is sb_generate_all.
  Result<void> generate_all(std::span<const GenerateRequest> requests, Function kernel);
  /// Fills with signalling NaNs of bfloat16, which make such NaNs of float32 in pairs; one word for the whole buffer.
  Result<void> poison(uint32_t id, uint64_t seed);

  /// Verifies all pattern bytes on the GPU: one launch and one copy of 8 bytes. Damage is repaired.
  Result<std::optional<Damage>> check_guards();

 private:
  struct Buffer {
    AllocationSpec spec;
    uint64_t address = 0;
    uint64_t write_address = 0;
    uint64_t low_begin = 0, high_end = 0;  ///< pattern bytes: [low_begin, address) and [end, high_end)
    std::optional<Mapping> own;
  };
  struct Shared {
    Mapping mapping;
    uint64_t cursor = 0;  ///< what lies behind is free, and pattern
  };
  struct Row {
    uint64_t begin = 0, end = 0;
  };

  template <class Request, class One, class Place>
  Result<void> copy_all(CopyDirection direction, std::span<const Request> requests, One one, Place place);
  Result<Buffer> place_alone(const AllocationSpec& spec);
  Result<Buffer> place_shared(const AllocationSpec& spec);
  Result<void> upload_rows();
  Damage describe(uint64_t address) const;
  uint64_t writable(uint64_t address) const;

  std::shared_ptr<Gpu> gpu_;
  std::map<uint32_t, Buffer> buffers_;
  std::map<uint64_t, uint32_t> by_address_;
  std::vector<Shared> shared_[2];  ///< [read-only]
  uint32_t next_id_ = 1;
  size_t own_mappings_ = 0;
  unsigned char pattern_ = 0;
  std::vector<Row> rows_;
  bool rows_stale_ = true;
  Mapping table_;  ///< the result, then the rows, as the guard kernel reads them
  Mapping generate_table_;
};

}  // namespace stepbench::cuda
