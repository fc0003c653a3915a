/*stepbench
{ "task": "sgd_momentum", "note": "one launch: the second grid dimension is the tensor",
  "defines": {"BLOCK": 256},
  "launches": [
    {"for": "step", "kernel": "sgd_list", "grid": ["min(ceil_div(max_n, BLOCK), 64)", "tensors"], "block": "BLOCK",
     "args": ["param[]", "grad[]", "momentum_buffer[]", "n[]", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void sgd_list(float* const* params, const float* const* grads, float* const* buffers,
                                    const long long* sizes, const Hyper* hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const long long n = sizes[blockIdx.y];
  float* const param = params[blockIdx.y];
  const float* const grad = grads[blockIdx.y];
  float* const buffer = buffers[blockIdx.y];
  for (long long i = (long long)blockIdx.x * BLOCK + threadIdx.x; i < n; i += (long long)gridDim.x * BLOCK) {
    const float g = grad[i] / h.grad_scale + h.weight_decay * param[i];
    const float b = h.is_first_step != 0 ? g : h.momentum * buffer[i] + (1.0f - h.dampening) * g;
    param[i] -= h.lr * (h.nesterov != 0 ? g + h.momentum * b : b);
    buffer[i] = b;
  }
}
