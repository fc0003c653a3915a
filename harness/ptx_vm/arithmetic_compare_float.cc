// setp and set on f32 and f64.
#include "harness/ptx_vm/arithmetic_compare.h"

namespace stepbench::vm::SB_ISA {
namespace {

template <Comparison Op, class T, bool Ftz>
SB_LANE u32 compare_float(T a, T b) {
  return compare<Op>(source<Ftz>(a), source<Ftz>(b));
}

}  // namespace

#define BOTH(cmp, op, mods, type, T, ftz) \
  SB_SETP(cmp, mods, type, compare_float<op, T, ftz>), SB_SET(cmp, mods, type, compare_float<op, T, ftz>)

SB_FORM_TABLE(forms_compare_float, SB_FLOAT_COMPARISONS(BOTH, "", "f32", f32, false),
              SB_FLOAT_COMPARISONS(BOTH, ".ftz", "f32", f32, true), SB_FLOAT_COMPARISONS(BOTH, "", "f64", f64, false))

}  // namespace stepbench::vm::SB_ISA
