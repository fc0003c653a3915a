/*stepbench
{ "task": "adagrad", "note": "one launch: the second grid dimension is the tensor, the first walks over its elements",
  "defines": {"BLOCK": 256},
  "launches": [
    {"for": "step", "kernel": "adagrad_list", "grid": ["min(ceil_div(max_n, BLOCK), 4)", "tensors"], "block": "BLOCK",
     "args": ["param[]", "grad[]", "state_sum[]", "n[]", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void adagrad_list(float* const* params, const float* const* grads, float* const* state_sums,
                                        const long long* sizes, const Hyper* hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const long long n = sizes[blockIdx.y];
  float* const param = params[blockIdx.y];
  const float* const grad = grads[blockIdx.y];
  float* const state_sum = state_sums[blockIdx.y];
  for (long long i = (long long)blockIdx.x * BLOCK + threadIdx.x; i < n; i += (long long)gridDim.x * BLOCK) {
    const float p = param[i];
    const float g = grad[i] / h.grad_scale + h.weight_decay * p;
    const float sum = state_sum[i] + g * g;
    param[i] = p - h.decayed_lr * (g / (sqrtf(sum) + h.eps));
    state_sum[i] = sum;
  }
}
