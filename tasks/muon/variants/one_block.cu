/*stepbench
{ "task": "muon", "note": "one block per matrix for everything, fp32; averages as differences; x = (3.4445 I + b A + c A A) x, Horner's form of the polynomial",
  "defines": {"THREADS": 256},
  "scratch": {"x": "2 * sum(n) * 4", "gram": "sum(min(rows, cols) * min(rows, cols)) * 4",
              "polynomial": "sum(min(rows, cols) * min(rows, cols)) * 4"},
  "launches": [
    {"for": "tensor", "kernel": "step_of_one", "grid": "n > 0", "block": "THREADS",
     "args": ["param", "grad", "momentum_buffer", "scratch.x + prefix(n) * 8", "scratch.gram + prefix(min(rows, cols) * min(rows, cols)) * 4",
              "scratch.polynomial + prefix(min(rows, cols) * min(rows, cols)) * 4", "rows", "cols", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void step_of_one(float* param, const float* grad, float* momentum_buffer, float* x, float* gram,
                                       float* polynomial, int rows, int cols, const Hyper* hyper) {
  __shared__ float partial[THREADS];
  const Hyper h = *hyper;
  const float weight = 1.0f - h.momentum;
  const bool tall = rows > cols;
  const int r = tall ? cols : rows, c = tall ? rows : cols, n = rows * cols;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < n; i += THREADS) {
    const float m = momentum_buffer[i] + weight * (grad[i] - momentum_buffer[i]);
    momentum_buffer[i] = m;
    const float u = grad[i] + h.momentum * (m - grad[i]);
    x[n + i] = u;
    sum += u * u;
  }
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (int width = THREADS / 2; width > 0; width /= 2) {
    if (threadIdx.x < width) partial[threadIdx.x] += partial[threadIdx.x + width];
    __syncthreads();
  }
  const float factor = 1.0f / fmaxf(sqrtf(partial[0]), h.eps);
  for (int i = threadIdx.x; i < n; i += THREADS) x[i] = x[n + (tall ? i % c * r + i / c : i)] * factor;
  __syncthreads();
  float* from = x;
  float* to = x + n;
  for (int iteration = 0; iteration < 5; ++iteration) {
    for (int e = threadIdx.x; e < r * r; e += THREADS) {
      float dot = 0.0f;
      for (int k = 0; k < c; ++k) dot = fmaf(from[e / r * c + k], from[e % r * c + k], dot);
      gram[e] = dot;
    }
    __syncthreads();
    // Horner: a I + A (b I + c A)
    for (int e = threadIdx.x; e < r * r; e += THREADS) {
      float value = e / r == e % r ? 3.4445f : 0.0f;
      for (int k = 0; k < r; ++k)
        value = fmaf(gram[e / r * r + k], 2.0315f * gram[k * r + e % r] + (k == e % r ? -4.7750f : 0.0f), value);
      polynomial[e] = value;
    }
    __syncthreads();
    for (int e = threadIdx.x; e < n; e += THREADS) {
      float value = 0.0f;
      for (int k = 0; k < r; ++k) value = fmaf(polynomial[e / c * r + k], from[k * c + e % c], value);
      to[e] = value;
    }
    __syncthreads();
    float* const swap = from;
    from = to;
    to = swap;
  }
  const float size = h.lr * (tall ? sqrtf((float)rows / (float)cols) : 1.0f);
  for (int i = threadIdx.x; i < n; i += THREADS) {
    float* const p = &param[tall ? i % c * r + i / c : i];
    *p = (*p - h.lr * h.weight_decay * *p) - size * from[i];
  }
}
