// Integer arithmetic: add sub mul mad (lo, hi, wide, 24) div rem neg abs min max sad dp2a dp4a vabsdiff, and the
// extended-precision forms that use CC.CF (add.cc addc sub.cc subc mad.cc madc).
// Everything wraps; nothing traps the host.
#include "harness/ptx_vm/arithmetic_lanes.h"

namespace stepbench::vm::SB_ISA {
namespace {

using u128 = unsigned __int128;
using s128 = __int128;

// Unsigned arithmetic type of a type, at least 32 bits so that promotion to int cannot overflow; and the double width.
template <class T>
struct Wide;
template <>
struct Wide<u16> {
  using Wrap = u32;
  using Double = u32;
  static constexpr int kBits = 16;
};
template <>
struct Wide<s16> {
  using Wrap = u32;
  using Double = s32;
  static constexpr int kBits = 16;
};
template <>
struct Wide<u32> {
  using Wrap = u32;
  using Double = u64;
  static constexpr int kBits = 32;
};
template <>
struct Wide<s32> {
  using Wrap = u32;
  using Double = s64;
  static constexpr int kBits = 32;
};
template <>
struct Wide<u64> {
  using Wrap = u64;
  using Double = u128;
  static constexpr int kBits = 64;
};
template <>
struct Wide<s64> {
  using Wrap = u64;
  using Double = s128;
  static constexpr int kBits = 64;
};
template <class T>
using Wrap = typename Wide<T>::Wrap;
template <class T>
using Double = typename Wide<T>::Double;

template <class T>
SB_LANE Wrap<T> w(T x) {
  return static_cast<Wrap<T>>(x);
}

template <class T>
SB_LANE T add(T a, T b) {
  return static_cast<T>(w(a) + w(b));
}
template <class T>
SB_LANE T sub(T a, T b) {
  return static_cast<T>(w(a) - w(b));
}
SB_LANE s32 clamp32(s64 x) {
  return static_cast<s32>(x > 0x7fffffffll ? 0x7fffffffll : x < -0x80000000ll ? -0x80000000ll : x);
}
SB_LANE s32 add_sat(s32 a, s32 b) { return clamp32(static_cast<s64>(a) + b); }
SB_LANE s32 sub_sat(s32 a, s32 b) { return clamp32(static_cast<s64>(a) - b); }
template <class T>
SB_LANE T mul_lo(T a, T b) {
  return static_cast<T>(w(a) * w(b));
}
template <class T>
SB_LANE T mul_hi(T a, T b) {
  return static_cast<T>((static_cast<Double<T>>(a) * static_cast<Double<T>>(b)) >> Wide<T>::kBits);
}
template <class T>
SB_LANE Double<T> mul_wide(T a, T b) {
  return static_cast<Double<T>>(static_cast<Double<T>>(a) * static_cast<Double<T>>(b));
}
template <class T>
SB_LANE T mad_lo(T a, T b, T c) {
  return static_cast<T>(w(a) * w(b) + w(c));
}
template <class T>
SB_LANE T mad_hi(T a, T b, T c) {
  return static_cast<T>(w(mul_hi(a, b)) + w(c));
}
template <class T>
SB_LANE Double<T> mad_wide(T a, T b, Double<T> c) {
  return add<Double<T>>(mul_wide(a, b), c);
}
SB_LANE s32 mad_hi_sat(s32 a, s32 b, s32 c) { return clamp32(static_cast<s64>(mul_hi(a, b)) + c); }

// mul24: the operands are the low 24 bits; lo and hi are bits 31..0 and 47..16 of the 48-bit product (PTX ISA,
// "mul24").
SB_LANE u64 product24(u32 a, u32 b) { return static_cast<u64>(a & 0xffffffu) * (b & 0xffffffu); }
SB_LANE s64 product24(s32 a, s32 b) {
  return static_cast<s64>(static_cast<s32>(w(a) << 8) >> 8) * (static_cast<s32>(w(b) << 8) >> 8);
}
template <class T>
SB_LANE T mul24_lo(T a, T b) {
  return static_cast<T>(product24(a, b));
}
template <class T>
SB_LANE T mul24_hi(T a, T b) {
  return static_cast<T>(product24(a, b) >> 16);
}
template <class T>
SB_LANE T mad24_lo(T a, T b, T c) {
  return add(mul24_lo(a, b), c);
}
template <class T>
SB_LANE T mad24_hi(T a, T b, T c) {
  return add(mul24_hi(a, b), c);
}
SB_LANE s32 mad24_hi_sat(s32 a, s32 b, s32 c) { return clamp32(static_cast<s64>(mul24_hi(a, b)) + c); }

// Division by zero gives all ones for the quotient and the remainder, INT_MIN / -1 wraps and leaves 0. The PTX ISA
// leaves the former to the machine ("div", "rem").
template <class T>
SB_LANE T div(T a, T b) {
  const T divisor = b == 0 ? T(1) : b;
  if constexpr (kIsSigned<T>) {
    const bool minus_one = divisor == T(-1);
    const T quotient = minus_one ? static_cast<T>(Wrap<T>(0) - w(a)) : static_cast<T>(a / (minus_one ? T(1) : divisor));
    return b == 0 ? T(-1) : quotient;
  } else {
    return b == 0 ? static_cast<T>(~Wrap<T>(0)) : static_cast<T>(a / divisor);
  }
}
template <class T>
SB_LANE T rem(T a, T b) {
  if constexpr (kIsSigned<T>) {
    const T divisor = b == 0 || b == T(-1) ? T(1) : b;
    return b == 0 ? T(-1) : static_cast<T>(a % divisor);
  } else {
    return b == 0 ? static_cast<T>(~Wrap<T>(0)) : static_cast<T>(a % (b == 0 ? T(1) : b));
  }
}
template <class T>
SB_LANE T neg(T a) {
  return static_cast<T>(Wrap<T>(0) - w(a));
}
template <class T>
SB_LANE T abs(T a) {
  return a < 0 ? neg(a) : a;
}
template <class T>
SB_LANE T min(T a, T b) {
  return a < b ? a : b;
}
template <class T>
SB_LANE T max(T a, T b) {
  return a > b ? a : b;
}
template <class T>
SB_LANE T relu(T a) {
  return a > 0 ? a : T(0);
}
template <class T>
SB_LANE T min_relu(T a, T b) {
  return relu(min(a, b));
}
template <class T>
SB_LANE T max_relu(T a, T b) {
  return relu(max(a, b));
}
template <class T>
SB_LANE T sad(T a, T b, T c) {
  return static_cast<T>(w(c) + (a < b ? w(b) - w(a) : w(a) - w(b)));
}

// 16-bit pairs.
template <class T, T (*F)(T, T)>
SB_LANE u32 both(u32 a, u32 b) {
  const T low = F(static_cast<T>(a & 0xffffu), static_cast<T>(b & 0xffffu));
  const T high = F(static_cast<T>(a >> 16), static_cast<T>(b >> 16));
  return static_cast<u32>(static_cast<u16>(low)) | static_cast<u32>(static_cast<u16>(high)) << 16;
}

// Dot products of packed bytes (dp4a) or of two 16-bit values with two bytes (dp2a).
template <bool Signed>
SB_LANE u32 byte_of(u32 x, u32 n) {
  const u32 b = (x >> (8 * n)) & 0xffu;
  return Signed ? (b ^ 0x80u) - 0x80u : b;
}
template <bool Signed>
SB_LANE u32 short_of(u32 x, u32 n) {
  const u32 h = (x >> (16 * n)) & 0xffffu;
  return Signed ? (h ^ 0x8000u) - 0x8000u : h;
}
template <bool SignedA, bool SignedB>
SB_LANE u32 dp4a(u32 a, u32 b, u32 c) {
  return c + byte_of<SignedA>(a, 0) * byte_of<SignedB>(b, 0) + byte_of<SignedA>(a, 1) * byte_of<SignedB>(b, 1) +
         byte_of<SignedA>(a, 2) * byte_of<SignedB>(b, 2) + byte_of<SignedA>(a, 3) * byte_of<SignedB>(b, 3);
}
template <bool SignedA, bool SignedB, bool High>
SB_LANE u32 dp2a(u32 a, u32 b, u32 c) {
  return c + short_of<SignedA>(a, 0) * byte_of<SignedB>(b, High ? 2 : 0) +
         short_of<SignedA>(a, 1) * byte_of<SignedB>(b, High ? 3 : 1);
}

// vabsdiff{2,4}.dtype.atype.btype{.add} d, a, b, c: absolute differences of packed values. Without .add they are merged
// into all lanes of d (c is not looked at), with .add their sum is added to c. Only the default byte selection and
// equal operand signedness (what the SIMD intrinsics of the CUDA headers use).
template <bool Signed, int Parts>
SB_LANE u32 part_of(u32 x, u32 n) {
  return Parts == 4 ? byte_of<Signed>(x, n) : short_of<Signed>(x, n);
}
template <bool Signed, int Parts>
SB_LANE u32 difference_of(u32 a, u32 b, u32 n) {
  const s32 d = static_cast<s32>(part_of<Signed, Parts>(a, n)) - static_cast<s32>(part_of<Signed, Parts>(b, n));
  return static_cast<u32>(d < 0 ? -d : d);
}
template <bool Signed, int Parts>
SB_LANE u32 vabsdiff(u32 a, u32 b, u32) {
  u32 r = difference_of<Signed, Parts>(a, b, 0);
  for (u32 n = 1; n < Parts; ++n) r |= difference_of<Signed, Parts>(a, b, n) << (n * (32 / Parts));
  return r;
}
template <bool Signed, int Parts>
SB_LANE u32 vabsdiff_add(u32 a, u32 b, u32 c) {
  for (u32 n = 0; n < Parts; ++n) c += difference_of<Signed, Parts>(a, b, n);
  return c;
}

// Extended precision. CC.CF is carry for additions and borrow for subtractions (PTX ISA, "Extended-Precision Integer
// Arithmetic Instructions").
template <class T>
struct Carried {
  T value;
  u32 carry;
};
template <class T>
SB_LANE Carried<T> carry_add(T a, T b, T, u32 carry) {
  const T s = static_cast<T>(a + b), r = static_cast<T>(s + carry);
  return {r, static_cast<u32>(s < a) | static_cast<u32>(r < s)};
}
template <class T>
SB_LANE Carried<T> carry_sub(T a, T b, T, u32 borrow) {
  const T s = static_cast<T>(a - b), r = static_cast<T>(s - borrow);
  return {r, static_cast<u32>(a < b) | static_cast<u32>(s < borrow)};
}
template <class T>
SB_LANE Carried<T> carry_mad_lo(T a, T b, T c, u32 carry) {
  return carry_add<T>(mul_lo(a, b), c, 0, carry);
}
template <class T>
SB_LANE Carried<T> carry_mad_hi_u(T a, T b, T c, u32 carry) {
  return carry_add<T>(mul_hi(a, b), c, 0, carry);
}
SB_LANE Carried<u32> carry_mad_hi_s(u32 a, u32 b, u32 c, u32 carry) {
  return carry_add<u32>(static_cast<u32>(mul_hi(static_cast<s32>(a), static_cast<s32>(b))), c, 0, carry);
}
SB_LANE Carried<u64> carry_mad_hi_s(u64 a, u64 b, u64 c, u32 carry) {
  return carry_add<u64>(static_cast<u64>(mul_hi(static_cast<s64>(a), static_cast<s64>(b))), c, 0, carry);
}

template <class T, Carried<T> (*F)(T, T, T, u32), bool In, bool Out>
struct CarryLanes {
  [[gnu::noinline]] static void compute(T* value, u32* carry, const void* a_lanes, const void* b_lanes,
                                        const void* c_lanes, const u32* carry_in) {
    const auto* a = in_lanes<T>(a_lanes);
    const auto* b = in_lanes<T>(b_lanes);
    const auto* c = in_lanes<T>(c_lanes);
    SB_FOR_LANES {
      const Carried<T> r = F(a[i], b[i], c[i], In ? carry_in[i] : 0);
      value[i] = r.value;
      carry[i] = r.carry;
    }
  }
  static void full(LaneState& state, const Decoded& in) {
    std::byte* r = state.registers;
    alignas(64) T value[kLanes];
    alignas(64) u32 carry[kLanes];
    compute(value, carry, r + in.a, r + in.b, r + in.c, state.carry);
    __builtin_memcpy(r + in.d, value, sizeof(value));
    if constexpr (Out) __builtin_memcpy(state.carry, carry, sizeof(carry));
  }
  static void masked(LaneState& state, const Decoded& in) {
    std::byte* r = state.registers;
    alignas(64) T value[kLanes];
    alignas(64) u32 carry[kLanes];
    compute(value, carry, r + in.a, r + in.b, r + in.c, state.carry);
    blend_bytes<sizeof(T)>(r + in.d, value, state.active);
    if constexpr (Out) blend_bytes<4>(state.carry, carry, state.active);
  }
};

template <class T, Carried<T> (*F)(T, T, T, u32), bool In, bool Out>
constexpr FormRow carry_row(const char* name, uint8_t sources, bool is_signed) {
  constexpr uint8_t kBytes = sizeof(T);
  using L = CarryLanes<T, F, In, Out>;
  return FormRow{
      name, ArithmeticForm{&L::full, &L::masked, 1, {kBytes, 4}, is_signed, sources, {kBytes, kBytes, kBytes, 4}, {}}};
}

}  // namespace

#define TYPES6(M, op, f) M(op, f, u16), M(op, f, s16), M(op, f, u32), M(op, f, s32), M(op, f, u64), M(op, f, s64)
#define TYPES4(M, op, f) M(op, f, u16), M(op, f, s16), M(op, f, u32), M(op, f, s32)
#define SIGNED3(M, op, f) M(op, f, s16), M(op, f, s32), M(op, f, s64)
#define ROW(op, f, T) row<&f<T>>(op "." #T)
#define PAIR(op, f) row<&both<u16, &f<u16>>>(op ".u16x2"), row<&both<s16, &f<s16>>>(op ".s16x2")
#define DP(a, b, sa, sb)                                                              \
  row<&dp4a<sa, sb>>("dp4a." a "." b), row<&dp2a<sa, sb, false>>("dp2a.lo." a "." b), \
      row<&dp2a<sa, sb, true>>("dp2a.hi." a "." b)
#define CARRY(op, f, in, out, n, T, U) carry_row<U, &f<U>, in, out>(op "." #T, n, kIsSigned<T>)
#define CARRY4(op, f, in, out, n)                                                                             \
  CARRY(op, f, in, out, n, u32, u32), CARRY(op, f, in, out, n, s32, u32), CARRY(op, f, in, out, n, u64, u64), \
      CARRY(op, f, in, out, n, s64, u64)
#define CARRY_HI(op, in, out)                                                                       \
  CARRY(op, carry_mad_hi_u, in, out, 3, u32, u32), CARRY(op, carry_mad_hi_u, in, out, 3, u64, u64), \
      carry_row<u32, &carry_mad_hi_s, in, out>(op ".s32", 3, true),                                 \
      carry_row<u64, &carry_mad_hi_s, in, out>(op ".s64", 3, true)

SB_FORM_TABLE(forms_integer, TYPES6(ROW, "add", add), TYPES6(ROW, "sub", sub), TYPES6(ROW, "mul.lo", mul_lo),
              TYPES6(ROW, "mul.hi", mul_hi), TYPES4(ROW, "mul.wide", mul_wide), TYPES6(ROW, "mad.lo", mad_lo),
              TYPES6(ROW, "mad.hi", mad_hi), TYPES4(ROW, "mad.wide", mad_wide), row<&add_sat>("add.sat.s32"),
              row<&sub_sat>("sub.sat.s32"), row<&mad_hi_sat>("mad.hi.sat.s32"), ROW("mul24.lo", mul24_lo, u32),
              ROW("mul24.lo", mul24_lo, s32), ROW("mul24.hi", mul24_hi, u32), ROW("mul24.hi", mul24_hi, s32),
              ROW("mad24.lo", mad24_lo, u32), ROW("mad24.lo", mad24_lo, s32), ROW("mad24.hi", mad24_hi, u32),
              ROW("mad24.hi", mad24_hi, s32), row<&mad24_hi_sat>("mad24.hi.sat.s32"), TYPES6(ROW, "div", div),
              TYPES6(ROW, "rem", rem), TYPES6(ROW, "min", min), TYPES6(ROW, "max", max), TYPES6(ROW, "sad", sad),
              SIGNED3(ROW, "neg", neg), SIGNED3(ROW, "abs", abs), row<&min_relu<s32>>("min.relu.s32"),
              row<&max_relu<s32>>("max.relu.s32"), row<&both<s16, &min_relu<s16>>>("min.relu.s16x2"),
              row<&both<s16, &max_relu<s16>>>("max.relu.s16x2"), PAIR("add", add), PAIR("min", min), PAIR("max", max),
              DP("u32", "u32", false, false), DP("u32", "s32", false, true), DP("s32", "u32", true, false),
              DP("s32", "s32", true, true), row<&vabsdiff<false, 4>>("vabsdiff4.u32.u32.u32"),
              row<&vabsdiff<true, 4>>("vabsdiff4.u32.s32.s32"), row<&vabsdiff<false, 2>>("vabsdiff2.u32.u32.u32"),
              row<&vabsdiff<true, 2>>("vabsdiff2.u32.s32.s32"),
              row<&vabsdiff_add<false, 4>>("vabsdiff4.u32.u32.u32.add"),
              row<&vabsdiff_add<true, 4>>("vabsdiff4.u32.s32.s32.add"),
              row<&vabsdiff_add<false, 2>>("vabsdiff2.u32.u32.u32.add"),
              row<&vabsdiff_add<true, 2>>("vabsdiff2.u32.s32.s32.add"), CARRY4("add.cc", carry_add, false, true, 2),
              CARRY4("addc", carry_add, true, false, 2), CARRY4("addc.cc", carry_add, true, true, 2),
              CARRY4("sub.cc", carry_sub, false, true, 2), CARRY4("subc", carry_sub, true, false, 2),
              CARRY4("subc.cc", carry_sub, true, true, 2), CARRY4("mad.lo.cc", carry_mad_lo, false, true, 3),
              CARRY4("madc.lo", carry_mad_lo, true, false, 3), CARRY4("madc.lo.cc", carry_mad_lo, true, true, 3),
              CARRY_HI("mad.hi.cc", false, true), CARRY_HI("madc.hi", true, false), CARRY_HI("madc.hi.cc", true, true))

}  // namespace stepbench::vm::SB_ISA
