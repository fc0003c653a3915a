/*stepbench
{ "task": "lamb",
  "note": "one launch for the list, a block for each tensor: moments and sums in double, a barrier, parameters",
  "defines": {"BLOCK": 512},
  "launches": [
    {"for": "step", "kernel": "lamb_list", "grid": "tensors", "block": "BLOCK",
     "args": ["param[]", "grad[]", "exp_avg[]", "exp_avg_sq[]", "n[]", "hyper.value"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void lamb_list(float* const* params, const float* const* grads, float* const* exp_avgs,
                                     float* const* exp_avg_sqs, const long long* sizes, Hyper h) {
  if (h.found_inf != 0) return;
  float* const param = params[blockIdx.x];
  const float* const grad = grads[blockIdx.x];
  float* const exp_avg = exp_avgs[blockIdx.x];
  float* const exp_avg_sq = exp_avg_sqs[blockIdx.x];
  const long long n = sizes[blockIdx.x];
  const float m_step = 1.0f / h.bias_correction1, root = 1.0f / h.bias_correction2_sqrt;
  const auto update_of = [&](long long i) {
    return fmaf(h.weight_decay, param[i], exp_avg[i] * m_step / fmaf(sqrtf(exp_avg_sq[i]), root, h.eps));
  };
  double param_squares = 0.0, update_squares = 0.0;
  for (long long i = threadIdx.x; i < n; i += BLOCK) {
    const float g = grad[i] * (1.0f / h.grad_scale);
    exp_avg[i] = fmaf(1.0f - h.beta1, g, fmaf(-(1.0f - h.beta1), exp_avg[i], exp_avg[i]));
    exp_avg_sq[i] = fmaf(1.0f - h.beta2, g * g, fmaf(-(1.0f - h.beta2), exp_avg_sq[i], exp_avg_sq[i]));
    const double p = param[i], u = update_of(i);
    param_squares += p * p;
    update_squares += u * u;
  }
  __shared__ double sums[2][BLOCK];
  sums[0][threadIdx.x] = param_squares;
  sums[1][threadIdx.x] = update_squares;
  __syncthreads();
  for (int half = BLOCK / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      sums[0][threadIdx.x] += sums[0][threadIdx.x + half];
      sums[1][threadIdx.x] += sums[1][threadIdx.x + half];
    }
    __syncthreads();
  }
  const bool has_ratio = sums[0][0] > 0.0 && sums[1][0] > 0.0;
  const float rate = has_ratio ? h.lr * (float)sqrt(sums[0][0] / sums[1][0]) : h.lr;
  for (long long i = threadIdx.x; i < n; i += BLOCK) param[i] = fmaf(-rate, update_of(i), param[i]);
}
