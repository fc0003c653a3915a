// Texts that are no PTX, or beyond the parser's limits: where and in which words they are refused.
#include <catch2/catch.hpp>

#include "harness/ptx_vm/ptx.h"
#include "tests/ptx/support.h"

namespace stepbench::ptx {
namespace {

using ptx_test::kernel;
using ptx_test::kHead;

struct ErrorRow {
  const char* name;
  std::string text;
  const char* place;
  const char* words;  // somewhere in the error's text
};

std::string repeated(const std::string& part, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += part;
  return text;
}

const ErrorRow kErrors[] = {
    {"empty", "", "line 1", "expected .version, found end of text"},
    {"no target", ".version 9.0\n", "line 2", "expected .target"},
    {"target before version", ".target sm_90a\n", "line 1", "expected .version, found '.target'"},
    {"no PTX", "int main() {}", "line 1", "expected a directive, found 'int'"},
    {"control character", kHead + "\x01", "line 4", "a character that PTX does not use (found '?')"},
    {"NUL inside", kHead + std::string("\0.entry", 7), "line 4", "a character that PTX does not use"},
    {"comment open", kHead + "/* never", "line 4", "a comment is not closed"},
    {"string open", kHead + ".file 1 \"x\n", "line 4", "a string is not closed"},
    {"32-bit addresses", ".version 9.0\n.target sm_90a\n.address_size 32\n", "line 3", "64-bit addresses"},
    {"module rubbish", kHead + "mov.u32 %r1, 1;", "line 4", "expected a directive, found 'mov'"},
    {"unknown directive", kHead + ".entrance k() {}", "line 4", "expected a module directive, found '.entrance'"},
    {"texture", kHead + ".global .texref t;", "line 4", "expected a type, found '.texref'"},
    {"body open", kHead + ".entry k() {\n ret;\n", "line 6", "expected a statement or '}', found end of text"},
    {"semicolon missing", kernel("add.s32 %r1, %r2, %r3\nret;"), "line 8", "expected ',' or ';', found 'ret'"},
    {"operand missing", kernel("add.s32 %r1, , %r3;"), "line 7", "expected an operand, found ','"},
    {"register unknown", kernel("add.s32 %r1, %r2, %x3;"), "line 7", "register '%x3' is not declared"},
    {"register outside its range", kernel("add.s32 %r1, %r2, %r32;"), "line 7", "register '%r32' is not declared"},
    {"register with a leading zero", kernel("add.s32 %r1, %r2, %r01;"), "line 7", "register '%r01' is not declared"},
    {"name unknown", kernel("ld.shared.u32 %r1, [nothing];"), "line 7", "'nothing' is not declared"},
    {"predicate unknown", kernel("@%q bra L; L: ret;"), "line 7", "register '%q' is not declared"},
    {"label unknown", kernel("ret;\nbra NOWHERE;"), "line 8", "'NOWHERE' is neither declared nor a label"},
    {"label of an inner scope", kernel("bra L; { L: ret; }"), "line 7", "'L' is neither declared nor a label"},
    {"label twice", kernel("L: ret; L: ret;"), "line 7", "label 'L' is defined twice"},
    {"register twice", kernel(".reg .b32 a;\n.reg .b32 a;"), "line 8", "'a' is declared twice"},
    {"register of a range twice", kernel(".reg .b32 %r3;"), "line 7", "'%r3' is declared twice"},
    {"range twice", kernel(".reg .b32 %r<3>;"), "line 7", "'%r'<> is declared twice"},
    {"variable twice", kHead + ".global .u32 a;\n.global .u32 a;", "line 5", "'a' is declared twice"},
    {"function twice", kHead + ".func f() { ret; }\n.func f() { ret; }", "line 5", "'f' is defined twice"},
    {"function named like a variable", kHead + ".global .u32 f;\n.func f() { ret; }", "line 5",
     "'f' is declared twice"},
    {"range too large", kernel(".reg .b32 %q<4000000000>;"), "line 7", "above the limit of 1048576"},
    {"range beyond 64 bits", kernel(".reg .b32 %q<99999999999999999999999>;"), "line 7", "at most 64 bits"},
    {"range negative", kernel(".reg .b32 %q<-1>;"), "line 7", "expected a number of registers, found '-'"},
    {"vector register", kernel(".reg .v4 .f32 v;"), "line 7", "vector registers are not supported"},
    {"array too large", kHead + ".global .b8 a[1099511627777];", "line 4", "above the limit of 1 TiB"},
    {"array product overflows", kHead + ".global .b8 a[4294967296][4294967296][4294967296];", "line 4", "1 TiB"},
    {"array size negative", kHead + ".global .b8 a[-1];", "line 4", "an array's size is not a count"},
    {"alignment odd", kHead + ".global .align 3 .b8 a[4];", "line 4", "not a power of two"},
    {"initialiser too long", kHead + ".global .u32 a[2] = {1, 2, 3};", "line 4", "longer than its variable"},
    {"initialised variable too large", kHead + ".global .b8 a[4000000000] = {1};", "line 4", "16 MiB"},
    {"open array too large", kHead + ".global .b8 a[][1099511627776] = {{}};", "line 4", "16 MiB"},
    {"initialiser flat", kHead + ".global .u32 a[2][2] = {1, 2, 3, 4};", "line 4", "expected '{', found '1'"},
    {"initialiser too deep", kHead + ".global .u32 a[2] = {{1}};", "line 4", "expected a value, found '{'"},
    {"initialiser trailing comma", kHead + ".global .u32 a[2] = {1,};", "line 4", "expected a value, found '}'"},
    {"initialiser mask", kHead + ".global .u32 b;\n.global .u8 a[2] = {0xff(b), 1};", "line 5", "mask operator"},
    {"initialiser symbol unknown", kHead + ".global .u64 a = b;", "line 4", "'b' is not declared"},
    {"initialiser address narrow", kHead + ".global .u32 b;\n.global .u32 a = b;", "line 5", "narrower than 64 bits"},
    {"initialiser of shared", kHead + ".shared .u32 a = 1;", "line 4", "expected ',' or ';', found '='"},
    {"float digits", kernel("mov.f32 %f1, 0f3F80;"), "line 7", "0f takes 8 and 0d takes 16"},
    {"integer beyond 64 bits", kernel("mov.u64 %rd1, 18446744073709551616;"), "line 7", "at most 64 bits"},
    {"octal digit", kernel("mov.u32 %r1, 08;"), "line 7", "not a number"},
    {"number runs into name", kernel("mov.u32 %r1, 12abc;"), "line 7", "not a number"},
    {"division by zero", kernel("mov.u32 %r1, 1/0;"), "line 7", "divided by zero"},
    {"float arithmetic", kernel("mov.f32 %f1, 1.0+1.0;"), "line 7", "arithmetic on floating point constants"},
    {"vector in vector", kernel("mov.b64 {{%r1}, %r2}, %rd1;"), "line 7", "expected a register or constant"},
    {"memory in memory", kernel("ld.global.u32 %r1, [[%rd1]];"), "line 7", "expected a constant, found '['"},
    {"memory plus register", kernel("ld.global.u32 %r1, [%rd1+%r2];"), "line 7", "expected a constant, found '%r2'"},
    {"call of a variable", kernel("call tile;"), "line 7", "'tile' is called but is no function"},
    {"call of nothing", kernel("call nowhere, (%r1);"), "line 7", "'nowhere' is not declared"},
    {"two predicates", kernel("@%p1 @%p2 ret;"), "line 7", "expected an opcode, found '@'"},
    {"scopes too deep", kernel(repeated("{", 1000)), "line 7", "scopes are nested too deeply"},
    {"parentheses too deep", kernel("mov.u32 %r1, " + repeated("(", 100000)), "line 7", "nested too deeply"},
    {"signs too many", kernel("mov.u32 %r1, " + repeated("- ", 100000)), "line 7", "nested too deeply"},
    {"vector too long", kernel("mov.b64 {" + repeated("%r1, ", 1000) + "%r1}, %rd1;"), "line 7", "too long"},
    {"operands too many", kernel("add " + repeated("%r1, ", 1000) + "%r1;"), "line 7", "too many operands"},
    {"modifiers too many", kernel("add" + repeated(".s32", 1000) + " %r1;"), "line 7", "too many modifiers"},
    {"dimensions too many", kHead + ".global .b8 a" + repeated("[1]", 1000) + ";", "line 4", "too many dimensions"},
    {"section open", kHead + ".section .debug_str { .b8 1", "line 4", "expected a closing bracket"},
    {"loc attribute", kernel(".loc 1 2 3, outlined_at 1 2 3"), "line 7", "attribute of .loc"},
    {"extern with a body", kHead + ".extern .func f() { ret; }", "line 4", "expected ';' after an extern function"},
    {"alias of nothing", kHead + ".func f() { ret; }\n.alias g, f;", "line 5", "function 'g' is not declared"},
};

TEST_CASE("refused texts name line, expectation and finding") {
  for (const ErrorRow& row : kErrors) {
    DYNAMIC_SECTION(row.name) {
      const Result<Module> result = parse(row.text);
      REQUIRE_FALSE(result.ok());
      CHECK(result.error().code == ErrorCode::kInvalidInput);
      CHECK(result.error().place == row.place);
      CHECK_THAT(to_text(result.error()), Catch::Contains(row.words));
    }
  }
}

TEST_CASE("text of the length limit is read, longer text is not") {
  std::string text = kHead;
  text.resize(64u << 20, '\n');
  CHECK(parse(text).ok());
  text += '\n';
  const Result<Module> result = parse(text);
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().expected == "at most 64 MiB");
}

}  // namespace
}  // namespace stepbench::ptx
