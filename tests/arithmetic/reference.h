// An independent scalar reference for the VM's lane-wise instructions: the PTX name of a form is parsed and one lane is
// evaluated with other means than the handlers use: every float is taken apart into an exact integer times a power
// of two, sums and products are exact in 1024-bit integers, and one generic routine rounds to any format under any
// mode. Roots and quotients are found by integer search. Approximations are compared with libm in long double within
// bounds.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepbench::vm::reference {

using u64 = uint64_t;
using s64 = int64_t;
using u128 = unsigned __int128;
using s128 = __int128;

enum class Mode { kNearest, kZero, kDown, kUp };

/// Exact number: (-1)^negative * magnitude * 2^exponent, or special. `sticky` says that a positive amount below the
/// last bit was left out (quotients and roots).
struct Number {
  enum Kind { kFinite, kInfinite, kNan } kind = kFinite;
  bool negative = false;
  bool sticky = false;
  int exponent = 0;
  std::vector<uint32_t> words;  // little endian magnitude, no leading zeros; empty is zero

  bool zero() const { return kind == kFinite && words.empty() && !sticky; }
};

inline void trim(std::vector<uint32_t>& w) {
  while (!w.empty() && w.back() == 0) w.pop_back();
}
inline std::vector<uint32_t> words_of(u128 x) {
  std::vector<uint32_t> w;
  for (; x != 0; x >>= 32) w.push_back(static_cast<uint32_t>(x));
  return w;
}
inline int bit_length(const std::vector<uint32_t>& w) {
  return w.empty() ? 0 : static_cast<int>(w.size() * 32) - __builtin_clz(w.back());
}
inline bool bit(const std::vector<uint32_t>& w, int i) {
  return i >= 0 && static_cast<size_t>(i / 32) < w.size() && ((w[static_cast<size_t>(i / 32)] >> (i % 32)) & 1) != 0;
}
inline std::vector<uint32_t> shifted_left(const std::vector<uint32_t>& w, int n) {
  std::vector<uint32_t> r(static_cast<size_t>(n / 32), 0);
  uint32_t carry = 0;
  for (const uint32_t x : w) {
    const u64 v = (static_cast<u64>(x) << (n % 32)) | carry;
    r.push_back(static_cast<uint32_t>(v));
    carry = static_cast<uint32_t>(v >> 32);
  }
  if (carry != 0) r.push_back(carry);
  trim(r);
  return r;
}
inline int compare(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  for (size_t i = a.size(); i-- > 0;) {
    if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
  }
  return 0;
}
inline std::vector<uint32_t> plus(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
  std::vector<uint32_t> r;
  u64 carry = 0;
  for (size_t i = 0; i < a.size() || i < b.size(); ++i) {
    carry += (i < a.size() ? a[i] : 0u);
    carry += (i < b.size() ? b[i] : 0u);
    r.push_back(static_cast<uint32_t>(carry));
    carry >>= 32;
  }
  if (carry != 0) r.push_back(static_cast<uint32_t>(carry));
  return r;
}
inline std::vector<uint32_t> minus(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {  // a >= b
  std::vector<uint32_t> r;
  s64 borrow = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    s64 v = static_cast<s64>(a[i]) - (i < b.size() ? static_cast<s64>(b[i]) : 0) - borrow;
    borrow = v < 0 ? 1 : 0;
    r.push_back(static_cast<uint32_t>(v + (borrow << 32)));
  }
  trim(r);
  return r;
}

inline Number nan_number() {
  Number n;
  n.kind = Number::kNan;
  return n;
}
inline Number integer_number(s128 x) {
  Number n;
  n.negative = x < 0;
  n.words = words_of(x < 0 ? -static_cast<u128>(x) : static_cast<u128>(x));
  return n;
}

/// A binary format: exponent field width and mantissa width.
struct Format {
  int exponent_bits, mantissa_bits;
  int width() const { return 1 + exponent_bits + mantissa_bits; }
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  u64 infinity() const { return ((u64{1} << exponent_bits) - 1) << mantissa_bits; }
  u64 sign() const { return u64{1} << (width() - 1); }
  u64 nan() const { return sign() - 1; }
  bool is_nan(u64 b) const { return (b & ~sign()) > infinity(); }
  bool is_subnormal(u64 b) const { return (b & infinity()) == 0 && (b & ~sign()) != 0; }
};
inline constexpr Format kF16{5, 10}, kBf16{8, 7}, kF32{8, 23}, kF64{11, 52};

