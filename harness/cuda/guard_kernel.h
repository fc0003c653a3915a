// The one kernel of our own: looks for bytes between the buffers that no longer hold the guard pattern.
#pragma once

namespace stepbench::cuda {

inline constexpr const char* kGuardKernelName = "stepbench_guards";
inline constexpr unsigned kGuardThreads = 256, kGuardBlocksPerRow = 8;

/// Parameters: rows (pairs of 64-bit addresses: begin, end), result (64 bits: lowered to the first address that
/// differs), pattern (32 bits, four equal bytes). Grid: one row per x, y shares the row. Reads whole aligned words, and
/// masks what lies outside [begin, end). Plain PTX for sm_70, so that any driver takes it.
inline constexpr const char* kGuardKernelPtx = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry stepbench_guards(
.param .u64 rows,
.param .u64 result,
.param .u32 pattern
)
{
.reg .pred %p<5>;
.reg .b32 %r<20>;
.reg .b64 %d<20>;
ld.param.u64 %d1, [rows];
ld.param.u64 %d2, [result];
ld.param.u32 %r1, [pattern];
mov.u32 %r2, %ctaid.x;
mul.wide.u32 %d3, %r2, 16;
add.s64 %d4, %d1, %d3;
ld.global.u64 %d5, [%d4];
ld.global.u64 %d6, [%d4+8];
and.b64 %d7, %d5, -4;
mov.u32 %r3, %ctaid.y;
mov.u32 %r4, %ntid.x;
mov.u32 %r5, %tid.x;
mov.u32 %r6, %nctaid.y;
mad.lo.s32 %r7, %r3, %r4, %r5;
mul.lo.s32 %r8, %r4, %r6;
mul.wide.u32 %d8, %r7, 4;
add.s64 %d9, %d7, %d8;
mul.wide.u32 %d10, %r8, 4;
mov.u32 %r15, -1;
LOOP:
setp.ge.u64 %p1, %d9, %d6;
@%p1 bra DONE;
ld.global.u32 %r9, [%d9];
xor.b32 %r10, %r9, %r1;
setp.ge.u64 %p2, %d9, %d5;
@%p2 bra FRONT_DONE;
sub.s64 %d11, %d5, %d9;
cvt.u32.u64 %r11, %d11;
shl.b32 %r11, %r11, 3;
shl.b32 %r12, %r15, %r11;
and.b32 %r10, %r10, %r12;
FRONT_DONE:
add.s64 %d12, %d9, 4;
setp.le.u64 %p3, %d12, %d6;
@%p3 bra BACK_DONE;
sub.s64 %d13, %d12, %d6;
cvt.u32.u64 %r13, %d13;
shl.b32 %r13, %r13, 3;
shr.u32 %r14, %r15, %r13;
and.b32 %r10, %r10, %r14;
BACK_DONE:
setp.eq.s32 %p4, %r10, 0;
@%p4 bra NEXT;
brev.b32 %r16, %r10;
clz.b32 %r17, %r16;
shr.u32 %r18, %r17, 3;
cvt.u64.u32 %d14, %r18;
add.s64 %d15, %d9, %d14;
atom.global.min.u64 %d16, [%d2], %d15;
NEXT:
add.s64 %d9, %d9, %d10;
bra LOOP;
DONE:
ret;
}
)";

}  // namespace stepbench::cuda
