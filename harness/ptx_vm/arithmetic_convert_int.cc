// cvt between integers, and between integers and floats.
#include "harness/ptx_vm/arithmetic_convert.h"

namespace stepbench::vm::SB_ISA {

#define INT(to, To, from, From) row<&integer_to_integer<To, From, false>>("cvt." to "." from)
#define CLAMP(to, To, from, From) row<&integer_to_integer<To, From, true>>("cvt.sat." to "." from)
#define INT_TO_FLOAT_SUFFIXED(suffix, sat, to, To, from, From)                     \
  row<&integer_to_float<To, From, kRn, sat>>("cvt.rn" suffix "." to "." from),     \
      row<&integer_to_float<To, From, kRz, sat>>("cvt.rz" suffix "." to "." from), \
      row<&integer_to_float<To, From, kRm, sat>>("cvt.rm" suffix "." to "." from), \
      row<&integer_to_float<To, From, kRp, sat>>("cvt.rp" suffix "." to "." from)
#define INT_TO_FLOAT(to, To, from, From) \
  INT_TO_FLOAT_SUFFIXED("", false, to, To, from, From), INT_TO_FLOAT_SUFFIXED(".sat", true, to, To, from, From)
// bf16 has neither .sat nor 8-bit integers.
#define INT_TO_BF16(from, From) INT_TO_FLOAT_SUFFIXED("", false, "bf16", BF16, from, From)
#define FLOAT_TO_INT_SUFFIXED(mods, ftz, to, To, from, From)                      \
  row<&float_to_integer<To, From, kRn, ftz>>("cvt.rni" mods "." to "." from),     \
      row<&float_to_integer<To, From, kRz, ftz>>("cvt.rzi" mods "." to "." from), \
      row<&float_to_integer<To, From, kRm, ftz>>("cvt.rmi" mods "." to "." from), \
      row<&float_to_integer<To, From, kRp, ftz>>("cvt.rpi" mods "." to "." from)
// Saturation is what float to integer does anyway.
#define FLOAT_TO_INT(mods, ftz, to, To, from, From) \
  FLOAT_TO_INT_SUFFIXED(mods, ftz, to, To, from, From), FLOAT_TO_INT_SUFFIXED(mods ".sat", ftz, to, To, from, From)
#define FROM_INT(from, From)                                                                                      \
  INT("u8", U8, from, From), INT("s8", S8, from, From), INT("u16", u16, from, From), INT("s16", s16, from, From), \
      INT("u32", u32, from, From), INT("s32", s32, from, From), INT("u64", u64, from, From),                      \
      INT("s64", s64, from, From), INT_TO_FLOAT("f16", F16, from, From), INT_TO_FLOAT("f32", f32, from, From),    \
      INT_TO_FLOAT("f64", f64, from, From)
#define FROM_FLOAT(mods, ftz, from, From)                                                               \
  FLOAT_TO_INT(mods, ftz, "u8", U8, from, From), FLOAT_TO_INT(mods, ftz, "s8", S8, from, From),         \
      FLOAT_TO_INT(mods, ftz, "u16", u16, from, From), FLOAT_TO_INT(mods, ftz, "s16", s16, from, From), \
      FLOAT_TO_INT(mods, ftz, "u32", u32, from, From), FLOAT_TO_INT(mods, ftz, "s32", s32, from, From), \
      FLOAT_TO_INT(mods, ftz, "u64", u64, from, From), FLOAT_TO_INT(mods, ftz, "s64", s64, from, From)
#define FROM_BF16(to, To) FLOAT_TO_INT_SUFFIXED("", false, to, To, "bf16", BF16)

SB_FORM_TABLE(forms_convert_int, FROM_INT("u8", U8), FROM_INT("s8", S8), FROM_INT("u16", u16), FROM_INT("s16", s16),
              FROM_INT("u32", u32), FROM_INT("s32", s32), FROM_INT("u64", u64), FROM_INT("s64", s64),
              // .sat is legal only where the source can leave the destination's range.
              CLAMP("u8", U8, "s8", S8), CLAMP("u8", U8, "u16", u16), CLAMP("u8", U8, "s16", s16),
              CLAMP("u8", U8, "u32", u32), CLAMP("u8", U8, "s32", s32), CLAMP("u8", U8, "u64", u64),
              CLAMP("u8", U8, "s64", s64), CLAMP("s8", S8, "u8", U8), CLAMP("s8", S8, "u16", u16),
              CLAMP("s8", S8, "s16", s16), CLAMP("s8", S8, "u32", u32), CLAMP("s8", S8, "s32", s32),
              CLAMP("s8", S8, "u64", u64), CLAMP("s8", S8, "s64", s64), CLAMP("u16", u16, "s8", S8),
              CLAMP("u16", u16, "s16", s16), CLAMP("u16", u16, "u32", u32), CLAMP("u16", u16, "s32", s32),
              CLAMP("u16", u16, "u64", u64), CLAMP("u16", u16, "s64", s64), CLAMP("s16", s16, "u16", u16),
              CLAMP("s16", s16, "u32", u32), CLAMP("s16", s16, "s32", s32), CLAMP("s16", s16, "u64", u64),
              CLAMP("s16", s16, "s64", s64), CLAMP("u32", u32, "s8", S8), CLAMP("u32", u32, "s16", s16),
              CLAMP("u32", u32, "s32", s32), CLAMP("u32", u32, "u64", u64), CLAMP("u32", u32, "s64", s64),
              CLAMP("s32", s32, "u32", u32), CLAMP("s32", s32, "u64", u64), CLAMP("s32", s32, "s64", s64),
              CLAMP("u64", u64, "s8", S8), CLAMP("u64", u64, "s16", s16), CLAMP("u64", u64, "s32", s32),
              CLAMP("u64", u64, "s64", s64), CLAMP("s64", s64, "u64", u64), INT_TO_BF16("u16", u16),
              INT_TO_BF16("s16", s16), INT_TO_BF16("u32", u32), INT_TO_BF16("s32", s32), INT_TO_BF16("u64", u64),
              INT_TO_BF16("s64", s64), FROM_FLOAT("", false, "f16", F16), FROM_FLOAT("", false, "f32", f32),
              FROM_FLOAT(".ftz", true, "f32", f32), FROM_FLOAT("", false, "f64", f64), FROM_BF16("u16", u16),
              FROM_BF16("s16", s16), FROM_BF16("u32", u32), FROM_BF16("s32", s32), FROM_BF16("u64", u64),
              FROM_BF16("s64", s64),
              // Into .b8 registers, as the CUDA headers do it.
              FLOAT_TO_INT_SUFFIXED("", false, "s8", S8, "bf16", BF16),
              FLOAT_TO_INT_SUFFIXED("", false, "u8", U8, "bf16", BF16))

}  // namespace stepbench::vm::SB_ISA
