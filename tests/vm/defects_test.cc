// One kernel per kind of fault, with the line it must name, and a clean twin that must be silent.
#include "tests/vm/vm_fixture.h"

namespace stepbench::vm_test {
namespace {

// Every kernel gets: in (64 floats, read-only), out (64 floats, not initialised), half (64 floats of which the first 32
// are initialised), n.
const char* const kParameters = ".param .u64 in, .param .u64 out, .param .u64 half, .param .u32 n";
const char* const kPrologue =
    "ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out]; ld.param.u64 %d3, [half]; ld.param.u32 %r9, [n]; "
    "mov.u32 %r1, %tid.x; mul.wide.u32 %d4, %r1, 4; add.s64 %d5, %d1, %d4; add.s64 %d6, %d2, %d4; add.s64 %d7, %d3, "
    "%d4;\n";
inline constexpr int kFirstLine = kBodyLine + 1;  // of the body below

struct DefectCase {
  const char* name;
  const char* body;  // bad
  const char* twin;  // right
  FaultKind kind;
  int line;             // in `body`, 1-based
  const char* message;  // part of the sentence
  const char* buffer;
  int64_t offset;
  uint32_t thread;
  int64_t threads;
  const char* device = "vm";
  const char* scope = "";
};

const DefectCase kCases[] = {
    {"load past the end", "ld.global.f32 %f1, [%d5+4];\nst.global.f32 [%d6], %f1;",
     "ld.global.f32 %f1, [%d5];\nst.global.f32 [%d6], %f1;", FaultKind::kOutOfBounds, 1,
     "load of 4 bytes at in+256, 0 bytes past its end (256 bytes)", "in", 256, 63, 64},
    {"store past the end by 16 bytes", "mov.f32 %f1, 0f3F800000;\nst.global.v4.f32 [%d2+256], {%f1, %f1, %f1, %f1};",
     "mov.f32 %f1, 0f3F800000;\nst.global.v4.f32 [%d2+240], {%f1, %f1, %f1, %f1};", FaultKind::kOutOfBounds, 2,
     "store of 16 bytes at out+256, 0 bytes past its end (256 bytes)", "out", 256, 0, 1},
    {"straddles the end", "st.global.u64 [%d2+252], 0;", "st.global.u64 [%d2+248], 0;", FaultKind::kOutOfBounds, 1,
     "reaching 4 bytes past its end (256 bytes)", "out", 252, 0, 1},
    {"before the start", "st.global.u32 [%d2+-4], 0;", "st.global.u32 [%d2+0], 0;", FaultKind::kOutOfBounds, 1,
     "store of 4 bytes at out-4, 4 bytes before its start", "out", -4, 0, 1},
    {"null pointer", "mov.u64 %d8, 0;\nld.global.u32 %r2, [%d8+16];", "ld.global.u32 %r2, [%d1+16];",
     FaultKind::kOutOfBounds, 2, "null pointer", "", 16, 0, 32},
    {"store to an input", "st.global.f32 [%d5], 0f00000000;", "st.global.f32 [%d6], 0f00000000;",
     FaultKind::kReadOnlyWrite, 1, "in+0, which is read-only", "in", 0, 0, 64},
    {"atomic on an input", "red.global.add.u32 [%d5], 1;", "st.global.u32 [%d6], 0;\nred.global.add.u32 [%d6], 1;",
     FaultKind::kReadOnlyWrite, 1, "atomic operation of 4 bytes at in+0", "in", 0, 0, 64},
    {"misaligned vector", "ld.global.v2.f32 {%f1, %f2}, [%d1+4];", "ld.global.v2.f32 {%f1, %f2}, [%d1+8];",
     FaultKind::kMisaligned, 1, "not a multiple of 8", "in", 4, 0, 32},
    {"misaligned in one lane",
     "setp.eq.u32 %p1, %r1, 7;\nselp.b64 %d8, 2, 0, %p1;\nadd.s64 %d8, %d8, %d5;\nld.global.f32 %f1, [%d8];",
     "ld.global.f32 %f1, [%d5];", FaultKind::kMisaligned, 4, "in+30", "in", 30, 7, 32},
    {"uninitialised word", "ld.global.f32 %f1, [%d7];", "setp.lt.u32 %p1, %r1, 32;\n@%p1 ld.global.f32 %f1, [%d7];",
     FaultKind::kUninitializedRead, 1, "half+128, where nothing has been written", "half", 128, 32, 64},
    {"one byte of a word written", "st.global.u8 [%d2+1], 7;\nld.global.u16 %h1, [%d2];",
     "st.global.u8 [%d2+1], 7;\nst.global.u8 [%d2], 7;\nld.global.u16 %h1, [%d2];", FaultKind::kUninitializedRead, 2,
     "out+0", "out", 0, 0, 1},
    {"atomic on uninitialised memory", "atom.global.add.f32 %f1, [%d6], 0f3F800000;",
     "st.global.f32 [%d6], 0f00000000;\natom.global.add.f32 %f1, [%d6], 0f3F800000;", FaultKind::kUninitializedRead, 1,
     "out+0", "out", 0, 0, 32},
    {"shared memory past the end",
     ".shared .align 4 .b8 s[128];\nmov.u32 %r2, s;\nshl.b32 %r3, %r1, 2;\nadd.s32 %r2, %r2, %r3;\nst.shared.u32 "
     "[%r2], %r1;",
     ".shared .align 4 .b8 s[256];\nmov.u32 %r2, s;\nshl.b32 %r3, %r1, 2;\nadd.s32 %r2, %r2, %r3;\nst.shared.u32 "
     "[%r2], %r1;",
     FaultKind::kOutOfBounds, 5, "store of 4 bytes at shared memory+128, 0 bytes past its end (128 bytes)",
     "shared memory", 128, 32, 64},
    {"shared address zero", ".shared .align 4 .b8 s[128];\nmov.u32 %r2, s;\nld.shared.u32 %r3, [0];",
     ".shared .align 4 .b8 s[128];\nst.shared.u32 [s], 1;\nld.shared.u32 %r3, [s];", FaultKind::kOutOfBounds, 3,
     "before its start", "shared memory", -1024, 0, 1},
    {"uninitialised shared memory", ".shared .align 4 .b8 s[128];\nld.shared.u32 %r3, [s+4];",
     ".shared .align 4 .b8 s[128];\nst.shared.u32 [s+4], 3;\nld.shared.u32 %r3, [s+4];", FaultKind::kUninitializedRead,
     2, "shared memory+4", "shared memory", 4, 0, 1},
    {"local array past the end", ".local .align 4 .b8 l[16];\nst.local.u32 [l+16], 1;",
     ".local .align 4 .b8 l[16];\nst.local.u32 [l+12], 1;", FaultKind::kOutOfBounds, 2, "local memory+16",
     "local memory", 16, 0, 32},
    {"uninitialised local array", ".local .align 4 .b8 l[16];\nld.local.u32 %r2, [l+8];",
     ".local .align 4 .b8 l[16];\nst.local.u32 [l+8], 1;\nld.local.u32 %r2, [l+8];", FaultKind::kUninitializedRead, 2,
     "local memory+8", "local memory", 8, 0, 32},
    {"trap", "setp.eq.u32 %p1, %r1, 3;\n@%p1 trap;", "setp.eq.u32 %p1, %r1, 99;\n@%p1 trap;", FaultKind::kTrap, 2,
     "trap", "", 0, 3, 32},
    {"endless loop", "L: bra L;", "bra L;\nL: bra M;\nM:", FaultKind::kBudget, 1, "budget of 100000 warp instructions",
     "", 0, 0, 32},
    {"divergent aligned barrier",
     "and.b32 %r2, %r1, 1;\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 bra E;\nbar.sync 0;\nbra F;\nE: bar.sync 0;\nF:",
     "and.b32 %r2, %r1, 32;\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 bra E;\nbar.sync 0;\nbra F;\nE: bar.sync 0;\nF:",
     FaultKind::kBarrierDivergence, 4, "different places", "", 0, 1, 64},
    {"half of a warp shuffles, half waits",
     "setp.lt.u32 %p1, %r1, 16;\n@%p1 bra E;\nshfl.sync.idx.b32 %r3, %r1, 0, 31, -1;\nE: bar.warp.sync -1;",
     "shfl.sync.idx.b32 %r3, %r1, 0, 31, -1;\nsetp.lt.u32 %p1, %r1, 16;\n@%p1 bra E;\nadd.u32 %r3, %r3, 1;\nE: "
     "bar.warp.sync -1;",
     FaultKind::kBarrierDivergence, 3, "different places", "", 0, 16, 32},
    {"shuffle from a lane that has exited",
     "setp.ge.u32 %p1, %r1, 20;\n@%p1 exit;\nshfl.sync.down.b32 %r3, %r1, 16, 31, -1;",
     "setp.ge.u32 %p1, %r1, 20;\n@%p1 exit;\nshfl.sync.idx.b32 %r3, %r1, 3, 31, -1;", FaultKind::kBarrierDivergence, 3,
     "lane 4 reads a value of lane 20, which has exited", "", 0, 4, 32},
    {"lane outside its own mask", "vote.sync.any.pred %p2, 1, 0xffff;", "vote.sync.any.pred %p2, 1, 0xffffffff;",
     FaultKind::kBarrierDivergence, 1, "member mask does not name it", "", 0, 16, 32},
    {"wrong thread count at a barrier", "bar.sync 1, 96;", "bar.sync 1, 64;", FaultKind::kDeadlock, 1,
     "needs 96 threads", "", 0, 0, 64},
    {"warps at different barriers", "setp.lt.u32 %p1, %r1, 32;\n@%p1 bra E;\nbar.sync 1;\nbra F;\nE: bar.sync 2;\nF:",
     "setp.lt.u32 %p1, %r1, 32;\n@%p1 bra E;\nbar.sync 1, 32;\nbra F;\nE: bar.sync 2, 32;\nF:",
     FaultKind::kBarrierDivergence, 5, "different places", "", 0, 0, 64},
    {"barrier number", "bar.sync 16;", "bar.sync 15;", FaultKind::kBarrierDivergence, 1, "barrier 16 does not exist",
     "", 0, 0, 32},
    {"race in shared memory",
     ".shared .align 4 .b8 s[256];\nshl.b32 %r2, %r1, 2;\nmov.u32 %r3, s;\nadd.u32 %r4, %r3, %r2;\nst.shared.u32 "
     "[%r4], %r1;\nxor.b32 %r2, %r2, 128;\nadd.u32 %r4, %r3, %r2;\nst.shared.u32 [%r4], %r1;",
     ".shared .align 4 .b8 s[256];\nshl.b32 %r2, %r1, 2;\nmov.u32 %r3, s;\nadd.u32 %r4, %r3, %r2;\nst.shared.u32 "
     "[%r4], %r1;\nbar.sync 0;\nxor.b32 %r2, %r2, 128;\nadd.u32 %r4, %r3, %r2;\nst.shared.u32 [%r4], %r1;",
     FaultKind::kRace, 5, "races with a write by warp 0", "shared memory", 128, 32, 64, "vm:check"},
    {"read against write in shared memory",
     ".shared .align 4 .b8 s[256];\nshl.b32 %r2, %r1, 2;\nmov.u32 %r3, s;\nadd.u32 %r4, %r3, %r2;\nst.shared.u32 "
     "[%r4], %r1;\nbar.sync 0;\nxor.b32 %r5, %r2, 128;\nadd.u32 %r5, %r3, %r5;\nld.shared.u32 %r6, "
     "[%r5];\nst.shared.u32 [%r4], %r6;",
     ".shared .align 4 .b8 s[256];\nshl.b32 %r2, %r1, 2;\nmov.u32 %r3, s;\nadd.u32 %r4, %r3, %r2;\nst.shared.u32 "
     "[%r4], %r1;\nbar.sync 0;\nxor.b32 %r5, %r2, 128;\nadd.u32 %r5, %r3, %r5;\nld.shared.u32 %r6, [%r5];\nbar.sync "
     "0;\nst.shared.u32 [%r4], %r6;",
     FaultKind::kRace, 9, "races with a write by warp 1", "shared memory", 128, 0, 64, "vm:check"},
};

TEST_CASE("every defect is found at its line, and its clean twin is silent") {
  for (const DefectCase& row : kCases) {
    DYNAMIC_SECTION(row.name) {
      for (const bool bad : {true, false}) {
        Vm vm(row.device);
        vm.device().set_budget(100000);
        vm.load(kernel_ptx(kParameters, std::string(kPrologue) + (bad ? row.body : row.twin), row.scope));
        const BufferId in = vm.buffer(std::vector<float>(64, 1.0f), "in", true);
        const BufferId out = vm.raw(256, "out"), half = vm.raw(256, "half");
        const std::vector<float> ones(32, 1.0f);
        REQUIRE(vm.device().write(half, 0, std::as_bytes(std::span<const float>(ones))).ok());
        const Parameters parameters =
            Parameters().add(vm.address(in)).add(vm.address(out)).add(vm.address(half)).add(64u);
        const LaunchReport report = vm.launch("k", {1, 1, 1}, {row.threads, 1, 1}, parameters);
        if (!bad) {
          INFO("the clean twin" << (report.fault.has_value() ? ": " + report.fault->message : ""));
          CHECK_FALSE(report.fault.has_value());
          continue;
        }
        REQUIRE(report.fault.has_value());
        const Fault& fault = *report.fault;
        CHECK(fault.kind == row.kind);
        CHECK(fault.ptx_line == kFirstLine + row.line - 1);
        CHECK_THAT(fault.message, Catch::Contains(row.message));
        CHECK(fault.kernel == "k");
        CHECK(fault.buffer == row.buffer);
        CHECK(fault.byte_offset == row.offset);
        CHECK(fault.thread == std::array<uint32_t, 3>{row.thread, 0, 0});
        // The device stays usable.
        vm.load(kernel_ptx(kParameters, std::string(kPrologue) + row.twin, row.scope));
        CHECK_FALSE(vm.launch("k", {1, 1, 1}, {row.threads, 1, 1}, parameters).fault.has_value());
      }
    }
  }
}

TEST_CASE("released memory, offsets and empty buffers") {
  Vm vm;
  vm.load(kernel_ptx(".param .u64 a", "ld.param.u64 %d1, [a];\nld.global.u8 %r1, [%d1];\nst.global.u8 [%d1], %r1;"));
  SECTION("a released buffer") {
    const BufferId buffer = vm.buffer(std::vector<int>{1}, "gone");
    const uint64_t address = vm.address(buffer);
    vm.run("k", {1, 1, 1}, {1, 1, 1}, Parameters().add(address));
    vm.device().release(buffer);
    const LaunchReport report = vm.launch("k", {1, 1, 1}, {1, 1, 1}, Parameters().add(address));
    REQUIRE(report.fault.has_value());
    CHECK(report.fault->kind == FaultKind::kOutOfBounds);
    CHECK_THAT(report.fault->message, Catch::Contains("gone+0, which has been released"));
  }
  SECTION("an empty buffer") {
    const BufferId empty = vm.raw(0, "empty"), other = vm.raw(0, "other");
    CHECK(vm.address(empty) != vm.address(other));
    const LaunchReport report = vm.launch("k", {1, 1, 1}, {1, 1, 1}, Parameters().add(vm.address(empty)));
    REQUIRE(report.fault.has_value());
    CHECK_THAT(report.fault->message, Catch::Contains("load of 1 byte at empty+0, 0 bytes past its end (0 bytes)"));
  }
  SECTION("bounds are exact to the byte with an offset") {
    for (const uint32_t offset : {0u, 1u, 4u, 13u, 255u}) {
      const BufferId buffer = vm.buffer(std::vector<uint8_t>{1, 2, 3}, "odd", false, offset);
      CHECK(vm.address(buffer) % 256 == offset % 256);
      for (int64_t at = -1; at <= 3; ++at) {
        const LaunchReport report =
            vm.launch("k", {1, 1, 1}, {1, 1, 1}, Parameters().add(vm.address(buffer) + static_cast<uint64_t>(at)));
        CHECK(report.fault.has_value() == (at < 0 || at > 2));
      }
    }
  }
  SECTION("addresses repeat from device to device") {
    Vm other;
    const BufferId mine = vm.raw(100), theirs = other.raw(100);
    CHECK(vm.address(mine) == other.address(theirs));
    CHECK(vm.address(mine) % 512 == 256);
  }
}

TEST_CASE("poison makes memory uninitialised again and looks like no number") {
  Vm vm;
  vm.load(kernel_ptx(".param .u64 a", "ld.param.u64 %d1, [a];\nld.global.u32 %r1, [%d1+8];"));
  const BufferId buffer = vm.buffer(std::vector<int>(16, 7));
  const Parameters parameters = Parameters().add(vm.address(buffer));
  vm.run("k", {1, 1, 1}, {1, 1, 1}, parameters);
  REQUIRE(vm.device().poison(buffer, 99).ok());
  const auto first = vm.contents<float>(buffer, 16);
  for (const float x : first) CHECK(x != x);
  for (const uint16_t half : vm.contents<uint16_t>(buffer, 32)) {
    CHECK((half & 0x7f80) == 0x7f80);  // exponent of a bf16 NaN
    CHECK((half & 0x7f) != 0);
    CHECK((half & 0x40) == 0);  // signalling
  }
  REQUIRE(vm.launch("k", {1, 1, 1}, {1, 1, 1}, parameters).fault.has_value());
  REQUIRE(vm.device().poison(buffer, 100).ok());
  const auto second = vm.contents<uint32_t>(buffer, 16);
  REQUIRE(vm.device().poison(buffer, 99).ok());
  CHECK(vm.contents<uint32_t>(buffer, 16) != second);
  CHECK(std::memcmp(vm.contents<float>(buffer, 16).data(), first.data(), 64) == 0);
}

struct RaceCase {
  const char* name;
  const char* body;
  bool races;
};
// Two blocks of one thread; %d1 points to two zeroed words.
const RaceCase kGlobalRaces[] = {
    {"both write one word", "st.global.u32 [%d1], 1;", true},
    {"each its own word", "st.global.u32 [%d2], 1;", false},
    {"both add atomically", "red.global.add.u32 [%d1], 1;", false},
    {"one adds, one reads",
     "setp.eq.u32 %p1, %r1, 0;\n@%p1 red.global.add.u32 [%d1], 1;\n@!%p1 ld.global.u32 %r2, [%d1];", true},
    {"both read", "ld.global.u32 %r2, [%d1];", false},
    {"one reads, one writes", "setp.eq.u32 %p1, %r1, 0;\n@%p1 ld.global.u32 %r2, [%d1];\n@!%p1 st.global.u32 [%d1], 1;",
     true},
    {"volatile on both sides", "st.volatile.global.u32 [%d1], 1;", false},
    {"write, then a flag that the reader sees",
     "setp.eq.u32 %p1, %r1, 0;\n@%p1 st.global.u32 [%d1], 1;\n@%p1 membar.gl;\n@%p1 red.global.add.u32 [%d1+4], "
     "1;\n@%p1 bra E;\n"
     "L: ld.volatile.global.u32 %r3, [%d1+4];\nsetp.eq.u32 %p2, %r3, 0;\n@%p2 bra L;\nld.global.u32 %r2, [%d1];\nE:",
     false},
    {"a flag before the write is none",
     "setp.eq.u32 %p1, %r1, 0;\n@%p1 red.global.add.u32 [%d1+4], 1;\n@%p1 st.global.u32 [%d1], 1;\n@%p1 bra E;\n"
     "L: ld.volatile.global.u32 %r3, [%d1+4];\nsetp.eq.u32 %p2, %r3, 0;\n@%p2 bra L;\nld.global.u32 %r2, [%d1];\nE:",
     true},
};

TEST_CASE("races between blocks") {
  for (const RaceCase& row : kGlobalRaces) {
    DYNAMIC_SECTION(row.name) {
      for (const char* device : {"vm:check", "vm"}) {
        Vm vm(device);
        vm.load(kernel_ptx(
            ".param .u64 a",
            std::string(
                "ld.param.u64 %d1, [a]; mov.u32 %r1, %ctaid.x; mul.wide.u32 %d2, %r1, 4; add.u64 %d2, %d2, %d1;\n") +
                row.body));
        const BufferId words = vm.buffer(std::vector<int>(2), "words");
        const Parameters parameters = Parameters().add(vm.address(words));
        const LaunchReport report = vm.launch("k", {2, 1, 1}, {1, 1, 1}, parameters);
        CHECK(report.fault.has_value() == (row.races && std::string(device) == "vm:check"));
        if (report.fault.has_value()) {
          CHECK(report.fault->kind == FaultKind::kRace);
          CHECK_THAT(report.fault->message, Catch::Contains("by block 0") && Catch::Contains("PTX line"));
        }
      }
    }
  }
}

TEST_CASE("real kernels have no races") {
  Vm vm("vm:check");
  vm.load(read_ptx("kernels.ptx"));
  const BufferId in = vm.buffer(std::vector<int>(512, 1)), partial = vm.raw(16),
                 ticket = vm.buffer(std::vector<int>{0}), out = vm.raw(4);
  vm.run(
      "last_block", {4, 1, 1}, {128, 1, 1},
      Parameters().add(vm.address(in)).add(vm.address(partial)).add(vm.address(ticket)).add(vm.address(out)).add(512));
  vm.run("tree_sum", {1, 1, 1}, {512, 1, 1}, Parameters().add(vm.address(in)).add(vm.address(out)).add(512), 2048);
  CHECK(vm.contents<int>(out, 1)[0] == 512);
  const BufferId lock = vm.buffer(std::vector<int>{0}), total = vm.buffer(std::vector<int>{0});
  vm.run("lock_textbook", {3, 1, 1}, {32, 1, 1}, Parameters().add(vm.address(lock)).add(vm.address(total)));
}

}  // namespace
}  // namespace stepbench::vm_test
