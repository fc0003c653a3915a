// The limits of the tasks tell right kernels from wrong ones: candidates emulated in plain fp32 (no contraction),
// in the orders of operations that libraries use and with the mistakes that libraries made. Every right one must stay
// at or under half of the limit, every wrong one must reach twice the limit somewhere.
//
// Run `test_task "[report]"` for the distances. Longer than 500 lines because the forms of both tasks are tables that
// are read beside the code that runs them.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>

#include "harness/stages.h"

namespace stepbench {
namespace {

// ------------------------------------------------------------------------------------------------ fp32 building blocks

float nudged(float value, int ulps) {
  const float target = ulps > 0 ? std::numeric_limits<float>::infinity() : -std::numeric_limits<float>::infinity();
  for (int i = 0; i < std::abs(ulps); ++i) value = std::nextafter(value, target);
  return value;
}

/// beta^t as a device function that is wrong by so many units in the last place.
float power(float beta, int step, int ulps) {
  return nudged(static_cast<float>(std::pow(static_cast<double>(beta), step)), ulps);
}

float to_bf16(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, 4);
  bits = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
  std::memcpy(&value, &bits, 4);
  return value;
}

float flushed(float value) { return std::fabs(value) < std::numeric_limits<float>::min() ? 0.0f : value; }

// ------------------------------------------------------------------------------------------------ AdamW

struct AdamW {
  int step;
  float lr, beta1, beta2, eps, weight_decay, bc1, bc2, bc2_sqrt, step_size, grad_scale;
};

AdamW adamw_hyper(const HyperValues& h) {
  const auto f = [&](size_t i) { return static_cast<float>(h.values[i]); };
  return {static_cast<int>(h.values[0]), f(1), f(2), f(3), f(4), f(5), f(6), f(7), f(8), f(9), f(10)};
}

struct AdamWState {
  float p, m, v;
};
using AdamWForm = AdamWState (*)(AdamWState s, float grad, const AdamW& h);

/// The order that the task's text writes down; what the others are edits of.
AdamWState adamw_text(AdamWState s, float grad, const AdamW& h) {
  const float g = grad / h.grad_scale;
  s.m = h.beta1 * s.m + (1 - h.beta1) * g;
  s.v = h.beta2 * s.v + (1 - h.beta2) * g * g;
  const float u = (s.m / h.bc1) / (std::sqrt(s.v / h.bc2) + h.eps) + h.weight_decay * s.p;
  s.p = s.p - h.lr * u;
  return s;
}

AdamWState adamw_torch(AdamWState s, float grad, const AdamW& h) {
  const float g = grad / h.grad_scale;
  s.p = s.p * (1 - h.lr * h.weight_decay);
  s.m = s.m + (1 - h.beta1) * (g - s.m);
  s.v = s.v * h.beta2 + (1 - h.beta2) * (g * g);
  s.p = s.p - h.step_size * (s.m / (std::sqrt(s.v) / h.bc2_sqrt + h.eps));
  return s;
}

/// torch's fused kernel: decay by subtraction, m before the division.
AdamWState adamw_fused(AdamWState s, float grad, const AdamW& h) {
  const float g = grad * (1 / h.grad_scale);
  s.p = s.p - h.lr * h.weight_decay * s.p;
  s.m = std::fma(1 - h.beta1, g - s.m, s.m);
  s.v = std::fma(1 - h.beta2, g * g - s.v, s.v);
  s.p = s.p - h.step_size * s.m / (std::sqrt(s.v) / h.bc2_sqrt + h.eps);
  return s;
}

/// llm.c and apex: two FMAs per average, one subtraction.
AdamWState adamw_fma(AdamWState s, float grad, const AdamW& h) {
  const float g = grad / h.grad_scale, w1 = 1 - h.beta1, w2 = 1 - h.beta2, gg = g * g;
  s.m = std::fma(w1, g, std::fma(-w1, s.m, s.m));
  s.v = std::fma(w2, gg, std::fma(-w2, s.v, s.v));
  const float u = std::fma(h.weight_decay, s.p, (s.m / h.bc1) / (std::sqrt(s.v / h.bc2) + h.eps));
  s.p = std::fma(-h.lr, u, s.p);
  return s;
}

template <int kUlps>
AdamWState adamw_powf(AdamWState s, float grad, const AdamW& h) {
  AdamW own = h;
  own.bc1 = 1 - power(h.beta1, h.step, kUlps);
  own.bc2 = 1 - power(h.beta2, h.step, kUlps);
  return adamw_fma(s, grad, own);
}

/// The two corrections wrong in opposite directions.
AdamWState adamw_powf_apart(AdamWState s, float grad, const AdamW& h) {
  AdamW own = h;
  own.bc1 = 1 - power(h.beta1, h.step, 4);
  own.bc2 = 1 - power(h.beta2, h.step, -4);
  return adamw_fma(s, grad, own);
}

/// Division and root off by two units, as an approximation with one refinement is.
AdamWState adamw_approximate(AdamWState s, float grad, const AdamW& h) {
  const float g = grad / h.grad_scale;
  s.m = h.beta1 * s.m + (1 - h.beta1) * g;
  s.v = h.beta2 * s.v + (1 - h.beta2) * g * g;
  const float denominator = nudged(std::sqrt(s.v), -2) * (1 / h.bc2_sqrt) + h.eps;
  s.p = s.p - (h.lr * h.weight_decay * s.p + h.step_size * nudged(s.m / denominator, s.m > 0 ? 2 : -2));
  return s;
}

/// All in double, one rounding at the end: torch's old fused kernel with double hyperparameters comes close.
AdamWState adamw_double(AdamWState s, float grad, const AdamW& h) {
  const double g = static_cast<double>(grad) / h.grad_scale, b1 = h.beta1, b2 = h.beta2;
  const double m = b1 * s.m + (1 - b1) * g, v = b2 * s.v + (1 - b2) * g * g;
  const double u = m / (1 - std::pow(b1, h.step)) / (std::sqrt(v / (1 - std::pow(b2, h.step))) + h.eps);
  return {static_cast<float>(s.p - h.lr * (u + static_cast<double>(h.weight_decay) * s.p)), static_cast<float>(m),
          static_cast<float>(v)};
}

template <class Change>
AdamWState with(AdamWState s, float grad, AdamW h, Change change) {
  change(h);
  return adamw_fma(s, grad, h);
}

/// Finishes a step whose averages are done with another denominator.
AdamWState adamw_denominator(AdamWState s, float grad, const AdamW& h, float (*denominator)(float v, const AdamW&)) {
  const float p = s.p;
  s = adamw_fma(s, grad, h);
  s.p = p - h.lr * ((s.m / h.bc1) / denominator(s.v, h) + h.weight_decay * p);
  return s;
}

struct AdamWRow {
  const char* name;
  bool right;
  AdamWForm form;
};

const AdamWRow kAdamW[] = {
    {"text", true, adamw_text},
    {"torch, one operation after the other", true, adamw_torch},
    {"torch fused", true, adamw_fused},
    {"fma averages (llm.c, apex)", true, adamw_fma},
    {"powf 4 ulp high", true, adamw_powf<4>},
    {"powf 4 ulp low", true, adamw_powf<-4>},
    {"powf apart", true, adamw_powf_apart},
    {"approximate division and root", true, adamw_approximate},
    {"double inside", true, adamw_double},

    {"eps inside the root", false,
     [](AdamWState s, float g, const AdamW& h) {
       return adamw_denominator(s, g, h, [](float v, const AdamW& k) { return std::sqrt(v / k.bc2 + k.eps); });
     }},
    {"eps on the uncorrected root", false,
     [](AdamWState s, float g, const AdamW& h) {
       return adamw_denominator(s, g, h, [](float v, const AdamW& k) { return (std::sqrt(v) + k.eps) / k.bc2_sqrt; });
     }},
    {"no eps", false,
     [](AdamWState s, float g, const AdamW& h) { return with(s, g, h, [](AdamW& k) { k.eps = 1e-30f; }); }},
    {"decay after the update", false,
     [](AdamWState s, float g, const AdamW& h) {
       s = with(s, g, h, [](AdamW& k) { k.weight_decay = 0; });
       s.p = s.p * (1 - h.lr * h.weight_decay);
       return s;
     }},
    {"decay joined to the gradient", false,
     [](AdamWState s, float g, const AdamW& h) {
       return with(s, g + h.weight_decay * s.p * h.grad_scale, h, [](AdamW& k) { k.weight_decay = 0; });
     }},
    {"decay without lr", false,
     [](AdamWState s, float g, const AdamW& h) { return with(s, g, h, [](AdamW& k) { k.weight_decay /= k.lr; }); }},
    {"decay ignored", false,
     [](AdamWState s, float g, const AdamW& h) { return with(s, g, h, [](AdamW& k) { k.weight_decay = 0; }); }},
    {"no bias correction", false,
     [](AdamWState s, float g, const AdamW& h) { return with(s, g, h, [](AdamW& k) { k.bc1 = k.bc2 = 1; }); }},
    {"step off by one", false,
     [](AdamWState s, float g, const AdamW& h) {
       return with(s, g, h, [](AdamW& k) {
         k.bc1 = 1 - power(k.beta1, k.step + 1, 0);
         k.bc2 = 1 - power(k.beta2, k.step + 1, 0);
       });
     }},
    {"step counter in bf16", false,
     [](AdamWState s, float g, const AdamW& h) {
       return with(s, g, h, [](AdamW& k) {
         k.bc2 = 1 - power(k.beta2, static_cast<int>(to_bf16(static_cast<float>(k.step))), 0);
       });
     }},
    {"beta2 in bf16", false,
     [](AdamWState s, float g, const AdamW& h) { return with(s, g, h, [](AdamW& k) { k.beta2 = to_bf16(k.beta2); }); }},
    {"lr in bf16", false,
     [](AdamWState s, float g, const AdamW& h) { return with(s, g, h, [](AdamW& k) { k.lr = to_bf16(k.lr); }); }},
    {"lr off by 1e-4 of itself", false,
     [](AdamWState s, float g, const AdamW& h) { return with(s, g, h, [](AdamW& k) { k.lr *= 1.0001f; }); }},
    {"moments kept in bf16", false,
     [](AdamWState s, float g, const AdamW& h) {
       s = adamw_fma(s, g, h);
       return AdamWState{s.p, to_bf16(s.m), to_bf16(s.v)};
     }},
    {"subnormals flushed", false,
     [](AdamWState s, float g, const AdamW& h) {
       s = adamw_fma(s, flushed(g), h);
       return AdamWState{flushed(s.p), flushed(s.m), flushed(s.v)};
     }},
    {"grad_scale ignored", false,
     [](AdamWState s, float g, const AdamW& h) { return with(s, g, h, [](AdamW& k) { k.grad_scale = 1; }); }},
    {"sign update", false,
     [](AdamWState s, float g, const AdamW& h) {
       const float p = s.p;
       s = adamw_fma(s, g, h);
       s.p = p - h.lr * ((s.m > 0 ? 1.0f : -1.0f) + h.weight_decay * p);
       return s;
     }},
    {"nothing done", false, [](AdamWState s, float, const AdamW&) { return s; }},
};

// ------------------------------------------------------------------------------------------------ SGD

struct Sgd {
  float lr, momentum, dampening, weight_decay;
  bool nesterov, first;
  float grad_scale;
};

Sgd sgd_hyper(const HyperValues& h) {
  const auto f = [&](size_t i) { return static_cast<float>(h.values[i]); };
  return {f(1), f(2), f(3), f(4), h.values[5] != 0, h.values[6] != 0, f(7)};
}

struct SgdState {
  float p, b;
};
using SgdForm = SgdState (*)(SgdState s, float grad, const Sgd& h);

SgdState sgd_text(SgdState s, float grad, const Sgd& h) {
  const float g = grad / h.grad_scale + h.weight_decay * s.p;
  s.b = h.first ? g : h.momentum * s.b + (1 - h.dampening) * g;
  s.p = s.p - h.lr * (h.nesterov ? g + h.momentum * s.b : s.b);
  return s;
}

SgdState sgd_fma(SgdState s, float grad, const Sgd& h) {
  const float g = std::fma(h.weight_decay, s.p, grad * (1 / h.grad_scale));
  s.b = h.first ? g : std::fma(h.momentum, s.b, (1 - h.dampening) * g);
  s.p = std::fma(-h.lr, h.nesterov ? std::fma(h.momentum, s.b, g) : s.b, s.p);
  return s;
}

template <class Change>
SgdState with(SgdState s, float grad, Sgd h, Change change) {
  change(h);
  return sgd_fma(s, grad, h);
}

struct SgdRow {
  const char* name;
  bool right;
  SgdForm form;
};

const SgdRow kSgd[] = {
    {"text", true, sgd_text},
    {"fma", true, sgd_fma},
    {"double inside", true,
     [](SgdState s, float grad, const Sgd& h) {
       const double g = static_cast<double>(grad) / h.grad_scale + static_cast<double>(h.weight_decay) * s.p;
       const double b = h.first ? g : static_cast<double>(h.momentum) * s.b + (1.0 - h.dampening) * g;
       const double u = h.nesterov ? g + h.momentum * b : b;
       return SgdState{static_cast<float>(s.p - h.lr * u), static_cast<float>(b)};
     }},

    {"dampening on the first step", false,
     [](SgdState s, float g, const Sgd& h) {
       return with(s, g, h, [&](Sgd& k) {
         if (k.first) s.b = 0;
         k.first = false;
       });
     }},
    {"dampening ignored", false,
     [](SgdState s, float g, const Sgd& h) { return with(s, g, h, [](Sgd& k) { k.dampening = 0; }); }},
    {"first step not special", false,
     [](SgdState s, float g, const Sgd& h) { return with(s, g, h, [](Sgd& k) { k.first = false; }); }},
    {"every step the first", false,
     [](SgdState s, float g, const Sgd& h) { return with(s, g, h, [](Sgd& k) { k.first = true; }); }},
    {"nesterov ignored", false,
     [](SgdState s, float g, const Sgd& h) { return with(s, g, h, [](Sgd& k) { k.nesterov = false; }); }},
    {"nesterov from the old buffer", false,
     [](SgdState s, float g, const Sgd& h) {
       const SgdState before = s;
       s = sgd_fma(s, g, h);
       if (h.nesterov) {
         const float whole = g / h.grad_scale + h.weight_decay * before.p;
         s.p = before.p - h.lr * (whole + h.momentum * before.b);
       }
       return s;
     }},
    {"decay decoupled", false,
     [](SgdState s, float g, const Sgd& h) {
       const float p = s.p;
       s = with(s, g, h, [](Sgd& k) { k.weight_decay = 0; });
       s.p -= h.lr * h.weight_decay * p;
       return s;
     }},
    {"decay ignored", false,
     [](SgdState s, float g, const Sgd& h) { return with(s, g, h, [](Sgd& k) { k.weight_decay = 0; }); }},
    {"decay divided by grad_scale", false,
     [](SgdState s, float g, const Sgd& h) { return with(s, g, h, [](Sgd& k) { k.weight_decay /= k.grad_scale; }); }},
    {"lr inside the buffer", false,
     [](SgdState s, float g, const Sgd& h) {
       const float p = s.p;
       s = sgd_fma(s, g, h);
       return SgdState{p - (p - s.p), s.b * h.lr};
     }},
    {"momentum in bf16", false,
     [](SgdState s, float g, const Sgd& h) { return with(s, g, h, [](Sgd& k) { k.momentum = to_bf16(k.momentum); }); }},
    {"lr off by 1e-4 of itself", false,
     [](SgdState s, float g, const Sgd& h) { return with(s, g, h, [](Sgd& k) { k.lr *= 1.0001f; }); }},
    {"grad_scale ignored", false,
     [](SgdState s, float g, const Sgd& h) { return with(s, g, h, [](Sgd& k) { k.grad_scale = 1; }); }},
    {"subnormals flushed", false,
     [](SgdState s, float g, const Sgd& h) {
       s = sgd_fma(s, flushed(g), h);
       return SgdState{flushed(s.p), flushed(s.b)};
     }},
    {"nothing done", false, [](SgdState s, float, const Sgd&) { return s; }},
};

// ------------------------------------------------------------------------------------------------ running them

/// One emulated step over one tensor: `state` is [buffer][element] in fp32, in the task's buffer order.
using Floats = std::vector<std::vector<float>>;
struct Form {
  const char* name;
  bool right;
  std::function<void(const HyperValues&, Floats&)> step;
};

std::vector<Form> forms_of(const std::string& task) {
  std::vector<Form> forms;
  if (task == "adamw") {
    for (const AdamWRow& row : kAdamW) {
      forms.push_back({row.name, row.right, [form = row.form](const HyperValues& values, Floats& state) {
                         const AdamW h = adamw_hyper(values);
                         for (size_t i = 0; i < state[0].size(); ++i) {
                           const AdamWState s = form({state[0][i], state[2][i], state[3][i]}, state[1][i], h);
                           state[0][i] = s.p;
                           state[2][i] = s.m;
                           state[3][i] = s.v;
                         }
                       }});
    }
  } else {
    for (const SgdRow& row : kSgd) {
      forms.push_back({row.name, row.right, [form = row.form](const HyperValues& values, Floats& state) {
                         const Sgd h = sgd_hyper(values);
                         for (size_t i = 0; i < state[0].size(); ++i) {
                           const SgdState s = form({state[0][i], state[2][i]}, state[1][i], h);
                           state[0][i] = s.p;
                           state[2][i] = s.b;
                         }
                       }});
    }
  }
  return forms;
}

std::vector<float> floats_of(const BufferSpec& buffer, const TensorShape& shape, const std::string& family,
                             uint64_t seed) {
  const std::vector<std::byte> bytes = make_values(buffer, shape, family, seed);
  std::vector<float> out(bytes.size() / 4);
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

HostState host_of(const Floats& state) {
  HostState host;
  for (const std::vector<float>& buffer : state) host.values.push_back({{buffer.begin(), buffer.end()}});
  return host;
}

struct Distance {
  double worst = 0;  ///< in units of the limit
  std::string where;
  std::vector<double> per_buffer;
};

/// Teacher-forced: every step starts from the emulated state before it.
std::vector<Distance> step_distances(const TaskSpec& task, const std::vector<Form>& forms, int seeds, int64_t n) {
  const int64_t first_steps[] = {1, 2, 3, 10, 257, 1000, 1000000};
  const TensorShape shape = make_shape({n});
  std::vector<Distance> out(forms.size());
  for (const std::string& family : task.input_families) {
    for (int round = 0; round < seeds; ++round) {
      const uint64_t seed = derive_seed(77, family, static_cast<uint64_t>(round));
      const Result<HyperTrajectory> trajectory = draw_hyper(task, family, seed);
      REQUIRE(trajectory.ok());
      const int64_t first = first_steps[static_cast<size_t>(round) % std::size(first_steps)];
      for (int64_t step = first; step < first + 2; ++step) {
        const Result<HyperValues> hyper = hyper_at(trajectory.value(), step, step == 1, false);
        REQUIRE(hyper.ok());
        Floats before;
        for (size_t b = 0; b < task.buffers.size(); ++b)
          before.push_back(
              floats_of(task.buffers[b], shape, family, derive_seed(seed, "values", b, static_cast<uint64_t>(step))));
        HostState expected = host_of(before), scale;
        REQUIRE(oracle_step(task, {&shape, 1}, hyper.value(), expected, &scale, 1).ok());
        for (size_t f = 0; f < forms.size(); ++f) {
          Floats after = before;
          forms[f].step(hyper.value(), after);
          const HostState got = host_of(after);
          for (size_t b = 0; b < task.buffers.size(); ++b) {
            if (task.buffers[b].role == Role::kIn) continue;
            const CompareResult result = compare(expected.values[b][0], got.values[b][0], scale.values[b][0],
                                                 task.buffers[b].tolerance, task.buffers[b].dtype);
            out[f].per_buffer.resize(task.buffers.size());
            out[f].per_buffer[b] = std::max(out[f].per_buffer[b], result.worst_ratio);
            if (result.worst_ratio <= out[f].worst) continue;
            out[f].worst = result.worst_ratio;
            char text[200];
            std::snprintf(text, sizeof text, "%s %s t=%lld expected %.9g got %.9g", task.buffers[b].name.c_str(),
                          family.c_str(), static_cast<long long>(step), result.worst_expected, result.worst_got);
            out[f].where = text;
          }
        }
      }
    }
  }
  return out;
}

double rms(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum / static_cast<double>(a.size()));
}

/// Free-running: the worst over buffers of drift in units of its limit, at the last step.
std::vector<Distance> drift_distances(const TaskSpec& task, const std::vector<Form>& forms, const std::string& family,
                                      uint64_t seed, int64_t steps, int64_t n) {
  const TensorShape shape = make_shape({n});
  const Result<HyperTrajectory> trajectory = draw_hyper(task, family, seed);
  REQUIRE(trajectory.ok());
  Floats start;
  for (size_t b = 0; b < task.buffers.size(); ++b)
    start.push_back(floats_of(task.buffers[b], shape, family, derive_seed(seed, "start", b)));
  for (size_t b = 2; b < start.size(); ++b) std::fill(start[b].begin(), start[b].end(), 0.0f);  // as runs begin
  std::vector<Floats> states(forms.size(), start);
  const HostState begin = host_of(start);
  HostState oracle = begin;
  for (int64_t step = 1; step <= steps; ++step) {
    const Result<HyperValues> hyper = hyper_at(trajectory.value(), step, step == 1, false);
    REQUIRE(hyper.ok());
    const std::vector<float> grad =
        floats_of(task.buffers[1], shape, family, derive_seed(seed, "grad", static_cast<uint64_t>(step)));
    oracle.values[1][0].assign(grad.begin(), grad.end());
    REQUIRE(oracle_step(task, {&shape, 1}, hyper.value(), oracle, nullptr, 1).ok());
    for (size_t f = 0; f < forms.size(); ++f) {
      states[f][1] = grad;
      forms[f].step(hyper.value(), states[f]);
    }
  }
  std::vector<Distance> out(forms.size());
  for (size_t f = 0; f < forms.size(); ++f) {
    const HostState got = host_of(states[f]);
    for (size_t b = 0; b < task.buffers.size(); ++b) {
      if (task.buffers[b].role == Role::kIn) continue;
      const double movement = rms(oracle.values[b][0], begin.values[b][0]);
      const double ratio =
          rms(got.values[b][0], oracle.values[b][0]) / movement / task.buffers[b].tolerance.drift_ratio;
      if (ratio <= out[f].worst) continue;
      out[f].worst = ratio;
      out[f].where = task.buffers[b].name;
    }
  }
  return out;
}

TaskSpec loaded(const std::string& id) {
  const Result<TaskSpec> task = load_task(id);
  if (!task.ok()) FAIL(to_text(task.error()));
  return task.value();
}

std::vector<std::string> drift_families(const TaskSpec& task) { return task.suites.at("full").drift.at(0).families; }

TEST_CASE("one step of a right form stays at half of the limit and a wrong one reaches twice") {
  for (const std::string id : {"adamw", "sgd_momentum"}) {
    const TaskSpec task = loaded(id);
    const std::vector<Form> forms = forms_of(id);
    const std::vector<Distance> distances = step_distances(task, forms, 14, 512);
    for (size_t f = 0; f < forms.size(); ++f) {
      INFO(id << ": " << forms[f].name << ": " << distances[f].where);
      if (forms[f].right)
        CHECK(distances[f].worst <= 0.5);
      else
        CHECK(distances[f].worst >= 2);
    }
  }
}

TEST_CASE("a right form does not drift and one without the decay does") {
  for (const std::string id : {"adamw", "sgd_momentum"}) {
    const TaskSpec task = loaded(id);
    const std::vector<Form> forms = forms_of(id);
    for (const std::string& family : drift_families(task)) {
      const std::vector<Distance> distances = drift_distances(task, forms, family, 5, 1000, 128);
      for (size_t f = 0; f < forms.size(); ++f) {
        INFO(id << " " << family << ": " << forms[f].name << " " << distances[f].where);
        if (forms[f].right) CHECK(distances[f].worst <= 0.5);
        if (family == "constant" && std::string(forms[f].name) == "decay ignored") CHECK(distances[f].worst >= 2);
      }
    }
  }
}

TEST_CASE("distances of all forms from the limits", "[.][report]") {
  for (const std::string id : {"adamw", "sgd_momentum"}) {
    const TaskSpec task = loaded(id);
    const std::vector<Form> forms = forms_of(id);
    const std::vector<Distance> distances = step_distances(task, forms, 280, 4096);
    std::vector<Distance> drift(forms.size());
    for (const std::string& family : drift_families(task)) {
      for (uint64_t seed = 0; seed < 12; ++seed) {
        const std::vector<Distance> one = drift_distances(task, forms, family, seed, 1000, 256);
        for (size_t f = 0; f < forms.size(); ++f)
          if (one[f].worst > drift[f].worst) drift[f] = {one[f].worst, one[f].where + " " + family, {}};
      }
    }
    for (size_t f = 0; f < forms.size(); ++f) {
      std::printf("%-13s %-5s %-38s step", id.c_str(), forms[f].right ? "right" : "wrong", forms[f].name);
      for (const double worst : distances[f].per_buffer) std::printf(" %8.3g", worst);
      std::printf(" (%s), drift %9.3g (%s)\n", distances[f].where.c_str(), drift[f].worst, drift[f].where.c_str());
    }
  }
}

}  // namespace
}  // namespace stepbench
