/*stepbench
{ "task": "adafactor",
  "note": "one launch per formula and tensor; rows by warps, columns by parts of 1024 rows, sums over parts of 4096",
  "defines": {"BLOCK": 256, "PART": 4096, "ROWS": 1024},
  "scratch": {
    "columns": "4 * max(max(cols * ceil_div(rows, ROWS)), 1)",
    "param_squares": "4 * max(max(ceil_div(n, PART)), 1)",
    "update_squares": "4 * max(max(ceil_div(n, PART)), 1)",
    "mean": "4", "rate": "4"},
  "launches": [
    {"for": "tensor", "launches": [
      {"kernel": "row_averages", "grid": "min(ceil_div(rows, 8), min(n, 1) * sms*16)", "block": "BLOCK",
       "args": ["grad", "row_var", "rows", "cols", "hyper"]},
      {"kernel": "column_sums", "grid": ["min(n, 1) * ceil_div(cols, 32)", "ceil_div(rows, ROWS)"], "block": [32, 8],
       "args": ["grad", "rows", "cols", "hyper", "scratch.columns"]},
      {"kernel": "column_averages", "grid": "min(n, 1) * ceil_div(cols, BLOCK)", "block": "BLOCK",
       "args": ["col_var", "rows", "cols", "hyper", "scratch.columns"]},
      {"kernel": "mean_of_rows", "grid": "min(n, 1)", "block": "BLOCK",
       "args": ["row_var", "rows", "hyper", "scratch.mean"]},
      {"kernel": "squares", "grid": "ceil_div(n, PART)", "block": "BLOCK",
       "args": ["param", "grad", "row_var", "col_var", "n", "cols", "hyper", "scratch.mean", "scratch.param_squares",
                "scratch.update_squares"]},
      {"kernel": "step_size", "grid": "min(n, 1)", "block": "BLOCK",
       "args": ["n", "hyper", "scratch.param_squares", "scratch.update_squares", "scratch.rate"]},
      {"kernel": "step", "grid": "ceil_div(n, BLOCK)", "block": "BLOCK",
       "args": ["param", "grad", "row_var", "col_var", "n", "cols", "hyper", "scratch.mean", "scratch.rate"]}]}
  ] }
*/
#include <stepbench.cuh>

// The sum of the block's values, in thread 0. Always added in the same order.
__device__ float block_sum(float value) {
  __shared__ float values[BLOCK];
  __syncthreads();  // the values of the call before have been read
  values[threadIdx.x] = value;
  __syncthreads();
  for (int half = BLOCK / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) values[threadIdx.x] += values[threadIdx.x + half];
    __syncthreads();
  }
  return values[0];
}

// A warp for each row, or a thread where rows are short.
extern "C" __global__ void row_averages(const float* __restrict__ grad, float* __restrict__ row_var, long long rows,
                                        long long cols, const Hyper* __restrict__ hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const int lanes = cols <= 32 ? 1 : 32;
  const long long stride = (long long)gridDim.x * BLOCK / lanes;
  for (long long i = ((long long)blockIdx.x * BLOCK + threadIdx.x) / lanes; i < rows; i += stride) {
    // Two levels: thousands of equal squares, added one after the other, would all be rounded in the same direction.
    float sum = 0.0f;
    for (long long first = 0; first < cols; first += 64 * lanes) {
      float part = 0.0f;
      const long long end = first + 64 * lanes < cols ? first + 64 * lanes : cols;
      for (long long j = first + threadIdx.x % lanes; j < end; j += lanes) {
        const float g = grad[i * cols + j] / h.grad_scale;
        part += g * g;
      }
      sum += part;
    }
    for (int lane = lanes / 2; lane > 0; lane /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lane);
    const float w = h.one_minus_beta2;
    if (threadIdx.x % lanes == 0) row_var[i] = (1.0f - w) * row_var[i] + w * (sum / (float)cols);
  }
}

// Sums of squares of 32 columns over a part of the rows.
extern "C" __global__ void column_sums(const float* __restrict__ grad, long long rows, long long cols,
                                       const Hyper* __restrict__ hyper, float* __restrict__ columns) {
  __shared__ float values[8][32];
  const Hyper h = *hyper;
  const long long j = (long long)blockIdx.x * 32 + threadIdx.x;
  const long long first = (long long)blockIdx.y * ROWS;
  const long long end = first + ROWS < rows ? first + ROWS : rows;
  float sum = 0.0f;
  for (long long i = first + threadIdx.y; i < end && j < cols; i += 8) {
    const float g = grad[i * cols + j] / h.grad_scale;
    sum += g * g;
  }
  values[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || j >= cols) return;
  sum = 0.0f;
  for (int k = 0; k < 8; ++k) sum += values[k][threadIdx.x];
  columns[blockIdx.y * cols + j] = sum;
}

