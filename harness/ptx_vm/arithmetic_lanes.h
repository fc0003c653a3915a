// How a scalar function becomes a handler for 32 lanes. `row<&f>("name")` makes the table row of the lane function
// `f`; its parameter and result types give the widths of the form. Included only by arithmetic_*.cc, once per
// instruction-set level, hence no standard library beyond <cstdint> and everything in an unnamed namespace.
//
// A loop over the lanes exists once per form (`compute`). The full handler runs it straight into the destination; the
// masked handler runs it into a buffer and copies the active lanes, so lane functions must be total: they also see the
// register contents of inactive lanes.
#pragma once

#include <cstdint>

#include "harness/ptx_vm/arithmetic_forms.h"

#define SB_LANE [[gnu::always_inline]] inline
#define SB_FOR_LANES _Pragma("GCC ivdep") for (int i = 0; i < kLanes; ++i)

namespace stepbench::vm::SB_ISA {
namespace {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using s8 = int8_t;
using s16 = int16_t;
using s32 = int32_t;
using s64 = int64_t;
using f32 = float;
using f64 = double;

// Types that C++ lacks or that occupy more than their width. Enumerations, because the vectoriser takes them as
// scalars.
enum class [[gnu::may_alias]] F16 : u16{};
enum class [[gnu::may_alias]] BF16 : u16{};
enum class [[gnu::may_alias]] F16x2 : u32{};
enum class [[gnu::may_alias]] BF16x2 : u32{};
enum class [[gnu::may_alias]] U8 : u16{};  // 8-bit registers live in 2-byte slots
enum class [[gnu::may_alias]] S8 : s16{};

/// Element types that may alias each other: one slot is read as f32 by one handler and as u32 by the next.
template <class T>
struct Element;
#define SB_ELEMENT(T)                          \
  template <>                                  \
  struct Element<T> {                          \
    typedef T __attribute__((may_alias)) type; \
  };
#define SB_ENUM_ELEMENT(T) \
  template <>              \
  struct Element<T> {      \
    using type = T;        \
  };
SB_ELEMENT(u16)
SB_ELEMENT(u32)
SB_ELEMENT(u64)
SB_ELEMENT(s16)
SB_ELEMENT(s32)
SB_ELEMENT(s64)
SB_ELEMENT(f32)
SB_ELEMENT(f64)
SB_ENUM_ELEMENT(F16)
SB_ENUM_ELEMENT(BF16)
SB_ENUM_ELEMENT(F16x2)
SB_ENUM_ELEMENT(BF16x2)
SB_ENUM_ELEMENT(U8)
SB_ENUM_ELEMENT(S8)
#undef SB_ELEMENT
#undef SB_ENUM_ELEMENT

template <class T>
inline constexpr bool kIsFloat = false;
template <>
inline constexpr bool kIsFloat<f32> = true;
template <>
inline constexpr bool kIsFloat<f64> = true;
template <class T>
inline constexpr bool kIsSigned = false;
template <>
inline constexpr bool kIsSigned<s16> = true;
template <>
inline constexpr bool kIsSigned<s32> = true;
template <>
inline constexpr bool kIsSigned<s64> = true;
template <>
inline constexpr bool kIsSigned<S8> = true;

template <class A, class B>
inline constexpr bool kSame = false;
template <class A>
inline constexpr bool kSame<A, A> = true;

template <int N, class First, class... Rest>
struct NthType {
  using type = typename NthType<N - 1, Rest...>::type;
};
template <class First, class... Rest>
struct NthType<0, First, Rest...> {
  using type = First;
};

template <class To, class From>
SB_LANE To bits_to(From x) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, x);
}

template <class T>
SB_LANE const typename Element<T>::type* in_lanes(const void* p) {
  return static_cast<const typename Element<T>::type*>(__builtin_assume_aligned(p, 64));
}
template <class T>
SB_LANE typename Element<T>::type* out_lanes(void* p) {
  return static_cast<typename Element<T>::type*>(__builtin_assume_aligned(p, 64));
}

/// Copies the active lanes of `source` to `destination`. active[i] is all ones or 0 and so serves as the bit mask of
/// any element width once it is sign-extended or cut.
template <class Word, class Mask>
[[gnu::noinline]] inline void blend(void* destination, const void* source, const uint32_t* active) {
  auto* d = out_lanes<Word>(destination);
  const auto* s = in_lanes<Word>(source);
  const auto* active_lanes = in_lanes<s32>(active);
  SB_FOR_LANES {
    const Word m = static_cast<Word>(static_cast<Mask>(active_lanes[i]));
    d[i] = static_cast<Word>((s[i] & m) | (d[i] & static_cast<Word>(~m)));
  }
}
template <int Bytes>
SB_LANE void blend_bytes(void* destination, const void* source, const uint32_t* active) {
  if constexpr (Bytes == 2) blend<u16, s16>(destination, source, active);
  if constexpr (Bytes == 4) blend<u32, s32>(destination, source, active);
  if constexpr (Bytes == 8) blend<u64, s64>(destination, source, active);
}

/// Rounding of a form. The lane functions themselves always compute under round-to-nearest unless said otherwise.
enum Rounding { kRn, kRz, kRm, kRp };

