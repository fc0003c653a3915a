// Lane-wise instructions of the VM: arithmetic, logic, comparison, selection, conversion, transcendental functions.
// Anything that touches memory, control flow or other lanes is in decode.cc / execute.cc.
//
// What the decoder owes a form
// - Sources a, b, c, e are the operands in PTX order after the destination; the predicate of selp, the third
//   predicate of setp/set and the table of lop3 count as sources (lop3's table is an immediate slot like any other).
// - A negated predicate source (`!p`) is materialised first (not.pred into a temporary).
// - setp p|q: d and d2. A sink `_` gets a scratch slot.
// - mov with a vector source packs it: a, b, c, e are the elements. mov with a vector destination unpacks: two elements
//   go to d, d2 (destinations == 2), four to v[0..3] (destinations == 4, all of destination_bytes[0]).
// - mov of an address or special register is a plain mov of a slot that holds the value.
// - 8-bit types use 2-byte slots; what lies above the low 8 bits of a source is ignored, a destination is zero- or
//   sign-extended to its slot.
// - Immediates: a source with source_float takes a float literal converted to its width; f16 and bf16 have no float
//   literals in PTX. Integer literals are taken modulo the width.
// - A destination slot may be a source's slot. It may also overlap sources of another element size.
// - MXCSR is expected to be the default (round to nearest, no flushing); handlers restore it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/ptx_vm/lanes.h"
#include "harness/ptx_vm/ptx.h"

namespace stepbench::vm {

/// The handlers for `instruction` (opcode and modifiers only; operands are not looked at, except that their number
/// and kind may tell two forms apart, as in setp with two destinations). Empty when the opcode is not lane-wise
/// or the form is not implemented: the caller then reports `unsupported` with the PTX line.
/// The best instruction-set level of this CPU is chosen once; all levels give identical bits.
std::optional<ArithmeticForm> select_arithmetic(const ptx::Instruction& instruction);

/// Name of the instruction-set level in use: "x86-64-v3" or "x86-64-v2". The environment variable
/// STEPBENCH_VM_ISA=v2 forces the lower one (tests compare the two).
const char* arithmetic_level();

// For tests and tools.
//
// Names of forms: opcode and modifiers as PTX spells them ("fma.rn.ftz.f32"), then after a blank what the operands say:
// "setp.lt.f32 d|p", "mov.b64 pack2", "mov.b32 unpack4", "min.f32 3" (three sources).

/// Names of all forms, the same for every level, each once.
std::vector<std::string_view> arithmetic_forms();

/// Whether this CPU can run the handlers of "x86-64-v2" or "x86-64-v3".
bool arithmetic_level_available(std::string_view level);

/// The form `name` at a given level; empty when there is no such form or level.
std::optional<ArithmeticForm> arithmetic_form(std::string_view name, std::string_view level);

/// The name under which select_arithmetic looks `instruction` up.
std::string arithmetic_form_name(const ptx::Instruction& instruction);

}  // namespace stepbench::vm
