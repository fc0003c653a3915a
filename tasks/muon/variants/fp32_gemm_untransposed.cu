/*stepbench
{ "task": "muon",
  "note": "products of the library in fp32; tall matrices are not turned: the same result at more cost; hyperparameters by value",
  "scratch": {"x": "2 * max(n) * 4", "gram": "max(rows * rows) * 4", "polynomial": "max(rows * rows) * 4", "norm": 4},
  "launches": [
    {"for": "tensor", "launches": [
      {"kernel": "average", "grid": "n > 0", "block": 32,
       "args": ["grad", "momentum_buffer", "scratch.norm", "n", "momentum"]},
      {"kernel": "start", "grid": "ceil_div(n, 128)", "block": 128,
       "args": ["grad", "momentum_buffer", "scratch.x", "scratch.norm", "n", "momentum", "eps"]},
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
      {"kernel": "finish", "grid": "ceil_div(n, 128)", "block": 128, "args": ["scratch.x + n * 4", "param", "rows", "cols", "lr", "weight_decay"]}
    ]}
  ] }
*/
#include <stepbench.cuh>

__device__ float mixture(float g, float m, float momentum) { return fmaf(momentum, m, (1.0f - momentum) * g); }

// One warp: the average, and the mixture's norm with sums in double.
extern "C" __global__ void average(const float* grad, float* momentum_buffer, float* norm, long long n,
                                   float momentum) {
  double sum = 0;
  for (long long i = threadIdx.x; i < n; i += 32) {
    const float m = fmaf(momentum, momentum_buffer[i], (1.0f - momentum) * grad[i]);
    momentum_buffer[i] = m;
    const double u = mixture(grad[i], m, momentum);
    sum += u * u;
  }
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  if (threadIdx.x == 0) *norm = (float)sqrt(sum);
}

extern "C" __global__ void start(const float* grad, const float* momentum_buffer, float* x, const float* norm,
                                 long long n, float momentum, float eps) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = mixture(grad[i], momentum_buffer[i], momentum) / fmaxf(*norm, eps);
}

extern "C" __global__ void finish(const float* x, float* param, long long rows, long long cols, float lr,
                                  float weight_decay) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * cols) return;
  const float shape = rows > cols ? sqrtf((float)rows / (float)cols) : 1.0f;
  param[i] -= lr * (weight_decay * param[i] + shape * x[i]);
}
