// f32 arithmetic with every rounding, .ftz and .sat: add sub mul fma (mad) div sqrt rcp (IEEE variants) neg abs min
// max copysign testp. The approximations are in arithmetic_approx.cc, comparisons in arithmetic_compare_*.cc.
#include "harness/ptx_vm/arithmetic_float.h"

namespace stepbench::vm::SB_ISA {
namespace {

// .ftz results: what counts is whether the result rounded as if exponents had no lower end is below 2^-126. The
// largest such value rounds to 2^-126 in f32 and is flushed nevertheless (measured on an H200). So the operation is
// repeated 2^64 higher up for results up to 2^-126 (operands that overflow there cannot have such results unless they
// cancel to zero). Sums are exact where they are tiny.
constexpr f32 kUp = 0x1p64f, kTiny = 0x1p-62f;
template <bool Ftz, bool Sat>
SB_LANE f32 result_unless_tiny(f32 r, f32 scaled) {
  f32 x = canonical(r);
  if constexpr (Ftz) {
    const bool tiny = __builtin_fabsf(x) <= 0x1p-126f && __builtin_fabsf(scaled) < kTiny;
    x = tiny ? bits_to<f32>(bits_to<u32>(x) & Format<f32>::kSign) : x;
  }
  if constexpr (Sat) x = saturate(x);
  return x;
}

template <bool Ftz, bool Sat>
SB_LANE f32 add(f32 a, f32 b) {
  return result<Ftz, Sat>(source<Ftz>(a) + source<Ftz>(b));
}
template <bool Ftz, bool Sat>
SB_LANE f32 sub(f32 a, f32 b) {
  return result<Ftz, Sat>(source<Ftz>(a) - source<Ftz>(b));
}
template <bool Ftz, bool Sat>
SB_LANE f32 mul(f32 a, f32 b) {
  const f32 x = source<Ftz>(a), y = source<Ftz>(b);
  return result_unless_tiny<Ftz, Sat>(x * y, (x * kUp) * y);
}
template <bool Ftz, bool Sat>
SB_LANE f32 fma(f32 a, f32 b, f32 c) {
  const f32 x = source<Ftz>(a), y = source<Ftz>(b), z = source<Ftz>(c);
  return result_unless_tiny<Ftz, Sat>(fused(x, y, z), Ftz ? fused(x * kUp, y, z * kUp) : 0.0f);
}
/// For the directed roundings: an fma that obeys MXCSR, which the software fma of `fused` does not.
template <bool Ftz, bool Sat>
SB_LANE f32 fma_obeying_mxcsr(f32 a, f32 b, f32 c) {
  const f32 x = source<Ftz>(a), y = source<Ftz>(b), z = source<Ftz>(c);
  return result_unless_tiny<Ftz, Sat>(__builtin_fmaf(x, y, z), Ftz ? __builtin_fmaf(x * kUp, y, z * kUp) : 0.0f);
}
template <bool Ftz, bool>
SB_LANE f32 div(f32 a, f32 b) {
  const f32 x = source<Ftz>(a), y = source<Ftz>(b);
  return result_unless_tiny<Ftz, false>(x / y, Ftz ? (x * kUp) / y : 0.0f);
}
template <bool Ftz, bool>
SB_LANE f32 sqrt(f32 a) {
  return result<Ftz, false>(__builtin_sqrtf(source<Ftz>(a)));
}
template <bool Ftz, bool>
SB_LANE f32 rcp(f32 a) {
  const f32 x = source<Ftz>(a);
  return result_unless_tiny<Ftz, false>(1.0f / x, Ftz ? kUp / x : 0.0f);
}
template <bool Ftz>
SB_LANE f32 neg(f32 a) {
  return canonical(-source<Ftz>(a));
}
template <bool Ftz>
SB_LANE f32 abs(f32 a) {
  return canonical(__builtin_fabsf(source<Ftz>(a)));
}
template <bool Max, bool Ftz, bool Nan, bool XorSign>
SB_LANE f32 extremum(f32 a, f32 b) {
  return pick<Max, Nan, XorSign>(source<Ftz>(a), source<Ftz>(b));
}
/// Three operands (PTX ISA 8.8): pairwise; .abs is not part of the three-operand forms kept here.
template <bool Max, bool Ftz, bool Nan>
SB_LANE f32 extremum3(f32 a, f32 b, f32 c) {
  return pick<Max, Nan, false>(pick<Max, Nan, false>(source<Ftz>(a), source<Ftz>(b)), source<Ftz>(c));
}
/// copysign d, a, b: the sign of a on the value of b (PTX ISA, "copysign").
SB_LANE f32 copysign(f32 a, f32 b) {
  return bits_to<f32>((bits_to<u32>(a) & 0x80000000u) | (bits_to<u32>(b) & 0x7fffffffu));
}

enum Class { kFinite, kInfinite, kNumber, kNotANumber, kNormal, kSubnormal };
template <Class Kind>
SB_LANE u32 testp(f32 a) {
  const u32 m = bits_to<u32>(a) & 0x7fffffffu;
  if constexpr (Kind == kFinite) return m < 0x7f800000u;
  if constexpr (Kind == kInfinite) return m == 0x7f800000u;
  if constexpr (Kind == kNumber) return m <= 0x7f800000u;
  if constexpr (Kind == kNotANumber) return m > 0x7f800000u;
  if constexpr (Kind == kNormal) return m == 0 || (m >= 0x00800000u && m < 0x7f800000u);  // zero counts as normal
  if constexpr (Kind == kSubnormal) return m != 0 && m < 0x00800000u;
}

}  // namespace

#define DIRECTED(op, f, mods, ftz, sat)                                                                         \
  directed_row<&f<ftz, sat>, kRz>(op ".rz" mods ".f32"), directed_row<&f<ftz, sat>, kRm>(op ".rm" mods ".f32"), \
      directed_row<&f<ftz, sat>, kRp>(op ".rp" mods ".f32")
// add, sub, mul: round to nearest also without a suffix.
#define ROUNDED(op, f, mods, ftz, sat) \
  row<&f<ftz, sat>>(op mods ".f32"), row<&f<ftz, sat>>(op ".rn" mods ".f32"), DIRECTED(op, f, mods, ftz, sat)
#define ROUNDED_ALL(op, f)                                                                                    \
  ROUNDED(op, f, "", false, false), ROUNDED(op, f, ".ftz", true, false), ROUNDED(op, f, ".sat", false, true), \
      ROUNDED(op, f, ".ftz.sat", true, true)
#define FUSED(op, mods, ftz, sat) \
  row<&fma<ftz, sat>>(op ".rn" mods ".f32"), DIRECTED(op, fma_obeying_mxcsr, mods, ftz, sat)
#define FUSED_ALL(op)                                                                          \
  FUSED(op, "", false, false), FUSED(op, ".ftz", true, false), FUSED(op, ".sat", false, true), \
      FUSED(op, ".ftz.sat", true, true)
#define IEEE(op, f)                                                                                               \
  row<&f<false, false>>(op ".rn.f32"), row<&f<true, false>>(op ".rn.ftz.f32"), DIRECTED(op, f, "", false, false), \
      DIRECTED(op, f, ".ftz", true, false)
#define EXTREMUM(op, max)                                                                                      \
  row<&extremum<max, false, false, false>>(op ".f32"), row<&extremum<max, true, false, false>>(op ".ftz.f32"), \
      row<&extremum<max, false, true, false>>(op ".NaN.f32"),                                                  \
      row<&extremum<max, true, true, false>>(op ".ftz.NaN.f32"),                                               \
      row<&extremum<max, false, false, true>>(op ".xorsign.abs.f32"),                                          \
      row<&extremum<max, true, false, true>>(op ".ftz.xorsign.abs.f32"),                                       \
      row<&extremum<max, false, true, true>>(op ".NaN.xorsign.abs.f32"),                                       \
      row<&extremum<max, true, true, true>>(op ".ftz.NaN.xorsign.abs.f32"),                                    \
      row<&extremum3<max, false, false>>(op ".f32 3"), row<&extremum3<max, true, false>>(op ".ftz.f32 3"),     \
      row<&extremum3<max, false, true>>(op ".NaN.f32 3"), row<&extremum3<max, true, true>>(op ".ftz.NaN.f32 3")

SB_FORM_TABLE(forms_f32, ROUNDED_ALL("add", add), ROUNDED_ALL("sub", sub), ROUNDED_ALL("mul", mul), FUSED_ALL("fma"),
              FUSED_ALL("mad"), IEEE("div", div), IEEE("sqrt", sqrt), IEEE("rcp", rcp), row<&neg<false>>("neg.f32"),
              row<&neg<true>>("neg.ftz.f32"), row<&abs<false>>("abs.f32"), row<&abs<true>>("abs.ftz.f32"),
              EXTREMUM("min", false), EXTREMUM("max", true), row<&copysign>("copysign.f32"),
              row<&testp<kFinite>>("testp.finite.f32"), row<&testp<kInfinite>>("testp.infinite.f32"),
              row<&testp<kNumber>>("testp.number.f32"), row<&testp<kNotANumber>>("testp.notanumber.f32"),
              row<&testp<kNormal>>("testp.normal.f32"), row<&testp<kSubnormal>>("testp.subnormal.f32"))

}  // namespace stepbench::vm::SB_ISA
