// Linear algebra of the oracles: small exact products, and identities that hold for any matrix.
#include "tasks/linear_algebra.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

using namespace stepbench;

namespace {

std::vector<double> small_integers(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<double> values(static_cast<size_t>(count));
  for (double& v : values) v = static_cast<double>(random() % 17) - 8;
  return values;
}

double at(const std::vector<double>& a, int64_t rows, int64_t cols, bool transpose, int64_t i, int64_t j) {
  return a[static_cast<size_t>(transpose ? j * rows + i : i * cols + j)];
}

}  // namespace

TEST_CASE("products of integers are exact, for all sizes and transpositions") {
  struct Row {
    const char* name;
    int64_t m, n, k;
  };
  const Row rows[] = {{"1x1", 1, 1, 1},         {"row times column", 1, 1, 37},         {"outer product", 7, 5, 1},
                      {"odd sizes", 13, 11, 9}, {"spread over threads", 530, 520, 540}, {"no inner size", 3, 4, 0},
                      {"no rows", 0, 4, 3}};
  for (const Row& row : rows)
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true}) {
        INFO(row.name << " transpose_a " << transpose_a << " transpose_b " << transpose_b);
        const std::vector<double> a = small_integers(row.m * row.k, 1), b = small_integers(row.k * row.n, 2);
        std::vector<double> c(static_cast<size_t>(row.m * row.n), -1);
        matmul(row.m, row.n, row.k, a.data(), transpose_a, b.data(), transpose_b, c.data());
        int64_t different = 0;
        for (int64_t i = 0; i < row.m; ++i)
          for (int64_t j = 0; j < row.n; ++j) {
            double sum = 0;
            for (int64_t l = 0; l < row.k; ++l)
              sum += at(a, row.m, row.k, transpose_a, i, l) * at(b, row.k, row.n, transpose_b, l, j);
            different += sum != c[static_cast<size_t>(i * row.n + j)];
          }
        CHECK(different == 0);
      }
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
  CHECK(values[1] == Approx(0).margin(1e-14));
  const std::vector<double> transposed = {0, 3, 4, 0, 0, 0};
  CHECK(singular_values(2, 3, transposed.data())[0] == Approx(5).epsilon(1e-14));
  const std::vector<double> broken = {1, INFINITY};
  CHECK(std::isnan(singular_values(1, 2, broken.data())[0]));
  CHECK(singular_values(0, 3, nullptr).empty());
}
