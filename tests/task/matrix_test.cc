// The oracles of the matrix tasks against numbers from public reports and against arithmetic done by hand. Case numbers
// (A45 ...) are the fault classes they come from, with a report in the comment.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "harness/stages.h"

using namespace stepbench;

namespace {

using Values = std::vector<double>;
using Overrides = std::vector<std::pair<std::string, double>>;

/// What five iterations with the coefficients of Muon make of a singular value, by scalar arithmetic.
double lifted(double s) {
  for (int i = 0; i < 5; ++i) s = 3.4445 * s - 4.7750 * s * s * s + 2.0315 * s * s * s * s * s;
  return s;
}
/// Of 1, as the reports have it.
constexpr double kLiftedOne = 0.69644;

Values gaussian(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Values values(static_cast<size_t>(count));
  for (double& v : values) v = normal(random);
  return values;
}

double norm(const Values& values) {
  double sum = 0;
  for (const double v : values) sum += v * v;
  return std::sqrt(sum);
}

HyperValues hyper_of(const TaskSpec& task, int64_t t, const Overrides& overrides) {
  const Result<HyperValues> hyper = hyper_from_defaults(task, t, overrides);
  if (!hyper.ok()) FAIL(to_text(hyper.error()));
  return hyper.value();
}

/// muon_ns5 of one matrix.
Values orthogonalised(const Values& grad, int64_t rows, int64_t cols, double eps = 1e-7) {
  static const TaskSpec task = load_task("muon_ns5").value();
  const TensorShape shape = make_shape({rows, cols});
  HostState state{{{grad}, {Values(grad.size(), 77)}}};
  REQUIRE(oracle_step(task, {&shape, 1}, hyper_of(task, 1, {{"eps", eps}}), state, nullptr, 1).ok());
  return state.values[1][0];
}

/// One step of muon; gives the parameter.
Values muon_step(const TensorShape& shape, const Values& param, const Values& grad, const Overrides& overrides) {
  static const TaskSpec task = load_task("muon").value();
  HostState state{{{param}, {grad}, {Values(grad.size(), 0)}}};
  REQUIRE(oracle_step(task, {&shape, 1}, hyper_of(task, 1, overrides), state, nullptr, 1).ok());
  return state.values[0][0];
}

double fp32(double value) { return static_cast<double>(static_cast<float>(value)); }

}  // namespace

TEST_CASE("A45: a layer without gradient decays and nothing else (microsoft/dion#24)") {
  const Values after = muon_step(make_shape({64, 64}), Values(64 * 64, 1.0), Values(64 * 64, 0.0),
                                 {{"lr", 0.02}, {"weight_decay", 0.1}});
  for (const double p : after) CHECK(p == Approx(1 - fp32(0.02) * fp32(0.1)).epsilon(1e-15));
  CHECK(after.front() == Approx(0.998).epsilon(1e-7));
}

TEST_CASE("A46: tiny gradients (NVIDIA-NeMo/Emerging-Optimizers#229)") {
  Values unit = gaussian(32 * 32, 5);
  const double length = norm(unit);
  for (double& v : unit) v /= length;
  const auto scaled = [&](double scale) {
    Values values = unit;
    for (double& v : values) v *= scale;
    return values;
  };
  // Nothing is lost where eps is far below the norm: "about 4.8 to 5.0, depending on the draw".
  const double whole = norm(orthogonalised(unit, 32, 32, 1e-30));
  CHECK(whole > 4.75);
  CHECK(whole < 5.05);
  for (const double scale : {1e-8, 1e-9, 1e-10, 1e-12})
    CHECK(norm(orthogonalised(scaled(scale), 32, 32, 1e-30)) == Approx(whole).epsilon(1e-9));
  // The eps of the task is a floor: below it the matrix enters with norm / eps.
  const double collapsed = norm(orthogonalised(scaled(1e-12), 32, 32, 1e-7));
  CHECK(collapsed == Approx(0.0048).epsilon(0.02));  // the report has 1e-7 added; at this scale that is the same
  const Values diagonal = {3e-9, 0, 0, 4e-9};
  const Values floored = orthogonalised(diagonal, 2, 2, 1e-7);
  CHECK(floored[0] == Approx(lifted(3e-9 / fp32(1e-7))).epsilon(1e-12));
  CHECK(floored[3] == Approx(lifted(4e-9 / fp32(1e-7))).epsilon(1e-12));
}

