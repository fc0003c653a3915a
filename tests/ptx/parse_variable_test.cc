// Module-scope variables: sizes, alignments, initial bytes and the addresses in them.
#include <catch2/catch.hpp>

#include "harness/ptx_vm/ptx.h"
#include "tests/ptx/support.h"

namespace stepbench::ptx {
namespace {

using ptx_test::kHead;

Module parsed(const std::string& text) {
  Result<Module> result = parse(text);
  INFO((result.ok() ? "" : to_text(result.error())));
  REQUIRE(result.ok());
  return std::move(result).value();
}

const Variable& variable_named(const std::vector<Variable>& variables, const std::string& name) {
  for (const Variable& variable : variables)
    if (variable.name == name) return variable;
  FAIL("no variable " << name);
  return variables.front();
}

struct VariableRow {
  const char* name;
  const char* declarations;
  const char* variable;
  uint64_t bytes;
  uint32_t align_bytes;
  const char* initial;  // hex
};

// Encodings: 1.0f 3f800000, 2.5f 40200000, 1.0 3ff0000000000000, -1 all ones, little endian.
const VariableRow kVariables[] = {
    {"scalar", ".global .u32 v;", "v", 4, 4, ""},
    {"aligned", ".global .align 16 .u32 v;", "v", 4, 16, ""},
    {"align after type", ".global .u32 .align 16 v;", "v", 4, 16, ""},
    {"linkage", ".visible .global .f64 v;", "v", 8, 8, ""},
    {"common", ".common .global .u32 v;", "v", 4, 4, ""},
    {"array", ".global .align 4 .b8 v[12];", "v", 12, 4, ""},
    {"several dimensions", ".shared .f32 v[3][4][5];", "v", 240, 4, ""},
    {"huge array is only a size", ".global .b8 v[1099511627776];", "v", 1ull << 40, 1, ""},
    {"unsized extern", ".extern .shared .align 16 .b8 v[];", "v", 0, 16, ""},
    {"vector type", ".global .v4 .f32 v;", "v", 16, 16, ""},
    {"vectors in an array", ".global .v2 .u16 v[3] = {{1, 2}, {3}};", "v", 12, 4, "010002000300000000000000"},
    {"list of names", ".global .u32 a, v[2], b;", "v", 8, 4, ""},
    {"attribute", ".global .attribute(.managed) .u32 v;", "v", 4, 4, ""},
    {"integer", ".global .u32 v = 258;", "v", 4, 4, "02010000"},
    {"negative", ".global .s16 v = -1;", "v", 2, 2, "ffff"},
    {"single", ".const .f32 v = 0f3F800000;", "v", 4, 4, "0000803f"},
    {"decimal single", ".const .f32 v = 2.5;", "v", 4, 4, "00002040"},
    {"double", ".const .f64 v = 0d3FF0000000000000;", "v", 8, 8, "000000000000f03f"},
    {"single for a double", ".const .f64 v = 0f3F800000;", "v", 8, 8, "000000000000f03f"},
    {"short list is padded", ".global .b8 v[5] = {1, 2, 0x33};", "v", 5, 1, "0102330000"},
    {"rows short of values", ".global .u8 v[2][3] = {{1}, {4, 5, 6}};", "v", 6, 1, "010000040506"},
    {"open first dimension", ".global .u8 v[] = {7, 8, 9};", "v", 3, 1, "070809"},
    {"open first of two", ".global .s8 v[][2] = {{-1, 0}, {0, -1}, {1}};", "v", 6, 1, "ff0000ff0100"},
    {"128 bits", ".global .b128 v = 1;", "v", 16, 16, "01000000000000000000000000000000"},
    {"extern, then defined", ".extern .global .u32 v;\n.visible .global .u32 v = 1;", "v", 4, 4, "01000000"},
    {"defined, then extern", ".global .u32 v = 1;\n.extern .global .u32 v;", "v", 4, 4, "01000000"},
};

TEST_CASE("module variables") {
  for (const VariableRow& row : kVariables) {
    DYNAMIC_SECTION(row.name) {
      const Module module = parsed(kHead + row.declarations);
      const Variable& variable = variable_named(module.variables, row.variable);
      CHECK(variable.bytes == row.bytes);
      CHECK(variable.align_bytes == row.align_bytes);
      std::string initial;
      for (const uint8_t byte : variable.initial)
        initial += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
      CHECK(initial == row.initial);
    }
  }
}

TEST_CASE("addresses in initialisers") {
  const Module module = parsed(kHead +
                               ".global .b8 a[64];\n.func f() { ret; }\n"
                               ".global .u64 v[5] = {a, generic(a)+8, 7, f, a+-4};");
  const Variable& variable = variable_named(module.variables, "v");
  REQUIRE(variable.initial.size() == 40);
  CHECK(variable.initial[16] == 7);
  REQUIRE(variable.addresses.size() == 4);
  const InitializerAddress expected[] = {{0, "a", 0}, {8, "a", 8}, {24, "f", 0}, {32, "a", -4}};
  for (size_t i = 0; i < 4; ++i) {
    CHECK(variable.addresses[i].offset_bytes == expected[i].offset_bytes);
    CHECK(variable.addresses[i].symbol == expected[i].symbol);
    CHECK(variable.addresses[i].addend == expected[i].addend);
  }
}

}  // namespace
}  // namespace stepbench::ptx
