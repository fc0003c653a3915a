/*stepbench
{ "task": "lion", "note": "one launch: the second grid dimension is the tensor, the first walks over its elements",
  "defines": {"BLOCK": 256},
  "launches": [
    {"for": "step", "kernel": "lion_list", "grid": ["min(ceil_div(max_n, BLOCK), 4)", "tensors"], "block": "BLOCK",
     "args": ["param[]", "grad[]", "exp_avg[]", "n[]", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void lion_list(float* const* params, const float* const* grads, float* const* exp_avgs,
                                     const long long* sizes, const Hyper* hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const long long n = sizes[blockIdx.y];
  float* const param = params[blockIdx.y];
  const float* const grad = grads[blockIdx.y];
  float* const exp_avg = exp_avgs[blockIdx.y];
  for (long long i = (long long)blockIdx.x * BLOCK + threadIdx.x; i < n; i += (long long)gridDim.x * BLOCK) {
    const float p = param[i];
    const float m = exp_avg[i];
    const float g = grad[i] / h.grad_scale;
    const float c = h.beta1 * m + (1.0f - h.beta1) * g;
    const float sign = c > 0.0f ? 1.0f : c < 0.0f ? -1.0f : 0.0f;
    param[i] = p - h.lr * (sign + h.weight_decay * p);
    exp_avg[i] = h.beta2 * m + (1.0f - h.beta2) * g;
  }
}
