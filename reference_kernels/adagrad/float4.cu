/*stepbench
{ "task": "adagrad", "note": "16-byte accesses, one for each thread and buffer; scalar where pointers or tails need it",
  "defines": {"BLOCK": 256},
  "tunables": {"BLOCK": [128, 256, 512]},
  "launches": [
    {"for": "tensor", "kernel": "adagrad_step", "grid": "ceil_div(n, 4*BLOCK)", "block": "BLOCK",
     "args": ["param", "grad", "state_sum", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

struct Scalars {
  float decay, lr, eps, inverse_scale;
};

// Scalars are hoisted out of the loop.
__device__ __forceinline__ Scalars scalars_of(const Hyper& h) {
  return {h.weight_decay, h.decayed_lr, h.eps, 1.0f / h.grad_scale};
}

__device__ __forceinline__ void update(float& p, float grad, float& z, const Scalars& s) {
  const float g = fmaf(s.decay, p, grad * s.inverse_scale);
  z = fmaf(g, g, z);
  p = fmaf(-s.lr, g / (sqrtf(z) + s.eps), p);
}

__device__ __forceinline__ bool aligned16(const void* a) { return (reinterpret_cast<unsigned long long>(a) & 15) == 0; }

extern "C" __global__ void __launch_bounds__(BLOCK)
    adagrad_step(float* __restrict__ param, const float* __restrict__ grad, float* __restrict__ state_sum, long long n,
                 const Hyper* __restrict__ hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const Scalars s = scalars_of(h);
  const long long first = (long long)blockIdx.x * BLOCK + threadIdx.x;
  const long long stride = (long long)gridDim.x * BLOCK;
  long long done = 0;
  if (aligned16(param) && aligned16(grad) && aligned16(state_sum)) {
    float4* const p4 = reinterpret_cast<float4*>(param);
    const float4* const g4 = reinterpret_cast<const float4*>(grad);
    float4* const z4 = reinterpret_cast<float4*>(state_sum);
    const long long vectors = n / 4;
    for (long long i = first; i < vectors; i += stride) {
      float4 p = p4[i], z = z4[i];
      const float4 g = g4[i];
      update(p.x, g.x, z.x, s);
      update(p.y, g.y, z.y, s);
      update(p.z, g.z, z.z, s);
      update(p.w, g.w, z.w, s);
      p4[i] = p;
      z4[i] = z;
    }
    done = vectors * 4;
  }
  for (long long i = done + first; i < n; i += stride) {
    float p = param[i], z = state_sum[i];
    update(p, grad[i], z, s);
    param[i] = p;
    state_sum[i] = z;
  }
}
