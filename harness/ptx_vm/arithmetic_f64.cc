// f64 arithmetic with every rounding: add sub mul fma (mad) div sqrt rcp rsqrt neg abs min max copysign testp.
#include "harness/ptx_vm/arithmetic_float.h"

namespace stepbench::vm::SB_ISA {
namespace {

SB_LANE f64 add(f64 a, f64 b) { return canonical(a + b); }
SB_LANE f64 sub(f64 a, f64 b) { return canonical(a - b); }
SB_LANE f64 mul(f64 a, f64 b) { return canonical(a * b); }
SB_LANE f64 fma(f64 a, f64 b, f64 c) { return canonical(fused(a, b, c)); }
SB_LANE f64 div(f64 a, f64 b) { return canonical(a / b); }
SB_LANE f64 sqrt(f64 a) { return canonical(__builtin_sqrt(a)); }
SB_LANE f64 rcp(f64 a) { return canonical(1.0 / a); }
SB_LANE f64 neg(f64 a) { return canonical(-a); }
SB_LANE f64 abs(f64 a) { return canonical(__builtin_fabs(a)); }
SB_LANE f64 min(f64 a, f64 b) { return pick<false, false, false>(a, b); }
SB_LANE f64 max(f64 a, f64 b) { return pick<true, false, false>(a, b); }
SB_LANE f64 copysign(f64 a, f64 b) {
  return bits_to<f64>((bits_to<u64>(a) & (1ull << 63)) | (bits_to<u64>(b) & ~(1ull << 63)));
}
/// Two correctly rounded steps: below 2 ulp, the bound of rsqrt.approx.f64.
SB_LANE f64 rsqrt(f64 a) { return canonical(1.0 / __builtin_sqrt(a)); }

// The "gross" forms (PTX ISA, "rcp.approx.ftz.f64", "rsqrt.approx.ftz.f64"): only the upper 32 bits of the operand
// count, the lower 32 of the result are zero, subnormals are zero on both sides.
SB_LANE f64 upper(f64 a) { return flush(bits_to<f64>(bits_to<u64>(a) & 0xffffffff00000000ull)); }
SB_LANE f64 gross(f64 r) { return r == r ? upper(r) : bits_to<f64>(0x7fffffff00000000ull); }
SB_LANE f64 rcp_gross(f64 a) { return gross(1.0 / upper(a)); }
SB_LANE f64 rsqrt_gross(f64 a) { return gross(1.0 / __builtin_sqrt(upper(a))); }

enum Class { kFinite, kInfinite, kNumber, kNotANumber, kNormal, kSubnormal };
template <Class Kind>
SB_LANE u32 testp(f64 a) {
  constexpr u64 kInfinity = 0x7ffull << 52, kSmallest = 1ull << 52;
  const u64 m = bits_to<u64>(a) & ~(1ull << 63);
  if constexpr (Kind == kFinite) return m < kInfinity;
  if constexpr (Kind == kInfinite) return m == kInfinity;
  if constexpr (Kind == kNumber) return m <= kInfinity;
  if constexpr (Kind == kNotANumber) return m > kInfinity;
  if constexpr (Kind == kNormal) return m == 0 || (m >= kSmallest && m < kInfinity);  // zero counts as normal
  if constexpr (Kind == kSubnormal) return m != 0 && m < kSmallest;
}

}  // namespace

#define DIRECTED(op, f) \
  directed_row<&f, kRz>(op ".rz.f64"), directed_row<&f, kRm>(op ".rm.f64"), directed_row<&f, kRp>(op ".rp.f64")
#define ROUNDED(op, f) row<&f>(op ".f64"), row<&f>(op ".rn.f64"), DIRECTED(op, f)
#define IEEE(op, f) row<&f>(op ".rn.f64"), DIRECTED(op, f)

SB_FORM_TABLE(forms_f64, ROUNDED("add", add), ROUNDED("sub", sub), ROUNDED("mul", mul), IEEE("fma", fma),
              IEEE("mad", fma), IEEE("div", div), IEEE("sqrt", sqrt), IEEE("rcp", rcp), row<&rsqrt>("rsqrt.approx.f64"),
              row<&rcp_gross>("rcp.approx.ftz.f64"), row<&rsqrt_gross>("rsqrt.approx.ftz.f64"), row<&neg>("neg.f64"),
              row<&abs>("abs.f64"), row<&min>("min.f64"), row<&max>("max.f64"), row<&copysign>("copysign.f64"),
              row<&testp<kFinite>>("testp.finite.f64"), row<&testp<kInfinite>>("testp.infinite.f64"),
              row<&testp<kNumber>>("testp.number.f64"), row<&testp<kNotANumber>>("testp.notanumber.f64"),
              row<&testp<kNormal>>("testp.normal.f64"), row<&testp<kSubnormal>>("testp.subnormal.f64"))

}  // namespace stepbench::vm::SB_ISA
