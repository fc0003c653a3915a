// mov (plain, packing, unpacking), selp and slct. How vector operands are bound is in arithmetic.h.
#include "harness/ptx_vm/arithmetic_float.h"

namespace stepbench::vm::SB_ISA {
namespace {

template <class T>
SB_LANE T mov(T a) {
  return a;
}
template <class T>
SB_LANE T selp(T a, T b, u32 c) {
  return c != 0 ? a : b;
}
template <class T>
SB_LANE T slct_int(T a, T b, s32 c) {
  return c >= 0 ? a : b;
}
/// -0 counts as >= 0, NaN does not (PTX ISA, "slct"); with .ftz a negative subnormal is -0.
template <class T, bool Ftz>
SB_LANE T slct_float(T a, T b, f32 c) {
  return source<Ftz>(c) >= 0.0f ? a : b;
}

// Packing: the first element is the least significant.
SB_LANE u64 pack2(u32 a, u32 b) { return static_cast<u64>(b) << 32 | a; }
SB_LANE u32 pack2(u16 a, u16 b) { return static_cast<u32>(b) << 16 | a; }
SB_LANE u16 pack2(U8 a, U8 b) {
  return static_cast<u16>((static_cast<u32>(a) & 0xffu) | (static_cast<u32>(b) & 0xffu) << 8);
}
SB_LANE u64 pack4(u16 a, u16 b, u16 c, u16 e) {
  return static_cast<u64>(a) | static_cast<u64>(b) << 16 | static_cast<u64>(c) << 32 | static_cast<u64>(e) << 48;
}
SB_LANE u32 pack4(U8 a, U8 b, U8 c, U8 e) {
  return static_cast<u32>(pack2(a, b)) | static_cast<u32>(pack2(c, e)) << 16;
}

/// d, d2 (Parts == 2) or v[0..3] (Parts == 4) = the parts of a. A part is sizeof(From) * 8 / Parts bits wide.
template <class From, class To, int Parts>
struct Unpack {
  static void split(To (&out)[Parts][kLanes], const void* a_lanes) {
    const auto* a = in_lanes<From>(a_lanes);
    constexpr int kWidth = static_cast<int>(sizeof(From)) * 8 / Parts;
    constexpr u64 kMask = (u64{1} << kWidth) - 1;
    for (int part = 0; part < Parts; ++part) {
      SB_FOR_LANES out[part][i] = static_cast<To>((static_cast<u64>(a[i]) >> (kWidth * part)) & kMask);
    }
    asm volatile("" : : "r"(out) : "memory");  // as in arithmetic_lanes.h
  }
  static uint32_t destination(const Decoded& in, int part) {
    if constexpr (Parts == 2) return part == 0 ? in.d : in.d2;
    return in.v[part];
  }
  static void full(LaneState& state, const Decoded& in) {
    alignas(64) To out[Parts][kLanes];
    split(out, state.registers + in.a);
    for (int part = 0; part < Parts; ++part) {
      __builtin_memcpy(state.registers + destination(in, part), out[part], sizeof(out[part]));
    }
  }
  static void masked(LaneState& state, const Decoded& in) {
    alignas(64) To out[Parts][kLanes];
    split(out, state.registers + in.a);
    for (int part = 0; part < Parts; ++part) {
      blend_bytes<sizeof(To)>(state.registers + destination(in, part), out[part], state.active);
    }
  }
};

template <class From, class To, int Parts>
constexpr FormRow unpack_row(const char* name) {
  using L = Unpack<From, To, Parts>;
  return FormRow{
      name,
      ArithmeticForm{&L::full, &L::masked, Parts, {sizeof(To), sizeof(To)}, false, 1, {sizeof(From), 4, 4, 4}, {}}};
}

}  // namespace

#define ALL_TYPES(M, op, f)                                                                                         \
  M(op, f, "b16", u16), M(op, f, "u16", u16), M(op, f, "s16", s16), M(op, f, "b32", u32), M(op, f, "u32", u32),     \
      M(op, f, "s32", s32), M(op, f, "b64", u64), M(op, f, "u64", u64), M(op, f, "s64", s64), M(op, f, "f32", f32), \
      M(op, f, "f64", f64)
#define ROW(op, f, name, T) row<&f<T>>(op "." name)
#define SLCT_INT(op, f, name, T) row<&f<T>>(op "." name ".s32")
#define SLCT_FLOAT(op, f, name, T) row<&f<T, false>>(op "." name ".f32"), row<&f<T, true>>(op ".ftz." name ".f32")

SB_FORM_TABLE(forms_move, ALL_TYPES(ROW, "mov", mov), row<&mov<u32>>("mov.pred"), ALL_TYPES(ROW, "selp", selp),
              row<&selp<u32>>("selp.pred"), ALL_TYPES(SLCT_INT, "slct", slct_int),
              ALL_TYPES(SLCT_FLOAT, "slct", slct_float), row<static_cast<u64 (*)(u32, u32)>(&pack2)>("mov.b64 pack2"),
              row<static_cast<u32 (*)(u16, u16)>(&pack2)>("mov.b32 pack2"),
              row<static_cast<u16 (*)(U8, U8)>(&pack2)>("mov.b16 pack2"),
              row<static_cast<u64 (*)(u16, u16, u16, u16)>(&pack4)>("mov.b64 pack4"),
              row<static_cast<u32 (*)(U8, U8, U8, U8)>(&pack4)>("mov.b32 pack4"),
              unpack_row<u64, u32, 2>("mov.b64 unpack2"), unpack_row<u32, u16, 2>("mov.b32 unpack2"),
              unpack_row<u16, U8, 2>("mov.b16 unpack2"), unpack_row<u64, u16, 4>("mov.b64 unpack4"),
              unpack_row<u32, U8, 4>("mov.b32 unpack4"))

}  // namespace stepbench::vm::SB_ISA
