// Comparisons: how a lane function that yields 0 or 1 becomes setp and set in all their variants. The loop over the
// lanes exists once per comparison; boolean operator, second destination, result encoding and mask are in shared loops.
#pragma once

#include "harness/ptx_vm/arithmetic_float.h"

namespace stepbench::vm::SB_ISA {
namespace {

enum Boolean { kPlain, kAnd, kOr, kXor };
template <Boolean Op>
SB_LANE u32 combine(u32 t, u32 c) {
  if constexpr (Op == kAnd) return t & c;
  if constexpr (Op == kOr) return t | c;
  if constexpr (Op == kXor) return t ^ c;
  return t;
}

/// Integer comparison operators; for floats the first six are the ordered ones.
enum Comparison { kEq, kNe, kLt, kLe, kGt, kGe, kEqu, kNeu, kLtu, kLeu, kGtu, kGeu, kNum, kNan };
template <Comparison Op, class T>
SB_LANE u32 compare(T a, T b) {
  const bool unordered = !(a == a) || !(b == b);
  if constexpr (Op == kEq) return a == b;
  if constexpr (Op == kNe) return a < b || a > b;
  if constexpr (Op == kLt) return a < b;
  if constexpr (Op == kLe) return a <= b;
  if constexpr (Op == kGt) return a > b;
  if constexpr (Op == kGe) return a >= b;
  if constexpr (Op == kEqu) return a == b || unordered;
  if constexpr (Op == kNeu) return !(a == b);
  if constexpr (Op == kLtu) return !(a >= b);
  if constexpr (Op == kLeu) return !(a > b);
  if constexpr (Op == kGtu) return !(a <= b);
  if constexpr (Op == kGeu) return !(a < b);
  if constexpr (Op == kNum) return !unordered;
  if constexpr (Op == kNan) return unordered;
}

/// p = op(t, c), q = op(u, c). Reads both tests and the third predicate of a lane before it writes the lane.
template <Boolean Op, bool Two, bool Masked>
[[gnu::noinline]] inline void finish_setp(LaneState& state, const Decoded& in, const u32* t_lanes, const u32* u_lanes) {
  const auto* t = in_lanes<u32>(t_lanes);
  const auto* u = in_lanes<u32>(u_lanes);
  const auto* c = in_lanes<u32>(state.registers + in.c);
  const u32* active = state.active;
  alignas(64) u32 p[kLanes];
  alignas(64) u32 q[kLanes];
  SB_FOR_LANES {
    p[i] = combine<Op>(t[i], c[i]);
    if constexpr (Two) q[i] = combine<Op>(u[i], c[i]);
  }
  auto* d = out_lanes<u32>(state.registers + in.d);
  if constexpr (Masked) {
    SB_FOR_LANES d[i] = active[i] != 0 ? p[i] : d[i];
  } else {
    __builtin_memcpy(d, p, sizeof(p));
  }
  if constexpr (Two) {
    auto* d2 = out_lanes<u32>(state.registers + in.d2);
    if constexpr (Masked) {
      SB_FOR_LANES d2[i] = active[i] != 0 ? q[i] : d2[i];
    } else {
      __builtin_memcpy(d2, q, sizeof(q));
    }
  }
}

/// Scalar comparison F: the second destination takes the negated test (PTX ISA, "setp").
template <auto F, Boolean Op, bool Two, bool Masked>
void setp(LaneState& state, const Decoded& in) {
  alignas(64) u32 t[kLanes];
  alignas(64) u32 u[kLanes];
  Lanes<F>::compute(t, state.registers + in.a, state.registers + in.b, nullptr, nullptr);
  if constexpr (Two) SB_FOR_LANES u[i] = t[i] ^ 1u;
  finish_setp<Op, Two, Masked>(state, in, t, Two ? u : t);
}
/// Packed comparison: the destinations take the low and the high half's test.
template <auto Low, auto High, Boolean Op, bool Masked>
void setp_packed(LaneState& state, const Decoded& in) {
  alignas(64) u32 t[kLanes];
  alignas(64) u32 u[kLanes];
  Lanes<Low>::compute(t, state.registers + in.a, state.registers + in.b, nullptr, nullptr);
  Lanes<High>::compute(u, state.registers + in.a, state.registers + in.b, nullptr, nullptr);
  finish_setp<Op, true, Masked>(state, in, t, u);
}

template <class T>
constexpr ArithmeticForm setp_form(Handler full, Handler masked, Boolean op, bool two) {
  const uint8_t destinations = two ? 2 : 1, sources = op == kPlain ? 2 : 3;
  return ArithmeticForm{full,
                        masked,
                        destinations,
                        {4, 4},
                        false,
                        sources,
                        {sizeof(T), sizeof(T), 4, 4},
                        {kIsFloat<T>, kIsFloat<T>, false, false}};
}
template <auto F, Boolean Op, bool Two>
constexpr FormRow setp_row(const char* name) {
  using T = typename Lanes<F>::A;
  if constexpr (Op == kPlain && !Two) return FormRow{name, setp_form<T>(&Lanes<F>::full, &Lanes<F>::masked, Op, Two)};
  return FormRow{name, setp_form<T>(&setp<F, Op, Two, false>, &setp<F, Op, Two, true>, Op, Two)};
}
template <auto Low, auto High, Boolean Op>
constexpr FormRow setp_packed_row(const char* name) {
  using T = typename Lanes<Low>::A;
  return FormRow{name, setp_form<T>(&setp_packed<Low, High, Op, false>, &setp_packed<Low, High, Op, true>, Op, true)};
}

/// What set writes for true; false is always 0.
enum TrueValue : u32 {
  kMask = 0xffffffffu,
  kOneF32 = 0x3f800000u,
  kOneF16 = 0x3c00u,
  kOneBf16 = 0x3f80u,
  kMask16 = 0xffffu
};
template <class Word, Boolean Op, TrueValue Value, bool Masked>
[[gnu::noinline]] inline void finish_set(LaneState& state, const Decoded& in, const u32* t_lanes) {
  const auto* t = in_lanes<u32>(t_lanes);
  const auto* c = in_lanes<u32>(state.registers + in.c);
  alignas(64) Word r[kLanes];
  SB_FOR_LANES r[i] = static_cast<Word>((0u - combine<Op>(t[i], c[i])) & Value);
  if constexpr (Masked) {
    blend_bytes<sizeof(Word)>(state.registers + in.d, r, state.active);
  } else {
    __builtin_memcpy(state.registers + in.d, r, sizeof(r));
  }
}
template <Boolean Op, TrueValue Value, bool Masked>
[[gnu::noinline]] inline void finish_set_packed(LaneState& state, const Decoded& in, const u32* t_lanes,
                                                const u32* u_lanes) {
  const auto* t = in_lanes<u32>(t_lanes);
  const auto* u = in_lanes<u32>(u_lanes);
  const auto* c = in_lanes<u32>(state.registers + in.c);
  alignas(64) u32 r[kLanes];
  SB_FOR_LANES r[i] = ((0u - combine<Op>(t[i], c[i])) & Value) | ((0u - combine<Op>(u[i], c[i])) & Value) << 16;
  if constexpr (Masked) {
    blend_bytes<4>(state.registers + in.d, r, state.active);
  } else {
    __builtin_memcpy(state.registers + in.d, r, sizeof(r));
  }
}

template <auto F, class Word, Boolean Op, TrueValue Value, bool Masked>
void set(LaneState& state, const Decoded& in) {
  alignas(64) u32 t[kLanes];
  Lanes<F>::compute(t, state.registers + in.a, state.registers + in.b, nullptr, nullptr);
  finish_set<Word, Op, Value, Masked>(state, in, t);
}
template <auto Low, auto High, Boolean Op, TrueValue Value, bool Masked>
void set_packed(LaneState& state, const Decoded& in) {
  alignas(64) u32 t[kLanes];
  alignas(64) u32 u[kLanes];
  Lanes<Low>::compute(t, state.registers + in.a, state.registers + in.b, nullptr, nullptr);
  Lanes<High>::compute(u, state.registers + in.a, state.registers + in.b, nullptr, nullptr);
  finish_set_packed<Op, Value, Masked>(state, in, t, u);
}
template <class T>
constexpr ArithmeticForm set_form(Handler full, Handler masked, Boolean op, uint8_t bytes, bool is_signed) {
  const uint8_t sources = op == kPlain ? 2 : 3;
  return ArithmeticForm{full,
                        masked,
                        1,
                        {bytes, 4},
                        is_signed,
                        sources,
                        {sizeof(T), sizeof(T), 4, 4},
                        {kIsFloat<T>, kIsFloat<T>, false, false}};
}
template <auto F, class Word, Boolean Op, TrueValue Value>
constexpr FormRow set_row(const char* name, bool is_signed) {
  return FormRow{name, set_form<typename Lanes<F>::A>(&set<F, Word, Op, Value, false>, &set<F, Word, Op, Value, true>,
                                                      Op, sizeof(Word), is_signed)};
}
template <auto Low, auto High, Boolean Op, TrueValue Value>
constexpr FormRow set_packed_row(const char* name, bool is_signed) {
  return FormRow{name, set_form<typename Lanes<Low>::A>(&set_packed<Low, High, Op, Value, false>,
                                                        &set_packed<Low, High, Op, Value, true>, Op, 4, is_signed)};
}

}  // namespace
}  // namespace stepbench::vm::SB_ISA

