// Whole kernels compiled by NVRTC (tests/vm/ptx/*.cu) against host loops: AdamW bit for bit, divergence, reductions,
// locks, calls, tables, multi-dimensional grids.
#include "tests/vm/vm_fixture.h"

#include <bit>
#include <cmath>
#include <numeric>
#include <random>
#include <thread>

namespace stepbench::vm_test {
namespace {

struct AdamwScalars {
  float lr, beta1, beta2, eps, weight_decay, bias1, bias2_sqrt;
};

// The formula of ptx/adamw_*.cu, each line one IEEE operation.
void adamw_host(float& p, float g, float& m, float& v, const AdamwScalars& h) {
  const float one_minus_beta1 = 1.0f - h.beta1, one_minus_beta2 = 1.0f - h.beta2;
  const float scaled = one_minus_beta1 * g;
  m = std::fma(h.beta1, m, scaled);
  const float scaled2 = one_minus_beta2 * g;
  const float square = scaled2 * g;
  v = std::fma(h.beta2, v, square);
  const float lr_decay = h.lr * h.weight_decay;
  const float keep = 1.0f - lr_decay;
  const float q = p * keep;
  const float root = std::sqrt(v);
  const float scaled_root = root / h.bias2_sqrt;
  const float denominator = scaled_root + h.eps;
  const float rate = h.lr / h.bias1;
  const float numerator = rate * m;
  const float step = numerator / denominator;
  p = q - step;
}

struct AdamwCase {
  const char* name;
  const char* kernel;
  int n, block, per_thread;
};
const AdamwCase kAdamwCases[] = {
    {"scalar, one thread", "adamw_scalar", 1, 1, 1},     {"scalar, ragged", "adamw_scalar", 1000, 256, 1},
    {"scalar, block of 33", "adamw_scalar", 200, 33, 1}, {"scalar, full", "adamw_scalar", 4096, 256, 1},
    {"float4, full", "adamw_float4", 4096, 128, 4},      {"float4, tail of 3", "adamw_float4", 4095, 128, 4},
    {"float4, tail of 1", "adamw_float4", 1025, 256, 4}, {"float4, fewer than 4", "adamw_float4", 3, 32, 4},
};

TEST_CASE("AdamW over 20 steps equals a host loop bit for bit") {
  for (const AdamwCase& row : kAdamwCases) {
    DYNAMIC_SECTION(row.name) {
      Vm vm;
      vm.load(read_ptx(std::string(row.kernel) + ".ptx"));
      std::mt19937 random(12345);
      std::normal_distribution<float> normal;
      const size_t n = static_cast<size_t>(row.n);
      std::vector<float> p(n), g(n), m(n), v(n);
      for (size_t i = 0; i < n; ++i) {
        p[i] = normal(random);
        m[i] = 0.1f * normal(random);
        v[i] = std::fabs(normal(random)) * 1e-3f;
      }
      const BufferId bp = vm.buffer(p), bg = vm.raw(n * 4), bm = vm.buffer(m), bv = vm.buffer(v);
      for (int step = 1; step <= 20; ++step) {
        for (size_t i = 0; i < n; ++i) g[i] = normal(random) * (i % 7 == 0 ? 1e-20f : 1.0f);
        REQUIRE(vm.device().write(bg, 0, std::as_bytes(std::span<const float>(g))).ok());
        const AdamwScalars h{1e-3f / static_cast<float>(step),
                             0.9f,
                             0.999f,
                             1e-8f,
                             0.01f,
                             static_cast<float>(1 - std::pow(0.9, step)),
                             static_cast<float>(std::sqrt(1 - std::pow(0.999, step)))};
        Parameters parameters;
        for (const BufferId id : {bp, bg, bm, bv}) parameters.add(vm.address(id));
        parameters.add(row.n)
            .add(h.lr)
            .add(h.beta1)
            .add(h.beta2)
            .add(h.eps)
            .add(h.weight_decay)
            .add(h.bias1)
            .add(h.bias2_sqrt);
        const int per_block = row.block * row.per_thread;
        vm.run(row.kernel, {(row.n + per_block - 1) / per_block, 1, 1}, {row.block, 1, 1}, parameters);
        for (size_t i = 0; i < n; ++i) adamw_host(p[i], g[i], m[i], v[i], h);
      }
      const auto same = [](const std::vector<float>& x, const std::vector<float>& y) {
        return std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
      };
      CHECK(same(vm.contents<float>(bp, n), p));
      CHECK(same(vm.contents<float>(bm, n), m));
      CHECK(same(vm.contents<float>(bv, n), v));
    }
  }
}

const int64_t kBlockSizes[] = {1, 31, 32, 33, 64, 100, 128, 1000, 1024};

TEST_CASE("divergent loops: Collatz lengths") {
  Vm vm;
  vm.load(read_ptx("kernels.ptx"), {"collatz"});
  const int n = 1500;
  std::vector<int> expected(n);
  for (int i = 0; i < n; ++i) {
    long long x = i + 1;
    while (x != 1) {
      x = (x & 1) != 0 ? 3 * x + 1 : x / 2;
      ++expected[static_cast<size_t>(i)];
    }
  }
  for (const int64_t block : kBlockSizes) {
    DYNAMIC_SECTION("block of " << block) {
      const BufferId out = vm.raw(n * 4);
      const Counters counters =
          vm.run("collatz", {(n + block - 1) / block, 1, 1}, {block, 1, 1}, Parameters().add(vm.address(out)).add(n));
      CHECK(vm.contents<int>(out, n) == expected);
      if (block > 1) CHECK(counters.divergent_branches > 0);
      if (block == 1) CHECK(counters.divergent_branches == 0);
    }
  }
}

TEST_CASE("block reductions with shuffles, shared memory and atomics") {
  Vm vm;
  vm.load(read_ptx("kernels.ptx"), {"block_sum", "tree_sum", "histogram", "last_block"});
  const int n = 5000;
  std::vector<float> values(n);
  for (int i = 0; i < n; ++i)
    values[static_cast<size_t>(i)] = static_cast<float>((i * 37) % 101 - 50);  // sums are exact
  const float expected = std::accumulate(values.begin(), values.end(), 0.0f);
  for (const int64_t block : {32, 64, 256, 1024}) {
    DYNAMIC_SECTION("block_sum, block of " << block) {
      const BufferId in = vm.buffer(values, "in", true), out = vm.buffer(std::vector<float>{0});
      vm.run("block_sum", {3, 1, 1}, {block, 1, 1}, Parameters().add(vm.address(in)).add(vm.address(out)).add(n));
      CHECK(vm.contents<float>(out, 1)[0] == expected);
    }
  }
  for (const int64_t block : {1, 2, 64, 1024}) {
    DYNAMIC_SECTION("tree_sum in dynamic shared memory, block of " << block) {
      std::vector<int> ints(static_cast<size_t>(block));
      std::iota(ints.begin(), ints.end(), 5);
      const BufferId in = vm.buffer(ints), out = vm.raw(4);
      const Counters counters =
          vm.run("tree_sum", {1, 1, 1}, {block, 1, 1},
                 Parameters().add(vm.address(in)).add(vm.address(out)).add(static_cast<int>(block)),
                 static_cast<uint32_t>(block * 4));
      CHECK(vm.contents<int>(out, 1)[0] == std::accumulate(ints.begin(), ints.end(), 0));
      CHECK(counters.barriers == static_cast<uint64_t>(std::bit_width(static_cast<uint64_t>(block)) - 1));
    }
  }
  SECTION("histogram") {
    std::vector<unsigned char> bytes(n);
    std::vector<unsigned> bins(16);
    for (int i = 0; i < n; ++i) {
      bytes[static_cast<size_t>(i)] = static_cast<unsigned char>(i * i);
      ++bins[static_cast<size_t>(i * i) & 15];
    }
    const BufferId in = vm.buffer(bytes), out = vm.buffer(std::vector<unsigned>(16));
    const Counters counters =
        vm.run("histogram", {4, 1, 1}, {96, 1, 1}, Parameters().add(vm.address(in)).add(vm.address(out)).add(n));
    CHECK(vm.contents<unsigned>(out, 16) == bins);
    CHECK(counters.atomics == n + 4 * 16);
  }
  SECTION("last block adds the partial sums") {
    std::vector<int> ints(n);
    std::iota(ints.begin(), ints.end(), 0);
    const int64_t blocks = (n + 127) / 128;
    const BufferId in = vm.buffer(ints), partial = vm.raw(static_cast<uint64_t>(blocks) * 4),
                   ticket = vm.buffer(std::vector<unsigned>{0}), out = vm.raw(4);
    vm.run(
        "last_block", {blocks, 1, 1}, {128, 1, 1},
        Parameters().add(vm.address(in)).add(vm.address(partial)).add(vm.address(ticket)).add(vm.address(out)).add(n));
    CHECK(vm.contents<int>(out, 1)[0] == n * (n - 1) / 2);
  }
}

TEST_CASE("locks and tokens make progress") {
  for (const char* kernel : {"lock_textbook", "lock_done_flag"}) {
    DYNAMIC_SECTION(kernel) {
      Vm vm;
      vm.load(read_ptx("kernels.ptx"), {kernel});
      vm.device().set_budget(20'000'000);
      const BufferId lock = vm.buffer(std::vector<int>{0}), total = vm.buffer(std::vector<int>{0});
      vm.run(kernel, {3, 1, 1}, {64, 1, 1}, Parameters().add(vm.address(lock)).add(vm.address(total)));
      CHECK(vm.contents<int>(total, 1)[0] == 192);
      CHECK(vm.contents<int>(lock, 1)[0] == 0);
    }
  }
  SECTION("blocks that wait for later blocks are parked") {
    Vm vm;
    vm.load(read_ptx("kernels.ptx"), {"token"});
    vm.device().set_budget(50'000'000);
    const BufferId flag = vm.buffer(std::vector<int>{0}), order = vm.raw(64 * 4);
    vm.run("token", {64, 1, 1}, {32, 1, 1}, Parameters().add(vm.address(flag)).add(vm.address(order)));
    std::vector<int> expected(64);
    std::iota(expected.rbegin(), expected.rend(), 0);
    CHECK(vm.contents<int>(order, 64) == expected);
  }
  SECTION("more waiting blocks than a GPU keeps resident never finish") {
    Vm vm;
    vm.load(read_ptx("kernels.ptx"), {"token"});
    vm.device().set_budget(2'000'000);
    const BufferId flag = vm.buffer(std::vector<int>{0}), order = vm.raw(8000 * 4);
    const LaunchReport report =
        vm.launch("token", {8000, 1, 1}, {32, 1, 1}, Parameters().add(vm.address(flag)).add(vm.address(order)));
    REQUIRE(report.fault.has_value());
    CHECK(report.fault->kind == FaultKind::kBudget);
  }
}

TEST_CASE("function calls under divergence") {
  Vm vm;
  vm.load(read_ptx("kernels.ptx"), {"calls"});
  std::vector<float> in(64);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i) * 0.25f - 3.0f;
  const BufferId bin = vm.buffer(in), out = vm.raw(64 * 4), iout = vm.raw(64 * 4);
  vm.run("calls", {1, 1, 1}, {64, 1, 1}, Parameters().add(vm.address(bin)).add(vm.address(out)).add(vm.address(iout)));
  const auto y = vm.contents<float>(out, 64);
  const auto z = vm.contents<int>(iout, 64);
  const auto twice = [](int x) { return (x & 1) != 0 ? 2 * x + 1 : 2 * x; };
  for (int i = 0; i < 64; ++i) {
    INFO(i);
    float expected = in[static_cast<size_t>(i)];
    if (i % 3 == 0) {
      float sum = 0.0f;
      for (int k = 0; k <= i % 5; ++k) sum = std::fma(sum, expected, static_cast<float>(k + 1));
      expected = sum;
    }
    CHECK(y[static_cast<size_t>(i)] == expected);
    CHECK(z[static_cast<size_t>(i)] == twice(twice(i)));
  }
}

TEST_CASE("constant tables, local arrays, by-value structs, switches, narrow types") {
  Vm vm;
  SECTION("tables") {
    vm.load(read_ptx("kernels.ptx"), {"tables"});
    std::vector<int> index(48);
    for (size_t i = 0; i < index.size(); ++i) index[i] = static_cast<int>(i * 5 % 13);
    const BufferId out = vm.raw(48 * 4), fout = vm.raw(48 * 4), in = vm.buffer(index);
    vm.run("tables", {1, 1, 1}, {48, 1, 1},
           Parameters().add(vm.address(out)).add(vm.address(fout)).add(vm.address(in)));
    const auto x = vm.contents<int>(out, 48);
    const auto f = vm.contents<float>(fout, 48);
    for (int i = 0; i < 48; ++i) {
      const int k = index[static_cast<size_t>(i)];
      CHECK(x[static_cast<size_t>(i)] == (i & 15) * (i & 15) + (k & 7) * i);
      CHECK(f[static_cast<size_t>(i)] == 1.5f + static_cast<float>(k & 3));
    }
  }
  SECTION("by value") {
    vm.load(read_ptx("kernels.ptx"), {"by_value"});
    struct Big {
      float scale[6];
      int count;
      uint64_t out;
    };
    const BufferId out = vm.buffer(std::vector<float>(64, -1.0f));
    Big big{{1, 2, 3, 4, 5, 6}, 40, vm.address(out)};
    Parameters parameters;
    parameters.bytes.resize(sizeof big);
    std::memcpy(parameters.bytes.data(), &big, sizeof big);
    parameters.add(2);
    for (int repeat = 0; repeat < 3; ++repeat) vm.run("by_value", {1, 1, 1}, {64, 1, 1}, parameters);
    const auto y = vm.contents<float>(out, 64);
    for (int i = 0; i < 64; ++i)
      CHECK(y[static_cast<size_t>(i)] == (i < 40 ? static_cast<float>((i + 2) % 6 + 1) : -1.0f));
    const auto info = vm.device().kernel(vm.module(), "by_value").value();
    REQUIRE(info.parameters.size() == 2);
    CHECK(info.parameters[0].kind == ScalarKind::kBytes);
    CHECK(info.parameters[0].bytes == 40);
    CHECK(info.parameters[1].kind == ScalarKind::kInteger);
    CHECK(info.parameters[1].offset_bytes == 40);
    CHECK(info.parameter_bytes == 44);
  }
  SECTION("switch") {
    vm.load(read_ptx("kernels.ptx"), {"switching"});
    const BufferId out = vm.raw(33 * 4);
    vm.run("switching", {1, 1, 1}, {33, 1, 1}, Parameters().add(vm.address(out)).add(50));
    const auto y = vm.contents<int>(out, 33);
    for (int i = 0; i < 33; ++i) {
      uint32_t x = 0;  // the same in modulo arithmetic
      for (int k = 0; k < 50; ++k) {
        switch ((i + k) % 7) {
          case 0: x += 3; break;
          case 1: x ^= static_cast<uint32_t>(i); break;
          case 2: x -= static_cast<uint32_t>(k); break;
          case 3: x = x * 5 + 1; break;
          case 4: x += static_cast<uint32_t>(i * k); break;
          case 5: x = ~x; break;
          default: x = static_cast<uint32_t>(static_cast<int32_t>(x) >> 1); break;
        }
      }
      CHECK(y[static_cast<size_t>(i)] == static_cast<int32_t>(x));
    }
  }
  SECTION("narrow") {
    vm.load(read_ptx("kernels.ptx"), {"narrow"});
    std::vector<int8_t> a(64);
    std::vector<int16_t> c(64);
    for (int i = 0; i < 64; ++i) {
      a[static_cast<size_t>(i)] = static_cast<int8_t>(i * 7 - 200);
      c[static_cast<size_t>(i)] = static_cast<int16_t>(i * 1111 - 30000);
    }
    const BufferId ba = vm.buffer(a), bb = vm.raw(64), bc = vm.buffer(c), bd = vm.raw(128);
    Parameters parameters;
    for (const BufferId id : {ba, bb, bc, bd}) parameters.add(vm.address(id));
    vm.run("narrow", {1, 1, 1}, {64, 1, 1}, parameters);
    const auto b = vm.contents<uint8_t>(bb, 64);
    const auto d = vm.contents<uint16_t>(bd, 64);
    for (size_t i = 0; i < 64; ++i) {
      CHECK(b[i] == static_cast<uint8_t>(a[i] * 3));
      CHECK(d[i] == static_cast<uint16_t>(c[i] - a[i]));
    }
  }
}

struct GridCase {
  const char* name;
  std::array<int64_t, 3> grid, block;
};
const GridCase kGrids[] = {
    {"1-D", {5, 1, 1}, {70, 1, 1}},
    {"2-D", {2, 3, 1}, {9, 5, 1}},
    {"3-D", {2, 2, 3}, {4, 3, 5}},
    {"thin", {1, 1, 9}, {1, 1, 64}},
};

TEST_CASE("thread and block indices in three dimensions") {
  for (const GridCase& row : kGrids) {
    DYNAMIC_SECTION(row.name) {
      Vm vm;
      vm.load(read_ptx("kernels.ptx"), {"grid_index"});
      const size_t total =
          static_cast<size_t>(row.grid[0] * row.grid[1] * row.grid[2] * row.block[0] * row.block[1] * row.block[2]);
      const BufferId out = vm.raw(total * 4);
      vm.run("grid_index", row.grid, row.block, Parameters().add(vm.address(out)));
      const auto found = vm.contents<int>(out, total);
      size_t i = 0;
      std::vector<int> expected(total);
      for (int64_t bz = 0; bz < row.grid[2]; ++bz)
        for (int64_t by = 0; by < row.grid[1]; ++by)
          for (int64_t bx = 0; bx < row.grid[0]; ++bx)
            for (int64_t tz = 0; tz < row.block[2]; ++tz)
              for (int64_t ty = 0; ty < row.block[1]; ++ty)
                for (int64_t tx = 0; tx < row.block[0]; ++tx)
                  expected[i++] = static_cast<int>(bx + 10 * by + 100 * bz + 1000 * tx + 10000 * ty + 100000 * tz);
      CHECK(found == expected);
    }
  }
}

TEST_CASE("the same launch twice gives the same bytes and counters, in any thread") {
  const auto run = [](std::vector<float>& out, Counters& counters) {
    Vm vm;
    vm.load(read_ptx("kernels.ptx"), {"block_sum"});
    std::vector<float> values(3000);
    for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
    const BufferId in = vm.buffer(values), sum = vm.buffer(std::vector<float>{0});
    counters =
        vm.run("block_sum", {7, 1, 1}, {96, 1, 1}, Parameters().add(vm.address(in)).add(vm.address(sum)).add(3000));
    out = vm.contents<float>(sum, 1);
  };
  std::vector<float> first, second, third;
  Counters a, b, c;
  run(first, a);
  std::thread one([&] { run(second, b); });
  std::thread two([&] { run(third, c); });
  one.join();
  two.join();
  CHECK(std::memcmp(first.data(), second.data(), 4) == 0);
  CHECK(std::memcmp(first.data(), third.data(), 4) == 0);
  CHECK(std::memcmp(&a, &b, sizeof a) == 0);
  CHECK(std::memcmp(&a, &c, sizeof a) == 0);
}

}  // namespace
}  // namespace stepbench::vm_test
