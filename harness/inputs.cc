// Random numbers and the values of buffers. Everything is made of 64-bit integer arithmetic and single IEEE
// multiplications, divisions, square roots and conversions (no libm), so that the same seed gives the same bits on
// every machine. All families share one generator and one idea of magnitude, hence the length.
//
// What an element's gradient, first and second moment have in common, its magnitude, comes from a hash of its index and
// not of the seed: a moment of 1e5 beside a second moment of 1e-24 is a state that no run of an optimizer reaches.
// Signs and mantissas come from the seed.
//
// It does not decide which family is used when: that is the caller's (check_data.cc).
#include "harness/inputs.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "harness/code_map.h"
#include "harness/float_words.h"
#include "harness/stages.h"

namespace stepbench {

namespace {

constexpr std::string_view kFamilies[] = {
    "gaussian",         "sparse",         "tiny",        "huge",         "alternating_sign",
    "constant",         "zero",           "denormal",    "heavy_tailed", "mixed",
    "planted_spectrum", "rank_deficient", "badly_scaled"};
constexpr std::string_view kInitials[] = {"parameter",
                                          "gradient",
                                          "moment",
                                          "second_moment",
                                          "parameter_copy",
                                          "parameter_low",
                                          "parameter_error",
                                          "moment_code",
                                          "moment_scale",
                                          "second_moment_code",
                                          "second_moment_scale",
                                          "bounded_moment",
                                          "orthogonal",
                                          "left_factor",
                                          "left_factor_root",
                                          "right_factor",
                                          "right_factor_root",
                                          "parameter_or_zero",
                                          "moment_or_zero"};

/// Finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
constexpr uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// xoshiro256++ (Blackman, Vigna 2019), seeded by SplitMix64 as its authors advise.
class Random {
 public:
  explicit Random(uint64_t seed) {
    for (uint64_t& word : state_) word = seed = mix(seed);
  }
  uint64_t next() {
    const uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
    const uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }
  /// Uniform on the 2^24 multiples of 2^-24 in [0, 1).
  float uniform() { return to_unit(next() >> 40); }
  /// Sum of four uniforms (Irwin-Hall): mean 0, variance 1, |x| < 3.47. 18 bits, exact.
  float gauss() {
    const uint64_t x = next();
    const auto sum = static_cast<int32_t>((x & 0xffff) + ((x >> 16) & 0xffff) + ((x >> 32) & 0xffff) + (x >> 48));
    return static_cast<float>(sum - 2 * 65535) * kGaussUnit;
  }
  static float to_unit(uint64_t bits24) { return static_cast<float>(bits24) * 0x1p-24f; }

 private:
  static constexpr float kGaussUnit = 2.64293e-5f;  // 1 / (65536 * sqrt(4 / 12))
  uint64_t state_[4];
};

/// mantissa in [1, 2) times 2^exponent, normal range only; exact.
float scaled(uint32_t mantissa23, int exponent) {
  SB_ASSERT(exponent >= -126 && exponent <= 127);
  return std::bit_cast<float>((static_cast<uint32_t>(exponent + 127) << 23) | (mantissa23 & 0x7fffffu));
}

/// Log-uniform over whole octaves [2^low, 2^high), from 64 random bits.
float log_uniform(uint64_t bits, int low, int high) {
  const auto octave = static_cast<int>((bits >> 32) % static_cast<uint64_t>(high - low));
  return scaled(static_cast<uint32_t>(bits), low + octave);
}

/// Magnitude of the gradient of element `index`: the same for gradient, moments and every step.
struct Magnitudes {
  enum class Kind { kFixed, kOctaves, kDenormal } kind = Kind::kFixed;
  float fixed = 0.01f;  ///< about the RMS gradient of a small language model late in training
  int low = 0, high = 0;

