// setp and set on f16, bf16 and their packed pairs.
#include "harness/ptx_vm/arithmetic_compare.h"

namespace stepbench::vm::SB_ISA {
namespace {

template <Comparison Op, class H, bool Ftz>
SB_LANE u32 compare_half(H a, H b) {
  return compare<Op>(widen(source_half<Ftz>(a)), widen(source_half<Ftz>(b)));
}
template <Comparison Op, class P, bool Ftz>
SB_LANE u32 compare_low(P a, P b) {
  return compare_half<Op, typename HalfOf<P>::type, Ftz>(low_half(a), low_half(b));
}
template <Comparison Op, class P, bool Ftz>
SB_LANE u32 compare_high(P a, P b) {
  return compare_half<Op, typename HalfOf<P>::type, Ftz>(high_half(a), high_half(b));
}

}  // namespace

#define SET_HALF_BOOLEAN(cmp, name, op, mods, type, one, ...)                        \
  SB_SET_TO(cmp, name, op, mods, type, type, u16, one, false, __VA_ARGS__),          \
      SB_SET_TO(cmp, name, op, mods, type, "u16", u16, kMask16, false, __VA_ARGS__), \
      SB_SET_TO(cmp, name, op, mods, type, "s16", u16, kMask16, true, __VA_ARGS__),  \
      SB_SET_TO(cmp, name, op, mods, type, "u32", u32, kMask, false, __VA_ARGS__),   \
      SB_SET_TO(cmp, name, op, mods, type, "s32", u32, kMask, true, __VA_ARGS__)
// Scalar halves have no second destination.
#define SCALAR(cmp, op, mods, type, H, ftz, one)                                          \
  setp_row<&compare_half<op, H, ftz>, kPlain, false>("setp." cmp mods "." type),          \
      setp_row<&compare_half<op, H, ftz>, kAnd, false>("setp." cmp ".and" mods "." type), \
      setp_row<&compare_half<op, H, ftz>, kOr, false>("setp." cmp ".or" mods "." type),   \
      setp_row<&compare_half<op, H, ftz>, kXor, false>("setp." cmp ".xor" mods "." type), \
      SET_HALF_BOOLEAN(cmp, "", kPlain, mods, type, one, compare_half<op, H, ftz>),       \
      SET_HALF_BOOLEAN(cmp, ".and", kAnd, mods, type, one, compare_half<op, H, ftz>),     \
      SET_HALF_BOOLEAN(cmp, ".or", kOr, mods, type, one, compare_half<op, H, ftz>),       \
      SET_HALF_BOOLEAN(cmp, ".xor", kXor, mods, type, one, compare_half<op, H, ftz>)
#define PACKED_BOOLEAN(cmp, name, boolean, op, mods, type, P, ftz, one)                                        \
  setp_packed_row<&compare_low<op, P, ftz>, &compare_high<op, P, ftz>, boolean>("setp." cmp name mods "." type \
                                                                                " d|p"),                       \
      set_packed_row<&compare_low<op, P, ftz>, &compare_high<op, P, ftz>, boolean, one>(                       \
          "set." cmp name mods "." type "." type, false),                                                      \
      set_packed_row<&compare_low<op, P, ftz>, &compare_high<op, P, ftz>, boolean, kMask16>(                   \
          "set." cmp name mods ".u32." type, false),                                                           \
      set_packed_row<&compare_low<op, P, ftz>, &compare_high<op, P, ftz>, boolean, kMask16>(                   \
          "set." cmp name mods ".s32." type, true)
#define PACKED(cmp, op, mods, type, P, ftz, one)                      \
  PACKED_BOOLEAN(cmp, "", kPlain, op, mods, type, P, ftz, one),       \
      PACKED_BOOLEAN(cmp, ".and", kAnd, op, mods, type, P, ftz, one), \
      PACKED_BOOLEAN(cmp, ".or", kOr, op, mods, type, P, ftz, one),   \
      PACKED_BOOLEAN(cmp, ".xor", kXor, op, mods, type, P, ftz, one)

SB_FORM_TABLE(forms_compare_half, SB_FLOAT_COMPARISONS(SCALAR, "", "f16", F16, false, kOneF16),
              SB_FLOAT_COMPARISONS(SCALAR, ".ftz", "f16", F16, true, kOneF16),
              SB_FLOAT_COMPARISONS(SCALAR, "", "bf16", BF16, false, kOneBf16),
              SB_FLOAT_COMPARISONS(PACKED, "", "f16x2", F16x2, false, kOneF16),
              SB_FLOAT_COMPARISONS(PACKED, ".ftz", "f16x2", F16x2, true, kOneF16),
              SB_FLOAT_COMPARISONS(PACKED, "", "bf16x2", BF16x2, false, kOneBf16))

}  // namespace stepbench::vm::SB_ISA
