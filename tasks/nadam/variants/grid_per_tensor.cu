/*stepbench
{ "task": "nadam", "note": "one launch: the second grid dimension is the tensor, the first walks over its elements",
  "defines": {"BLOCK": 256},
  "launches": [
    {"for": "step", "kernel": "nadam_list", "grid": ["min(ceil_div(max_n, BLOCK), 4)", "tensors"], "block": "BLOCK",
     "args": ["param[]", "grad[]", "exp_avg[]", "exp_avg_sq[]", "n[]", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void nadam_list(float* const* params, const float* const* grads, float* const* exp_avgs,
                                      float* const* exp_avg_sqs, const long long* sizes, const Hyper* hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const long long n = sizes[blockIdx.y];
  float* const param = params[blockIdx.y];
  const float* const grad = grads[blockIdx.y];
  float* const exp_avg = exp_avgs[blockIdx.y];
  float* const exp_avg_sq = exp_avg_sqs[blockIdx.y];
  for (long long i = (long long)blockIdx.x * BLOCK + threadIdx.x; i < n; i += (long long)gridDim.x * BLOCK) {
    const float p = param[i];
    const float g = grad[i] / h.grad_scale + h.l2_decay * p;
    const float m = h.beta1 * exp_avg[i] + (1.0f - h.beta1) * g;
    const float v = h.beta2 * exp_avg_sq[i] + (1.0f - h.beta2) * g * g;
    const float denominator = sqrtf(v / h.bias_correction2) + h.eps;
    const float u = (h.grad_factor * g + h.moment_factor * m) / denominator;
    param[i] = p - h.lr * (u + h.weight_decay * p);
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
  }
}