  float at(uint64_t index, int64_t n) const {
    if (kind == Kind::kFixed) return fixed;
    const uint64_t bits = mix(index * 2 + 1 + mix(static_cast<uint64_t>(n)));
    if (kind == Kind::kOctaves) return log_uniform(bits, low, high);
    // Denormal: the gradient itself (1e-40), its square (1e-20), or only (1 - beta2) times its square (1e-18).
    switch (bits % 3) {
      case 0: return std::bit_cast<float>(static_cast<uint32_t>(20000 + (bits >> 20) % 200000));  // 2.8e-41 .. 3e-40
      case 1: return log_uniform(bits >> 2, -69, -64);                                            // 1.7e-21 .. 5.4e-20
      default: return log_uniform(bits >> 2, -62, -57);                                           // 2.2e-19 .. 6.9e-18
    }
  }
};

enum class Family {
  kGaussian,
  kSparse,
  kTiny,
  kHuge,
  kAlternating,
  kConstant,
  kZero,
  kDenormal,
  kHeavyTailed,
  kMixed,
  kPlantedSpectrum,
  kRankDeficient,
  kBadlyScaled,
  kNonfinite,
};

Family family_of(std::string_view name) {
  if (name == "nonfinite") return Family::kNonfinite;
  const auto* const found = std::find(std::begin(kFamilies), std::end(kFamilies), name);
  SB_ASSERT(found != std::end(kFamilies));  // load_task refuses unknown families
  return static_cast<Family>(found - std::begin(kFamilies));
}

Magnitudes magnitudes_of(Family family) {
  using Kind = Magnitudes::Kind;
  switch (family) {
    case Family::kTiny: return {Kind::kOctaves, 0, -37, -20};  // 7e-12 .. 9.5e-7: around eps
    case Family::kHuge: return {Kind::kOctaves, 0, 27, 56};    // 1.3e8 .. 7e16: v / bias_correction2 stays finite
    case Family::kMixed: return {Kind::kOctaves, 0, -40, 20};  // 9e-13 .. 1e6
    case Family::kDenormal: return {Kind::kDenormal, 0, 0, 0};
    case Family::kConstant: return {Kind::kFixed, 0.1f, 0, 0};
    case Family::kGaussian:
    case Family::kSparse:
    case Family::kAlternating:
    case Family::kZero:
    case Family::kHeavyTailed:
    case Family::kPlantedSpectrum:
    case Family::kRankDeficient:
    case Family::kBadlyScaled:
    case Family::kNonfinite: return {};
  }
  SB_ASSERT(false);
  return {};
}

/// One element in 16 has never seen a gradient: its moments are exactly zero.
bool untouched(uint64_t index) { return mix(index ^ 0x5be0cd19137e2179u) % 16 == 0; }

/// One block in four has not either: a scale of zero beside codes.
bool untouched_block(uint64_t block, uint64_t n) { return mix(block ^ mix(n)) % 4 == 0; }

void fill_parameter(std::span<float> out, Random& random) {
  for (size_t i = 0; i < out.size(); ++i) {
    // Weights as trained networks have them. Biases and gains near zero show what the rounding of a large weight hides.
    // Gains near one are few, as in models: the rounding of their last bit would drown the drift of all the others.
    const uint64_t kind = mix(i ^ 0x1f83d9abfb41bd6bu) % 256;
    const float value = random.gauss();
    if (kind < 16)
      out[i] = 0;
    else if (kind < 48)
      out[i] = value * 1e-4f;
    else if (kind == 48)
      out[i] = 1 + value * 0.02f;
    else
      out[i] = value * 0.05f;
  }
}

void fill_gradient(std::span<float> out, Family family, Random& random, uint64_t seed) {
  const auto n = static_cast<int64_t>(out.size());
  const Magnitudes magnitudes = magnitudes_of(family);
  switch (family) {
    case Family::kGaussian:
    case Family::kNonfinite:
      for (float& value : out) value = random.gauss() * magnitudes.fixed;
      break;
    case Family::kSparse:
      // Zipf: the element of rank r is touched with probability about 8 / r; ranks are hashed over the indices.
      for (size_t i = 0; i < out.size(); ++i) {
        const uint64_t rank = mix(i ^ 0x510e527fade682d1u) % 1024 + 1;
        const float value = random.gauss() * magnitudes.fixed;
        out[i] = random.next() % rank < 8 ? value : 0;
      }
      break;
    case Family::kTiny:
    case Family::kHuge:
    case Family::kDenormal:
    case Family::kMixed:
      for (size_t i = 0; i < out.size(); ++i) {
        const uint64_t bits = random.next();
        const float factor = 0.25f + Random::to_unit(bits >> 40) * 1.75f;
        out[i] = magnitudes.at(i, n) * (bits & 1 ? factor : -factor);
      }
      break;
    case Family::kAlternating: {
      // Neighbours differ in sign, and the whole pattern flips with the seed, so from step to step.
      const bool flip = (mix(seed) & 1) != 0;
      for (size_t i = 0; i < out.size(); ++i) {
        const float value = magnitudes.fixed * (0.75f + 0.5f * random.uniform());
        out[i] = ((i & 1) != 0) == flip ? value : -value;
      }
      break;
    }
    case Family::kConstant:
      // The same in every element, step and run: errors with a sign add up.
      std::fill(out.begin(), out.end(), magnitudes.fixed);
      break;
    case Family::kZero:
      for (float& value : out) value = random.next() & 1 ? 0.0f : -0.0f;
      break;
    case Family::kHeavyTailed:
      // Ratio of a normal and a uniform: density falls as 1 / x^2, cut at 2^16.
      for (float& value : out) value = magnitudes.fixed * random.gauss() / (random.uniform() + 0x1p-16f);
      break;
    case Family::kPlantedSpectrum:
    case Family::kRankDeficient:
    case Family::kBadlyScaled: SB_ASSERT(false);  // fill_matrix
  }
  if (family == Family::kNonfinite && !out.empty()) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const float bad[] = {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()};
    const size_t first = mix(seed) % out.size();
    for (size_t i = 0; i < out.size(); ++i) {
      if (i == first || random.next() % 8 == 0) out[i] = bad[random.next() % 3];
    }
  }
}

void fill_moment(std::span<float> out, Family family, Random& random) {
  const auto n = static_cast<int64_t>(out.size());
  const Magnitudes magnitudes = magnitudes_of(family);
  for (size_t i = 0; i < out.size(); ++i) {
    const float value = family == Family::kConstant ? 0.5f + 0.5f * random.uniform() : 0.3f * random.gauss();
    out[i] = untouched(i) ? 0 : value * magnitudes.at(i, n);
  }
}

/// At most 0.7 of the magnitude, so that its square stays below every second moment: a mean beside a mean square.
void fill_bounded_moment(std::span<float> out, Family family, Random& random) {
  const auto n = static_cast<int64_t>(out.size());
  const Magnitudes magnitudes = magnitudes_of(family);
  for (size_t i = 0; i < out.size(); ++i) {
    const float value = family == Family::kConstant ? 0.5f + 0.2f * random.uniform() : 0.2f * random.gauss();
    out[i] = untouched(i) ? 0 : value * magnitudes.at(i, n);
  }
}

void fill_second_moment(std::span<float> out, Family family, Random& random) {
  const auto n = static_cast<int64_t>(out.size());
  const Magnitudes magnitudes = magnitudes_of(family);
  for (size_t i = 0; i < out.size(); ++i) {
    const float factor = 0.5f + 1.5f * random.uniform();
    const float magnitude = magnitudes.at(i, n);
    out[i] = untouched(i) ? 0 : magnitude * magnitude * factor;
  }
}

/// Matrices for bases and factors are turned from a simple one by rotations in disjoint pairs of rows, other pairs in
/// every stage: after log2(side) stages most rows depend on one another, at side^2 operations a stage where a dense
/// product of reflections takes side^3. In double, so that the rounding to fp32 is the largest error.
class PairRotations {
 public:
  PairRotations(int64_t side, Random& random) : pairs_(static_cast<size_t>(side / 2)) {
    std::vector<size_t> order(static_cast<size_t>(side));
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.next() % i]);
    for (size_t p = 0; p < pairs_.size(); ++p) {
      const double tangent = static_cast<double>(random.uniform()) * 2 - 1;  // of half of the angle
      const double length = 1 + tangent * tangent;
      pairs_[p] = {order[2 * p], order[2 * p + 1], (1 - tangent * tangent) / length, 2 * tangent / length};
    }
  }
  void turn_rows(std::span<double> a, size_t side) const {
    for (const Pair& pair : pairs_)
      for (size_t k = 0; k < side; ++k) pair.turn(a[pair.i * side + k], a[pair.j * side + k]);
  }
  void turn_columns(std::span<double> a, size_t side) const {
    for (size_t row = 0; row < side; ++row)
      for (const Pair& pair : pairs_) pair.turn(a[row * side + pair.i], a[row * side + pair.j]);
  }
  static int stages(int64_t side) {
    return side < 2 ? 0 : static_cast<int>(std::bit_width(static_cast<uint64_t>(side))) + 4;
  }

 private:
  struct Pair {
    size_t i = 0, j = 0;
    double cosine = 1, sine = 0;
    void turn(double& x, double& y) const {
      const double old = x;
      x = cosine * old - sine * y;
      y = sine * old + cosine * y;
    }
  };
  std::vector<Pair> pairs_;
};

