// Turns fault records into sentences. Decides nothing.
#include "harness/ptx_vm/fault.h"

#include <utility>

#include <fmt/format.h>

namespace stepbench::vm {
namespace {

// Further from every buffer than any wrong index leads: the address was never one of a buffer.
constexpr int64_t kNowhereBytes = int64_t{1} << 40;

std::string plural(uint64_t count, const char* word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

// "param[3]+4096", "param[3]-4".
std::string spot(const std::string& label, int64_t offset) {
  return fmt::format("{}{}{}", label.empty() ? "an unnamed buffer" : label, offset < 0 ? "" : "+", offset);
}

// How an access of `bytes` at `offset` lies to a range of `size` bytes.
std::string relation(int64_t offset, uint64_t bytes, uint64_t size) {
  if (offset < 0)
    return fmt::format("{} before its start ({})", plural(static_cast<uint64_t>(-offset), "byte"),
                       plural(size, "byte"));
  const uint64_t at = static_cast<uint64_t>(offset);
  if (at >= size) return fmt::format("{} past its end ({})", plural(at - size, "byte"), plural(size, "byte"));
  return fmt::format("reaching {} past its end ({})", plural(at + bytes - size, "byte"), plural(size, "byte"));
}

const char* access_word(const FaultRecord& record) {
  return record.is_atomic ? "atomic operation" : record.is_store ? "store" : "load";
}

}  // namespace

std::string describe_site(const Program& program, int32_t pc) {
  const Site& site = program.sites[static_cast<size_t>(pc)];
  const std::string text = site.text < program.texts.size() ? program.texts[site.text] : std::string();
  return site.source_line > 0
             ? fmt::format("source line {} (PTX line {}, \"{}\")", site.source_line, site.ptx_line, text)
             : fmt::format("PTX line {} (\"{}\")", site.ptx_line, text);
}

Fault fault_at(const Program& program, int32_t pc, FaultKind kind, std::string message) {
  Fault fault;
  fault.kind = kind;
  fault.message = std::move(message);
  fault.kernel = program.info.entry;
  if (pc >= 0 && static_cast<size_t>(pc) < program.sites.size()) {
    fault.ptx_line = program.sites[static_cast<size_t>(pc)].ptx_line;
    fault.source_line = program.sites[static_cast<size_t>(pc)].source_line;
  }
  return fault;
}

Fault fault_of(const Program& program, int32_t pc, const FaultRecord& record, AddressSpace& memory,
               const ExecState& state) {
  Fault fault = fault_at(program, pc, FaultKind::kOutOfBounds, "");
  fault.access_bytes = record.bytes;
  if (record.reason == FaultReason::kLaneNotInMask) {
    fault.kind = FaultKind::kBarrierDivergence;
    fault.message =
        fmt::format("lane {} executes a warp-synchronous instruction whose member mask does not name it", record.lane);
    return fault;
  }
  if (record.reason == FaultReason::kLaneAbsent) {
    fault.kind = FaultKind::kBarrierDivergence;
    fault.message = fmt::format("lane {} reads a value of lane {}, which {}", record.lane, record.other_lane,
                                (state.live >> record.other_lane & 1) == 0 ? "has exited or does not exist"
                                                                           : "does not take part in the shuffle");
    return fault;
  }
  if (record.reason == FaultReason::kOther) {
    fault.kind = static_cast<FaultKind>(record.other_kind);
    fault.message = record.sentence;
    return fault;
  }
  const std::string what = fmt::format("{} of {}", access_word(record), plural(record.bytes, "byte"));
  uint64_t size = 0;
  std::string label;
  int64_t offset = 0;
  if (record.space == MemorySpace::kShared || record.space == MemorySpace::kLocal) {
    const bool shared = record.space == MemorySpace::kShared;
    label = shared ? "shared memory" : "local memory";
    size = shared ? state.shared_bytes : state.local_bytes;
    offset = static_cast<int64_t>(record.address) - (shared ? kSharedBase : kLocalBase);
  } else {
    const Allocation* allocation = memory.find(record.address);
    if (allocation == nullptr) allocation = memory.nearest(record.address);
    const auto distance = [&] { return static_cast<int64_t>(record.address - allocation->lo); };
    if (allocation != nullptr && distance() < kNowhereBytes && distance() > -kNowhereBytes) {
      label = allocation->label;
      size = allocation->bytes;
      offset = static_cast<int64_t>(record.address - allocation->lo);
    }
  }
  fault.buffer = label;
  fault.byte_offset = offset;
  switch (record.reason) {
    case FaultReason::kNull:
      fault.message = fmt::format("{} at address {:#x}: a null pointer", what, record.address);
      fault.buffer.clear();
      fault.byte_offset = static_cast<int64_t>(record.address);
      break;
    case FaultReason::kOutOfBounds:
      fault.message =
          label.empty() ? fmt::format("{} at address {:#x}, where there is no buffer", what, record.address)
                        : fmt::format("{} at {}, {}", what, spot(label, offset), relation(offset, record.bytes, size));
      if (record.taken_along_bytes > 0)
        fault.message += fmt::format(
            "; the last {} belong to no element: a store through a tensor map writes whole "
            "pieces of 16 bytes",
            plural(record.taken_along_bytes, "byte"));
      break;
    case FaultReason::kFreed:
      fault.message = fmt::format("{} at {}, which has been released", what, spot(label, offset));
      break;
    case FaultReason::kReadOnly:
      fault.kind = FaultKind::kReadOnlyWrite;
      fault.message = fmt::format("{} at {}, which is read-only", what, spot(label, offset));
      break;
    case FaultReason::kMisaligned:
      fault.kind = FaultKind::kMisaligned;
      fault.message = fmt::format("{} at {}, whose address {:#x} is not a multiple of {}", what, spot(label, offset),
                                  record.address, record.bytes);
      break;
    case FaultReason::kUninitialised:
      fault.kind = FaultKind::kUninitializedRead;
      fault.message = fmt::format("{} at {}, where nothing has been written", what, spot(label, offset));
      break;
    case FaultReason::kRace:
      fault.kind = FaultKind::kRace;
      fault.message =
          fmt::format("{} at {} races with a {} by {} {} at {}", what, spot(label, offset),
                      record.other_is_store ? "write" : "read", record.space == MemorySpace::kShared ? "warp" : "block",
                      record.other_owner, describe_site(program, record.other_site));
      break;
    case FaultReason::kLaneNotInMask:
    case FaultReason::kLaneAbsent:
    case FaultReason::kOther:
    case FaultReason::kNone: break;
  }
  return fault;
}

}  // namespace stepbench::vm
