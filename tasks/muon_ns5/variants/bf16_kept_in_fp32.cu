/*stepbench
{ "task": "muon_ns5",
  "note": "x is kept in fp32 and rounded to bf16 for the products only; the Gram matrix and the polynomial are bf16",
  "scratch": {"wide": "max(n) * 4", "x": "max(n) * 2", "gram": "max(rows * rows) * 2", "polynomial": "max(rows * rows) * 2",
              "moved": "max(n) * 4", "norm": 4},
  "launches": [
    {"for": "tensor", "launches": [
      {"kernel": "norm_of", "grid": "n > 0", "block": 32, "args": ["grad", "scratch.norm", "n"]},
      {"kernel": "start", "grid": "ceil_div(n, 128)", "block": 128,
       "args": ["grad", "scratch.wide", "scratch.x", "scratch.norm", "n", "eps"]},
      {"repeat": 5, "launches": [
        {"library": "gemm", "m": "rows", "n": "rows", "k": "cols", "inputs": "bf16", "output": "bf16",
         "transpose_b": true, "a": "scratch.x", "b": "scratch.x", "d": "scratch.gram"},
        {"library": "gemm", "m": "rows", "n": "rows", "k": "(cols > 0) * rows", "inputs": "bf16", "output": "bf16",
         "alpha": 2.0315, "beta": -4.7750, "a": "scratch.gram", "b": "scratch.gram", "c": "scratch.gram",
         "d": "scratch.polynomial"},
        {"library": "gemm", "m": "rows", "n": "cols", "k": "rows", "inputs": "bf16", "output": "f32",
         "a": "scratch.polynomial", "b": "scratch.x", "d": "scratch.moved"},
        {"kernel": "move", "grid": "ceil_div(n, 128)", "block": 128,
         "args": ["scratch.wide", "scratch.moved", "scratch.x", "n"]}
      ]},
      {"kernel": "finish", "grid": "ceil_div(n, 128)", "block": 128, "args": ["scratch.wide", "ortho", "n"]}
    ]}
  ] }
*/
#include <cuda_bf16.h>
#include <stepbench.cuh>

extern "C" __global__ void norm_of(const float* grad, float* norm, long long n) {
  float sum = 0.0f;
  for (long long i = threadIdx.x; i < n; i += 32) sum = fmaf(grad[i], grad[i], sum);
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  if (threadIdx.x == 0) *norm = sqrtf(sum);
}

extern "C" __global__ void start(const float* grad, float* wide, __nv_bfloat16* x, const float* norm, long long n,
                                 float eps) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  wide[i] = grad[i] / fmaxf(*norm, eps);
  x[i] = __float2bfloat16_rn(wide[i]);
}

extern "C" __global__ void move(float* wide, const float* moved, __nv_bfloat16* x, long long n) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  wide[i] = fmaf(3.4445f, wide[i], moved[i]);
  x[i] = __float2bfloat16_rn(wide[i]);
}

extern "C" __global__ void finish(const float* wide, float* ortho, long long n) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) ortho[i] = wide[i];
}