/// MXCSR with all exceptions masked, no flushing, and the rounding field of `mode` (Intel SDM vol. 1, section 10.2.3).
constexpr u32 mxcsr(Rounding mode) {
  return 0x1f80u | (mode == kRz ? 0x6000u : mode == kRm ? 0x2000u : mode == kRp ? 0x4000u : 0u);
}
SB_LANE void set_mxcsr(u32 value) { asm volatile("ldmxcsr %0" : : "m"(value) : "memory"); }
SB_LANE u32 get_mxcsr() {
  u32 value;
  asm volatile("stmxcsr %0" : "=m"(value) : : "memory");
  return value;
}

template <auto F>
struct Lanes;

template <class D, class... S, D (*F)(S...)>
struct Lanes<F> {
  static constexpr int kSources = sizeof...(S);
  using Destination = D;
  using A = typename NthType<0, S..., u32, u32, u32>::type;
  using B = typename NthType<1, S..., u32, u32, u32>::type;
  using C = typename NthType<2, S..., u32, u32, u32>::type;
  using E = typename NthType<3, S..., u32, u32, u32>::type;
  // A destination of another width than a source may overlap it only in part, so it is written last.
  static constexpr bool kBuffered = ((sizeof(D) != sizeof(S)) || ...);

  /// noipa: the call is a barrier for the optimiser, which must not move it past a change of MXCSR.
  [[gnu::noipa]] static void compute(void* destination, const void* a_lanes, const void* b_lanes, const void* c_lanes,
                                     const void* e_lanes) {
    auto* d = out_lanes<D>(destination);
    [[maybe_unused]] const auto* a = in_lanes<A>(a_lanes);
    [[maybe_unused]] const auto* b = in_lanes<B>(b_lanes);
    [[maybe_unused]] const auto* c = in_lanes<C>(c_lanes);
    [[maybe_unused]] const auto* e = in_lanes<E>(e_lanes);
    if constexpr (kBuffered) {
      alignas(64) D buffer[kLanes];
      SB_FOR_LANES buffer[i] = lane(a, b, c, e, i);
      // Without the barrier g++ 12 forwards the buffer piecewise through general registers, at four times the cost.
      asm volatile("" : : "r"(buffer) : "memory");
      SB_FOR_LANES d[i] = buffer[i];
    } else {
      SB_FOR_LANES d[i] = lane(a, b, c, e, i);
    }
  }

  static void full(LaneState& state, const Decoded& in) {
    std::byte* r = state.registers;
    compute(r + in.d, r + in.a, r + in.b, r + in.c, r + in.e);
  }
  static void masked(LaneState& state, const Decoded& in) {
    std::byte* r = state.registers;
    alignas(64) D result[kLanes];
    compute(result, r + in.a, r + in.b, r + in.c, r + in.e);
    blend_bytes<sizeof(D)>(r + in.d, result, state.active);
  }

  static constexpr ArithmeticForm form(Handler full_handler, Handler masked_handler) {
    return ArithmeticForm{full_handler,
                          masked_handler,
                          1,
                          {sizeof(D), 4},
                          kIsSigned<D>,
                          kSources,
                          {sizeof(A), sizeof(B), sizeof(C), sizeof(E)},
                          {kIsFloat<A> && kSources > 0, kIsFloat<B> && kSources > 1, kIsFloat<C> && kSources > 2,
                           kIsFloat<E> && kSources > 3}};
  }

 private:
  template <class PA, class PB, class PC, class PE>
  SB_LANE static D lane(PA a, PB b, PC c, PE e, int i) {
    if constexpr (kSources == 1) return F(a[i]);
    if constexpr (kSources == 2) return F(a[i], b[i]);
    if constexpr (kSources == 3) return F(a[i], b[i], c[i]);
    if constexpr (kSources == 4) return F(a[i], b[i], c[i], e[i]);
    (void)a, (void)b, (void)c, (void)e, (void)i;
  }
};

template <auto F>
constexpr FormRow row(const char* name) {
  return FormRow{name, Lanes<F>::form(&Lanes<F>::full, &Lanes<F>::masked)};
}

/// The same lane function under another rounding of the hardware: the loop is shared, only MXCSR differs around it.
template <auto F, Rounding Mode>
struct Directed {
  static void full(LaneState& state, const Decoded& in) {
    const u32 saved = get_mxcsr();
    set_mxcsr(mxcsr(Mode));
    Lanes<F>::full(state, in);
    set_mxcsr(saved);
  }
  static void masked(LaneState& state, const Decoded& in) {
    const u32 saved = get_mxcsr();
    set_mxcsr(mxcsr(Mode));
    Lanes<F>::masked(state, in);
    set_mxcsr(saved);
  }
};

template <auto F, Rounding Mode>
constexpr FormRow directed_row(const char* name) {
  return FormRow{name, Lanes<F>::form(&Directed<F, Mode>::full, &Directed<F, Mode>::masked)};
}

}  // namespace
}  // namespace stepbench::vm::SB_ISA

/// Defines `FormTable name()` over a constant array of rows.
#define SB_FORM_TABLE(name, ...)                               \
  FormTable name() {                                           \
    static constexpr FormRow kRows[] = {__VA_ARGS__};          \
    return FormTable{kRows, sizeof(kRows) / sizeof(kRows[0])}; \
  }
