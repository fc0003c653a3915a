// f16, f16x2, bf16 and bf16x2 arithmetic: add sub mul fma neg abs min max, one rounding each. Conversions are in
// arithmetic_convert_float.cc, approximations in arithmetic_approx.cc, comparisons in arithmetic_compare_half.cc.
#include "harness/ptx_vm/arithmetic_float.h"

namespace stepbench::vm::SB_ISA {
namespace {

enum Clamp { kNone, kSat, kRelu };

/// .ftz flushes results that are below 2^-14 when rounded to 11 bits as if exponents had no lower end, as in f32.
template <class H, bool Ftz, Clamp Limit>
SB_LANE H finish(f32 x) {
  if constexpr (Ftz)
    x = __builtin_fabsf(x) < 0x1p-14f * (1.0f - 0x1p-12f) ? bits_to<f32>(bits_to<u32>(x) & Format<f32>::kSign) : x;
  if constexpr (Limit == kSat) x = saturate(x);
  if constexpr (Limit == kRelu) x = rectify(x);
  return half_from<H, kRn>(x);
}

// Sums of two halves: f32 has 24 >= 2 * 11 + 2 bits, so rounding twice is harmless, and the sum of two multiples of the
// smallest subnormal is exact when it is small. Products: exact in f32 for f16 (22 bits). For bf16 they may fall below
// f32's range, and an fma needs more than f32 holds: those go through f64 and a rounding to odd.
template <class H, bool Ftz, Clamp Limit>
SB_LANE H add(H a, H b) {
  return finish<H, Ftz, Limit>(widen(source_half<Ftz>(a)) + widen(source_half<Ftz>(b)));
}
template <class H, bool Ftz, Clamp Limit>
SB_LANE H sub(H a, H b) {
  return finish<H, Ftz, Limit>(widen(source_half<Ftz>(a)) - widen(source_half<Ftz>(b)));
}
template <class H, bool Ftz, Clamp Limit>
SB_LANE H mul(H a, H b) {
  const f32 x = widen(source_half<Ftz>(a)), y = widen(source_half<Ftz>(b));
  if constexpr (kSame<H, F16>) return finish<H, Ftz, Limit>(x * y);
  return finish<H, Ftz, Limit>(narrow_to_odd(static_cast<f64>(x) * static_cast<f64>(y)));
}
template <class H, bool Ftz, Clamp Limit>
SB_LANE H fma(H a, H b, H c) {
  const f64 x = widen(source_half<Ftz>(a)), y = widen(source_half<Ftz>(b)), z = widen(source_half<Ftz>(c));
  return finish<H, Ftz, Limit>(narrow_to_odd(round_to_odd(two_sum(x * y, z))));
}
template <class H>
SB_LANE H canonical_half(u32 bits) {
  const u32 infinity = kSame<H, F16> ? 0x7c00u : 0x7f80u;
  return static_cast<H>(static_cast<u16>((bits & 0x7fffu) > infinity ? 0x7fffu : bits));
}
template <class H, bool Ftz>
SB_LANE H neg(H a) {
  return canonical_half<H>(static_cast<u32>(static_cast<u16>(source_half<Ftz>(a))) ^ 0x8000u);
}
template <class H, bool Ftz>
SB_LANE H abs(H a) {
  return canonical_half<H>(static_cast<u32>(static_cast<u16>(source_half<Ftz>(a))) & 0x7fffu);
}
template <class H, bool Max, bool Ftz, bool Nan, bool XorSign>
SB_LANE H extremum(H a, H b) {
  return half_from<H, kRn>(pick<Max, Nan, XorSign>(widen(source_half<Ftz>(a)), widen(source_half<Ftz>(b))));
}

// Packed forms do the same on both halves.
template <class P, auto F>
SB_LANE P both1(P a) {
  return pack<P>(F(low_half(a)), F(high_half(a)));
}
template <class P, auto F>
SB_LANE P both2(P a, P b) {
  return pack<P>(F(low_half(a), low_half(b)), F(high_half(a), high_half(b)));
}
template <class P, auto F>
SB_LANE P both3(P a, P b, P c) {
  return pack<P>(F(low_half(a), low_half(b), low_half(c)), F(high_half(a), high_half(b), high_half(c)));
}

}  // namespace

#define UNARY(name, H, P, suffix, ...) \
  row<&__VA_ARGS__>(name "." suffix), row<&both1<P, &__VA_ARGS__>>(name "." suffix "x2")
#define BINARY(name, H, P, suffix, ...) \
  row<&__VA_ARGS__>(name "." suffix), row<&both2<P, &__VA_ARGS__>>(name "." suffix "x2")
#define TERNARY(name, H, P, suffix, ...) \
  row<&__VA_ARGS__>(name "." suffix), row<&both3<P, &__VA_ARGS__>>(name "." suffix "x2")

#define SUM_F16(op, f)                                                                                            \
  BINARY(op, F16, F16x2, "f16", f<F16, false, kNone>), BINARY(op ".rn", F16, F16x2, "f16", f<F16, false, kNone>), \
      BINARY(op ".ftz", F16, F16x2, "f16", f<F16, true, kNone>),                                                  \
      BINARY(op ".rn.ftz", F16, F16x2, "f16", f<F16, true, kNone>),                                               \
      BINARY(op ".sat", F16, F16x2, "f16", f<F16, false, kSat>),                                                  \
      BINARY(op ".rn.sat", F16, F16x2, "f16", f<F16, false, kSat>),                                               \
      BINARY(op ".ftz.sat", F16, F16x2, "f16", f<F16, true, kSat>),                                               \
      BINARY(op ".rn.ftz.sat", F16, F16x2, "f16", f<F16, true, kSat>)
#define SUM_BF16(op, f) \
  BINARY(op, BF16, BF16x2, "bf16", f<BF16, false, kNone>), BINARY(op ".rn", BF16, BF16x2, "bf16", f<BF16, false, kNone>)
#define EXTREMUM(op, max)                                                                         \
  BINARY(op, F16, F16x2, "f16", extremum<F16, max, false, false, false>),                         \
      BINARY(op ".ftz", F16, F16x2, "f16", extremum<F16, max, true, false, false>),               \
      BINARY(op ".NaN", F16, F16x2, "f16", extremum<F16, max, false, true, false>),               \
      BINARY(op ".ftz.NaN", F16, F16x2, "f16", extremum<F16, max, true, true, false>),            \
      BINARY(op ".xorsign.abs", F16, F16x2, "f16", extremum<F16, max, false, false, true>),       \
      BINARY(op ".ftz.xorsign.abs", F16, F16x2, "f16", extremum<F16, max, true, false, true>),    \
      BINARY(op ".NaN.xorsign.abs", F16, F16x2, "f16", extremum<F16, max, false, true, true>),    \
      BINARY(op ".ftz.NaN.xorsign.abs", F16, F16x2, "f16", extremum<F16, max, true, true, true>), \
      BINARY(op, BF16, BF16x2, "bf16", extremum<BF16, max, false, false, false>),                 \
      BINARY(op ".NaN", BF16, BF16x2, "bf16", extremum<BF16, max, false, true, false>),           \
      BINARY(op ".xorsign.abs", BF16, BF16x2, "bf16", extremum<BF16, max, false, false, true>),   \
      BINARY(op ".NaN.xorsign.abs", BF16, BF16x2, "bf16", extremum<BF16, max, false, true, true>)

SB_FORM_TABLE(forms_half, SUM_F16("add", add), SUM_F16("sub", sub), SUM_F16("mul", mul), SUM_BF16("add", add),
              SUM_BF16("sub", sub), SUM_BF16("mul", mul), TERNARY("fma.rn", F16, F16x2, "f16", fma<F16, false, kNone>),
              TERNARY("fma.rn.ftz", F16, F16x2, "f16", fma<F16, true, kNone>),
              TERNARY("fma.rn.sat", F16, F16x2, "f16", fma<F16, false, kSat>),
              TERNARY("fma.rn.ftz.sat", F16, F16x2, "f16", fma<F16, true, kSat>),
              TERNARY("fma.rn.relu", F16, F16x2, "f16", fma<F16, false, kRelu>),
              TERNARY("fma.rn.ftz.relu", F16, F16x2, "f16", fma<F16, true, kRelu>),
              TERNARY("fma.rn", BF16, BF16x2, "bf16", fma<BF16, false, kNone>),
              TERNARY("fma.rn.relu", BF16, BF16x2, "bf16", fma<BF16, false, kRelu>),
              UNARY("neg", F16, F16x2, "f16", neg<F16, false>), UNARY("neg.ftz", F16, F16x2, "f16", neg<F16, true>),
              UNARY("abs", F16, F16x2, "f16", abs<F16, false>), UNARY("abs.ftz", F16, F16x2, "f16", abs<F16, true>),
              UNARY("neg", BF16, BF16x2, "bf16", neg<BF16, false>),
              UNARY("abs", BF16, BF16x2, "bf16", abs<BF16, false>), EXTREMUM("min", false), EXTREMUM("max", true))

}  // namespace stepbench::vm::SB_ISA
