// atom and red (PTX ISA "atom", "red"): one lane after the other in lane order, each a checked read-modify-write.
// Vector forms (.v2, .v4, .v8) and 128-bit forms are not done here; the decoder refuses them.
#pragma once

#include <optional>
#include <string_view>

#include "harness/ptx_vm/memory_ops.h"

namespace stepbench::vm {

enum class AtomicOp : uint8_t { kAdd, kInc, kDec, kMin, kMax, kAnd, kOr, kXor, kExch, kCas };
enum class AtomicType : uint8_t { kU32, kS32, kU64, kS64, kB16, kB32, kB64, kF32, kF64, kF16, kBf16, kF16x2, kBf16x2 };

std::optional<AtomicOp> atomic_op_from_text(std::string_view text);
std::optional<AtomicType> atomic_type_from_text(std::string_view text);
uint8_t atomic_bytes(AtomicType type);
/// Whether PTX has this combination.
bool atomic_form_exists(AtomicOp op, AtomicType type);
uint16_t atomic_flags(AtomicOp op, AtomicType type, MemorySpace space);

/// d (kNoSlot: red) = old value at [a + immediate]; operands b and, for cas, c.
void atomic_access(LaneState& state, const Decoded& instruction);

}  // namespace stepbench::vm
