/*stepbench
{ "task": "muon_ns5",
  "note": "matrices of one shape in a batch; three products of the library an iteration in bf16, additions inside them; eight elements per thread around them",
  "defines": {"BLOCK": 256, "PARTS": 64, "SIDE": 32},
  "scratch": {"partial": "sum(PARTS * 4)", "x": "2 * sum(align(n, 128) * 2)",
              "gram": "sum(align(min(rows, cols) * min(rows, cols), 128) * 2)",
              "polynomial": "sum(align(min(rows, cols) * min(rows, cols), 128) * 2)"},
  "launches": [
    {"for": "shape", "launches": [
      {"kernel": "squares", "grid": ["PARTS * (n > 0)", "count"], "block": "BLOCK",
       "args": ["grad[]", "scratch.partial + prefix(PARTS * 4)", "n"]},
      {"kernel": "start", "grid": ["(rows <= cols) * ceil_div(n, 8 * BLOCK)", "count"], "block": "BLOCK",
       "args": ["grad[]", "scratch.partial + prefix(PARTS * 4)", "scratch.x + prefix(align(n, 128) * 2)", "n",
                "align(n, 128)", "hyper"]},
      {"kernel": "start_transposed",
       "grid": ["(rows > cols) * ceil_div(cols, SIDE)", "ceil_div(rows, SIDE)", "count"], "block": ["SIDE", 8],
       "args": ["grad[]", "scratch.partial + prefix(PARTS * 4)", "scratch.x + prefix(align(n, 128) * 2)", "rows",
                "cols", "align(n, 128)", "hyper"]},
      {"repeat": 5, "launches": [
        {"library": "gemm", "m": "min(rows, cols)", "n": "min(rows, cols)", "k": "max(rows, cols)", "batch": "count",
         "inputs": "bf16", "output": "bf16", "transpose_b": true,
         "a": "scratch.x + (iteration % 2) * sum(align(n, 128) * 2) + prefix(align(n, 128) * 2)",
         "b": "scratch.x + (iteration % 2) * sum(align(n, 128) * 2) + prefix(align(n, 128) * 2)",
         "d": "scratch.gram + prefix(align(min(rows, cols) * min(rows, cols), 128) * 2)",
         "stride_a": "align(n, 128)", "stride_b": "align(n, 128)",
         "stride_d": "align(min(rows, cols) * min(rows, cols), 128)"},
        {"library": "gemm", "m": "min(rows, cols)", "n": "min(rows, cols)", "k": "min(rows, cols)", "batch": "count",
         "inputs": "bf16", "output": "bf16", "alpha": 2.0315, "beta": -4.7750,
         "a": "scratch.gram + prefix(align(min(rows, cols) * min(rows, cols), 128) * 2)",
         "b": "scratch.gram + prefix(align(min(rows, cols) * min(rows, cols), 128) * 2)",
         "c": "scratch.gram + prefix(align(min(rows, cols) * min(rows, cols), 128) * 2)",
         "d": "scratch.polynomial + prefix(align(min(rows, cols) * min(rows, cols), 128) * 2)",
         "stride_a": "align(min(rows, cols) * min(rows, cols), 128)",
         "stride_b": "align(min(rows, cols) * min(rows, cols), 128)",
         "stride_c": "align(min(rows, cols) * min(rows, cols), 128)",
         "stride_d": "align(min(rows, cols) * min(rows, cols), 128)"},
        {"library": "gemm", "m": "min(rows, cols)", "n": "max(rows, cols)", "k": "min(rows, cols)", "batch": "count",
         "inputs": "bf16", "output": "bf16", "beta": 3.4445,
         "a": "scratch.polynomial + prefix(align(min(rows, cols) * min(rows, cols), 128) * 2)",
         "b": "scratch.x + (iteration % 2) * sum(align(n, 128) * 2) + prefix(align(n, 128) * 2)",
         "c": "scratch.x + (iteration % 2) * sum(align(n, 128) * 2) + prefix(align(n, 128) * 2)",
         "d": "scratch.x + ((iteration + 1) % 2) * sum(align(n, 128) * 2) + prefix(align(n, 128) * 2)",
         "stride_a": "align(min(rows, cols) * min(rows, cols), 128)", "stride_b": "align(n, 128)",
         "stride_c": "align(n, 128)", "stride_d": "align(n, 128)"}
      ]},
      {"kernel": "finish", "grid": ["(rows <= cols) * ceil_div(n, 8 * BLOCK)", "count"], "block": "BLOCK",
       "args": ["scratch.x + sum(align(n, 128) * 2) + prefix(align(n, 128) * 2)", "ortho[]", "n", "align(n, 128)"]},
      {"kernel": "finish_transposed",
       "grid": ["(rows > cols) * ceil_div(rows, SIDE)", "ceil_div(cols, SIDE)", "count"], "block": ["SIDE", 8],
       "args": ["scratch.x + sum(align(n, 128) * 2) + prefix(align(n, 128) * 2)", "ortho[]", "rows", "cols",
                "align(n, 128)"]}
    ]}
  ] }
*/
#include <cuda_bf16.h>
#include <stepbench.cuh>

