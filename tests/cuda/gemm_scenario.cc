// Products on a GPU against the host's: integers, where every order of summation gives the same bits, numbers whose
// error tells fp32 from TF32 and from sums in bf16, and a whole step recorded as a graph.
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "harness/float_words.h"
#include "harness/own_kernels.h"
#include "harness/stages.h"
#include "tests/cuda/scenario.h"

namespace stepbench::gpu_test {
namespace {

void say(const std::string& key, const std::string& value) { fmt::print("{} {}\n", key, value); }

/// For what must not fail: the child says why and ends.
template <class T>
T need(Result<T> result) {
  if (result.ok()) return std::move(result).value();
  say("error", to_text(result.error()));
  std::fflush(stdout);
  std::_Exit(1);
}
void need(const Result<void>& result) {
  if (result.ok()) return;
  say("error", to_text(result.error()));
  std::fflush(stdout);
  std::_Exit(1);
}

std::vector<std::byte> bytes_of(const std::vector<double>& values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * dtype_bytes(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<float>(values[i]);
    if (dtype == DType::kF32) {
      std::memcpy(&bytes[4 * i], &value, 4);
    } else {
      const uint16_t bits = dtype == DType::kBf16 ? to_bf16(value) : to_f16(value);
      std::memcpy(&bytes[2 * i], &bits, 2);
    }
  }
  return bytes;
}

struct Case {
  int64_t m, n, k, batch;
  bool transpose_a, transpose_b;
  DType inputs, output;
  float alpha, beta;
  uint32_t offset_elements;  ///< of every matrix, from a 256-byte boundary
};

/// A pointer-free copy of the device's memory: one matrix operand on both sides.
struct Operand {
  std::vector<double> values;  ///< as stored
  BufferId buffer;
  GemmOperand operand;
};

class Products {
 public:
  Products() : source_(need(device_source("cuda", nullptr))), device_(need(source_.open())) {}

  Device& device() { return *device_; }
  const DeviceInfo& info() const { return source_.info; }

  Operand make(int64_t elements, int64_t batch, DType dtype, uint32_t offset, uint64_t seed, bool integers) {
    Operand made;
    uint64_t state = seed;
    for (int64_t i = 0; i < elements * batch; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth's constants for a linear generator
      const auto draw = static_cast<int64_t>(state >> 33 & 0xffff) - 0x8000;
      made.values.push_back(integers ? static_cast<double>(draw % 5) : static_cast<double>(draw) * 0x1p-15);
    }
    const std::vector<std::byte> bytes = bytes_of(made.values, dtype);
    made.values = to_double(dtype, bytes);
    made.buffer = need(device_->allocate({bytes.size(), offset * dtype_bytes(dtype), false, "matrix"}));
    need(device_->write(made.buffer, 0, bytes));
    made.operand = {device_->address(made.buffer), elements};
    return made;
  }

  std::vector<double> read(const Operand& operand, DType dtype) {
    std::vector<std::byte> bytes(operand.values.size() * dtype_bytes(dtype));
    need(device_->read(operand.buffer, 0, bytes));
    return to_double(dtype, bytes);
  }

