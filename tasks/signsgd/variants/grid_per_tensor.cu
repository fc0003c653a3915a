/*stepbench
{ "task": "signsgd", "note": "one launch: the second grid dimension is the tensor, the first walks over its elements",
  "defines": {"BLOCK": 256},
  "launches": [
    {"for": "step", "kernel": "signsgd_list", "grid": ["min(ceil_div(max_n, BLOCK), 4)", "tensors"], "block": "BLOCK",
     "args": ["param[]", "grad[]", "exp_avg[]", "n[]", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void signsgd_list(float* const* params, const float* const* grads, float* const* exp_avgs,
                                        const long long* sizes, const Hyper* hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const long long n = sizes[blockIdx.y];
  float* const param = params[blockIdx.y];
  const float* const grad = grads[blockIdx.y];
  float* const exp_avg = exp_avgs[blockIdx.y];
  for (long long i = (long long)blockIdx.x * BLOCK + threadIdx.x; i < n; i += (long long)gridDim.x * BLOCK) {
    const float p = param[i];
    const float m = fmaf(h.beta, exp_avg[i], (1.0f - h.beta) * (grad[i] / h.grad_scale));
    const float sign = m > 0.0f ? 1.0f : m < 0.0f ? -1.0f : 0.0f;
    param[i] = p - h.lr * (h.weight_decay * p + sign);
    exp_avg[i] = m;
  }
}