// Rows of one comparison `cmp` (as a string) in lane function f; mods is "" or ".ftz", type the source type's name.
#define SB_SETP_PLAIN(cmp, mods, type, ...)                         \
  setp_row<&__VA_ARGS__, kPlain, false>("setp." cmp mods "." type), \
      setp_row<&__VA_ARGS__, kPlain, true>("setp." cmp mods "." type " d|p")
#define SB_SETP_BOOLEAN(cmp, name, op, mods, type, ...)              \
  setp_row<&__VA_ARGS__, op, false>("setp." cmp name mods "." type), \
      setp_row<&__VA_ARGS__, op, true>("setp." cmp name mods "." type " d|p")
#define SB_SETP(cmp, mods, type, ...)                                                                       \
  SB_SETP_PLAIN(cmp, mods, type, __VA_ARGS__), SB_SETP_BOOLEAN(cmp, ".and", kAnd, mods, type, __VA_ARGS__), \
      SB_SETP_BOOLEAN(cmp, ".or", kOr, mods, type, __VA_ARGS__),                                            \
      SB_SETP_BOOLEAN(cmp, ".xor", kXor, mods, type, __VA_ARGS__)
#define SB_SET_TO(cmp, name, op, mods, type, dtype, word, value, is_signed, ...) \
  set_row<&__VA_ARGS__, word, op, value>("set." cmp name mods "." dtype "." type, is_signed)