 private:
  DeviceSource source_;
  std::unique_ptr<Device> device_;
};

/// Largest |got - exact| / (limit_ratio * sum of magnitudes + half a unit of the output's last place).
double worst_ratio(const Case& c, const Operand& a, const Operand& b, const Operand& old,
                   const std::vector<double>& got, double limit_ratio) {
  double worst = 0;
  const auto at = [](const Operand& x, int64_t index) { return x.values[static_cast<size_t>(index)]; };
  for (int64_t batch = 0; batch < c.batch; ++batch) {
    for (int64_t r = 0; r < c.m; ++r) {
      for (int64_t s = 0; s < c.n; ++s) {
        double sum = 0, magnitude = 0;
        for (int64_t i = 0; i < c.k; ++i) {
          const double left = at(a, batch * c.m * c.k + (c.transpose_a ? i * c.m + r : r * c.k + i));
          const double right = at(b, batch * c.k * c.n + (c.transpose_b ? s * c.k + i : i * c.n + s));
          sum += left * right;
          magnitude += std::fabs(left * right);
        }
        const int64_t element = batch * c.m * c.n + r * c.n + s;
        const double exact = double{c.alpha} * sum + double{c.beta} * at(old, element);
        magnitude = std::fabs(double{c.alpha}) * magnitude + std::fabs(double{c.beta} * at(old, element));
        const double error = std::fabs(got[static_cast<size_t>(element)] - exact);
        const double limit = limit_ratio * magnitude + 0.501 * ulp_of(c.output, exact);
        worst = std::max(worst, std::isnan(error) ? INFINITY : error / limit);
      }
    }
  }
  return worst;
}

/// The terms of one step of Newton-Schulz with coefficients that are powers of two, recorded as one graph: gram = x
/// x^T, poly = gram / 4 - gram gram / 8, next = 2 x + poly x.
void run_as_graph(Products& products) {
  CompileOptions options;
  options.arch = products.info().arch;
  need(products.device().use_own_kernels(need(compile_own_kernels(options))));
  constexpr int64_t kRows = 4, kCols = 8;
  Operand x = products.make(kRows * kCols, 1, DType::kF32, 0, 7, true);
  for (double& value : x.values) value = std::fmod(value, 2.0);  // -1, 0 or 1: all sums are exact
  need(products.device().write(x.buffer, 0, bytes_of(x.values, DType::kF32)));
  const Operand next = products.make(kRows * kCols, 1, DType::kF32, 0, 8, true);
  const Operand gram = products.make(kRows * kRows, 1, DType::kF32, 0, 9, true);
  const Operand poly = products.make(kRows * kRows, 1, DType::kF32, 0, 10, true);
  std::vector<LaunchSpec> launches;
  const auto add = [&](int64_t m, int64_t n, int64_t k, bool transpose_b, float alpha, float beta, const Operand& a,
                       const Operand& b, const Operand& c, const Operand& d) {
    GemmSpec spec;
    spec.m = m;
    spec.n = n;
    spec.k = k;
    spec.transpose_b = transpose_b;
    spec.alpha = alpha;
    spec.beta = beta;
    spec.a = a.operand;
    spec.b = b.operand;
    spec.c = c.operand;
    spec.d = d.operand;
    LaunchSpec launch;
    launch.entry = "gemm";
    launch.gemm = spec;
    launches.push_back(launch);
  };
  for (int repetition = 0; repetition < 2; ++repetition) {  // the same twice: one by one, three would not be a graph
    add(kRows, kRows, kCols, true, 1, 0, x, x, gram, gram);
    add(kRows, kRows, kRows, false, -0.125f, 0.25f, gram, gram, gram, poly);
    add(kRows, kCols, kRows, false, 1, 2, poly, x, x, next);
  }
  const auto product = [](const std::vector<double>& a, const std::vector<double>& b, int64_t m, int64_t n, int64_t k,
                          bool transpose_b) {
    std::vector<double> d(static_cast<size_t>(m * n));
    for (int64_t r = 0; r < m; ++r)
      for (int64_t s = 0; s < n; ++s)
        for (int64_t i = 0; i < k; ++i)
          d[static_cast<size_t>(r * n + s)] +=
              a[static_cast<size_t>(r * k + i)] * b[static_cast<size_t>(transpose_b ? s * k + i : i * n + s)];
    return d;
  };
  const std::vector<double> g = product(x.values, x.values, kRows, kRows, kCols, true);
  std::vector<double> p = product(g, g, kRows, kRows, kRows, false);
  for (size_t i = 0; i < p.size(); ++i) p[i] = 0.25 * g[i] - 0.125 * p[i];
  std::vector<double> expected = product(p, x.values, kRows, kCols, kRows, false);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += 2 * x.values[i];
  for (int run = 0; run < 3; ++run) {
    need(products.device().poison(next.buffer, 3));
    const TimedReport timed = need(products.device().time_step(launches));
    if (timed.fault) say("error", timed.fault->message);
    if (!timed.as_graph) say("error", "six products are no graph");
    if (timed.launches != launches.size()) say("error", "products are not counted");
    if (!(timed.event_ns > 0)) say("error", "no time");
    if (products.read(next, DType::kF32) != expected) say("error", fmt::format("graph, run {}", run));
  }
  say("graph", "3");
}

}  // namespace

void multiply_matrices() {
  Products products;
  constexpr DType kF32 = DType::kF32, kBf16 = DType::kBf16, kF16 = DType::kF16;
  const Case cases[] = {
      {1, 1, 1, 1, false, false, kF32, kF32, 1, 0, 0},         {5, 7, 9, 1, false, false, kF32, kF32, 1, 0, 0},
      {5, 7, 9, 1, true, false, kF32, kF32, 2, 0, 1},          {5, 7, 9, 1, false, true, kF32, kF32, 1, -0.5f, 3},
      {64, 96, 128, 1, false, false, kF32, kF32, 1, 0, 0},     {64, 96, 128, 1, true, true, kF32, kF32, 1, 1, 0},
      {64, 64, 96, 3, false, true, kF32, kF32, 1, 0, 0},       {64, 96, 128, 1, false, false, kBf16, kF32, 1, 0, 0},
      {64, 96, 128, 1, true, true, kBf16, kBf16, 1, 2, 0},     {64, 64, 768, 5, false, true, kBf16, kBf16, 0.5f, 0, 0},
      {17, 33, 65, 2, false, false, kBf16, kBf16, 1, 1, 1},    {17, 33, 65, 1, true, false, kBf16, kF32, 1, 0, 3},
      {1, 40, 24, 1, false, false, kBf16, kBf16, 1, 0, 0},     {40, 1, 24, 1, false, false, kBf16, kBf16, 1, 0, 0},
      {64, 96, 128, 1, false, true, kF16, kF16, 1, 0, 0},      {64, 96, 128, 1, false, true, kF16, kF32, 1, 1, 0},
      {128, 128, 4096, 1, false, true, kBf16, kBf16, 1, 0, 0},
  };
  int checked = 0, wrong = 0;
  for (const bool integers : {true, false}) {
    for (const bool in_place : {false, true}) {
      for (const Case& c : cases) {
        if (in_place && c.beta == 0) continue;
        const Operand a = products.make(c.m * c.k, c.batch, c.inputs, c.offset_elements, 1, integers);
        const Operand b = products.make(c.k * c.n, c.batch, c.inputs, c.offset_elements, 2, integers);
        const Operand old = products.make(c.m * c.n, c.batch, c.output, c.offset_elements, 3, integers);
        const Operand fresh = products.make(c.m * c.n, c.batch, c.output, c.offset_elements, 4, integers);
        need(products.device().poison(fresh.buffer, 5));
        const Operand& d = in_place ? old : fresh;
        GemmSpec spec;
        spec.m = c.m;
        spec.n = c.n;
        spec.k = c.k;
        spec.batch = c.batch;
        spec.transpose_a = c.transpose_a;
        spec.transpose_b = c.transpose_b;
        spec.inputs = c.inputs;
        spec.output = c.output;
        spec.alpha = c.alpha;
        spec.beta = c.beta;
        spec.a = a.operand;
        spec.b = b.operand;
        if (c.beta != 0) spec.c = old.operand;
        spec.d = d.operand;
        LaunchSpec launch;
        launch.entry = "gemm";
        launch.gemm = spec;
        const LaunchReport report = need(products.device().launch(launch));
        const std::string name = fmt::format("case {} of {}", (&c - cases) + 1, integers ? "integers" : "fractions");
        if (report.fault) {
          say("error", name + ": " + report.fault->message);
          continue;
        }
        // Integers: nothing is rounded but the result. Fractions: sums of up to 4,096 terms in fp32 are off by far less
        // than 3e-6 of the sum of magnitudes, TF32's rounding of fp32 inputs by some 1e-5 to 1e-4.
        const double ratio = worst_ratio(c, a, b, old, products.read(d, c.output), integers ? 0 : 3e-6);
        ++checked;
        if (!(ratio <= 1)) {
          ++wrong;
          say("wrong_case", fmt::format("{}: {:.3g} limits", name, ratio));
        }
        if (const std::optional<Fault> damage = need(products.device().end_of_step())) say("error", damage->message);
        for (const Operand& operand : {a, b, old, fresh}) products.device().release(operand.buffer);
      }
    }
  }
  say("checked", std::to_string(checked));
  say("wrong", std::to_string(wrong));
  run_as_graph(products);
}

}  // namespace stepbench::gpu_test
