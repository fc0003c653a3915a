// Products on the VM: exact values in integers, formats, batches, and the faults of a kernel's accesses.
#include <bit>
#include <cmath>

#include "harness/float_words.h"
#include "tests/vm/vm_fixture.h"

namespace stepbench {
namespace {

using vm_test::Vm;

GemmSpec square(int64_t size, uint64_t a, uint64_t b, uint64_t d) {
  GemmSpec spec;
  spec.m = spec.n = spec.k = size;
  spec.a = {a, size * size};
  spec.b = {b, size * size};
  spec.d = {d, size * size};
  return spec;
}

LaunchReport launch(Vm& vm, const GemmSpec& gemm) {
  LaunchSpec spec;
  spec.entry = "gemm";
  spec.gemm = gemm;
  Result<LaunchReport> report = vm.device().launch(spec);
  REQUIRE(report.ok());
  return report.value();
}

/// Small integers that differ from place to place.
int64_t entry(int64_t row, int64_t col, int64_t salt) { return (row * 7 + col * 3 + salt) % 11 - 5; }

/// A stored matrix of rows x cols, or its transpose.
std::vector<float> stored(int64_t rows, int64_t cols, bool transposed, int64_t salt) {
  std::vector<float> values(static_cast<size_t>(rows * cols));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c)
      values[static_cast<size_t>(transposed ? c * rows + r : r * cols + c)] = static_cast<float>(entry(r, c, salt));
  return values;
}

struct Row {
  const char* name;
  int64_t m, n, k;
  bool transpose_a, transpose_b;
  float alpha, beta;
};

// All terms are integers below 2^24 and factors powers of two, so every order of summation gives the same bits.
TEST_CASE("products of integers are exact") {
  const Row rows[] = {
      {"one element", 1, 1, 1, false, false, 1, 0},   {"a row", 1, 9, 5, false, false, 1, 0},
      {"a column", 9, 1, 5, false, false, 1, 0},      {"an outer product", 6, 7, 1, false, false, 1, 0},
      {"plain", 5, 7, 9, false, false, 1, 0},         {"a transposed", 5, 7, 9, true, false, 1, 0},
      {"b transposed", 5, 7, 9, false, true, 1, 0},   {"both transposed", 5, 7, 9, true, true, 1, 0},
      {"scaled", 5, 7, 9, false, false, 0.25f, 0},    {"added to", 5, 7, 9, false, true, 2, -4},
      {"only negated", 4, 4, 4, false, false, -1, 0}, {"larger", 33, 65, 96, true, true, 0.5f, 1},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    Vm vm;
    const auto a = vm.buffer(stored(row.m, row.k, row.transpose_a, 1));
    const auto b = vm.buffer(stored(row.k, row.n, row.transpose_b, 2));
    const auto c = vm.buffer(stored(row.m, row.n, false, 3));
    const auto d = vm.raw(static_cast<uint64_t>(row.m * row.n) * 4);
    GemmSpec spec;
    spec.m = row.m;
    spec.n = row.n;
    spec.k = row.k;
    spec.transpose_a = row.transpose_a;
    spec.transpose_b = row.transpose_b;
    spec.alpha = row.alpha;
    spec.beta = row.beta;
    spec.a.address = vm.address(a);
    spec.b.address = vm.address(b);
    spec.c.address = vm.address(c);
    spec.d.address = vm.address(d);
    const LaunchReport report = launch(vm, spec);
    REQUIRE_FALSE(report.fault);
    const auto got = vm.contents<float>(d, static_cast<size_t>(row.m * row.n));
    for (int64_t r = 0; r < row.m; ++r) {
      for (int64_t s = 0; s < row.n; ++s) {
        int64_t sum = 0;
        for (int64_t i = 0; i < row.k; ++i) sum += entry(r, i, 1) * entry(i, s, 2);
        const double expected =
            double{row.alpha} * static_cast<double>(sum) + double{row.beta} * static_cast<double>(entry(r, s, 3));
        REQUIRE(static_cast<double>(got[static_cast<size_t>(r * row.n + s)]) == expected);
      }
    }
    CHECK(report.counters.launches == 1);
    const auto bytes = [](int64_t elements) { return static_cast<uint64_t>(elements) * 4; };
    CHECK(report.counters.global_load_bytes ==
          bytes(row.m * row.k + row.k * row.n + (row.beta != 0 ? row.m * row.n : 0)));
    CHECK(report.counters.global_store_bytes == bytes(row.m * row.n));
    CHECK(report.counters.global_store_sectors == (bytes(row.m * row.n) + 31) / 32);
  }
}

TEST_CASE("bf16 in, fp32 sums, bf16 or fp32 out") {
  Vm vm;
  // 257 needs nine bits: exact in the fp32 sum, rounded to even (256) where the result is bf16.
  const std::vector<uint16_t> left = {to_bf16(16), to_bf16(1)}, right = {to_bf16(16), to_bf16(1)};
  const auto a = vm.buffer(left), b = vm.buffer(right);
  const auto wide = vm.raw(4), narrow = vm.raw(2);
  GemmSpec spec;
  spec.m = spec.n = 1;
  spec.k = 2;
  spec.inputs = DType::kBf16;
  spec.a.address = vm.address(a);
  spec.b.address = vm.address(b);
  spec.d.address = vm.address(wide);
  REQUIRE_FALSE(launch(vm, spec).fault);
  CHECK(vm.contents<float>(wide, 1)[0] == 257.0f);
  spec.output = DType::kBf16;
  spec.d.address = vm.address(narrow);
  REQUIRE_FALSE(launch(vm, spec).fault);
  CHECK(vm.contents<uint16_t>(narrow, 1)[0] == to_bf16(256.0f));
  // Alpha multiplies the fp32 sum, which is rounded afterwards: 771, not 3 * 256.
  spec.alpha = 3;
  REQUIRE_FALSE(launch(vm, spec).fault);
  CHECK(vm.contents<uint16_t>(narrow, 1)[0] == to_bf16(771.0f));
  CHECK(to_bf16(771.0f) != to_bf16(768.0f));
}

TEST_CASE("every fp16 number is read exactly") {
  Vm vm;
  const auto one = vm.buffer(std::vector<uint16_t>{to_f16(1.0f)});
  std::vector<uint16_t> all;
  for (uint32_t bits = 0; bits < 0x10000u; ++bits) all.push_back(static_cast<uint16_t>(bits));
  const auto a = vm.buffer(all);
  const auto d = vm.raw(all.size() * 4);
  GemmSpec spec;
  spec.m = static_cast<int64_t>(all.size());
  spec.n = spec.k = 1;
  spec.inputs = DType::kF16;
  spec.a.address = vm.address(a);
  spec.b.address = vm.address(one);
  spec.d.address = vm.address(d);
  REQUIRE_FALSE(launch(vm, spec).fault);
  const auto got = vm.contents<float>(d, all.size());
  for (uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const uint32_t exponent = bits >> 10 & 31u, fraction = bits & 1023u;
    INFO(bits);
    if (exponent == 31) {
      REQUIRE((fraction == 0 ? std::isinf(got[bits]) : std::isnan(got[bits])));
      continue;
    }
    // IEEE 754-2019, 3.4: binary16 has a bias of 15 and 10 bits of fraction.
    const double magnitude =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024.0 + fraction, static_cast<int>(exponent) - 25);
    REQUIRE(static_cast<double>(got[bits]) == (bits >= 0x8000u ? -magnitude : magnitude));
  }
}

