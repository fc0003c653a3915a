// The statistics that tell a fair rounding from others: a fair one stays below the limit over many runs, and every way
// to get it wrong is named.
#include <catch2/catch.hpp>

#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "harness/check_stochastic.h"
#include "harness/stages.h"
#include "tasks/storage.h"

namespace stepbench {
namespace {

/// Sixteen bits for element i of tensor t in step s.
using Draw = std::function<uint32_t(uint64_t t, uint64_t i, uint64_t s)>;
/// Rounds x with sixteen bits.
using Round = std::function<double(double x, uint32_t draw)>;

uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
Draw fair(uint64_t seed) {
  return [seed](uint64_t t, uint64_t i, uint64_t s) {
    return static_cast<uint32_t>(mixed(mixed(mixed(seed + s) + t) + i) >> 48);
  };
}
double by_bits(double x, uint32_t draw) {
  const uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(x));
  return static_cast<double>(std::bit_cast<float>((bits + draw) & 0xffff0000u));
}

struct Data {
  std::vector<std::vector<double>> exact;  ///< [tensor][element]
};
Data data_of(const std::vector<size_t>& sizes, uint64_t seed, double spread = 1) {
  std::mt19937_64 random(seed);
  Data data;
  for (const size_t n : sizes) {
    data.exact.emplace_back();
    for (size_t i = 0; i < n; ++i) {
      const double uniform = static_cast<double>(random() >> 11) * 0x1p-53;
      const double magnitude = 0.05 * (1 + spread * (uniform - 0.5));
      data.exact.back().push_back(nearest_fp32(random() % 2 != 0 ? magnitude : -magnitude));
    }
  }
  return data;
}

RoundingDecisions decide(const Data& data, const Draw& draw, const Round& round, uint64_t step) {
  RoundingDecisions decisions;
  for (size_t t = 0; t < data.exact.size(); ++t) {
    std::vector<double> got;
    for (size_t i = 0; i < data.exact[t].size(); ++i) got.push_back(round(data.exact[t][i], draw(t, i, step)));
    add_decisions(decisions, data.exact[t], got, std::vector<double>(got.size(), 1e-9), DType::kBf16);
  }
  return decisions;
}

/// Two steps; the worse of the two judgements.
RoundingJudgement judged(const Data& first, const Data& second, const Draw& draw, const Round& round) {
  const RoundingDecisions before = decide(first, draw, round, 1), after = decide(second, draw, round, 2);
  const RoundingJudgement one = judge_rounding(before, nullptr, false), two = judge_rounding(after, &before, false);
  return std::fabs(one.worst_sigma) > std::fabs(two.worst_sigma) ? one : two;
}

const std::vector<size_t> kSizes = {70000, 70000, 5, 0, 30000};

TEST_CASE("a fair rounding stays below the limit, whatever the values") {
  double worst = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    // Also values that all lie at the same fraction, and weights that are exactly what bf16 holds.
    const double spread = seed % 3 == 0 ? 1 : seed % 3 == 1 ? 1e-9 : 0;
    const RoundingJudgement judgement =
        judged(data_of(kSizes, seed, spread), data_of(kSizes, seed + 1000, spread), fair(seed), by_bits);
    CHECK_FALSE(judgement.fault);
    CHECK_FALSE(judgement.worst.empty());
    worst = std::max(worst, std::fabs(judgement.worst_sigma));
  }
  // 60 x 2 x 19 statistics: the largest of 2,280 normal numbers is 3.5 +- 0.3.
  CHECK(worst > 2.5);
  CHECK(worst < 5);
}

