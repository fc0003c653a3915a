/*stepbench
{ "task": "rmsprop", "note": "16-byte accesses, one for each thread and buffer; scalar where pointers or tails need it",
  "defines": {"BLOCK": 256},
  "tunables": {"BLOCK": [128, 256, 512]},
  "launches": [
    {"for": "tensor", "kernel": "rmsprop_step", "grid": "ceil_div(n, 4*BLOCK)", "block": "BLOCK",
     "args": ["param", "grad", "square_avg", "grad_avg", "momentum_buffer", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

struct Scalars {
  float decay, lr, w, momentum, eps, inverse_scale;
};

// Scalars are hoisted out of the loop.
__device__ __forceinline__ Scalars scalars_of(const Hyper& h) {
  return {h.weight_decay, h.lr, 1.0f - h.alpha, h.momentum, h.eps, 1.0f / h.grad_scale};
}

__device__ __forceinline__ void update(float& p, float grad, float& q, float& a, float& b, const Scalars& s) {
  const float g = fmaf(s.decay, p, grad * s.inverse_scale);
  q = fmaf(s.w, g * g, fmaf(-s.w, q, q));
  a = fmaf(s.w, g, fmaf(-s.w, a, a));
  b = fmaf(s.momentum, b, g / (sqrtf(fmaxf(fmaf(-a, a, q), 0.0f)) + s.eps));
  p = fmaf(-s.lr, b, p);
}

__device__ __forceinline__ bool aligned16(const void* a) { return (reinterpret_cast<unsigned long long>(a) & 15) == 0; }

extern "C" __global__ void __launch_bounds__(BLOCK)
    rmsprop_step(float* __restrict__ param, const float* __restrict__ grad, float* __restrict__ square_avg,
                 float* __restrict__ grad_avg, float* __restrict__ momentum_buffer, long long n,
                 const Hyper* __restrict__ hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const Scalars s = scalars_of(h);
  const long long first = (long long)blockIdx.x * BLOCK + threadIdx.x;
  const long long stride = (long long)gridDim.x * BLOCK;
  long long done = 0;
  if (aligned16(param) && aligned16(grad) && aligned16(square_avg) && aligned16(grad_avg) &&
      aligned16(momentum_buffer)) {
    float4* const p4 = reinterpret_cast<float4*>(param);
    const float4* const g4 = reinterpret_cast<const float4*>(grad);
    float4* const q4 = reinterpret_cast<float4*>(square_avg);
    float4* const a4 = reinterpret_cast<float4*>(grad_avg);
    float4* const b4 = reinterpret_cast<float4*>(momentum_buffer);
    const long long vectors = n / 4;
    for (long long i = first; i < vectors; i += stride) {
      float4 p = p4[i], q = q4[i], a = a4[i], b = b4[i];
      const float4 g = g4[i];
      update(p.x, g.x, q.x, a.x, b.x, s);
      update(p.y, g.y, q.y, a.y, b.y, s);
      update(p.z, g.z, q.z, a.z, b.z, s);
      update(p.w, g.w, q.w, a.w, b.w, s);
      p4[i] = p;
      q4[i] = q;
      a4[i] = a;
      b4[i] = b;
    }
    done = vectors * 4;
  }
  for (long long i = done + first; i < n; i += stride) {
    float p = param[i], q = square_avg[i], a = grad_avg[i], b = momentum_buffer[i];
    update(p, grad[i], q, a, b, s);
    param[i] = p;
    square_avg[i] = q;
    grad_avg[i] = a;
    momentum_buffer[i] = b;
  }
}
