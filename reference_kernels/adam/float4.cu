/*stepbench
{ "task": "adam", "note": "16-byte accesses, one for each thread and buffer; scalar where pointers or tails need it",
  "defines": {"BLOCK": 256},
  "tunables": {"BLOCK": [128, 256, 512]},
  "launches": [
    {"for": "tensor", "kernel": "adam_step", "grid": "ceil_div(n, 4*BLOCK)", "block": "BLOCK",
     "args": ["param", "grad", "exp_avg", "exp_avg_sq", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

struct Scalars {
  float decay, step_size, w1, w2, inverse_root, eps, inverse_scale;
};

// Scalars are hoisted out of the loop: per element one root and one division remain.
__device__ __forceinline__ Scalars scalars_of(const Hyper& h) {
  return {h.weight_decay, h.step_size,        1.0f - h.beta1, 1.0f - h.beta2, 1.0f / h.bias_correction2_sqrt,
          h.eps,          1.0f / h.grad_scale};
}

__device__ __forceinline__ void update(float& p, float grad, float& m, float& v, const Scalars& s) {
  const float g = fmaf(s.decay, p, grad * s.inverse_scale);
  m = fmaf(s.w1, g, fmaf(-s.w1, m, m));
  v = fmaf(s.w2, g * g, fmaf(-s.w2, v, v));
  p = fmaf(-s.step_size, m / fmaf(sqrtf(v), s.inverse_root, s.eps), p);
}

__device__ __forceinline__ bool aligned16(const void* a) { return (reinterpret_cast<unsigned long long>(a) & 15) == 0; }

extern "C" __global__ void __launch_bounds__(BLOCK)
    adam_step(float* __restrict__ param, const float* __restrict__ grad, float* __restrict__ exp_avg,
              float* __restrict__ exp_avg_sq, long long n, const Hyper* __restrict__ hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const Scalars s = scalars_of(h);
  const long long first = (long long)blockIdx.x * BLOCK + threadIdx.x;
  const long long stride = (long long)gridDim.x * BLOCK;
  long long done = 0;
  if (aligned16(param) && aligned16(grad) && aligned16(exp_avg) && aligned16(exp_avg_sq)) {
    float4* const p4 = reinterpret_cast<float4*>(param);
    const float4* const g4 = reinterpret_cast<const float4*>(grad);
    float4* const m4 = reinterpret_cast<float4*>(exp_avg);
    float4* const v4 = reinterpret_cast<float4*>(exp_avg_sq);
    const long long vectors = n / 4;
    for (long long i = first; i < vectors; i += stride) {
      float4 p = p4[i], m = m4[i], v = v4[i];
      const float4 g = g4[i];
      update(p.x, g.x, m.x, v.x, s);
      update(p.y, g.y, m.y, v.y, s);
      update(p.z, g.z, m.z, v.z, s);
      update(p.w, g.w, m.w, v.w, s);
      p4[i] = p;
      m4[i] = m;
      v4[i] = v;
    }
    done = vectors * 4;
  }
  for (long long i = done + first; i < n; i += stride) {
    float p = param[i], m = exp_avg[i], v = exp_avg_sq[i];
    update(p, grad[i], m, v, s);
    param[i] = p;
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
  }
}
