// A candidate without a plan: one kernel with the task's default arguments.
#include <stepbench.cuh>

__global__ void rmsprop(float* param, const float* grad, float* square_avg, float* grad_avg, float* momentum_buffer,
                        long long n, const Hyper* hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
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
