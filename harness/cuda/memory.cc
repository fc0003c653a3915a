// Mapped GPU memory with guards (see memory.h).
#include "harness/cuda/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "harness/cuda/guard_kernel.h"
#include "harness/own_kernels.h"

namespace stepbench::cuda {
namespace {

constexpr uint64_t kAlignment = 256;  // of AllocationSpec
constexpr uint64_t kSharedBytes = uint64_t{16} << 20;
constexpr uint64_t kResultBytes = 256;  // in front of the rows
constexpr unsigned kGenerateThreads = 256;
constexpr uint64_t kNoDamage = ~uint64_t{0};

uint64_t rounded_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }
uint64_t rounded_down(uint64_t value, uint64_t unit) { return value / unit * unit; }

/// SplitMix64 (Steele, Lea, Flood 2014).
uint64_t mixed(uint64_t seed) {
  uint64_t z = seed + 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

/// A signalling NaN of bfloat16 (exponent all ones, quiet bit clear, mantissa not zero).
uint16_t poison_half(uint64_t random) { return static_cast<uint16_t>(0x7f80 + 1 + random % 0x3e); }

/// As own_kernels.h has it.
uint32_t format_of(DType dtype) {
  SB_ASSERT(dtype == DType::kF32 || dtype == DType::kBf16 || dtype == DType::kF16);
  return dtype == DType::kF32 ? 0 : dtype == DType::kBf16 ? 1 : 2;
}

/// Few copies of little are done one by one: the lanes' launch and wait take as long as two of them.
template <class Request>
bool is_little(std::span<const Request> requests) {
  constexpr size_t kFew = 2;
  constexpr uint64_t kLittleBytes = uint64_t{64} << 10;
  uint64_t total = 0;
  for (const Request& request : requests) total += request.bytes.size();
  return requests.size() <= kFew && total <= kLittleBytes;
}

}  // namespace

Memory::Memory(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {
  // Neither zero, nor all ones, nor the end of a small integer: what kernels write by mistake looks different.
  pattern_ = static_cast<unsigned char>(0x51 + random_u64() % 0x9d);
}

Memory::~Memory() {
  if (!gpu_->ready().ok()) return;
  MappingPool& pool = gpu_->mappings();
  for (const auto& [id, buffer] : buffers_)
    if (buffer.own) pool.give_back(*buffer.own);
  for (const std::vector<Shared>& list : shared_)
    for (const Shared& one : list) pool.give_back(one.mapping);
  pool.give_back(table_);
  pool.give_back(generate_table_);
}

Result<Memory::Buffer> Memory::place_alone(const AllocationSpec& spec) {
  Buffer buffer;
  const uint64_t mapped =
      spec.bytes == 0 ? 0 : rounded_up(spec.bytes + spec.offset_bytes + kAlignment, gpu_->granule_bytes());
  const Result<Mapping> taken = gpu_->mappings().take(mapped, spec.read_only, pattern_);
  if (!taken.ok()) return taken.error();
  const Mapping& mapping = taken.value();
  const uint64_t room = mapped == 0 ? 0 : mapped - spec.bytes - spec.offset_bytes;
  const uint64_t skipped = rounded_down(room, kAlignment) + spec.offset_bytes;
  buffer.address = mapping.begin + skipped;
  buffer.write_address = mapping.writable() + skipped;
  buffer.low_begin = mapped == 0 ? buffer.address : mapping.begin;
  buffer.high_end = mapped == 0 ? buffer.address : mapping.begin + mapped;
  buffer.own = mapping;
  return buffer;
}

Result<Memory::Buffer> Memory::place_shared(const AllocationSpec& spec) {
  std::vector<Shared>& list = shared_[spec.read_only ? 1 : 0];
  const uint64_t gap = kAlignment * (1 + random_u64() % 4);
  const auto place_in = [&](const Shared& shared) {
    return rounded_up(shared.cursor + gap, kAlignment) + spec.offset_bytes;
  };
  const auto fits = [&](const Shared& shared) {
    return place_in(shared) + spec.bytes + kAlignment <= shared.mapping.begin + shared.mapping.bytes;
  };
  if (list.empty() || !fits(list.back())) {
    const uint64_t needed = spec.bytes + spec.offset_bytes + 8 * kAlignment;
    const uint64_t bytes = rounded_up(std::max(kSharedBytes, needed), gpu_->granule_bytes());
    const Result<Mapping> taken = gpu_->mappings().take(bytes, spec.read_only, pattern_);
    if (!taken.ok()) return taken.error();
    list.push_back({taken.value(), taken.value().begin});
  }
  Shared& shared = list.back();
  Buffer buffer;
  buffer.address = place_in(shared);
  buffer.write_address = buffer.address - shared.mapping.begin + shared.mapping.writable();
  buffer.low_begin = shared.cursor;
  buffer.high_end = buffer.address + spec.bytes;  // what follows is the next buffer's, or the free end's
  shared.cursor = std::max(buffer.high_end, buffer.address + 1);  // an empty buffer's address is its own too
  return buffer;
}

Result<uint32_t> Memory::allocate(const AllocationSpec& spec) {
  if (const Result<void> usable = gpu_->ready(); !usable.ok()) return usable.error();
  const bool alone = spec.bytes == 0 || own_mappings_ < kOwnMappings;
  Result<Buffer> placed = alone ? place_alone(spec) : place_shared(spec);
  if (!placed.ok()) {
    Error error = placed.error();
    if (error.code != ErrorCode::kResource) return error;
    size_t free_bytes = 0, total_bytes = 0;
    if (gpu_->driver().memory_get_info(&free_bytes, &total_bytes) != kSuccess) return error;
    return Error{ErrorCode::kResource, "no GPU memory for a buffer", "allocate " + spec.label,
                 fmt::format("{} bytes", spec.bytes), fmt::format("{} bytes free", free_bytes)};
  }
  if (alone && spec.bytes != 0) ++own_mappings_;
  Buffer& buffer = placed.value();
  buffer.spec = spec;
  const uint32_t id = next_id_++;
  by_address_[buffer.address] = id;
  buffers_.emplace(id, std::move(buffer));
  rows_stale_ = true;
  return id;
}

void Memory::release(uint32_t id) {
  const auto found = buffers_.find(id);
  SB_ASSERT(found != buffers_.end());
  const Buffer& buffer = found->second;
  by_address_.erase(buffer.address);
  if (buffer.own) {
    if (buffer.own->bytes != 0) --own_mappings_;
    gpu_->mappings().give_back(*buffer.own);
  }
  buffers_.erase(found);
  rows_stale_ = true;
}

Result<void> Memory::write(uint32_t id, uint64_t offset_bytes, std::span<const std::byte> bytes) {
  const Buffer& buffer = buffers_.at(id);
  SB_ASSERT(offset_bytes <= buffer.spec.bytes && bytes.size() <= buffer.spec.bytes - offset_bytes);
  if (const Result<void> usable = gpu_->ready(); !usable.ok() || bytes.empty()) return usable;
  return gpu_->check(gpu_->driver().copy_to_device(buffer.write_address + offset_bytes, bytes.data(), bytes.size()),
                     "cuMemcpyHtoD", buffer.spec.label);
}

Result<void> Memory::read(uint32_t id, uint64_t offset_bytes, std::span<std::byte> bytes) {
  const Buffer& buffer = buffers_.at(id);
  SB_ASSERT(offset_bytes <= buffer.spec.bytes && bytes.size() <= buffer.spec.bytes - offset_bytes);
  if (const Result<void> usable = gpu_->ready(); !usable.ok() || bytes.empty()) return usable;
  return gpu_->check(gpu_->driver().copy_to_host(bytes.data(), buffer.address + offset_bytes, bytes.size()),
                     "cuMemcpyDtoH", buffer.spec.label);
}

/// `one`: the copy of a single request. `place`: where the host's copies reach a buffer.
template <class Request, class One, class Place>
Result<void> Memory::copy_all(CopyDirection direction, std::span<const Request> requests, One one, Place place) {
  if (is_little(requests)) {
    for (const Request& request : requests)
      if (const Result<void> done = one(request); !done.ok()) return done;
    return {};
  }
  std::vector<HostCopy> copies;
  copies.reserve(requests.size());
  for (const Request& request : requests) {
    const Buffer& buffer = buffers_.at(request.buffer.value);
    SB_ASSERT(request.offset_bytes <= buffer.spec.bytes &&
              request.bytes.size() <= buffer.spec.bytes - request.offset_bytes);
    // Copies to the GPU only read what lies on the host.
    copies.push_back(
        {place(buffer) + request.offset_bytes, const_cast<std::byte*>(request.bytes.data()), request.bytes.size()});
  }
  if (const Result<void> usable = gpu_->ready(); !usable.ok()) return usable;
  return gpu_->copy(direction, copies);
}

Result<void> Memory::write_all(std::span<const WriteRequest> requests) {
  return copy_all(
      CopyDirection::kToDevice, requests,
      [&](const WriteRequest& one) { return write(one.buffer.value, one.offset_bytes, one.bytes); },
      [](const Buffer& buffer) { return buffer.write_address; });
}

Result<void> Memory::read_all(std::span<const ReadRequest> requests) {
  return copy_all(
      CopyDirection::kToHost, requests,
      [&](const ReadRequest& one) { return read(one.buffer.value, one.offset_bytes, one.bytes); },
      [](const Buffer& buffer) { return buffer.address; });
}

Result<void> Memory::poison(uint32_t id, uint64_t seed) {
  const Buffer& buffer = buffers_.at(id);
  if (const Result<void> usable = gpu_->ready(); !usable.ok() || buffer.spec.bytes == 0) return usable;
  const uint64_t random = mixed(seed);
  const uint16_t low = poison_half(random & 0xffff), high = poison_half(random >> 32);
  const Driver& driver = gpu_->driver();
  const uint64_t to = buffer.write_address, bytes = buffer.spec.bytes;
  const uint64_t unit = to % 4 == 0 ? 4 : to % 2 == 0 ? 2 : 1;
  const uint64_t whole = rounded_down(bytes, unit);
  const auto filled = [&](Status status) { return gpu_->check(status, "cuMemset", buffer.spec.label); };
  if (whole != 0 && unit == 4) {
    const unsigned word = static_cast<unsigned>(high) << 16 | low;
    if (const Result<void> done = filled(driver.fill_u32(to, word, whole / 4)); !done.ok()) return done;
  } else if (whole != 0 && unit == 2) {
    if (const Result<void> done = filled(driver.fill_u16(to, low, whole / 2)); !done.ok()) return done;
  }
  const uint64_t from = unit == 1 ? 0 : whole;
  if (from == bytes) return {};
  return filled(driver.fill_u8(to + from, static_cast<unsigned char>(low), bytes - from));
}

Result<void> Memory::generate(uint32_t id, const GenerateSpec& spec, Function generate_kernel) {
  const Buffer& buffer = buffers_.at(id);
  const uint32_t format = format_of(spec.dtype);
  SB_ASSERT(static_cast<uint64_t>(spec.count) * (format == 0 ? 4 : 2) == buffer.spec.bytes);
  if (const Result<void> usable = gpu_->ready(); !usable.ok() || spec.count == 0) return usable;
  constexpr uint64_t kMostBlocks = 132 * 32;
  struct {
    Address out;
    uint64_t count, seed;
    float amplitude;
    uint32_t squared, format, pad;
  } parameters{buffer.write_address,
               static_cast<uint64_t>(spec.count),
               spec.seed,
               spec.amplitude,
               spec.squared ? 1u : 0u,
               format,
               0};
  const uint64_t blocks = std::min((parameters.count + kGenerateThreads - 1) / kGenerateThreads, kMostBlocks);
  return gpu_->check(launch_packed(gpu_->driver(), generate_kernel, static_cast<unsigned>(blocks), kGenerateThreads,
                                   nullptr, &parameters, sizeof(parameters) - sizeof(parameters.pad)),
                     "cuLaunchKernelEx", buffer.spec.label);
}

Result<void> Memory::generate_all(std::span<const GenerateRequest> requests, Function kernel) {
  struct GenerateRow {
    uint64_t first_chunk;
    Address out;
    uint64_t count, seed;
    float amplitude;
    uint32_t squared, format, unused;
  };
  static_assert(sizeof(GenerateRow) == 48);
  std::vector<GenerateRow> rows;
  rows.reserve(requests.size());
  uint64_t chunks = 0;
  for (const auto& [id, spec] : requests) {
    const Buffer& buffer = buffers_.at(id.value);
    const uint32_t format = format_of(spec.dtype);
    const auto count = static_cast<uint64_t>(spec.count);
    SB_ASSERT(count * (format == 0 ? 4 : 2) == buffer.spec.bytes);
    if (count == 0) continue;
    rows.push_back({chunks, buffer.write_address, count, spec.seed, spec.amplitude, spec.squared ? 1u : 0u, format, 0});
    chunks += (count + own_kernel::kGenerateChunk - 1) / own_kernel::kGenerateChunk;
  }
  if (const Result<void> usable = gpu_->ready(); !usable.ok() || rows.empty()) return usable;
  SB_ASSERT(chunks <= static_cast<uint64_t>(gpu_->info().max_grid[0]));
  const uint64_t bytes = rows.size() * sizeof(GenerateRow);
  if (generate_table_.bytes < bytes) {
    gpu_->mappings().give_back(std::exchange(generate_table_, Mapping()));
    const Result<Mapping> taken = gpu_->mappings().take(rounded_up(2 * bytes, gpu_->granule_bytes()), false, pattern_);
    if (!taken.ok()) return taken.error();
    generate_table_ = taken.value();
  }
  // After the kernel that reads the rows of the last time: both are in the order of the default stream.
  if (const Result<void> done = gpu_->check(gpu_->driver().copy_to_device(generate_table_.begin, rows.data(), bytes),
                                            "cuMemcpyHtoD", "generate_all");
      !done.ok())
    return done;
  struct {
    Address rows;
    uint64_t count;
  } parameters{generate_table_.begin, rows.size()};
  return gpu_->check(launch_packed(gpu_->driver(), kernel, static_cast<unsigned>(chunks), kGenerateThreads, nullptr,
                                   &parameters, sizeof(parameters)),
                     "cuLaunchKernelEx", own_kernel::kGenerateAll);
}

// ---------------------------------------------------------------------------------------------- guards

Result<void> Memory::upload_rows() {
  rows_.clear();
  for (const auto& [id, buffer] : buffers_) {
    const uint64_t end = buffer.address + buffer.spec.bytes;
    if (buffer.low_begin < buffer.address) rows_.push_back({buffer.low_begin, buffer.address});
    if (end < buffer.high_end) rows_.push_back({end, buffer.high_end});
  }
  for (const std::vector<Shared>& list : shared_)
    for (const Shared& one : list) rows_.push_back({one.cursor, one.mapping.begin + one.mapping.bytes});
  const uint64_t bytes = rows_.size() * sizeof(Row);
  if (table_.bytes < kResultBytes + bytes) {
    gpu_->mappings().give_back(std::exchange(table_, Mapping()));
    const uint64_t mapped = rounded_up(2 * (kResultBytes + bytes), gpu_->granule_bytes());
    const Result<Mapping> taken = gpu_->mappings().take(mapped, false, pattern_);
    if (!taken.ok()) return taken.error();
    table_ = taken.value();
    if (const Result<void> done =
            gpu_->check(gpu_->driver().copy_to_device(table_.begin, &kNoDamage, sizeof(kNoDamage)), "cuMemcpyHtoD");
        !done.ok())
      return done;
  }
  rows_stale_ = false;
  if (bytes == 0) return {};
  return gpu_->check(gpu_->driver().copy_to_device(table_.begin + kResultBytes, rows_.data(), bytes), "cuMemcpyHtoD");
}

/// The nearest buffer to an address that belongs to none.
Damage Memory::describe(uint64_t address) const {
  const Buffer* nearest = nullptr;
  uint64_t distance = ~uint64_t{0};
  const auto consider = [&](const Buffer& buffer) {
    const uint64_t end = buffer.address + buffer.spec.bytes;
    const uint64_t away = address < buffer.address ? buffer.address - address : address - end + 1;
    if (away >= distance) return;
    distance = away;
    nearest = &buffer;
  };
  const auto next = by_address_.upper_bound(address);
  if (next != by_address_.end()) consider(buffers_.at(next->second));
  if (next != by_address_.begin()) consider(buffers_.at(std::prev(next)->second));
  if (nearest == nullptr) return {};
  return {nearest->spec.label, static_cast<int64_t>(address - nearest->address), nearest->spec.bytes};
}

/// Where the host may write what a kernel sees at `address`.
uint64_t Memory::writable(uint64_t address) const {
  const auto in = [&](const Mapping& mapping) {
    return address >= mapping.begin && address - mapping.begin < mapping.bytes;
  };
  for (const auto& [id, buffer] : buffers_)
    if (buffer.own && in(*buffer.own)) return address - buffer.own->begin + buffer.own->writable();
  for (const std::vector<Shared>& list : shared_)
    for (const Shared& one : list)
      if (in(one.mapping)) return address - one.mapping.begin + one.mapping.writable();
  return address;
}

Result<std::optional<Damage>> Memory::check_guards() {
  if (const Result<void> usable = gpu_->ready(); !usable.ok()) return usable.error();
  if (rows_stale_)
    if (const Result<void> done = upload_rows(); !done.ok()) return done.error();
  if (rows_.empty()) return std::optional<Damage>();

  struct {
    uint64_t rows, result;
    uint32_t pattern;
  } parameters{table_.begin + kResultBytes, table_.begin, pattern_ * 0x01010101u};
  size_t parameter_bytes = 20;
  void* extra[] = {kLaunchBuffer, &parameters, kLaunchBufferBytes, &parameter_bytes, kLaunchEnd};
  LaunchConfig config;
  config.grid[0] = static_cast<unsigned>(rows_.size());
  config.grid[1] = kGuardBlocksPerRow;
  config.block[0] = kGuardThreads;
  const Driver& driver = gpu_->driver();
  if (const Result<void> done =
          gpu_->check(driver.launch(&config, gpu_->guard_kernel(), nullptr, extra), "cuLaunchKernelEx", "guards");
      !done.ok())
    return done.error();
  uint64_t found = kNoDamage;
  if (const Result<void> done = gpu_->check(driver.copy_to_host(&found, table_.begin, sizeof(found)), "cuMemcpyDtoH");
      !done.ok())
    return done.error();
  if (found == kNoDamage) return std::optional<Damage>();

  const Damage damage = describe(found);
  for (const Row& row : rows_)
    if (const Result<void> done =
            gpu_->check(driver.fill_u8(writable(row.begin), pattern_, row.end - row.begin), "cuMemsetD8");
        !done.ok())
      return done.error();
  if (const Result<void> done =
          gpu_->check(driver.copy_to_device(table_.begin, &kNoDamage, sizeof(kNoDamage)), "cuMemcpyHtoD");
      !done.ok())
    return done.error();
  return std::optional<Damage>(damage);
}

}  // namespace stepbench::cuda
