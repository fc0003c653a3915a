// The approximate instructions: rcp sqrt rsqrt div (.approx, .full) ex2 lg2 sin cos tanh on f32, ex2 and tanh on the
// half formats. All are computed in f64 to about 2^-45 and rounded once, which is inside every bound of the PTX ISA and
// the same on every host and level. They are not the bits of any particular GPU. Only + - * / sqrt and bit
// operations are used; coefficients are Taylor coefficients, written exactly rounded.
#include "harness/ptx_vm/arithmetic_float.h"

namespace stepbench::vm::SB_ISA {
namespace {

constexpr f64 kShift = 0x1.8p52;  // adding it rounds to an integer, which then stands in the low mantissa bits

/// 2^x for |x| <= 1000 (NaN passes). 2^f on |f| <= 1/2 by its Taylor polynomial of degree 12: remainder below 2^-52.
SB_LANE f64 power_of_two(f64 x) {
  const f64 shifted = x + kShift;
  const f64 f = x - (shifted - kShift);
  f64 p = 0x1.c3bd650fc2986p-36;
  p = p * f + 0x1.e8cac7351bb25p-32;
  p = p * f + 0x1.e4cf5158b8ecap-28;
  p = p * f + 0x1.b5253d395e7c4p-24;
  p = p * f + 0x1.62c0223a5c824p-20;
  p = p * f + 0x1.ffcbfc588b0c7p-17;
  p = p * f + 0x1.430912f86c787p-13;
  p = p * f + 0x1.5d87fe78a6731p-10;
  p = p * f + 0x1.3b2ab6fba4e77p-7;
  p = p * f + 0x1.c6b08d704a0c0p-5;
  p = p * f + 0x1.ebfbdff82c58fp-3;
  p = p * f + 0x1.62e42fefa39efp-1;
  p = p * f + 1.0;
  return p * bits_to<f64>((bits_to<u64>(shifted) + 1023) << 52);
}
SB_LANE f64 ex2_of(f64 x) { return power_of_two(x < -200.0 ? -200.0 : x > 200.0 ? 200.0 : x); }

/// log2 of a positive finite normal f64: x = 2^e * m with m in [sqrt(1/2), sqrt(2)), log2 m = 2/ln2 *
/// artanh((m-1)/(m+1)).
SB_LANE f64 log2_of(f64 x) {
  constexpr u64 kRootHalf = 0x3fe6a09e667f3bcdull;
  const u64 b = bits_to<u64>(x);
  const u64 biased = (b - kRootHalf + (1024ull << 52)) >> 52;  // e + 1024
  const f64 m = bits_to<f64>(b - ((biased - 1024) << 52));
  const f64 e = bits_to<f64>(0x4330000000000000ull | biased) - (0x1p52 + 1024.0);
  const f64 t = (m - 1.0) / (m + 1.0), t2 = t * t;
  f64 p = 0x1.1964ec6fc9491p-3;
  p = p * t2 + 0x1.3703c1f4d0ffep-3;
  p = p * t2 + 0x1.5b9ac9b743f0dp-3;
  p = p * t2 + 0x1.89f3b1694cffep-3;
  p = p * t2 + 0x1.c68f568d31760p-3;
  p = p * t2 + 0x1.0c9a84994022dp-2;
  p = p * t2 + 0x1.484b13d7c02a9p-2;
  p = p * t2 + 0x1.a61762a7aded9p-2;
  p = p * t2 + 0x1.2776c50ef9bfep-1;
  p = p * t2 + 0x1.ec709dc3a03fdp-1;
  p = p * t2 + 0x1.71547652b82fep+1;
  return e + t * p;
}

SB_LANE f64 tanh_of(f64 x) {
  const f64 y = __builtin_fabs(x);
  const f64 e = power_of_two((y > 20.0 ? 20.0 : y) * 0x1.71547652b82fep+1);
  const f64 r = y < 0x1p-12 ? y - y * y * y * (1.0 / 3.0) : (e - 1.0) / (e + 1.0);
  return __builtin_copysign(r, x);
}

template <bool Ftz>
SB_LANE f32 rounded(f64 x) {
  return result<Ftz, false>(static_cast<f32>(x));
}
template <bool Ftz>
SB_LANE f64 operand(f32 x) {
  return static_cast<f64>(source<Ftz>(x));
}

template <bool Ftz>
SB_LANE f32 rcp(f32 a) {
  return rounded<Ftz>(1.0 / operand<Ftz>(a));
}
template <bool Ftz>
SB_LANE f32 sqrt(f32 a) {
  return rounded<Ftz>(__builtin_sqrt(operand<Ftz>(a)));
}
template <bool Ftz>
SB_LANE f32 rsqrt(f32 a) {
  return rounded<Ftz>(1.0 / __builtin_sqrt(operand<Ftz>(a)));
}
template <bool Ftz>
SB_LANE f32 div_full(f32 a, f32 b) {
  return rounded<Ftz>(operand<Ftz>(a) / operand<Ftz>(b));
}
/// Defined as a * (1 / b) with a reciprocal that is 0 beyond 2^126 (PTX ISA, "div"): 0 there, NaN if a is infinite.
template <bool Ftz>
SB_LANE f32 div_approx(f32 a, f32 b) {
  const f64 x = operand<Ftz>(a), y = operand<Ftz>(b), size = __builtin_fabs(y);
  const f64 beyond = x * __builtin_copysign(0.0, y);
  return rounded<Ftz>(size > 0x1p126 && size < 0x1p128 ? beyond : x / y);
}
template <bool Ftz>
SB_LANE f32 ex2(f32 a) {
  return rounded<Ftz>(ex2_of(operand<Ftz>(a)));
}
template <bool Ftz>
SB_LANE f32 lg2(f32 a) {
  const f64 x = operand<Ftz>(a);
  constexpr f64 kInfinity = __builtin_inf();
  const bool ordinary = x > 0 && x < kInfinity;
  const f64 special = x == 0 ? -kInfinity : x > 0 ? x : __builtin_nan("");
  return rounded<Ftz>(ordinary ? log2_of(ordinary ? x : 1.0) : special);
}
SB_LANE f32 tanh(f32 a) { return rounded<false>(tanh_of(static_cast<f64>(a))); }

template <class H, bool Ftz>
SB_LANE H ex2_half(H a) {
  return source_half<Ftz>(half_from<H, kRn>(narrow_to_odd(ex2_of(static_cast<f64>(widen(source_half<Ftz>(a)))))));
}
template <class H>
SB_LANE H tanh_half(H a) {
  return half_from<H, kRn>(narrow_to_odd(tanh_of(static_cast<f64>(widen(a)))));
}
template <class P, auto F>
SB_LANE P both(P a) {
  return pack<P>(F(low_half(a)), F(high_half(a)));
}

// sin and cos: x = n * pi/2 + r, |r| <= pi/4, then Taylor polynomials.
SB_LANE f64 sine_polynomial(f64 r) {
  const f64 r2 = r * r;
  f64 p = 0x1.952c77030ad4ap-49;
  p = p * r2 - 0x1.ae7f3e733b81fp-41;
  p = p * r2 + 0x1.6124613a86d09p-33;
  p = p * r2 - 0x1.ae64567f544e4p-26;
  p = p * r2 + 0x1.71de3a556c734p-19;
  p = p * r2 - 0x1.a01a01a01a01ap-13;
  p = p * r2 + 0x1.1111111111111p-7;
  p = p * r2 - 0x1.5555555555555p-3;
  return r * (1.0 + r2 * p);  // keeps the sign of -0
}
SB_LANE f64 cosine_polynomial(f64 r) {
  const f64 r2 = r * r;
  f64 p = 0x1.ae7f3e733b81fp-45;
  p = p * r2 - 0x1.93974a8c07c9dp-37;
  p = p * r2 + 0x1.1eed8eff8d898p-29;
  p = p * r2 - 0x1.27e4fb7789f5cp-22;
  p = p * r2 + 0x1.a01a01a01a01ap-16;
  p = p * r2 - 0x1.6c16c16c16c17p-10;
  p = p * r2 + 0x1.5555555555555p-5;
  p = p * r2 - 0.5;
  return 1.0 + r2 * p;
}
/// sin(r + quarter * pi/2); cos is sin a quarter turn on.
SB_LANE f64 sine_in_quarter(f64 r, u64 quarter) {
  const f64 value = (quarter & 1) != 0 ? cosine_polynomial(r) : sine_polynomial(r);
  return bits_to<f64>(bits_to<u64>(value) ^ (quarter & 2) << 62);
}
constexpr f64 kLarge = 0x1p20;
/// |x| < 2^20: pi/2 in pieces of 33, 33 and 53 bits, so that n (20 bits) times a piece is exact (Cody and Waite 1980).
template <bool Cosine>
SB_LANE f64 sine_of_moderate(f64 x) {
  const f64 shifted = x * 0x1.45f306dc9c883p-1 + kShift;
  const f64 n = shifted - kShift;
  const f64 r = ((x - n * 0x1.921fb54400000p+0) - n * 0x1.0b4611a600000p-34) - n * 0x1.3198a2e037073p-69;
  return sine_in_quarter(r, bits_to<u64>(shifted) + (Cosine ? 1 : 0));
}
/// |x| >= 2^20, finite: the product with 2/pi to 128 bits (Payne and Hanek 1983).
template <bool Cosine>
[[gnu::noinline]] inline f64 sine_of_large(f32 x) {
  using u128 = unsigned __int128;
  // 2/pi: the fraction's bits after one word of zeros.
  static constexpr u32 kTwoOverPi[9] = {0,           0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u,
                                        0xdb629599u, 0x3c439041u, 0xfe5163abu, 0xdebbc561u};
  const u32 b = bits_to<u32>(x);
  const u32 exponent = (b >> 23) & 0xff;             // 147..254
  const u64 mantissa = (b & 0x7fffffu) | 0x800000u;  // |x| = mantissa * 2^(exponent - 150)
  // Bits of 2/pi worth 4 or more after the multiplication drop out of the quarter count.
  const u32 first = exponent - 150 - 2 + 32;
  const u32 word = first / 32, offset = first % 32;
  u128 window = 0;
  for (u32 k = 0; k < 4; ++k) window = window << 32 | kTwoOverPi[word + k];
  if (offset != 0) window = window << offset | kTwoOverPi[word + 4] >> (32 - offset);
  const u128 product = window * mantissa;  // quarters * 2^126, modulo 4 quarters
  const u128 fraction = product << 2;
  u64 quarter = static_cast<u64>(product >> 126) + static_cast<u64>(fraction >> 127);
  const f64 high = static_cast<f64>(static_cast<s64>(static_cast<u64>(fraction >> 64)));
  const f64 low = static_cast<f64>(static_cast<s64>(static_cast<u64>(fraction) >> 1)) * 2.0;
  f64 r = (high * 0x1p-64 + low * 0x1p-128) * 0x1.921fb54442d18p+0;
  if ((b >> 31) != 0) {
    r = -r;
    quarter = 0 - quarter;
  }
  return sine_in_quarter(r, quarter + (Cosine ? 1 : 0));
}

/// Not an ordinary lane function, so that the rare large arguments do not keep the common loop from being vectorised.
template <bool Cosine, bool Ftz>
struct SineLanes {
  [[gnu::noinline]] static void compute(f32* d, const void* a_lanes) {
    const auto* a = in_lanes<f32>(a_lanes);
    u32 large = 0;
    SB_FOR_LANES {
      const f64 x = operand<Ftz>(a[i]);
      large |= __builtin_fabs(x) >= kLarge ? 1u : 0u;
      d[i] = rounded<Ftz>(sine_of_moderate<Cosine>(x));
    }
    if (large == 0) return;
    for (int i = 0; i < kLanes; ++i) {
      const f32 size = __builtin_fabsf(a[i]);
      if (size < static_cast<f32>(kLarge) || !(size <= 0x1.fffffep127f)) continue;  // infinity and NaN gave NaN above
      d[i] = rounded<Ftz>(sine_of_large<Cosine>(a[i]));
    }
  }
  static void full(LaneState& state, const Decoded& in) {
    alignas(64) f32 r[kLanes];
    compute(r, state.registers + in.a);
    __builtin_memcpy(state.registers + in.d, r, sizeof(r));
  }
  static void masked(LaneState& state, const Decoded& in) {
    alignas(64) f32 r[kLanes];
    compute(r, state.registers + in.a);
    blend_bytes<4>(state.registers + in.d, r, state.active);
  }
};
template <bool Cosine, bool Ftz>
constexpr FormRow sine_row(const char* name) {
  using L = SineLanes<Cosine, Ftz>;
  return FormRow{name,
                 ArithmeticForm{&L::full, &L::masked, 1, {4, 4}, false, 1, {4, 4, 4, 4}, {true, false, false, false}}};
}

}  // namespace

#define APPROX(op, f) row<&f<false>>(op ".f32"), row<&f<true>>(op ".ftz.f32")

SB_FORM_TABLE(forms_approx, APPROX("rcp.approx", rcp), APPROX("sqrt.approx", sqrt), APPROX("rsqrt.approx", rsqrt),
              APPROX("div.approx", div_approx), APPROX("div.full", div_full), APPROX("ex2.approx", ex2),
              APPROX("lg2.approx", lg2), sine_row<false, false>("sin.approx.f32"),
              sine_row<false, true>("sin.approx.ftz.f32"), sine_row<true, false>("cos.approx.f32"),
              sine_row<true, true>("cos.approx.ftz.f32"), row<&tanh>("tanh.approx.f32"),
              row<&ex2_half<F16, false>>("ex2.approx.f16"),
              row<&both<F16x2, &ex2_half<F16, false>>>("ex2.approx.f16x2"),
              row<&ex2_half<BF16, true>>("ex2.approx.ftz.bf16"),
              row<&both<BF16x2, &ex2_half<BF16, true>>>("ex2.approx.ftz.bf16x2"),
              row<&tanh_half<F16>>("tanh.approx.f16"), row<&both<F16x2, &tanh_half<F16>>>("tanh.approx.f16x2"),
              row<&tanh_half<BF16>>("tanh.approx.bf16"), row<&both<BF16x2, &tanh_half<BF16>>>("tanh.approx.bf16x2"))

}  // namespace stepbench::vm::SB_ISA
