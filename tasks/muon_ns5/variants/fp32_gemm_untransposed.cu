/*stepbench
{ "task": "muon_ns5", "note": "products of the library in fp32; tall matrices are not turned: the same result at more cost",
  "scratch": {"x": "2 * max(n) * 4", "gram": "max(rows * rows) * 4", "polynomial": "max(rows * rows) * 4", "norm": 4},
  "launches": [
    {"for": "tensor", "launches": [
      {"kernel": "norm_of", "grid": "n > 0", "block": 32, "args": ["grad", "scratch.norm", "n"]},
      {"kernel": "start", "grid": "ceil_div(n, 128)", "block": 128,
       "args": ["grad", "scratch.x", "scratch.norm", "n", "eps"]},
      {"repeat": 5, "launches": [
        {"library": "gemm", "m": "rows", "n": "rows", "k": "cols", "inputs": "f32", "output": "f32", "transpose_b": true,
         "a": "scratch.x + (iteration % 2) * n * 4", "b": "scratch.x + (iteration % 2) * n * 4", "d": "scratch.gram"},
        {"library": "gemm", "m": "rows", "n": "rows", "k": "(cols > 0) * rows", "inputs": "f32", "output": "f32",
         "transpose_a": true, "alpha": 2.0315, "beta": -4.7750, "a": "scratch.gram", "b": "scratch.gram",
         "c": "scratch.gram", "d": "scratch.polynomial"},
        {"library": "gemm", "m": "rows", "n": "cols", "k": "rows", "inputs": "f32", "output": "f32", "beta": 3.4445,
         "a": "scratch.polynomial", "b": "scratch.x + (iteration % 2) * n * 4",
         "c": "scratch.x + (iteration % 2) * n * 4", "d": "scratch.x + ((iteration + 1) % 2) * n * 4"}
      ]},
      {"kernel": "finish", "grid": "ceil_div(n, 128)", "block": 128, "args": ["scratch.x + n * 4", "ortho", "n"]}
    ]}
  ] }
*/
#include <stepbench.cuh>

// One warp, sums in double.
extern "C" __global__ void norm_of(const float* grad, float* norm, long long n) {
  double sum = 0;
  for (long long i = threadIdx.x; i < n; i += 32) sum += (double)grad[i] * grad[i];
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  if (threadIdx.x == 0) *norm = (float)sqrt(sum);
}

extern "C" __global__ void start(const float* grad, float* x, const float* norm, long long n, float eps) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = grad[i] / fmaxf(*norm, eps);
}

extern "C" __global__ void finish(const float* x, float* ortho, long long n) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) ortho[i] = x[i];
}
