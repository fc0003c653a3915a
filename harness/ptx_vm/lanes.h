// What the VM's core (decode.cc, execute.cc) and its lane-wise arithmetic (arithmetic.cc) share: the layout of a
// warp's registers and the form of a handler. Everything here must stay free of the standard library's
// templates, because the handlers are compiled once per instruction-set level.
//
// Register block: structure of arrays. A register's slot is 32 consecutive elements (one per lane) of 2 bytes
// (8- and 16-bit registers), 4 bytes (32-bit registers) or 8 bytes (64-bit registers), 64-byte aligned.
// Predicates are 4-byte elements holding 0 or 1. Immediates, parameters at constant addresses and special registers are
// ordinary slots filled in advance, so no handler ever tests what kind an operand is.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stepbench::vm {

inline constexpr int kLanes = 32;
inline constexpr uint32_t kNoSlot = 0xffffffffu;

struct Decoded;

/// The part of a warp that arithmetic handlers see.
struct LaneState {
  std::byte* registers = nullptr;            ///< 64-byte aligned register block
  alignas(64) uint32_t active[kLanes] = {};  ///< all ones for an active lane, else 0
  alignas(64) uint32_t carry[kLanes] = {};   ///< CC.CF of add.cc and its kin, 0 or 1
};

/// Does one instruction for the 32 lanes. The full variant may assume that all lanes are active; the masked
/// variant must leave destination lanes with active[i] == 0 untouched.
using Handler = void (*)(LaneState&, const Decoded&);

/// One decoded instruction. Offsets are in bytes from LaneState::registers.
struct Decoded {
  Handler full = nullptr, masked = nullptr;
  uint32_t d = 0, d2 = 0;               ///< destinations (d2: second predicate of setp, `p` of shfl)
  uint32_t a = 0, b = 0, c = 0, e = 0;  ///< sources in PTX operand order
  int64_t immediate = 0;                ///< displacement of memory operands; handler-specific
  uint32_t predicate = kNoSlot;         ///< guard
  bool predicate_negated = false;
  uint8_t kind = 0;     ///< decode.h: straight-line, branch, exit, barrier ...
  uint16_t flags = 0;   ///< handler-specific
  int32_t target = -1;  ///< branch target, index in the program
  uint32_t site = 0;    ///< index of this instruction: inline caches, counters, messages
  uint32_t v[8] = {};   ///< vector operands
};

/// Widths of an arithmetic form's operands: 2, 4 or 8 bytes per lane (predicates: 4). A source whose register is
/// wider or narrower than the form wants is adapted by the decoder through a temporary slot.
struct ArithmeticForm {
  Handler full = nullptr, masked = nullptr;
  uint8_t destinations = 1;  ///< 0..2 (d, d2), or 4 (v[0..3])
  uint8_t destination_bytes[2] = {4, 4};
  bool destination_signed = false;  ///< sign-extend when the register is wider than the form
  uint8_t sources = 0;              ///< 0..4 (a, b, c, e)
  uint8_t source_bytes[4] = {4, 4, 4, 4};
  bool source_float[4] = {};  ///< immediates: convert a double literal to this width's float
};

}  // namespace stepbench::vm
