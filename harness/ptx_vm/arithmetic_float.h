// Scalar building blocks of PTX floating point: canonical NaN, flush to zero, saturation, exact fma, rounding to the
// narrow formats under any rounding mode. All of it gives the same bits on every host and level: only IEEE
// operations and integer arithmetic, no contraction, no library functions except the exact fma.
// Included like arithmetic_lanes.h.
#pragma once

#include "harness/ptx_vm/arithmetic_lanes.h"

namespace stepbench::vm::SB_ISA {
namespace {

template <class T>
struct Format;
template <>
struct Format<f32> {
  using Bits = u32;
  static constexpr u32 kSign = 0x80000000u, kExponent = 0x7f800000u, kNan = 0x7fffffffu;
};
template <>
struct Format<f64> {
  using Bits = u64;
  static constexpr u64 kSign = 1ull << 63, kExponent = 0x7ffull << 52, kNan = 0x7fffffffffffffffull;
};

/// NaN results are the canonical quiet NaN (PTX ISA, "Floating Point Comparisons / NaN payloads"; x86 gives
/// 0xffc00000).
template <class T>
SB_LANE T canonical(T x) {
  return x == x ? x : bits_to<T>(Format<T>::kNan);
}

/// Subnormals to sign-preserving zero.
template <class T>
SB_LANE T flush(T x) {
  const typename Format<T>::Bits b = bits_to<typename Format<T>::Bits>(x);
  return bits_to<T>((b & Format<T>::kExponent) != 0 ? b : b & Format<T>::kSign);
}
template <bool Ftz, class T>
SB_LANE T source(T x) {
  if constexpr (Ftz) return flush(x);
  return x;
}

/// .sat: [0, 1], NaN and -0 become +0.
template <class T>
SB_LANE T saturate(T x) {
  const T low = x > T(0) ? x : T(0);
  return low < T(1) ? low : T(1);
}
/// .relu: negative values (and -0) become +0; NaN stays NaN.
template <class T>
SB_LANE T rectify(T x) {
  return x <= T(0) ? T(0) : x;
}

template <bool Ftz, bool Sat, class T>
SB_LANE T result(T x) {
  T r = canonical(x);
  if constexpr (Ftz) r = flush(r);
  if constexpr (Sat) r = saturate(r);
  return r;
}

/// Error-free sum (Knuth 1969, TwoSum): s + error == a + b exactly unless s overflows or is NaN.
struct Sum {
  f64 s, error;
};
SB_LANE Sum two_sum(f64 a, f64 b) {
  const f64 s = a + b;
  const f64 t = s - a;
  return {s, (a - (s - t)) + (b - t)};
}

/// s + error rounded to odd at 53 bits (Boldo and Melquiond 2008): rounding that once more to 51 bits or fewer gives
/// the correctly rounded exact value. Infinities and NaN pass (error is then NaN).
SB_LANE f64 round_to_odd(Sum x) {
  const u64 b = bits_to<u64>(x.s);
  const bool inexact = x.error < 0 || x.error > 0;
  const u64 step = (x.error > 0) == (x.s > 0) ? u64{1} : ~u64{0};
  return bits_to<f64>(inexact && (b & 1) == 0 ? b + step : b);
}

/// f64 -> f32 rounded to odd: double rounding to any narrower format is then harmless.
SB_LANE f32 narrow_to_odd(f64 x) {
  const f32 r = static_cast<f32>(x);
  const f64 back = r;
  const u32 b = bits_to<u32>(r);
  const bool inexact = back < x || back > x;
  const u32 step = __builtin_fabs(back) < __builtin_fabs(x) ? 1u : ~0u;
  return bits_to<f32>(inexact && (b & 1) == 0 ? b + step : b);
}

/// Moves a round-to-nearest result r one place so that it is the exact value rounded by Mode. `below`: r < exact.
template <Rounding Mode, class T>
SB_LANE T adjust(T r, bool below, bool above) {
  using Bits = typename Format<T>::Bits;
  const Bits b = bits_to<Bits>(r);
  const bool negative = (b & Format<T>::kSign) != 0;
  const Bits magnitude = b & ~Format<T>::kSign;
  if constexpr (Mode == kRn) return r;
  // Up means towards +infinity. From a zero, up leads to the smallest positive number whatever the zero's sign.
  const Bits up = magnitude == 0 ? Bits{1} : negative ? b - 1 : b + 1;
  const Bits down = magnitude == 0 ? Format<T>::kSign | Bits{1} : negative ? b + 1 : b - 1;
  if constexpr (Mode == kRp) return bits_to<T>(below ? up : b);
  if constexpr (Mode == kRm) return bits_to<T>(above ? down : b);
  if constexpr (Mode == kRz) return bits_to<T>(negative ? (below && magnitude != 0 ? up : b) : (above ? down : b));
}

/// f64 -> f32 by Mode.
template <Rounding Mode>
SB_LANE f32 narrow(f64 x) {
  const f32 r = static_cast<f32>(x);
  return adjust<Mode>(r, static_cast<f64>(r) < x, static_cast<f64>(r) > x);
}

/// Exact fused multiply-add. Without the instruction: the product of two f32 is exact in f64, the sum is rounded to
/// odd, and f64's 53 bits exceed 2 * 24 + 2, so the final rounding is the only one.
SB_LANE f32 fused(f32 a, f32 b, f32 c) {
#ifdef __FMA__
  return __builtin_fmaf(a, b, c);
#else
  return static_cast<f32>(round_to_odd(two_sum(static_cast<f64>(a) * static_cast<f64>(b), static_cast<f64>(c))));
#endif
}
SB_LANE f64 fused(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }

// Half-precision formats.

SB_LANE f32 widen(F16 h) {
  const u32 x = static_cast<u16>(h);
  const u32 sign = (x & 0x8000u) << 16, magnitude = x & 0x7fffu;
  const u32 rebias = magnitude >= 0x7c00u ? 224u << 23 : 112u << 23;
  const u32 normal = (magnitude << 13) + rebias;
  const u32 tiny = bits_to<u32>(static_cast<f32>(static_cast<s32>(magnitude)) * 0x1p-24f);
  return bits_to<f32>(sign | (magnitude < 0x400u ? tiny : normal));
}
SB_LANE f32 widen(BF16 h) { return bits_to<f32>(static_cast<u32>(static_cast<u16>(h)) << 16); }
SB_LANE f32 widen(f32 x) { return x; }

/// Whether a truncated magnitude goes up: `rest` is what was cut off, `half` the weight of half a unit.
template <Rounding Mode>
SB_LANE u32 round_up(u32 kept, u32 rest, u32 half, bool negative) {
  if constexpr (Mode == kRn) return rest > half || (rest == half && (kept & 1) != 0);
  if constexpr (Mode == kRm) return negative && rest != 0;
  if constexpr (Mode == kRp) return !negative && rest != 0;
  return 0;
}

/// f32 -> a format of 1 sign bit, ExponentBits and MantissaBits; result without sign, before overflow handling: values
/// at or above the format's infinity mean overflow. NaN and infinity are the caller's.
template <Rounding Mode, int ExponentBits, int MantissaBits>
SB_LANE u32 shrink(u32 magnitude, bool negative) {
  constexpr u32 kCut = 23 - MantissaBits;
  constexpr u32 kFirst = 127 - ((1 << (ExponentBits - 1)) - 1) + 1;  // f32 exponent of the smallest normal number
  const u32 exponent = magnitude >> 23;
  const bool normal = exponent >= kFirst;
  const u32 mantissa = exponent != 0 ? (magnitude & 0x7fffffu) | 0x800000u : magnitude;
  const u32 deep = kCut + kFirst - exponent;  // used below the normal range only
  const u32 cut = normal ? kCut : deep < 31 ? deep : 31;
  const u32 base = normal ? (exponent - kFirst) << MantissaBits : 0;
  const u32 kept = base + (mantissa >> cut);
  return kept + round_up<Mode>(kept, mantissa & ((1u << cut) - 1), 1u << (cut - 1), negative);
}

template <class H, Rounding Mode>
SB_LANE H half_from(f32 x) {
  const u32 b = bits_to<u32>(x);
  const u32 magnitude = b & 0x7fffffffu;
  const bool negative = (b >> 31) != 0;
  u32 r;
  if constexpr (kSame<H, F16>) {
    r = shrink<Mode, 5, 10>(magnitude, negative);
    // Overflow of a finite value: infinity, or the largest finite number when the mode points inwards.
    const u32 beyond = Mode == kRn || (Mode == kRm && negative) || (Mode == kRp && !negative) ? 0x7c00u : 0x7bffu;
    r = r >= 0x7c00u ? beyond : r;
    r = magnitude == 0x7f800000u ? 0x7c00u : r;
  } else {
    // bf16 has f32's exponent: subnormals and the step from the largest number to infinity come out by themselves.
    const u32 kept = magnitude >> 16;
    r = kept + round_up<Mode>(kept, magnitude & 0xffffu, 0x8000u, negative);
  }
  r |= negative ? 0x8000u : 0u;
  return static_cast<H>(static_cast<u16>(magnitude > 0x7f800000u ? 0x7fffu : r));
}

/// f16 subnormals to zero (.ftz of f16 forms).
template <bool Ftz>
SB_LANE F16 source_half(F16 h) {
  const u16 b = static_cast<u16>(h);
  if constexpr (Ftz) return static_cast<F16>((b & 0x7c00u) != 0 ? b : static_cast<u16>(b & 0x8000u));
  return h;
}
template <bool Ftz>
SB_LANE BF16 source_half(BF16 h) {
  const u16 b = static_cast<u16>(h);
  if constexpr (Ftz) return static_cast<BF16>((b & 0x7f80u) != 0 ? b : static_cast<u16>(b & 0x8000u));
  return h;
}

// Packed pairs.
template <class P>
struct HalfOf;
template <>
struct HalfOf<F16x2> {
  using type = F16;
};
template <>
struct HalfOf<BF16x2> {
  using type = BF16;
};
template <class P>
SB_LANE typename HalfOf<P>::type low_half(P x) {
  return static_cast<typename HalfOf<P>::type>(static_cast<u16>(static_cast<u32>(x)));
}
template <class P>
SB_LANE typename HalfOf<P>::type high_half(P x) {
  return static_cast<typename HalfOf<P>::type>(static_cast<u16>(static_cast<u32>(x) >> 16));
}
template <class P, class H>
SB_LANE P pack(H low, H high) {
  return static_cast<P>(static_cast<u32>(static_cast<u16>(low)) | static_cast<u32>(static_cast<u16>(high)) << 16);
}

// min and max: the number wins over NaN unless .NaN, -0 < +0, .xorsign.abs takes magnitudes and the product's sign
// (PTX ISA, "min", "max").
template <bool Max, bool Nan, bool XorSign, class T>
SB_LANE T pick(T a, T b) {
  using Bits = typename Format<T>::Bits;
  const Bits sign = (bits_to<Bits>(a) ^ bits_to<Bits>(b)) & Format<T>::kSign;
  const T x = XorSign ? bits_to<T>(bits_to<Bits>(a) & ~Format<T>::kSign) : a;
  const T y = XorSign ? bits_to<T>(bits_to<Bits>(b) & ~Format<T>::kSign) : b;
  // Equal operands differ at most in the sign of zero: OR of the bits prefers -0, AND prefers +0.
  const T equal = bits_to<T>(Max ? bits_to<Bits>(x) & bits_to<Bits>(y) : bits_to<Bits>(x) | bits_to<Bits>(y));
  T r = (Max ? x > y : x < y) ? x : y;
  r = x == y ? equal : r;
  const bool x_nan = !(x == x), y_nan = !(y == y);
  if constexpr (Nan) {
    r = x_nan || y_nan ? bits_to<T>(Format<T>::kNan) : r;
  } else {
    r = y_nan ? x : r;
    r = x_nan ? y : r;
    r = canonical(r);
  }
  if constexpr (XorSign) r = r == r ? bits_to<T>(bits_to<Bits>(r) | sign) : r;
  return r;
}

}  // namespace
}  // namespace stepbench::vm::SB_ISA
