/*stepbench
{ "task": "adafactor",
  "note": "one launch for the list, a block for each tensor; sums in double",
  "defines": {"BLOCK": 512},
  "launches": [
    {"for": "step", "kernel": "adafactor_list", "grid": "tensors", "block": "BLOCK",
     "args": ["param[]", "grad[]", "row_var[]", "col_var[]", "rows[]", "cols[]", "hyper.value"]}
  ] }
*/
#include <stepbench.cuh>

// The sum over the block, in all threads.
__device__ double block_sum(double value) {
  __shared__ double values[BLOCK];
  __syncthreads();
  values[threadIdx.x] = value;
  __syncthreads();
  for (int half = BLOCK / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) values[threadIdx.x] += values[threadIdx.x + half];
    __syncthreads();
  }
  return values[0];
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    adafactor_list(float* const* params, const float* const* grads, float* const* row_vars, float* const* col_vars,
                   const long long* all_rows, const long long* all_cols, Hyper h) {
  float* const param = params[blockIdx.x];
  const float* const grad = grads[blockIdx.x];
  float* const row_var = row_vars[blockIdx.x];
  float* const col_var = col_vars[blockIdx.x];
  const long long rows = all_rows[blockIdx.x], cols = all_cols[blockIdx.x], n = rows * cols;
  if (h.found_inf != 0 || n == 0) return;
  const float w = h.one_minus_beta2, scale = 1.0f / h.grad_scale;
  double row_total = 0.0;
  for (long long i = threadIdx.x; i < rows; i += BLOCK) {
    double sum = 0.0;
    for (long long j = 0; j < cols; ++j) {
      const double g = grad[i * cols + j] * scale;
      sum += g * g;
    }
    row_var[i] = (float)((1.0 - w) * row_var[i] + w * (sum / cols));
    row_total += row_var[i];
  }
  for (long long j = threadIdx.x; j < cols; j += BLOCK) {
    double sum = 0.0;
    for (long long i = 0; i < rows; ++i) {
      const double g = grad[i * cols + j] * scale;
      sum += g * g;
    }
    col_var[j] = (float)((1.0 - w) * col_var[j] + w * (sum / rows));
  }
  const float mean = fmaxf((float)(block_sum(row_total) / rows), h.eps1);
  const auto update_of = [&](long long at) {
    const float variance = row_var[at / cols] / mean * col_var[at % cols];
    return grad[at] * scale / sqrtf(fmaxf(variance, h.eps1 * h.eps1));
  };
  double of_param = 0.0, of_update = 0.0;
  for (long long at = threadIdx.x; at < n; at += BLOCK) {
    const double p = param[at], u = update_of(at);
    of_param += p * p;
    of_update += u * u;
  }
  const float param_rms = (float)sqrt(block_sum(of_param) / n), update_rms = (float)sqrt(block_sum(of_update) / n);
  const float rate = fmaxf(h.eps2, param_rms) * h.rho / fmaxf(1.0f, update_rms / h.clip);
  for (long long at = threadIdx.x; at < n; at += BLOCK)
    param[at] = fmaf(-rate, update_of(at), param[at] - h.lr * h.weight_decay * param[at]);
}