TEST_CASE("batches step through memory, inputs may stand still, c may be the result") {
  Vm vm;
  const auto a = vm.buffer(std::vector<float>{2, 3});          // two 1 x 1 matrices
  const auto b = vm.buffer(std::vector<float>{10});            // one for both
  const auto d = vm.buffer(std::vector<float>{1, -7, 5, -7});  // a gap between results
  GemmSpec spec;
  spec.m = spec.n = spec.k = 1;
  spec.batch = 2;
  spec.beta = 1;
  spec.a = {vm.address(a), 1};
  spec.b = {vm.address(b), 0};
  spec.c = spec.d = {vm.address(d), 2};
  REQUIRE_FALSE(launch(vm, spec).fault);
  CHECK(vm.contents<float>(d, 4) == std::vector<float>{21, -7, 35, -7});
}

// One step of Newton-Schulz with coefficients that are powers of two on a matrix of small integers: nothing is rounded.
// With x = [1 1 0; 1 -1 2]: gram = x x^T = [2 0; 0 6]; poly = gram / 4 - gram gram / 8 = [0 0; 0 -3];
// 2 x + poly x = [2 2 0; -1 1 -2].
TEST_CASE("a step of Newton-Schulz by three products") {
  Vm vm;
  const auto x = vm.buffer(std::vector<float>{1, 1, 0, 1, -1, 2});
  const auto gram = vm.raw(16), poly = vm.raw(16), next = vm.raw(24);
  GemmSpec spec;
  spec.m = spec.n = 2;
  spec.k = 3;
  spec.transpose_b = true;
  spec.a.address = spec.b.address = vm.address(x);
  spec.d.address = vm.address(gram);
  REQUIRE_FALSE(launch(vm, spec).fault);
  CHECK(vm.contents<float>(gram, 4) == std::vector<float>{2, 0, 0, 6});
  spec = square(2, vm.address(gram), vm.address(gram), vm.address(poly));
  spec.alpha = -0.125f;
  spec.beta = 0.25f;
  spec.c.address = vm.address(gram);
  REQUIRE_FALSE(launch(vm, spec).fault);
  CHECK(vm.contents<float>(poly, 4) == std::vector<float>{0, 0, 0, -3});
  spec = GemmSpec();
  spec.m = spec.k = 2;
  spec.n = 3;
  spec.beta = 2;
  spec.a.address = vm.address(poly);
  spec.b.address = spec.c.address = vm.address(x);
  spec.d.address = vm.address(next);
  REQUIRE_FALSE(launch(vm, spec).fault);
  CHECK(vm.contents<float>(next, 6) == std::vector<float>{2, 2, 0, -1, 1, -2});
}

