// Linear algebra of the oracles: exact products, and identities that hold for any matrix, on every instruction-set
// level of the machine.
#include "tasks/linear_algebra.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <thread>

#include "tasks/linear_algebra_level.h"

using namespace stepbench;

namespace {

/// Sums of products of these are exact in fp32 too, up to 2^24 / 64 of them.
template <class T = double>
std::vector<T> small_integers(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<T> values(static_cast<size_t>(count));
  for (T& v : values) v = static_cast<T>(static_cast<int>(random() % 17) - 8);
  return values;
}

template <class T>
T at(const std::vector<T>& a, int64_t rows, int64_t cols, bool transpose, int64_t i, int64_t j) {
  return a[static_cast<size_t>(transpose ? j * rows + i : i * cols + j)];
}

/// op(a) * op(b) as anybody would write it.
template <class T>
std::vector<T> plain_product(int64_t m, int64_t n, int64_t k, const std::vector<T>& a, bool transpose_a,
                             const std::vector<T>& b, bool transpose_b) {
  std::vector<T> c(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      T sum = 0;
      for (int64_t l = 0; l < k; ++l) sum += at(a, m, k, transpose_a, i, l) * at(b, k, n, transpose_b, l, j);
      c[static_cast<size_t>(i * n + j)] = sum;
    }
  return c;
}

struct Sizes {
  const char* name;
  int64_t m, n, k;
};
const Sizes kSizes[] = {
    {"1x1", 1, 1, 1},         {"row times column", 1, 1, 37},  {"outer product", 7, 5, 1},
    {"odd sizes", 13, 11, 9}, {"cut in tiles", 530, 520, 140}, {"wide, cut in tiles", 40, 1100, 800},
    {"no rows", 0, 4, 3},     {"no inner size", 3, 4, 0}};

template <class T>
void check_products() {
  for (const Sizes& row : kSizes)
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true}) {
        INFO(row.name << " transpose_a " << transpose_a << " transpose_b " << transpose_b);
        const std::vector<T> a = small_integers<T>(row.m * row.k, 1), b = small_integers<T>(row.k * row.n, 2);
        std::vector<T> c(static_cast<size_t>(row.m * row.n), -1);
        matmul(row.m, row.n, row.k, a.data(), transpose_a, b.data(), transpose_b, c.data());
        CHECK((c == plain_product(row.m, row.n, row.k, a, transpose_a, b, transpose_b)));
      }
}

template <class T>
void check_symmetric_products() {
  for (const auto& [n, k] : {std::pair(1, 1), std::pair(7, 3), std::pair(33, 40), std::pair(64, 64), std::pair(3, 0),
                             std::pair(530, 300), std::pair(1100, 70)})
    for (const bool transposed_first : {false, true}) {
      INFO(n << " x " << k << " transposed first " << transposed_first);
      const std::vector<T> a = small_integers<T>(n * k, 5);
      std::vector<T> c(static_cast<size_t>(n * n), -1);
      symmetric_matmul(n, k, a.data(), transposed_first, a.data(), !transposed_first, c.data());
      CHECK((c == plain_product<T>(n, n, k, a, transposed_first, a, !transposed_first)));
    }
}

template <class T>
void check_level(void (*tile)(const Product<T>&, const Tile&), void (*triangle)(const Product<T>&, int64_t, int64_t)) {
  const int64_t m = 230, n = 190, k = 53;
  for (const bool transpose_a : {false, true})
    for (const bool transpose_b : {false, true}) {
      INFO("transpose_a " << transpose_a << " transpose_b " << transpose_b);
      const std::vector<T> a = small_integers<T>(m * k, 6), b = small_integers<T>(k * n, 7);
      const std::vector<T> whole = plain_product(m, n, k, a, transpose_a, b, transpose_b);
      const T untouched = -1000;
      std::vector<T> c(whole.size(), untouched), expected = c;
      const Product<T> product{m, n, k, a.data(), transpose_a, b.data(), transpose_b, c.data()};
      tile(product, {5, 20, 170, 20});
      triangle(product, 26, 150);
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          const bool in_tile = i >= 5 && i < 25 && j >= 170;
          const bool in_triangle = i >= 26 && i < 176 && j >= 26 && j <= i;
          const auto e = static_cast<size_t>(i * n + j);
          if (in_tile || in_triangle) expected[e] = whole[e];
        }
      CHECK((c == expected));
    }
}

}  // namespace

