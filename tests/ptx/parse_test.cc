// PTX text -> syntax tree: every form of operand and scope, calls, places, and what NVRTC writes.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <set>
#include <sstream>

#include "harness/ptx_vm/ptx.h"
#include "tests/ptx/support.h"

namespace stepbench::ptx {
namespace {

using ptx_test::kernel;
using ptx_test::kHead;
using ptx_test::read_data;

Module parsed(const std::string& text) {
  Result<Module> result = parse(text);
  INFO((result.ok() ? "" : to_text(result.error())));
  REQUIRE(result.ok());
  return std::move(result).value();
}

const Function& function_named(const Module& module, const std::string& name) {
  for (const Function& function : module.functions)
    if (function.name == name) return function;
  FAIL("no function " << name);
  return module.functions.front();
}

const Variable& variable_named(const std::vector<Variable>& variables, const std::string& name) {
  for (const Variable& variable : variables)
    if (variable.name == name) return variable;
  FAIL("no variable " << name);
  return variables.front();
}

std::string hex(uint64_t bits) {
  std::ostringstream text;
  text << std::hex << bits;
  return text.str();
}

/// An operand in a notation of the test's own.
std::string describe(const Function& function, const Operand& operand) {
  const auto reg = [&](int32_t index) { return function.registers.at(static_cast<size_t>(index)).name; };
  const auto list = [&](const std::vector<Operand>& elements) {
    std::string text;
    for (const Operand& element : elements) text.append(text.empty() ? "" : " ").append(describe(function, element));
    return text;
  };
  const std::string sign = operand.negated ? "not " : "";
  switch (operand.kind) {
    case OperandKind::kRegister: return sign + reg(operand.reg);
    case OperandKind::kSpecial: return "special:" + operand.name;
    case OperandKind::kInteger: return "int:" + std::to_string(operand.integer);
    case OperandKind::kFloat: return (operand.float_is_double ? "f64:" : "f32:") + hex(operand.float_bits);
    case OperandKind::kSymbol: return "symbol:" + operand.name + "+" + std::to_string(operand.displacement);
    case OperandKind::kMemory: {
      const std::string base = operand.reg >= 0 ? reg(operand.reg) : operand.name.empty() ? "absolute" : operand.name;
      const std::string parts = list(operand.elements);
      std::string text = "mem(" + base + "+" + std::to_string(operand.displacement);
      if (!parts.empty()) text.append(", ").append(parts);
      return text.append(")");
    }
    case OperandKind::kVector: return std::string("{").append(list(operand.elements)).append("}");
    case OperandKind::kPair: return std::string("pair(").append(list(operand.elements)).append(")");
    case OperandKind::kSink: return "_";
    case OperandKind::kLabel: return "label:" + operand.name;
  }
  return "?";
}

std::string describe(const Function& function, const Instruction& instruction) {
  std::string text;
  if (instruction.predicate >= 0)
    text.append(instruction.predicate_negated ? "@!" : "@")
        .append(function.registers.at(static_cast<size_t>(instruction.predicate)).name)
        .append(" ");
  text += instruction.opcode;
  for (const std::string& modifier : instruction.modifiers) text.append("/").append(modifier);
  for (const Operand& operand : instruction.operands) text.append("; ").append(describe(function, operand));
  return text;
}

struct StatementRow {
  const char* name;
  const char* statement;
  const char* expected;
};

// Values of literals follow from the notation of PTX ISA section 4.5 (IEEE encodings of 1.5, -0.0025, 0.5 by hand).
const StatementRow kStatements[] = {
    {"registers", "add.s32 %r1, %r2, %r3;", "add/s32; %r1; %r2; %r3"},
    {"no operands", "ret;", "ret"},
    {"predicate", "@%p1 mov.b32 %r1, %r2;", "@%p1 mov/b32; %r1; %r2"},
    {"negated predicate", "@!%p1 mov.b32 %r1, %r2;", "@!%p1 mov/b32; %r1; %r2"},
    {"predicate apart", "@ ! %p1\n mov.b32 %r1, %r2;", "@!%p1 mov/b32; %r1; %r2"},
    {"negative integer", "add.s32 %r1, %r2, -1;", "add/s32; %r1; %r2; int:-1"},
    {"hexadecimal", "and.b32 %r1, %r2, 0xFf;", "and/b32; %r1; %r2; int:255"},
    {"octal", "and.b32 %r1, %r2, 017;", "and/b32; %r1; %r2; int:15"},
    {"zero", "and.b32 %r1, %r2, 0;", "and/b32; %r1; %r2; int:0"},
    {"binary", "and.b32 %r1, %r2, 0b101;", "and/b32; %r1; %r2; int:5"},
    {"unsigned suffix", "and.b32 %r1, %r2, 12U;", "and/b32; %r1; %r2; int:12"},
    {"hexadecimal with suffix", "and.b32 %r1, %r2, 0x1FU;", "and/b32; %r1; %r2; int:31"},
    {"most positive", "mov.u64 %rd1, 18446744073709551615;", "mov/u64; %rd1; int:-1"},
    {"most negative", "mov.s64 %rd1, -9223372036854775808;", "mov/s64; %rd1; int:-9223372036854775808"},
    {"constant expression", "add.s32 %r1, %r2, (1+2)*4 - 6/3 % 4 << 1 | 0x100;",
     "add/s32; %r1; %r2; int:276"},  // ((3*4 - 2) << 1) | 256
    {"complement", "and.b32 %r1, %r2, ~15;", "and/b32; %r1; %r2; int:-16"},
    {"double minus", "add.s32 %r1, %r2, - -3;", "add/s32; %r1; %r2; int:3"},
    {"single float", "mov.f32 %f1, 0f3F800000;", "mov/f32; %f1; f32:3f800000"},
    {"double float", "mov.f64 %rd1, 0d3ff0000000000000;", "mov/f64; %rd1; f64:3ff0000000000000"},
    {"decimal float", "mov.f32 %f1, 1.5;", "mov/f32; %f1; f64:3ff8000000000000"},
    {"decimal float with exponent", "mov.f32 %f1, -25.0e-1;", "mov/f32; %f1; f64:c004000000000000"},
    {"decimal float without digits before the point", "mov.f32 %f1, .5;", "mov/f32; %f1; f64:3fe0000000000000"},
    {"special with component", "mov.u32 %r1, %ctaid.y;", "mov/u32; %r1; special:%ctaid.y"},
    {"special alone", "mov.u64 %rd1, %clock64;", "mov/u64; %rd1; special:%clock64"},
    {"numbered special", "mov.u32 %r1, %envreg2;", "mov/u32; %r1; special:%envreg2"},
    {"warp size", "mov.u32 %r1, WARP_SZ;", "mov/u32; %r1; int:32"},
    {"memory", "ld.global.f32 %f1, [%rd1];", "ld/global/f32; %f1; mem(%rd1+0)"},
    {"memory with offset", "ld.global.f32 %f1, [%rd1+16];", "ld/global/f32; %f1; mem(%rd1+16)"},
    {"memory with negative offset", "ld.global.f32 %f1, [%rd1+-16];", "ld/global/f32; %f1; mem(%rd1+-16)"},
    {"memory minus", "ld.global.f32 %f1, [%rd1-0x10];", "ld/global/f32; %f1; mem(%rd1+-16)"},
    {"memory with products", "ld.global.f32 %f1, [%rd1 + 4*4 - 2];", "ld/global/f32; %f1; mem(%rd1+14)"},
    {"memory of a variable", "ld.shared.f32 %f1, [tile+8];", "ld/shared/f32; %f1; mem(tile+8)"},
    {"memory of a parameter", "ld.param.u32 %r1, [k_param_1+20];", "ld/param/u32; %r1; mem(k_param_1+20)"},
    {"absolute memory", "ld.shared.f32 %f1, [32];", "ld/shared/f32; %f1; mem(absolute+32)"},
    {"vector", "ld.global.v4.f32 {%f1, %f2,%f3 ,%f4}, [%rd1];", "ld/global/v4/f32; {%f1 %f2 %f3 %f4}; mem(%rd1+0)"},
    {"vector with sink", "mov.b64 {_, %r1}, %rd1;", "mov/b64; {_ %r1}; %rd1"},
    {"vector of constants", "st.global.v2.u32 [%rd1], {1, %r2};", "st/global/v2/u32; mem(%rd1+0); {int:1 %r2}"},
    {"pair", "shfl.sync.bfly.b32 %r1|%p1, %r2, 16, 31, -1;",
     "shfl/sync/bfly/b32; pair(%r1 %p1); %r2; int:16; int:31; int:-1"},
    {"pair with sink", "setp.lt.s32 _|%p2, %r1, %r2;", "setp/lt/s32; pair(_ %p2); %r1; %r2"},
    {"negated operand", "setp.lt.and.s32 %p1|%p2, %r1, 5, !%p3;",
     "setp/lt/and/s32; pair(%p1 %p2); %r1; int:5; not %p3"},
    {"sink", "atom.global.add.u32 _, [%rd1], 1;", "atom/global/add/u32; _; mem(%rd1+0); int:1"},
    {"address of a variable", "mov.u64 %rd1, tile+4;", "mov/u64; %rd1; symbol:tile+4"},
    {"address of a parameter", "mov.b64 %rd1, k_param_1;", "mov/b64; %rd1; symbol:k_param_1+0"},
    {"address of a function", "mov.u64 %rd1, k;", "mov/u64; %rd1; symbol:k+0"},
    {"modifiers with colons", "ld.global.L1::no_allocate.L2::128B.f32 %f1, [%rd1];",
     "ld/global/L1::no_allocate/L2::128B/f32; %f1; mem(%rd1+0)"},
    {"modifier that starts with a digit",
     "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4];",
     "cp/async/bulk/tensor/2d/shared::cluster/global/mbarrier::complete_tx::bytes; mem(%r1+0); "
     "mem(%rd1+0, {%r2 %r3}); mem(%r4+0)"},
    {"space before modifiers", "mov .u32 %r1, %r2;", "mov/u32; %r1; %r2"},
    {"comments inside", "mov.u32 /* to */ %r1, // from\n %r2;", "mov/u32; %r1; %r2"},
    {"label", "L: bra.uni L;", "bra/uni; label:L"},
    {"label before a statement's end", "bra L; L:", "bra; label:L"},
    {"label named like a register", "%r1: bra %r1;", "bra; label:%r1"},
};

TEST_CASE("statements become instructions") {
  for (const StatementRow& row : kStatements) {
    DYNAMIC_SECTION(row.name) {
      const Module module = parsed(kernel(row.statement));
      const Function& function = function_named(module, "k");
      REQUIRE(function.body.size() == 1);
      CHECK(describe(function, function.body[0]) == row.expected);
    }
  }
}

TEST_CASE("terminators that compilers count are no part of the text") {
  CHECK(parse(kHead + std::string(3, '\0')).ok());
}

TEST_CASE("kernel signature and limits") {
  const Module module =
      parsed(kHead +
             ".visible .entry k(.param .u64 .ptr .global .align 16 a, .param .b64 .ptr b, .param .align 8 .b8 "
             "c[24], .param .v2 .f32 d)\n.maxntid 256, 2\n.minnctapersm 2\n.maxnreg 64\n"
             ".reqntid 128, 2, 1\n.explicitcluster\n.reqnctapercluster 2\n.maxclusterrank 8\n"
             ".pragma \"x\";\n{ ret; }\n.entry bare { ret; }");
  const Function& function = function_named(module, "k");
  CHECK(function.is_entry);
  REQUIRE(function.parameters.size() == 4);
  CHECK(function.parameters[0].bytes == 8);
  CHECK(function.parameters[0].align_bytes == 8);  // .ptr's alignment is that of what it points to
  CHECK(function.parameters[2].bytes == 24);
  CHECK(function.parameters[2].align_bytes == 8);
  CHECK(function.parameters[3].bytes == 8);
  CHECK(function.max_threads == std::array<int32_t, 3>{256, 2, 1});
  CHECK(function.required_threads == std::array<int32_t, 3>{128, 2, 1});
  CHECK(function.required_cluster == std::array<int32_t, 3>{2, 1, 1});
  CHECK(function_named(module, "bare").max_threads == std::array<int32_t, 3>{0, 0, 0});
  CHECK(module.version == "9.0");
  CHECK(module.target == "sm_90a");
}

TEST_CASE("inner scopes have names of their own") {
  const Module module =
      parsed(kernel(".reg .b32 x; .shared .u32 s;\n mov.u32 x, 1;\n"
                    "{ .reg .b32 x; .shared .u32 s; mov.u32 x, 2; bra L; L: ld.shared.u32 x, [s]; }\n"
                    "{ .reg .f32 x; mov.f32 x, 0f00000000; @%p1 bra L; L: { .reg .b32 %r1; mov.u32 %r1, 3; bra L; } }\n"
                    "L: ld.shared.u32 x, [s]; bra L;"));
  const Function& function = function_named(module, "k");
  REQUIRE(function.body.size() == 10);
  const auto reg = [&](size_t at) { return function.body[at].operands[0].reg; };
  CHECK(function.registers[static_cast<size_t>(reg(0))].name == "x");
  CHECK(reg(0) != reg(1));
  CHECK(reg(1) == reg(3));  // the same x inside its scope
  CHECK(reg(1) != reg(4));
  CHECK(reg(0) == reg(8));  // the outer x again
  CHECK(function.registers[static_cast<size_t>(reg(4))].type == "f32");
  CHECK(function.registers[static_cast<size_t>(reg(6))].name != "%r1");
  CHECK(function.body[3].operands[1].name != function.body[8].operands[1].name);
  CHECK(variable_named(function.variables, function.body[3].operands[1].name).bytes == 4);
  // Labels: each goes to the L of its own scope; the innermost block uses its parent's.
  const auto target = [&](size_t at) { return function.labels.at(function.body[at].operands[0].name); };
  CHECK(target(2) == 3);
  CHECK(target(5) == 6);
  CHECK(target(7) == 6);
  CHECK(target(9) == 8);
  CHECK(function.labels.at("L") == 8);
  std::set<std::string> names;
  for (const Register& each : function.registers) CHECK(names.insert(each.name).second);
}

TEST_CASE("a function's variable never has the name of a module's") {
  const Module module = parsed(kHead +
                               ".global .u32 x;\n.entry k() { .reg .u32 %r1;\n st.global.u32 [x], 1;\n"
                               ".shared .u32 x;\n ld.shared.u32 %r1, [x]; ret; }");
  const Function& function = function_named(module, "k");
  CHECK(function.body[0].operands[0].name == "x");
  CHECK(function.body[1].operands[1].name != "x");
  CHECK(function.variables[0].name == function.body[1].operands[1].name);
}

TEST_CASE("a .global in a function lives in the module") {
  const Module module = parsed(kernel(".global .u32 n; st.global.u32 [n], 1;"));
  REQUIRE(module.variables.size() == 1);
  CHECK(module.variables[0].space == Space::kGlobal);
  CHECK(function_named(module, "k").body[0].operands[0].name == module.variables[0].name);
}

TEST_CASE("only used registers enter the table") {
  const Module module = parsed(kernel(".reg .b64 %big<1048576>;\n mov.u64 %big1048575, %rd31; ret;"));
  CHECK(function_named(module, "k").registers.size() == 2);
}

TEST_CASE("branch and call tables") {
  const Module module =
      parsed(kHead +
             ".func h();\n.func (.param .b32 r) f(.param .b32 a) { ret; }\n"
             ".func (.reg .u32 r) g(.reg .u32 a, .reg .u32 b) { add.u32 r, a, b; ret; }\n"
             ".entry k() { .reg .b32 %r<9>; .reg .b64 %rd<2>; .param .b32 p0; .param .b32 q0;\n"
             "T: .branchtargets A, B, A;\n brx.idx %r1, T;\n A: mov.u64 %rd1, f;\n"
             "P: .callprototype (.param .b32 _) _ (.param .b32 _) .noreturn;\n call.uni (q0), %rd1, (p0), P;\n"
             "C: .calltargets f;\n call (q0), %rd1, (p0), C;\n"
             "call (%r2), g, (%r3, 4);\n call.uni\n(q0)\n,\nf\n,\n(\np0\n)\n;\n call h;\n B: ret; }\n");
  const Function& function = function_named(module, "k");
  REQUIRE(function.body.size() == 8);
  CHECK(function.branch_targets.at("T") == std::vector<std::string>{"A", "B", "A"});
  CHECK(function.labels.at("A") == 1);
  CHECK(function.labels.at("B") == 7);
  CHECK(describe(function, function.body[0]) == "brx/idx; %r1; label:T");
  CHECK(function.call_targets.at("C") == std::vector<std::string>{"f"});
  struct CallRow {
    size_t at;
    const char *call, *returns, *arguments;
  };
  const CallRow rows[] = {{2, "call/uni; %rd1; label:P", "symbol:q0+0 ", "symbol:p0+0 "},
                          {3, "call; %rd1; label:C", "symbol:q0+0 ", "symbol:p0+0 "},
                          {4, "call; symbol:g+0", "%r2 ", "%r3 int:4 "},
                          {5, "call/uni; symbol:f+0", "symbol:q0+0 ", "symbol:p0+0 "},
                          {6, "call; symbol:h+0", "", ""}};
  for (const CallRow& row : rows) {
    INFO("instruction " << row.at);
    const Instruction& call = function.body[row.at];
    std::string returns, arguments;
    for (const Operand& each : call.call_returns) returns += describe(function, each) + " ";
    for (const Operand& each : call.call_arguments) arguments += describe(function, each) + " ";
    CHECK(describe(function, call) == row.call);
    CHECK(returns == row.returns);
    CHECK(arguments == row.arguments);
  }
  CHECK(function.body[5].text == "call.uni (q0) , f , ( p0 )");
  CHECK(function_named(module, "h").is_declaration);
  const Function& old_style = function_named(module, "g");
  CHECK(old_style.parameters[1].space == Space::kReg);
  CHECK(describe(old_style, old_style.body[0]) == "add/u32; r; a; b");
}

TEST_CASE("an alias is its target") {
  const Module module = parsed(kHead + ".func g();\n.func f() { ret; }\n.alias g, f;\n.entry k() { call g; ret; }");
  CHECK(module.functions.size() == 2);
  CHECK(function_named(module, "k").body[0].operands[0].name == "f");
}

struct LocRow {
  const char* name;
  const char* directives;
  std::array<int32_t, 4> place;  // file, source_line, author_file, author_line
};

const LocRow kLocs[] = {
    {"none", "", {0, 0, 0, 0}},
    {"plain", ".loc 1 10 3", {1, 10, 1, 10}},
    {"line 0 is the compiler's own code", ".loc 1 10 3\n.loc 1 0 3", {1, 0, 1, 10}},
    {"the last one counts", ".loc 1 10 3\n.loc 1 12 0", {1, 12, 1, 12}},
    {"inlined from a header", ".loc 1 10 3\n.loc 2 261 5, function_name $L__i0, inlined_at 1 10 3", {2, 261, 1, 10}},
    {"inlined from the same file", ".loc 1 10 3\n.loc 1 4 5, function_name $L__i0, inlined_at 1 10 3", {1, 4, 1, 4}},
    {"two levels of headers",
     ".loc 1 10 3\n.loc 2 261 5, function_name $L__i0, inlined_at 1 10 3\n"
     ".loc 3 92 9, function_name $L__i1+7, inlined_at 2 261 5",
     {3, 92, 1, 10}},
    {"header called by a function of the file",
     ".loc 1 10 3\n.loc 1 4 5, function_name $L__i0, inlined_at 1 10 3\n"
     ".loc 2 92 9, function_name $L__i1, inlined_at 1 4 5",
     {2, 92, 1, 4}},
    {"inlined into itself", ".loc 1 10 3, function_name $L__i0, inlined_at 1 10 3", {1, 10, 1, 10}},
};

TEST_CASE("places follow .loc") {
  for (const LocRow& row : kLocs) {
    DYNAMIC_SECTION(row.name) {
      const std::string text = kernel(std::string(row.directives) + "\nret;");
      const Module module = parsed(text);
      const Place& place = function_named(module, "k").body[0].place;
      const auto lines =
          static_cast<int32_t>(std::count(row.directives, row.directives + std::strlen(row.directives), '\n'));
      CHECK(place.ptx_line == 8 + lines);
      CHECK(std::array<int32_t, 4>{place.file, place.source_line, place.author_file, place.author_line} == row.place);
    }
  }
}

TEST_CASE("what stands before the first .loc has its line") {
  const Module module = parsed(kernel("mov.u32 %r1, 0;\n.loc 1 10 3\n.loc 1 12 3\nret;"));
  const Function& function = function_named(module, "k");
  CHECK(function.place.author_line == 10);
  CHECK(function.place.ptx_line == 5);
  CHECK(function.body[0].place.author_line == 10);
  CHECK(function.body[0].place.ptx_line == 7);
  CHECK(function.body[1].place.author_line == 12);
}

TEST_CASE("debug sections and file names are no code") {
  const Module module = parsed(kernel("ret;") +
                               ".file 1 \"a.cu\", 123, 456\n.file 2 \"b\\\"c.h\"\n"
                               ".section .debug_str\n{\n$L__info_string0:\n.b8 95,90\n.b32 .debug_line+12\n{ }\n}\n"
                               ".section .debug_macinfo { }\n");
  CHECK(module.files.at(1) == "a.cu");
  CHECK(module.files.at(2) == "b\\\"c.h");
  CHECK(module.functions.size() == 1);
}

// ------------------------------------------------------------------------------------------ what compilers write

struct FileRow {
  const char* file;
  size_t entries;
  std::vector<std::string> variables;  // all of the module, in any order; mangled parts as given by the compiler
};

const FileRow kFiles[] = {
    {"state.sm_90a.ptx", 4, {"calls", "history", "kLevels", "kScale", "kRows", "step"}},
    {"state.sm_100.ptx", 4, {"calls", "history", "kLevels", "kScale", "kRows", "step"}},
    {"calls.sm_90a.ptx", 1, {"kOps"}},
    {"calls.sm_100.ptx", 1, {"kOps"}},
    {"inline_asm.sm_90a.ptx", 2, {}},
    {"inline_asm.sm_100.ptx", 2, {}},
    {"types.sm_90a.ptx", 3, {"dynamic_tile"}},
    {"types.sm_100.ptx", 3, {"dynamic_tile"}},
};

TEST_CASE("NVRTC's texts parse whole") {
  for (const FileRow& row : kFiles) {
    DYNAMIC_SECTION(row.file) {
      const std::string text = read_data(row.file);
      REQUIRE_FALSE(text.empty());
      const Module module = parsed(text);
      size_t entries = 0, instructions = 0;
      for (const Function& function : module.functions) {
        entries += function.is_entry ? 1 : 0;
        instructions += function.body.size();
        for (const Instruction& instruction : function.body) {
          CHECK(instruction.place.author_line > 0);
          CHECK_FALSE(instruction.text.empty());
        }
      }
      CHECK(entries == row.entries);
      CHECK(module.variables.size() == row.variables.size());
      for (const std::string& name : row.variables)
        CHECK(std::any_of(module.variables.begin(), module.variables.end(),
                          [&](const Variable& v) { return v.name.find(name) != std::string::npos; }));
      // Independent count: statements end in ';', directives and declarations start with '.'.
      std::istringstream lines(text);
      size_t statements = 0;
      int depth = 0;
      for (std::string line; std::getline(lines, line);) {
        line = line.substr(0, line.find("//"));
        const bool in_body = depth > 0 || line.compare(0, 1, "{") == 0;
        depth +=
            static_cast<int>(std::count(line.begin(), line.end(), '{') - std::count(line.begin(), line.end(), '}'));
        if (!in_body) continue;
        for (size_t at = 0; at < line.size();) {
          const size_t end = std::min(line.find(';', at), line.size());
          const size_t first = line.find_first_not_of(" \t{}", at);
          if (end < line.size() && first < end && line[first] != '.' &&
              line.find(".callprototype") == std::string::npos && line.find(".branchtargets") == std::string::npos)
            ++statements;
          at = end + 1;
        }
      }
      CHECK(instructions == statements);
    }
  }
}

TEST_CASE("source lines of NVRTC's texts") {
  for (const char* file : {"state.sm_90a.ptx", "state.sm_100.ptx"}) {
    DYNAMIC_SECTION(file) {
      const Module module = parsed(read_data(file));
      for (const Instruction& instruction : function_named(module, "counts_calls").body)
        if (instruction.opcode == "atom") CHECK(instruction.place.author_line == 10);  // atomicAdd in state.cu
      CHECK(function_named(module, "keeps_history").place.author_line == 14);
    }
  }
  for (const char* file : {"inline_asm.sm_90a.ptx", "inline_asm.sm_100.ptx"}) {
    DYNAMIC_SECTION(file) {
      const Module module = parsed(read_data(file));
      const Function& function = function_named(module, "tensor_copy");
      CHECK(function.required_cluster == std::array<int32_t, 3>{2, 1, 1});
      CHECK(function.max_threads == std::array<int32_t, 3>{128, 1, 1});
      // The wait loop was unrolled twice: two labels RETRY, each the target of its own branch.
      std::set<int32_t> targets;
      size_t waits = 0;
      for (size_t i = 0; i < function.body.size(); ++i) {
        waits += function.body[i].opcode == "mbarrier" && function.body[i].modifiers[0] == "try_wait" ? 1 : 0;
        if (function.body[i].opcode == "bra" && function.body[i].operands[0].name.find("RETRY") == 0) {
          const int32_t target = function.labels.at(function.body[i].operands[0].name);
          CHECK(function.body[static_cast<size_t>(target)].opcode == "mbarrier");
          targets.insert(target);
        }
      }
      CHECK(waits == 2);
      CHECK(targets.size() == 2);
    }
  }
}

TEST_CASE("a megabyte parses in well under a second") {
  std::string body;
  while (body.size() < (1u << 20))
    body +=
        "\t.loc\t1 7 3\n\tld.global.v4.f32 \t{%f1, %f2, %f3, %f4}, [%rd1+16];\n\tfma.rn.f32 \t%f5, %f1, 0f3F800000, "
        "%f2;\n"
        "\t@%p1 bra \t$L__BB0_1;\n";
  const std::string text = kernel(body + "$L__BB0_1: ret;");
  const auto start = std::chrono::steady_clock::now();
  CHECK(parse(text).ok());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__)
  CHECK(seconds < 1.0);
#else
  CHECK(seconds < 20.0);
#endif
}

}  // namespace
}  // namespace stepbench::ptx
