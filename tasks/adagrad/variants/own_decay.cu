/*stepbench
{ "task": "adagrad", "note": "PyTorch's order, learning rate decayed by the kernel",
  "launches": [
    {"for": "tensor", "kernel": "adagrad_step", "grid": "ceil_div(n, 512)", "block": "512",
     "args": ["param", "grad", "state_sum", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void adagrad_step(float* param, const float* grad, float* state_sum, long long n,
                                        const Hyper* hyper) {
  const Hyper h = *hyper;
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || h.found_inf != 0) return;
  const float rate = h.lr / (1.0f + (float)(h.step - 1) * h.lr_decay);
  const float g = grad[i] / h.grad_scale + h.weight_decay * param[i];
  const float sum = state_sum[i] + g * g;
  state_sum[i] = sum;
  param[i] += -rate * g / (sqrtf(sum) + h.eps);
}