/// An orthogonal matrix, rows and columns signed at random.
void fill_orthogonal(std::span<float> out, int64_t side, Random& random) {
  const auto length = static_cast<size_t>(side);
  std::vector<double> a(out.size(), 0.0);
  for (size_t i = 0; i < length; ++i) a[i * length + i] = random.next() & 1 ? 1 : -1;
  for (int stage = 0; stage < PairRotations::stages(side); ++stage) PairRotations(side, random).turn_rows(a, length);
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(a[i]);
}

/// Average of the products of gradients with themselves: symmetric, no eigenvalue below zero (but for the rounding to
/// fp32), one in four exactly zero and the others over four decades, of the size that gradients of the family give it.
/// `other`: the length of the rows that are multiplied. `root`: its inverse fourth root instead, with zeros counting as
/// the least of the others; from the same random numbers.
void fill_factor(std::span<float> out, int64_t side, int64_t other, Family family, bool root, Random& random) {
  constexpr int kLowest = -13, kHighest = 1;  // octaves of the spectrum
  constexpr size_t kMostSampled = 4096;
  const Magnitudes magnitudes = magnitudes_of(family);
  const int64_t n = side * other;
  const auto sampled = static_cast<size_t>(std::min<int64_t>(n, kMostSampled));
  double squares = 0;
  for (size_t i = 0; i < sampled; ++i) {
    const auto magnitude = static_cast<double>(magnitudes.at(i, n));
    squares += magnitude * magnitude;
  }
  const double size = sampled == 0 ? 1 : squares / static_cast<double>(sampled) * static_cast<double>(other);

  const auto length = static_cast<size_t>(side);
  std::vector<double> a(out.size(), 0.0);
  for (size_t i = 0; i < length; ++i) {
    const bool zero = random.next() % 4 == 0;
    const double share = static_cast<double>(log_uniform(random.next(), kLowest, kHighest));
    const double value = size * (zero ? 0 : share);
    const double least = size * static_cast<double>(scaled(0, kLowest));
    a[i * length + i] = root ? 1 / std::sqrt(std::sqrt(std::max(value, least))) : value;
  }
  for (int stage = 0; stage < PairRotations::stages(side); ++stage) {
    const PairRotations rotations(side, random);
    rotations.turn_rows(a, length);
    rotations.turn_columns(a, length);
  }
  for (size_t i = 0; i < length; ++i)
    for (size_t j = 0; j < length; ++j)
      out[i * length + j] = static_cast<float>(a[std::max(i, j) * length + std::min(i, j)]);
}