inline Number number_of(u64 b, Format f) {
  Number n;
  n.negative = (b & f.sign()) != 0;
  const u64 magnitude = b & ~f.sign();
  if (magnitude > f.infinity()) return nan_number();
  if (magnitude == f.infinity()) {
    n.kind = Number::kInfinite;
    return n;
  }
  const u64 field = magnitude >> f.mantissa_bits;
  const u64 mantissa = (magnitude & ((u64{1} << f.mantissa_bits) - 1)) | (field != 0 ? u64{1} << f.mantissa_bits : 0);
  n.words = words_of(mantissa);
  n.exponent = static_cast<int>(field != 0 ? field : 1) - f.bias() - f.mantissa_bits;
  return n;
}

/// Rounds to a format; `unbounded`: exponents have no lower end (the result then is only good for comparing with the
/// smallest normal number). Returns bits; NaN is canonical.
struct Rounded {
  u64 bits;
  bool tiny;  // below the smallest normal number after rounding with an unbounded exponent
};
inline Rounded round_number(const Number& n, Format f, Mode mode) {
  const u64 sign = n.negative ? f.sign() : 0;
  if (n.kind == Number::kNan) return {f.nan(), false};
  if (n.kind == Number::kInfinite) return {sign | f.infinity(), false};
  if (n.zero()) return {sign, false};
  const int least = 1 - f.bias() - f.mantissa_bits;  // exponent of the last place of subnormals
  const auto round_at = [&](int place) {             // value in units of 2^place
    const int drop = place - n.exponent;
    u64 kept = 0;
    for (int i = 0; i < 64; ++i) kept |= static_cast<u64>(bit(n.words, drop + i)) << i;
    const bool half = drop > 0 && bit(n.words, drop - 1);
    bool rest = n.sticky;
    for (int i = 0; i < drop - 1 && !rest; ++i) rest = bit(n.words, i);
    bool up = false;
    if (mode == Mode::kNearest) up = half && (rest || (kept & 1) != 0);
    if (mode == Mode::kUp) up = !n.negative && (half || rest);
    if (mode == Mode::kDown) up = n.negative && (half || rest);
    return kept + (up ? 1 : 0);
  };
  const int top = bit_length(n.words) + n.exponent;  // value < 2^top
  int free_place = top - 1 - f.mantissa_bits;
  u64 unbounded = round_at(free_place);
  const bool carried = unbounded >> (f.mantissa_bits + 1) != 0;
  const bool tiny = (carried ? top + 1 : top) <= 1 - f.bias();
  const int place = free_place < least ? least : free_place;
  u64 mantissa = round_at(place);
  int exponent_field = place - least + 1;
  if (mantissa >> (f.mantissa_bits + 1) != 0) {
    mantissa >>= 1;
    ++exponent_field;
  }
  u64 bits;
  if (mantissa >> f.mantissa_bits == 0) {
    bits = mantissa;  // subnormal or zero
  } else {
    const int largest = (1 << f.exponent_bits) - 2;
    if (exponent_field > largest) {
      const bool outwards =
          mode == Mode::kNearest || (mode == Mode::kUp && !n.negative) || (mode == Mode::kDown && n.negative);
      bits = outwards ? f.infinity() : f.infinity() - 1;
    } else {
      bits = (static_cast<u64>(exponent_field) << f.mantissa_bits) | (mantissa & ((u64{1} << f.mantissa_bits) - 1));
    }
  }
  return {sign | bits, tiny};
}

