// atom and red. Compiled without contraction; additions are single IEEE operations.
#include "harness/ptx_vm/atomics.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "harness/ptx_vm/memory.h"

namespace stepbench::vm {
namespace {

struct OpName {
  std::string_view text;
  AtomicOp op;
};
constexpr OpName kOps[] = {
    {"add", AtomicOp::kAdd},   {"inc", AtomicOp::kInc}, {"dec", AtomicOp::kDec}, {"min", AtomicOp::kMin},
    {"max", AtomicOp::kMax},   {"and", AtomicOp::kAnd}, {"or", AtomicOp::kOr},   {"xor", AtomicOp::kXor},
    {"exch", AtomicOp::kExch}, {"cas", AtomicOp::kCas},
};

struct TypeName {
  std::string_view text;
  AtomicType type;
  uint8_t bytes;
};
constexpr TypeName kTypes[] = {
    {"u32", AtomicType::kU32, 4},       {"s32", AtomicType::kS32, 4},   {"u64", AtomicType::kU64, 8},
    {"s64", AtomicType::kS64, 8},       {"b16", AtomicType::kB16, 2},   {"b32", AtomicType::kB32, 4},
    {"b64", AtomicType::kB64, 8},       {"f32", AtomicType::kF32, 4},   {"f64", AtomicType::kF64, 8},
    {"f16", AtomicType::kF16, 2},       {"bf16", AtomicType::kBf16, 2}, {"f16x2", AtomicType::kF16x2, 4},
    {"bf16x2", AtomicType::kBf16x2, 4},
};

bool is_float(AtomicType type) { return type >= AtomicType::kF32; }

float flush(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }

// PTX ISA "atom": .add.f32 on global memory flushes subnormal inputs and results to sign-preserving zero, on shared
// memory it does not.
uint64_t add_f32(uint64_t a, uint64_t b, bool global) {
  float x = std::bit_cast<float>(static_cast<uint32_t>(a));
  float y = std::bit_cast<float>(static_cast<uint32_t>(b));
  if (global) {
    x = flush(x);
    y = flush(y);
  }
  float sum = x + y;
  if (global) sum = flush(sum);
  return std::isnan(sum) ? 0x7fffffffu : std::bit_cast<uint32_t>(sum);
}

uint64_t add_f64(uint64_t a, uint64_t b) {
  const double sum = std::bit_cast<double>(a) + std::bit_cast<double>(b);
  return std::isnan(sum) ? 0x7fffffffffffffffull : std::bit_cast<uint64_t>(sum);
}

float f16_to_f32(uint32_t h) {
  const uint32_t sign = (h & 0x8000u) << 16, exponent = h >> 10 & 31, mantissa = h & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  if (exponent == 0) {
    const float value = std::ldexp(static_cast<float>(mantissa), -24);
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

// Round to nearest even; NaN becomes the canonical 0x7fff.
uint32_t f32_to_f16(float value) {
  if (std::isnan(value)) return 0x7fff;
  const uint32_t sign = std::bit_cast<uint32_t>(value) >> 16 & 0x8000u;
  const float magnitude = std::fabs(value);
  if (magnitude >= 65520.0f) return sign | 0x7c00u;
  if (magnitude < 6.103515625e-05f) {  // below the least normal: a multiple of 2^-24
    return sign | static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, 24)));
  }
  const uint32_t bits = std::bit_cast<uint32_t>(magnitude);
  const uint32_t rounded = bits + 0xfffu + (bits >> 13 & 1);
  return sign | ((rounded >> 13) - (112u << 10));
}

float bf16_to_f32(uint32_t h) { return std::bit_cast<float>(h << 16); }

uint32_t f32_to_bf16(float value) {
  if (std::isnan(value)) return 0x7fff;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
}

// One f32 sum of two 11- or 8-bit significands, rounded again: 24 >= 2 * 11 + 2 bits make the double rounding harmless.
uint32_t add_half(uint32_t a, uint32_t b, bool bf16) {
  return bf16 ? f32_to_bf16(bf16_to_f32(a) + bf16_to_f32(b)) : f32_to_f16(f16_to_f32(a) + f16_to_f32(b));
}

uint64_t add_halves(uint64_t a, uint64_t b, bool bf16) {
  const uint32_t low = add_half(static_cast<uint32_t>(a & 0xffff), static_cast<uint32_t>(b & 0xffff), bf16);
  const uint32_t high =
      add_half(static_cast<uint32_t>(a >> 16 & 0xffff), static_cast<uint32_t>(b >> 16 & 0xffff), bf16);
  return low | high << 16;
}

uint64_t add(AtomicType type, uint64_t a, uint64_t b, bool global) {
  switch (type) {
    case AtomicType::kF32: return add_f32(a, b, global);
    case AtomicType::kF64: return add_f64(a, b);
    case AtomicType::kF16: return add_half(static_cast<uint32_t>(a), static_cast<uint32_t>(b), false);
    case AtomicType::kBf16: return add_half(static_cast<uint32_t>(a), static_cast<uint32_t>(b), true);
    case AtomicType::kF16x2: return add_halves(a, b, false);
    case AtomicType::kBf16x2: return add_halves(a, b, true);
    case AtomicType::kU32:
    case AtomicType::kS32:
    case AtomicType::kU64:
    case AtomicType::kS64:
    case AtomicType::kB16:
    case AtomicType::kB32:
    case AtomicType::kB64: return a + b;
  }
  return a + b;
}

bool less(AtomicType type, uint64_t a, uint64_t b) {
  if (type == AtomicType::kS32) return static_cast<int32_t>(a) < static_cast<int32_t>(b);
  if (type == AtomicType::kS64) return static_cast<int64_t>(a) < static_cast<int64_t>(b);
  return a < b;
}

uint64_t combine(AtomicOp op, AtomicType type, uint64_t old, uint64_t b, uint64_t c, bool global) {
  switch (op) {
    case AtomicOp::kAdd: return add(type, old, b, global);
    case AtomicOp::kInc: return old >= b ? 0 : old + 1;
    case AtomicOp::kDec: return old == 0 || old > b ? b : old - 1;
    case AtomicOp::kMin: return less(type, b, old) ? b : old;
    case AtomicOp::kMax: return less(type, old, b) ? b : old;
    case AtomicOp::kAnd: return old & b;
    case AtomicOp::kOr: return old | b;
    case AtomicOp::kXor: return old ^ b;
    case AtomicOp::kExch: return b;
    case AtomicOp::kCas: return old == b ? c : old;
  }
  return old;
}

uint64_t read_slot(ExecState& state, uint32_t offset, int lane, uint8_t bytes) {
  uint64_t value = 0;
  std::memcpy(&value, state.registers + offset + static_cast<uint32_t>(lane) * bytes, bytes);
  return value;
}

}  // namespace

