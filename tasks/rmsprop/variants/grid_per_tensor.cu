/*stepbench
{ "task": "rmsprop", "note": "one launch: the second grid dimension is the tensor, the first walks over its elements",
  "defines": {"BLOCK": 256},
  "launches": [
    {"for": "step", "kernel": "rmsprop_list", "grid": ["min(ceil_div(max_n, BLOCK), 4)", "tensors"], "block": "BLOCK",
     "args": ["param[]", "grad[]", "square_avg[]", "grad_avg[]", "momentum_buffer[]", "n[]", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void rmsprop_list(float* const* params, const float* const* grads, float* const* square_avgs,
                                        float* const* grad_avgs, float* const* momentum_buffers, const long long* sizes,
                                        const Hyper* hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const long long n = sizes[blockIdx.y];
  float* const param = params[blockIdx.y];
  const float* const grad = grads[blockIdx.y];
  float* const square_avg = square_avgs[blockIdx.y];
  float* const grad_avg = grad_avgs[blockIdx.y];
  float* const momentum_buffer = momentum_buffers[blockIdx.y];
  for (long long i = (long long)blockIdx.x * BLOCK + threadIdx.x; i < n; i += (long long)gridDim.x * BLOCK) {
    const float p = param[i];
    const float g = grad[i] / h.grad_scale + h.weight_decay * p;
    const float q = h.alpha * square_avg[i] + (1.0f - h.alpha) * g * g;
    const float a = h.alpha * grad_avg[i] + (1.0f - h.alpha) * g;
    const float denominator = sqrtf(fmaxf(q - a * a, 0.0f)) + h.eps;
    const float b = h.momentum * momentum_buffer[i] + g / denominator;
    param[i] = p - h.lr * b;
    square_avg[i] = q;
    grad_avg[i] = a;
    momentum_buffer[i] = b;
  }
}