TEST_CASE("A48: the rate follows the shape by sqrt(max(1, rows / cols)) (MoonshotAI/Moonlight#31)") {
  struct Row {
    const char* name;
    std::vector<int64_t> dims;
    double factor;
  };
  const Row rows[] = {{"tall", {256, 64}, 2},
                      {"wide", {64, 256}, 1},
                      {"convolution of one channel", {256, 1, 3, 3}, 5.3333333},
                      {"convolution", {64, 32, 3, 3}, 1}};
  for (const Row& row : rows) {
    INFO(row.name);
    const TensorShape shape = make_shape(row.dims);
    Values grad(static_cast<size_t>(shape.n), 0.0);
    grad[0] = -5;  // of rank one: its singular value is lifted from 1
    const Values after = muon_step(shape, Values(grad.size(), 0.0), grad, {{"lr", 0.5}, {"weight_decay", 0}});
    CHECK(after[0] == Approx(0.5 * row.factor * kLiftedOne).epsilon(1e-5));
    CHECK(after[1] == 0);
  }
}

TEST_CASE("A50: orthogonalisation is not left out (deepspeedai/DeepSpeed#8442)") {
  Values identity(32 * 32, 0.0);
  for (size_t i = 0; i < 32; ++i) identity[i * 33] = 1;
  const Values of_identity = orthogonalised(identity, 32, 32);
  for (size_t i = 0; i < 32; ++i) CHECK(of_identity[i * 33] == Approx(1.0187).epsilon(1e-4));
  // Here SGD would look nearly right; with a Gaussian it is far off.
  const Values grad = gaussian(32 * 32, 6);
  const Values ortho = orthogonalised(grad, 32, 32);
  double dot = 0;
  for (size_t i = 0; i < grad.size(); ++i) dot += grad[i] * ortho[i];
  CHECK(dot / norm(grad) / norm(ortho) < 0.95);
  CHECK(dot / norm(grad) / norm(ortho) > 0.5);
}

TEST_CASE("A51: tall, wide and one-dimensional matrices (pytorch/pytorch#160213)") {
  const Values wide = gaussian(128 * 512, 7);
  Values tall(wide.size());
  for (size_t i = 0; i < 128; ++i)
    for (size_t j = 0; j < 512; ++j) tall[j * 128 + i] = wide[i * 512 + j];
  const Values of_wide = orthogonalised(wide, 128, 512), of_tall = orthogonalised(tall, 512, 128);
  double worst = 0;
  for (size_t i = 0; i < 128; ++i)
    for (size_t j = 0; j < 512; ++j) worst = std::max(worst, std::fabs(of_tall[j * 128 + i] - of_wide[i * 512 + j]));
  CHECK(worst < 1e-13);
  struct Row {
    int64_t rows, cols;
  };
  for (const Row& row : {Row{1, 37}, Row{37, 1}, Row{1, 1}}) {
    INFO(row.rows << " x " << row.cols);
    const Values grad = gaussian(row.rows * row.cols, 8);
    const Values ortho = orthogonalised(grad, row.rows, row.cols);
    CHECK(norm(ortho) == Approx(kLiftedOne).epsilon(1e-5));
    CHECK(norm(ortho) == Approx(lifted(1)).epsilon(1e-12));
    for (size_t i = 0; i < grad.size(); ++i) CHECK(ortho[i] == Approx(grad[i] / norm(grad) * lifted(1)).epsilon(1e-12));
  }
}

TEST_CASE("A52: the fourth root, not the square root (HomericIntelligence/Odyssey#5497)") {
  const TaskSpec task = load_task("shampoo").value();
  // Without a gradient the left factor only decays; so late its correction is 1.
  const HyperValues hyper = hyper_of(task, 1'000'000, {{"matrix_eps", 0}, {"factor_beta", 0.5}});
  const double c = std::cos(0.7), s = std::sin(0.7);
  struct Row {
    const char* name;
    Values factor, root;
  };
  const double a = 0.840896415, b = 0.594603558;  // 2^(-1/4), 8^(-1/4)
  const Row rows[] = {{"diagonal", {2, 0, 0, 8}, {a, 0, 0, b}},
                      {"dense",
                       {2 * c * c + 8 * s * s, -6 * c * s, -6 * c * s, 2 * s * s + 8 * c * c},
                       {a * c * c + b * s * s, (a - b) * c * s, (a - b) * c * s, a * s * s + b * c * c}}};
  for (const Row& row : rows) {
    INFO(row.name);
    const TensorShape shape = make_shape({2, 3});
    HostState state;
    for (const BufferSpec& buffer : task.buffers)
      state.values.push_back({Values(static_cast<size_t>(buffer_elements(buffer, shape)), 0.0)});
    for (size_t i = 0; i < 4; ++i) state.values[2][0][i] = 2 * row.factor[i];  // halved by this step
    REQUIRE(oracle_step(task, {&shape, 1}, hyper, state, nullptr, 1).ok());
    REQUIRE(task.buffers[4].name == "left_root");
    for (size_t i = 0; i < 4; ++i) CHECK(state.values[4][0][i] == Approx(row.root[i]).epsilon(1e-8).margin(1e-9));
  }
}