TEST_CASE("products of integers are exact, for all sizes and transpositions") {
  SECTION("double") { check_products<double>(); }
  SECTION("float") { check_products<float>(); }
}

TEST_CASE("symmetric products are those of the plain loop, both halves") {
  SECTION("double") { check_symmetric_products<double>(); }
  SECTION("float") { check_symmetric_products<float>(); }
  SECTION("the square of a symmetric matrix") {
    const int64_t n = 70;
    std::vector<double> a(static_cast<size_t>(n * n)), c(a.size());
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) a[static_cast<size_t>(i * n + j)] = static_cast<double>((i * j + i + j) % 9);
    symmetric_matmul(n, n, a.data(), false, a.data(), false, c.data());
    CHECK((c == plain_product(n, n, n, a, false, a, false)));
  }
}

TEST_CASE("every instruction-set level computes what is asked, and nothing beside it") {
  const std::vector<LinearAlgebraLevel> levels = linear_algebra_levels();
  REQUIRE_FALSE(levels.empty());
  for (const LinearAlgebraLevel& level : levels) {
    INFO(level.name);
    check_level(level.tile_f64, level.triangle_f64);
    check_level(level.tile_f32, level.triangle_f32);
    // [[2, 1], [1, 2]] has 1 with (1, -1) and 3 with (1, 1).
    for (const bool vectors : {false, true}) {
      std::vector<double> a = {2, 1, 1, 2}, values(2);
      REQUIRE(level.eigen(2, a.data(), vectors, values.data()));
      CHECK(values[0] == Approx(1).epsilon(1e-14));
      CHECK(values[1] == Approx(3).epsilon(1e-14));
      if (vectors) CHECK(a[0] == Approx(-a[1]).epsilon(1e-14));
      if (vectors) CHECK(a[2] == Approx(a[3]).epsilon(1e-14));
    }
  }
}

// Debian's serial OpenBLAS 0.3.21 fails this: its buffers are shared. Sizes on both sides of what is cut, of several
// threads at once.
TEST_CASE("products are right when many threads ask for them at once") {
  constexpr int kThreads = 8, kRounds = 12;
  struct Sample {
    int64_t m, n, k;
    std::vector<double> a, b, c;
    std::vector<float> a_f32, b_f32, c_f32;
  };
  std::vector<Sample> samples;
  unsigned seed = 0;
  for (const auto& [m, n, k] : {std::tuple(5, 7, 3), std::tuple(64, 48, 80), std::tuple(130, 120, 110),
                                std::tuple(257, 200, 190), std::tuple(600, 520, 120)}) {
    Sample sample{m,  n,  k, small_integers<double>(m * k, ++seed), small_integers<double>(k * n, ++seed), {},
                  {}, {}, {}};
    sample.c = plain_product(m, n, k, sample.a, false, sample.b, true);
    sample.a_f32.assign(sample.a.begin(), sample.a.end());
    sample.b_f32.assign(sample.b.begin(), sample.b.end());
    sample.c_f32.assign(sample.c.begin(), sample.c.end());
    samples.push_back(std::move(sample));
  }
  std::atomic<int> wrong{0}, done{0};
  {
    std::vector<std::jthread> pool;
    for (int t = 0; t < kThreads; ++t)
      pool.emplace_back([&, t] {
        for (int round = 0; round < kRounds; ++round) {
          const Sample& sample = samples[static_cast<size_t>(t + round) % samples.size()];
          std::vector<double> c(sample.c.size());
          matmul(sample.m, sample.n, sample.k, sample.a.data(), false, sample.b.data(), true, c.data());
          std::vector<float> c_f32(sample.c_f32.size());
          matmul(sample.m, sample.n, sample.k, sample.a_f32.data(), false, sample.b_f32.data(), true, c_f32.data());
          wrong += c != sample.c;
          wrong += c_f32 != sample.c_f32;
          ++done;
        }
      });
  }
  CHECK(wrong == 0);
  CHECK(done == kThreads * kRounds);
}

