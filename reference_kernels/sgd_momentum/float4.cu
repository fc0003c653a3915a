/*stepbench
{ "task": "sgd_momentum", "note": "16-byte accesses, one for each thread and buffer; scalar for tails and odd pointers",
  "defines": {"BLOCK": 256},
  "tunables": {"BLOCK": [128, 256, 512]},
  "launches": [
    {"for": "tensor", "kernel": "sgd_step", "grid": "ceil_div(n, 4*BLOCK)", "block": "BLOCK",
     "args": ["param", "grad", "momentum_buffer", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

// The switches become factors and selects, so that no element branches: b = keep * b + take * g, u = look * b (+ g).
// On the first step what the buffer holds is never used, not even times zero: it may be anything.
struct Scalars {
  float lr, keep, take, look, decay, inverse_scale;
  bool first, nesterov;
};

__device__ __forceinline__ Scalars scalars_of(const Hyper& h) {
  const bool first = h.is_first_step != 0, nesterov = h.nesterov != 0;
  return {h.lr,
          first ? 0.0f : h.momentum,
          first ? 1.0f : 1.0f - h.dampening,
          nesterov ? h.momentum : 1.0f,
          h.weight_decay,
          1.0f / h.grad_scale,
          first,
          nesterov};
}

__device__ __forceinline__ void update(float& p, float grad, float& b, const Scalars& s) {
  const float g = fmaf(s.decay, p, grad * s.inverse_scale);
  b = fmaf(s.keep, s.first ? 0.0f : b, s.take * g);
  p = fmaf(-s.lr, fmaf(s.look, b, s.nesterov ? g : 0.0f), p);
}

__device__ __forceinline__ bool aligned16(const void* a) { return (reinterpret_cast<unsigned long long>(a) & 15) == 0; }

extern "C" __global__ void __launch_bounds__(BLOCK)
    sgd_step(float* __restrict__ param, const float* __restrict__ grad, float* __restrict__ momentum_buffer,
             long long n, const Hyper* __restrict__ hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const Scalars s = scalars_of(h);
  const long long first = (long long)blockIdx.x * BLOCK + threadIdx.x;
  const long long stride = (long long)gridDim.x * BLOCK;
  long long done = 0;
  if (aligned16(param) && aligned16(grad) && aligned16(momentum_buffer)) {
    float4* const p4 = reinterpret_cast<float4*>(param);
    const float4* const g4 = reinterpret_cast<const float4*>(grad);
    float4* const b4 = reinterpret_cast<float4*>(momentum_buffer);
    const long long vectors = n / 4;
    for (long long i = first; i < vectors; i += stride) {
      float4 p = p4[i], b = b4[i];
      const float4 g = g4[i];
      update(p.x, g.x, b.x, s);
      update(p.y, g.y, b.y, s);
      update(p.z, g.z, b.z, s);
      update(p.w, g.w, b.w, s);
      p4[i] = p;
      b4[i] = b;
    }
    done = vectors * 4;
  }
  for (long long i = done + first; i < n; i += stride) {
    float p = param[i], b = momentum_buffer[i];
    update(p, grad[i], b, s);
    param[i] = p;
    momentum_buffer[i] = b;
  }
}