extern "C" __global__ void column_averages(float* __restrict__ col_var, long long rows, long long cols,
                                           const Hyper* __restrict__ hyper, const float* __restrict__ columns) {
  const Hyper h = *hyper;
  const long long j = (long long)blockIdx.x * BLOCK + threadIdx.x;
  if (j >= cols || h.found_inf != 0) return;
  float sum = 0.0f;
  for (long long first = 0; first * ROWS < rows; first += 32) {  // two levels here as well
    float some = 0.0f;
    for (long long part = first; part < first + 32 && part * ROWS < rows; ++part) some += columns[part * cols + j];
    sum += some;
  }
  const float w = h.one_minus_beta2;
  col_var[j] = (1.0f - w) * col_var[j] + w * (sum / (float)rows);
}

extern "C" __global__ void mean_of_rows(const float* __restrict__ row_var, long long rows,
                                        const Hyper* __restrict__ hyper, float* __restrict__ mean) {
  float sum = 0.0f;
  for (long long first = threadIdx.x; first < rows; first += 64 * BLOCK) {
    float part = 0.0f;
    for (long long i = first; i < rows && i < first + 64 * BLOCK; i += BLOCK) part += row_var[i];
    sum += part;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) *mean = fmaxf(sum / (float)rows, hyper->eps1);
}

// The update before it is clipped. The mean divides first: the product of the averages may overflow.
__device__ float update_of(float grad, float row, float col, float mean, const Hyper& h) {
  return grad / h.grad_scale / sqrtf(fmaxf(row / mean * col, h.eps1 * h.eps1));
}

extern "C" __global__ void squares(const float* __restrict__ param, const float* __restrict__ grad,
                                   const float* __restrict__ row_var, const float* __restrict__ col_var, long long n,
                                   long long cols, const Hyper* __restrict__ hyper, const float* __restrict__ mean,
                                   float* __restrict__ param_squares, float* __restrict__ update_squares) {
  const Hyper h = *hyper;
  const long long first = (long long)blockIdx.x * PART;
  const long long end = first + PART < n ? first + PART : n;
  float of_param = 0.0f, of_update = 0.0f;
  for (long long at = first + threadIdx.x; at < end; at += BLOCK) {
    const float u = update_of(grad[at], row_var[at / cols], col_var[at % cols], *mean, h);
    of_param += param[at] * param[at];
    of_update += u * u;
  }
  of_param = block_sum(of_param);
  of_update = block_sum(of_update);
  if (threadIdx.x == 0) {
    param_squares[blockIdx.x] = of_param;
    update_squares[blockIdx.x] = of_update;
  }
}

extern "C" __global__ void step_size(long long n, const Hyper* __restrict__ hyper,
                                     const float* __restrict__ param_squares, const float* __restrict__ update_squares,
                                     float* __restrict__ rate) {
  const Hyper h = *hyper;
  float of_param = 0.0f, of_update = 0.0f;
  for (long long part = threadIdx.x; part * PART < n; part += BLOCK) {
    of_param += param_squares[part];
    of_update += update_squares[part];
  }
  of_param = block_sum(of_param);
  of_update = block_sum(of_update);
  if (threadIdx.x == 0) {
    const float alpha = fmaxf(h.eps2, sqrtf(of_param / (float)n)) * h.rho;
    *rate = alpha / fmaxf(1.0f, sqrtf(of_update / (float)n) / h.clip);
  }
}

extern "C" __global__ void step(float* __restrict__ param, const float* __restrict__ grad,
                                const float* __restrict__ row_var, const float* __restrict__ col_var, long long n,
                                long long cols, const Hyper* __restrict__ hyper, const float* __restrict__ mean,
                                const float* __restrict__ rate) {
  const Hyper h = *hyper;
  const long long at = (long long)blockIdx.x * BLOCK + threadIdx.x;
  if (at >= n || h.found_inf != 0) return;
  const float u = update_of(grad[at], row_var[at / cols], col_var[at % cols], *mean, h);
  param[at] = param[at] * (1.0f - h.lr * h.weight_decay) - *rate * u;
}
