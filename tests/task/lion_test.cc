// Lion's one discontinuity: where the sign is open, how rarely, and that nothing else is let through. Rates of changed
// signs as in public measurements: arithmetic in bf16 turns some 3.4e-4 of them, another order of fp32 operations none.
#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>

#include "harness/stages.h"

namespace stepbench {
namespace {

constexpr size_t kParam = 0, kGrad = 1, kExpAvg = 2;

TaskSpec lion() {
  const Result<TaskSpec> task = load_task("lion");
  if (!task.ok()) FAIL(to_text(task.error()));
  return task.value();
}

std::vector<float> floats_of(const TaskSpec& task, size_t buffer, int64_t n, const char* family, uint64_t seed) {
  const std::vector<std::byte> bytes = make_values(task.buffers[buffer], make_shape({n}), family, seed);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

float to_bf16(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, 4);
  bits = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
  std::memcpy(&value, &bits, 4);
  return value;
}

int sign_of(double value) { return value > 0 ? 1 : value < 0 ? -1 : 0; }

using Form = float (*)(float beta1, float m, float g);
const struct {
  const char* name;
  Form form;
} kOrders[] = {
    {"text", [](float b, float m, float g) { return b * m + (1 - b) * g; }},
    {"fma", [](float b, float m, float g) { return std::fma(b, m, (1 - b) * g); }},
    {"lerp", [](float b, float m, float g) { return m + (1 - b) * (g - m); }},
    {"lerp by two fmas", [](float b, float m, float g) { return std::fma(1 - b, g, std::fma(b - 1, m, m)); }},
};

TEST_CASE("Lion: orders of fp32 operations change no sign, bf16 changes one in three thousand") {
  const TaskSpec task = lion();
  constexpr int64_t kElements = 1 << 21;
  const std::vector<float> m = floats_of(task, kExpAvg, kElements, "gaussian", 1);
  const std::vector<float> g = floats_of(task, kGrad, kElements, "gaussian", 2);
  const float beta1 = 0.9f;
  int turned[std::size(kOrders)] = {}, turned_bf16 = 0, open = 0;
  for (size_t i = 0; i < m.size(); ++i) {
    const double b = static_cast<double>(beta1), first = b * static_cast<double>(m[i]);
    const double second = (1 - b) * static_cast<double>(g[i]), c = first + second;
    if (std::fabs(c) <= 4e-7 * (std::fabs(first) + std::fabs(second)) && m[i] != 0) ++open;
    for (size_t k = 0; k < std::size(kOrders); ++k)
      if (sign_of(static_cast<double>(kOrders[k].form(beta1, m[i], g[i]))) != sign_of(c)) ++turned[k];
    const float rough = to_bf16(beta1 * m[i]) + to_bf16((1 - beta1) * g[i]);
    if (sign_of(static_cast<double>(rough)) != sign_of(c)) ++turned_bf16;
  }
  for (size_t k = 0; k < std::size(kOrders); ++k) {
    INFO(kOrders[k].name);
    CHECK(turned[k] <= 1);
  }
  CHECK(open <= 10);  // expected: one or two of two million
  const double rate = static_cast<double>(turned_bf16) / static_cast<double>(kElements);
  INFO("bf16: " << rate);
  CHECK(rate > 1.7e-4);
  CHECK(rate < 1e-3);
}

/// Judges every result of `moved` times lr for one element with the given average and gradient.
struct Judged {
  CompareResult result;
  double expected = 0;
};
Judged judge(const TaskSpec& task, double m, double g, double moved) {
  const std::pair<std::string, double> overrides[] = {{"beta1", 0.5}, {"lr", 0x1p-10}, {"weight_decay", 0}};
  const HyperValues hyper = hyper_from_defaults(task, 1, overrides).value();
  const TensorShape shape = make_shape({1});
  HostState state, scale;
  state.values = {{{1.0 / 64}}, {{g}}, {{m}}};
  REQUIRE(oracle_step(task, {&shape, 1}, hyper, state, &scale, 1).ok());
  const double got = 1.0 / 64 + moved * 0x1p-10;
  return {compare(state.values[kParam][0], {&got, 1}, scale.values[kParam][0], task.buffers[kParam].tolerance,
                  task.buffers[kParam].dtype),
          state.values[kParam][0][0]};
}

TEST_CASE("Lion: a sign within its rounding may be either or none, all others must be right") {
  const TaskSpec task = lion();
  const struct {
    const char* name;
    double m, g;
    bool plus, zero, minus;  // which moves are right
  } rows[] = {
      {"positive", 1, 1, false, false, true},
      {"negative", -1, -0.5, true, false, false},
      {"cancels exactly", 1, -1, true, true, true},
      {"cancels to within a rounding", 1, -1 + 0x1p-24, true, true, true},
      {"cancels to a little more", 1, -1 + 0x1p-20, false, false, true},
      {"cancels to a little less", 1, -1 - 0x1p-20, true, false, false},
      {"zero and zero: no sign at all", 0, 0, false, true, false},
      {"no average yet", 0, 1e-30, false, false, true},
      {"subnormal terms that round away", 0x1p-149, 0, true, true, true},
      {"subnormal terms that do not", 0x1p-140, 0, false, false, true},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    CHECK((judge(task, row.m, row.g, 1).result.worst_ratio <= 1) == row.plus);
    CHECK((judge(task, row.m, row.g, 0).result.worst_ratio <= 1) == row.zero);
    CHECK((judge(task, row.m, row.g, -1).result.worst_ratio <= 1) == row.minus);
    // Nothing is right that no sign gives.
    for (const double moved : {-6.0, 6.0}) CHECK(judge(task, row.m, row.g, moved).result.worst_ratio > 1);
  }
  // Distances: an open sign is at most half of the limit away, a wrong one hundreds of thousands of limits.
  CHECK(judge(task, 1, -1, 1).result.worst_ratio <= 0.5);
  CHECK(judge(task, 1, 1, 1).result.worst_ratio > 1e4);
}

}  // namespace
}  // namespace stepbench
