// setp and set on integers.
#include "harness/ptx_vm/arithmetic_compare.h"

namespace stepbench::vm::SB_ISA {

#define BOTH(cmp, type, ...) SB_SETP(cmp, "", type, __VA_ARGS__), SB_SET(cmp, "", type, __VA_ARGS__)
#define EQUALITY(type, T) BOTH("eq", type, compare<kEq, T>), BOTH("ne", type, compare<kNe, T>)
#define ORDER(type, T)                                                                                     \
  BOTH("lt", type, compare<kLt, T>), BOTH("le", type, compare<kLe, T>), BOTH("gt", type, compare<kGt, T>), \
      BOTH("ge", type, compare<kGe, T>)
// lo, ls, hi, hs: other names of the unsigned comparisons.
#define UNSIGNED_ORDER(type, T)                                                         \
  ORDER(type, T), BOTH("lo", type, compare<kLt, T>), BOTH("ls", type, compare<kLe, T>), \
      BOTH("hi", type, compare<kGt, T>), BOTH("hs", type, compare<kGe, T>)

SB_FORM_TABLE(forms_compare_int, EQUALITY("b16", u16), EQUALITY("u16", u16), EQUALITY("s16", s16), EQUALITY("b32", u32),
              EQUALITY("u32", u32), EQUALITY("s32", s32), EQUALITY("b64", u64), EQUALITY("u64", u64),
              EQUALITY("s64", s64), UNSIGNED_ORDER("u16", u16), UNSIGNED_ORDER("u32", u32), UNSIGNED_ORDER("u64", u64),
              ORDER("s16", s16), ORDER("s32", s32), ORDER("s64", s64))

}  // namespace stepbench::vm::SB_ISA
