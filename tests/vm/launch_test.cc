// Counters of kernels that can be counted by hand, launch limits, what is refused at load, kernel information, and
// agreement of the instruction-set levels.
#include "tests/vm/vm_fixture.h"

#include <cstdio>
#include <cstdlib>

namespace stepbench::vm_test {
namespace {

// %d1 = a + tid * stride, %d2 = b + tid * stride; stride in bytes.
std::string strided(int stride, const std::string& body) {
  return kernel_ptx(".param .u64 a, .param .u64 b",
                    "ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, " +
                        std::to_string(stride) + "; add.u64 %d1, %d1, %d3; add.u64 %d2, %d2, %d3;\n" + body);
}

struct SectorCase {
  const char* name;
  int stride;
  const char* body;
  uint32_t offset;  // of both buffers' pointers
  uint64_t load_bytes, load_sectors, store_bytes, store_sectors;
  int64_t threads = 32;
};
const SectorCase kSectors[] = {
    {"4 bytes, stride 1", 4, "ld.global.f32 %f1, [%d1];\nst.global.f32 [%d2], %f1;", 0, 128, 4, 128, 4},
    {"4 bytes, stride 2", 8, "ld.global.f32 %f1, [%d1];\nst.global.f32 [%d2], %f1;", 0, 128, 8, 128, 8},
    {"4 bytes, stride 32", 128, "ld.global.f32 %f1, [%d1];\nst.global.f32 [%d2], %f1;", 0, 128, 32, 128, 32},
    {"4 bytes, off by one element", 4, "ld.global.f32 %f1, [%d1];\nst.global.f32 [%d2], %f1;", 4, 128, 5, 128, 5},
    {"float4", 16, "ld.global.v4.f32 {%f1,%f2,%f3,%f4}, [%d1];\nst.global.v4.f32 [%d2], {%f1,%f2,%f3,%f4};", 0, 512, 16,
     512, 16},
    {"float4 off by 16 bytes", 16,
     "ld.global.v4.f32 {%f1,%f2,%f3,%f4}, [%d1];\nst.global.v4.f32 [%d2], {%f1,%f2,%f3,%f4};", 16, 512, 17, 512, 17},
    {"float2 by halves of a warp", 8,
     "setp.lt.u32 %p1, %r1, 16;\n@%p1 ld.global.v2.f32 {%f1,%f2}, [%d1];\n@%p1 st.global.v2.f32 [%d2], {%f1,%f2};", 0,
     128, 4, 128, 4},
    {"bytes", 1, "ld.global.u8 %r2, [%d1];\nst.global.u8 [%d2], %r2;", 0, 32, 1, 32, 1},
    {"bytes, off by 30", 1, "ld.global.u8 %r2, [%d1];\nst.global.u8 [%d2], %r2;", 30, 32, 2, 32, 2},
    {"16-bit", 2, "ld.global.u16 %h1, [%d1];\nst.global.u16 [%d2], %h1;", 0, 64, 2, 64, 2},
    {"64-bit", 8, "ld.global.u64 %d5, [%d1];\nst.global.u64 [%d2], %d5;", 0, 256, 8, 256, 8},
    {"one address", 0, "ld.global.f32 %f1, [%d1];\nst.global.f32 [%d2], %f1;", 0, 128, 1, 128, 1},
    {"block of 33", 4, "ld.global.f32 %f1, [%d1];\nst.global.f32 [%d2], %f1;", 0, 132, 5, 132, 5, 33},
    {"descending", -4, "ld.global.f32 %f1, [%d1+128];\nst.global.f32 [%d2+128], %f1;", 0, 128, 5, 128, 5},
    {"cache hints change nothing", 4, "ld.global.cs.L2::128B.f32 %f1, [%d1];\nst.global.cg.f32 [%d2], %f1;", 0, 128, 4,
     128, 4},
    {"generic", 4, "ld.f32 %f1, [%d1];\nst.f32 [%d2], %f1;", 0, 128, 4, 128, 4},
};

TEST_CASE("bytes and sectors are exact") {
  for (const SectorCase& row : kSectors) {
    DYNAMIC_SECTION(row.name) {
      for (const char* device : {"vm", "vm:check"}) {
        if (std::string(device) == "vm:check" && row.stride == 0) continue;
        Vm vm(device);
        const std::string text =
            row.stride >= 0
                ? strided(row.stride, row.body)
                : kernel_ptx(".param .u64 a, .param .u64 b",
                             std::string("ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; mov.u32 %r1, %tid.x; "
                                         "mul.wide.s32 %d3, %r1, -4; add.s64 %d1, %d1, %d3; add.s64 %d2, %d2, %d3;\n") +
                                 row.body);
        vm.load(text);
        const BufferId a = vm.buffer(std::vector<uint8_t>(8192, 1), "a", true, row.offset),
                       b = vm.raw(8192, "b", false, row.offset);
        const Counters c =
            vm.run("k", {1, 1, 1}, {row.threads, 1, 1}, Parameters().add(vm.address(a)).add(vm.address(b)));
        CHECK(c.global_load_bytes == row.load_bytes);
        CHECK(c.global_load_sectors == row.load_sectors);
        CHECK(c.global_store_bytes == row.store_bytes);
        CHECK(c.global_store_sectors == row.store_sectors);
        CHECK(c.launches == 1);
      }
    }
  }
}

struct CountCase {
  const char* name;
  const char* body;
  int64_t threads;
  uint64_t warp_instructions, lane_instructions, divergent, wavefronts, local_bytes;
};
// With the final ret; folded instructions (mov, ld.param, what depends on constants alone) count like all others.
const CountCase kCounts[] = {
    {"straight line", "mov.u32 %r1, %tid.x;\nadd.u32 %r2, %r1, 1;", 64, 2 * 3, 64 * 3, 0, 0, 0},
    {"all constants", "mov.u32 %r1, 5;\nadd.u32 %r2, %r1, 1;\nmul.lo.u32 %r3, %r2, %r2;", 32, 4, 128, 0, 0, 0},
    {"a block of nothing but constants between labels",
     "mov.u32 %r1, 5;\nbra A;\nA: mov.u32 %r2, 6;\nB: mov.u32 %r3, %tid.x;", 32, 5, 160, 0, 0, 0},
    {"partial warp", "mov.u32 %r1, %tid.x;", 40, 4, 80, 0, 0, 0},
    {"branch taken by half",
     "mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 16;\n@%p1 bra E;\nadd.u32 %r2, %r1, 1;\nadd.u32 %r2, %r2, 1;\nE:", 32,
     3 + 2 + 1, 3 * 32 + 2 * 16 + 32, 1, 0, 0},
    {"loop", "mov.u32 %r1, 0;\nL: add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 10;\n@%p1 bra L;", 32, 1 + 30 + 1,
     32 * 32, 0, 0, 0},
    {"shared stride 1",
     ".shared .align 4 .b8 s[4096];\nmov.u32 %r1, %tid.x;\nshl.b32 %r2, %r1, 2;\nmov.u32 %r3, s;\nadd.u32 %r2, %r2, "
     "%r3;\nst.shared.u32 [%r2], %r1;",
     32, 6, 192, 0, 1, 0},
    {"shared stride 2",
     ".shared .align 4 .b8 s[4096];\nmov.u32 %r1, %tid.x;\nshl.b32 %r2, %r1, 3;\nmov.u32 %r3, s;\nadd.u32 %r2, %r2, "
     "%r3;\nst.shared.u32 [%r2], %r1;",
     32, 6, 192, 0, 2, 0},
    {"shared stride 32",
     ".shared .align 4 .b8 s[4096];\nmov.u32 %r1, %tid.x;\nshl.b32 %r2, %r1, 7;\nmov.u32 %r3, s;\nadd.u32 %r2, %r2, "
     "%r3;\nst.shared.u32 [%r2], %r1;",
     32, 6, 192, 0, 32, 0},
    {"shared stride 33",
     ".shared .align 4 .b8 s[8192];\nmov.u32 %r1, %tid.x;\nmul.lo.u32 %r2, %r1, 132;\nmov.u32 %r3, s;\nadd.u32 %r2, "
     "%r2, %r3;\nst.shared.u32 [%r2], %r1;",
     32, 6, 192, 0, 1, 0},
    {"shared broadcast", ".shared .align 4 .b8 s[64];\nst.shared.u32 [s], 1;\nld.shared.u32 %r1, [s];", 32, 3, 96, 0, 2,
     0},
    {"shared 16 bytes",
     ".shared .align 16 .b8 s[512];\nmov.u32 %r1, %tid.x;\nshl.b32 %r2, %r1, 4;\nmov.u32 %r3, s;\nadd.u32 %r2, %r2, "
     "%r3;\nst.shared.v4.u32 [%r2], {%r1,%r1,%r1,%r1};",
     32, 6, 192, 0, 4, 0},
    {"local", ".local .align 8 .b8 l[16];\nst.local.u64 [l], 1;\nld.local.u64 %d1, [l];", 32, 3, 96, 0, 0, 512},
};

TEST_CASE("instructions, divergence, wavefronts and local bytes are exact") {
  for (const CountCase& row : kCounts) {
    DYNAMIC_SECTION(row.name) {
      for (const char* device : {"vm", "vm:check"}) {
        if (std::string(device) == "vm:check" && std::string(row.name).find("broadcast") != std::string::npos) continue;
        Vm vm(device);
        vm.load(kernel_ptx("", row.body));
        const Counters c = vm.run("k", {1, 1, 1}, {row.threads, 1, 1}, Parameters());
        CHECK(c.warp_instructions == row.warp_instructions);
        CHECK(c.lane_instructions == row.lane_instructions);
        CHECK(c.divergent_branches == row.divergent);
        CHECK(c.shared_wavefronts == row.wavefronts);
        CHECK(c.local_bytes == row.local_bytes);
      }
    }
  }
}

struct LimitCase {
  const char* name;
  std::array<int64_t, 3> grid, block;
  uint32_t shared;
  size_t parameter_bytes;
  const char* message;  // null: runs
};
const LimitCase kLimits[] = {
    {"plain", {1, 1, 1}, {32, 1, 1}, 0, 4, nullptr},
    {"largest block", {1, 1, 1}, {1024, 1, 1}, 0, 4, nullptr},
    {"block too large", {1, 1, 1}, {1025, 1, 1}, 0, 4, "block.x must be 1 to 1024, found 1025"},
    {"product too large", {1, 1, 1}, {64, 4, 8}, 0, 4, "threads per block must be at most 1024, found 2048"},
    {"block.z", {1, 1, 1}, {1, 1, 65}, 0, 4, "block.z must be 1 to 64, found 65"},
    {"empty grid", {0, 1, 1}, {32, 1, 1}, 0, 4, "grid.x must be 1 to 2147483647, found 0"},
    {"grid.y", {1, 65536, 1}, {32, 1, 1}, 0, 4, "grid.y must be 1 to 65535, found 65536"},
    {"all of shared memory", {1, 1, 1}, {32, 1, 1}, 232448, 4, nullptr},
    {"too much shared memory", {1, 1, 1}, {32, 1, 1}, 232449, 4, "at most 232448, found 232449"},
    {"no parameters", {1, 1, 1}, {32, 1, 1}, 0, 0, "size of the parameters in bytes must be 4, found 0"},
};

TEST_CASE("launches are validated like a driver does") {
  for (const LimitCase& row : kLimits) {
    DYNAMIC_SECTION(row.name) {
      Vm vm;
      vm.load(kernel_ptx(".param .u32 n", "ld.param.u32 %r1, [n];"));
      Parameters parameters;
      parameters.bytes.resize(row.parameter_bytes);
      const LaunchReport report = vm.launch("k", row.grid, row.block, parameters, row.shared);
      CHECK(report.fault.has_value() == (row.message != nullptr));
      if (report.fault.has_value() && row.message != nullptr) {
        CHECK(report.fault->kind == FaultKind::kInvalidLaunch);
        CHECK_THAT(report.fault->message, Catch::Contains(row.message));
      }
    }
  }
  const auto directive = [](const std::string& text) {
    return ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n" + text + "\n{\nret;\n}\n";
  };
  SECTION(".maxntid") {
    Vm vm;
    vm.load(directive(".maxntid 128, 1, 1"));
    CHECK(vm.device().kernel(vm.module(), "k").value().max_threads == 128);
    vm.run("k", {1, 1, 1}, {128, 1, 1}, Parameters());
    const LaunchReport report = vm.launch("k", {1, 1, 1}, {129, 1, 1}, Parameters());
    REQUIRE(report.fault.has_value());
    CHECK_THAT(report.fault->message, Catch::Contains("at most 128, found 129"));
  }
  SECTION(".reqntid") {
    Vm vm;
    vm.load(directive(".reqntid 64, 2, 1"));
    CHECK(vm.device().kernel(vm.module(), "k").value().exact_threads);
    vm.run("k", {1, 1, 1}, {64, 2, 1}, Parameters());
    CHECK(vm.launch("k", {1, 1, 1}, {128, 1, 1}, Parameters()).fault.has_value());
  }
  SECTION("clusters") {
    Vm vm;
    vm.load(directive(""));
    LaunchSpec spec;
    spec.module = vm.module();
    spec.entry = "k";
    spec.cluster = {2, 1, 1};
    const LaunchReport report = vm.device().launch(spec).value();
    REQUIRE(report.fault.has_value());
    CHECK(report.fault->kind == FaultKind::kUnsupported);
  }
  SECTION("static shared memory") {
    Vm vm;
    vm.load(kernel_ptx("", ".shared .align 4 .b8 s[49152];\nst.shared.u32 [s], 1;"));
    vm.run("k", {1, 1, 1}, {1, 1, 1}, Parameters());
    vm.load(kernel_ptx("", ".shared .align 4 .b8 s[49156];\nst.shared.u32 [s], 1;"));
    const LaunchReport report = vm.launch("k", {1, 1, 1}, {1, 1, 1}, Parameters());
    REQUIRE(report.fault.has_value());
    CHECK_THAT(report.fault->message, Catch::Contains("at most 49152, found 49156"));
  }
  SECTION("unknown kernels and devices") {
    Vm vm;
    vm.load(directive(""));
    LaunchSpec spec;
    spec.module = vm.module();
    spec.entry = "nothing";
    CHECK(vm.device().launch(spec).error().code == ErrorCode::kNotFound);
    CHECK(vm.device().kernel(vm.module(), "nothing").error().code == ErrorCode::kNotFound);
    CHECK(open_device("tpu").error().code == ErrorCode::kUsage);
  }
}

struct RefusalCase {
  const char* name;
  const char* body;
  int line;
  const char* message;
};
const RefusalCase kRefusals[] = {
    {"cp.async", "mov.u32 %r1, 0;\ncp.async.ca.shared.global [%r1], [%d1], 4;", 2, "cp.async"},
    {"mma",
     "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
     "{%f1,%f2,%f3,%f4},{%r1,%r2,%r3,%r4},{%r5,%r6},{%f1,%f2,%f3,%f4};",
     1, "mma.sync"},
    {"unknown type", "add.f8 %r1, %r2, %r3;", 1, "add.f8"},
    {"unknown modifier of a load", "ld.global.strange.u32 %r1, [%d1];", 1, "modifier .strange"},
    {"vector atomics", "red.global.v2.f32.add [%d1], {%f1, %f2};", 1, "v2"},
    {"32-byte access", "ld.global.v4.f64 {%e1,%e2,%e3,%e4}, [%d1];", 1, "more than 16 bytes"},
    {"special register", "mov.u32 %r1, %envreg1;", 1, "%envreg1"},
    {"cluster barrier", "barrier.cluster.arrive;", 1, "barrier.cluster"},
    {"even if it is never reached", "ret;\ntex.1d.v4.s32.s32 {%r1,%r2,%r3,%r4}, [%d1, {%r5}];", 2, ""},
};

TEST_CASE("what is unknown is refused at load, with its line") {
  for (const RefusalCase& row : kRefusals) {
    DYNAMIC_SECTION(row.name) {
      Vm vm;
      const Judged<ModuleId> loaded = vm.try_load(kernel_ptx("", row.body));
      REQUIRE_FALSE(loaded.ok());
      CHECK(loaded.failure->verdict == Verdict::kUnsupported);
      CHECK_THAT(loaded.failure->message, Catch::Contains(row.message));
      if (std::string(row.name).find("never") == std::string::npos) {
        CHECK_THAT(loaded.failure->message, Catch::Contains("PTX line " + std::to_string(kBodyLine + row.line - 1)));
      }
    }
  }
  SECTION("recursion") {
    Vm vm;
    const std::string scope = ".func f() { call.uni f, (); ret; }";
    const Judged<ModuleId> loaded = vm.try_load(kernel_ptx("", "call.uni f, ();", scope));
    REQUIRE_FALSE(loaded.ok());
    CHECK_THAT(loaded.failure->message, Catch::Contains("recursive"));
  }
  SECTION("source line by .loc") {
    Vm vm;
    const Judged<ModuleId> loaded =
        vm.try_load(kernel_ptx("", ".loc 1 42 7\nmov.u32 %r1, %envreg2;") + ".file 1 \"opt.cu\"\n");
    REQUIRE_FALSE(loaded.ok());
    CHECK_THAT(loaded.failure->message, Catch::Contains("source line 42"));
    CHECK_THAT(loaded.failure->place, Catch::Contains("opt.cu:42"));
  }
  SECTION("only the kernels asked for are looked at") {
    Vm vm;
    const std::string text = kernel_ptx("", "mov.u32 %r1, %envreg1;") + ".visible .entry good() { ret; }\n";
    CHECK_FALSE(vm.try_load(text).ok());
    vm.load(text, {"good"});
    vm.run("good", {1, 1, 1}, {1, 1, 1}, Parameters());
  }
  SECTION("text that is no PTX") {
    Vm vm;
    const Judged<ModuleId> loaded = vm.try_load("this is not PTX");
    REQUIRE_FALSE(loaded.ok());
    CHECK(loaded.failure->verdict == Verdict::kUnsupported);
  }
}

TEST_CASE("faults carry source lines, and variables of a module can be read but not written") {
  Vm vm;
  vm.load(kernel_ptx(".param .u64 a",
                     ".loc 1 17 3\nld.param.u64 %d1, [a];\n.loc 1 18 3\nld.global.u32 %r1, [counter];\n"
                     ".loc 1 19 3\nst.global.u32 [%d1], %r1;\n.loc 1 20 3\nsetp.eq.u32 %p1, %r1, 41;\n"
                     "@%p1 st.global.u32 [counter], %r1;\nret;",
                     ".global .align 4 .u32 counter = 40;") +
          ".file 1 \"x.cu\"\n");
  const BufferId out = vm.raw(4);
  vm.run("k", {1, 1, 1}, {1, 1, 1}, Parameters().add(vm.address(out)));
  CHECK(vm.contents<int>(out, 1)[0] == 40);
  const LaunchReport report = vm.launch("k", {1, 1, 1}, {1, 1, 1}, Parameters().add(vm.address(out) + 4));
  REQUIRE(report.fault.has_value());
  CHECK(report.fault->source_line == 19);

  vm.load(kernel_ptx("", ".loc 1 7 3\nst.global.u32 [counter], 1;", ".global .align 4 .u32 counter = 40;") +
          ".file 1 \"x.cu\"\n");
  const LaunchReport stored = vm.launch("k", {1, 1, 1}, {1, 1, 1}, Parameters());
  REQUIRE(stored.fault.has_value());
  CHECK(stored.fault->kind == FaultKind::kReadOnlyWrite);
  CHECK(stored.fault->source_line == 7);
}

TEST_CASE("8-bit parts are packed and unpacked") {
  Vm vm;
  vm.load(kernel_ptx(".param .u64 a",
                     ".reg .b8 %b<5>;\n.reg .b16 %hh<3>;\nld.param.u64 %d1, [a];\nmov.b32 %r1, 0x04030281;\n"
                     "mov.b32 {%b1, %b2, %b3, %b4}, %r1;\nmov.b32 %r2, {%b4, %b3, %b2, %b1};\n"
                     "st.global.u32 [%d1], %r2;\nmov.b16 %hh1, {%b1, 0};\ncvt.u32.u16 %r3, %hh1;\n"
                     "st.global.u32 [%d1+4], %r3;"));
  const BufferId out = vm.raw(8);
  vm.run("k", {1, 1, 1}, {1, 1, 1}, Parameters().add(vm.address(out)));
  const auto words = vm.contents<uint32_t>(out, 2);
  CHECK(words[0] == 0x81020304u);
  CHECK(words[1] == 0x81u);
}

TEST_CASE("ten thousand small launches and many modules leave no trace") {
  Vm vm;
  vm.load(kernel_ptx(".param .u64 a", "ld.param.u64 %d1, [a];\nred.global.add.u32 [%d1], 1;"));
  const BufferId out = vm.buffer(std::vector<uint32_t>{0});
  for (int i = 0; i < 10000; ++i) vm.run("k", {1, 1, 1}, {32, 1, 1}, Parameters().add(vm.address(out)));
  CHECK(vm.contents<uint32_t>(out, 1)[0] == 320000);
  const ModuleId first = vm.module();
  for (int i = 0; i < 100; ++i) {
    vm.load(kernel_ptx("", "mov.u32 %r1, 0;"));
    vm.device().unload(vm.module());
  }
  LaunchSpec spec;
  spec.module = first;
  spec.entry = "k";
  const Parameters parameters = Parameters().add(vm.address(out));
  spec.parameters = parameters.bytes;
  CHECK_FALSE(vm.device().launch(spec).value().fault.has_value());
}

// FNV-1a over the results of several kernels, printed for the parent test below.
TEST_CASE("digest", "[.digest]") {
  uint64_t hash = 14695981039346656037ull;
  const auto add = [&](const void* data, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) hash = (hash ^ static_cast<const uint8_t*>(data)[i]) * 1099511628211ull;
  };
  Vm vm;
  const int n = 4099;
  for (const char* kernel : {"adamw_scalar", "adamw_float4"}) {
    vm.load(read_ptx(std::string(kernel) + ".ptx"));
    std::vector<float> values(n);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 97) * 0.013f;
    Parameters parameters;
    std::vector<BufferId> ids;
    for (int b = 0; b < 4; ++b) {
      ids.push_back(vm.buffer(values));
      parameters.add(vm.address(ids.back()));
    }
    parameters.add(n).add(1e-3f).add(0.9f).add(0.999f).add(1e-8f).add(0.01f).add(0.1f).add(0.03f);
    const Counters c = vm.run(kernel, {33, 1, 1}, {128, 1, 1}, parameters);
    add(&c, sizeof c);
    for (const BufferId id : ids) add(vm.contents<float>(id, n).data(), n * 4);
  }
  vm.load(read_ptx("kernels.ptx"), {"switching", "collatz"});
  const BufferId out = vm.raw(1000 * 4);
  Counters c = vm.run("switching", {1, 1, 1}, {1000, 1, 1}, Parameters().add(vm.address(out)).add(40));
  add(&c, sizeof c);
  add(vm.contents<int>(out, 1000).data(), 4000);
  c = vm.run("collatz", {10, 1, 1}, {100, 1, 1}, Parameters().add(vm.address(out)).add(1000));
  add(&c, sizeof c);
  add(vm.contents<int>(out, 1000).data(), 4000);
  std::printf("digest %016llx %s\n", static_cast<unsigned long long>(hash), vm.device().info().detail.c_str());
}

std::string output_of(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string text;
  char buffer[256];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) text += buffer;
  REQUIRE(pclose(pipe) == 0);
  return text;
}

TEST_CASE("all instruction-set levels give the same bytes and counters") {
  char self[4096] = {};
  FILE* link = popen("readlink /proc/$PPID/exe", "r");
  REQUIRE(link != nullptr);
  REQUIRE(std::fgets(self, sizeof self, link) != nullptr);
  REQUIRE(pclose(link) == 0);
  self[std::strcspn(self, "\n")] = 0;
  const std::string run = std::string("'") + self + "' '[.digest]'";
  const std::string best = output_of(run), low = output_of("STEPBENCH_VM_ISA=v2 " + run);
  const auto digest = [](const std::string& text) {
    const size_t at = text.find("digest ");
    REQUIRE(at != std::string::npos);
    return text.substr(at, 7 + 16);
  };
  CHECK(digest(best) == digest(low));
  CHECK_THAT(low, Catch::Contains("x86-64-v2"));
}

}  // namespace
}  // namespace stepbench::vm_test
