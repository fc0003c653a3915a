// One lane of any form by its name, in terms of reference.h. Names the reference does not know give no answer, and the
// test then fails: every form in the VM's table needs a row of meaning here.
// Longer than 500 lines because it is the whole lane-wise instruction set, and one place is easier to check than
// several.
#pragma once

#include <algorithm>

#include "tests/arithmetic/reference.h"

namespace stepbench::vm::reference {

struct Expected {
  u64 d[4] = {0, 0, 0, 0};
  uint32_t carry = 0;
  bool writes_carry = false;
  // Approximations: each part of d is a number of `format` that must lie within half_ulps/2 units of value[part].
  bool approximate = false;
  bool flushes = false;
  Format format = kF32;
  int parts = 1;
  long double value[2] = {0, 0};
  long double ulps = 0.5001L;
};

struct Form {
  std::string opcode, operands;
  std::vector<std::string> modifiers;
  bool has(std::string_view m) const { return std::find(modifiers.begin(), modifiers.end(), m) != modifiers.end(); }
};
inline Form parse_form(std::string_view name) {
  Form f;
  const size_t blank = name.find(' ');
  if (blank != std::string_view::npos) f.operands = name.substr(blank + 1);
  name = name.substr(0, blank);
  size_t at = name.find('.');
  f.opcode = name.substr(0, at);
  while (at != std::string_view::npos) {
    const size_t next = name.find('.', at + 1);
    f.modifiers.emplace_back(name.substr(at + 1, next == std::string_view::npos ? next : next - at - 1));
    at = next;
  }
  return f;
}

struct Type {
  char kind;  // u s b f p; h: bf16
  int width;
  bool packed = false;
  bool is_float() const { return kind == 'f' || kind == 'h'; }
  bool is_signed() const { return kind == 's'; }
  Format format() const { return kind == 'h' ? kBf16 : width == 16 ? kF16 : width == 32 ? kF32 : kF64; }
  u64 mask() const { return width == 64 ? ~u64{0} : (u64{1} << width) - 1; }
};
inline std::optional<Type> type_of(const std::string& m) {
  if (m == "pred") return Type{'p', 32};
  if (m == "bf16") return Type{'h', 16};
  if (m == "bf16x2") return Type{'h', 16, true};
  if (m == "f16x2") return Type{'f', 16, true};
  if (m == "u16x2") return Type{'u', 16, true};
  if (m == "s16x2") return Type{'s', 16, true};
  for (const char kind : {'u', 's', 'b', 'f'}) {
    for (const int width : {8, 16, 32, 64}) {
      if (m == kind + std::to_string(width) && !(kind == 'f' && width == 8)) return Type{kind, width};
    }
  }
  return std::nullopt;
}
inline std::vector<Type> types_of(const Form& f) {
  std::vector<Type> types;
  for (const auto& m : f.modifiers) {
    if (const auto t = type_of(m)) types.push_back(*t);
  }
  return types;
}
inline Mode mode_of(const Form& f) {
  if (f.has("rz") || f.has("rzi")) return Mode::kZero;
  if (f.has("rm") || f.has("rmi")) return Mode::kDown;
  if (f.has("rp") || f.has("rpi")) return Mode::kUp;
  return Mode::kNearest;
}
inline s128 value_of(u64 b, Type t) {
  b &= t.mask();
  if (t.is_signed() && ((b >> (t.width - 1)) & 1) != 0) return static_cast<s128>(b) - (static_cast<s128>(1) << t.width);
  return static_cast<s128>(b);
}
inline s128 lowest(Type t) { return t.is_signed() ? -(static_cast<s128>(1) << (t.width - 1)) : 0; }
inline s128 highest(Type t) { return (static_cast<s128>(1) << (t.is_signed() ? t.width - 1 : t.width)) - 1; }

inline u64 flushed(u64 b, Format f, bool ftz) { return ftz && f.is_subnormal(b) ? b & f.sign() : b; }
inline u64 one(Format f) { return static_cast<u64>(f.bias()) << f.mantissa_bits; }
inline u64 clamped(u64 b, Format f, bool sat, bool relu) {
  const bool negative = (b & f.sign()) != 0;
  if (sat) return f.is_nan(b) || negative ? 0 : std::min(b, one(f));
  if (relu && !f.is_nan(b) && negative) return 0;
  return b;
}

/// Arithmetic on one float format.
inline std::optional<u64> float_arithmetic(const Form& form, Type t, const u64* in) {
  const Format f = t.format();
  const bool ftz = form.has("ftz");
  u64 s[3];
  Number n[3];
  for (int i = 0; i < 3; ++i) {
    s[i] = flushed(in[i], f, ftz);
    n[i] = number_of(s[i], f);
  }
  const Mode mode = mode_of(form);
  const std::string& op = form.opcode;
  const auto canonical = [&](u64 b) { return f.is_nan(b) ? f.nan() : b; };
  if (op == "neg") return canonical(s[0] ^ f.sign());
  if (op == "abs") return canonical(s[0] & ~f.sign());
  if (op == "copysign") return (in[0] & f.sign()) | (in[1] & ~f.sign());
  if (op == "min" || op == "max") {
    const bool max = op == "max";
    const auto pick = [&](u64 a, u64 b) {
      const u64 sign = (a ^ b) & f.sign();
      if (form.has("xorsign")) a &= ~f.sign(), b &= ~f.sign();
      u64 r;
      if (f.is_nan(a) && f.is_nan(b)) return f.nan();
      if (f.is_nan(a) || f.is_nan(b)) {
        if (form.has("NaN")) return f.nan();
        r = f.is_nan(a) ? b : a;
      } else {
        int o = order(number_of(a, f), number_of(b, f));
        if (o == 0) o = (a & f.sign()) != 0 ? -1 : 1;  // -0 < +0
        r = (o > 0) == max ? a : b;
        if (a == b)
          r = a;
        else if (order(number_of(a, f), number_of(b, f)) == 0)
          r = max ? a & b : a | b;
      }
      return form.has("xorsign") ? r | sign : r;
    };
    const u64 r = pick(s[0], s[1]);
    return form.operands == "3" ? pick(r, s[2]) : r;
  }
  Number r;
  if (op == "add")
    r = sum(n[0], n[1], mode);
  else if (op == "sub")
    r = sum(n[0], negated(n[1]), mode);
  else if (op == "mul")
    r = product(n[0], n[1]);
  else if (op == "fma" || op == "mad")
    r = sum(product(n[0], n[1]), n[2], mode);
  else if (op == "div")
    r = quotient(n[0], n[1]);
  else if (op == "rcp")
    r = quotient(integer_number(1), n[0]);
  else if (op == "sqrt")
    r = root(n[0]);
  else
    return std::nullopt;
  const Rounded rounded = round_number(r, f, mode);
  const u64 b = ftz && rounded.tiny ? rounded.bits & f.sign() : rounded.bits;
  return clamped(b, f, form.has("sat"), form.has("relu"));
}

inline bool float_test(const std::string& op, u64 a, u64 b, Format f) {
  const bool unordered = f.is_nan(a) || f.is_nan(b);
  if (op == "num") return !unordered;
  if (op == "nan") return unordered;
  const bool or_unordered = op.size() == 3;
  if (unordered) return or_unordered;
  const int o = order(number_of(a, f), number_of(b, f));
  const std::string base = op.substr(0, 2);
  return base == "eq"   ? o == 0
         : base == "ne" ? o != 0
         : base == "lt" ? o < 0
         : base == "le" ? o <= 0
         : base == "gt" ? o > 0
                        : o >= 0;
}
inline bool int_test(const std::string& op, s128 a, s128 b) {
  if (op == "eq") return a == b;
  if (op == "ne") return a != b;
  if (op == "lt" || op == "lo") return a < b;
  if (op == "le" || op == "ls") return a <= b;
  if (op == "gt" || op == "hi") return a > b;
  return a >= b;
}
inline bool boolean(const Form& f, bool t, bool c) {
  if (f.has("and")) return t && c;
  if (f.has("or")) return t || c;
  if (f.has("xor")) return t != c;
  return t;
}

inline std::optional<Expected> comparison(const Form& f, const u64* in) {
  const auto types = types_of(f);
  const Type t = types.back();
  const auto test = [&](u64 a, u64 b) {
    if (!t.is_float()) return int_test(f.modifiers[0], value_of(a, t), value_of(b, t));
    const Format fmt = t.format();
    return float_test(f.modifiers[0], flushed(a & t.mask(), fmt, f.has("ftz")),
                      flushed(b & t.mask(), fmt, f.has("ftz")), fmt);
  };
  const bool c = in[2] != 0;
  const bool low = test(in[0], in[1]);
  const bool high = t.packed && test(in[0] >> 16, in[1] >> 16);
  Expected e;
  if (f.opcode == "setp") {
    e.d[0] = boolean(f, low, c);
    e.d[1] = boolean(f, t.packed ? high : !low, c);
    return e;
  }
  const Type d = types[0];
  const auto write = [&](bool r, int width) -> u64 {
    if (!r) return 0;
    if (d.is_float()) return one(d.format());
    return width == 64 ? ~u64{0} : (u64{1} << width) - 1;
  };
  if (t.packed)
    e.d[0] = write(boolean(f, low, c), 16) | write(boolean(f, high, c), 16) << 16;
  else
    e.d[0] = write(boolean(f, low, c), d.width);
  return e;
}

inline u64 fp8_from(u64 b32, bool e4m3) {
  if (kF32.is_nan(b32)) return 0x7f;
  const u64 sign = (b32 >> 31) << 7;
  float x;
  const uint32_t word = static_cast<uint32_t>(b32 & 0x7fffffffu);
  std::memcpy(&x, &word, 4);
  u64 best = 0;
  double distance = HUGE_VAL;
  for (u64 code = 0; code <= (e4m3 ? 0x7eu : 0x7bu); ++code) {
    const int mantissa_bits = e4m3 ? 3 : 2, bias = e4m3 ? 7 : 15;
    const int field = static_cast<int>(code >> mantissa_bits), m = static_cast<int>(code & ((1u << mantissa_bits) - 1));
    const double v =
        std::ldexp(field != 0 ? m + (1 << mantissa_bits) : m, (field != 0 ? field : 1) - bias - mantissa_bits);
    const double away =
        std::fabs(std::min(static_cast<double>(x), 1e6) - v);  // 1e6: beyond every value, exactly subtractable
    if (away < distance || (away == distance && (code & 1) == 0)) best = code, distance = away;
  }
  return sign | best;
}
inline u64 fp8_to_f16(u64 code, bool e4m3) {
  const u64 sign = (code & 0x80) << 8;
  code &= 0x7f;
  if (code > (e4m3 ? 0x7eu : 0x7cu)) return 0x7fff;
  if (!e4m3) return sign | code << 8;
  Number n;
  n.words = words_of((code & 7) | (code >= 8 ? 8 : 0));
  n.exponent = static_cast<int>(code >= 8 ? code >> 3 : 1) - 7 - 3;
  return sign | round_number(n, kF16, Mode::kNearest).bits;
}

inline u64 extended(u64 v, Type t) {  // 8-bit results fill a 2-byte slot
  if (t.width != 8) return v & t.mask();
  return static_cast<u64>(value_of(v, t)) & 0xffff;
}

inline std::optional<Expected> conversion(const Form& f, const u64* in) {
  Expected e;
  const bool ftz = f.has("ftz"), sat = f.has("sat"), relu = f.has("relu");
  const Mode mode = mode_of(f);
  const std::string& to = f.modifiers[f.modifiers.size() - 2];
  const std::string& from = f.modifiers.back();
  if (to == "tf32") {
    const u64 b = clamped(in[0], kF32, false, relu);
    if (kF32.is_nan(b)) {
      e.d[0] = 0x7fffe000;
    } else if (f.has("rna")) {
      // Ties away from zero: add half a place to the magnitude, cut.
      e.d[0] = (b & 0x7f800000u) == 0x7f800000u ? b : (b + 0x1000) & 0xffffe000u;
    } else {
      e.d[0] = round_number(number_of(b, kF32), Format{8, 10}, mode).bits << 13;
    }
    return e;
  }
  if (to == "e4m3x2" || to == "e5m2x2") {
    const bool e4m3 = to == "e4m3x2";
    u64 high = in[0], low = in[1];
    if (from == "f16x2") {
      high = round_number(number_of(in[0] >> 16, kF16), kF32, Mode::kNearest).bits;
      low = round_number(number_of(in[0] & 0xffff, kF16), kF32, Mode::kNearest).bits;
    }
    e.d[0] = fp8_from(clamped(high, kF32, false, relu), e4m3) << 8 | fp8_from(clamped(low, kF32, false, relu), e4m3);
    return e;
  }
  if (from == "e4m3x2" || from == "e5m2x2") {
    for (int i = 0; i < 2; ++i) {
      e.d[0] |= clamped(fp8_to_f16((in[0] >> (8 * i)) & 0xff, from == "e4m3x2"), kF16, false, relu) << (16 * i);
    }
    return e;
  }
  const auto d = type_of(to), s = type_of(from);
  if (!d || !s) return std::nullopt;
  if (d->packed) {
    const Format half = d->format();
    for (int i = 0; i < 2; ++i) {
      const u64 r = round_number(number_of(in[1 - i], kF32), half, mode).bits;
      e.d[0] |= clamped(r, half, false, relu) << (16 * i);
    }
    return e;
  }
  if (!s->is_float() && !d->is_float()) {
    s128 v = value_of(in[0], *s);
    if (sat) v = std::clamp(v, lowest(*d), highest(*d));
    e.d[0] = extended(static_cast<u64>(v), *d);
    return e;
  }
  if (!s->is_float()) {
    e.d[0] = clamped(round_number(integer_number(value_of(in[0], *s)), d->format(), mode).bits, d->format(), sat, relu);
    return e;
  }
  const Format sf = s->format();
  u64 b = in[0] & s->mask();
  if (!d->is_float()) {
    if (sf.is_nan(b)) {
      e.d[0] = s->width == 64 || d->width == 64 ? extended(u64{1} << (d->width - 1), *d) : 0;
      return e;
    }
    const Number n = integral(number_of(flushed(b, sf, ftz && s->width == 32), sf), mode);
    s128 v = n.negative ? lowest(*d) : highest(*d);
    if (n.kind == Number::kFinite && bit_length(n.words) + n.exponent <= 100) {
      const auto w = shifted_left(n.words, n.zero() ? 0 : n.exponent);
      u128 magnitude = 0;
      for (size_t i = w.size(); i-- > 0;) magnitude = magnitude << 32 | w[i];
      const s128 x = n.negative ? -static_cast<s128>(magnitude) : static_cast<s128>(magnitude);
      v = std::clamp(x, lowest(*d), highest(*d));
    }
    e.d[0] = extended(static_cast<u64>(v), *d);
    return e;
  }
  const Format df = d->format();
  const bool same = d->kind == s->kind && d->width == s->width;
  const bool rounds_to_integral = f.has("rni") || f.has("rzi") || f.has("rmi") || f.has("rpi");
  if (same && d->width >= 32 && !ftz && !sat && !rounds_to_integral) {
    e.d[0] = b;  // a plain copy
    return e;
  }
  if (s->kind == 'h' && d->width == 32 && d->kind == 'f' && !ftz && sf.is_nan(b)) {
    e.d[0] = b << 16;
    return e;
  }
  if (d->width == 16 && d->kind == 'f') {
    // f16 results: .ftz leaves f32 sources alone
  } else if (sf.exponent_bits == 8 && s->width == 32) {
    b = flushed(b, sf, ftz);
  }
  Number n = number_of(b, sf);
  if (same && rounds_to_integral) n = integral(n, mode);
  const Rounded r = round_number(n, df, same ? Mode::kNearest : mode);
  u64 bits = ftz && d->width == 32 && r.tiny && !same ? r.bits & df.sign() : r.bits;
  e.d[0] = clamped(bits, df, sat, relu);
  return e;
}

inline long double real(u64 b, Format f) {
  const Number n = number_of(b, f);
  if (n.kind == Number::kNan) return NAN;
  long double v = n.kind == Number::kInfinite ? HUGE_VALL : 0;
  if (n.kind == Number::kFinite) {
    for (size_t i = n.words.size(); i-- > 0;) v = v * 4294967296.0L + n.words[i];
    v = std::ldexp(v, n.exponent);
  }
  return n.negative ? -v : v;
}

inline std::optional<Expected> approximation(const Form& f, const u64* in) {
  const Type t = types_of(f)[0];
  Expected e;
  e.approximate = true;
  e.format = t.format();
  e.flushes = f.has("ftz");
  e.parts = t.packed ? 2 : 1;
  for (int i = 0; i < e.parts; ++i) {
    const auto operand = [&](int k) {
      u64 b = (in[k] >> (16 * i)) & t.mask();
      if (t.width == 64 && f.has("ftz")) b &= 0xffffffff00000000ull;
      return real(flushed(b, e.format, e.flushes), e.format);
    };
    const long double x = operand(0);
    long double r;
    if (f.opcode == "rcp")
      r = 1 / x;
    else if (f.opcode == "sqrt")
      r = std::sqrt(x);
    else if (f.opcode == "rsqrt")
      r = 1 / std::sqrt(x);
    else if (f.opcode == "ex2")
      r = std::exp2(x);
    else if (f.opcode == "lg2")
      r = x < 0 ? NAN : std::log2(x);
    else if (f.opcode == "sin")
      r = std::sin(x);
    else if (f.opcode == "cos")
      r = std::cos(x);
    else if (f.opcode == "tanh")
      r = std::tanh(x);
    else if (f.opcode == "div") {
      const long double y = operand(1);
      r = x / y;
      // PTX ISA "div.approx": nothing is promised beyond 2^126 except 0, or NaN for an infinite dividend.
      if (f.has("approx") && std::fabs(y) > 0x1p126L && std::isfinite(y))
        r = std::isinf(x) ? NAN : x * std::copysign(0.0L, y);
    } else {
      return std::nullopt;
    }
    e.value[i] = r;
  }
  if (t.width == 64) e.ulps = f.has("ftz") ? 0x1p32L : 2;
  return e;
}

/// Whether `got` satisfies an approximate expectation.
inline bool within(const Expected& e, u64 got) {
  const Format f = e.format;
  for (int i = 0; i < e.parts; ++i) {
    const u64 b = e.parts == 2 ? (got >> (16 * i)) & 0xffff : got;
    const long double v = e.value[i], g = real(b, f);
    if (std::isnan(v)) {
      if (f.width() == 64 && e.flushes ? b != 0x7fffffff00000000ull : b != f.nan()) return false;
      continue;
    }
    if (std::isnan(g)) return false;
    if (std::signbit(v) != ((b & f.sign()) != 0)) return false;
    const long double smallest = std::ldexp(1.0L, 1 - f.bias()), largest = real(f.infinity() - 1, f);
    if (e.flushes && g == 0) {
      if (std::fabs(v) > smallest) return false;
      continue;
    }
    if (e.flushes && f.is_subnormal(b)) return false;
    if (std::isinf(g) || std::isinf(v)) {
      const long double edge = largest + std::ldexp(1.0L, f.bias() - f.mantissa_bits - 1) * 0.999L;
      if (std::fabs(v) < edge) return false;
      if (!std::isinf(g)) return false;
      continue;
    }
    const int exponent = v == 0 ? 1 - f.bias() : std::max(std::ilogb(v), 1 - f.bias());
    if (std::fabs(g - v) > e.ulps * std::ldexp(1.0L, exponent - f.mantissa_bits)) return false;
  }
  return true;
}

inline u64 signed_byte(u64 x, int n, bool is_signed) {
  return static_cast<u64>(value_of(x >> (8 * n), Type{is_signed ? 's' : 'u', 8}));
}

inline std::optional<u64> integer_arithmetic(const Form& f, Type t, const u64* in) {
  const std::string& op = f.opcode;
  const s128 a = value_of(in[0], t), b = value_of(in[1], t), c = value_of(in[2], t);
  const int w = t.width;
  const auto bounded = [&](s128 v) { return f.has("sat") ? std::clamp(v, lowest(t), highest(t)) : v; };
  s128 r = 0;
  if (op == "add")
    r = bounded(a + b);
  else if (op == "sub")
    r = bounded(a - b);
  else if (op == "neg")
    r = -a;
  else if (op == "abs")
    r = a < 0 ? -a : a;
  else if (op == "min")
    r = std::min(a, b);
  else if (op == "max")
    r = std::max(a, b);
  else if (op == "sad")
    r = c + (a < b ? b - a : a - b);
  else if (op == "div" || op == "rem") {
    if (b == 0) return t.mask();
    r = op == "div" ? a / b : a % b;
  } else if (op == "mul" || op == "mad") {
    // 64 x 64 -> 128: unsigned products of u64 need the unsigned type; shifting its bits right is then logical.
    const u128 p = static_cast<u128>(a) * static_cast<u128>(b);
    if (f.has("wide")) {
      const Type wide{t.kind, 2 * w};
      return static_cast<u64>(p + (op == "mad" ? static_cast<u128>(value_of(in[2], wide)) : 0)) & wide.mask();
    }
    s128 part;
    if (f.has("hi"))
      part = t.is_signed() ? static_cast<s128>(p) >> w : static_cast<s128>(p >> w);
    else
      part = static_cast<s128>(p);
    r = op == "mad" ? bounded(static_cast<s128>(static_cast<u128>(part) + static_cast<u128>(c))) : part;
  } else if (op == "mul24" || op == "mad24") {
    const Type narrow{t.kind, 24};
    const s128 p = value_of(in[0] & 0xffffff, narrow) * value_of(in[1] & 0xffffff, narrow);
    const s128 part = value_of(static_cast<u64>(f.has("hi") ? p >> 16 : p), t);
    r = op == "mad24" ? bounded(part + c) : part;
  } else {
    return std::nullopt;
  }
  if (f.has("relu") && r < 0) r = 0;
  return static_cast<u64>(r) & t.mask();
}

inline std::optional<u64> bit_operation(const Form& f, Type t, const u64* in) {
  const std::string& op = f.opcode;
  const int w = t.width;
  const u64 a = in[0] & t.mask(), b = in[1] & t.mask();
  const auto at = [](u64 x, int i) { return (x >> i) & 1; };
  u64 r = 0;
  if (op == "and" || op == "or" || op == "xor" || op == "not") {
    for (int i = 0; i < (t.kind == 'p' ? 1 : w); ++i) {
      const u64 x = at(a, i), y = at(b, i);
      r |= (op == "and" ? x * y : op == "or" ? (x + y + 1) / 2 : op == "xor" ? (x + y) % 2 : 1 - x) << i;
    }
    return r;
  }
  if (op == "cnot") return a == 0;
  if (op == "lop3") {
    for (int i = 0; i < 32; ++i) r |= at(in[3], static_cast<int>(4 * at(a, i) + 2 * at(b, i) + at(in[2], i))) << i;
    return r;
  }
  if (op == "shl" || op == "shr") {
    const s64 n = static_cast<s64>(in[1] & 0xffffffffu);
    for (int i = 0; i < w; ++i) {
      const s64 from = op == "shl" ? i - n : i + n;
      const bool sign = t.is_signed() && at(a, w - 1) != 0;
      r |= (from < 0 ? 0 : from >= w ? (op == "shr" && sign ? 1u : 0u) : at(a, static_cast<int>(from))) << i;
    }
    return r;
  }
  if (op == "shf") {
    const u64 c = in[2];
    const int n = static_cast<int>(f.has("clamp") ? std::min<u64>(c, 32) : c % 32);
    for (int i = 0; i < 32; ++i) {
      const int from = f.has("l") ? 32 + i - n : i + n;
      r |= (from < 32 ? at(a, from) : at(b, from - 32)) << i;
    }
    return r;
  }
  if (op == "prmt") {
    const u64 c = in[2];
    static const struct {
      const char* name;
      int index[4][4];
    } kModes[] = {// PTX ISA tables, bytes b0..b3
                  {"f4e", {{0, 1, 2, 3}, {1, 2, 3, 4}, {2, 3, 4, 5}, {3, 4, 5, 6}}},
                  {"b4e", {{0, 7, 6, 5}, {1, 0, 7, 6}, {2, 1, 0, 7}, {3, 2, 1, 0}}},
                  {"rc8", {{0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}}},
                  {"ecl", {{0, 1, 2, 3}, {1, 1, 2, 3}, {2, 2, 2, 3}, {3, 3, 3, 3}}},
                  {"ecr", {{0, 0, 0, 0}, {0, 1, 1, 1}, {0, 1, 2, 2}, {0, 1, 2, 3}}},
                  {"rc16", {{0, 1, 0, 1}, {2, 3, 2, 3}, {0, 1, 0, 1}, {2, 3, 2, 3}}}};
    for (int i = 0; i < 4; ++i) {
      int index = static_cast<int>((c >> (4 * i)) & 7);
      bool replicate = ((c >> (4 * i)) & 8) != 0;
      for (const auto& mode : kModes) {
        if (f.has(mode.name)) index = mode.index[c & 3][i], replicate = false;
      }
      const u64 byte = ((index < 4 ? a : b) >> (8 * (index % 4))) & 0xff;
      r |= (replicate ? (byte >= 0x80 ? 0xff : 0) : byte) << (8 * i);
    }
    return r;
  }
  if (op == "bfe") {
    const int position = static_cast<int>(in[1] & 0xff), length = static_cast<int>(in[2] & 0xff);
    const bool sign = t.is_signed() && length > 0 && at(a, std::min(position + length - 1, w - 1)) != 0;
    for (int i = 0; i < w; ++i)
      r |= (i < length && position + i < w ? at(a, position + i) : static_cast<u64>(sign)) << i;
    return r;
  }
  if (op == "bfi") {
    const int position = static_cast<int>(in[2] & 0xff), length = static_cast<int>(in[3] & 0xff);
    r = b;
    for (int i = 0; i < length && position + i < w; ++i) {
      r = (r & ~(u64{1} << (position + i))) | at(a, i) << (position + i);
    }
    return r;
  }
  if (op == "brev") {
    for (int i = 0; i < w; ++i) r |= at(a, w - 1 - i) << i;
    return r;
  }
  if (op == "clz") {
    while (r < static_cast<u64>(w) && at(a, w - 1 - static_cast<int>(r)) == 0) ++r;
    return r;
  }
  if (op == "popc") {
    for (int i = 0; i < w; ++i) r += at(a, i);
    return r;
  }
  if (op == "bfind") {
    const u64 sign = t.is_signed() ? at(a, w - 1) : 0;
    for (int i = w - 1; i >= 0; --i) {
      if (at(a, i) != sign) return static_cast<u64>(f.has("shiftamt") ? w - 1 - i : i);
    }
    return 0xffffffff;
  }
  if (op == "bmsk") {
    const u64 position = f.has("clamp") ? std::min<u64>(a, 32) : a % 32,
              width = f.has("clamp") ? std::min<u64>(b, 32) : b % 32;
    for (u64 i = position; i < position + width && i < 32; ++i) r |= u64{1} << i;
    return r;
  }
  if (op == "szext") {
    const u64 n = f.has("clamp") ? std::min<u64>(in[1], 32) : in[1] % 32;
    for (u64 i = 0; i < 32; ++i) {
      r |= (i < n ? at(a, static_cast<int>(i)) : t.is_signed() && n > 0 ? at(a, static_cast<int>(n - 1)) : 0) << i;
    }
    return r;
  }
  return std::nullopt;
}

inline std::optional<Expected> extended_precision(const Form& f, Type t, const u64* in, uint32_t carry) {
  const bool reads = f.opcode == "addc" || f.opcode == "subc" || f.opcode == "madc";
  const u128 cc = reads ? carry : 0;
  u128 r;
  if (f.opcode == "sub" || f.opcode == "subc") {
    r = static_cast<u128>(in[0]) - in[1] - cc;
  } else if (f.opcode == "add" || f.opcode == "addc") {
    r = static_cast<u128>(in[0]) + in[1] + cc;
  } else {
    const s128 a = value_of(in[0], t), b = value_of(in[1], t);
    const u128 p = static_cast<u128>(a) * static_cast<u128>(b);
    r = ((f.has("hi") ? p >> t.width : p) & t.mask()) + in[2] + cc;
  }
  Expected e;
  e.d[0] = static_cast<u64>(r) & t.mask();
  e.carry = static_cast<uint32_t>((r >> t.width) & 1);
  e.writes_carry = f.has("cc");
  return e;
}

inline std::optional<Expected> evaluate(std::string_view name, const u64* in, uint32_t carry) {
  const Form f = parse_form(name);
  const std::string& op = f.opcode;
  const auto types = types_of(f);
  Expected e;
  if (op == "setp" || op == "set") return comparison(f, in);
  if (op == "cvt") return conversion(f, in);
  if (f.has("approx") || f.has("full")) return approximation(f, in);
  if (op == "testp") {
    const Format fmt = types[0].format();
    const u64 m = in[0] & ~fmt.sign();
    const std::string& test = f.modifiers[0];
    const bool number = m <= fmt.infinity(), finite = m < fmt.infinity(), subnormal = fmt.is_subnormal(in[0]);
    e.d[0] = test == "finite"       ? finite
             : test == "infinite"   ? number && !finite
             : test == "number"     ? number
             : test == "notanumber" ? !number
             : test == "normal"     ? finite && !subnormal
                                    : subnormal;
    return e;
  }
  if (op == "mov") {
    const int w = types[0].width;
    const bool by_two = f.operands == "pack2" || f.operands == "unpack2";
    const int part = f.operands.empty() ? w : by_two ? w / 2 : w / 4;
    const u64 mask = part == 64 ? ~u64{0} : (u64{1} << part) - 1;
    for (int i = 0; i * part < w; ++i) {
      if (f.operands.substr(0, 4) == "pack")
        e.d[0] |= (in[i] & mask) << (part * i);
      else
        e.d[i] = (in[0] >> (part * i)) & mask;
    }
    return e;
  }
  if (op == "selp") {
    e.d[0] = in[2] != 0 ? in[0] : in[1];
    return e;
  }
  if (op == "slct") {
    const bool first = types[1].kind == 's' ? value_of(in[2], types[1]) >= 0
                                            : float_test("ge", flushed(in[2], kF32, f.has("ftz")), 0, kF32);
    e.d[0] = first ? in[0] : in[1];
    return e;
  }
  if (op == "dp4a" || op == "dp2a") {
    const bool sa = types[0].is_signed(), sb = types[1].is_signed();
    u64 r = in[2];
    for (int i = 0; i < (op == "dp4a" ? 4 : 2); ++i) {
      const u64 x = op == "dp4a" ? signed_byte(in[0], i, sa)
                                 : static_cast<u64>(value_of(in[0] >> (16 * i), Type{sa ? 's' : 'u', 16}));
      r += x * signed_byte(in[1], f.has("hi") ? i + 2 : i, sb);
    }
    e.d[0] = r & 0xffffffff;
    return e;
  }
  if (op == "vabsdiff4" || op == "vabsdiff2") {
    const int part = op == "vabsdiff4" ? 8 : 16;
    const Type lane{types[1].kind, part};
    u64 total = in[2];
    for (int i = 0; i < 32 / part; ++i) {
      const s128 d = value_of(in[0] >> (part * i), lane) - value_of(in[1] >> (part * i), lane);
      const u64 m = static_cast<u64>(d < 0 ? -d : d);
      total += m;
      e.d[0] |= m << (part * i);
    }
    if (f.has("add")) e.d[0] = total & 0xffffffff;
    return e;
  }
  if (types.empty()) return std::nullopt;
  const Type t = types.back();
  if (f.has("cc") || op == "addc" || op == "subc" || op == "madc") return extended_precision(f, t, in, carry);
  const int parts = t.packed ? 2 : 1;
  for (int i = 0; i < parts; ++i) {
    u64 s[4];
    for (int k = 0; k < 4; ++k) s[k] = t.packed ? (in[k] >> (16 * i)) & 0xffff : in[k];
    std::optional<u64> r = t.is_float() ? float_arithmetic(f, t, s) : bit_operation(f, t, s);
    if (!r && !t.is_float()) r = integer_arithmetic(f, t, s);
    if (!r) return std::nullopt;
    e.d[0] |= *r << (16 * i);
  }
  return e;
}

}  // namespace stepbench::vm::reference
