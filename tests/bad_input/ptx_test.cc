// PTX candidates: files, plans and code that are wrong, through the real program, and a control by hand that is right.
#include "tests/bad_input/support.h"

namespace stepbench::bad_input {
namespace {

/// One element per thread. Byte offsets in Hyper: see `stepbench show adamw`, "<stepbench.cuh> for this task".
const char* const kRightPtx = R"ptx(.version 8.0
.target sm_90a
.address_size 64

.visible .entry adamw_step(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3, .param .u64 p4, .param .u64 p5)
{
  .reg .pred %p<3>;
  .reg .b32 %r<5>;
  .reg .f32 %f<32>;
  .reg .b64 %rd<16>;
  ld.param.u64 %rd0, [p0];
  ld.param.u64 %rd1, [p1];
  ld.param.u64 %rd2, [p2];
  ld.param.u64 %rd3, [p3];
  ld.param.u64 %rd4, [p4];
  ld.param.u64 %rd5, [p5];
  mov.u32 %r0, %ctaid.x;
  mov.u32 %r1, %ntid.x;
  mov.u32 %r2, %tid.x;
  mul.wide.u32 %rd6, %r0, %r1;
  cvt.u64.u32 %rd7, %r2;
  add.s64 %rd6, %rd6, %rd7;
  setp.ge.s64 %p0, %rd6, %rd4;
  @%p0 bra $done;
  ld.global.u32 %r3, [%rd5+44];
  setp.ne.s32 %p1, %r3, 0;
  @%p1 bra $done;
  shl.b64 %rd6, %rd6, 2;
  add.s64 %rd0, %rd0, %rd6;
  add.s64 %rd1, %rd1, %rd6;
  add.s64 %rd2, %rd2, %rd6;
  add.s64 %rd3, %rd3, %rd6;
  ld.global.f32 %f0, [%rd0];
  ld.global.f32 %f1, [%rd1];
  ld.global.f32 %f2, [%rd2];
  ld.global.f32 %f3, [%rd3];
  ld.global.f32 %f4, [%rd5+4];
  ld.global.f32 %f5, [%rd5+8];
  ld.global.f32 %f6, [%rd5+12];
  ld.global.f32 %f7, [%rd5+16];
  ld.global.f32 %f8, [%rd5+20];
  ld.global.f32 %f9, [%rd5+32];
  ld.global.f32 %f10, [%rd5+36];
  ld.global.f32 %f11, [%rd5+40];
  div.rn.f32 %f12, %f1, %f11;
  sub.f32 %f13, 0f3F800000, %f5;
  mul.f32 %f14, %f13, %f12;
  fma.rn.f32 %f15, %f5, %f2, %f14;
  sub.f32 %f16, 0f3F800000, %f6;
  mul.f32 %f17, %f16, %f12;
  mul.f32 %f18, %f17, %f12;
  fma.rn.f32 %f19, %f6, %f3, %f18;
  sqrt.rn.f32 %f20, %f19;
  div.rn.f32 %f21, %f20, %f9;
  add.f32 %f22, %f21, %f7;
  mul.f32 %f23, %f10, %f15;
  div.rn.f32 %f24, %f23, %f22;
  mul.f32 %f25, %f4, %f8;
  mul.f32 %f26, %f25, %f0;
  sub.f32 %f27, %f0, %f26;
  sub.f32 %f28, %f27, %f24;
  st.global.f32 [%rd0], %f28;
  st.global.f32 [%rd2], %f15;
  st.global.f32 [%rd3], %f19;
$done:
  ret;
}
)ptx";

const char* const kRightPlan = R"json({ "task": "adamw",
  "launches": [
    {"for": "tensor", "kernel": "adamw_step", "grid": "ceil_div(n, 128)", "block": 128,
     "args": ["param", "grad", "exp_avg", "exp_avg_sq", "n", "hyper"]}
  ] }
)json";

TEST_CASE("PTX candidates that are not there or not text") {
  const Workplace workplace;
  const std::string ptx = workplace.write("right.ptx", kRightPtx);
  check_error(workplace, {"eval", ptx}, 2, {"right.json", "no plan beside", "right.ptx"});
  check_passes(workplace, {ptx, "--task", "adamw"});  // the default plan
  workplace.write("right.json", kRightPlan);
  check_passes(workplace, {ptx});

  const struct {
    const char* name;
    const char* ptx;
    const char* plan;
    std::vector<std::string> says;
  } rows[] = {
      {"empty PTX", "", kRightPlan, {"a.ptx", "empty"}},
      {"empty plan", kRightPtx, "", {"a.json", "empty"}},
      {"blank plan", kRightPtx, " \n", {"a.json", "empty"}},
      {"PTX not UTF-8", ".version 8.0\n\xFF", kRightPlan, {"a.ptx:2", "byte 13 ", "0xFF"}},
      {"plan not UTF-8", kRightPtx, "{\n\"\xFF\"}", {"a.json:2", "byte 3 ", "0xFF"}},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    workplace.write("a.json", row.plan);
    check_error(workplace, {"eval", workplace.write("a.ptx", row.ptx)}, 2, row.says);
  }
  std::filesystem::remove(workplace.file("a.json"));
  std::filesystem::create_directory(workplace.file("a.json"));
  workplace.write("a.ptx", kRightPtx);
  check_error(workplace, {"eval", workplace.file("a.ptx")}, 2, {"a.json", "directory"});
}

