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

TEST_CASE("a plain sum of many products in fp32 is a right factor of shampoo") {
  // Nearly all of the factor is new, so that nothing hides the error of the sums.
  Step step("shampoo", make_shape({192, 1024}), 1, {{"factor_beta", 0}, {"weight_decay", 0}});
  std::mt19937_64 random(5);
  std::normal_distribution<float> normal;
  for (float& g : step.before[step.index("grad")]) g = normal(random);
  const Floats& grad = step.before[step.index("grad")];

  // The right result of everything that is made of the gradient, then the left factor as a plain loop makes it.
  HostState state, stored, scale;
  for (const Role role : {Role::kIn, Role::kInOut}) to_host(step.task, role, step.bytes(step.before), state);
  REQUIRE(oracle_step(step.task, {&step.shape, 1}, step.hyper, state, &scale, 2).ok());
  const size_t left = step.index("left_factor");
  const std::vector<double> exact = state.values[left][0];
  const double ratio = step.task.buffers[left].tolerance.step_scale_ratio;
  const auto worst_of = [&](const Floats& factor) {
    return compare(exact, std::vector<double>(factor.begin(), factor.end()), scale.values[left][0],
                   step.task.buffers[left].tolerance, DType::kF32, Rounding::kNone);
  };
  Floats plain(192 * 192), tf32(192 * 192);
  const auto ten_bits = [](float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof(bits));
    bits = (bits + 0x1000u) & 0xffffe000u;
    std::memcpy(&x, &bits, sizeof(x));
    return x;
  };
  double worst_plain = 0;  // error of a sum of squares, of the sum
  for (size_t i = 0; i < 192; ++i) {
    for (size_t j = 0; j < 192; ++j) {
      float sum = 0, coarse = 0;
      for (size_t k = 0; k < 1024; ++k) {
        const float x = grad[i * 1024 + k], y = grad[j * 1024 + k];
        sum = std::fma(x, y, sum);
        coarse = std::fma(ten_bits(x), ten_bits(y), coarse);
      }
      plain[i * 192 + j] = sum;
      tf32[i * 192 + j] = coarse;
      if (i == j) worst_plain = std::fmax(worst_plain, std::fabs(sum - exact[i * 192 + i]) / exact[i * 192 + i]);
    }
  }
  CHECK(worst_plain > ratio);  // or this would test nothing
  const CompareResult right = worst_of(plain), wrong = worst_of(tf32);
  CHECK(right.worst_ratio < 0.5);
  CHECK(right.first_bad_element < 0);
  CHECK(wrong.worst_ratio > 2);
}

}  // namespace
}  // namespace stepbench
