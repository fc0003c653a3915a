// Known pairs, exhaustive sweeps over the 16-bit formats, the software fma, look-up by instruction.
#include <catch2/catch.hpp>
#include <cfenv>
#include <random>

#include "harness/ptx_vm/arithmetic.h"
#include "tests/arithmetic/evaluate.h"
#include "tests/arithmetic/lane_runner.h"

namespace stepbench::vm {
namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr uint32_t kStride = 61;  // prime, so that a sweep still meets every low bit pattern
#else
constexpr uint32_t kStride = 1;
#endif

std::vector<const char*> levels() {
  std::vector<const char*> names{"x86-64-v2"};
  if (arithmetic_level_available("x86-64-v3")) names.push_back("x86-64-v3");
  return names;
}

uint64_t one_lane(const char* name, const char* level, std::initializer_list<uint64_t> sources) {
  const auto form = arithmetic_form(name, level);
  REQUIRE(form);
  LaneInputs inputs{};
  for (int i = 0; i < kLanes; ++i) {
    int s = 0;
    for (const uint64_t x : sources) inputs.source[i][s++] = x;
    inputs.active[i] = true;
  }
  return run_lanes(*form, inputs, Variant::kFull).destination[7][0];
}

TEST_CASE("known pairs") {
  struct Row {
    const char* name;
    const char* form;
    std::initializer_list<uint64_t> in;
    uint64_t expected;
  };
  const Row rows[] = {
      {"double rounding trap: (1 + 2^-12)^2 + 2^-60", "fma.rn.f32", {0x3f800800, 0x3f800800, 0x21800000}, 0x3f801001},
      {"its control: + 0 is a tie to even", "fma.rn.f32", {0x3f800800, 0x3f800800, 0}, 0x3f801000},
      {"fma keeps the product exact",
       "fma.rn.f64",
       {0x3ff0000000000001, 0x3ff0000000000001, 0xbff0000000000002},
       0x3970000000000000},
      {"NaN is canonical", "add.f32", {0x7f800001, 0x3f800000}, 0x7fffffff},
      {"inf - inf", "sub.f32", {0x7f800000, 0x7f800000}, 0x7fffffff},
      {"NaN of f64", "sqrt.rn.f64", {0xbff0000000000000}, 0x7fffffffffffffff},
      {"NaN of f16", "add.f16", {0x7c00, 0xfc00}, 0x7fff},
      {"the number wins", "min.f32", {0x7fc00000, 0x40000000}, 0x40000000},
      {"NaN wins", "min.NaN.f32", {0x7fc00000, 0x40000000}, 0x7fffffff},
      {"-0 < +0", "max.f32", {0x80000000, 0x00000000}, 0},
      {"-0 < +0", "min.f32", {0x00000000, 0x80000000}, 0x80000000},
      {"subnormals are kept", "mul.f32", {0x00800000, 0x3f000000}, 0x00400000},
      {".ftz flushes", "mul.ftz.f32", {0x00800000, 0xbf000000}, 0x80000000},
      {".ftz flushes what rounds up to 2^-126 from the last place below", "mul.ftz.f32", {0x3f7fffff, 0x00800000}, 0},
      {".ftz keeps what rounds up to 2^-126 from nearer", "mul.ftz.f32", {0x20000001, 0x1ffffffe}, 0x00800000},
      {"NaN to s32", "cvt.rzi.s32.f32", {0x7fc00000}, 0},
      {"NaN to s64", "cvt.rzi.s64.f32", {0x7fc00000}, 0x8000000000000000},
      {"NaN of f64 to u32", "cvt.rzi.u32.f64", {0x7ff8000000000000}, 0x80000000},
      {"saturation", "cvt.rzi.s32.f32", {0x4f000000}, 0x7fffffff},
      {"saturation", "cvt.rzi.u8.f32", {0x43800000}, 0xff},
      {"negative to unsigned", "cvt.rzi.u32.f32", {0xbf800000}, 0},
      {"shift by the width", "shl.b32", {0xffffffff, 32}, 0},
      {"shift by the width", "shr.s32", {0x80000000, 33}, 0xffffffff},
      {"division by zero", "div.u32", {7, 0}, 0xffffffff},
      {"division by zero", "div.s64", {7, 0}, 0xffffffffffffffff},
      {"remainder by zero", "rem.s32", {7, 0}, 0xffffffff},
      {"INT_MIN / -1", "div.s32", {0x80000000, 0xffffffff}, 0x80000000},
      {"INT_MIN % -1", "rem.s32", {0x80000000, 0xffffffff}, 0},
      {"INT64_MIN / -1", "div.s64", {0x8000000000000000, 0xffffffffffffffff}, 0x8000000000000000},
      {"a goes to the high half", "cvt.rn.bf16x2.f32", {0x3f800000, 0x40000000}, 0x3f804000},
      {"a goes to the high half", "cvt.rn.f16x2.f32", {0x3f800000, 0x40000000}, 0x3c004000},
      {"bf16 ties to even", "cvt.rn.bf16.f32", {0x3f808000}, 0x3f80},
      {"f32 subnormals are bf16 subnormals", "cvt.rn.bf16.f32", {0x00010000}, 0x0001},
      {"sin(-0)", "sin.approx.f32", {0x80000000}, 0x80000000},
      {"sin 2^120 = 0.37782010936", "sin.approx.f32", {0x7b800000}, 0x3ec171a3},
      {"ex2(0)", "ex2.approx.f32", {0}, 0x3f800000},
      {"ex2(-inf)", "ex2.approx.f32", {0xff800000}, 0},
      {"lg2(0)", "lg2.approx.f32", {0}, 0xff800000},
      {"lg2(-1)", "lg2.approx.f32", {0xbf800000}, 0x7fffffff},
      {"lg2(8)", "lg2.approx.ftz.f32", {0x41000000}, 0x40400000},
      {"tanh of a subnormal", "tanh.approx.f32", {1}, 1},
      {"div.approx beyond 2^126", "div.approx.f32", {0x3f800000, 0x7e800001}, 0},
      {"copysign: sign of a, value of b", "copysign.f32", {0x80000000, 0x40000000}, 0xc0000000},
      {"zero counts as normal", "testp.normal.f32", {0}, 1},
      {"selp", "selp.b32", {1, 2, 0}, 2},
  };
  for (const Row& row : rows) {
    for (const char* level : levels()) {
      DYNAMIC_SECTION(row.name << " " << row.form << " " << level) {
        CHECK(one_lane(row.form, level, row.in) == row.expected);
      }
    }
  }
}

/// Runs a one-source form over `values` at every level and compares with the reference.
void sweep(const std::string& name, std::vector<uint64_t> values) {
  while (values.size() % kLanes != 0) values.push_back(values.back());
  std::vector<reference::Expected> expected;
  for (const uint64_t value : values) {
    const uint64_t in[4] = {value, 0, 0, 0};
    const auto e = reference::evaluate(name, in, 0);
    if (!e) FAIL("the reference does not know " << name);
    expected.push_back(*e);
  }
  for (const char* level : levels()) {
    const auto form = arithmetic_form(name, level);
    REQUIRE(form);
    int bad = 0;
    std::string first;
    for (size_t at = 0; at < values.size(); at += kLanes) {
      LaneInputs inputs{};
      for (size_t i = 0; i < kLanes; ++i) inputs.source[i][0] = values[at + i];
      const LaneOutputs got = run_lanes(*form, inputs, Variant::kFull);
      for (size_t i = 0; i < kLanes; ++i) {
        const auto& e = expected[at + i];
        const uint64_t d = got.destination[i][0];
        if (e.approximate ? reference::within(e, d) : d == e.d[0]) continue;
        if (bad++ == 0) first = describe(level, Variant::kFull, *form, inputs, static_cast<int>(i), got, e.d, 0);
      }
    }
    INFO(name << ": " << first);
    CHECK(bad == 0);
  }
}

TEST_CASE("all 16-bit patterns through unary half forms") {
  std::vector<uint64_t> values;
  for (uint32_t x = 0; x < 0x10000; x += kStride) values.push_back(x);
  for (const char* name : {"cvt.f32.f16",         "cvt.f32.bf16",     "cvt.f64.f16",
                           "cvt.f64.bf16",        "neg.f16",          "abs.bf16",
                           "neg.ftz.f16",         "cvt.rni.s32.f16",  "cvt.rzi.u8.f16",
                           "cvt.rpi.s64.bf16",    "cvt.rmi.u16.bf16", "cvt.rni.f16.f16",
                           "cvt.rpi.bf16.bf16",   "cvt.rn.bf16.f16",  "cvt.rz.f16.bf16",
                           "cvt.rm.f16.bf16",     "ex2.approx.f16",   "ex2.approx.ftz.bf16",
                           "tanh.approx.f16",     "tanh.approx.bf16", "cvt.rn.f16x2.e4m3x2",
                           "cvt.rn.f16x2.e5m2x2", "cvt.sat.f16.f16",  "cvt.rn.f32.s16",
                           "cvt.rn.f16.u16"}) {
    sweep(name, values);
  }
}

TEST_CASE("f32 to the half formats at and around every representable value and midpoint") {
  for (const bool bf16 : {false, true}) {
    std::vector<uint64_t> values;
    for (uint32_t x = 0; x < 0x10000; x += 5 * kStride) {
      const uint64_t in[4] = {x, 0, 0, 0};
      const auto exact = reference::evaluate(bf16 ? "cvt.f32.bf16" : "cvt.f32.f16", in, 0);
      const uint32_t value = static_cast<uint32_t>(exact->d[0]), half = bf16 ? 0x8000u : 0x1000u;
      for (const uint32_t b : {value, value + half, value + half - 1, value + half + 1}) values.push_back(b);
    }
    for (const char* mode : {"rn", "rz", "rm", "rp"}) {
      sweep(std::string("cvt.") + mode + (bf16 ? ".bf16.f32" : ".f16.f32"), values);
    }
  }
}

TEST_CASE("approximations on random arguments of every size") {
  std::mt19937 random(17);
  std::vector<uint64_t> values;
  for (uint32_t i = 0; i < 30000 / kStride; ++i) values.push_back(random());
  for (uint32_t i = 0; i < 20000 / kStride; ++i)
    values.push_back(0x3f800000u + random() % 0x2000u - 0x1000u);  // near 1
  for (const char* name :
       {"rcp.approx.f32", "sqrt.approx.f32", "rsqrt.approx.f32", "ex2.approx.f32", "lg2.approx.f32", "sin.approx.f32",
        "cos.approx.f32", "tanh.approx.f32", "ex2.approx.ftz.f32", "rcp.approx.ftz.f32", "sin.approx.ftz.f32"}) {
    sweep(name, values);
  }
}

TEST_CASE("both fused multiply-adds are the exact one") {
  // Against std::fma; operands chosen so that products and addends cancel or sit on ties often.
  std::mt19937_64 random(4);
  const auto form_v2 = arithmetic_form("fma.rn.f32", "x86-64-v2");
  REQUIRE(form_v2);
  int bad = 0;
  for (uint32_t block = 0; block < 20000 / kStride; ++block) {
    LaneInputs inputs{};
    float expected[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      uint32_t a = static_cast<uint32_t>(random()), b = static_cast<uint32_t>(random()),
               c = static_cast<uint32_t>(random());
      if (random() % 2 == 0) a &= 0xfffff000u, b &= 0xfffff000u;
      float x, y, z;
      std::memcpy(&x, &a, 4);
      std::memcpy(&y, &b, 4);
      std::memcpy(&z, &c, 4);
      if (random() % 2 == 0) {
        z = -(x * y);
        if (random() % 2 == 0) z *= std::ldexp(1.0f, static_cast<int>(random() % 60) - 30);
        std::memcpy(&c, &z, 4);
      }
      inputs.source[i][0] = a, inputs.source[i][1] = b, inputs.source[i][2] = c;
      expected[i] = std::fma(x, y, z);
    }
    const LaneOutputs got = run_lanes(*form_v2, inputs, Variant::kFull);
    for (int i = 0; i < kLanes; ++i) {
      uint32_t e;
      std::memcpy(&e, &expected[i], 4);
      if (std::isnan(expected[i])) e = 0x7fffffff;
      if (got.destination[i][0] != e) ++bad;
    }
  }
  CHECK(bad == 0);
}

TEST_CASE("directed forms leave the host's rounding mode as it was") {
  for (const char* name : {"add.rz.f32", "fma.rp.f64", "sqrt.rm.f32"}) {
    for (const char* level : levels()) {
      one_lane(name, level, {0x3f800000, 0x33800000, 0});
      CHECK(std::fegetround() == FE_TONEAREST);
    }
  }
}

TEST_CASE("forms are found by instruction") {
  using ptx::Instruction;
  using ptx::Operand;
  using ptx::OperandKind;
  const auto operand = [](OperandKind kind, size_t elements = 0) {
    Operand o;
    o.kind = kind;
    o.elements.resize(elements);
    return o;
  };
  const Operand reg = operand(OperandKind::kRegister);
  struct Row {
    const char* name;
    const char* opcode;
    std::vector<std::string> modifiers;
    std::vector<Operand> operands;
    const char* form;  // null: not lane-wise or unknown
    int destinations, sources;
  };
  const Row rows[] = {
      {"plain", "fma", {"rn", "ftz", "f32"}, {reg, reg, reg, reg}, "fma.rn.ftz.f32", 1, 3},
      {"one predicate", "setp", {"lt", "f32"}, {reg, reg, reg}, "setp.lt.f32", 1, 2},
      {"two predicates",
       "setp",
       {"lt", "and", "f32"},
       {operand(OperandKind::kPair, 2), reg, reg, reg},
       "setp.lt.and.f32 d|p",
       2,
       3},
      {"pack", "mov", {"b64"}, {reg, operand(OperandKind::kVector, 2)}, "mov.b64 pack2", 1, 2},
      {"pack four", "mov", {"b64"}, {reg, operand(OperandKind::kVector, 4)}, "mov.b64 pack4", 1, 4},
      {"unpack", "mov", {"b32"}, {operand(OperandKind::kVector, 2), reg}, "mov.b32 unpack2", 2, 1},
      {"unpack four", "mov", {"b64"}, {operand(OperandKind::kVector, 4), reg}, "mov.b64 unpack4", 4, 1},
      {"mov", "mov", {"pred"}, {reg, reg}, "mov.pred", 1, 1},
      {".relu behind the type", "min", {"s16x2", "relu"}, {reg, reg, reg}, "min.relu.s16x2", 1, 2},
      {"three operands", "max", {"f32"}, {reg, reg, reg, reg}, "max.f32 3", 1, 3},
      {"not lane-wise", "ld", {"global", "f32"}, {reg, reg}, nullptr, 0, 0},
      {"no such rounding", "add", {"rx", "f32"}, {reg, reg, reg}, nullptr, 0, 0},
      {"no vector of three", "mov", {"b64"}, {reg, operand(OperandKind::kVector, 3)}, nullptr, 0, 0},
  };
  for (const Row& row : rows) {
    DYNAMIC_SECTION(row.name) {
      Instruction instruction;
      instruction.opcode = row.opcode;
      instruction.modifiers = row.modifiers;
      instruction.operands = row.operands;
      const auto form = select_arithmetic(instruction);
      REQUIRE(form.has_value() == (row.form != nullptr));
      if (!form) return;
      CHECK(arithmetic_form_name(instruction) == row.form);
      CHECK(int{form->destinations} == row.destinations);
      CHECK(int{form->sources} == row.sources);
      CHECK(form->full == arithmetic_form(row.form, arithmetic_level())->full);
    }
  }
}

TEST_CASE("widths and signs of forms") {
  const auto f = [](const char* name) { return *arithmetic_form(name, "x86-64-v2"); };
  CHECK(int{f("mul.wide.s32").destination_bytes[0]} == 8);
  CHECK(f("mul.wide.s32").destination_signed);
  CHECK_FALSE(f("mul.wide.u32").destination_signed);
  CHECK(int{f("mad.wide.u32").source_bytes[2]} == 8);
  CHECK(int{f("shl.b64").source_bytes[1]} == 4);
  CHECK(int{f("cvt.s64.s8").source_bytes[0]} == 2);
  CHECK(int{f("setp.eq.f64").destination_bytes[0]} == 4);
  CHECK(f("setp.eq.f64").source_float[1]);
  CHECK(f("mov.f32").source_float[0]);
  CHECK_FALSE(f("mov.b32").source_float[0]);
  CHECK(int{f("clz.b64").destination_bytes[0]} == 4);
  CHECK(f("cvt.rzi.s8.f32").destination_signed);
}

// The forms that NVRTC 13.0 emitted (sm_90a and sm_100a, with and without fast math) for the CUDA math library, half
// and bf16 arithmetic, integer intrinsics and all conversions.
TEST_CASE("everything the compiler was seen to emit is there") {
  static const char* const kEmitted[] = {
#include "tests/arithmetic/emitted_forms.inc"
  };
  for (const char* name : kEmitted) {
    ptx::Instruction instruction;
    const auto form = reference::parse_form(name);
    instruction.opcode = form.opcode;
    instruction.modifiers = form.modifiers;
    INFO(name);
    CHECK(select_arithmetic(instruction));
  }
}

}  // namespace
}  // namespace stepbench::vm
