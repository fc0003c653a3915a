// Logic, shifts and bit manipulation: and or xor not cnot lop3 shl shr shf prmt bfe bfi bfind brev clz popc bmsk szext.
#include "harness/ptx_vm/arithmetic_lanes.h"

namespace stepbench::vm::SB_ISA {
namespace {

template <class T>
inline constexpr u32 kBits = sizeof(T) * 8;

template <class T>
SB_LANE T and_(T a, T b) {
  return static_cast<T>(a & b);
}
template <class T>
SB_LANE T or_(T a, T b) {
  return static_cast<T>(a | b);
}
template <class T>
SB_LANE T xor_(T a, T b) {
  return static_cast<T>(a ^ b);
}
template <class T>
SB_LANE T not_(T a) {
  return static_cast<T>(~a);
}
SB_LANE u32 not_predicate(u32 a) { return a ^ 1u; }
template <class T>
SB_LANE T cnot(T a) {
  return a == 0 ? T(1) : T(0);
}

/// Any function of three bits: bit number 4a + 2b + c of the table (PTX ISA, "lop3").
SB_LANE u32 lop3(u32 a, u32 b, u32 c, u32 table) {
  u32 r = 0;
  for (u32 k = 0; k < 8; ++k) {
    const u32 term = ((k & 4) != 0 ? a : ~a) & ((k & 2) != 0 ? b : ~b) & ((k & 1) != 0 ? c : ~c);
    r |= term & (0u - ((table >> k) & 1u));
  }
  return r;
}

// Amounts beyond the width clamp to it.
template <class T>
SB_LANE T shl(T a, u32 b) {
  return b < kBits<T> ? static_cast<T>(a << (b & (kBits<T> - 1))) : T(0);
}
template <class T>
SB_LANE T shr(T a, u32 b) {
  const u32 n = b < kBits<T> ? b : kBits<T> - 1;
  if constexpr (kIsSigned<T>) return static_cast<T>(a >> n);
  return b < kBits<T> ? static_cast<T>(a >> n) : T(0);
}
/// shf: the 64-bit value b:a shifted; left keeps the high word, right the low word.
template <bool Left, bool Clamp>
SB_LANE u32 shf(u32 a, u32 b, u32 c) {
  const u64 both = static_cast<u64>(b) << 32 | a;
  const u32 n = Clamp ? (c < 32 ? c : 32) : c & 31;
  return static_cast<u32>(Left ? (both << n) >> 32 : both >> n);
}

enum PermuteMode { kIndex, kForward4, kBackward4, kReplicate8, kEdgeClampLeft, kEdgeClampRight, kReplicate16 };
/// PTX ISA, "prmt": bytes 0..3 are a, 4..7 are b.
template <PermuteMode Mode>
SB_LANE u32 prmt(u32 a, u32 b, u32 c) {
  const u64 bytes = static_cast<u64>(b) << 32 | a;
  u32 r = 0;
  const u32 s = c & 3;
  for (u32 i = 0; i < 4; ++i) {
    u32 index = 0;
    if constexpr (Mode == kIndex) index = (c >> (4 * i)) & 7;
    if constexpr (Mode == kForward4) index = s + i;
    if constexpr (Mode == kBackward4) index = (s - i) & 7;
    if constexpr (Mode == kReplicate8) index = s;
    if constexpr (Mode == kEdgeClampLeft) index = i > s ? i : s;
    if constexpr (Mode == kEdgeClampRight) index = i < s ? i : s;
    if constexpr (Mode == kReplicate16) index = (s & 1) * 2 + (i & 1);
    u32 byte = static_cast<u32>(bytes >> (8 * index)) & 0xff;
    if constexpr (Mode == kIndex) {
      // Bit 3 of a selector replicates the sign of the byte.
      const u32 sign = (byte & 0x80u) != 0 ? 0xffu : 0u;
      byte = ((c >> (4 * i)) & 8) != 0 ? sign : byte;
    }
    r |= byte << (8 * i);
  }
  return r;
}

template <class T>
struct UnsignedOf {
  using type = T;
};
template <>
struct UnsignedOf<s32> {
  using type = u32;
};
template <>
struct UnsignedOf<s64> {
  using type = u64;
};

/// `n` low ones, n up to the width.
template <class U>
SB_LANE U ones(u32 n) {
  return n >= kBits<U> ? static_cast<U>(~U(0)) : static_cast<U>((U(1) << (n & (kBits<U> - 1))) - 1);
}

/// PTX ISA, "bfe": position and length are the low 8 bits; bits past the top take the sign (or 0).
template <class T>
SB_LANE T bfe(T a, u32 b, u32 c) {
  using U = typename UnsignedOf<T>::type;
  constexpr u32 kTop = kBits<T> - 1;
  const u32 position = b & 0xff, length = c & 0xff;
  const u32 last = position + length - 1 < kTop ? position + length - 1 : kTop;  // unused when length is 0
  const U x = static_cast<U>(a);
  const bool sign = kIsSigned<T> && length != 0 && ((x >> last) & 1) != 0;
  const U field = position > kTop ? U(0) : static_cast<U>(x >> position);
  const u32 available = position > kTop ? 0 : kTop + 1 - position;
  const U mask = ones<U>(length < available ? length : available);
  return static_cast<T>((field & mask) | (sign ? static_cast<U>(~mask) : U(0)));
}
/// PTX ISA, "bfi": the low bits of a go into b at position c, length e.
template <class U>
SB_LANE U bfi(U a, U b, u32 c, u32 e) {
  const u32 position = c & 0xff, length = e & 0xff;
  const U mask = position >= kBits<U> ? U(0) : static_cast<U>(ones<U>(length) << position);
  const U moved = position >= kBits<U> ? U(0) : static_cast<U>(a << position);
  return (b & ~mask) | (moved & mask);
}

template <class U>
SB_LANE u32 clz(U a) {
  if constexpr (sizeof(U) == 4) return a == 0 ? 32u : static_cast<u32>(__builtin_clz(a));
  if constexpr (sizeof(U) == 8) return a == 0 ? 64u : static_cast<u32>(__builtin_clzll(a));
}
template <class U>
SB_LANE u32 popc(U a) {
  if constexpr (sizeof(U) == 4) return static_cast<u32>(__builtin_popcount(a));
  if constexpr (sizeof(U) == 8) return static_cast<u32>(__builtin_popcountll(a));
}
/// Position of the most significant bit that differs from the sign (PTX ISA, "bfind"); .shiftamt: the left shift that
/// brings it to the top. 0xffffffff when there is none.
template <class T, bool ShiftAmount>
SB_LANE u32 bfind(T a) {
  using U = typename UnsignedOf<T>::type;
  const U x = static_cast<U>(kIsSigned<T> && a < T(0) ? ~a : a);
  if (x == 0) return 0xffffffffu;
  return ShiftAmount ? clz(x) : kBits<T> - 1 - clz(x);
}
template <class U>
SB_LANE U brev(U a) {
  constexpr U k1 = static_cast<U>(0x5555555555555555ull), k2 = static_cast<U>(0x3333333333333333ull),
              k4 = static_cast<U>(0x0f0f0f0f0f0f0f0full);
  a = ((a >> 1) & k1) | ((a & k1) << 1);
  a = ((a >> 2) & k2) | ((a & k2) << 2);
  a = ((a >> 4) & k4) | ((a & k4) << 4);
  if constexpr (sizeof(U) == 4) return __builtin_bswap32(a);
  if constexpr (sizeof(U) == 8) return __builtin_bswap64(a);
}

/// PTX ISA, "bmsk": b ones from bit a on; clamp limits both to 32, wrap takes them modulo 32.
template <bool Clamp>
SB_LANE u32 bmsk(u32 a, u32 b) {
  const u32 position = Clamp ? (a < 32 ? a : 32) : a & 31, width = Clamp ? (b < 32 ? b : 32) : b & 31;
  const u32 low = ones<u32>(width);
  return position >= 32 ? 0 : low << position;
}
/// PTX ISA, "szext": extends the low b bits of a; an extension of 0 bits gives 0.
template <class T, bool Clamp>
SB_LANE T szext(T a, u32 b) {
  const u32 n = Clamp ? (b < 32 ? b : 32) : b & 31;
  const u32 mask = ones<u32>(n), x = static_cast<u32>(a);
  const bool sign = kIsSigned<T> && n != 0 && ((x >> ((n - 1) & 31)) & 1) != 0;
  return static_cast<T>((x & mask) | (sign ? ~mask : 0u));
}

}  // namespace

#define LOGIC(op, f) row<&f<u16>>(op ".b16"), row<&f<u32>>(op ".b32"), row<&f<u64>>(op ".b64")
#define SHIFT(op, f) row<&f<u16>>(op ".b16"), row<&f<u32>>(op ".b32"), row<&f<u64>>(op ".b64")
#define FIND(T) row<&bfind<T, false>>("bfind." #T), row<&bfind<T, true>>("bfind.shiftamt." #T)

SB_FORM_TABLE(forms_bits, LOGIC("and", and_), LOGIC("or", or_), LOGIC("xor", xor_), LOGIC("not", not_),
              LOGIC("cnot", cnot), row<&and_<u32>>("and.pred"), row<&or_<u32>>("or.pred"), row<&xor_<u32>>("xor.pred"),
              row<&not_predicate>("not.pred"), row<&lop3>("lop3.b32"), SHIFT("shl", shl), SHIFT("shr", shr),
              row<&shr<u16>>("shr.u16"), row<&shr<u32>>("shr.u32"), row<&shr<u64>>("shr.u64"),
              row<&shr<s16>>("shr.s16"), row<&shr<s32>>("shr.s32"), row<&shr<s64>>("shr.s64"),
              row<&shf<true, false>>("shf.l.wrap.b32"), row<&shf<true, true>>("shf.l.clamp.b32"),
              row<&shf<false, false>>("shf.r.wrap.b32"), row<&shf<false, true>>("shf.r.clamp.b32"),
              row<&prmt<kIndex>>("prmt.b32"), row<&prmt<kForward4>>("prmt.b32.f4e"),
              row<&prmt<kBackward4>>("prmt.b32.b4e"), row<&prmt<kReplicate8>>("prmt.b32.rc8"),
              row<&prmt<kEdgeClampLeft>>("prmt.b32.ecl"), row<&prmt<kEdgeClampRight>>("prmt.b32.ecr"),
              row<&prmt<kReplicate16>>("prmt.b32.rc16"), row<&bfe<u32>>("bfe.u32"), row<&bfe<s32>>("bfe.s32"),
              row<&bfe<u64>>("bfe.u64"), row<&bfe<s64>>("bfe.s64"), row<&bfi<u32>>("bfi.b32"),
              row<&bfi<u64>>("bfi.b64"), FIND(u32), FIND(s32), FIND(u64), FIND(s64), row<&brev<u32>>("brev.b32"),
              row<&brev<u64>>("brev.b64"), row<&clz<u32>>("clz.b32"), row<&clz<u64>>("clz.b64"),
              row<&popc<u32>>("popc.b32"), row<&popc<u64>>("popc.b64"), row<&bmsk<true>>("bmsk.clamp.b32"),
              row<&bmsk<false>>("bmsk.wrap.b32"), row<&szext<u32, true>>("szext.clamp.u32"),
              row<&szext<u32, false>>("szext.wrap.u32"), row<&szext<s32, true>>("szext.clamp.s32"),
              row<&szext<s32, false>>("szext.wrap.s32"))

}  // namespace stepbench::vm::SB_ISA