std::optional<AtomicOp> atomic_op_from_text(std::string_view text) {
  for (const OpName& row : kOps) {
    if (row.text == text) return row.op;
  }
  return std::nullopt;
}

std::optional<AtomicType> atomic_type_from_text(std::string_view text) {
  for (const TypeName& row : kTypes) {
    if (row.text == text) return row.type;
  }
  return std::nullopt;
}

uint8_t atomic_bytes(AtomicType type) {
  for (const TypeName& row : kTypes) {
    if (row.type == type) return row.bytes;
  }
  return 0;
}

bool atomic_form_exists(AtomicOp op, AtomicType type) {
  const bool wide_bits = type == AtomicType::kB32 || type == AtomicType::kB64;
  const bool integer = type <= AtomicType::kS64;
  switch (op) {
    case AtomicOp::kAdd: return integer || is_float(type);
    case AtomicOp::kInc:
    case AtomicOp::kDec: return type == AtomicType::kU32;
    case AtomicOp::kMin:
    case AtomicOp::kMax: return integer;
    case AtomicOp::kAnd:
    case AtomicOp::kOr:
    case AtomicOp::kXor:
    case AtomicOp::kExch: return wide_bits;
    case AtomicOp::kCas: return wide_bits || type == AtomicType::kB16;
  }
  return false;
}

uint16_t atomic_flags(AtomicOp op, AtomicType type, MemorySpace space) {
  return static_cast<uint16_t>(static_cast<unsigned>(op) | static_cast<unsigned>(type) << 4 |
                               static_cast<unsigned>(space) << 8);
}

void atomic_access(LaneState& lanes, const Decoded& instruction) {
  ExecState& state = static_cast<ExecState&>(lanes);
  const auto op = static_cast<AtomicOp>(instruction.flags & 15);
  const auto type = static_cast<AtomicType>(instruction.flags >> 4 & 15);
  const auto space = static_cast<MemorySpace>(instruction.flags >> 8 & 7);
  const uint8_t bytes = atomic_bytes(type);
  const bool narrow = space == MemorySpace::kShared || space == MemorySpace::kLocal;
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((state.mask >> lane & 1) == 0) continue;
    const uint64_t address =
        narrow ? static_cast<uint32_t>(slot<uint32_t>(state, instruction.a)[lane] +
                                       static_cast<uint32_t>(instruction.immediate))
               : slot<uint64_t>(state, instruction.a)[lane] + static_cast<uint64_t>(instruction.immediate);
    Resolved at;
    if (!resolve(state, instruction, lane, space, address, bytes, Access::kAtomic, at)) return;
    uint64_t old = 0;
    std::memcpy(&old, at.host, bytes);
    const uint64_t b = read_slot(state, instruction.b, lane, bytes);
    const uint64_t c = op == AtomicOp::kCas ? read_slot(state, instruction.c, lane, bytes) : 0;
    const uint64_t value = combine(op, type, old, b, c, at.space == MemorySpace::kGlobal);
    std::memcpy(at.host, &value, bytes);
    if (instruction.d != kNoSlot) {
      std::memcpy(state.registers + instruction.d + static_cast<uint32_t>(lane) * bytes, &old, bytes);
    }
    ++state.counters.atomics;
  }
}

}  // namespace stepbench::vm
