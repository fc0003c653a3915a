// The one kernel of our own: looks for bytes between the buffers that no longer hold the guard pattern.
#pragma once

namespace stepbench::cuda {

inline constexpr const char* kGuardKernelName = "stepbench_guards";
inline constexpr unsigned kGuardThreads = 256, kGuardBlocksPerRow = 16;

/// Parameters: rows (pairs of 64-bit addresses: begin, end), result (64 bits: lowered to the first address that
/// differs), pattern (32 bits, four equal bytes). Grid: one row per x, y shares the row. Reads pieces of 16 bytes, four
/// at a time while they lie inside the row and hold the pattern; otherwise one piece, word by word, with what lies
/// outside [begin, end) masked. Plain PTX for sm_70, so that any driver takes it.
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
.reg .b32 %r<36>;
.reg .b64 %d<26>;
ld.param.u64 %d1, [rows];
ld.param.u64 %d2, [result];
ld.param.u32 %r1, [pattern];
mov.u32 %r2, %ctaid.x;
mul.wide.u32 %d3, %r2, 16;
add.s64 %d4, %d1, %d3;
ld.global.u64 %d5, [%d4];
ld.global.u64 %d6, [%d4+8];
and.b64 %d7, %d5, -16;
mov.u32 %r3, %ctaid.y;
mov.u32 %r4, %ntid.x;
mov.u32 %r5, %tid.x;
mov.u32 %r6, %nctaid.y;
mad.lo.s32 %r7, %r3, %r4, %r5;
mul.lo.s32 %r8, %r4, %r6;
mul.wide.u32 %d8, %r7, 16;
add.s64 %d9, %d7, %d8;
mul.wide.u32 %d10, %r8, 16;
shl.b64 %d17, %d10, 1;
add.s64 %d18, %d17, %d10;
shl.b64 %d19, %d10, 2;
mov.u32 %r15, -1;
FOUR:
setp.lt.u64 %p1, %d9, %d5;
@%p1 bra ONE;
add.s64 %d20, %d9, %d18;
add.s64 %d21, %d20, 16;
setp.gt.u64 %p1, %d21, %d6;
@%p1 bra ONE;
add.s64 %d22, %d9, %d10;
add.s64 %d23, %d9, %d17;
ld.global.v4.u32 {%r20, %r21, %r22, %r23}, [%d9];
ld.global.v4.u32 {%r24, %r25, %r26, %r27}, [%d22];
ld.global.v4.u32 {%r28, %r29, %r30, %r31}, [%d23];
ld.global.v4.u32 {%r32, %r33, %r34, %r35}, [%d20];
xor.b32 %r20, %r20, %r1;
xor.b32 %r21, %r21, %r1;
xor.b32 %r22, %r22, %r1;
xor.b32 %r23, %r23, %r1;
xor.b32 %r24, %r24, %r1;
xor.b32 %r25, %r25, %r1;
xor.b32 %r26, %r26, %r1;
xor.b32 %r27, %r27, %r1;
xor.b32 %r28, %r28, %r1;
xor.b32 %r29, %r29, %r1;
xor.b32 %r30, %r30, %r1;
xor.b32 %r31, %r31, %r1;
xor.b32 %r32, %r32, %r1;
xor.b32 %r33, %r33, %r1;
xor.b32 %r34, %r34, %r1;
xor.b32 %r35, %r35, %r1;
or.b32 %r20, %r20, %r21;
or.b32 %r20, %r20, %r22;
or.b32 %r20, %r20, %r23;
or.b32 %r20, %r20, %r24;
or.b32 %r20, %r20, %r25;
or.b32 %r20, %r20, %r26;
or.b32 %r20, %r20, %r27;
or.b32 %r20, %r20, %r28;
or.b32 %r20, %r20, %r29;
or.b32 %r20, %r20, %r30;
or.b32 %r20, %r20, %r31;
or.b32 %r20, %r20, %r32;
or.b32 %r20, %r20, %r33;
or.b32 %r20, %r20, %r34;
or.b32 %r20, %r20, %r35;
setp.ne.s32 %p1, %r20, 0;
@%p1 bra ONE;
add.s64 %d9, %d9, %d19;
bra FOUR;
ONE:
setp.ge.u64 %p1, %d9, %d6;
@%p1 bra DONE;
mov.u64 %d24, %d9;
add.s64 %d25, %d9, 16;
WORD:
setp.ge.u64 %p1, %d24, %d6;
@%p1 bra NEXT;
ld.global.u32 %r9, [%d24];
xor.b32 %r10, %r9, %r1;
setp.ge.u64 %p2, %d24, %d5;
@%p2 bra FRONT_DONE;
sub.s64 %d11, %d5, %d24;
cvt.u32.u64 %r11, %d11;
shl.b32 %r11, %r11, 3;
shl.b32 %r12, %r15, %r11;
and.b32 %r10, %r10, %r12;
FRONT_DONE:
add.s64 %d12, %d24, 4;
setp.le.u64 %p3, %d12, %d6;
@%p3 bra BACK_DONE;
sub.s64 %d13, %d12, %d6;
cvt.u32.u64 %r13, %d13;
shl.b32 %r13, %r13, 3;
shr.u32 %r14, %r15, %r13;
and.b32 %r10, %r10, %r14;
BACK_DONE:
setp.eq.s32 %p4, %r10, 0;
@%p4 bra SAME;
brev.b32 %r16, %r10;
clz.b32 %r17, %r16;
shr.u32 %r18, %r17, 3;
cvt.u64.u32 %d14, %r18;
add.s64 %d15, %d24, %d14;
atom.global.min.u64 %d16, [%d2], %d15;
SAME:
add.s64 %d24, %d24, 4;
setp.lt.u64 %p1, %d24, %d25;
@%p1 bra WORD;
NEXT:
add.s64 %d9, %d9, %d10;
bra FOUR;
DONE:
ret;
}
)";

}  // namespace stepbench::cuda