struct alignas(16) EightNarrow {
  __nv_bfloat162 pair[4];
};
struct alignas(16) FourWide {
  float value[4];
};

__device__ __forceinline__ bool is_aligned(const void* pointer) {
  return (reinterpret_cast<unsigned long long>(pointer) & 15) == 0;
}

__device__ __forceinline__ float warp_sum(float value) {
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
  return value;
}

// Sum of `value` over the block, to every thread. Always the same order of additions.
__device__ __forceinline__ float block_sum(float value, int thread, int warps) {
  __shared__ float partial[32];
  value = warp_sum(value);
  if (thread % 32 == 0) partial[thread / 32] = value;
  __syncthreads();
  return warp_sum(thread % 32 < warps ? partial[thread % 32] : 0.0f);
}

// PARTS partial sums of squares of every matrix.
extern "C" __global__ void squares(const float* const* __restrict__ grad, float* __restrict__ partial, long long n) {
  const float* __restrict__ from = grad[blockIdx.y];
  const long long first = (long long)blockIdx.x * BLOCK + threadIdx.x, stride = (long long)PARTS * BLOCK;
  float sum = 0.0f;
  long long done = 0;
  if (is_aligned(from)) {
    const FourWide* __restrict__ vectors = reinterpret_cast<const FourWide*>(from);
    for (long long i = first; i < n / 4; i += stride) {
      const FourWide v = vectors[i];
      for (int k = 0; k < 4; ++k) sum = fmaf(v.value[k], v.value[k], sum);
    }
    done = n / 4 * 4;
  }
  for (long long i = done + first; i < n; i += stride) sum = fmaf(from[i], from[i], sum);
  sum = block_sum(sum, threadIdx.x, BLOCK / 32);
  if (threadIdx.x == 0) partial[(long long)blockIdx.y * PARTS + blockIdx.x] = sum;
}

// 1 / max(norm, eps) of one matrix; every block adds the same partial sums in the same order.
__device__ __forceinline__ float inverse_norm(const float* __restrict__ partial, float eps, int thread) {
  float sum = 0.0f;
  for (int i = thread % 32; i < PARTS; i += 32) sum += partial[i];
  return 1.0f / fmaxf(sqrtf(warp_sum(sum)), eps);
}

// x = grad / max(norm, eps) in bf16, eight elements per thread.
extern "C" __global__ void start(const float* const* __restrict__ grad, const float* __restrict__ partial,
                                 __nv_bfloat16* __restrict__ x, long long n, long long stride,
                                 const Hyper* __restrict__ hyper) {
  const float factor = inverse_norm(partial + (long long)blockIdx.y * PARTS, hyper->eps, threadIdx.x);
  const float* __restrict__ from = grad[blockIdx.y];
  __nv_bfloat16* __restrict__ to = x + blockIdx.y * stride;
  const long long first = ((long long)blockIdx.x * BLOCK + threadIdx.x) * 8;
  if (first + 8 <= n && is_aligned(from)) {
    const FourWide low = reinterpret_cast<const FourWide*>(from + first)[0];
    const FourWide high = reinterpret_cast<const FourWide*>(from + first)[1];
    EightNarrow narrow;
    for (int k = 0; k < 2; ++k) {
      narrow.pair[k] = __floats2bfloat162_rn(low.value[2 * k] * factor, low.value[2 * k + 1] * factor);
      narrow.pair[k + 2] = __floats2bfloat162_rn(high.value[2 * k] * factor, high.value[2 * k + 1] * factor);
    }
    *reinterpret_cast<EightNarrow*>(to + first) = narrow;
  } else {
    for (long long i = first; i < first + 8 && i < n; ++i) to[i] = __float2bfloat16_rn(from[i] * factor);
  }
}

