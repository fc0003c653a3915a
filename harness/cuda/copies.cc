// Copies through page-locked memory (see copies.h).
#include "harness/cuda/copies.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>

#include "harness/cuda/gpu.h"
#include "harness/parallel.h"

namespace stepbench::cuda {
namespace {

constexpr unsigned kStreamDefault = 0;  // ordered with the default stream
constexpr uint64_t kAlignment = 16;     // of the kernel's words: a piece keeps its address modulo this in the block
constexpr unsigned kThreads = 256;
constexpr uint64_t kSmallBytes = uint64_t{64} << 10;  // up to here by the kernel, beyond by the copy engine
constexpr uint64_t kLaneBytes = uint64_t{1} << 20;    // less is not worth a thread
constexpr uint64_t kLeastBatchBytes = uint64_t{256} << 10;

}  // namespace

struct CopyLanes::Work {
  CopyDirection direction = CopyDirection::kToHost;
  Function copy_pieces = nullptr;
  std::atomic<size_t> next{0};
  std::atomic<bool> stopped{false};
};

Result<std::unique_ptr<CopyLanes>> CopyLanes::open(Gpu& gpu) {
  std::unique_ptr<CopyLanes> lanes(new CopyLanes(gpu));
  const Driver& driver = gpu.driver();
  for (std::array<Block, 2>& lane : lanes->blocks_) {
    for (Block& block : lane) {
      if (const Result<void> done = gpu.check(driver.stream_create(&block.stream, kStreamDefault), "cuStreamCreate");
          !done.ok())
        return done.error();
      void* memory = nullptr;
      if (const Result<void> done =
              gpu.check(driver.host_allocate(&memory, kBlockBytes + kMostPieces * sizeof(KernelRow), kHostDeviceMap),
                        "cuMemHostAlloc");
          !done.ok())
        return done.error();
      block.bytes = static_cast<std::byte*>(memory);
      if (const Result<void> done =
              gpu.check(driver.host_device_address(&block.address, memory, 0), "cuMemHostGetDevicePointer");
          !done.ok())
        return done.error();
    }
  }
  return lanes;
}

CopyLanes::~CopyLanes() {
  if (gpu_.lost() || !gpu_.ready().ok()) return;  // the process ends, and with it the context
  for (const std::array<Block, 2>& lane : blocks_) {
    for (const Block& block : lane) {
      if (block.stream != nullptr) static_cast<void>(gpu_.driver().stream_destroy(block.stream));
      if (block.bytes != nullptr) static_cast<void>(gpu_.driver().host_free(block.bytes));
    }
  }
}

void CopyLanes::plan(std::span<const HostCopy> copies, uint64_t batch_bytes) {
  pieces_.clear();
  batches_.clear();
  uint64_t used = 0;
  for (const HostCopy& copy : copies) {
    for (uint64_t done = 0; done < copy.bytes;) {
      const Address device = copy.device + done;
      const auto place_after = [&](uint64_t offset) {
        const uint64_t aligned = (offset + kAlignment - 1) / kAlignment * kAlignment;
        return aligned + device % kAlignment;
      };
      const bool full =
          batches_.empty() || batches_.back().count == kMostPieces || place_after(used) + kAlignment > batch_bytes;
      if (full) {
        batches_.push_back({pieces_.size(), 0});
        used = 0;
      }
      const uint64_t offset = place_after(used);
      const uint64_t bytes = std::min(copy.bytes - done, batch_bytes - offset);
      pieces_.push_back({{device, copy.host + done, bytes}, offset});
      ++batches_.back().count;
      used = offset + bytes;
      done += bytes;
    }
  }
}

/// Puts a batch's copies between GPU and block on the block's stream.
CopyLanes::Failed CopyLanes::queue(const Work& work, const Batch& batch, Block& block) const {
  const Driver& driver = gpu_.driver();
  const bool to_host = work.direction == CopyDirection::kToHost;
  auto* const rows = reinterpret_cast<KernelRow*>(block.bytes + kBlockBytes);
  unsigned count = 0;
  for (const Piece& piece : std::span(pieces_).subspan(batch.first, batch.count)) {
    if (work.copy_pieces != nullptr && piece.copy.bytes <= kSmallBytes) {
      const Address in_block = block.address + piece.offset_bytes;
      rows[count++] = to_host ? KernelRow{in_block, piece.copy.device, piece.copy.bytes, 0}
                              : KernelRow{piece.copy.device, in_block, piece.copy.bytes, 0};
      continue;
    }
    std::byte* const in_block = block.bytes + piece.offset_bytes;
    const Status status =
        to_host ? driver.copy_to_host_async(in_block, piece.copy.device, piece.copy.bytes, block.stream)
                : driver.copy_to_device_async(piece.copy.device, in_block, piece.copy.bytes, block.stream);
    if (status != kSuccess) return {status, to_host ? "cuMemcpyDtoHAsync" : "cuMemcpyHtoDAsync"};
  }
  if (count == 0) return {};
  Address table = block.address + kBlockBytes;
  return {launch_packed(driver, work.copy_pieces, count, kThreads, block.stream, &table, sizeof(table)),
          "cuLaunchKernelEx"};
}

void CopyLanes::copy_on_host(CopyDirection direction, const Batch& batch, const Block& block) const {
  for (const Piece& piece : std::span(pieces_).subspan(batch.first, batch.count)) {
    std::byte* const in_block = block.bytes + piece.offset_bytes;
    if (direction == CopyDirection::kToHost)
      std::memcpy(piece.copy.host, in_block, piece.copy.bytes);
    else
      std::memcpy(in_block, piece.copy.host, piece.copy.bytes);
  }
}

/// Takes batch after batch, alternating between the blocks. Both streams have run dry at the end, whatever went wrong.
CopyLanes::Failed CopyLanes::run_lane(Work& work, std::array<Block, 2>& blocks) const {
  const Driver& driver = gpu_.driver();
  const bool to_host = work.direction == CopyDirection::kToHost;
  std::array<std::optional<Batch>, 2> busy;
  Failed failed;
  const auto finish = [&](size_t i) {
    if (!busy[i]) return;
    const Status status = driver.stream_synchronize(blocks[i].stream);
    if (status != kSuccess && failed.status == kSuccess) failed = {status, "cuStreamSynchronize"};
    if (failed.status == kSuccess && to_host) copy_on_host(work.direction, *busy[i], blocks[i]);
    busy[i].reset();
  };
  size_t turn = 0;
  for (; failed.status == kSuccess && !work.stopped.load(); turn = 1 - turn) {
    const size_t index = work.next.fetch_add(1);
    if (index >= batches_.size()) break;
    const Batch& batch = batches_[index];
    finish(turn);
    if (failed.status != kSuccess) break;
    if (!to_host) copy_on_host(work.direction, batch, blocks[turn]);
    busy[turn] = batch;
    failed = queue(work, batch, blocks[turn]);
    if (to_host) finish(1 - turn);
  }
  finish(turn);
  finish(1 - turn);
  if (failed.status != kSuccess) work.stopped.store(true);
  return failed;
}

Result<void> CopyLanes::run(CopyDirection direction, std::span<const HostCopy> copies, Function copy_pieces) {
  uint64_t total = 0;
  for (const HostCopy& copy : copies) total += copy.bytes;
  const size_t most_lanes = static_cast<size_t>(std::clamp<uint64_t>(total / kLaneBytes, 1, kLanes));
  plan(copies, std::clamp(total / (2 * most_lanes), kLeastBatchBytes, kBlockBytes));
  Work work;
  work.direction = direction;
  work.copy_pieces = copy_pieces;
  std::array<Failed, kLanes> failed;
  std::array<Result<void>, kLanes> usable;
  const size_t lanes = std::min(most_lanes, batches_.size());
  run_parallel(static_cast<int>(lanes), lanes, [&](size_t lane) {
    usable[lane] = gpu_.ready();  // the context is one of the thread's properties
    if (usable[lane].ok()) failed[lane] = run_lane(work, blocks_[lane]);
  });
  for (size_t lane = 0; lane < lanes; ++lane) {
    if (!usable[lane].ok()) return usable[lane];
    if (const Result<void> done = gpu_.check(failed[lane].status, failed[lane].call); !done.ok()) return done;
  }
  return {};
}

}  // namespace stepbench::cuda