inline Number negated(Number n) {
  n.negative = !n.negative;
  return n;
}
inline Number product(const Number& a, const Number& b) {
  if (a.kind == Number::kNan || b.kind == Number::kNan) return nan_number();
  Number r;
  r.negative = a.negative != b.negative;
  if (a.kind == Number::kInfinite || b.kind == Number::kInfinite) {
    if (a.zero() || b.zero()) return nan_number();
    r.kind = Number::kInfinite;
    return r;
  }
  r.exponent = a.exponent + b.exponent;
  r.words.assign(a.words.size() + b.words.size(), 0);
  for (size_t i = 0; i < a.words.size(); ++i) {
    u64 carry = 0;
    for (size_t j = 0; j < b.words.size(); ++j) {
      const u64 v = static_cast<u64>(a.words[i]) * b.words[j] + r.words[i + j] + carry;
      r.words[i + j] = static_cast<uint32_t>(v);
      carry = v >> 32;
    }
    r.words[i + b.words.size()] = static_cast<uint32_t>(carry);
  }
  trim(r.words);
  return r;
}
inline Number sum(const Number& a, const Number& b, Mode mode) {
  if (a.kind == Number::kNan || b.kind == Number::kNan) return nan_number();
  if (a.kind == Number::kInfinite || b.kind == Number::kInfinite) {
    if (a.kind == b.kind && a.negative != b.negative) return nan_number();
    return a.kind == Number::kInfinite ? a : b;
  }
  Number r;
  if (a.zero() && b.zero()) {
    r.negative = a.negative == b.negative ? a.negative : mode == Mode::kDown;
    return r;
  }
  if (a.zero()) return b;
  if (b.zero()) return a;
  r.exponent = a.exponent < b.exponent ? a.exponent : b.exponent;
  const auto x = shifted_left(a.words, a.exponent - r.exponent), y = shifted_left(b.words, b.exponent - r.exponent);
  if (a.negative == b.negative) {
    r.words = plus(x, y);
    r.negative = a.negative;
  } else {
    const int order = compare(x, y);
    r.negative = order == 0 ? mode == Mode::kDown : order > 0 ? a.negative : b.negative;
    r.words = order >= 0 ? minus(x, y) : minus(y, x);
  }
  return r;
}
/// Long division to 70 bits and a sticky bit. Magnitudes are those of f64 at most.
inline Number quotient(const Number& a, const Number& b) {
  if (a.kind == Number::kNan || b.kind == Number::kNan) return nan_number();
  Number r;
  r.negative = a.negative != b.negative;
  if (a.kind == Number::kInfinite) {
    if (b.kind == Number::kInfinite) return nan_number();
    r.kind = Number::kInfinite;
    return r;
  }
  if (b.kind == Number::kInfinite) return r;
  if (b.zero()) {
    if (a.zero()) return nan_number();
    r.kind = Number::kInfinite;
    return r;
  }
  if (a.zero()) return r;
  const int up = 70 + bit_length(b.words) - bit_length(a.words);
  auto rest = shifted_left(a.words, up > 0 ? up : 0);
  r.exponent = a.exponent - (up > 0 ? up : 0) - b.exponent;
  std::vector<uint32_t> q;
  for (int i = bit_length(rest) - bit_length(b.words); i >= 0; --i) {
    const auto part = shifted_left(b.words, i);
    if (compare(rest, part) >= 0) {
      rest = minus(rest, part);
      q = plus(q, shifted_left({1}, i));
    }
  }
  r.words = q;
  r.sticky = !rest.empty();
  return r;
}
/// Bitwise square root to about 70 bits and a sticky bit.
inline Number root(const Number& a) {
  if (a.kind == Number::kNan) return nan_number();
  if (a.zero()) return a;
  if (a.negative) return nan_number();
  if (a.kind == Number::kInfinite) return a;
  int up = 140 - bit_length(a.words);
  if (((a.exponent - up) & 1) != 0) ++up;
  const auto x = shifted_left(a.words, up);
  Number r;
  r.exponent = (a.exponent - up) / 2;
  std::vector<uint32_t> s;
  for (int i = bit_length(x) / 2 + 1; i >= 0; --i) {
    const auto candidate = plus(s, shifted_left({1}, i));
    Number c;
    c.words = candidate;
    if (compare(product(c, c).words, x) <= 0) s = candidate;
  }
  r.words = s;
  Number c;
  c.words = s;
  r.sticky = compare(product(c, c).words, x) != 0;
  return r;
}
/// -1, 0, 1; both finite or infinite.
inline int order(const Number& a, const Number& b) {
  if (a.kind == Number::kInfinite || b.kind == Number::kInfinite) {
    const int x = a.kind == Number::kInfinite ? (a.negative ? -1 : 1) : 0;
    const int y = b.kind == Number::kInfinite ? (b.negative ? -1 : 1) : 0;
    return x < y ? -1 : x > y ? 1 : 0;
  }
  const Number d = sum(a, negated(b), Mode::kNearest);
  return d.zero() ? 0 : d.negative ? -1 : 1;
}

/// Integral value of a finite number under a mode.
inline Number integral(const Number& n, Mode mode) {
  if (n.kind != Number::kFinite || n.zero() || n.exponent >= 0) return n;
  const int drop = -n.exponent;
  Number r;
  r.negative = n.negative;
  for (int i = drop; i < bit_length(n.words); i += 32) {
    uint32_t w = 0;
    for (int k = 0; k < 32; ++k) w |= static_cast<uint32_t>(bit(n.words, i + k)) << k;
    r.words.push_back(w);
  }
  trim(r.words);
  const bool half = bit(n.words, drop - 1);
  bool rest = false;
  for (int i = 0; i < drop - 1; ++i) rest = rest || bit(n.words, i);
  bool up = false;
  if (mode == Mode::kNearest) up = half && (rest || bit(r.words, 0));
  if (mode == Mode::kUp) up = !n.negative && (half || rest);
  if (mode == Mode::kDown) up = n.negative && (half || rest);
  if (up) r.words = plus(r.words, {1});
  return r;
}

}  // namespace stepbench::vm::reference