TEST_CASE("the number of products at once changes no bit of a product that is spread over threads") {
  const int64_t n = 700;
  std::mt19937 random(9);
  std::normal_distribution<double> normal;
  std::vector<double> a(static_cast<size_t>(n * n));
  for (double& v : a) v = normal(random);
  std::vector<double> alone(a.size());
  matmul(n, n, n, a.data(), false, a.data(), true, alone.data());
  std::atomic<int> different{0};
  {
    std::vector<std::jthread> pool;
    for (int t = 0; t < 4; ++t)
      pool.emplace_back([&] {
        std::vector<double> c(a.size());
        matmul(n, n, n, a.data(), false, a.data(), true, c.data());
        different += c != alone;
      });
  }
  CHECK(different == 0);
}

TEST_CASE("eigenvalues ascend, eigenvectors are the rows") {
  // By hand: [[2, 1], [1, 2]] has 1 with (1, -1) and 3 with (1, 1).
  std::vector<double> a = {2, 1, 1, 2};
  const std::vector<double> values = symmetric_eigen(2, a.data());
  REQUIRE(values.size() == 2);
  CHECK(values[0] == Approx(1).epsilon(1e-14));
  CHECK(values[1] == Approx(3).epsilon(1e-14));
  CHECK(a[0] == Approx(-a[1]).epsilon(1e-14));
  CHECK(a[2] == Approx(a[3]).epsilon(1e-14));
  CHECK(std::fabs(a[0]) == Approx(std::sqrt(0.5)).epsilon(1e-14));

  // The upper triangle is not read.
  std::vector<double> lower = {2, std::nan(""), 1, 2};
  lower[1] = 77;
  CHECK(symmetric_eigen(2, lower.data())[1] == Approx(3).epsilon(1e-14));

  std::vector<double> broken = {1, 0, std::nan(""), 1};
  CHECK(std::isnan(symmetric_eigen(2, broken.data())[0]));
  CHECK(std::isnan(broken[0]));
  CHECK(symmetric_eigen(0, nullptr).empty());
}

TEST_CASE("a matrix is the sum over its eigenvectors") {
  const int64_t n = 23;
  std::vector<double> g = small_integers(n * n, 3), a(g.size());
  matmul(n, n, n, g.data(), false, g.data(), true, a.data());
  std::vector<double> vectors = a;
  const std::vector<double> values = symmetric_eigen(n, vectors.data());
  double worst = 0, largest = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < n; ++l)
        sum += values[static_cast<size_t>(l)] * vectors[static_cast<size_t>(l * n + i)] *
               vectors[static_cast<size_t>(l * n + j)];
      worst = std::max(worst, std::fabs(sum - a[static_cast<size_t>(i * n + j)]));
      largest = std::max(largest, std::fabs(a[static_cast<size_t>(i * n + j)]));
    }
  CHECK(worst < 1e-12 * largest);
}

TEST_CASE("singular values descend and do not depend on transposition") {
  const std::vector<double> diagonal = {0, 0, 3, 0, 4, 0};  // 3 x 2 : 0 0 / 3 0 / 4 0
  const std::vector<double> values = singular_values(3, 2, diagonal.data());
  REQUIRE(values.size() == 2);
  CHECK(values[0] == Approx(5).epsilon(1e-14));
  CHECK(values[1] == Approx(0).margin(5e-7));
  const std::vector<double> transposed = {0, 3, 4, 0, 0, 0};
  CHECK(singular_values(2, 3, transposed.data())[0] == Approx(5).epsilon(1e-14));
  const std::vector<double> broken = {1, INFINITY};
  CHECK(std::isnan(singular_values(1, 2, broken.data())[0]));
  CHECK(singular_values(0, 3, nullptr).empty());

  // Rotations of 3-4-5 triangles times diag(1, s): the small one comes out within 1e-7 of the large one.
  for (const double small : {0.5, 1e-2, 1e-4, 1e-6, 0.0}) {
    INFO(small);
    const std::vector<double> a = {0.6, -0.8 * small, 0.8, 0.6 * small};
    const std::vector<double> found = singular_values(2, 2, a.data());
    CHECK(found[0] == Approx(1).epsilon(1e-14));
    CHECK(std::fabs(found[1] - small) < 1e-7);
    if (small >= 1e-4) CHECK(found[1] == Approx(small).epsilon(1e-7));
  }
}
