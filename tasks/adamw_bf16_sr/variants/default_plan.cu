// A candidate without a plan: one kernel with the task's default arguments. Compares the discarded fraction with the
// draw.
#include <stepbench.cuh>

__device__ unsigned draw16(long long element, unsigned tensor, unsigned step, unsigned seed) {
  unsigned c[4] = {(unsigned)(element >> 3), (unsigned)(element >> 35), tensor, step}, k[2] = {seed, 0};
  for (int round = 0; round < 10; ++round) {
    const unsigned long long a = 0xD2511F53ull * c[0], b = 0xCD9E8D57ull * c[2];
    const unsigned y = c[1], w = c[3];
    c[0] = (unsigned)(b >> 32) ^ y ^ k[0];
    c[1] = (unsigned)b;
    c[2] = (unsigned)(a >> 32) ^ w ^ k[1];
    c[3] = (unsigned)a;
    k[0] += 0x9E3779B9u;
    k[1] += 0xBB67AE85u;
  }
  const unsigned lane = (unsigned)element & 7u;
  const unsigned first = lane < 4 ? c[0] : c[2], second = lane < 4 ? c[1] : c[3];
  const unsigned long long half = first | (unsigned long long)second << 32;
  return (unsigned)(half >> 16 * (lane & 3u)) & 0xffffu;
}

__global__ void adamw(__nv_bfloat16* param, const __nv_bfloat16* grad, float* exp_avg, float* exp_avg_sq, long long n,
                      long long index, const Hyper* hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    const float p = float(param[i]), g = float(grad[i]) / h.grad_scale;
    const float m = h.beta1 * exp_avg[i] + (1.0f - h.beta1) * g;
    const float v = h.beta2 * exp_avg_sq[i] + (1.0f - h.beta2) * g * g;
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
    const float x = p - h.lr * (m / h.bias_correction1 / (sqrtf(v / h.bias_correction2) + h.eps) + h.weight_decay * p);
    const unsigned bits = __float_as_uint(x), rest = bits & 0xffffu;
    const bool up = rest + draw16(i, (unsigned)index, (unsigned)h.step, (unsigned)h.seed) > 0xffffu;
    param[i] = __ushort_as_bfloat16((unsigned short)((bits >> 16) + (up ? 1u : 0u)));
  }
}
