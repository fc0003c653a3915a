/*stepbench
{ "task": "muon",
  "note": "matrices of one shape in a batch; three products of the library an iteration in bf16, additions inside them; momentum with the norm before them, decay and step after them",
  "defines": {"BLOCK": 256, "PARTS": 64, "SIDE": 32},
  "scratch": {"partial": "sum(PARTS * 4)", "x": "2 * sum(align(n, 128) * 2)",
              "gram": "sum(align(min(rows, cols) * min(rows, cols), 128) * 2)",
              "polynomial": "sum(align(min(rows, cols) * min(rows, cols), 128) * 2)"},
  "launches": [
    {"for": "shape", "launches": [
      {"kernel": "average", "grid": ["PARTS * (n > 0)", "count"], "block": "BLOCK",
       "args": ["grad[]", "momentum_buffer[]", "scratch.partial + prefix(PARTS * 4)", "n", "hyper"]},
      {"kernel": "start", "grid": ["(rows <= cols) * ceil_div(n, 8 * BLOCK)", "count"], "block": "BLOCK",
       "args": ["grad[]", "momentum_buffer[]", "scratch.partial + prefix(PARTS * 4)",
                "scratch.x + prefix(align(n, 128) * 2)", "n", "align(n, 128)", "hyper"]},
      {"kernel": "start_transposed",
       "grid": ["(rows > cols) * ceil_div(cols, SIDE)", "ceil_div(rows, SIDE)", "count"], "block": ["SIDE", 8],
       "args": ["grad[]", "momentum_buffer[]", "scratch.partial + prefix(PARTS * 4)",
                "scratch.x + prefix(align(n, 128) * 2)", "rows", "cols", "align(n, 128)", "hyper"]},
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
       "args": ["scratch.x + sum(align(n, 128) * 2) + prefix(align(n, 128) * 2)", "param[]", "n", "align(n, 128)", "hyper"]},
      {"kernel": "finish_transposed",
       "grid": ["(rows > cols) * ceil_div(rows, SIDE)", "ceil_div(cols, SIDE)", "count"], "block": ["SIDE", 8],
       "args": ["scratch.x + sum(align(n, 128) * 2) + prefix(align(n, 128) * 2)", "param[]", "rows", "cols",
                "align(n, 128)", "hyper"]}
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

// (1 - momentum) * grad + momentum * m: the average itself, and with the new average Nesterov's mixture.
__device__ __forceinline__ float mixed(float grad, float m, float weight) { return fmaf(weight, grad - m, m); }

// momentum_buffer, and PARTS partial sums of the mixture's squares for every matrix.
extern "C" __global__ void average(const float* const* __restrict__ grad, float* const* __restrict__ momentum_buffer,
                                   float* __restrict__ partial, long long n, const Hyper* __restrict__ hyper) {
  const float weight = 1.0f - hyper->momentum;
  const float* __restrict__ g = grad[blockIdx.y];
  float* __restrict__ m = momentum_buffer[blockIdx.y];
  const long long first = (long long)blockIdx.x * BLOCK + threadIdx.x, stride = (long long)PARTS * BLOCK;
  float sum = 0.0f;
  long long done = 0;
  if (is_aligned(g) && is_aligned(m)) {
    for (long long i = first; i < n / 4; i += stride) {
      const FourWide gradient = reinterpret_cast<const FourWide*>(g)[i];
      FourWide moment = reinterpret_cast<const FourWide*>(m)[i];
      for (int k = 0; k < 4; ++k) {
        moment.value[k] = mixed(gradient.value[k], moment.value[k], weight);
        const float u = mixed(gradient.value[k], moment.value[k], weight);
        sum = fmaf(u, u, sum);
      }
      reinterpret_cast<FourWide*>(m)[i] = moment;
    }
    done = n / 4 * 4;
  }
  for (long long i = done + first; i < n; i += stride) {
    m[i] = mixed(g[i], m[i], weight);
    const float u = mixed(g[i], m[i], weight);
    sum = fmaf(u, u, sum);
  }
  sum = block_sum(sum, threadIdx.x, BLOCK / 32);
  if (threadIdx.x == 0) partial[(long long)blockIdx.y * PARTS + blockIdx.x] = sum;
}

// 1 / max(norm, eps) of one matrix; every block adds the same partial sums in the same order.
__device__ __forceinline__ float inverse_norm(const float* __restrict__ partial, float eps, int thread) {
  float sum = 0.0f;
  for (int i = thread % 32; i < PARTS; i += 32) sum += partial[i];
  return 1.0f / fmaxf(sqrtf(warp_sum(sum)), eps);
}

// x = mixture / max(norm, eps) in bf16, eight elements per thread.
extern "C" __global__ void start(const float* const* __restrict__ grad, const float* const* __restrict__ momentum_buffer,
                                 const float* __restrict__ partial, __nv_bfloat16* __restrict__ x, long long n,
                                 long long stride, const Hyper* __restrict__ hyper) {
  const float factor = inverse_norm(partial + (long long)blockIdx.y * PARTS, hyper->eps, threadIdx.x);
  const float weight = 1.0f - hyper->momentum;
  const float* __restrict__ g = grad[blockIdx.y];
  const float* __restrict__ m = momentum_buffer[blockIdx.y];
  __nv_bfloat16* __restrict__ to = x + blockIdx.y * stride;
  const long long first = ((long long)blockIdx.x * BLOCK + threadIdx.x) * 8;
  if (first + 8 <= n && is_aligned(g) && is_aligned(m)) {
    EightNarrow narrow;
    for (int half = 0; half < 2; ++half) {
      const FourWide gradient = reinterpret_cast<const FourWide*>(g + first)[half];
      const FourWide moment = reinterpret_cast<const FourWide*>(m + first)[half];
      float u[4];
      for (int k = 0; k < 4; ++k) u[k] = mixed(gradient.value[k], moment.value[k], weight) * factor;
      narrow.pair[2 * half] = __floats2bfloat162_rn(u[0], u[1]);
      narrow.pair[2 * half + 1] = __floats2bfloat162_rn(u[2], u[3]);
    }
    *reinterpret_cast<EightNarrow*>(to + first) = narrow;
  } else {
    for (long long i = first; i < first + 8 && i < n; ++i)
      to[i] = __float2bfloat16_rn(mixed(g[i], m[i], weight) * factor);
  }
}

// The same for tall matrices: the short side becomes the rows. A tile of SIDE x SIDE by 8 rows of threads.
extern "C" __global__ void start_transposed(const float* const* __restrict__ grad,
                                            const float* const* __restrict__ momentum_buffer,
                                            const float* __restrict__ partial, __nv_bfloat16* __restrict__ x,
                                            long long rows, long long cols, long long stride,
                                            const Hyper* __restrict__ hyper) {
  __shared__ float tile[SIDE][SIDE + 1];
  const float factor = inverse_norm(partial + (long long)blockIdx.z * PARTS, hyper->eps, threadIdx.x);
  const float weight = 1.0f - hyper->momentum;
  const float* __restrict__ g = grad[blockIdx.z];
  const float* __restrict__ m = momentum_buffer[blockIdx.z];
  __nv_bfloat16* __restrict__ to = x + blockIdx.z * stride;
  const long long row = (long long)blockIdx.y * SIDE, col = (long long)blockIdx.x * SIDE;
  for (int k = threadIdx.y; k < SIDE; k += 8) {
    if (row + k >= rows || col + threadIdx.x >= cols) continue;
    const long long i = (row + k) * cols + col + threadIdx.x;
    tile[k][threadIdx.x] = mixed(g[i], m[i], weight);
  }
  __syncthreads();
  for (int k = threadIdx.y; k < SIDE; k += 8)
    if (col + k < cols && row + threadIdx.x < rows)
      to[(col + k) * rows + row + threadIdx.x] = __float2bfloat16_rn(tile[threadIdx.x][k] * factor);
}

struct Step {
  float decay, size;
};
__device__ __forceinline__ Step step_of(const Hyper* __restrict__ hyper, float shape) {
  return {hyper->lr * hyper->weight_decay, hyper->lr * sqrtf(fmaxf(1.0f, shape))};
}
__device__ __forceinline__ float moved(float param, float x, const Step& s) {
  return fmaf(-s.size, x, fmaf(-s.decay, param, param));
}

// Matrices that are not tall: the factor of their shape is 1.
extern "C" __global__ void finish(const __nv_bfloat16* __restrict__ x, float* const* __restrict__ param, long long n,
                                  long long stride, const Hyper* __restrict__ hyper) {
  const Step s = step_of(hyper, 1.0f);
  const __nv_bfloat16* __restrict__ from = x + blockIdx.y * stride;
  float* __restrict__ p = param[blockIdx.y];
  const long long first = ((long long)blockIdx.x * BLOCK + threadIdx.x) * 8;
  if (first + 8 <= n && is_aligned(p)) {
    const EightNarrow narrow = *reinterpret_cast<const EightNarrow*>(from + first);
    for (int half = 0; half < 2; ++half) {
      FourWide wide = reinterpret_cast<const FourWide*>(p + first)[half];
      for (int k = 0; k < 2; ++k) {
        const float2 pair = __bfloat1622float2(narrow.pair[2 * half + k]);
        wide.value[2 * k] = moved(wide.value[2 * k], pair.x, s);
        wide.value[2 * k + 1] = moved(wide.value[2 * k + 1], pair.y, s);
      }
      reinterpret_cast<FourWide*>(p + first)[half] = wide;
    }
  } else {
    for (long long i = first; i < first + 8 && i < n; ++i) p[i] = moved(p[i], __bfloat162float(from[i]), s);
  }
}

extern "C" __global__ void finish_transposed(const __nv_bfloat16* __restrict__ x, float* const* __restrict__ param,
                                             long long rows, long long cols, long long stride,
                                             const Hyper* __restrict__ hyper) {
  __shared__ float tile[SIDE][SIDE + 1];
  const Step s = step_of(hyper, (float)rows / (float)cols);
  const __nv_bfloat16* __restrict__ from = x + blockIdx.z * stride;
  float* __restrict__ p = param[blockIdx.z];
  const long long row = (long long)blockIdx.x * SIDE, col = (long long)blockIdx.y * SIDE;
  for (int k = threadIdx.y; k < SIDE; k += 8)
    if (col + k < cols && row + threadIdx.x < rows)
      tile[k][threadIdx.x] = __bfloat162float(from[(col + k) * rows + row + threadIdx.x]);
  __syncthreads();
  for (int k = threadIdx.y; k < SIDE; k += 8) {
    if (row + k >= rows || col + threadIdx.x >= cols) continue;
    const long long i = (row + k) * cols + col + threadIdx.x;
    p[i] = moved(p[i], tile[threadIdx.x][k], s);
  }
}
