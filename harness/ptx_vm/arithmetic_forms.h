// The tables of arithmetic forms that each instruction-set level offers, as plain data: arithmetic.cc reads both
// levels' tables, arithmetic_*.cc fill them. Free of the standard library's templates, see lanes.h.
#pragma once

#include <cstddef>

#include "harness/ptx_vm/lanes.h"

namespace stepbench::vm {

struct FormRow {
  const char* name;  ///< see arithmetic.h, "Names of forms"
  ArithmeticForm form;
};

struct FormTable {
  const FormRow* rows;
  std::size_t count;
};

namespace isa_v2 {
FormTable forms_approx();
FormTable forms_bits();
FormTable forms_compare_float();
FormTable forms_compare_half();
FormTable forms_compare_int();
FormTable forms_convert_float();
FormTable forms_convert_int();
FormTable forms_f32();
FormTable forms_f64();
FormTable forms_half();
FormTable forms_integer();
FormTable forms_move();
}  // namespace isa_v2

namespace isa_v3 {
FormTable forms_approx();
FormTable forms_bits();
FormTable forms_compare_float();
FormTable forms_compare_half();
FormTable forms_compare_int();
FormTable forms_convert_float();
FormTable forms_convert_int();
FormTable forms_f32();
FormTable forms_f64();
FormTable forms_half();
FormTable forms_integer();
FormTable forms_move();
}  // namespace isa_v3

}  // namespace stepbench::vm