TEST_CASE("faults of products") {
  const std::vector<float> four = {1, 2, 3, 4};
  struct FaultRow {
    const char* name;
    FaultKind kind;
    const char* message;
    std::function<void(Vm&, GemmSpec&)> damage;
  };
  const FaultRow rows[] = {
      {"past the end", FaultKind::kOutOfBounds, "access outside of a buffer by b",
       [](Vm&, GemmSpec& spec) { spec.b.address += 4; }},
      {"nowhere", FaultKind::kOutOfBounds, "access outside of a buffer by a",
       [](Vm&, GemmSpec& spec) { spec.a.address = 16; }},
      {"second of a batch", FaultKind::kOutOfBounds, "by a", [](Vm&, GemmSpec& spec) { spec.batch = 2; }},
      {"into an input", FaultKind::kReadOnlyWrite, "store to an input by d",
       [&](Vm& vm, GemmSpec& spec) { spec.d.address = vm.address(vm.buffer(four, "grad[0]", true)); }},
      {"misaligned", FaultKind::kMisaligned, "misaligned address of a",
       [](Vm& vm, GemmSpec& spec) { spec.a.address = vm.address(vm.buffer(std::vector<float>(8), "wide")) + 2; }},
      {"never written", FaultKind::kUninitializedRead, "nobody has written by a",
       [](Vm& vm, GemmSpec& spec) { spec.a.address = vm.address(vm.raw(16, "scratch.x")); }},
      {"c never written", FaultKind::kUninitializedRead, "nobody has written by c",
       [](Vm& vm, GemmSpec& spec) {
         spec.beta = 1;
         spec.c.address = vm.address(vm.raw(16, "scratch.x"));
       }},
      {"too much work", FaultKind::kBudget, "multiply-adds", [](Vm& vm, GemmSpec&) { vm.device().set_budget(0); }},
  };
  for (const FaultRow& row : rows) {
    INFO(row.name);
    Vm vm;
    const auto a = vm.buffer(four, "a"), b = vm.buffer(four, "b"), d = vm.raw(16, "d");
    GemmSpec spec = square(2, vm.address(a), vm.address(b), vm.address(d));
    REQUIRE_FALSE(launch(vm, spec).fault);  // control
    row.damage(vm, spec);
    const LaunchReport report = launch(vm, spec);
    REQUIRE(report.fault);
    CHECK(report.fault->kind == row.kind);
    CHECK(report.fault->kernel == "gemm");
    CHECK_THAT(report.fault->message, Catch::Contains(row.message));
  }
}

TEST_CASE("the first byte that nobody has written is named") {
  Vm vm;
  const auto a = vm.raw(16, "scratch.x");
  const auto b = vm.buffer(std::vector<float>{1, 2, 3, 4});
  const auto d = vm.raw(16);
  const float value = 1;
  REQUIRE(vm.device().write(a, 0, std::as_bytes(std::span(&value, 1))).ok());
  const LaunchReport report = launch(vm, square(2, vm.address(a), vm.address(b), vm.address(d)));
  REQUIRE(report.fault);
  CHECK(report.fault->buffer == "scratch.x");
  CHECK(report.fault->byte_offset == 4);
}

}  // namespace
}  // namespace stepbench
