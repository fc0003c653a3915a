// A candidate without a plan: one kernel with the task's default arguments.
#include <stepbench.cuh>

__global__ void signsgd(float* param, const float* grad, float* exp_avg, long long n, const Hyper* hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    const float p = param[i];
    const float g = grad[i] / h.grad_scale;
    const float m = h.beta * exp_avg[i] + (1.0f - h.beta) * g;
    const float sign = m > 0.0f ? 1.0f : m < 0.0f ? -1.0f : 0.0f;
    param[i] = p * (1.0f - h.lr * h.weight_decay) - h.lr * sign;
    exp_avg[i] = m;
  }
}
