// Fast loads and stores of the VM, compiled once per instruction-set level (SB_ISA). They do accesses that are right in
// every respect; anything else goes to access_slowly. Free of the standard library on purpose: no inline function of it
// may be emitted here with instructions that the other level's CPU lacks. Reports no faults itself.
#include "harness/ptx_vm/memory_ops.h"

#include <emmintrin.h>

namespace stepbench::vm::SB_ISA {
namespace {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using i64 = int64_t;

// An element in memory and in its slot: 1-byte elements live in 2-byte slots, extended.
struct U8 {
  using Memory = u8;
  using Slot = u16;
};
struct S8 {
  using Memory = int8_t;
  using Slot = u16;
};
struct B16 {
  using Memory = u16;
  using Slot = u16;
};
struct B32 {
  using Memory = u32;
  using Slot = u32;
};
struct B64 {
  using Memory = u64;
  using Slot = u64;
};

template <class T>
inline T read_as(const std::byte* from) {
  T value;
  __builtin_memcpy(&value, from, sizeof(T));
  return value;
}

template <class T>
inline void write_as(std::byte* to, T value) {
  __builtin_memcpy(to, &value, sizeof(T));
}

// Whether `kBytes` bytes (a multiple of 32) from bit `first` on are initialised.
template <int kBytes>
inline bool initialised(const u8* bits, u64 first) {
  if ((first & 7) != 0) return bits_set(bits, first, kBytes);
  const u8* from = bits + (first >> 3);
  if constexpr (kBytes == 32) {
    u32 word;
    __builtin_memcpy(&word, from, 4);
    return word == ~u32{0};
  } else {
    u64 all = ~u64{0};
    for (int k = 0; k < kBytes / 64; ++k) {
      u64 word;
      __builtin_memcpy(&word, from + k * 8, 8);
      all &= word;
    }
    return all == ~u64{0};
  }
}

template <int kBytes>
inline void initialise(u8* bits, u64 first) {
  if ((first & 7) != 0) {
    set_bits(bits, first, kBytes);
  } else {
    __builtin_memset(bits + (first >> 3), 0xff, kBytes / 8);
  }
}

// Whether all `kBytes` <= 16 bytes from bit `first` on are initialised. Bitmaps are padded by 8 bytes.
template <int kBytes>
inline u32 lane_initialised(const u8* bits, u64 first) {
  u32 word;
  __builtin_memcpy(&word, bits + (first >> 3), 4);
  constexpr u32 kMask = (u32{1} << kBytes) - 1;
  return ((word >> (first & 7)) & kMask) == kMask;
}

// float4 of 32 lanes <-> four slots: 4 x 4 transpositions of words.
inline void transpose_in(LaneState& state, const Decoded& instruction, const std::byte* from) {
  const __m128i* source = reinterpret_cast<const __m128i*>(from);
  for (int i = 0; i < kLanes / 4; ++i, source += 4) {
    const __m128i r0 = _mm_loadu_si128(source), r1 = _mm_loadu_si128(source + 1);
    const __m128i r2 = _mm_loadu_si128(source + 2), r3 = _mm_loadu_si128(source + 3);
    const __m128i low01 = _mm_unpacklo_epi32(r0, r1), low23 = _mm_unpacklo_epi32(r2, r3);
    const __m128i high01 = _mm_unpackhi_epi32(r0, r1), high23 = _mm_unpackhi_epi32(r2, r3);
    _mm_store_si128(slot<__m128i>(state, instruction.v[0]) + i, _mm_unpacklo_epi64(low01, low23));
    _mm_store_si128(slot<__m128i>(state, instruction.v[1]) + i, _mm_unpackhi_epi64(low01, low23));
    _mm_store_si128(slot<__m128i>(state, instruction.v[2]) + i, _mm_unpacklo_epi64(high01, high23));
    _mm_store_si128(slot<__m128i>(state, instruction.v[3]) + i, _mm_unpackhi_epi64(high01, high23));
  }
}

inline void transpose_out(LaneState& state, const Decoded& instruction, std::byte* to) {
  __m128i* target = reinterpret_cast<__m128i*>(to);
  for (int i = 0; i < kLanes / 4; ++i, target += 4) {
    const __m128i x = _mm_load_si128(slot<__m128i>(state, instruction.v[0]) + i);
    const __m128i y = _mm_load_si128(slot<__m128i>(state, instruction.v[1]) + i);
    const __m128i z = _mm_load_si128(slot<__m128i>(state, instruction.v[2]) + i);
    const __m128i w = _mm_load_si128(slot<__m128i>(state, instruction.v[3]) + i);
    const __m128i low_xy = _mm_unpacklo_epi32(x, y), low_zw = _mm_unpacklo_epi32(z, w);
    const __m128i high_xy = _mm_unpackhi_epi32(x, y), high_zw = _mm_unpackhi_epi32(z, w);
    _mm_storeu_si128(target, _mm_unpacklo_epi64(low_xy, low_zw));
    _mm_storeu_si128(target + 1, _mm_unpackhi_epi64(low_xy, low_zw));
    _mm_storeu_si128(target + 2, _mm_unpacklo_epi64(high_xy, high_zw));
    _mm_storeu_si128(target + 3, _mm_unpackhi_epi64(high_xy, high_zw));
  }
}

// The data of 32 lanes that lie one after the other.
template <class E, int N>
inline void copy_in(LaneState& state, const Decoded& instruction, const std::byte* from) {
  using M = typename E::Memory;
  using S = typename E::Slot;
  if constexpr (N == 1 && sizeof(M) == sizeof(S)) {
    __builtin_memcpy(state.registers + instruction.v[0], from, kLanes * sizeof(M));
  } else if constexpr (N == 4 && sizeof(M) == 4) {
    transpose_in(state, instruction, from);
  } else {
    M elements[kLanes * N];
    __builtin_memcpy(elements, from, sizeof elements);
    for (int k = 0; k < N; ++k) {
      S* __restrict to = slot<S>(state, instruction.v[k]);
      for (int i = 0; i < kLanes; ++i) to[i] = static_cast<S>(elements[i * N + k]);
    }
  }
}

template <class E, int N>
inline void copy_out(LaneState& state, const Decoded& instruction, std::byte* to) {
  using M = typename E::Memory;
  using S = typename E::Slot;
  if constexpr (N == 1 && sizeof(M) == sizeof(S)) {
    __builtin_memcpy(to, state.registers + instruction.v[0], kLanes * sizeof(M));
  } else if constexpr (N == 4 && sizeof(M) == 4) {
    transpose_out(state, instruction, to);
  } else {
    M elements[kLanes * N];
    for (int k = 0; k < N; ++k) {
      const S* __restrict from = slot<S>(state, instruction.v[k]);
      for (int i = 0; i < kLanes; ++i) elements[i * N + k] = static_cast<M>(from[i]);
    }
    __builtin_memcpy(to, elements, sizeof elements);
  }
}

template <class E, int N>
inline void lane_in(LaneState& state, const Decoded& instruction, int lane, const std::byte* from) {
  using M = typename E::Memory;
  using S = typename E::Slot;
  for (int k = 0; k < N; ++k) {
    slot<S>(state, instruction.v[k])[lane] = static_cast<S>(read_as<M>(from + static_cast<u64>(k) * sizeof(M)));
  }
}

template <class E, int N>
inline void lane_out(LaneState& state, const Decoded& instruction, int lane, std::byte* to) {
  using M = typename E::Memory;
  using S = typename E::Slot;
  for (int k = 0; k < N; ++k) {
    write_as<M>(to + static_cast<u64>(k) * sizeof(M), static_cast<M>(slot<S>(state, instruction.v[k])[lane]));
  }
}

// Distinct 32-byte sectors under the active lanes; every access lies in one sector (aligned, at most 16 bytes).
template <bool kFull>
inline u64 count_sectors(const LaneState& state, const u64* addresses) {
  u64 sectors[kLanes];
  int count = 0;
  u64 previous = ~u64{0};
  bool ascending = true;
  for (int i = 0; i < kLanes; ++i) {
    if (!kFull && state.active[i] == 0) continue;
    const u64 sector = addresses[i] >> 5;
    if (sector == previous) continue;
    ascending = ascending && (count == 0 || sector > previous);
    sectors[count++] = sector;
    previous = sector;
  }
  if (ascending) return static_cast<u64>(count);
  int distinct = 0;
  for (int i = 0; i < count; ++i) {
    bool seen = false;
    for (int j = 0; j < distinct; ++j) seen |= sectors[j] == sectors[i];
    if (!seen) sectors[distinct++] = sectors[i];
  }
  return static_cast<u64>(distinct);
}

// Lanes' addresses of a gather or scatter with what the checks need.
struct Addresses {
  u64 each[kLanes];
  u64 lo = 0, span = 0;  // of the active lanes, without the last access's size
  u64 low_bits = 0;
};

template <bool kFull, class T>
inline void collect(const LaneState& state, const T* base, i64 displacement, Addresses& out) {
  i64 lo = INT64_MAX, hi = INT64_MIN;
  u64 low_bits = 0;
  for (int i = 0; i < kLanes; ++i) {
    const u64 address = static_cast<T>(base[i] + static_cast<T>(displacement));
    out.each[i] = address;
    const i64 x = static_cast<i64>(address);
    if constexpr (kFull) {
      lo = x < lo ? x : lo;
      hi = x > hi ? x : hi;
      low_bits |= address;
    } else {
      const bool active = state.active[i] != 0;
      lo = active && x < lo ? x : lo;
      hi = active && x > hi ? x : hi;
      low_bits |= active ? address : 0;
    }
  }
  out.lo = static_cast<u64>(lo);
  out.span = static_cast<u64>(hi) - static_cast<u64>(lo);
  out.low_bits = low_bits;
}

inline bool inside(u64 lo, u64 span, u64 start, u64 bytes) {
  const u64 offset = lo - start;
  return offset < bytes && span <= bytes - offset;
}

template <class E, int N, bool kFull, bool kStore>
void access_global(LaneState& lanes, const Decoded& instruction) {
  constexpr u64 kSize = sizeof(typename E::Memory) * N;
  ExecState& state = static_cast<ExecState&>(lanes);
  const u64* base = slot<u64>(state, instruction.a);
  AccessCache& cache = state.caches[instruction.site];
  if constexpr (kFull) {
    const u64 first = base[0];
    u64 differs = 0;
    for (int i = 0; i < kLanes; ++i) differs |= base[i] ^ (first + static_cast<u64>(i) * kSize);
    if (differs == 0) {
      constexpr u64 kSpan = kSize * kLanes;
      const u64 lo = first + static_cast<u64>(instruction.immediate);
      if (!inside(lo, kSpan, cache.lo, cache.bytes) &&
          !(fill_cache(state, cache, lo, kStore) && inside(lo, kSpan, cache.lo, cache.bytes))) {
        access_slowly(state, instruction);
        return;
      }
      if ((lo & (kSize - 1)) != 0) {
        access_slowly(state, instruction);
        return;
      }
      const u64 sectors = ((lo + kSpan - 1) >> 5) - (lo >> 5) + 1;
      std::byte* host = cache.host + (lo - cache.lo);
      if constexpr (kStore) {
        initialise<static_cast<int>(kSpan)>(cache.initialised, lo - cache.bit_base);
        copy_out<E, N>(state, instruction, host);
        state.counters.global_store_bytes += kSpan;
        state.counters.global_store_sectors += sectors;
      } else {
        if (!initialised<static_cast<int>(kSpan)>(cache.initialised, lo - cache.bit_base)) {
          access_slowly(state, instruction);
          return;
        }
        copy_in<E, N>(state, instruction, host);
        state.counters.global_load_bytes += kSpan;
        state.counters.global_load_sectors += sectors;
      }
      return;
    }
  }
  Addresses at;
  collect<kFull>(state, base, instruction.immediate, at);
  const u64 span = at.span + kSize;
  if ((at.low_bits & (kSize - 1)) != 0 ||
      (!inside(at.lo, span, cache.lo, cache.bytes) &&
       !(fill_cache(state, cache, at.lo, kStore) && inside(at.lo, span, cache.lo, cache.bytes)))) {
    access_slowly(state, instruction);
    return;
  }
  const u64 count = kFull ? kLanes : static_cast<u64>(__builtin_popcount(state.mask));
  if constexpr (kStore) {
    for (int i = 0; i < kLanes; ++i) {
      if (!kFull && state.active[i] == 0) continue;
      set_bits(cache.initialised, at.each[i] - cache.bit_base, kSize);
      lane_out<E, N>(state, instruction, i, cache.host + (at.each[i] - cache.lo));
    }
    state.counters.global_store_bytes += count * kSize;
    state.counters.global_store_sectors += count_sectors<kFull>(state, at.each);
  } else {
    u32 good = 1;
    for (int i = 0; i < kLanes; ++i) {
      if (!kFull && state.active[i] == 0) continue;
      good &= lane_initialised<static_cast<int>(kSize)>(cache.initialised, at.each[i] - cache.bit_base);
    }
    if (good == 0) {
      access_slowly(state, instruction);
      return;
    }
    for (int i = 0; i < kLanes; ++i) {
      if (!kFull && state.active[i] == 0) continue;
      lane_in<E, N>(state, instruction, i, cache.host + (at.each[i] - cache.lo));
    }
    state.counters.global_load_bytes += count * kSize;
    state.counters.global_load_sectors += count_sectors<kFull>(state, at.each);
  }
}

// Passes over the 32 banks of 4 bytes: 4-byte and smaller accesses go 32 lanes at a time, 8-byte accesses 16, 16-byte
// accesses 8.
template <bool kFull, int kSize>
inline u64 count_wavefronts(const LaneState& state, const u64* addresses) {
  constexpr int kWords = kSize < 4 ? 1 : kSize / 4;
  constexpr int kGroup = kLanes / kWords;
  u64 total = 0;
  for (int start = 0; start < kLanes; start += kGroup) {
    u8 used[32] = {};
    u32 words[32][32];
    int most = 0;
    for (int i = start; i < start + kGroup; ++i) {
      if (!kFull && state.active[i] == 0) continue;
      for (int k = 0; k < kWords; ++k) {
        const u32 word = static_cast<u32>(addresses[i] >> 2) + static_cast<u32>(k);
        const u32 bank = word & 31;
        bool seen = false;
        for (int j = 0; j < used[bank]; ++j) seen |= words[bank][j] == word;
        if (seen) continue;
        words[bank][used[bank]++] = word;
        most = used[bank] > most ? used[bank] : most;
      }
    }
    total += static_cast<u64>(most);
  }
  return total;
}

template <class E, int N, bool kFull, bool kStore>
void access_shared(LaneState& lanes, const Decoded& instruction) {
  constexpr u64 kSize = sizeof(typename E::Memory) * N;
  ExecState& state = static_cast<ExecState&>(lanes);
  const u32* base = slot<u32>(state, instruction.a);
  if constexpr (kFull) {
    const u32 first = base[0];
    u32 differs = 0;
    for (int i = 0; i < kLanes; ++i) differs |= base[i] ^ (first + static_cast<u32>(i) * static_cast<u32>(kSize));
    if (differs == 0) {
      constexpr u64 kSpan = kSize * kLanes;
      const u64 lo = static_cast<u32>(first + static_cast<u32>(instruction.immediate));
      const u64 offset = lo - kSharedBase;
      if (!inside(lo, kSpan, kSharedBase, state.shared_bytes) || (lo & (kSize - 1)) != 0 ||
          (!kStore && !initialised<static_cast<int>(kSpan)>(state.shared_initialised, offset))) {
        access_slowly(state, instruction);
        return;
      }
      if constexpr (kStore) {
        initialise<static_cast<int>(kSpan)>(state.shared_initialised, offset);
        copy_out<E, N>(state, instruction, state.shared + offset);
      } else {
        copy_in<E, N>(state, instruction, state.shared + offset);
      }
      state.counters.shared_wavefronts += kSize <= 4 ? 1 : kSize / 4;
      return;
    }
  }
  Addresses at;
  collect<kFull>(state, base, instruction.immediate, at);
  if (!inside(at.lo, at.span + kSize, kSharedBase, state.shared_bytes) || (at.low_bits & (kSize - 1)) != 0) {
    access_slowly(state, instruction);
    return;
  }
  if constexpr (kStore) {
    for (int i = 0; i < kLanes; ++i) {
      if (!kFull && state.active[i] == 0) continue;
      set_bits(state.shared_initialised, at.each[i] - kSharedBase, kSize);
      lane_out<E, N>(state, instruction, i, state.shared + (at.each[i] - kSharedBase));
    }
  } else {
    u32 good = 1;
    for (int i = 0; i < kLanes; ++i) {
      if (!kFull && state.active[i] == 0) continue;
      good &= lane_initialised<static_cast<int>(kSize)>(state.shared_initialised, at.each[i] - kSharedBase);
    }
    if (good == 0) {
      access_slowly(state, instruction);
      return;
    }
    for (int i = 0; i < kLanes; ++i) {
      if (!kFull && state.active[i] == 0) continue;
      lane_in<E, N>(state, instruction, i, state.shared + (at.each[i] - kSharedBase));
    }
  }
  state.counters.shared_wavefronts += count_wavefronts<kFull, static_cast<int>(kSize)>(state, at.each);
}

// ------------------------------------------------------------------------------------------ register moves

// d = f(a) for the active lanes.
template <class D, class A, bool kFull, class F>
inline void map_lanes(LaneState& state, const Decoded& instruction, F f) {
  D* d = slot<D>(state, instruction.d);
  const A* a = slot<A>(state, instruction.a);
  const u32* active = state.active;
#pragma GCC ivdep
  for (int i = 0; i < kLanes; ++i) {
    const D value = f(a[i]);
    if constexpr (kFull) {
      d[i] = value;
    } else {
      d[i] = active[i] != 0 ? value : d[i];
    }
  }
}

template <class T, bool kFull>
void move(LaneState& state, const Decoded& instruction) {
  map_lanes<T, T, kFull>(state, instruction, [](T a) { return a; });
}

template <class T>
struct SignedOf;
template <>
struct SignedOf<u16> {
  using Type = int16_t;
};
template <>
struct SignedOf<u32> {
  using Type = int32_t;
};
template <>
struct SignedOf<u64> {
  using Type = int64_t;
};

template <class A, class D, bool kSigned, bool kFull>
void convert(LaneState& state, const Decoded& instruction) {
  map_lanes<D, A, kFull>(state, instruction, [](A a) {
    if constexpr (kSigned) {
      return static_cast<D>(static_cast<typename SignedOf<D>::Type>(static_cast<typename SignedOf<A>::Type>(a)));
    } else {
      return static_cast<D>(a);
    }
  });
}

template <bool kFull>
void add_constant(LaneState& state, const Decoded& instruction) {
  const u64 constant = static_cast<u64>(instruction.immediate);
  map_lanes<u64, u64, kFull>(state, instruction, [constant](u64 a) { return a + constant; });
}

template <bool kFull>
void not_predicate(LaneState& state, const Decoded& instruction) {
  map_lanes<u32, u32, kFull>(state, instruction, [](u32 a) { return a ^ 1u; });
}

template <class A, class D, bool kFull>
void extract(LaneState& state, const Decoded& instruction) {
  const int shift = static_cast<int>(instruction.immediate);
  map_lanes<D, A, kFull>(state, instruction, [shift](A a) { return static_cast<D>(static_cast<u64>(a) >> shift); });
}

// d = a | b << immediate.
template <class B, class D, bool kFull>
void insert(LaneState& state, const Decoded& instruction) {
  const int shift = static_cast<int>(instruction.immediate);
  D* d = slot<D>(state, instruction.d);
  const D* a = slot<D>(state, instruction.a);
  const B* b = slot<B>(state, instruction.b);
  const u32* active = state.active;
#pragma GCC ivdep
  for (int i = 0; i < kLanes; ++i) {
    const D value = static_cast<D>(a[i] | static_cast<D>(static_cast<u64>(b[i]) << shift));
    if constexpr (kFull) {
      d[i] = value;
    } else {
      d[i] = active[i] != 0 ? value : d[i];
    }
  }
}

template <bool kFull>
void in_range(LaneState& state, const Decoded& instruction) {
  const u64 lo = static_cast<u64>(instruction.immediate);
  const u64 hi = instruction.v[0] | static_cast<u64>(instruction.v[1]) << 32;
  map_lanes<u32, u64, kFull>(state, instruction, [lo, hi](u64 a) { return u32{a >= lo && a < hi}; });
}

// ------------------------------------------------------------------------------------------ tables

template <class E, int N>
void fill_access(MemoryOps& ops, int element, int vector) {
  ops.load_global[element][vector][0] = access_global<E, N, true, false>;
  ops.load_global[element][vector][1] = access_global<E, N, false, false>;
  ops.store_global[element][vector][0] = access_global<E, N, true, true>;
  ops.store_global[element][vector][1] = access_global<E, N, false, true>;
  ops.load_shared[element][vector][0] = access_shared<E, N, true, false>;
  ops.load_shared[element][vector][1] = access_shared<E, N, false, false>;
  ops.store_shared[element][vector][0] = access_shared<E, N, true, true>;
  ops.store_shared[element][vector][1] = access_shared<E, N, false, true>;
}

template <class E>
void fill_element(MemoryOps& ops, int element) {
  fill_access<E, 1>(ops, element, 0);
  fill_access<E, 2>(ops, element, 1);
  if constexpr (sizeof(typename E::Memory) < 8) fill_access<E, 4>(ops, element, 2);
}

template <class A, class D>
void fill_convert(MemoryOps& ops, int from, int to) {
  ops.convert[from][to][0][0] = convert<A, D, false, true>;
  ops.convert[from][to][0][1] = convert<A, D, false, false>;
  ops.convert[from][to][1][0] = convert<A, D, true, true>;
  ops.convert[from][to][1][1] = convert<A, D, true, false>;
  ops.extract[from][to][0] = extract<A, D, true>;
  ops.extract[from][to][1] = extract<A, D, false>;
  ops.insert[from][to][0] = insert<A, D, true>;
  ops.insert[from][to][1] = insert<A, D, false>;
}

template <class A>
void fill_from(MemoryOps& ops, int from) {
  ops.move[from][0] = move<A, true>;
  ops.move[from][1] = move<A, false>;
  fill_convert<A, u16>(ops, from, 0);
  fill_convert<A, u32>(ops, from, 1);
  fill_convert<A, u64>(ops, from, 2);
}

MemoryOps make_ops() {
  MemoryOps ops{};
  fill_element<U8>(ops, 0);
  fill_element<S8>(ops, 1);
  fill_element<B16>(ops, 2);
  fill_element<B32>(ops, 3);
  fill_element<B64>(ops, 4);
  fill_from<u16>(ops, 0);
  fill_from<u32>(ops, 1);
  fill_from<u64>(ops, 2);
  ops.add_constant[0] = add_constant<true>;
  ops.add_constant[1] = add_constant<false>;
  ops.not_predicate[0] = not_predicate<true>;
  ops.not_predicate[1] = not_predicate<false>;
  ops.in_range[0] = in_range<true>;
  ops.in_range[1] = in_range<false>;
  return ops;
}

}  // namespace

const MemoryOps& memory_ops() {
  static const MemoryOps ops = make_ops();
  return ops;
}

}  // namespace stepbench::vm::SB_ISA
