// A candidate without a plan: one kernel with the task's default arguments.
#include <stepbench.cuh>

__global__ void adam(float* param, const float* grad, float* exp_avg, float* exp_avg_sq, long long n,
                     const Hyper* hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    const float p = param[i];
    const float g = grad[i] / h.grad_scale + h.weight_decay * p;
    const float m = h.beta1 * exp_avg[i] + (1.0f - h.beta1) * g;
    const float v = h.beta2 * exp_avg_sq[i] + (1.0f - h.beta2) * g * g;
    const float denominator = sqrtf(v / h.bias_correction2) + h.eps;
    param[i] = p - h.lr * (m / h.bias_correction1 / denominator);
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
  }
}
