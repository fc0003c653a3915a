// Sums over the list (tasks/oracle.h, OracleReduce): that they see every tensor and reach every tensor, whatever the
// order and the number of threads. The sums of clip_adamw stand for all; its numbers here are done by hand.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "harness/stages.h"

namespace stepbench {
namespace {

enum Buffer : size_t { kParam, kGrad, kExpAvg, kExpAvgSq };
using Overrides = std::vector<std::pair<std::string, double>>;

const TaskSpec& clip_adamw() {
  static const TaskSpec task = load_task("clip_adamw").value();
  return task;
}

/// Gradients as given, everything else zero.
HostState state_of(const std::vector<std::vector<double>>& grads) {
  HostState state;
  state.values.resize(4);
  for (auto& buffer : state.values)
    for (const std::vector<double>& grad : grads) buffer.emplace_back(grad.size(), 0.0);
  state.values[kGrad] = grads;
  return state;
}

/// exp_avg after one step from zero states with beta1 = 0.5: half of the clipped gradient.
std::vector<std::vector<double>> half_of_clipped(const std::vector<std::vector<double>>& grads,
                                                 const Overrides& overrides) {
  std::vector<TensorShape> shapes;
  for (const std::vector<double>& grad : grads) shapes.push_back(make_shape({static_cast<int64_t>(grad.size())}));
  Overrides all = {{"beta1", 0.5}};
  all.insert(all.end(), overrides.begin(), overrides.end());
  HostState state = state_of(grads);
  const HyperValues hyper = hyper_from_defaults(clip_adamw(), 3, all).value();
  REQUIRE(oracle_step(clip_adamw(), shapes, hyper, state, nullptr, 1).ok());
  return state.values[kExpAvg];
}

TEST_CASE("the sum over the list reaches every tensor") {
  // 3-4-12 and nothing: the norm is 13.
  const auto m = half_of_clipped({{3, 4}, {}, {12}}, {{"max_norm", 1}});
  const double coefficient = 1 / (13 + 1e-6);
  CHECK(m[0][0] == Approx(1.5 * coefficient).epsilon(1e-14));
  CHECK(m[0][1] == Approx(2 * coefficient).epsilon(1e-14));
  CHECK(m[1].empty());
  CHECK(m[2][0] == Approx(6 * coefficient).epsilon(1e-14));
  // The control: alone, the first has a norm of its own.
  CHECK(half_of_clipped({{3, 4}}, {{"max_norm", 1}})[0][1] == Approx(2 / (5 + 1e-6)).epsilon(1e-14));
}

TEST_CASE("below, at and above the threshold") {
  const struct {
    const char* name;
    double max_norm, grad_scale, coefficient;
  } rows[] = {
      {"far below", 1000, 1, 1},
      {"just below: 5 + 1e-6 is still less", 5.00000143051147460937500, 1, 1},
      {"at: 1e-6 is in the divisor", 5, 1, 5 / (5 + 1e-6)},
      {"just above", 4.99999952316284179687500, 1, 4.999999523162841796875 / (5 + 1e-6)},
      {"far above", 0.5, 1, 0.5 / (5 + 1e-6)},
      {"the norm is that of the unscaled gradient", 5, 4, 1},
      {"and the coefficient applies to it", 1, 4, 1 / (1.25 + 1e-6)},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    const auto m = half_of_clipped({{3}, {-4}}, {{"max_norm", row.max_norm}, {"grad_scale", row.grad_scale}});
    CHECK(m[0][0] == Approx(1.5 / row.grad_scale * row.coefficient).epsilon(1e-14));
    CHECK(m[1][0] == Approx(-2 / row.grad_scale * row.coefficient).epsilon(1e-14));
  }
  // A norm of zero divides by 1e-6 and clips nothing.
  CHECK(half_of_clipped({{0.0, 0.0}}, {{"max_norm", 1e-5f}})[0][0] == 0);
}

TEST_CASE("an overflowed list is not summed") {
  const double inf = std::numeric_limits<double>::infinity();
  for (const auto& grad : {std::vector<double>{inf}, std::vector<double>{std::nan("")}})
    CHECK(half_of_clipped({grad, {1}}, {{"found_inf", 1}})[1][0] == 0);
  CHECK(half_of_clipped({{1}, {1}}, {{"found_inf", 0}})[1][0] != 0);
}

TEST_CASE("threads change no bit of the sums, and the order of the list changes rounding only") {
  const TaskSpec& task = clip_adamw();
  const std::vector<TensorShape> shapes =
      tensor_list("[100000,0,70001,1,5,{\"repeat\": 40, \"tensors\": [333]}]").value();
  Overrides overrides = {{"max_norm", 0.125}};
  const HyperValues hyper = hyper_from_defaults(task, 12, overrides).value();
  HostState start;
  for (const BufferSpec& buffer : task.buffers) {
    start.values.emplace_back();
    for (size_t t = 0; t < shapes.size(); ++t)
      start.values.back().push_back(to_double(buffer.dtype, make_values(buffer, shapes[t], "gaussian", t)));
  }
  HostState one = start, four = start, scale;
  REQUIRE(oracle_step(task, shapes, hyper, one, nullptr, 1).ok());
  REQUIRE(oracle_step(task, shapes, hyper, four, &scale, 4).ok());
  CHECK(one.values == four.values);
  CHECK(one.values[kExpAvg] != start.values[kExpAvg]);

  HostState reversed = start;
  std::vector<TensorShape> turned(shapes.rbegin(), shapes.rend());
  for (auto& buffer : reversed.values) std::reverse(buffer.begin(), buffer.end());
  REQUIRE(oracle_step(task, turned, hyper, reversed, nullptr, 3).ok());
  double worst = 0;
  for (size_t t = 0; t < shapes.size(); ++t)
    for (size_t i = 0; i < one.values[kExpAvg][t].size(); ++i)
      worst =
          std::max(worst, std::fabs(one.values[kExpAvg][t][i] - reversed.values[kExpAvg][shapes.size() - 1 - t][i]) /
                              scale.values[kExpAvg][t][i]);
  CHECK(worst < 1e-14);
}

TEST_CASE("sums of parts add up to those of the list, and with them a part is judged alone") {
  const TaskSpec& task = clip_adamw();
  const std::vector<TensorShape> list = {make_shape({600}), make_shape({40})};
  const HyperValues hyper = hyper_from_defaults(task, 9, Overrides{{"max_norm", 0.5}}).value();
  HostState whole = state_of({std::vector<double>(600, 0.25), std::vector<double>(40, -2)});
  // 600/16 + 40*4 = 197.5, exactly.
  const Result<std::vector<double>> totals = oracle_totals(task, list, hyper, whole, 2);
  REQUIRE(totals.ok());
  CHECK(totals.value().at(0) == 197.5);
  const std::vector<TensorShape> parts = {make_shape({512}), make_shape({88}), make_shape({40})};
  HostState cut =
      state_of({std::vector<double>(512, 0.25), std::vector<double>(88, 0.25), std::vector<double>(40, -2)});
  CHECK(oracle_totals(task, parts, hyper, cut, 1).value().at(0) == 197.5);

  REQUIRE(oracle_step(task, list, hyper, whole, nullptr, 1).ok());
  HostState part = state_of({std::vector<double>(88, 0.25)});
  const OraclePlace place{.tensor = 0, .first = 512};
  const OracleDetail detail{.places = {&place, 1}, .totals = totals.value()};
  REQUIRE(oracle_step(task, {&parts[1], 1}, hyper, part, nullptr, 1, detail).ok());
  CHECK(part.values[kExpAvg][0][87] == whole.values[kExpAvg][0][599]);
  CHECK(part.values[kExpAvg][0][0] == Approx((1 - 0.9f) * 0.25 * 0.5 / (std::sqrt(197.5) + 1e-6)).epsilon(1e-6));

  CHECK(judged_in_parts(task));
  CHECK_FALSE(judged_in_parts(load_task("lamb").value()));  // norms of whole tensors
  CHECK(oracle_totals(load_task("lamb").value(), list, hyper, whole, 1).value().empty());
}

TEST_CASE("a task of a family without sums has none") {
  TaskSpec task = clip_adamw();
  const TensorShape shape = make_shape({1});
  const HyperValues hyper = hyper_from_defaults(task, 1, {}).value();
  HostState state = state_of({{1}});
  CHECK(oracle_step(task, {&shape, 1}, hyper, state, nullptr, 1).ok());
  task.family = "elementwise";
  const Result<void> done = oracle_step(task, {&shape, 1}, hyper, state, nullptr, 1);
  REQUIRE(!done.ok());
  CHECK(done.error().code == ErrorCode::kInvalidTask);
  CHECK_THAT(to_text(done.error()), Catch::Contains("tasks/clip_adamw/task.json: /family"));
}

}  // namespace
}  // namespace stepbench