TEST_CASE("every unfair or dependent rounding is found, by name") {
  struct Row {
    const char* name;
    Draw draw;
    Round round;
    const char* what;
  };
  const Draw good = fair(9);
  const Row rows[] = {
      {"nearest", good, [](double x, uint32_t) { return nearest_bf16(x); }, "discarded fraction"},
      {"cut off", good, [](double x, uint32_t) { return by_bits(x, 0); }, ""},
      {"a fair coin", good, [](double x, uint32_t draw) { return by_bits(x, draw % 2 != 0 ? 65535 : 0); },
       "discarded fraction"},
      {"four bits", good, [](double x, uint32_t draw) { return by_bits(x, draw & 0xf000); }, "bias"},
      {"six bits", good, [](double x, uint32_t draw) { return by_bits(x, draw & 0xfc00); }, "bias"},
      {"towards plus infinity", good,
       [](double x, uint32_t draw) {
         if (x >= 0) return by_bits(x, draw);
         const double down = by_bits(x, 0), fraction = (down - x) / bf16_unit(x);
         return fraction * 65536 > draw ? down : down - bf16_unit(x);  // up with the fraction's chance
       },
       "discarded fraction"},
      {"elements 2k and 2k + 1", [=](uint64_t t, uint64_t i, uint64_t s) { return good(t, i / 2, s); }, by_bits,
       "elements 1 apart"},
      {"opposite bits",
       [=](uint64_t t, uint64_t i, uint64_t s) { return good(t, i / 2, s) ^ (i % 2 != 0 ? 65535 : 0); }, by_bits,
       "elements 1 apart"},
      {"warps alike", [=](uint64_t t, uint64_t i, uint64_t s) { return good(t, i % 32, s); }, by_bits, "apart"},
      {"blocks alike", [=](uint64_t t, uint64_t i, uint64_t s) { return good(t, i % 256, s); }, by_bits,
       "elements 256 apart"},
      {"sixteen bits of the index", [=](uint64_t t, uint64_t i, uint64_t s) { return good(t, i % 65536, s); }, by_bits,
       "elements 65536 apart"},
      {"tensors alike", [=](uint64_t, uint64_t i, uint64_t s) { return good(0, i, s); }, by_bits,
       "one tensor and the next"},
      {"steps alike", [=](uint64_t t, uint64_t i, uint64_t) { return good(t, i, 0); }, by_bits,
       "one step and the next"},
  };
  const Data first = data_of(kSizes, 1), second = data_of(kSizes, 2);
  for (const Row& row : rows) {
    INFO(row.name);
    const RoundingJudgement judgement = judged(first, second, row.draw, row.round);
    REQUIRE(judgement.fault);
    INFO(judgement.fault->what << " " << judgement.fault->sigma);
    CHECK_THAT(judgement.fault->what, Catch::Contains(row.what));
  }
  CHECK_FALSE(judged(first, second, good, by_bits).fault);  // the control
}

TEST_CASE("A31: fault is found with a hundred thousand decisions; too few say nothing") {
  const Draw good = fair(3);
  const Draw pairs = [=](uint64_t t, uint64_t i, uint64_t s) { return good(t, i / 2, s); };
  const Data many = data_of({100000}, 5), few = data_of({300}, 5);
  CHECK(judge_rounding(decide(many, pairs, by_bits, 1), nullptr, false).fault);
  const RoundingJudgement nothing = judge_rounding(decide(few, pairs, by_bits, 1), nullptr, false);
  CHECK_FALSE(nothing.fault);
  CHECK(nothing.worst.empty());
}

TEST_CASE("values that fp32 does not know well enough are left out") {
  // The exact value is uncertain by a hundredth of the gap: a bias of that size is nobody's fault.
  const Data data = data_of({200000}, 6);
  std::vector<double> got, limit;
  for (size_t i = 0; i < data.exact[0].size(); ++i) {
    const double shifted = data.exact[0][i] * (1 + 0x1p-13);
    got.push_back(by_bits(nearest_fp32(shifted), fair(1)(0, i, 1)));
    limit.push_back(0x1p-13 * std::fabs(data.exact[0][i]));
  }
  RoundingDecisions uncertain, certain;
  add_decisions(uncertain, data.exact[0], got, limit, DType::kBf16);
  add_decisions(certain, data.exact[0], got, std::vector<double>(got.size(), 0.0), DType::kBf16);
  CHECK(judge_rounding(uncertain, nullptr, false).worst.empty());
  CHECK(judge_rounding(certain, nullptr, false).fault);
}

TEST_CASE("a tensor may come in pieces") {
  const Data data = data_of({20000}, 8);
  std::vector<double> got, limit;
  for (size_t i = 0; i < data.exact[0].size(); ++i) {
    got.push_back(by_bits(data.exact[0][i], fair(1)(0, i, 1)));
    limit.push_back(i % 3 == 0 ? 1.0 : 1e-9);
  }
  RoundingDecisions whole, pieces;
  const std::span<const double> exact = data.exact[0], stored = got, limits = limit;
  add_decisions(whole, exact, stored, limits, DType::kBf16);
  add_decisions(whole, exact.first(100), stored.first(100), limits.first(100), DType::kBf16);
  for (size_t first = 0; first < exact.size(); first += 8192) {
    const size_t count = std::min<size_t>(8192, exact.size() - first);
    add_decisions(pieces, exact.subspan(first, count), stored.subspan(first, count), limits.subspan(first, count),
                  DType::kBf16, first > 0);
  }
  add_decisions(pieces, exact.first(100), stored.first(100), limits.first(100), DType::kBf16);
  CHECK(pieces.residual == whole.residual);
  CHECK(pieces.variance == whole.variance);
  CHECK(pieces.share == whole.share);
  CHECK(pieces.negative == whole.negative);
}

}  // namespace
}  // namespace stepbench
