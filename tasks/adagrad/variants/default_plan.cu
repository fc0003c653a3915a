// A candidate without a plan: one kernel with the task's default arguments.
#include <stepbench.cuh>

__global__ void adagrad(float* param, const float* grad, float* state_sum, long long n, const Hyper* hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    const float p = param[i];
    const float g = grad[i] / h.grad_scale + h.weight_decay * p;
    const float sum = state_sum[i] + g * g;
    param[i] = p - h.decayed_lr * (g / (sqrtf(sum) + h.eps));
    state_sum[i] = sum;
  }
}