bool is_matrix_family(Family family) {
  return family == Family::kPlantedSpectrum || family == Family::kRankDeficient || family == Family::kBadlyScaled;
}

/// Singular values that fall as a power of their number, 1/2 to 2, down to 1e-4 of the largest; singular vectors at
/// random.
void fill_planted_spectrum(std::span<float> out, int64_t rows, int64_t cols, float magnitude, Random& random) {
  constexpr double kLeast = 1e-4;
  const auto height = static_cast<size_t>(rows), width = static_cast<size_t>(cols);
  std::vector<double> a(out.size(), 0.0), turned(out.size());
  const uint64_t power = random.next() % 4;
  const double largest = static_cast<double>(magnitude) * std::sqrt(static_cast<double>(out.size()));
  for (size_t i = 0; i < std::min(height, width); ++i) {
    const double inverse = 1 / static_cast<double>(i + 1), root = std::sqrt(inverse);
    const double fall[] = {root, inverse, inverse * root, inverse * inverse};
    a[i * width + i] = largest * std::max(fall[power], kLeast) * (random.next() & 1 ? 1 : -1);
  }
  for (int stage = 0; stage < PairRotations::stages(rows); ++stage) PairRotations(rows, random).turn_rows(a, width);
  for (size_t i = 0; i < height; ++i)
    for (size_t j = 0; j < width; ++j) turned[j * height + i] = a[i * width + j];
  for (int stage = 0; stage < PairRotations::stages(cols); ++stage)
    PairRotations(cols, random).turn_rows(turned, height);
  for (size_t i = 0; i < height; ++i)
    for (size_t j = 0; j < width; ++j) out[i * width + j] = static_cast<float>(turned[j * height + i]);
}

