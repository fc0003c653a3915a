// Conversions between any two of the scalar types, one rounding each: the value is widened exactly (to a 64-bit integer
// or to f64, rounded to odd where even f64 is too short) and narrowed once.
#pragma once

#include "harness/ptx_vm/arithmetic_float.h"

namespace stepbench::vm::SB_ISA {
namespace {

// Integers.
template <class T>
SB_LANE T integer_of(T x) {
  return x;
}
SB_LANE u64 integer_of(U8 x) { return static_cast<u64>(x) & 0xff; }
SB_LANE s64 integer_of(S8 x) { return static_cast<s8>(static_cast<u8>(static_cast<u16>(static_cast<s16>(x)))); }

template <class T>
struct Range {
  static constexpr int kBits = sizeof(T) * 8;
  static constexpr bool kSigned = kIsSigned<T>;
};
template <>
struct Range<U8> {
  static constexpr int kBits = 8;
  static constexpr bool kSigned = false;
};
template <>
struct Range<S8> {
  static constexpr int kBits = 8;
  static constexpr bool kSigned = true;
};
template <class T>
inline constexpr u64 kLargest = Range<T>::kSigned ? (1ull << (Range<T>::kBits - 1)) - 1
                                                  : ~0ull >> (64 - Range<T>::kBits);
template <class T>
inline constexpr s64 kSmallest = Range<T>::kSigned ? -static_cast<s64>(kLargest<T>) - 1 : 0;

/// Low bits of x as a T; 8-bit types are extended to their slot.
template <class T, class X>
SB_LANE T truncate_to(X x) {
  if constexpr (kSame<T, U8>)
    return static_cast<U8>(static_cast<u16>(static_cast<u8>(x)));
  else if constexpr (kSame<T, S8>)
    return static_cast<S8>(static_cast<s16>(static_cast<s8>(static_cast<u8>(x))));
  else
    return static_cast<T>(x);
}

template <class To, class From, bool Sat>
SB_LANE To integer_to_integer(From from) {
  const auto x = integer_of(from);
  if constexpr (!Sat) return truncate_to<To>(x);
  if constexpr (Range<From>::kSigned) {
    const s64 v = x;
    if constexpr (kSame<To, u64>) return v < 0 ? u64{0} : static_cast<u64>(v);
    const s64 high = static_cast<s64>(kSame<To, u64> ? 0 : kLargest<To>);
    return truncate_to<To>(v < kSmallest<To> ? kSmallest<To> : v > high ? high : v);
  } else {
    const u64 v = x;
    return truncate_to<To>(v > kLargest<To> ? kLargest<To> : v);
  }
}

/// An integer as f64 plus the error of that (not zero for 64-bit integers only).
template <class From>
SB_LANE Sum exact_sum(From from) {
  const auto x = integer_of(from);
  if constexpr (Range<From>::kBits <= 32) {
    if constexpr (Range<From>::kSigned) return {static_cast<f64>(static_cast<s32>(x)), 0.0};
    // 2^52 + x exactly, by putting x into the mantissa.
    return {bits_to<f64>(0x4330000000000000ull | static_cast<u64>(x)) - 0x1p52, 0.0};
  } else {
    const u64 u = static_cast<u64>(x);
    const f64 low = bits_to<f64>(0x4330000000000000ull | (u & 0xffffffffull)) - 0x1p52;
    // High word, signed by an offset of 2^31.
    const u64 word = Range<From>::kSigned ? (u >> 32) ^ 0x80000000ull : u >> 32;
    const f64 high =
        (bits_to<f64>(0x4330000000000000ull | word) - (Range<From>::kSigned ? 0x1p52 + 0x1p31 : 0x1p52)) * 0x1p32;
    return two_sum(high, low);
  }
}

template <bool Sat, class T>
SB_LANE T saturated(T x) {
  if constexpr (Sat) return saturate(x);
  return x;
}

template <class To, class From, Rounding Mode, bool Sat>
SB_LANE To integer_to_float(From from) {
  const Sum x = exact_sum(from);
  if constexpr (kSame<To, f64>) {
    return saturated<Sat>(adjust<Mode>(x.s, x.error > 0, x.error < 0));
  } else if constexpr (kSame<To, f32>) {
    return saturated<Sat>(narrow<Mode>(round_to_odd(x)));
  } else {
    return half_from<To, Mode>(saturated<Sat>(narrow_to_odd(round_to_odd(x))));
  }
}

// Floats.
template <bool Ftz>
SB_LANE f64 exact_value(f32 x) {
  return static_cast<f64>(source<Ftz>(x));
}
template <bool>
SB_LANE f64 exact_value(f64 x) {
  return x;
}
template <bool>
SB_LANE f64 exact_value(F16 x) {
  return static_cast<f64>(widen(x));
}
template <bool Ftz>
SB_LANE f64 exact_value(BF16 x) {
  return static_cast<f64>(widen(x));
}

template <Rounding Mode>
SB_LANE f64 to_integral(f64 x) {
  if constexpr (Mode == kRn) return __builtin_roundeven(x);
  if constexpr (Mode == kRz) return __builtin_trunc(x);
  if constexpr (Mode == kRm) return __builtin_floor(x);
  if constexpr (Mode == kRp) return __builtin_ceil(x);
}

/// Values out of range saturate. NaN gives 0 if neither the source is f64 nor the destination has 64 bits, else the
/// destination's most significant bit alone (PTX ISA, "cvt"; measured on an H200).
template <class To, class From, Rounding Mode, bool Ftz>
SB_LANE To float_to_integer(From from) {
  const f64 x = to_integral<Mode>(exact_value<Ftz>(from));
  constexpr u64 kOfNan = kSame<From, f64> || Range<To>::kBits == 64 ? 1ull << (Range<To>::kBits - 1) : 0;
  if constexpr (Range<To>::kBits < 32 || kSame<To, s32>) {
    constexpr f64 kLow = static_cast<f64>(kSmallest<To>), kHigh = static_cast<f64>(static_cast<s64>(kLargest<To>));
    constexpr s32 kNan = static_cast<s32>(static_cast<u32>(kOfNan));
    const f64 bounded = x < kLow ? kLow : x > kHigh ? kHigh : x == x ? x : static_cast<f64>(kNan);
    return truncate_to<To>(static_cast<s32>(bounded));
  } else if constexpr (kSame<To, u32>) {
    const f64 bounded = x > 0 ? (x > 0x1.fffffffep31 ? 0x1.fffffffep31 : x) : x == x ? 0.0 : static_cast<f64>(kOfNan);
    // The integer appears in the low mantissa bits of 2^52 + x.
    return static_cast<u32>(bits_to<u64>(bounded + 0x1p52));
  } else if constexpr (kSame<To, s64>) {
    if (!(x == x)) return static_cast<s64>(kOfNan);
    if (x >= 0x1p63) return 0x7fffffffffffffffll;
    return x <= -0x1p63 ? static_cast<s64>(1ull << 63) : static_cast<s64>(x);
  } else {
    if (!(x == x)) return kOfNan;
    if (x >= 0x1p64) return ~0ull;
    if (x >= 0x1p63) return static_cast<u64>(static_cast<s64>(x - 0x1p63)) | 1ull << 63;
    return x > 0 ? static_cast<u64>(static_cast<s64>(x)) : 0;
  }
}

template <bool Sat, bool Relu, class T>
SB_LANE T limited(T x) {
  if constexpr (Sat) return saturate(x);
  if constexpr (Relu) return rectify(x);
  return x;
}

/// f16, bf16, f32, f64 to any of them. .ftz flushes f32 sources and results, but not the source of a conversion to
/// f16 (measured on an H200: it shows under rm and rp only). The copies cvt.f32.f32 and cvt.f64.f64 and the shift
/// cvt.f32.bf16 keep NaN bits.
template <class To, class From, Rounding Mode, bool Ftz, bool Sat, bool Relu>
SB_LANE To float_to_float(From from) {
  if constexpr (kSame<To, From> && kIsFloat<To> && !Ftz && !Sat && !Relu) {
    return from;
  } else if constexpr (kSame<To, f64>) {
    return limited<Sat, Relu>(canonical(exact_value<Ftz>(from)));
  } else if constexpr (kSame<To, f32> && kSame<From, f64>) {
    f32 x = canonical(narrow<Mode>(from));
    // Below the normal range even if exponents had no lower end, as in arithmetic_f32.cc.
    if constexpr (Ftz) {
      const bool tiny = __builtin_fabsf(narrow<Mode>(from * 0x1p64)) < 0x1p-62f;
      x = tiny ? bits_to<f32>(bits_to<u32>(x) & Format<f32>::kSign) : x;
    }
    return limited<Sat, Relu>(x);
  } else if constexpr (kSame<To, f32>) {
    const f32 x = source<Ftz>(widen(from));
    return limited<Sat, Relu>(kSame<From, BF16> && !Ftz ? x : canonical(x));
  } else {
    f32 x;
    if constexpr (kSame<From, f64>)
      x = narrow_to_odd(from);
    else if constexpr (kSame<From, f32>)
      x = source < Ftz && kSame < To, BF16 >> (from);
    else
      x = widen(from);
    return half_from<To, Mode>(limited<Sat, Relu>(x));
  }
}
/// Rounds to an integral value of the same type.
template <class T, Rounding Mode, bool Ftz, bool Sat>
SB_LANE T float_to_integral(T from) {
  if constexpr (kSame<T, f64>) {
    return saturated<Sat>(canonical(to_integral<Mode>(from)));
  } else if constexpr (kSame<T, f32>) {
    return saturated<Sat>(canonical(static_cast<f32>(to_integral<Mode>(static_cast<f64>(source<Ftz>(from))))));
  } else {
    return half_from<T, kRn>(saturated<Sat>(static_cast<f32>(to_integral<Mode>(static_cast<f64>(widen(from))))));
  }
}

}  // namespace
}  // namespace stepbench::vm::SB_ISA
