// Admission: each refusal with its words and its line, beside the nearest text that must be admitted.
#include <algorithm>
#include <catch2/catch.hpp>

#include "harness/stages.h"
#include "tests/ptx/support.h"

namespace stepbench {
namespace {

using ptx_test::kernel;
using ptx_test::kHead;
using ptx_test::read_data;

Judged<Admission> admitted(const std::string& ptx, const std::string& source = "", bool is_ptx = false) {
  CompiledModule module;
  module.ptx = ptx;
  Candidate candidate;
  candidate.path = is_ptx ? "mine.ptx" : "mine.cu";
  candidate.is_ptx = is_ptx;
  candidate.source = is_ptx ? ptx : source;
  return admit(module, candidate);
}

struct Row {
  const char* name;
  std::string ptx;
  const char* message;  ///< part of the refusal's message; empty: admitted
  const char* place = "";
};

const std::string kState = "keeps state between launches in module-scope variable 'n'";
const std::string kCounter = ".global .align 4 .u32 n;";
const std::string kTable = ".global .align 4 .b8 n[8] = {1, 2, 3, 4, 5, 6, 7, 8};";
const std::string kCallPrintf =
    "{ .param .b64 a; .param .b64 b; .param .b32 r; st.param.b64 [a+0], %rd1; st.param.b64 [b+0], %rd2;\n"
    "call.uni (r), vprintf, (a, b); }";
const std::string kPrintf = ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);";

std::string calls(const std::string& name) {
  return kernel(".loc 1 33 2\ncall.uni " + name + "; ret;", ".extern .func " + name + "();");
}

std::string table_of(const std::string& space, int bytes) {
  return kernel("ld." + space + ".u32 %r1, [t];",
                "." + space + " .align 4 .b8 t[" + std::to_string(bytes) + "] = {1};");
}

// Lines: kernel() puts module scope on line 4 and statements from line 7 on.
const Row kRows[] = {
    // ---- state between launches
    {"store to a symbol", kernel("ret;\nst.global.u32 [n], %r1;", kCounter), kState.c_str(), "ptx line 8"},
    {"load from a symbol", kernel("ld.global.u32 %r1, [n];", kCounter), ""},
    {"atomic", kernel("atom.global.add.u32 %r1, [n], 1;", kCounter), kState.c_str(), "ptx line 7"},
    {"atomic without a result", kernel("red.global.add.u32 [n], 1;", kCounter), kState.c_str(), "ptx line 7"},
    {"atomic on a parameter", kernel("ld.param.u64 %rd1, [k_param_0]; red.global.add.u32 [%rd1], 1;", kCounter), ""},
    {"guarded store", kernel("@%p1 st.global.u32 [n], %r1;", kCounter), kState.c_str(), "ptx line 7"},
    {"store through a register", kernel("mov.u64 %rd1, n; st.global.u32 [%rd1+4], %r1;", kTable), kState.c_str()},
    {"load through a register", kernel("mov.u64 %rd1, n; ld.global.nc.u32 %r1, [%rd1+4];", kTable), ""},
    {"store through arithmetic",
     kernel("mov.u64 %rd1, n; cvta.global.u64 %rd2, %rd1; mad.lo.s64 %rd3, %rd9, 4, %rd2; selp.b64 %rd4, %rd8, %rd3, "
            "%p1;\n"
            "cvt.u32.u64 %r1, %rd4; cvt.u64.u32 %rd5, %r1; shl.b64 %rd6, %rd5, 1; xor.b64 %rd7, %rd6, %rd9; min.u64 "
            "%rd10, %rd7, %rd9;\n"
            "st.u32 [%rd10], %r2;",
            kTable),
     kState.c_str(), "ptx line 9"},
    {"load through arithmetic",
     kernel("mov.u64 %rd1, n; cvta.global.u64 %rd2, %rd1; mad.lo.s64 %rd3, %rd9, 4, %rd2; ld.u32 %r1, [%rd3];", kTable),
     ""},
    {"order of the text does not matter",
     kernel("L: st.global.u32 [%rd2], %r1; add.s64 %rd2, %rd1, 4; mov.u64 %rd1, n; bra L;", kTable), kState.c_str()},
    {"store through packed halves",
     kernel("mov.u64 %rd1, n; mov.b64 {%r1, %r2}, %rd1; mov.b64 %rd2, {%r1, %r2}; st.u32 [%rd2], %r3;", kTable),
     kState.c_str()},
    {"store through a shuffle",
     kernel("cvt.u32.u64 %r1, %rd1; mov.u64 %rd1, n; shfl.sync.idx.b32 %r2|%p1, %r1, 0, 31, -1; cvt.u64.u32 %rd2, %r2; "
            "st.u32 [%rd2], 1;",
            kTable),
     kState.c_str()},
    {"comparison of addresses",
     kernel("mov.u64 %rd1, n; setp.eq.s64 %p1, %rd1, %rd2; selp.b64 %rd3, %rd4, %rd5, %p1; st.u32 [%rd3], 1;", kTable),
     ""},
    {"asynchronous copy from", kernel("mov.u64 %rd1, n; cp.async.ca.shared.global [tile], [%rd1], 4;", kTable), ""},
    {"bulk copy to", kernel("mov.u64 %rd1, n; cp.async.bulk.global.shared::cta.bulk_group [%rd1], [tile], 16;", kTable),
     kState.c_str()},
    {"matrix store",
     kernel("wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [n], {%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8}, 16;", kTable),
     kState.c_str()},
    {"matrix load",
     kernel("wmma.load.c.sync.aligned.row.m16n16k16.global.f32 {%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8}, [n], 16;", kTable),
     ""},
    {"unknown instruction with an address", kernel("frobnicate.global [n];", kTable), kState.c_str()},
    {"prefetch", kernel("prefetch.global.L2 [n];", kTable), ""},
    {"function-scope global", kernel(".global .u32 n; st.global.u32 [n], 1;"), kState.c_str()},
    {"unreachable store", kernel("ret;", kCounter + ".func f() { st.global.u32 [n], 1; ret; }"), ""},
    {"store in a called function", kernel("call f;", kCounter + ".func f() { st.global.u32 [n], 1; ret; }"),
     kState.c_str(), "ptx line 4"},
    {"store in a function whose address is taken",
     kernel("mov.u64 %rd1, f;", kCounter + ".func f() { st.global.u32 [n], 1; ret; }"), kState.c_str()},
    {"store in a function of a table",
     kernel("ld.global.u64 %rd1, [fs];",
            kCounter + ".func f() { st.global.u32 [n], 1; ret; } .global .u64 fs[1] = {f};"),
     kState.c_str()},
    {"address given to a writing function",
     kernel("{ .param .b64 a; mov.u64 %rd1, n; st.param.b64 [a+0], %rd1; call f, (a); }",
            kTable + ".func f(.param .b64 p) { .reg .b64 q; ld.param.b64 q, [p]; st.u32 [q], 1; ret; }"),
     kState.c_str()},
    {"address given to a reading function",
     kernel("{ .param .b64 a; mov.u64 %rd1, n; st.param.b64 [a+0], %rd1; call f, (a); }",
            kTable + ".func f(.param .b64 p) { .reg .b64 q; .reg .b32 v; ld.param.b64 q, [p]; ld.u32 v, [q]; ret; }"),
     ""},
    {"address given back and written",
     kernel("{ .param .b64 r; call (r), f; ld.param.b64 %rd1, [r]; st.u32 [%rd1], 1; }",
            kTable + ".func (.param .b64 o) f() { .reg .b64 q; mov.u64 q, n; st.param.b64 [o], q; ret; }"),
     kState.c_str()},
    {"address given back and read",
     kernel("{ .param .b64 r; call (r), f; ld.param.b64 %rd1, [r]; ld.u32 %r1, [%rd1]; }",
            kTable + ".func (.param .b64 o) f() { .reg .b64 q; mov.u64 q, n; st.param.b64 [o], q; ret; }"),
     ""},
    {"register parameters",
     kernel("mov.u64 %rd1, n; call f, (%rd1);", kTable + ".func f(.reg .b64 p) { st.u32 [p], 1; ret; }"),
     kState.c_str()},
    {"address given to an unknown function",
     kernel("mov.u64 %rd1, n; P: .callprototype _ (.param .b64 _); call %rd2, (%rd1), P;", kTable),
     "passes the address of module-scope variable 'n' to an unknown function"},
    {"other value given to an unknown function",
     kernel("ld.global.u64 %rd1, [n]; P: .callprototype _ (.param .b64 _); call %rd2, (%rd1), P;", kTable), ""},
    {"address stored to memory", kernel("mov.u64 %rd1, n; st.shared.u64 [tile], %rd1;", kTable),
     "stores the address of module-scope variable 'n'"},
    {"value stored to memory", kernel("ld.global.u64 %rd1, [n]; st.shared.u64 [tile], %rd1;", kTable), ""},
    {"address exchanged into memory", kernel("mov.u64 %rd1, n; atom.shared.exch.b64 %rd2, [tile], %rd1;", kTable),
     "stores the address of module-scope variable 'n'"},
    {"written through a pointer table",
     kernel("ld.const.u64 %rd1, [p]; st.global.u32 [%rd1], 1;", kTable + ".const .u64 p[2] = {0, n};"), kState.c_str()},
    {"written through a pointer table's register",
     kernel("mov.u64 %rd2, p; add.s64 %rd3, %rd2, 8; ld.const.u64 %rd1, [%rd3]; st.global.u32 [%rd1], 1;",
            kTable + ".const .u64 p[2] = {0, n};"),
     kState.c_str()},
    {"read through a pointer table",
     kernel("ld.const.u64 %rd1, [p]; ld.global.u32 %r1, [%rd1];", kTable + ".const .u64 p[2] = {0, n};"), ""},
    {"pointer table copied", kernel("cp.async.ca.shared.global [tile], [p], 8;", kTable + ".global .u64 p = n;"),
     "stores the address of module-scope variable 'n'"},
    {"shared variable written",
     kernel("st.shared.u32 [s], 1; mov.u64 %rd1, s; st.shared.u64 [tile], %rd1;", ".shared .u32 s;"), ""},
    {"extern shared written", kernel("st.shared.u32 [d], 1;", ".extern .shared .align 16 .b8 d[];"), ""},
    {"a local variable hides the module's", kernel(".shared .u32 n; st.shared.u32 [n], 1;", kCounter), ""},
    // ---- imports
    {"extern variable", kernel("ld.global.u32 %r1, [n];", ".extern .global .u32 n;"),
     "uses extern variable 'n', which the file does not define", "ptx line 7"},
    {"extern variable unused", kernel("ret;", ".extern .global .u32 n;"), ""},
    {"printf", kernel(kCallPrintf, kPrintf), "calls printf", "ptx line 8"},
    {"printf unreachable", kernel("ret;", kPrintf + ".func f() { .reg .b64 %rd<3>; " + kCallPrintf + " ret; }"), ""},
    {"printf declared", kernel("ret;", kPrintf), ""},
    {"malloc", calls("malloc"), "allocates device memory", "mine.cu:33"},
    {"free", calls("free"), "frees device memory", "mine.cu:33"},
    {"assert", calls("__assertfail"), "uses assert", "mine.cu:33"},
    {"launch", calls("cudaLaunchDeviceV2"), "dynamic parallelism, 'cudaLaunchDeviceV2'", "mine.cu:33"},
    {"parameter buffer", calls("cudaGetParameterBufferV2"), "dynamic parallelism", "mine.cu:33"},
    {"synchronise", calls("cudaDeviceSynchronize"), "dynamic parallelism", "mine.cu:33"},
    {"stream", calls("cudaStreamCreateWithFlags"), "dynamic parallelism", "mine.cu:33"},
    {"device runtime", calls("cudaGetDevice"), "calls the device runtime ('cudaGetDevice')", "mine.cu:33"},
    {"unresolved C++ function", calls("_Z4helpPfi"), "calls 'help(float*, int)', which the file does not define",
     "mine.cu:33"},
    {"declared, then defined", kernel("call f;", ".func f(); .func f() { ret; }"), ""},
    {"address of an extern function", kernel("mov.u64 %rd1, malloc;", ".extern .func malloc();"),
     "allocates device memory"},
    // ---- embedded data
    {"constants at the budget", table_of("const", 1 << 20), ""},
    {"constants above the budget", table_of("const", (1 << 20) + 1), "embedded data: 1048577 bytes", "ptx line 4"},
    {"tables at the budget", table_of("global", 1 << 20), ""},
    {"tables above the budget", table_of("global", (1 << 20) + 4), "embedded data: 1048580 bytes"},
    {"unreachable tables above the budget", kernel("ret;", ".global .b8 t[2000000] = {1};"), ""},
    // ---- instructions
    {"trap", kernel("trap;"), ""},
    {"breakpoint", kernel("brkpt;"), ""},
    {"number of the launch", kernel("ret;\nmov.u64 %rd1, %gridid;"),
     "reads %gridid, which tells one launch from another", "ptx line 8"},
    {"a map's address replaced", kernel("tensormap.replace.tile.global_address.global.b1024.b64 [%rd1], %rd2;"),
     "changes a tensor map on the device; maps come from the plan (\"tensor_map\") alone", "ptx line 7"},
    {"a map copied out of shared memory",
     kernel(
         "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd1], [%rd2], 128;"),
     "changes a tensor map on the device", "ptx line 7"},
    {"a map read and used",
     kernel("prefetch.tensormap [%rd1];\ncp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes "
            "[%r1], "
            "[%rd1, {%r2}], [%r3];"),
     ""},
    {"number of the block", kernel("mov.u32 %r1, %ctaid.x;"), ""},
    {"the first of several counts", kernel("call malloc;\nst.global.u32 [n], 1;", kCounter + ".extern .func malloc();"),
     "allocates", "ptx line 7"},
    {"the first of several counts, the other way",
     kernel("st.global.u32 [n], 1;\ncall malloc;", kCounter + ".extern .func malloc();"), kState.c_str(), "ptx line 7"},
};

TEST_CASE("admission: refused and admitted texts") {
  for (const Row& row : kRows) {
    DYNAMIC_SECTION(row.name) {
      std::string ptx = row.ptx;
      if (const size_t at = ptx.find(".loc");
          at != std::string::npos)  // the kernel's own line makes the file the author's
        ptx += ".file 1 \"mine.cu\"\n";
      const Judged<Admission> judged = admitted(ptx);
      INFO((judged.failure ? judged.failure->message + " at " + judged.failure->place : "admitted"));
      if (*row.message == '\0') {
        CHECK(judged.ok());
        continue;
      }
      REQUIRE_FALSE(judged.ok());
      CHECK(judged.failure->verdict == Verdict::kRefused);
      CHECK(judged.failure->check == "admission");
      CHECK_THAT(judged.failure->message, Catch::Contains(row.message));
      if (*row.place != '\0') CHECK(judged.failure->place == row.place);
    }
  }
}

struct NoteRow {
  const char* name;
  std::string ptx;
  const char* note;  ///< empty: no notes at all
};

const NoteRow kNotes[] = {
    {"nothing special", kernel("mov.u32 %r1, %tid.x; ret;"), ""},
    {"clock", kernel("mov.u64 %rd1, %clock64;"), "reads a clock: %clock64 (ptx line 7)"},
    {"timer", kernel("mov.u64 %rd1, %globaltimer;"), "reads a clock: %globaltimer (ptx line 7)"},
    {"processor", kernel("mov.u32 %r1, %smid;"), "reads where it runs: %smid (ptx line 7)"},
    {"warp", kernel("mov.u32 %r1, %warpid;"), "reads where it runs: %warpid (ptx line 7)"},
    {"lane is ordinary", kernel("mov.u32 %r1, %laneid;"), ""},
    {"policy", kernel("createpolicy.fractional.L2::evict_last.b64 %rd1, 1.0;"),
     "uses cache eviction policies (ptx line 7)"},
    {"evict last", kernel("ld.global.L1::evict_last.u32 %r1, [%rd1];"), "uses cache eviction policies (ptx line 7)"},
    {"streaming is ordinary", kernel("ld.global.cs.u32 %r1, [%rd1];"), ""},
    {"volatile", kernel("ld.volatile.global.u32 %r1, [%rd1];"), "uses volatile accesses (ptx line 7)"},
    {"local memory", kernel(".local .align 4 .b8 l[40]; st.local.u32 [l], 1;"),
     "uses local memory: 40 bytes per thread in 'k'"},
    {"trap", kernel("trap;"), "may stop itself: trap (ptx line 7)"},
    {"constant table", table_of("const", 64), "reads constant table 't', 64 bytes"},
    {"module table", table_of("global", 64), "reads module-scope table 't', 64 bytes"},
    {"given once", kernel("mov.u64 %rd1, %clock64;\nmov.u64 %rd1, %clock64;"), "reads a clock: %clock64 (ptx line 7)"},
};

TEST_CASE("admission: notes") {
  for (const NoteRow& row : kNotes) {
    DYNAMIC_SECTION(row.name) {
      const Judged<Admission> judged = admitted(row.ptx);
      REQUIRE(judged.ok());
      const std::vector<std::string> expected =
          *row.note == '\0' ? std::vector<std::string>{} : std::vector<std::string>{row.note};
      CHECK(judged.value->notes == expected);
    }
  }
}

struct SourceRow {
  const char* name;
  const char* symbol;  ///< in the PTX
  const char* source;
  const char* shown;  ///< name in the message
  const char* place;
};

const SourceRow kSources[] = {
    {"plain", "calls", "#include <x>\n\n__device__ unsigned calls;\n", "'calls'", "mine.cu:3"},
    {"in comments and strings first", "calls",
     "// __device__ int calls;\n/* __device__\nint calls; */\nconst char* s = \"__device__ calls\";\n__device__ int "
     "calls = 0;\n",
     "'calls'", "mine.cu:5"},
    {"in a raw string first", "calls", "auto s = R\"x(__device__ int calls;\n)x\";\n__device__ int calls;", "'calls'",
     "mine.cu:3"},
    {"in a macro first", "calls", "#define C \\\n  __device__ int calls;\n__device__ int calls;", "'calls'",
     "mine.cu:3"},
    {"used before in other code", "calls", "void f(int calls) { calls = 1; }\n__device__ int calls;", "'calls'",
     "mine.cu:2"},
    {"part of a longer name first", "calls", "__device__ int calls2;\n__device__ int calls;", "'calls'", "mine.cu:2"},
    {"second of a list", "calls", "__device__ int a,\n  calls;", "'calls'", "mine.cu:2"},
    {"in a namespace", "_ZN3opt5callsE", "namespace opt {\n__device__ int calls;\n}", "'opt::calls'", "mine.cu:2"},
    {"static local", "_ZZ4stepPfE5calls", "__global__ void step(float* p) {\n  static __device__ int calls;\n}",
     "'step(float*)::calls'", "mine.cu:2"},
    {"template", "_ZN3opt5callsILi4EEE", "namespace opt {\ntemplate <int N>\n__device__ int calls;\n}",
     "'opt::calls<4>'", "mine.cu:3"},
    {"internal linkage", "_ZN34_INTERNAL_00000000_7_mine_cu_calls5callsE", "static __device__ int calls;", "",
     "mine.cu:1"},
    {"not in the source", "calls", "int other;", "'calls'", "ptx line 7"},
};

TEST_CASE("admission: the author's line without .loc") {
  for (const SourceRow& row : kSources) {
    DYNAMIC_SECTION(row.name) {
      const std::string symbol = row.symbol;
      const Judged<Admission> judged =
          admitted(kernel("st.global.u32 [" + symbol + "], 1;", ".global .u32 " + symbol + ";"), row.source);
      REQUIRE_FALSE(judged.ok());
      CHECK_THAT(judged.failure->message, Catch::Contains(row.shown));
      CHECK(judged.failure->place == row.place);
      CHECK(judged.failure->detail == "st.global.u32 [" + symbol + "], 1");
    }
  }
}

TEST_CASE("admission: places of PTX candidates are lines of their file") {
  const Judged<Admission> judged =
      admitted(kernel(".loc 1 99 1\nst.global.u32 [n], 1;", kCounter) + ".file 1 \"model.py\"\n", "", true);
  REQUIRE_FALSE(judged.ok());
  CHECK(judged.failure->place == "mine.ptx:8");
}

TEST_CASE("admission: a line of an included header is the header's or the caller's") {
  const std::string files = ".file 1 \"mine.cu\"\n.file 2 \"include/lib.h\"\n";
  // Inlined: the caller's line. Not inlined: the header's own.
  const Judged<Admission> inlined = admitted(
      kernel(".loc 1 20 1\n.loc 2 7 1, function_name $L__i, inlined_at 1 20 1\nst.global.u32 [n], 1;", kCounter) +
      files);
  REQUIRE_FALSE(inlined.ok());
  CHECK(inlined.failure->place == "mine.cu:20");
  const Judged<Admission> separate = admitted(
      kernel(".loc 1 20 1\ncall f;", kCounter + ".func f() { .loc 2 7 1 st.global.u32 [n], 1; ret; }") + files);
  REQUIRE_FALSE(separate.ok());
  CHECK(separate.failure->place == "include/lib.h:7");
}

TEST_CASE("admission: text that does not parse is unsupported, not refused") {
  const Judged<Admission> judged = admitted(kernel("ret;\nadd.s32 %r1, ;"));
  REQUIRE_FALSE(judged.ok());
  CHECK(judged.failure->verdict == Verdict::kUnsupported);
  CHECK(judged.failure->check == "admission");
  CHECK(judged.failure->place == "ptx line 8");
  CHECK_THAT(judged.failure->message, Catch::Contains("expected an operand, found ';'"));
  CHECK(admitted("nothing", "", true).failure->place == "mine.ptx:1");
}

TEST_CASE("admission: NVRTC's texts") {
  const std::string state = read_data("state.cu");
  for (const char* arch : {"sm_90a", "sm_100"}) {
    DYNAMIC_SECTION(arch) {
      const Judged<Admission> judged = admitted(read_data(std::string("state.") + arch + ".ptx"), state);
      REQUIRE_FALSE(judged.ok());
      CHECK(judged.failure->verdict == Verdict::kRefused);
      CHECK(judged.failure->message == "keeps state between launches in module-scope variable 'calls'");
      CHECK(judged.failure->place == "mine.cu:10");  // the atomicAdd of state.cu
      for (const char* file : {"calls.", "inline_asm.", "types."})
        CHECK(admitted(read_data(file + std::string(arch) + ".ptx")).ok());
    }
  }
}

}  // namespace
}  // namespace stepbench