/// Gradients of matrices, rows of `cols` elements.
void fill_matrix(std::span<float> out, int64_t rows, int64_t cols, Family family, Random& random) {
  const float magnitude = magnitudes_of(family).fixed;
  const auto height = static_cast<size_t>(rows), width = static_cast<size_t>(cols);
  if (family == Family::kPlantedSpectrum) {
    fill_planted_spectrum(out, rows, cols, magnitude, random);
  } else if (family == Family::kRankDeficient) {
    // Rank 1, or every row twice and more.
    const bool outer = (random.next() & 1) != 0;
    std::vector<float> left(height), right(outer ? width : 0);
    for (float& value : left) value = random.gauss();
    for (float& value : right) value = random.gauss() * magnitude;
    if (!outer)
      for (float& value : out) value = random.gauss() * magnitude;
    for (size_t i = 0; i < height; ++i) {
      const size_t other = random.next() % (height / 2 + 1);
      for (size_t j = 0; j < width; ++j) {
        if (outer)
          out[i * width + j] = left[i] * right[j];
        else if (other < i)
          out[i * width + j] = out[other * width + j];
      }
    }
  } else {
    // Rows and columns in units that differ by up to 2^40.
    constexpr int kOctaves = 20;
    const auto unit = [&random] { return scaled(0, static_cast<int>(random.next() % (2 * kOctaves + 1)) - kOctaves); };
    std::vector<float> row_units(height), column_units(width);
    for (float& value : row_units) value = unit();
    for (float& value : column_units) value = unit();
    for (size_t i = 0; i < height; ++i)
      for (size_t j = 0; j < width; ++j)
        out[i * width + j] = random.gauss() * magnitude * row_units[i] * column_units[j];
  }
}

/// Largest magnitude of each block.
std::vector<float> block_maxima(std::span<const float> values) {
  std::vector<float> maxima;
  for (size_t first = 0; first < values.size(); first += kCodeBlock) {
    float most = 0;
    for (size_t i = first; i < std::min(values.size(), first + kCodeBlock); ++i)
      most = std::max(most, std::fabs(values[i]));
    maxima.push_back(most);
  }
  return maxima;
}

std::vector<std::byte> block_codes(std::span<const float> values, const std::array<float, 256>& map) {
  const std::vector<float> maxima = block_maxima(values);
  std::vector<std::byte> codes(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const auto most = static_cast<double>(maxima[i / kCodeBlock]);
    codes[i] = static_cast<std::byte>(nearest_code(map, most > 0 ? static_cast<double>(values[i]) / most : 0));
  }
  return codes;
}

template <class Stored, class Convert>
std::vector<std::byte> stored_as(std::span<const float> values, Convert convert) {
  std::vector<std::byte> out(values.size() * sizeof(Stored));
  for (size_t i = 0; i < values.size(); ++i) {
    const Stored stored = convert(values[i]);
    std::memcpy(out.data() + i * sizeof(Stored), &stored, sizeof(Stored));
  }
  return out;
}

}  // namespace

std::span<const std::string_view> input_family_names() { return kFamilies; }
std::span<const std::string_view> initial_names() { return kInitials; }

std::string_view shared_value(std::string_view initial) {
  for (const std::string_view share : {"_copy", "_low", "_error", "_code", "_scale", "_root"})
    if (initial.ends_with(share)) return initial.substr(0, initial.size() - share.size());
  return {};
}

