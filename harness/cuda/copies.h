// Many copies between host and GPU at one go, through page-locked host memory. A pageable copy of its own costs about
// 10 us and moves 6 GB/s on an H200's host; page-locked blocks that several threads fill and empty move several times
// that, and small pieces go into a block by one launch for all of them. Knows nothing of buffers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "harness/cuda/driver.h"
#include "harness/result.h"

namespace stepbench::cuda {

class Gpu;

/// Bytes on the GPU and their place on the host.
struct HostCopy {
  Address device = 0;
  std::byte* host = nullptr;  ///< only read where the copy goes to the GPU
  uint64_t bytes = 0;         ///< may be 0
};

enum class CopyDirection : uint8_t { kToHost, kToDevice };

/// Lanes, each a thread for the time of a call, with two blocks of page-locked memory: while one is filled or emptied
/// by the GPU, the thread does the same with the other on the host.
///
/// Every block has a stream that orders itself after the default stream's work and before what comes there later (flag
/// 0, CU_STREAM_DEFAULT): fills, generated values and launches of checks are on the default stream, and nobody has to
/// wait for them here. A timed step on the stopwatch's stream is waited for by the device.
///
/// The blocks lie where a GPU can reach them, kernels of candidates too, if they guess the address. Nothing in them is
/// of use then: no kernel of a candidate runs during a call, a call leaves nothing there that is read later, and what a
/// block holds has been in the candidate's own buffers; the oracle's values never are.
class CopyLanes {
 public:
  static constexpr size_t kLanes = 4;
  static constexpr uint64_t kBlockBytes = uint64_t{8} << 20;
  static constexpr size_t kMostPieces = 1024;  ///< in a block

  /// The Gpu outlives it.
  static Result<std::unique_ptr<CopyLanes>> open(Gpu& gpu);
  ~CopyLanes();
  CopyLanes(const CopyLanes&) = delete;
  CopyLanes& operator=(const CopyLanes&) = delete;

  /// Done when it returns. The first failure counts; what has been copied then is undefined. `copy_pieces` is
  /// sb_copy_pieces of own_kernels.h, or null: then small pieces are copied one by one.
  Result<void> run(CopyDirection direction, std::span<const HostCopy> copies, Function copy_pieces);

 private:
  /// A part of a copy that fits a block, and its place there.
  struct Piece {
    HostCopy copy;
    uint64_t offset_bytes = 0;
  };
  /// What a block takes at once: pieces [first, first + count).
  struct Batch {
    size_t first = 0, count = 0;
  };
  /// As the kernel reads it.
  struct KernelRow {
    Address to = 0, from = 0;
    uint64_t bytes = 0, pad = 0;
  };
  struct Block {
    Stream stream = nullptr;
    std::byte* bytes = nullptr;  ///< then kMostPieces rows
    Address address = 0;         ///< the same for the GPU
  };
  struct Failed {
    Status status = kSuccess;
    const char* call = "";
  };
  struct Work;

  explicit CopyLanes(Gpu& gpu) : gpu_(gpu) {}
  void plan(std::span<const HostCopy> copies, uint64_t batch_bytes);
  Failed queue(const Work& work, const Batch& batch, Block& block) const;
  void copy_on_host(CopyDirection direction, const Batch& batch, const Block& block) const;
  Failed run_lane(Work& work, std::array<Block, 2>& blocks) const;

  Gpu& gpu_;
  std::array<std::array<Block, 2>, kLanes> blocks_;
  std::vector<Piece> pieces_;
  std::vector<Batch> batches_;
};

}  // namespace stepbench::cuda
