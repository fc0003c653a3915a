/*stepbench
{ "task": "signsgd", "note": "16-byte accesses, one for each thread and buffer; scalar where pointers or tails need it",
  "defines": {"BLOCK": 256},
  "tunables": {"BLOCK": [128, 256, 512]},
  "launches": [
    {"for": "tensor", "kernel": "signsgd_step", "grid": "ceil_div(n, 4*BLOCK)", "block": "BLOCK",
     "args": ["param", "grad", "exp_avg", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

struct Scalars {
  float lr, decay, w, inverse_scale;
};

// Scalars are hoisted out of the loop. grad_scale is a power of two, so its reciprocal is exact.
__device__ __forceinline__ Scalars scalars_of(const Hyper& h) {
  return {h.lr, h.lr * h.weight_decay, 1.0f - h.beta, 1.0f / h.grad_scale};
}

// The decay is subtracted by itself: next to the parameter, 1 - lr*weight_decay would lose the low bits of the rate.
__device__ __forceinline__ void update(float& p, float grad, float& m, const Scalars& s) {
  m = fmaf(s.w, grad * s.inverse_scale, fmaf(-s.w, m, m));
  const float step = m == 0.0f ? 0.0f : copysignf(s.lr, m);
  p = p - fmaf(s.decay, p, step);
}

__device__ __forceinline__ bool aligned16(const void* a) { return (reinterpret_cast<unsigned long long>(a) & 15) == 0; }

extern "C" __global__ void __launch_bounds__(BLOCK)
    signsgd_step(float* __restrict__ param, const float* __restrict__ grad, float* __restrict__ exp_avg, long long n,
                 const Hyper* __restrict__ hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const Scalars s = scalars_of(h);
  const long long first = (long long)blockIdx.x * BLOCK + threadIdx.x;
  const long long stride = (long long)gridDim.x * BLOCK;
  long long done = 0;
  if (aligned16(param) && aligned16(grad) && aligned16(exp_avg)) {
    float4* const p4 = reinterpret_cast<float4*>(param);
    const float4* const g4 = reinterpret_cast<const float4*>(grad);
    float4* const m4 = reinterpret_cast<float4*>(exp_avg);
    const long long vectors = n / 4;
    for (long long i = first; i < vectors; i += stride) {
      float4 p = p4[i], m = m4[i];
      const float4 g = g4[i];
      update(p.x, g.x, m.x, s);
      update(p.y, g.y, m.y, s);
      update(p.z, g.z, m.z, s);
      update(p.w, g.w, m.w, s);
      p4[i] = p;
      m4[i] = m;
    }
    done = vectors * 4;
  }
  for (long long i = done + first; i < n; i += stride) {
    float p = param[i], m = exp_avg[i];
    update(p, grad[i], m, s);
    param[i] = p;
    exp_avg[i] = m;
  }
}
