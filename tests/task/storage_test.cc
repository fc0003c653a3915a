// Storage formats of the oracles (tasks/storage.h, tasks/philox.h, the oracles of the storage tasks), against integer
// arithmetic on bit patterns, published numbers and hand computation.
#include "tasks/storage.h"

#include <catch2/catch.hpp>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "harness/code_map.h"
#include "harness/float_words.h"
#include "harness/stages.h"
#include "tasks/philox.h"

namespace stepbench {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

double from_bits(uint32_t bits) { return static_cast<double>(std::bit_cast<float>(bits)); }
uint32_t to_bits(double value) { return std::bit_cast<uint32_t>(static_cast<float>(value)); }

TEST_CASE("nearest bf16") {
  struct Row {
    const char* name;
    double value, nearest;
  };
  const Row rows[] = {
      {"one", 1, 1},
      {"tie to even, down", 1 + 0x1p-8, 1},
      {"tie to even, up", 1 + 3 * 0x1p-8, 1 + 0x1p-6},
      {"above a tie by less than fp32 can hold: rounding twice would give 1", 1 + 0x1p-8 + 0x1p-40, 1 + 0x1p-7},
      {"below a tie likewise", 1 + 3 * 0x1p-8 - 0x1p-40, 1 + 0x1p-7},
      {"just below two", 2 - 0x1p-9, 2},
      {"just below two, lower unit", 2 - 0x1p-7 - 0x1p-20, 2 - 0x1p-7},
      {"largest", 0x1.fep127, 0x1.fep127},
      {"below half a unit beyond", 0x1.fefffp127, 0x1.fep127},
      {"half a unit beyond", 0x1.ffp127, kInf},
      {"infinity", kInf, kInf},
      {"least normal", 0x1p-126, 0x1p-126},
      {"subnormal", 3 * 0x1p-133, 3 * 0x1p-133},
      {"subnormal tie", 5 * 0x1p-134, 2 * 0x1p-133},
      {"half of the least, tie to zero", 0x1p-134, 0},
      {"more than half of the least", 0x1.8p-134, 0x1p-133},
      {"far below", 1e-300, 0},
      {"zero", 0, 0},
  };
  for (const Row& row : rows) {
    for (const double sign : {1.0, -1.0}) {
      INFO(row.name << " " << sign);
      const double got = nearest_bf16(row.value * sign);
      CHECK(got == row.nearest * sign);
      CHECK(std::signbit(got) == (sign < 0));
    }
  }
  CHECK(std::isnan(nearest_bf16(std::numeric_limits<double>::quiet_NaN())));
  // fp32 values by integer arithmetic.
  std::mt19937_64 random(1);
  for (int i = 0; i < 200000; ++i) {
    const auto bits = static_cast<uint32_t>(random());
    if ((bits & 0x7f800000u) == 0x7f800000u) continue;
    const uint32_t expected = static_cast<uint32_t>(to_bf16(std::bit_cast<float>(bits))) << 16;
    if (to_bits(nearest_bf16(from_bits(bits))) != expected) FAIL("bits " << std::hex << bits);
  }
}

TEST_CASE("units of bf16 and fp32") {
  CHECK(bf16_unit(1) == 0x1p-7);
  CHECK(bf16_unit(-1.99) == 0x1p-7);
  CHECK(bf16_unit(2) == 0x1p-6);
  CHECK(bf16_unit(0) == 0x1p-133);
  CHECK(bf16_unit(0x1p-140) == 0x1p-133);
  CHECK(fp32_unit(1) == 0x1p-23);
  CHECK(fp32_unit(0) == 0x1p-149);
  CHECK(fp32_unit(1e300) == 0x1p104);
}

TEST_CASE("Philox4x32-10 gives the published numbers") {
  // Random123, kat_vectors.
  using Four = std::array<uint32_t, 4>;
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) == Four{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
        Four{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Four{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

/// One tensor of a task, with some state.
struct OneTensor {
  TaskSpec task;
  TensorShape shape;
  HostState state;

  OneTensor(const std::string& id, int64_t n) : task(load_task(id).value()), shape(make_shape({n})) {
    for (const BufferSpec& buffer : task.buffers)
      state.values.push_back({std::vector<double>(static_cast<size_t>(buffer_elements(buffer, shape)), 0.0)});
  }
  std::vector<double>& at(const std::string& buffer) {
    for (size_t b = 0; b < task.buffers.size(); ++b)
      if (task.buffers[b].name == buffer) return state.values[b][0];
    FAIL("no buffer " << buffer);
    return state.values[0][0];
  }
  void step(int64_t t, const std::vector<std::pair<std::string, double>>& overrides, const OracleDetail& detail = {}) {
    const Result<HyperValues> hyper = hyper_from_defaults(task, t, overrides);
    REQUIRE(hyper.ok());
    REQUIRE(oracle_step(task, {&shape, 1}, hyper.value(), state, nullptr, 1, detail).ok());
  }
};

TEST_CASE("master: the copy is the rounded master, and its old value means nothing") {
  OneTensor one("adamw_bf16_master", 3);
  one.at("master") = {1 + 0x1p-8, -(1 + 3 * 0x1p-8), 0x1.fffffep-3};
  one.at("param") = {5, 6, 7};
  one.step(1, {{"lr", 0}});
  CHECK(one.at("param") == std::vector<double>{1, -(1 + 0x1p-6), 0.25});
  CHECK(one.at("master") == std::vector<double>{1 + 0x1p-8, -(1 + 3 * 0x1p-8), 0x1.fffffep-3});
  // A judged candidate's copy is held against the master that it stored itself.
  HostState stored = one.state;
  stored.values[2][0] = {3, 4, 0x1.01p0};
  one.step(2, {{"lr", 0}}, {.stored = &stored});
  CHECK(one.at("param") == std::vector<double>{3, 4, 1});
}

TEST_CASE("remainder: every finite fp32 pattern is split and joined without loss") {
  std::mt19937_64 random(2);
  std::vector<uint32_t> patterns;
  for (const uint32_t high : {0x0000u, 0x0001u, 0x007fu, 0x0080u, 0x3f7fu, 0x3f80u, 0x7f7eu})
    for (const uint32_t low : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      for (const uint32_t sign : {0u, 0x80000000u}) patterns.push_back(sign | high << 16 | low);
  while (patterns.size() < 50000) {
    const auto bits = static_cast<uint32_t>(random());
    if ((bits & 0x7fff0000u) < 0x7f7f0000u) patterns.push_back(bits);
  }
  OneTensor one("adamw_bf16_remainder", static_cast<int64_t>(patterns.size()));
  for (size_t i = 0; i < patterns.size(); ++i) {
    const uint32_t low = patterns[i] & 0xffff, high = (patterns[i] >> 16) + (low >> 15);
    one.at("param")[i] = from_bits(high << 16);
    one.at("remainder")[i] = static_cast<double>(static_cast<int16_t>(low));
  }
  const HostState before = one.state;
  one.step(1, {{"lr", 0}});  // nothing moves: split(join(x)) must be x
  size_t differ = 0;
  for (size_t i = 0; i < patterns.size(); ++i) {
    differ += one.at("param")[i] != before.values[0][0][i] ? 1 : 0;
    differ += one.at("remainder")[i] != before.values[2][0][i] ? 1 : 0;
  }
  CHECK(differ == 0);
  // The tie goes away from zero, so that its remainder fits.
  CHECK(to_bits(one.at("param")[6]) == 0x00010000u);  // 0x00008000
  CHECK(one.at("remainder")[6] == -32768);
}

TEST_CASE("remainder: a candidate's two halves are judged as one number") {
  OneTensor one("adamw_bf16_remainder", 3);
  const double master = from_bits(0x3f80fff0u);  // 0x3f81 and -16
  one.at("param").assign(3, from_bits(0x3f810000u));
  one.at("remainder").assign(3, -16);
  HostState stored = one.state, exact;
  stored.values[0][0] = {from_bits(0x3f810000u), from_bits(0x3f810000u), from_bits(0x3f800000u)};
  stored.values[2][0] = {-16, -13, 32767};  // right; three units too much; 0x3f807fff
  one.step(1, {{"lr", 0}}, {.exact = &exact, .stored = &stored});
  CHECK(exact.values[0][0] == std::vector<double>(3, master));
  CHECK(exact.values[2][0] == std::vector<double>{-16, -16, 32767 + (0x80fff0 - 0x807fff)});
}

TEST_CASE("Kahan: weight and compensation are the sum, and what is left fits the parameter that is stored") {
  OneTensor one("adamw_bf16_kahan", 2);
  // lr * weight_decay * p = 2^-20, and a compensation of 2^-10: sum = 1 + 2^-10 - 2^-20.
  one.at("param") = {1, 1};
  one.at("compensation") = {0x1p-10, 0x1p-10};
  HostState exact, stored = one.state;
  stored.values[0][0] = {1, 1 + 0x1p-7};  // the second candidate took the other neighbour
  one.step(1, {{"lr", 0x1p-10}, {"weight_decay", 0x1p-10}}, {.exact = &exact, .stored = &stored});
  CHECK(one.at("param") == std::vector<double>{1, 1});
  CHECK(exact.values[0][0] == std::vector<double>(2, 1 + 0x1p-10 - 0x1p-20));
  CHECK(exact.values[2][0] == std::vector<double>{0x1p-10 - 0x1p-20, 0x1p-10 - 0x1p-20 - 0x1p-7});
  CHECK(one.at("compensation")[0] == nearest_bf16(0x1p-10 - 0x1p-20));
}

TEST_CASE("stochastic rounding: the oracle does what integers do, for every value that fp32 holds") {
  // x = p * (1 - 2^-k) is an fp32 number for a bf16 p: no rounding before the one in question. Powers of two among the
  // p end below their octave.
  constexpr int64_t kCount = 20000;
  std::mt19937_64 random(3);
  OneTensor one("adamw_bf16_sr", kCount);
  for (int k : {9, 10, 13, 16}) {
    std::vector<double>& param = one.at("param");
    for (double& p : param) {
      const auto bits = static_cast<uint32_t>(random());
      // Octaves from the subnormals on, and a quarter of the values at the start of theirs.
      const uint32_t exponent = bits % 3 == 0 ? 1 + bits / 3 % 3 : 100 + bits / 3 % 100;
      const uint32_t fraction = (bits >> 16) % 4 == 0 ? 0 : (bits >> 18) % 128;
      p = from_bits((bits & 0x80000000u) | exponent << 23 | fraction << 16);
    }
    const std::vector<double> before = param;
    const int64_t t = 1000 + k;
    const double seed = 77;
    one.step(t, {{"lr", std::ldexp(1.0, -k)}, {"weight_decay", 1}, {"seed", seed}});
    size_t differ = 0, up = 0;
    for (size_t i = 0; i < param.size(); ++i) {
      const std::array<uint32_t, 4> words =
          philox4x32({static_cast<uint32_t>(i / 8), 0, 0, static_cast<uint32_t>(t)}, {77, 0});
      const uint32_t draw = (words[i % 8 / 2] >> (i % 2 * 16)) & 0xffff;
      const double x = before[i] * (1 - std::ldexp(1.0, -k));
      REQUIRE(nearest_fp32(x) == x);
      differ += to_bits(param[i]) != ((to_bits(x) + draw) & 0xffff0000u) ? 1 : 0;
      up += param[i] == before[i] ? 1 : 0;
    }
    CHECK(differ == 0);
    CHECK(up > 0);
    CHECK(up < param.size());
  }
  // What bf16 holds never moves, whatever the draw.
  const std::vector<double> before = one.at("param");
  one.step(5, {{"lr", 0}});
  CHECK(one.at("param") == before);
}

TEST_CASE("A30: a hundred steps of 6e-4 from 1, and a thousand of decay alone (OneTrainer#996)") {
  // Rounded to nearest, p stays at 1 in both. Stochastically the mean follows: sd 0.0141 per element.
  constexpr int64_t kCount = 1 << 16;
  OneTensor constant("adamw_bf16_sr", kCount), decay("adamw_bf16_sr", kCount);
  constant.at("param").assign(kCount, 1);
  decay.at("param").assign(kCount, 1);
  for (int64_t t = 1; t <= 100; ++t) {
    constant.at("grad").assign(kCount, 1);  // the update is lr times one
    constant.step(t, {{"lr", 6e-4}, {"weight_decay", 0}, {"seed", 5}});
  }
  // 65 steps of 1e-3 * 0.15 instead of 1000 of 1e-3 * 0.01: the same decay in less time.
  for (int64_t t = 1; t <= 65; ++t) decay.step(t, {{"lr", 1e-3}, {"weight_decay", 0.15}, {"seed", 6}});
  const auto mean = [](const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum / static_cast<double>(values.size());
  };
  CHECK(mean(constant.at("param")) == Approx(0.9400).margin(4 * 0.0141 / 256));
  CHECK(mean(decay.at("param")) == Approx(std::pow(1 - 1.5e-4, 65)).margin(4 * 0.0141 / 256));
  double nearest = 1;
  for (int t = 0; t < 100; ++t) nearest = nearest_bf16(nearest - 6e-4);
  CHECK(nearest == 1);
}

TEST_CASE("A35: both code maps have 256 values, ascending, zero and one among them") {
  for (const bool is_signed : {true, false}) {
    const std::array<float, 256>& map = is_signed ? signed_code_map() : unsigned_code_map();
    for (size_t i = 1; i < map.size(); ++i) CHECK(map[i] > map[i - 1]);
    CHECK(map[is_signed ? 127 : 0] == 0);
    CHECK(map[255] == 1);
    // Smallest and most negative values, published with the format.
    CHECK(map[is_signed ? 128 : 1] == Approx(is_signed ? 5.5e-7 : 3.25e-7).epsilon(1e-6));
    if (is_signed) {
      CHECK(map[0] == Approx(-0.99297).epsilon(1e-5));
      for (size_t k = 1; k < 127; ++k) CHECK(map[127 + k] == -map[127 - k]);
    }
    for (size_t i = 0; i < map.size(); ++i) CHECK(nearest_code(map, static_cast<double>(map[i])) == i);
    CHECK(nearest_code(map, -5) == 0);
    CHECK(nearest_code(map, 5) == 255);
  }
}

TEST_CASE("8 bits: the oracle's maps are those, decoding and encoding") {
  // beta1 = beta2 = 0: the moments are g and g^2, whatever was stored. Gradients are the map's values.
  const std::vector<std::pair<std::string, double>> forget = {{"beta1", 0}, {"beta2", 0}, {"lr", 0}};
  OneTensor one("adamw_8bit", 256);
  HostState exact;
  for (size_t i = 0; i < 256; ++i) one.at("grad")[i] = static_cast<double>(signed_code_map()[i]);
  one.step(1, forget, {.exact = &exact});
  CHECK(one.at("exp_avg_scale")[0] == 1);
  for (size_t i = 0; i < 256; ++i) CHECK(one.at("exp_avg")[i] == static_cast<double>(i));
  for (size_t i = 0; i < 256; ++i) CHECK(exact.values[2][0][i] == Approx(static_cast<double>(i)).margin(1e-9));
  for (size_t i = 0; i < 256; ++i) one.at("grad")[i] = std::sqrt(static_cast<double>(unsigned_code_map()[i]));
  one.step(1, forget, {.exact = &exact});
  for (size_t i = 0; i < 256; ++i) CHECK(one.at("exp_avg_sq")[i] == static_cast<double>(i));
  for (size_t i = 0; i < 256; ++i) CHECK(exact.values[4][0][i] == Approx(static_cast<double>(i)).margin(1e-9));
  // Halfway between two values the position is halfway between two codes.
  one.at("grad")[10] = (static_cast<double>(signed_code_map()[10]) + static_cast<double>(signed_code_map()[11])) / 2;
  one.step(1, forget, {.exact = &exact});
  CHECK(exact.values[2][0][10] == Approx(10.5).margin(1e-9));

  // Decoding: with zero gradients and beta = 1/2 all values are halved, and so is the scale: codes stay.
  for (size_t i = 0; i < 256; ++i) {
    one.at("grad")[i] = 0;
    one.at("exp_avg")[i] = one.at("exp_avg_sq")[i] = static_cast<double>(i);
  }
  one.at("exp_avg_scale")[0] = 3;
  one.at("exp_avg_sq_scale")[0] = 5;
  one.step(1, {{"beta1", 0.5}, {"beta2", 0.5}, {"lr", 0}});
  CHECK(one.at("exp_avg_scale")[0] == 1.5);
  CHECK(one.at("exp_avg_sq_scale")[0] == 2.5);
  for (size_t i = 0; i < 256; ++i) {
    CHECK(one.at("exp_avg")[i] == static_cast<double>(i));
    CHECK(one.at("exp_avg_sq")[i] == static_cast<double>(i));
  }
}

TEST_CASE("A36: with zero gradients beside others nothing moves, and a block of zeros stays one (unsloth-zoo#962)") {
  OneTensor one("adamw_8bit", 300);
  one.at("exp_avg").assign(300, 127);
  for (int64_t t = 1; t <= 500; ++t) {
    for (size_t i = 0; i < 128; ++i) one.at("grad")[i] = 1;
    one.step(t, {{"weight_decay", 0}});
  }
  for (size_t i = 128; i < 300; ++i) {
    CHECK(one.at("param")[i] == 0);
    CHECK(one.at("exp_avg")[i] == 127);
    CHECK(one.at("exp_avg_sq")[i] == 0);
  }
  CHECK(one.at("exp_avg_scale")[1] == 0);
  CHECK(one.at("param")[0] < -0.1);  // the control
}

TEST_CASE("blocks are whole wherever a tensor is cut, and start anew in every tensor") {
  const TaskSpec task = load_task("adamw_8bit").value();
  const std::vector<TensorShape> shapes = tensor_list("[70001,5,300,0,256]").value();
  const HyperValues hyper = hyper_at(draw_hyper(task, "gaussian", 3).value(), 12, false, false).value();
  HostState state;
  for (const BufferSpec& buffer : task.buffers) {
    state.values.emplace_back();
    for (size_t t = 0; t < shapes.size(); ++t)
      state.values.back().push_back(to_double(buffer.dtype, make_values(buffer, shapes[t], "gaussian", t)));
  }
  HostState one = state, four = state;
  REQUIRE(oracle_step(task, shapes, hyper, one, nullptr, 1).ok());
  REQUIRE(oracle_step(task, shapes, hyper, four, nullptr, 4).ok());
  CHECK(one.values == four.values);
  // Elements 512 .. 1023 of the first tensor as a part of its own.
  HostState part;
  for (size_t b = 0; b < task.buffers.size(); ++b) {
    const bool per_block = task.buffers[b].shape == "n/256";
    const std::vector<double>& whole = state.values[b][0];
    part.values.push_back({{whole.begin() + (per_block ? 2 : 512), whole.begin() + (per_block ? 4 : 1024)}});
  }
  const TensorShape shape = make_shape({512});
  const OraclePlace place{.tensor = 0, .first = 512};
  REQUIRE(oracle_step(task, {&shape, 1}, hyper, part, nullptr, 1, {.places = {&place, 1}}).ok());
  for (size_t i = 0; i < 512; ++i) CHECK(part.values[2][0][i] == one.values[2][0][512 + i]);
  CHECK(part.values[3][0][1] == one.values[3][0][3]);
}

TEST_CASE("random numbers follow the place in the candidate's list, also for parts of it") {
  const TaskSpec task = load_task("adamw_bf16_sr").value();
  const std::vector<TensorShape> shapes = tensor_list("[16,1024]").value();
  const HyperValues hyper = hyper_at(draw_hyper(task, "gaussian", 3).value(), 12, false, false).value();
  HostState state;
  for (const BufferSpec& buffer : task.buffers) {
    state.values.emplace_back();
    for (size_t t = 0; t < shapes.size(); ++t)
      state.values.back().push_back(to_double(buffer.dtype, make_values(buffer, shapes[t], "gaussian", t)));
  }
  HostState whole = state, part, moved;
  REQUIRE(oracle_step(task, shapes, hyper, whole, nullptr, 1).ok());
  for (const auto& buffer : state.values) part.values.push_back({{buffer[1].begin() + 256, buffer[1].begin() + 768}});
  moved = part;
  const TensorShape shape = make_shape({512});
  const OraclePlace right{.tensor = 1, .first = 256}, wrong{.tensor = 0, .first = 256};
  REQUIRE(oracle_step(task, {&shape, 1}, hyper, part, nullptr, 1, {.places = {&right, 1}}).ok());
  REQUIRE(oracle_step(task, {&shape, 1}, hyper, moved, nullptr, 1, {.places = {&wrong, 1}}).ok());
  const std::vector<double> expected(whole.values[0][1].begin() + 256, whole.values[0][1].begin() + 768);
  CHECK(part.values[0][0] == expected);
  CHECK(moved.values[0][0] != expected);
}

}  // namespace
}  // namespace stepbench
