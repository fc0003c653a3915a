// Every form of the table, at both instruction-set levels, full and masked, against the reference of evaluate.h; and
// that both levels give the same bits. Known pairs and sweeps are in known_test.cc.
#include <catch2/catch.hpp>
#include <random>

#include "harness/ptx_vm/arithmetic.h"
#include "tests/arithmetic/evaluate.h"
#include "tests/arithmetic/lane_runner.h"

namespace stepbench::vm {
namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr int kReduce = 16;
#else
constexpr int kReduce = 1;
#endif

uint32_t f32_bits(float x) {
  uint32_t b;
  std::memcpy(&b, &x, 4);
  return b;
}
uint64_t f64_bits(double x) {
  uint64_t b;
  std::memcpy(&b, &x, 8);
  return b;
}

/// Values at which something changes: of every float format, of integers, shift amounts, packed halves.
std::vector<uint64_t> edges(int bytes) {
  std::vector<uint64_t> v;
  if (bytes == 2) {
    v = {0,      1,      2,      3,      15,     16,     17,     0x7e,   0x7f,   0x80,   0xff,   0x100,  0x0400, 0x03ff,
         0x0401, 0x3c00, 0x3800, 0x3bff, 0x3c01, 0x7bff, 0x7c00, 0x7c01, 0x7e00, 0x7fff, 0x3f80, 0x7f80, 0x7f81, 0x7fc0,
         0x0080, 0x007f, 0x7f7f, 0x4000, 0x4200, 0x5bff, 0x3555, 0x4f00, 0x4f7f, 0x5f00, 0x5f7f, 0x5f80, 0x3e00, 0x4100,
         0x3fc0, 0x4020, 0x1234, 0x3f00, 0x6400, 0x57ff, 0x2001, 0x1ffe, 0x3a2b, 0x2bcd, 0x4248};
    const size_t n = v.size();
    for (size_t i = 0; i < n; ++i) v.push_back(v[i] ^ 0x8000);
  }
  if (bytes == 4) {
    for (const float x : {0.0f,
                          1.0f,
                          0.5f,
                          1.5f,
                          2.5f,
                          0.49999997f,
                          2.0f,
                          3.0f,
                          127.5f,
                          255.5f,
                          256.0f,
                          32767.5f,
                          65535.5f,
                          65504.0f,
                          65519.99f,
                          65520.0f,
                          2147483520.0f,
                          2147483648.0f,
                          4294967040.0f,
                          4294967296.0f,
                          9.223372e18f,
                          1.8446744e19f,
                          1.1754942e-38f,
                          1.17549435e-38f,
                          1.17549449e-38f,
                          1e-45f,
                          1e-40f,
                          3.4028235e38f,
                          5.9604645e-8f,
                          2.9802322e-8f,
                          2.98023259e-8f,
                          6.1035156e-5f,
                          448.0f,
                          464.0f,
                          464.1f,
                          57344.0f,
                          61440.0f,
                          1e-3f,
                          3.14159265f,
                          100.0f,
                          1e10f,
                          8.5070592e37f,
                          1.7014118e38f,
                          2.5e38f,
                          88.0f,
                          0.1f,
                          0.7f,
                          1.0000001f,
                          0.99999994f,
                          9.2e-41f,
                          9.765625e-4f}) {
      v.push_back(f32_bits(x));
      v.push_back(f32_bits(-x));
    }
    for (const uint32_t b :
         {0x7f800000u, 0xff800000u, 0x7fc00000u, 0x7f800001u, 0xffc00000u, 0x7fffffffu, 0xffffffffu, 1u,
          2u,          31u,         32u,         33u,         63u,         64u,         65u,         255u,
          256u,        0x80000001u, 0x7ffffffeu, 0xaaaaaaaau, 0x00ff00ffu, 0x80808080u, 0x7fff8000u, 0x0000fffeu,
          0x007fffffu, 0x3f803f80u, 0x7c007c00u, 0x7e01fc00u, 0x03ff8001u, 0x7f817fc0u, 0x00010080u, 0x20000001u,
          0x1ffffffeu, 0x7e800001u, 0x3f801000u, 0x3f803000u, 0x3f800fffu, 0x477ff000u, 0x33000000u}) {
      v.push_back(b);
    }
  }
  if (bytes == 8) {
    for (const double x : {0.0,
                           1.0,
                           0.5,
                           1.5,
                           2.5,
                           0.49999999999999994,
                           2.0,
                           3.0,
                           127.5,
                           255.5,
                           32767.5,
                           65504.0,
                           65519.999,
                           65520.0,
                           2147483647.5,
                           2147483648.0,
                           4294967295.5,
                           4294967296.0,
                           9.2233720368547748e18,
                           9.223372036854775808e18,
                           1.8446744073709550e19,
                           1.8446744073709552e19,
                           2.2250738585072014e-308,
                           2.2250738585072009e-308,
                           5e-324,
                           1.7976931348623157e308,
                           3.4028234663852886e38,
                           3.4028235677973366e38,
                           3.4028235677973362e38,
                           1.1754943508222875e-38,
                           1.1754942807573643e-38,
                           7.006492321624085e-46,
                           7.0064923216240861e-46,
                           2.98023223876953125e-8,
                           2.9802322387695315e-8,
                           1e-3,
                           3.14159,
                           1e100,
                           1e-100,
                           4503599627370496.5,
                           4503599627370497.5,
                           0.1,
                           1.0000000000000002}) {
      v.push_back(f64_bits(x));
      v.push_back(f64_bits(-x));
    }
    for (const uint64_t b : {0x7ff0000000000000ull,
                             0xfff0000000000000ull,
                             0x7ff8000000000000ull,
                             0x7ff0000000000001ull,
                             ~0ull,
                             1ull,
                             31ull,
                             63ull,
                             64ull,
                             0x7fffffffffffffffull,
                             0x8000000000000001ull,
                             0xffffffffull,
                             0x100000000ull,
                             0x1fffffffffffffull,
                             0x20000000000001ull,
                             0x20000000000003ull,
                             0x7fffff4000000000ull,
                             0x7fffffc000000001ull,
                             0xffffff7fffffffffull,
                             0x8000008000000001ull,
                             0x7ff00000ffffffffull,
                             0xfffffffffffffbffull,
                             0x380ffffff0000000ull,
                             0x380fffffefffffffull,
                             0x380ffffff8000000ull,
                             0x7fffffffffffffc0ull}) {
      v.push_back(b);
    }
  }
  return v;
}

/// The index-th source value of `count`: first pairs of edges, then random patterns with useful exponents and near
/// misses.
void draw(std::mt19937_64& random, const std::vector<uint64_t> (&edge)[9], const ArithmeticForm& form, bool edges_only,
          uint64_t* in) {
  for (int s = 0; s < form.sources; ++s) {
    const int bytes = form.source_bytes[s];
    const auto& e = edge[bytes];
    const uint64_t mask = bytes == 8 ? ~0ull : (1ull << (8 * bytes)) - 1;
    uint64_t r = e[random() % e.size()];
    if (!edges_only) {
      r = random();
      const uint64_t how = random() % 8;
      if (how == 0) r &= 0xff;
      if (how >= 2 && how < 6 && bytes == 4) r = (r & 0x807fffffu) | (115 + random() % 24) << 23;
      if (how >= 2 && how < 6 && bytes == 8) r = (r & 0x800fffffffffffffull) | (983 + random() % 110) << 52;
      if (how == 6 && s > 0) r = in[s - 1] ^ (random() & 3) ^ (random() & 1) << (8 * bytes - 1);
      if (how == 7) r = e[random() % e.size()];
    }
    in[s] = r & mask;
  }
}

bool is_predicate_source(const std::string& name, int s) {
  const bool all = name.size() > 5 && name.compare(name.size() - 5, 5, ".pred") == 0;
  const std::string opcode = name.substr(0, name.find('.'));
  if (all) return true;
  return s == 2 && (opcode == "setp" || opcode == "set" || opcode == "selp");
}

struct Level {
  const char* name;
  bool available;
};

/// Checks one form on `blocks` blocks of 32 lanes; returns a description of the first difference.
std::string check_form(const std::string& name, int blocks, const std::vector<uint64_t> (&edge)[9]) {
  const auto form = arithmetic_form(name, "x86-64-v2");
  if (!form) return "no such form at x86-64-v2";
  if (!arithmetic_form(name, "x86-64-v3")) return "no such form at x86-64-v3";
  std::mt19937_64 random(std::hash<std::string>{}(name));
  const Level levels[] = {{"x86-64-v2", true}, {"x86-64-v3", arithmetic_level_available("x86-64-v3")}};
  for (int block = 0; block < blocks; ++block) {
    LaneInputs inputs{};
    reference::Expected expected[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      uint64_t* in = inputs.source[i];
      draw(random, edge, *form, block * 4 < blocks * 3, in);
      for (int s = 0; s < form->sources; ++s) {
        if (is_predicate_source(name, s)) in[s] &= 1;
      }
      inputs.carry[i] = random() & 1;
      inputs.active[i] = (random() & 1) != 0;
      const auto e = reference::evaluate(name, in, inputs.carry[i]);
      if (!e) return "the reference does not know this form";
      expected[i] = *e;
    }
    LaneOutputs first{};
    for (const Level& level : levels) {
      if (!level.available) continue;
      const auto at_level = *arithmetic_form(name, level.name);
      for (const Variant variant : {Variant::kFull, Variant::kMasked, Variant::kAliased}) {
        const LaneOutputs got = run_lanes(at_level, inputs, variant);
        if (level.name == levels[0].name && variant == Variant::kFull) first = got;
        for (int i = 0; i < kLanes; ++i) {
          const bool active = variant != Variant::kMasked || inputs.active[i];
          const auto& e = expected[i];
          bool good = true;
          for (int k = 0; k < form->destinations; ++k) {
            if (!active)
              good = good && got.destination[i][k] == kUntouched(form->destination_bytes[k & 1]);
            else if (e.approximate)
              good = good && reference::within(e, got.destination[i][k]) &&
                     got.destination[i][k] == first.destination[i][k];
            else
              good = good && got.destination[i][k] == e.d[k];
          }
          const uint32_t carry = active && e.writes_carry ? e.carry : inputs.carry[i];
          good = good && got.carry[i] == carry;
          if (!good) return describe(level.name, variant, *form, inputs, i, got, e.d, carry);
        }
      }
    }
  }
  return "";
}

TEST_CASE("every form agrees with the reference at every level") {
  const std::vector<uint64_t> edge[9] = {{}, {}, edges(2), {}, edges(4), {}, {}, {}, edges(8)};
  int failures = 0;
  for (const std::string_view view : arithmetic_forms()) {
    const std::string name(view);
    const bool comparison = name.compare(0, 3, "set") == 0;
    const int blocks = (comparison ? 12 : 48) / kReduce;
    const std::string difference = check_form(name, std::max(blocks, 2), edge);
    INFO(name << ": " << difference);
    CHECK(difference.empty());
    if (!difference.empty() && ++failures > 40) break;
  }
}

TEST_CASE("the reference itself: published and hand-computed values") {
  // Controls for the reference, so that it and the handlers cannot be wrong together in the same simple way.
  struct Row {
    const char* name;
    uint64_t in[3];
    uint64_t expected;
  };
  const Row rows[] = {
      {"add.f32", {0x3f800000, 0x33800000, 0}, 0x3f800000},  // 1 + 2^-24: tie to even
      {"add.rp.f32", {0x3f800000, 0x33800000, 0}, 0x3f800001},
      {"add.rm.f32", {0x3f800000, 0xbf800000, 0}, 0x80000000},  // exact zero under rm is -0
      {"mul.f64", {0x3ff8000000000000, 0x4000000000000000, 0}, 0x4008000000000000},
      {"div.rn.f32", {0x3f800000, 0x40400000, 0}, 0x3eaaaaab},  // 1/3
      {"div.rz.f32", {0x3f800000, 0x40400000, 0}, 0x3eaaaaaa},
      {"sqrt.rn.f64", {0x4000000000000000, 0, 0}, 0x3ff6a09e667f3bcd},
      {"cvt.rn.f16.f32", {0x477fefff, 0, 0}, 0x7bff},  // just below 65520
      {"cvt.rn.f16.f32", {0x477ff000, 0, 0}, 0x7c00},  // 65520 ties to infinity
      {"cvt.rn.bf16.f32", {0x3f808000, 0, 0}, 0x3f80},
      {"cvt.rn.bf16.f32", {0x3f818000, 0, 0}, 0x3f82},
      {"cvt.rni.s32.f32", {0x40200000, 0, 0}, 2},  // 2.5
      {"cvt.rn.f32.u64", {0xffffffffffffffff, 0, 0}, 0x5f800000},
      {"mul.hi.s32", {0x80000000, 2, 0}, 0xffffffff},
      {"mul.hi.u64", {0xffffffffffffffff, 0xffffffffffffffff, 0}, 0xfffffffffffffffe},
      {"prmt.b32", {0x33221100, 0x77665544, 0x1324}, 0x11332244},
      {"bfe.s32", {0x00000ff0, 4, 8}, 0xffffffff},
      {"bfind.u32", {0x00010000, 0, 0}, 16},
      {"cvt.rn.satfinite.e4m3x2.f32", {0x43e00000, 0x3f800000, 0}, 0x7e38},  // 448, 1
  };
  for (const Row& row : rows) {
    INFO(row.name);
    const uint64_t in[4] = {row.in[0], row.in[1], row.in[2], 0};
    const auto e = reference::evaluate(row.name, in, 0);
    REQUIRE(e);
    CHECK(e->d[0] == row.expected);
  }
}

TEST_CASE("names are unique and unknown forms are refused") {
  auto names = arithmetic_forms();
  CHECK(names.size() > 3000);
  std::sort(names.begin(), names.end());
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
  for (const char* name : {"add.f8", "ld.global.f32", "cvt.rn.s32.f32", "setp.lt.b32", "mul.wide.s64", ""}) {
    INFO(name);
    CHECK_FALSE(arithmetic_form(name, "x86-64-v2"));
  }
  CHECK_FALSE(arithmetic_form("add.f32", "x86-64-v9"));
  CHECK(arithmetic_form("add.f32", "x86-64-v2"));
}

}  // namespace
}  // namespace stepbench::vm
