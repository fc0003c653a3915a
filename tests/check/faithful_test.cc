// Right evaluations in fp32 that a limit once called wrong, found on lists of real size, where a chance of one in a
// hundred million comes up. Each beside a wrong one that has to stay wrong.
#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <random>

#include "harness/checks.h"
#include "harness/stages.h"

namespace stepbench {
namespace {

using Floats = std::vector<float>;

/// One tensor before and after a step, all buffers in fp32.
struct Step {
  TaskSpec task;
  TensorShape shape;
  HyperValues hyper;
  std::vector<Floats> before, after;  ///< by buffer

  Step(const char* id, const TensorShape& tensor, int64_t t,
       const std::vector<std::pair<std::string, double>>& overrides)
      : shape(tensor) {
    const Result<TaskSpec> loaded = load_task(id);
    if (!loaded.ok()) FAIL(to_text(loaded.error()));
    task = loaded.value();
    const Result<HyperValues> values = hyper_from_defaults(task, t, overrides);
    if (!values.ok()) FAIL(to_text(values.error()));
    hyper = values.value();
    for (const BufferSpec& buffer : task.buffers) {
      REQUIRE(buffer.dtype == DType::kF32);
      before.emplace_back(static_cast<size_t>(buffer_elements(buffer, shape)));
    }
  }
  size_t index(const std::string& name) const {
    for (size_t b = 0; b < task.buffers.size(); ++b)
      if (task.buffers[b].name == name) return b;
    FAIL("no buffer " << name);
    return 0;
  }
  float scalar(const std::string& name) const {
    for (size_t i = 0; i < task.hyper.size(); ++i)
      if (task.hyper[i].name == name) return static_cast<float>(hyper.values[i]);
    FAIL("no hyperparameter " << name);
    return 0;
  }
  BufferBytes bytes(const std::vector<Floats>& values) const {
    BufferBytes out(values.size());
    for (size_t b = 0; b < values.size(); ++b) {
      out[b].resize(1);
      out[b][0].resize(4 * values[b].size());
      std::memcpy(out[b][0].data(), values[b].data(), out[b][0].size());
    }
    return out;
  }
  StepJudgement judged() const {
    JudgeSpace space;
    const Result<StepJudgement> judgement = judge_step(task, {&shape, 1}, hyper, bytes(before), bytes(after), 1, space);
    if (!judgement.ok()) FAIL(to_text(judgement.error()));
    return judgement.value();
  }
};

/// The update of tasks/rmsprop with every operation rounded to fp32, multiplications and additions fused or not.
void step_rmsprop(Step& step, bool fused) {
  step.after = step.before;
  Floats& param = step.after[step.index("param")];
  Floats& square_avg = step.after[step.index("square_avg")];
  Floats& grad_avg = step.after[step.index("grad_avg")];
  Floats& momentum_buffer = step.after[step.index("momentum_buffer")];
  const Floats& grad = step.before[step.index("grad")];
  const float lr = step.scalar("lr"), weight = 1 - step.scalar("alpha"), eps = step.scalar("eps");
  const float momentum = step.scalar("momentum");
  const auto add = [&](float x, float y, float z) { return fused ? std::fma(x, y, z) : x * y + z; };
  for (size_t i = 0; i < grad.size(); ++i) {
    const float g = grad[i], q = square_avg[i], a = grad_avg[i];
    square_avg[i] = add(weight, g * g, add(-weight, q, q));
    grad_avg[i] = add(weight, g, add(-weight, a, a));
    const float variance = std::fmax(add(-grad_avg[i], grad_avg[i], square_avg[i]), 0.0f);
    momentum_buffer[i] = add(momentum, momentum_buffer[i], g / (std::sqrt(variance) + eps));
    param[i] = add(-lr, momentum_buffer[i], param[i]);
  }
}

TEST_CASE("a variance that is nothing but rounding may be any small one") {
  for (const bool fused : {false, true}) {
    INFO((fused ? "fused" : "not fused"));
    Step step("rmsprop", make_shape({200'000}), 100, {{"weight_decay", 0}, {"momentum", 0.5}});
    std::mt19937_64 random(11);
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < step.before[0].size(); ++i) {
      // Gradients that never changed: the mean square is the square of the mean, rounded up or down.
      const float g = normal(random) * 0.01f;
      step.before[step.index("param")][i] = normal(random) * 0.1f;
      step.before[step.index("grad")][i] = g;
      step.before[step.index("grad_avg")][i] = g;
      step.before[step.index("square_avg")][i] = i % 4 == 3 ? 2 * g * g : g * g;  // one in four has a variance
    }
    step_rmsprop(step, fused);
    const StepJudgement right = step.judged();
    if (right.failure) FAIL_CHECK(right.failure->message);
    CHECK(right.worst_ratio < 0.501);

    // Where the variance is known, a thousandth of a step is too much.
    step.after[step.index("momentum_buffer")][7] *= 1.001f;
    const StepJudgement wrong = step.judged();
    REQUIRE(wrong.failure);
    CHECK(wrong.failure->buffer == "momentum_buffer");
    CHECK(wrong.failure->element == 7);
  }
}

/// Rounded to the ten bits of TF32.
float ten_bits(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  bits = (bits + 0x1000u) & 0xffffe000u;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

/// What the oracle makes of the state before the step, and the scales of its limits.
struct Exact {
  HostState state, scale;
  explicit Exact(const Step& step) {
    for (const Role role : {Role::kIn, Role::kInOut}) to_host(step.task, role, step.bytes(step.before), state);
    REQUIRE(oracle_step(step.task, {&step.shape, 1}, step.hyper, state, &scale, 2).ok());
  }
  double worst(const Step& step, size_t buffer, const Floats& got) const {
    return compare(state.values[buffer][0], std::vector<double>(got.begin(), got.end()), scale.values[buffer][0],
                   step.task.buffers[buffer].tolerance, DType::kF32, Rounding::kNone)
        .worst_ratio;
  }
};

/// sum of x[k * x_step] * y[k * y_step], one product after the other in fp32.
struct Sums {
  float plain = 0, tf32 = 0;
};
Sums sums(const float* x, size_t x_step, const float* y, size_t y_step, size_t count) {
  Sums s;
  for (size_t k = 0; k < count; ++k) {
    s.plain = std::fma(x[k * x_step], y[k * y_step], s.plain);
    s.tf32 = std::fma(ten_bits(x[k * x_step]), ten_bits(y[k * y_step]), s.tf32);
  }
  return s;
}

/// A normal number over a uniform one: the family `heavy_tailed`.
Floats heavy_tailed(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> uniform(0x1p-24f, 1);
  Floats out(count);
  for (float& x : out) {
    const float numerator = normal(random);
    x = numerator / uniform(random);
  }
  return out;
}

TEST_CASE("a plain sum of many products in fp32 is a right factor of shampoo") {
  // Nearly all of the factor is new, so that nothing hides the error of the sums.
  Step step("shampoo", make_shape({192, 1024}), 1, {{"factor_beta", 0}, {"weight_decay", 0}});
  std::mt19937_64 random(5);
  std::normal_distribution<float> normal;
  Floats& grad = step.before[step.index("grad")];
  for (float& g : grad) g = normal(random);

  // The right result of everything that is made of the gradient, then the left factor as a plain loop makes it.
  const Exact exact(step);
  const size_t left = step.index("left_factor");
  Floats plain(192 * 192), tf32(192 * 192);
  double worst_plain = 0;  // error of a sum of squares, of the sum
  for (size_t i = 0; i < 192; ++i) {
    for (size_t j = 0; j < 192; ++j) {
      const Sums s = sums(&grad[i * 1024], 1, &grad[j * 1024], 1, 1024);
      plain[i * 192 + j] = s.plain;
      tf32[i * 192 + j] = s.tf32;
      const double right = exact.state.values[left][0][i * 192 + j];
      if (i == j) worst_plain = std::fmax(worst_plain, std::fabs(s.plain - right) / right);
    }
  }
  CHECK(worst_plain > step.task.buffers[left].tolerance.step_scale_ratio);  // or this would test nothing
  CHECK(exact.worst(step, left, plain) < 0.5);
  CHECK(exact.worst(step, left, tf32) > 2);
}

TEST_CASE("a plain sum in which one product is larger than all others is a right factor of shampoo") {
  const int64_t rows = GENERATE(int64_t{24}, int64_t{96});
  CAPTURE(rows);
  Step step("shampoo", make_shape({rows, 24}), 1, {{"factor_beta", 0}, {"weight_decay", 0}});
  const size_t right = step.index("right_factor");
  Floats& grad = step.before[step.index("grad")];
  double worst_plain = 0, least_tf32 = HUGE_VAL;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    grad = heavy_tailed(grad.size(), seed);
    const Exact exact(step);
    Floats plain(24 * 24), tf32(24 * 24);
    for (size_t i = 0; i < 24; ++i) {
      for (size_t j = 0; j < 24; ++j) {
        const Sums s = sums(&grad[i], 24, &grad[j], 24, static_cast<size_t>(rows));
        plain[i * 24 + j] = s.plain;
        tf32[i * 24 + j] = s.tf32;
      }
    }
    worst_plain = std::fmax(worst_plain, exact.worst(step, right, plain));
    least_tf32 = std::fmin(least_tf32, exact.worst(step, right, tf32));
  }
  CHECK(worst_plain < 0.5);
  CHECK(least_tf32 > 2);
}

/// A rotation without a structure: Householder's reflections of random vectors, one after the other.
Floats orthogonal(size_t side, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> q(side * side);
  for (size_t i = 0; i < side; ++i) q[i * side + i] = 1;
  for (int reflection = 0; reflection < 8; ++reflection) {
    std::vector<double> v(side);
    double squares = 0;
    for (double& x : v) {
      x = normal(random);
      squares += x * x;
    }
    for (size_t i = 0; i < side; ++i) {
      double along = 0;
      for (size_t j = 0; j < side; ++j) along += q[i * side + j] * v[j];
      for (size_t j = 0; j < side; ++j) q[i * side + j] -= 2 * along / squares * v[j];
    }
  }
  return Floats(q.begin(), q.end());
}

TEST_CASE("plain sums in which one product is larger than all others are right averages of soap_fixed_basis") {
  constexpr size_t kRows = 192, kCols = 48;
  Step step("soap_fixed_basis", make_shape({kRows, kCols}), 1, {{"weight_decay", 0}, {"beta1", 0}, {"beta2", 0}});
  const size_t average = step.index("exp_avg"), square = step.index("exp_avg_sq");
  Floats& grad = step.before[step.index("grad")];
  const Floats left = step.before[step.index("basis_left")] = orthogonal(kRows, 1);
  const Floats right = step.before[step.index("basis_right")] = orthogonal(kCols, 2);
  double worst_plain = 0, least_tf32 = HUGE_VAL;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    grad = heavy_tailed(grad.size(), seed);
    const Exact exact(step);
    Floats half(grad.size()), coarse_half(grad.size()), plain(grad.size()), tf32(grad.size()), plain_sq(grad.size());
    for (size_t i = 0; i < kRows; ++i) {
      for (size_t j = 0; j < kCols; ++j) {
        const Sums s = sums(&grad[i * kCols], 1, &right[j], kCols, kCols);
        half[i * kCols + j] = s.plain;
        coarse_half[i * kCols + j] = s.tf32;
      }
    }
    for (size_t i = 0; i < kRows; ++i) {
      for (size_t j = 0; j < kCols; ++j) {
        const size_t at = i * kCols + j;
        plain[at] = sums(&left[i], kRows, &half[j], kCols, kRows).plain;
        tf32[at] = sums(&left[i], kRows, &coarse_half[j], kCols, kRows).plain;
        plain_sq[at] = plain[at] * plain[at];
      }
    }
    worst_plain = std::fmax(worst_plain, exact.worst(step, average, plain));
    worst_plain = std::fmax(worst_plain, exact.worst(step, square, plain_sq));
    least_tf32 = std::fmin(least_tf32, exact.worst(step, average, tf32));
  }
  CHECK(worst_plain < 0.5);
  CHECK(least_tf32 > 2);
}

}  // namespace
}  // namespace stepbench