uint64_t derive_seed(uint64_t salt, std::string_view purpose, uint64_t a, uint64_t b, uint64_t c) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char ch : purpose) hash = (hash ^ static_cast<unsigned char>(ch)) * 0x100000001b3u;
  uint64_t seed = mix(salt);
  for (const uint64_t part : {hash, a, b, c}) seed = mix(seed ^ mix(part));
  return seed;
}

std::vector<std::byte> make_values(const BufferSpec& buffer, const TensorShape& shape, std::string_view family,
                                   uint64_t seed) {
  constexpr std::string_view kOrZero = "_or_zero";
  if (buffer.initial.ends_with(kOrZero)) {
    // One tensor in four is zero throughout, as biases and the second halves of adapters are at first.
    if (mix(seed) % 4 == 0) {
      return std::vector<std::byte>(static_cast<size_t>(buffer_elements(buffer, shape)) * dtype_bytes(buffer.dtype));
    }
    BufferSpec whole = buffer;
    whole.initial.resize(buffer.initial.size() - kOrZero.size());
    return make_values(whole, shape, family, seed);
  }
  const std::string_view shared = shared_value(buffer.initial);
  const std::string_view value = shared.empty() ? std::string_view(buffer.initial) : shared;
  const std::string_view share = std::string_view(buffer.initial).substr(value.size());
  const auto n = static_cast<size_t>(share == "_scale" ? shape.n : buffer_elements(buffer, shape));
  Random random(seed);
  const bool integer = buffer.dtype == DType::kU8 || buffer.dtype == DType::kI32 || buffer.dtype == DType::kI16;
  if (integer && share.empty()) {
    // Codes and counters: any bits are valid, small numbers keep sums of them meaningful.
    std::vector<std::byte> out(n * dtype_bytes(buffer.dtype));
    for (size_t i = 0; i < n; ++i) {
      const auto number = static_cast<uint32_t>(random.next() >> 56);
      std::memcpy(out.data() + i * dtype_bytes(buffer.dtype), &number, dtype_bytes(buffer.dtype));
    }
    return out;
  }

  std::vector<float> values(n);
  const Family kind = family_of(family);
  if (value == "parameter") {
    fill_parameter(values, random);
  } else if (value == "gradient" && is_matrix_family(kind)) {
    fill_matrix(values, shape.rows, shape.cols, kind, random);
  } else if (value == "gradient") {
    fill_gradient(values, kind, random, seed);
  } else if (value == "moment") {
    fill_moment(values, kind, random);
  } else if (value == "bounded_moment") {
    fill_bounded_moment(values, kind, random);
  } else if (value == "orthogonal") {
    fill_orthogonal(values, buffer.shape == "rows*rows" ? shape.rows : shape.cols, random);
  } else if (value == "left_factor") {
    fill_factor(values, shape.rows, shape.cols, kind, share == "_root", random);
  } else if (value == "right_factor") {
    fill_factor(values, shape.cols, shape.rows, kind, share == "_root", random);
  } else {
    SB_ASSERT(value == "second_moment");  // load_task refuses everything else
    fill_second_moment(values, kind, random);
  }

  if (share == "_code" || share == "_scale") {
    for (size_t i = 0; i < values.size(); ++i)
      if (untouched_block(i / kCodeBlock, values.size())) values[i] = 0;
  }
  if (share == "_code") return block_codes(values, value == "moment" ? signed_code_map() : unsigned_code_map());
  if (share == "_scale") values = block_maxima(values);
  if (share == "_error") {
    for (float& v : values) v -= std::bit_cast<float>(static_cast<uint32_t>(to_bf16(v)) << 16);
  }
  if (share == "_low") {
    return stored_as<uint16_t>(values, [](float v) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(v)); });
  }

  switch (buffer.dtype) {
    case DType::kF32: return stored_as<float>(values, [](float v) { return v; });
    case DType::kBf16: return stored_as<uint16_t>(values, to_bf16);
    case DType::kF16: return stored_as<uint16_t>(values, to_f16);
    case DType::kU8:
    case DType::kI32:
    case DType::kI16: break;  // handled above
  }
  SB_ASSERT(false);
  return {};
}

}  // namespace stepbench
