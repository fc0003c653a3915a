// The harness's own device code: values made on the GPU, the flush of the L2 cache, and the marks around a timed step.
// Text only; a GPU loads what `compile` makes of it.
#pragma once

#include <cstdint>

#include "harness/stages.h"

namespace stepbench {

/// Entry names, and what their parameters are; all pointers and 64-bit numbers take 8 bytes, the rest 4.
namespace own_kernel {
/// (void* out, u64 count, u64 seed, f32 amplitude, u32 squared, u32 format 0 f32 | 1 bf16 | 2 f16): GenerateSpec.
inline constexpr const char* kGenerate = "sb_generate";
/// (const void* data, u64 16-byte words, u32* sink, u64* marks): reads all; into `sink` it writes never, but the
/// compiler cannot know. With `marks`, the nanosecond counter of the block that ends last goes into marks[0], which
/// must be 0.
inline constexpr const char* kRead = "sb_read";
/// (const {u64 first chunk, void* out, u64 count, u64 seed, f32 amplitude, u32 squared, u32 format, u32 unused}* rows,
/// u64 rows): as kGenerate for every row, with a count above 0; one block for each chunk of kGenerateChunk elements,
/// those of a row before those of the next.
inline constexpr const char* kGenerateAll = "sb_generate_all";
inline constexpr uint64_t kGenerateChunk = 16384;
/// (const {void* to, const void* from, u64 bytes, u64 unused}* pieces), one block for each piece: bytes as they are.
/// Both addresses of a piece have the same remainder by 16.
inline constexpr const char* kCopyPieces = "sb_copy_pieces";
/// (void* to, const void* from, u64 16-byte words)
inline constexpr const char* kCopy = "sb_copy";
/// (volatile u32* flag, u32 ticket): waits until the host writes the ticket, two seconds at most.
inline constexpr const char* kGate = "sb_gate";
/// (u64* marks): nanosecond counter into marks[1], then counts SM cycles for some 20 us: marks[2] cycles, marks[3] ns.
inline constexpr const char* kProbe = "sb_probe";
/// (u32 rounds, f32 x, f32 y, f32* sink): every thread does kFmasPerRound multiplications with additions in
/// fp32 for each round, from registers, in eight independent chains; into `sink` it writes never.
inline constexpr const char* kFma = "sb_fma";
inline constexpr uint32_t kFmasPerRound = 128;
/// (): nothing.
inline constexpr const char* kNothing = "sb_nothing";
}  // namespace own_kernel

/// Compiles them for `options.arch`, or takes them from the cache. A failure is our own mistake: kInternal with the
/// log.
Result<CompiledModule> compile_own_kernels(const CompileOptions& options);

}  // namespace stepbench
