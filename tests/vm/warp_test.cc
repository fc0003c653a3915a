// Cross-lane instructions, barriers, masks and guards, against their definitions in the PTX ISA.
#include "tests/vm/vm_fixture.h"

#include <algorithm>
#include <functional>

namespace stepbench::vm_test {
namespace {

// One warp (or more); `body` leaves a result in %r31, stored per thread. %r1 = tid, %r2 = a value of the lane.
std::vector<uint32_t> lanes(const std::string& body, int64_t threads = 32, uint32_t poison = 0xdeadbeef) {
  Vm vm;
  vm.load(kernel_ptx(".param .u64 out, .param .u64 in",
                     "ld.param.u64 %d1, [out]; ld.param.u64 %d2, [in]; mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 4; "
                     "add.u64 %d1, %d1, %d3; add.u64 %d2, %d2, %d3; ld.global.u32 %r2, [%d2];\n" +
                         body + "\nst.global.u32 [%d1], %r31;"));
  std::vector<uint32_t> in(static_cast<size_t>(threads));
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint32_t>(i * i * 2654435761u);
  const BufferId out = vm.buffer(std::vector<uint32_t>(in.size(), poison)), input = vm.buffer(in);
  vm.run("k", {1, 1, 1}, {threads, 1, 1}, Parameters().add(vm.address(out)).add(vm.address(input)));
  return vm.contents<uint32_t>(out, in.size());
}

uint32_t value(uint32_t lane) { return lane * lane * 2654435761u; }

struct LaneCase {
  const char* name;
  const char* body;
  std::function<uint32_t(uint32_t)> expected;
  int64_t threads = 32;
};

const LaneCase kLaneCases[] = {
    {"shfl.up by 3", "shfl.sync.up.b32 %r31, %r2, 3, 0, -1;", [](uint32_t l) { return value(l >= 3 ? l - 3 : l); }},
    {"shfl.down by 5", "shfl.sync.down.b32 %r31, %r2, 5, 31, -1;",
     [](uint32_t l) { return value(l + 5 < 32 ? l + 5 : l); }},
    {"shfl.bfly 9", "shfl.sync.bfly.b32 %r31, %r2, 9, 31, -1;", [](uint32_t l) { return value(l ^ 9); }},
    {"shfl.idx 17", "shfl.sync.idx.b32 %r31, %r2, 17, 31, -1;", [](uint32_t) { return value(17); }},
    // Width 8: c = (32 - 8) << 8 | 31.
    {"shfl.down by 3 in segments of 8", "shfl.sync.down.b32 %r31, %r2, 3, 6175, -1;",
     [](uint32_t l) { return value(l % 8 + 3 < 8 ? l + 3 : l); }},
    {"shfl.up by 1 in segments of 8", "shfl.sync.up.b32 %r31, %r2, 1, 6144, -1;",
     [](uint32_t l) { return value(l % 8 >= 1 ? l - 1 : l); }},
    {"shfl.idx 2 in segments of 8", "shfl.sync.idx.b32 %r31, %r2, 2, 6175, -1;",
     [](uint32_t l) { return value(l / 8 * 8 + 2); }},
    {"shfl predicate", "shfl.sync.down.b32 %r3|%p1, %r2, 5, 31, -1;\nselp.b32 %r31, 1, 0, %p1;",
     [](uint32_t l) { return l + 5 < 32 ? 1u : 0u; }},
    {"shfl onto its own source", "shfl.sync.bfly.b32 %r2, %r2, 1, 31, -1;\nmov.u32 %r31, %r2;",
     [](uint32_t l) { return value(l ^ 1); }},
    {"shfl by a lane's own distance", "shfl.sync.idx.b32 %r31, %r2, %r1, 31, -1;", [](uint32_t l) { return value(l); }},
    {"two half-warps with their own masks",
     "setp.lt.u32 %p1, %r1, 16;\nselp.b32 %r4, 0xffff, 0xffff0000, %p1;\nshfl.sync.bfly.b32 %r31, %r2, 3, 31, %r4;",
     [](uint32_t l) { return value(l ^ 3); }},
    {"half-warps in different branches",
     "setp.lt.u32 %p1, %r1, 16;\n@%p1 bra A;\nshfl.sync.idx.b32 %r31, %r2, 20, 31, 0xffff0000;\nbra B;\nA: "
     "shfl.sync.idx.b32 %r31, %r2, 5, 31, 0xffff;\nB:",
     [](uint32_t l) { return value(l < 16 ? 5 : 20); }},
    {"guarded shuffle", "mov.u32 %r31, 7;\nsetp.lt.u32 %p1, %r1, 8;\n@%p1 shfl.sync.bfly.b32 %r31, %r2, 1, 31, 0xff;",
     [](uint32_t l) { return l < 8 ? value(l ^ 1) : 7; }},
    {"ballot", "and.b32 %r3, %r1, 3;\nsetp.eq.u32 %p1, %r3, 1;\nvote.sync.ballot.b32 %r31, %p1, -1;",
     [](uint32_t) { return 0x22222222u; }},
    {"ballot of a negated predicate",
     "and.b32 %r3, %r1, 3;\nsetp.eq.u32 %p1, %r3, 1;\nvote.sync.ballot.b32 %r31, !%p1, -1;",
     [](uint32_t) { return ~0x22222222u; }},
    {"all", "setp.lt.u32 %p1, %r1, 31;\nvote.sync.all.pred %p2, %p1, -1;\nselp.b32 %r31, 1, 0, %p2;",
     [](uint32_t) { return 0u; }},
    {"all, true", "setp.lt.u32 %p1, %r1, 32;\nvote.sync.all.pred %p2, %p1, -1;\nselp.b32 %r31, 1, 0, %p2;",
     [](uint32_t) { return 1u; }},
    {"any", "setp.eq.u32 %p1, %r1, 31;\nvote.sync.any.pred %p2, %p1, -1;\nselp.b32 %r31, 1, 0, %p2;",
     [](uint32_t) { return 1u; }},
    {"uni", "setp.eq.u32 %p1, %r1, 31;\nvote.sync.uni.pred %p2, %p1, -1;\nselp.b32 %r31, 1, 0, %p2;",
     [](uint32_t) { return 0u; }},
    {"ballot in a block of 20 threads", "setp.ge.u32 %p1, %r1, 10;\nvote.sync.ballot.b32 %r31, %p1, -1;",
     [](uint32_t) { return 0xffc00u; }, 20},
    {"activemask", "activemask.b32 %r31;", [](uint32_t) { return 0xffffffffu; }},
    {"activemask in a branch", "mov.u32 %r31, 0;\nsetp.lt.u32 %p1, %r1, 5;\n@!%p1 bra E;\nactivemask.b32 %r31;\nE:",
     [](uint32_t l) { return l < 5 ? 31u : 0u; }},
    {"redux add", "redux.sync.add.u32 %r31, %r1, -1;", [](uint32_t) { return 496u; }},
    {"redux min signed", "sub.u32 %r3, %r1, 10;\nredux.sync.min.s32 %r31, %r3, -1;",
     [](uint32_t) { return static_cast<uint32_t>(-10); }},
    {"redux max unsigned", "sub.u32 %r3, %r1, 10;\nredux.sync.max.u32 %r31, %r3, -1;",
     [](uint32_t) { return static_cast<uint32_t>(-1); }},
    {"redux or in two groups",
     "and.b32 %r3, %r1, 1;\nsetp.eq.u32 %p1, %r3, 0;\nselp.b32 %r4, 0x55555555, 0xaaaaaaaa, %p1;\nredux.sync.or.b32 "
     "%r31, %r1, %r4;",
     [](uint32_t l) { return l % 2 == 0 ? 30u : 31u; }},
    {"match any", "rem.u32 %r3, %r1, 3;\nmatch.any.sync.b32 %r31, %r3, -1;",
     [](uint32_t l) {
       uint32_t mask = 0;
       for (uint32_t k = l % 3; k < 32; k += 3) mask |= 1u << k;
       return mask;
     }},
    {"match all", "mov.u64 %d5, 77;\nmatch.all.sync.b64 %r31|%p1, %d5, -1;", [](uint32_t) { return 0xffffffffu; }},
    {"elect", "elect.sync %r3|%p1, -1;\nselp.b32 %r31, 100, %r3, %p1;", [](uint32_t l) { return l == 0 ? 100u : 0u; }},
    {"lane masks", "mov.u32 %r3, %lanemask_lt;\nmov.u32 %r4, %lanemask_ge;\nxor.b32 %r31, %r3, %r4;",
     [](uint32_t) { return 0xffffffffu; }},
    {"lane and warp ids", "mov.u32 %r3, %laneid;\nmov.u32 %r4, %warpid;\nmad.lo.u32 %r31, %r4, 100, %r3;",
     [](uint32_t l) { return l / 32 * 100 + l % 32; }, 70},
    {"bar.red.popc", "setp.ge.u32 %p1, %r1, 60;\nbar.red.popc.u32 %r31, 0, %p1;", [](uint32_t) { return 40u; }, 100},
    {"bar.red.and", "setp.ge.u32 %p1, %r1, 0;\nbar.red.and.pred %p2, 1, %p1;\nselp.b32 %r31, 1, 0, %p2;",
     [](uint32_t) { return 1u; }, 100},
    {"bar.red.or, nobody", "setp.gt.u32 %p1, %r1, 100;\nbar.red.or.pred %p2, 1, %p1;\nselp.b32 %r31, 1, 0, %p2;",
     [](uint32_t) { return 0u; }, 100},
    {"barrier after some threads have left",
     "mov.u32 %r31, 3;\nst.global.u32 [%d1], %r31;\nsetp.ge.u32 %p1, %r1, 40;\n@%p1 exit;\nbar.sync 0;\nmov.u32 %r31, "
     "4;",
     [](uint32_t l) { return l < 40 ? 4u : 3u; }, 100},
    {"unaligned barriers in two branches",
     "mov.u32 %r31, 1;\nand.b32 %r3, %r1, 1;\nsetp.eq.u32 %p1, %r3, 0;\n@%p1 bra A;\nbarrier.sync 0;\nbra B;\nA: "
     "barrier.sync 0;\nB: add.u32 %r31, %r31, 1;",
     [](uint32_t) { return 2u; }, 64},
    {"producer arrives, consumer waits",
     ".shared .align 4 .b8 s[128];\nmov.u32 %r3, s;\nand.b32 %r4, %r1, 31;\nshl.b32 %r4, %r4, 2;\nadd.u32 %r3, %r3, "
     "%r4;\nmov.u32 %r31, 5;\n"
     "setp.lt.u32 %p1, %r1, 32;\n@%p1 bra C;\nst.shared.u32 [%r3], %r1;\nbarrier.arrive 3, 64;\nbra E;\nC: "
     "barrier.sync 3, 64;\nld.shared.u32 %r31, [%r3];\nE:",
     [](uint32_t l) { return l < 32 ? l + 32 : 5u; }, 64},
    {"brx.idx",
     "T: .branchtargets A, B, C;\nrem.u32 %r3, %r1, 3;\nbrx.idx %r3, T;\nA: mov.u32 %r31, 10;\nbra E;\nB: mov.u32 "
     "%r31, 20;\nbra E;\nC: mov.u32 %r31, 30;\nE:",
     [](uint32_t l) { return (l % 3 + 1) * 10; }},
    {"guarded exit", "mov.u32 %r31, 9;\nsetp.lt.u32 %p1, %r1, 7;\n@%p1 exit;",
     [](uint32_t l) { return l < 7 ? 0xdeadbeefu : 9u; }},
    {"guarded write keeps the old value in a shared slot",
     "mov.u32 %r31, 1;\nadd.u32 %r5, %r1, 3;\nsetp.lt.u32 %p1, %r1, 7;\n@%p1 add.u32 %r31, %r5, 40;",
     [](uint32_t l) { return l < 7 ? l + 43 : 1u; }},
    {"pack and unpack",
     "mov.b64 %d5, {%r1, %r2};\nmov.b64 {%r3, %r4}, %d5;\nmov.b32 {%h1, %h2}, %r4;\nmov.b32 %r5, {%h2, %h1};\nxor.b32 "
     "%r31, %r5, %r3;",
     [](uint32_t l) { return (value(l) >> 16 | value(l) << 16) ^ l; }},
    {"sink in an unpacking", "mov.b64 %d5, {%r1, %r2};\nmov.b64 {_, %r31}, %d5;", [](uint32_t l) { return value(l); }},
    {"generic addresses of shared and local memory",
     ".shared .align 4 .b8 s[256];\n.local .align 4 .b8 l[8];\nmov.u32 %r3, s;\nshl.b32 %r4, %r1, 2;\nadd.u32 %r3, "
     "%r3, %r4;\ncvt.u64.u32 %d5, %r3;\n"
     "cvta.shared.u64 %d6, %d5;\nst.u32 [%d6], %r2;\nld.shared.u32 %r5, [%r3];\nmov.u64 %d7, l;\ncvta.local.u64 %d8, "
     "%d7;\nst.u32 [%d8+4], %r5;\n"
     "cvta.to.local.u64 %d9, %d8;\nld.local.u32 %r6, [%d9+4];\nisspacep.shared %p1, %d6;\nisspacep.local %p2, "
     "%d8;\nisspacep.global %p3, %d1;\nisspacep.global %p4, %d6;\n"
     "selp.b32 %r7, 1, 0, %p1;\nselp.b32 %r8, 2, 0, %p2;\nselp.b32 %r9, 4, 0, %p3;\nselp.b32 %r10, 8, 0, %p4;\nadd.u32 "
     "%r6, %r6, %r7;\nadd.u32 %r6, %r6, %r8;\nadd.u32 %r6, %r6, %r9;\nadd.u32 %r31, %r6, %r10;",
     [](uint32_t l) { return value(l) + 7; }, 64},
    {"generic accesses to two spaces at once",
     ".shared .align 4 .b8 s[256];\n.local .align 4 .b8 l[8];\nmov.u32 %r3, s;\nshl.b32 %r4, %r1, 2;\nadd.u32 %r3, "
     "%r3, %r4;\ncvt.u64.u32 %d5, %r3;\ncvta.shared.u64 %d6, %d5;\n"
     "mov.u64 %d7, l;\ncvta.local.u64 %d8, %d7;\nand.b32 %r5, %r1, 1;\nsetp.eq.u32 %p1, %r5, 0;\nselp.b64 %d9, %d6, "
     "%d8, %p1;\nst.u32 [%d9], %r2;\nld.u32 %r31, [%d9];",
     [](uint32_t l) { return value(l); }},
};

TEST_CASE("cross-lane operations, barriers and addresses") {
  for (const LaneCase& row : kLaneCases) {
    DYNAMIC_SECTION(row.name) {
      const std::vector<uint32_t> found = lanes(row.body, row.threads);
      for (uint32_t lane = 0; lane < found.size(); ++lane) {
        INFO("thread " << lane);
        CHECK(found[lane] == row.expected(lane));
      }
    }
  }
}

struct AtomicCase {
  const char* name;
  const char* text;  // d in %r31, address %d4, operand %r1 (tid)
  uint32_t initial, final_value;
  std::function<uint32_t(uint32_t)> old;  // what lane l must have seen: lanes go in ascending order
};
const AtomicCase kAtomics[] = {
    {"add", "atom.global.add.u32 %r31, [%d4], %r1;", 100, 100 + 496, [](uint32_t l) { return 100 + l * (l - 1) / 2; }},
    {"inc wraps", "atom.global.inc.u32 %r31, [%d4], 5;", 0, 32 % 6, [](uint32_t l) { return l % 6; }},
    {"dec wraps", "atom.global.dec.u32 %r31, [%d4], 5;", 3, 1, [](uint32_t l) { return (3 + 6 * 32 - l) % 6; }},
    {"min signed", "sub.s32 %r5, 10, %r1;\natom.global.min.s32 %r31, [%d4], %r5;", 0, static_cast<uint32_t>(-21),
     [](uint32_t l) { return l <= 10 ? 0u : static_cast<uint32_t>(11 - static_cast<int>(l)); }},
    {"max unsigned", "atom.global.max.u32 %r31, [%d4], %r1;", 4, 31, [](uint32_t l) { return l <= 4 ? 4u : l - 1; }},
    {"or", "mov.u32 %r5, 1;\nshl.b32 %r5, %r5, %r1;\natom.global.or.b32 %r31, [%d4], %r5;", 0, 0xffffffff,
     [](uint32_t l) { return (1u << l) - 1; }},
    {"exch", "atom.global.exch.b32 %r31, [%d4], %r1;", 77, 31, [](uint32_t l) { return l == 0 ? 77u : l - 1; }},
    {"cas", "add.u32 %r5, %r1, 1;\natom.global.cas.b32 %r31, [%d4], %r1, %r5;", 0, 32, [](uint32_t l) { return l; }},
    {"generic add with scope", "atom.acq_rel.gpu.add.u32 %r31, [%d4], 1;", 0, 32, [](uint32_t l) { return l; }},
    {"add f32", "cvt.rn.f32.u32 %f1, %r1;\natom.global.add.f32 %f2, [%d4], %f1;\ncvt.rzi.u32.f32 %r31, %f2;",
     0x40000000, 0x43f90000, [](uint32_t l) { return 2 + l * (l - 1) / 2; }},  // 2.0 + 496 = 498.0
    {"add bf16x2", "mov.b32 %r5, 0x3f803f80;\natom.global.add.noftz.bf16x2 %r31, [%d4], %r5;\nshr.u32 %r31, %r31, 16;",
     0, 0x42004200,
     [](uint32_t l) {
       const float x = static_cast<float>(l);
       uint32_t bits;
       std::memcpy(&bits, &x, 4);
       return bits >> 16;
     }},
};

TEST_CASE("atomics return the old value, lane by lane") {
  for (const AtomicCase& row : kAtomics) {
    DYNAMIC_SECTION(row.name) {
      Vm vm;
      vm.load(kernel_ptx(
          ".param .u64 out, .param .u64 cell",
          std::string(
              "ld.param.u64 %d1, [out]; ld.param.u64 %d4, [cell]; mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 4; "
              "add.u64 %d1, %d1, %d3;\n") +
              row.text + "\nst.global.u32 [%d1], %r31;"));
      const BufferId out = vm.raw(128), cell = vm.buffer(std::vector<uint32_t>{row.initial});
      const Counters counters =
          vm.run("k", {1, 1, 1}, {32, 1, 1}, Parameters().add(vm.address(out)).add(vm.address(cell)));
      CHECK(vm.contents<uint32_t>(cell, 1)[0] == row.final_value);
      CHECK(counters.atomics == 32);
      const auto found = vm.contents<uint32_t>(out, 32);
      for (uint32_t lane = 0; lane < 32; ++lane) {
        INFO("lane " << lane);
        CHECK(found[lane] == row.old(lane));
      }
    }
  }
}

struct FloatAtomicCase {
  const char* name;
  const char* type;
  int bytes;
  uint64_t initial, operand, expected;
  bool shared;
};
const FloatAtomicCase kFloatAtomics[] = {
    {"f32 subnormal is flushed in global memory", "f32", 4, 0x00000001, 0x00000001, 0x00000000, false},
    {"f32 subnormal is kept in shared memory", "f32", 4, 0x00000001, 0x00000001, 0x00000002, true},
    {"f32 NaN is canonical", "f32", 4, 0x7f800000, 0xff800000, 0x7fffffff, false},
    {"f64", "f64", 8, 0x3ff0000000000000, 0x3ca0000000000000, 0x3ff0000000000000, false},  // 1 + 2^-53: tie to even
    {"f16 subnormals", "noftz.f16", 2, 0x0001, 0x03ff, 0x0400, false},
    {"f16 overflow", "noftz.f16", 2, 0x7bff, 0x7bff, 0x7c00, false},
    {"bf16 tie to even", "noftz.bf16", 2, 0x3f80, 0x3b80, 0x3f80, false},  // 1 + 2^-8
    {"bf16 above the tie", "noftz.bf16", 2, 0x3f80, 0x3b81, 0x3f81, false},
    {"f16x2", "noftz.f16x2", 4, 0x3c003c00, 0x40003c00, 0x42004000, false},
};

TEST_CASE("floating-point atomics at the edges") {
  for (const FloatAtomicCase& row : kFloatAtomics) {
    DYNAMIC_SECTION(row.name) {
      Vm vm;
      const std::string bits = row.bytes == 2 ? "b16" : row.bytes == 4 ? "b32" : "b64";
      const std::string reg = row.bytes == 2 ? "%h" : row.bytes == 4 ? "%r" : "%d";
      const std::string load =
          "ld.global." + bits + " " + reg + "5, [%d1];\nld.global." + bits + " " + reg + "6, [%d2];\n";
      const std::string body = row.shared
                                   ? ".shared .align 8 .b8 s[8];\nst.shared." + bits + " [s], " + reg +
                                         "5;\nred.shared.add." + row.type + " [s], " + reg + "6;\nld.shared." + bits +
                                         " " + reg + "5, [s];\nst.global." + bits + " [%d1], " + reg + "5;"
                                   : "red.global.add." + std::string(row.type) + " [%d1], " + reg + "6;";
      vm.load(
          kernel_ptx(".param .u64 a, .param .u64 b", "ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b];\n" + load + body));
      const BufferId cell = vm.buffer(std::vector<uint64_t>{row.initial}),
                     operand = vm.buffer(std::vector<uint64_t>{row.operand});
      vm.run("k", {1, 1, 1}, {1, 1, 1}, Parameters().add(vm.address(cell)).add(vm.address(operand)));
      CHECK(vm.contents<uint64_t>(cell, 1)[0] == row.expected);
    }
  }
}

}  // namespace
}  // namespace stepbench::vm_test