TEST_CASE("PTX candidates that are wrong") {
  const Workplace workplace;
  const struct {
    const char* name;
    Edits ptx, plan;
    const char* verdict;
    const char* place;
    std::vector<std::string> says;
  } rows[] = {
      {"plan is not JSON", {}, {{"\"launches\":", "\"launches\""}}, "bad_candidate", "a.json:2:14", {"JSON", "':'"}},
      {"plan with an unknown field",
       {},
       {{"\"block\"", "\"blok\""}},
       "bad_candidate",
       "a.json: /launches/0/blok",
       {"blok", "`block`"}},
      {"plan with an unknown task", {}, {{"adamw\",", "adamx\","}}, "bad_candidate", "a.json: /task", {"adamx"}},
      {"kernel not there",
       {},
       {{"adamw_step", "adamw_stop"}},
       "bad_candidate",
       "a.json: /launches/0/kernel",
       {"adamw_stop", "adamw_step"}},
      {"garbage",
       {{kRightPtx, "this is not PTX\n"}},
       {},
       "bad_candidate",
       "a.ptx:1",
       {"not PTX", "expected .version", "\'this\'"}},
      {"garbage in a body", {{"ret;", "ret 17 @@;"}}, {}, "unsupported", "a.ptx:66", {}},
      {"a missing semicolon",
       {{"sqrt.rn.f32 %f20, %f19;", "sqrt.rn.f32 %f20, %f19"}},
       {},
       "unsupported",
       "a.ptx:54",
       {}},
      {"undeclared register", {{"%f20, %f19;", "%f20, %f99;"}}, {}, "unsupported", "a.ptx:53", {"%f99"}},
      {"unknown label", {{"bra $done", "bra $dune"}}, {}, "unsupported", "a.ptx:24", {"$dune"}},
      {"cut off", {{"$done:\n  ret;\n}\n", ""}}, {}, "unsupported", "a.ptx", {}},
      {"unknown opcode", {{"sqrt.rn.f32", "sqrrt.rn.f32"}}, {}, "unsupported", "a.ptx:53", {"sqrrt"}},
      {"opcode of another kind of machine",
       {{"sqrt.rn.f32 %f20, %f19;", "wgmma.fence.sync.aligned; sqrt.rn.f32 %f20, %f19;"}},
       {},
       "unsupported",
       "a.ptx:53",
       {"wgmma"}},
      {"target of another machine", {{"sm_90a", "sm_100a"}}, {}, "bad_candidate", "a.ptx:2", {"sm_100a", "sm_90a"}},
      {"target that is newer", {{"sm_90a", "sm_100"}}, {}, "bad_candidate", "a.ptx:2", {"sm_100", "sm_90a"}},
      {"target that does not exist", {{"sm_90a", "sm_banana"}}, {}, "bad_candidate", "a.ptx:2", {"sm_banana"}},
      {"32-bit addresses",
       {{".address_size 64", ".address_size 32"}},
       {},
       "unsupported",
       "a.ptx:3",
       {"64-bit addresses"}},
      {"an argument too few", {}, {{", \"hyper\"", ""}}, "bad_candidate", "a.json: /launches/0/args", {"6 parameters"}},
      {"reads beyond the end", {{"[%rd1];", "[%rd1+400000];"}}, {}, "out_of_bounds", "a.ptx:34", {"grad"}},
  };
  workplace.write("older.json", kRightPlan);  // control: what was made for an older machine runs
  check_passes(workplace, {workplace.write("older.ptx", edited(kRightPtx, {{".version", "/* a\n b */ // c\n.version"},
                                                                           {"sm_90a", "sm_70, debug"}}))});
  for (const auto& row : rows) {
    INFO(row.name);
    workplace.write("a.json", edited(kRightPlan, row.plan));
    check_verdict(workplace, {workplace.write("a.ptx", edited(kRightPtx, row.ptx))}, row.verdict, row.place, row.says);
  }
}

}  // namespace
}  // namespace stepbench::bad_input
