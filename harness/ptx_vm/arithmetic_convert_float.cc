// cvt between floats, packed conversions, tf32 and the 8-bit floats e4m3 and e5m2.
#include "harness/ptx_vm/arithmetic_convert.h"

namespace stepbench::vm::SB_ISA {
namespace {

/// cvt.f16x2.f32 and cvt.bf16x2.f32: the first source goes to the high half (PTX ISA, "cvt").
template <class P, Rounding Mode, bool Relu>
SB_LANE P pack_floats(f32 a, f32 b) {
  using H = typename HalfOf<P>::type;
  return pack<P>(half_from<H, Mode>(limited<false, Relu>(b)), half_from<H, Mode>(limited<false, Relu>(a)));
}

enum TieRule { kEven, kAway, kTruncate };
/// tf32 keeps 10 mantissa bits in an f32 register; the low 13 bits of the result are zero, of NaN too.
template <TieRule Rule, bool Relu>
SB_LANE u32 to_tf32(f32 a) {
  const u32 b = bits_to<u32>(limited<false, Relu>(a));
  const u32 up = Rule == kAway ? 0x1000u : Rule == kEven ? 0xfffu + ((b >> 13) & 1u) : 0u;
  const u32 rounded = (b + up) & ~0x1fffu;
  const u32 magnitude = b & 0x7fffffffu;
  return magnitude > 0x7f800000u ? 0x7fffe000u : magnitude == 0x7f800000u ? b : rounded;
}

// 8-bit floats (PTX ISA, "Alternate floating point data formats"; OCP 8-bit floating point specification 1.0): e4m3 has
// no infinity, largest 448 = 0x7e, NaN 0x7f; e5m2 largest 57344 = 0x7b. With .satfinite (the only form) what exceeds
// the largest number becomes it, infinity too; NaN becomes 0x7f.
template <bool E4m3, bool Relu>
SB_LANE u32 to_fp8(f32 a) {
  const u32 b = bits_to<u32>(limited<false, Relu>(a));
  const u32 magnitude = b & 0x7fffffffu;
  constexpr u32 kTop = E4m3 ? 0x7eu : 0x7bu;
  u32 r = E4m3 ? shrink<kRn, 4, 3>(magnitude, false) : shrink<kRn, 5, 2>(magnitude, false);
  r = r > kTop ? kTop : r;
  return magnitude > 0x7f800000u ? 0x7fu : r | (b >> 31) << 7;
}
template <bool E4m3, bool Relu>
SB_LANE u16 pack_fp8(f32 a, f32 b) {
  return static_cast<u16>(to_fp8<E4m3, Relu>(a) << 8 | to_fp8<E4m3, Relu>(b));
}
template <bool E4m3, bool Relu>
SB_LANE u16 pack_fp8_halves(F16x2 a) {
  return pack_fp8<E4m3, Relu>(widen(high_half(a)), widen(low_half(a)));
}
template <bool E4m3>
SB_LANE F16 from_fp8(u32 x) {
  const u32 sign = (x & 0x80u) << 8, magnitude = x & 0x7fu;
  if constexpr (!E4m3) {
    // The upper byte of an f16.
    return static_cast<F16>(static_cast<u16>(magnitude > 0x7cu ? 0x7fffu : sign | magnitude << 8));
  } else {
    // Exponent bias 7 against 15; subnormals are multiples of 2^-9, normal numbers in f16.
    const u32 normal = (magnitude << 7) + (8u << 10);
    const u32 tiny = static_cast<u16>(half_from<F16, kRn>(static_cast<f32>(static_cast<s32>(magnitude)) * 0x1p-9f));
    const u32 finite = magnitude < 8 ? tiny : normal;
    return static_cast<F16>(static_cast<u16>(magnitude == 0x7fu ? 0x7fffu : sign | finite));
  }
}
template <bool E4m3, bool Relu>
SB_LANE F16x2 unpack_fp8(u16 a) {
  const f32 low = limited<false, Relu>(widen(from_fp8<E4m3>(a & 0xffu)));
  const f32 high = limited<false, Relu>(widen(from_fp8<E4m3>(static_cast<u32>(a) >> 8)));
  return pack<F16x2>(half_from<F16, kRn>(low), half_from<F16, kRn>(high));
}

}  // namespace

// Widening: no rounding. bf16 takes no .sat in any conversion.
#define WIDEN(mods, ftz, to, To, from, From) \
  row<&float_to_float<To, From, kRn, ftz, false, false>>("cvt" mods "." to "." from)
#define WIDEN_SAT(mods, ftz, to, To, from, From) \
  WIDEN(mods, ftz, to, To, from, From),          \
      row<&float_to_float<To, From, kRn, ftz, true, false>>("cvt" mods ".sat." to "." from)
#define NARROW_SUFFIXED(suffix, sat, mods, ftz, to, To, from, From)                               \
  row<&float_to_float<To, From, kRn, ftz, sat, false>>("cvt.rn" mods suffix "." to "." from),     \
      row<&float_to_float<To, From, kRz, ftz, sat, false>>("cvt.rz" mods suffix "." to "." from), \
      row<&float_to_float<To, From, kRm, ftz, sat, false>>("cvt.rm" mods suffix "." to "." from), \
      row<&float_to_float<To, From, kRp, ftz, sat, false>>("cvt.rp" mods suffix "." to "." from)
#define NARROW(mods, ftz, to, To, from, From) NARROW_SUFFIXED("", false, mods, ftz, to, To, from, From)
#define NARROW_SAT(mods, ftz, to, To, from, From) \
  NARROW(mods, ftz, to, To, from, From), NARROW_SUFFIXED(".sat", true, mods, ftz, to, To, from, From)
#define RELU(to, To)                                                                \
  row<&float_to_float<To, f32, kRn, false, false, true>>("cvt.rn.relu." to ".f32"), \
      row<&float_to_float<To, f32, kRz, false, false, true>>("cvt.rz.relu." to ".f32")
#define INTEGRAL_SUFFIXED(suffix, sat, mods, ftz, type, T)                                \
  row<&float_to_integral<T, kRn, ftz, sat>>("cvt.rni" mods suffix "." type "." type),     \
      row<&float_to_integral<T, kRz, ftz, sat>>("cvt.rzi" mods suffix "." type "." type), \
      row<&float_to_integral<T, kRm, ftz, sat>>("cvt.rmi" mods suffix "." type "." type), \
      row<&float_to_integral<T, kRp, ftz, sat>>("cvt.rpi" mods suffix "." type "." type)
#define INTEGRAL(mods, ftz, type, T) INTEGRAL_SUFFIXED("", false, mods, ftz, type, T)
#define INTEGRAL_SAT(mods, ftz, type, T) \
  INTEGRAL(mods, ftz, type, T), INTEGRAL_SUFFIXED(".sat", true, mods, ftz, type, T)
#define PACK(type, P)                                                                                               \
  row<&pack_floats<P, kRn, false>>("cvt.rn." type ".f32"), row<&pack_floats<P, kRz, false>>("cvt.rz." type ".f32"), \
      row<&pack_floats<P, kRn, true>>("cvt.rn.relu." type ".f32"),                                                  \
      row<&pack_floats<P, kRz, true>>("cvt.rz.relu." type ".f32")
#define FP8(type, e4m3)                                                          \
  row<&pack_fp8<e4m3, false>>("cvt.rn.satfinite." type ".f32"),                  \
      row<&pack_fp8<e4m3, true>>("cvt.rn.satfinite.relu." type ".f32"),          \
      row<&pack_fp8_halves<e4m3, false>>("cvt.rn.satfinite." type ".f16x2"),     \
      row<&pack_fp8_halves<e4m3, true>>("cvt.rn.satfinite.relu." type ".f16x2"), \
      row<&unpack_fp8<e4m3, false>>("cvt.rn.f16x2." type), row<&unpack_fp8<e4m3, true>>("cvt.rn.relu.f16x2." type)

SB_FORM_TABLE(forms_convert_float, WIDEN_SAT("", false, "f32", f32, "f16", F16),
              WIDEN_SAT(".ftz", true, "f32", f32, "f16", F16), WIDEN("", false, "f32", f32, "bf16", BF16),
              WIDEN(".ftz", true, "f32", f32, "bf16", BF16), WIDEN_SAT("", false, "f64", f64, "f16", F16),
              WIDEN("", false, "f64", f64, "bf16", BF16), WIDEN_SAT("", false, "f64", f64, "f32", f32),
              WIDEN_SAT(".ftz", true, "f64", f64, "f32", f32), WIDEN_SAT("", false, "f64", f64, "f64", f64),
              WIDEN_SAT("", false, "f32", f32, "f32", f32), WIDEN_SAT(".ftz", true, "f32", f32, "f32", f32),
              WIDEN_SAT("", false, "f16", F16, "f16", F16), WIDEN("", false, "bf16", BF16, "bf16", BF16),
              NARROW_SAT("", false, "f32", f32, "f64", f64), NARROW_SAT(".ftz", true, "f32", f32, "f64", f64),
              NARROW_SAT("", false, "f16", F16, "f64", f64), NARROW("", false, "bf16", BF16, "f64", f64),
              NARROW_SAT("", false, "f16", F16, "f32", f32), NARROW_SAT(".ftz", true, "f16", F16, "f32", f32),
              NARROW("", false, "bf16", BF16, "f32", f32), NARROW(".ftz", true, "bf16", BF16, "f32", f32),
              NARROW("", false, "bf16", BF16, "f16", F16), NARROW("", false, "f16", F16, "bf16", BF16),
              RELU("f16", F16), RELU("bf16", BF16), INTEGRAL_SAT("", false, "f32", f32),
              INTEGRAL_SAT(".ftz", true, "f32", f32), INTEGRAL_SAT("", false, "f64", f64),
              INTEGRAL_SAT("", false, "f16", F16), INTEGRAL("", false, "bf16", BF16), PACK("f16x2", F16x2),
              PACK("bf16x2", BF16x2), row<&to_tf32<kAway, false>>("cvt.rna.tf32.f32"),
              row<&to_tf32<kEven, false>>("cvt.rn.tf32.f32"), row<&to_tf32<kTruncate, false>>("cvt.rz.tf32.f32"),
              row<&to_tf32<kEven, true>>("cvt.rn.relu.tf32.f32"),
              row<&to_tf32<kTruncate, true>>("cvt.rz.relu.tf32.f32"), FP8("e4m3x2", true), FP8("e5m2x2", false))

}  // namespace stepbench::vm::SB_ISA
