// A candidate without a plan: one kernel with the task's default arguments.
#include <stepbench.cuh>

__global__ void sgd(float* param, const float* grad, float* momentum_buffer, long long n, const Hyper* hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    const float g = grad[i] / h.grad_scale + h.weight_decay * param[i];
    const float b = h.is_first_step != 0 ? g : h.momentum * momentum_buffer[i] + (1.0f - h.dampening) * g;
    momentum_buffer[i] = b;
    param[i] -= h.lr * (h.nesterov != 0 ? g + h.momentum * b : b);
  }
}