// The same for tall matrices: the short side becomes the rows. A tile of SIDE x SIDE by 8 rows of threads.
extern "C" __global__ void start_transposed(const float* const* __restrict__ grad, const float* __restrict__ partial,
                                            __nv_bfloat16* __restrict__ x, long long rows, long long cols,
                                            long long stride, const Hyper* __restrict__ hyper) {
  __shared__ float tile[SIDE][SIDE + 1];
  const float factor = inverse_norm(partial + (long long)blockIdx.z * PARTS, hyper->eps, threadIdx.x);
  const float* __restrict__ from = grad[blockIdx.z];
  __nv_bfloat16* __restrict__ to = x + blockIdx.z * stride;
  const long long row = (long long)blockIdx.y * SIDE, col = (long long)blockIdx.x * SIDE;
  for (int k = threadIdx.y; k < SIDE; k += 8)
    if (row + k < rows && col + threadIdx.x < cols) tile[k][threadIdx.x] = from[(row + k) * cols + col + threadIdx.x];
  __syncthreads();
  for (int k = threadIdx.y; k < SIDE; k += 8)
    if (col + k < cols && row + threadIdx.x < rows)
      to[(col + k) * rows + row + threadIdx.x] = __float2bfloat16_rn(tile[threadIdx.x][k] * factor);
}

extern "C" __global__ void finish(const __nv_bfloat16* __restrict__ x, float* const* __restrict__ ortho, long long n,
                                  long long stride) {
  const __nv_bfloat16* __restrict__ from = x + blockIdx.y * stride;
  float* __restrict__ to = ortho[blockIdx.y];
  const long long first = ((long long)blockIdx.x * BLOCK + threadIdx.x) * 8;
  if (first + 8 <= n && is_aligned(to)) {
    const EightNarrow narrow = *reinterpret_cast<const EightNarrow*>(from + first);
    FourWide wide[2];
    for (int k = 0; k < 4; ++k) {
      const float2 pair = __bfloat1622float2(narrow.pair[k]);
      wide[k / 2].value[2 * (k % 2)] = pair.x;
      wide[k / 2].value[2 * (k % 2) + 1] = pair.y;
    }
    reinterpret_cast<FourWide*>(to + first)[0] = wide[0];
    reinterpret_cast<FourWide*>(to + first)[1] = wide[1];
  } else {
    for (long long i = first; i < first + 8 && i < n; ++i) to[i] = __bfloat162float(from[i]);
  }
}

extern "C" __global__ void finish_transposed(const __nv_bfloat16* __restrict__ x, float* const* __restrict__ ortho,
                                             long long rows, long long cols, long long stride) {
  __shared__ float tile[SIDE][SIDE + 1];
  const __nv_bfloat16* __restrict__ from = x + blockIdx.z * stride;
  float* __restrict__ to = ortho[blockIdx.z];
  const long long row = (long long)blockIdx.x * SIDE, col = (long long)blockIdx.y * SIDE;
  for (int k = threadIdx.y; k < SIDE; k += 8)
    if (col + k < cols && row + threadIdx.x < rows)
      tile[k][threadIdx.x] = __bfloat162float(from[(col + k) * rows + row + threadIdx.x]);
  __syncthreads();
  for (int k = threadIdx.y; k < SIDE; k += 8)
    if (row + k < rows && col + threadIdx.x < cols)
      to[(row + k) * cols + col + threadIdx.x] = tile[threadIdx.x][k];
}
