// A candidate without a plan: one kernel with the task's default arguments. A negative remainder borrows from the high
// half.
#include <stepbench.cuh>

__global__ void adamw(unsigned short* param, const __nv_bfloat16* grad, short* remainder, float* exp_avg,
                      float* exp_avg_sq, long long n, const Hyper* hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    unsigned short high = param[i];
    const short low = remainder[i];
    if (low < 0) --high;
    const float p = __uint_as_float((unsigned)high << 16 | (unsigned short)low);
    const float g = float(grad[i]) / h.grad_scale;
    const float m = h.beta1 * exp_avg[i] + (1.0f - h.beta1) * g;
    const float v = h.beta2 * exp_avg_sq[i] + (1.0f - h.beta2) * g * g;
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
    const float u = m / h.bias_correction1 / (sqrtf(v / h.bias_correction2) + h.eps) + h.weight_decay * p;
    const unsigned bits = __float_as_uint(p - h.lr * u);
    remainder[i] = (short)bits;
    param[i] = (unsigned short)((bits >> 16) + (remainder[i] < 0 ? 1 : 0));
  }
}
