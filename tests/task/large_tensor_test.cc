// Oracles that get whole tensors cut large ones among threads: no bit depends on how many there are, and the cuts
// change nothing but the last digits. What is expected is computed here in plain loops, in the formulas' own order.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "harness/stages.h"
#include "tasks/spread.h"

namespace stepbench {
namespace {

using Overrides = std::vector<std::pair<std::string, double>>;

HostState drawn_state(const TaskSpec& task, std::span<const TensorShape> shapes) {
  HostState state;
  for (const BufferSpec& buffer : task.buffers) {
    state.values.emplace_back();
    for (size_t t = 0; t < shapes.size(); ++t)
      state.values.back().push_back(to_double(buffer.dtype, make_values(buffer, shapes[t], "gaussian", t + 1)));
  }
  return state;
}

TEST_CASE("the number of threads changes no bit of whole tensors") {
  const struct {
    const char* task;
    const char* list;
  } rows[] = {
      {"lamb", "[300001]"},         {"lamb", "[300001,0,7,40000]"},
      {"adafactor", "[[700,600]]"}, {"adafactor", "[[700,600],[0,3],[5,7],[300,200]]"},
      {"adafactor", "[200000]"},    {"adafactor", "[[3,100000]]"},
      {"muon", "[[700,600]]"},      {"muon", "[[400,1000],[0,3],[5,7],[30,20]]"},
      {"muon_ns5", "[[600,700]]"},  {"muon_ns5", "[[600,700],[1,1]]"},
  };
  for (const auto& row : rows) {
    INFO(row.task << " " << row.list);
    const TaskSpec task = load_task(row.task).value();
    const std::vector<TensorShape> shapes = tensor_list(row.list).value();
    const HyperValues hyper = hyper_at(draw_hyper(task, "gaussian", 3).value(), 12, false, false).value();
    const HostState start = drawn_state(task, shapes);
    HostState expected = start, expected_scale;
    REQUIRE(oracle_step(task, shapes, hyper, expected, &expected_scale, 1).ok());
    const bool moved = expected.values != start.values;
    CHECK(moved);
    for (const int threads : {3, 16}) {
      INFO(threads << " threads");
      HostState state = start, scale, unscaled = start;
      REQUIRE(oracle_step(task, shapes, hyper, state, &scale, threads).ok());
      // Not compared inside of CHECK, which would print every element.
      const bool same = state.values == expected.values, same_scale = scale.values == expected_scale.values;
      CHECK(same);
      CHECK(same_scale);
      REQUIRE(oracle_step(task, shapes, hyper, unscaled, nullptr, threads).ok());
      const bool same_without_scale = unscaled.values == expected.values;
      CHECK(same_without_scale);
    }
  }
}

double worst_relative(const std::vector<double>& got, const std::vector<double>& expected) {
  REQUIRE(got.size() == expected.size());
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i)
    worst = std::max(worst, std::fabs(got[i] - expected[i]) / (std::fabs(expected[i]) + 1e-3));
  return worst;
}

TEST_CASE("lamb over many blocks is lamb in one loop") {
  const TaskSpec task = load_task("lamb").value();
  enum { kParam, kGrad, kExpAvg, kExpAvgSq };
  const double lr = 0.5f, beta1 = 0.75, beta2 = 0.875, eps = 0x1p-20, decay = 0.25;
  const HyperValues hyper =
      hyper_from_defaults(
          task, 2,
          Overrides{
              {"lr", lr}, {"beta1", beta1}, {"beta2", beta2}, {"eps", eps}, {"weight_decay", decay}, {"grad_scale", 4}})
          .value();
  // One element more and less than a number of blocks, and than a piece of one.
  for (const int64_t n : {3 * kSpreadElements, 3 * kSpreadElements + 1, 3 * kSpreadElements - 1, kSpreadElements + 255,
                          int64_t{257}, int64_t{1}}) {
    INFO(n);
    const TensorShape shape = make_shape({n});
    HostState state = drawn_state(task, {&shape, 1});
    std::vector<double> p = state.values[kParam][0], m = state.values[kExpAvg][0], v = state.values[kExpAvgSq][0], u;
    double p_squares = 0, u_squares = 0;
    for (size_t i = 0; i < p.size(); ++i) {
      const double g = state.values[kGrad][0][i] / 4;
      m[i] = beta1 * m[i] + (1 - beta1) * g;
      v[i] = beta2 * v[i] + (1 - beta2) * g * g;
      u.push_back(m[i] / (1 - beta1 * beta1) / (std::sqrt(v[i] / (1 - beta2 * beta2)) + eps) + decay * p[i]);
      p_squares += p[i] * p[i];
      u_squares += u[i] * u[i];
    }
    for (size_t i = 0; i < p.size(); ++i) p[i] -= lr * std::sqrt(p_squares / u_squares) * u[i];
    HostState scale;
    REQUIRE(oracle_step(task, {&shape, 1}, hyper, state, &scale, 3).ok());
    CHECK(worst_relative(state.values[kExpAvg][0], m) < 1e-13);
    CHECK(worst_relative(state.values[kExpAvgSq][0], v) < 1e-13);
    CHECK(worst_relative(state.values[kParam][0], p) < 1e-10);
  }
}

TEST_CASE("adafactor over many tiles is adafactor in one loop") {
  const TaskSpec task = load_task("adafactor").value();
  enum { kParam, kGrad, kRowVar, kColVar };
  const double eps1 = 0x1p-40, eps2 = 0x1p-10, clip = 0.5, lr = 0.25, decay = 0.125;
  const HyperValues hyper = hyper_from_defaults(task, 2,
                                                Overrides{{"lr", lr},
                                                          {"beta2_decay", -0.75},
                                                          {"eps1", eps1},
                                                          {"eps2", eps2},
                                                          {"clip", clip},
                                                          {"weight_decay", decay},
                                                          {"grad_scale", 4}})
                                .value();
  const double weight = std::pow(2, -0.75);
  const struct {
    const char* name;
    int64_t rows, cols;
  } shapes[] = {
      {"square", 320, 310},
      {"more rows than tiles, not a multiple", 1009, 90},
      {"one column", 100003, 1},
      {"one row of several tiles", 1, 2 * kSpreadElements + 5},
      {"rows of several tiles", 3, kSpreadElements + 1},
      {"one tile", 7, 5},
  };
  for (const auto& row : shapes) {
    INFO(row.name);
    const TensorShape shape = row.cols == 1 ? make_shape({row.rows}) : make_shape({row.rows, row.cols});
    REQUIRE(shape.rows == row.rows);
    REQUIRE(shape.cols == row.cols);
    const auto rows = static_cast<size_t>(row.rows), cols = static_cast<size_t>(row.cols);
    HostState state = drawn_state(task, {&shape, 1});
    const std::vector<double> grad = state.values[kGrad][0];
    std::vector<double> p = state.values[kParam][0], r = state.values[kRowVar][0], c = state.values[kColVar][0];
    for (double& value : r) value *= 1 - weight;
    for (double& value : c) value *= 1 - weight;
    double p_squares = 0, u_squares = 0, r_sum = 0;
    for (size_t i = 0; i < rows; ++i)
      for (size_t j = 0; j < cols; ++j) {
        const double g = grad[i * cols + j] / 4;
        r[i] += weight * g * g / static_cast<double>(cols);
        c[j] += weight * g * g / static_cast<double>(rows);
        p_squares += p[i * cols + j] * p[i * cols + j];
      }
    for (const double value : r) r_sum += value;
    std::vector<double> u;
    for (size_t i = 0; i < rows; ++i)
      for (size_t j = 0; j < cols; ++j) {
        const double v = r[i] * c[j] / std::max(r_sum / static_cast<double>(rows), eps1);
        u.push_back(grad[i * cols + j] / 4 / std::sqrt(std::max(v, eps1 * eps1)));
        u_squares += u.back() * u.back();
      }
    const auto n = static_cast<double>(shape.n);
    const double alpha = std::max(eps2, std::sqrt(p_squares / n)) * std::min(lr, 1 / std::sqrt(2.0));
    const double rate = alpha / std::max(1.0, std::sqrt(u_squares / n) / clip);
    for (size_t e = 0; e < p.size(); ++e) p[e] = p[e] * (1 - lr * decay) - rate * u[e];
    HostState scale;
    REQUIRE(oracle_step(task, {&shape, 1}, hyper, state, &scale, 3).ok());
    CHECK(worst_relative(state.values[kRowVar][0], r) < 1e-12);
    CHECK(worst_relative(state.values[kColVar][0], c) < 1e-12);
    CHECK(worst_relative(state.values[kParam][0], p) < 1e-10);
  }
}

}  // namespace
}  // namespace stepbench
