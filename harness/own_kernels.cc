// Device code of the harness itself (see own_kernels.h).
#include "harness/own_kernels.h"

namespace stepbench {
namespace {

/// `sb_generate` and `sb_generate_all` are twins of generate.cc. %globaltimer and %clock64: PTX ISA, special registers.
constexpr const char* kSource = R"cuda(
typedef unsigned int u32;
typedef unsigned long long u64;

__device__ __forceinline__ u64 number_at(u64 seed, u64 i) {
  u64 z = seed + (i + 1) * 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

__device__ __forceinline__ float value_at(u64 seed, u64 i, float amplitude, u32 squared) {
  const u64 x = number_at(seed, i);
  const int sum = (int)((u32)(x & 0xffff) + (u32)((x >> 16) & 0xffff) + (u32)((x >> 32) & 0xffff) + (u32)(x >> 48));
  const float value = __fmul_rn(__fmul_rn(__int2float_rn(sum - 2 * 65535), 2.64293e-5f), amplitude);
  return squared != 0 ? __fmul_rn(value, value) : value;
}

__device__ __forceinline__ void put(void* out, u64 i, float value, u32 format) {
  if (format == 0) {
    ((float*)out)[i] = value;
  } else if (format == 1) {
    const u32 bits = __float_as_uint(value);
    ((unsigned short*)out)[i] = (unsigned short)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
  } else {
    unsigned short half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    ((unsigned short*)out)[i] = half;
  }
}

extern "C" __global__ void sb_generate(void* out, u64 count, u64 seed, float amplitude, u32 squared, u32 format) {
  const u64 stride = (u64)gridDim.x * blockDim.x;
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride)
    put(out, i, value_at(seed, i, amplitude, squared), format);
}

struct Generated {
  u64 first_chunk;
  void* out;
  u64 count, seed;
  float amplitude;
  u32 squared, format, unused;
};

extern "C" __global__ void __launch_bounds__(256) sb_generate_all(const Generated* rows, u64 count) {
  const u64 chunk = blockIdx.x, chunk_elements = 16384;
  u64 low = 0, high = count;  // the last row that begins at or before this chunk
  while (high - low > 1) {
    const u64 middle = (low + high) / 2;
    if (rows[middle].first_chunk <= chunk)
      low = middle;
    else
      high = middle;
  }
  const Generated row = rows[low];
  const u64 begin = (chunk - row.first_chunk) * chunk_elements;
  const u64 end = row.count - begin < chunk_elements ? row.count : begin + chunk_elements;
  for (u64 i = begin + threadIdx.x; i < end; i += blockDim.x)
    put(row.out, i, value_at(row.seed, i, row.amplitude, row.squared), row.format);
}

__device__ __forceinline__ void copy_words(uint4* to, const uint4* from, u64 words, u64 first, u64 step) {
  u64 i = first;
  for (; i + 3 * step < words; i += 4 * step) {
    const uint4 a = from[i], b = from[i + step], c = from[i + 2 * step], d = from[i + 3 * step];
    to[i] = a;
    to[i + step] = b;
    to[i + 2 * step] = c;
    to[i + 3 * step] = d;
  }
  for (; i < words; i += step) to[i] = from[i];
}

struct Piece {
  u64 to, from, bytes, unused;
};

extern "C" __global__ void __launch_bounds__(256) sb_copy_pieces(const Piece* pieces) {
  const Piece piece = pieces[blockIdx.x];
  const u64 ragged = (16 - (piece.to & 15)) & 15, head = ragged < piece.bytes ? ragged : piece.bytes;
  const u64 words = (piece.bytes - head) / 16, step = blockDim.x;
  if (threadIdx.x < head) ((char*)piece.to)[threadIdx.x] = ((const char*)piece.from)[threadIdx.x];
  uint4* const to = (uint4*)(piece.to + head);
  const uint4* const from = (const uint4*)(piece.from + head);
  copy_words(to, from, words, threadIdx.x, step);
  const u64 i = head + 16 * words + threadIdx.x;
  if (i < piece.bytes) ((char*)piece.to)[i] = ((const char*)piece.from)[i];
}

__device__ __forceinline__ u64 now_ns() {
  u64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
  return now;
}

extern "C" __global__ void __launch_bounds__(512) sb_read(const uint4* data, u64 words, u32* sink, u64* marks) {
  const u64 stride = (u64)gridDim.x * blockDim.x;
  u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
  u32 sum = 0;
  for (; i + 3 * stride < words; i += 4 * stride) {
    const uint4 a = data[i], b = data[i + stride], c = data[i + 2 * stride], d = data[i + 3 * stride];
    sum += (a.x ^ a.y ^ a.z ^ a.w) + (b.x ^ b.y ^ b.z ^ b.w) + (c.x ^ c.y ^ c.z ^ c.w) + (d.x ^ d.y ^ d.z ^ d.w);
  }
  for (; i < words; i += stride) {
    const uint4 a = data[i];
    sum += a.x ^ a.y ^ a.z ^ a.w;
  }
  if (sum == 0x9E3779B9u && sink != 0) *sink = sum;
  if (marks != 0 && threadIdx.x == 0) atomicMax(marks, now_ns());
}

extern "C" __global__ void __launch_bounds__(512) sb_copy(uint4* to, const uint4* from, u64 words) {
  copy_words(to, from, words, (u64)blockIdx.x * blockDim.x + threadIdx.x, (u64)gridDim.x * blockDim.x);
}

extern "C" __global__ void sb_gate(volatile u32* flag, u32 ticket) {
  const u64 start = now_ns();
  while (*flag != ticket && now_ns() - start < 2000000000ull) {
  }
}

// The counter advances in steps (32 ns to 1 us): both ends of the interval are such steps.
extern "C" __global__ void sb_probe(u64* marks) {
  const u64 first = now_ns();
  marks[1] = first;
  u64 begin, end;
  do {
    begin = now_ns();
  } while (begin == first);
  const long long cycles = clock64();
  do {
    end = now_ns();
  } while (end - begin < 20000);
  marks[2] = (u64)(clock64() - cycles);
  marks[3] = end - begin;
}

extern "C" __global__ void __launch_bounds__(256) sb_fma(u32 rounds, float x, float y, float* sink) {
  float chain[8];
#pragma unroll
  for (int k = 0; k < 8; ++k) chain[k] = (float)(threadIdx.x + k);
  for (u32 round = 0; round < rounds; ++round) {
#pragma unroll
    for (int turn = 0; turn < 16; ++turn)
#pragma unroll
      for (int k = 0; k < 8; ++k) chain[k] = __fmaf_rn(chain[k], x, y);
  }
  float sum = 0;
#pragma unroll
  for (int k = 0; k < 8; ++k) sum += chain[k];
  if (sum == -1.0f && sink != 0) *sink = sum;
}

extern "C" __global__ void sb_nothing() {}
)cuda";

}  // namespace

Result<CompiledModule> compile_own_kernels(const CompileOptions& options) {
  Candidate candidate;
  candidate.path = "own_kernels.cu";
  candidate.task = "own_kernels";
  candidate.source = kSource;
  candidate.sha256 = sha256_hex(candidate.source);
  for (const char* const name :
       {own_kernel::kGenerate, own_kernel::kGenerateAll, own_kernel::kCopyPieces, own_kernel::kRead, own_kernel::kCopy,
        own_kernel::kGate, own_kernel::kProbe, own_kernel::kFma, own_kernel::kNothing}) {
    PlanLaunch launch;
    launch.kernel = name;
    candidate.plan.launches.push_back(std::move(launch));
  }
  TaskSpec no_task;
  no_task.id = "own_kernels";
  Result<Judged<CompiledModule>> compiled = compile(candidate, no_task, options);
  if (!compiled.ok()) return compiled.error();
  if (!compiled.value().ok()) {
    const Failure& failure = *compiled.value().failure;
    return Error{ErrorCode::kInternal, "the harness's own kernels do not compile", failure.place, "",
                 failure.message + "\n" + failure.detail};
  }
  return std::move(*compiled.value().value);
}

}  // namespace stepbench
