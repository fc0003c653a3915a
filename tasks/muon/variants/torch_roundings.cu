/*stepbench
{ "task": "muon",
  "note": "rounds where torch.optim.Muon does: the mixture to bf16 first, a bf16 norm of that, a bf16 quotient; one block per matrix around the products",
  "defines": {"THREADS": 128},
  "scratch": {"mixture": "max(n) * 2", "x": "2 * max(n) * 2", "gram": "max(min(rows, cols) * min(rows, cols)) * 2",
              "polynomial": "max(min(rows, cols) * min(rows, cols)) * 2"},
  "launches": [
    {"for": "tensor", "launches": [
      {"kernel": "start", "grid": "n > 0", "block": "THREADS", "args": ["grad", "momentum_buffer", "scratch.mixture", "scratch.x", "rows", "cols", "hyper"]},
      {"repeat": 5, "launches": [
        {"library": "gemm", "m": "min(rows, cols)", "n": "min(rows, cols)", "k": "max(rows, cols)", "inputs": "bf16",
         "output": "bf16", "transpose_b": true, "a": "scratch.x + (iteration % 2) * n * 2",
         "b": "scratch.x + (iteration % 2) * n * 2", "d": "scratch.gram"},
        {"library": "gemm", "m": "min(rows, cols)", "n": "min(rows, cols)", "k": "min(rows, cols)", "inputs": "bf16",
         "output": "bf16", "alpha": 2.0315, "beta": -4.7750, "a": "scratch.gram", "b": "scratch.gram",
         "c": "scratch.gram", "d": "scratch.polynomial"},
        {"library": "gemm", "m": "min(rows, cols)", "n": "max(rows, cols)", "k": "min(rows, cols)", "inputs": "bf16",
         "output": "bf16", "beta": 3.4445, "a": "scratch.polynomial", "b": "scratch.x + (iteration % 2) * n * 2",
         "c": "scratch.x + (iteration % 2) * n * 2", "d": "scratch.x + ((iteration + 1) % 2) * n * 2"}
      ]},
      {"kernel": "finish", "grid": "ceil_div(n, THREADS)", "block": "THREADS",
       "args": ["scratch.x + n * 2", "param", "rows", "cols", "hyper.value"]}
    ]}
  ] }
*/
#include <cuda_bf16.h>
#include <stepbench.cuh>

extern "C" __global__ void start(const float* grad, float* momentum_buffer, __nv_bfloat16* mixture, __nv_bfloat16* x,
                                 long long rows, long long cols, const Hyper* hyper) {
  __shared__ float partial[THREADS];
  const long long n = rows * cols;
  const float momentum = hyper->momentum;
  float sum = 0.0f;
  for (long long i = threadIdx.x; i < n; i += THREADS) {
    const float g = grad[i];
    const float m = momentum_buffer[i] + (1.0f - momentum) * (g - momentum_buffer[i]);
    momentum_buffer[i] = m;
    mixture[i] = __float2bfloat16_rn(m - (m - g) * (1.0f - momentum));
    const float u = __bfloat162float(mixture[i]);
    sum += u * u;
  }
  partial[threadIdx.x] = sum;
  __syncthreads();
  sum = 0.0f;
  for (int k = 0; k < THREADS; ++k) sum += partial[k];
  const float norm = __bfloat162float(__float2bfloat16_rn(sqrtf(sum)));
  const float divisor = fmaxf(norm, __bfloat162float(__float2bfloat16_rn(hyper->eps)));
  for (long long i = threadIdx.x; i < n; i += THREADS)
    x[rows > cols ? i % cols * rows + i / cols : i] = __float2bfloat16_rn(__bfloat162float(mixture[i]) / divisor);
}

extern "C" __global__ void finish(const __nv_bfloat16* x, float* param, long long rows, long long cols, Hyper h) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * cols) return;
  const float update = __bfloat162float(x[rows > cols ? i % cols * rows + i / cols : i]);
  const float decayed = param[i] * (1.0f - h.lr * h.weight_decay);
  param[i] = decayed - h.lr * sqrtf(fmaxf(1.0f, (float)rows / (float)cols)) * update;
}
