/*stepbench
{ "task": "adan", "note": "one launch: the second grid dimension is the tensor, the first walks over its elements",
  "defines": {"BLOCK": 256},
  "launches": [
    {"for": "step", "kernel": "adan_list", "grid": ["min(ceil_div(max_n, BLOCK), 4)", "tensors"], "block": "BLOCK",
     "args": ["param[]", "grad[]", "exp_avg[]", "exp_avg_diff[]", "exp_avg_sq[]", "prev_grad[]", "n[]", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void adan_list(float* const* params, const float* const* grads, float* const* exp_avgs,
                                     float* const* exp_avg_diffs, float* const* exp_avg_sqs, float* const* prev_grads,
                                     const long long* sizes, const Hyper* hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const long long n = sizes[blockIdx.y];
  float* const param = params[blockIdx.y];
  const float* const grad = grads[blockIdx.y];
  float* const exp_avg = exp_avgs[blockIdx.y];
  float* const exp_avg_diff = exp_avg_diffs[blockIdx.y];
  float* const exp_avg_sq = exp_avg_sqs[blockIdx.y];
  float* const prev_grad = prev_grads[blockIdx.y];
  for (long long i = (long long)blockIdx.x * BLOCK + threadIdx.x; i < n; i += (long long)gridDim.x * BLOCK) {
    const float p = param[i];
    const float g = grad[i] / h.grad_scale;
    const float diff = h.is_first_step != 0 ? 0.0f : g - prev_grad[i];
    const float m = h.beta1 * exp_avg[i] + (1.0f - h.beta1) * g;
    const float d = h.beta2 * exp_avg_diff[i] + (1.0f - h.beta2) * diff;
    const float k = g + h.beta2 * diff;
    const float v = h.beta3 * exp_avg_sq[i] + (1.0f - h.beta3) * k * k;
    const float denominator = sqrtf(v / h.bias_correction3) + h.eps;
    const float u = (m / h.bias_correction1 + h.beta2 * d / h.bias_correction2) / denominator;
    param[i] = (p - h.lr * u) / (1.0f + h.lr * h.weight_decay);
    exp_avg[i] = m;
    exp_avg_diff[i] = d;
    exp_avg_sq[i] = v;
    prev_grad[i] = g;
  }
}
