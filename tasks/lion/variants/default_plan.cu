// A candidate without a plan: one kernel with the task's default arguments.
#include <stepbench.cuh>

__global__ void lion(float* param, const float* grad, float* exp_avg, long long n, const Hyper* hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    const float p = param[i];
    const float m = exp_avg[i];
    const float g = grad[i] / h.grad_scale;
    const float c = h.beta1 * m + (1.0f - h.beta1) * g;
    const float sign = c > 0.0f ? 1.0f : c < 0.0f ? -1.0f : 0.0f;
    param[i] = p - h.lr * (sign + h.weight_decay * p);
    exp_avg[i] = h.beta2 * m + (1.0f - h.beta2) * g;
  }
}