#define SB_SET_BOOLEAN(cmp, name, op, mods, type, ...)                            \
  SB_SET_TO(cmp, name, op, mods, type, "u32", u32, kMask, false, __VA_ARGS__),    \
      SB_SET_TO(cmp, name, op, mods, type, "s32", u32, kMask, true, __VA_ARGS__), \
      SB_SET_TO(cmp, name, op, mods, type, "f32", u32, kOneF32, false, __VA_ARGS__)
#define SB_SET(cmp, mods, type, ...)                              \
  SB_SET_BOOLEAN(cmp, "", kPlain, mods, type, __VA_ARGS__),       \
      SB_SET_BOOLEAN(cmp, ".and", kAnd, mods, type, __VA_ARGS__), \
      SB_SET_BOOLEAN(cmp, ".or", kOr, mods, type, __VA_ARGS__),   \
      SB_SET_BOOLEAN(cmp, ".xor", kXor, mods, type, __VA_ARGS__)
#define SB_FLOAT_COMPARISONS(M, ...)                                                                                  \
  M("eq", kEq, __VA_ARGS__), M("ne", kNe, __VA_ARGS__), M("lt", kLt, __VA_ARGS__), M("le", kLe, __VA_ARGS__),         \
      M("gt", kGt, __VA_ARGS__), M("ge", kGe, __VA_ARGS__), M("equ", kEqu, __VA_ARGS__), M("neu", kNeu, __VA_ARGS__), \
      M("ltu", kLtu, __VA_ARGS__), M("leu", kLeu, __VA_ARGS__), M("gtu", kGtu, __VA_ARGS__),                          \
      M("geu", kGeu, __VA_ARGS__), M("num", kNum, __VA_ARGS__), M("nan", kNan, __VA_ARGS__)
