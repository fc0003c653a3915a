/*stepbench
{ "task": "adan", "note": "16-byte accesses, one for each thread and buffer; scalar where pointers or tails need it",
  "defines": {"BLOCK": 256},
  "tunables": {"BLOCK": [128, 256, 512]},
  "launches": [
    {"for": "tensor", "kernel": "adan_step", "grid": "ceil_div(n, 4*BLOCK)", "block": "BLOCK",
     "args": ["param", "grad", "exp_avg", "exp_avg_diff", "exp_avg_sq", "prev_grad", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

struct Scalars {
  float shrink, m_step, d_step, w1, w2, w3, beta2, inverse_root, eps, inverse_scale;
  bool first;
};

// Scalars are hoisted out of the loop. Division by 1 + decay is subtraction of decay / (1 + decay): one rounding less,
// and none that is the same at every step.
__device__ __forceinline__ Scalars scalars_of(const Hyper& h) {
  const float decay = h.lr * h.weight_decay;
  return {decay / (1.0f + decay),
          h.lr / h.bias_correction1,
          h.lr * h.beta2 / h.bias_correction2,
          1.0f - h.beta1,
          1.0f - h.beta2,
          1.0f - h.beta3,
          h.beta2,
          1.0f / sqrtf(h.bias_correction3),
          h.eps,
          1.0f / h.grad_scale,
          h.is_first_step != 0};
}

__device__ __forceinline__ void update(float& p, float grad, float& m, float& d, float& v, float& r, const Scalars& s) {
  const float g = grad * s.inverse_scale;
  const float diff = s.first ? 0.0f : g - r;
  const float k = fmaf(s.beta2, diff, g);
  m = fmaf(s.w1, g, fmaf(-s.w1, m, m));
  d = fmaf(s.w2, diff, fmaf(-s.w2, d, d));
  v = fmaf(s.w3, k * k, fmaf(-s.w3, v, v));
  const float u = fmaf(s.m_step, m, s.d_step * d) / fmaf(sqrtf(v), s.inverse_root, s.eps);
  const float moved = p - u;
  p = fmaf(-s.shrink, moved, moved);
  r = g;
}

__device__ __forceinline__ bool aligned16(const void* a) { return (reinterpret_cast<unsigned long long>(a) & 15) == 0; }

extern "C" __global__ void __launch_bounds__(BLOCK)
    adan_step(float* __restrict__ param, const float* __restrict__ grad, float* __restrict__ exp_avg,
              float* __restrict__ exp_avg_diff, float* __restrict__ exp_avg_sq, float* __restrict__ prev_grad,
              long long n, const Hyper* __restrict__ hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const Scalars s = scalars_of(h);
  const long long first = (long long)blockIdx.x * BLOCK + threadIdx.x;
  const long long stride = (long long)gridDim.x * BLOCK;
  long long done = 0;
  if (aligned16(param) && aligned16(grad) && aligned16(exp_avg) && aligned16(exp_avg_diff) && aligned16(exp_avg_sq) &&
      aligned16(prev_grad)) {
    float4* const p4 = reinterpret_cast<float4*>(param);
    const float4* const g4 = reinterpret_cast<const float4*>(grad);
    float4* const m4 = reinterpret_cast<float4*>(exp_avg);
    float4* const d4 = reinterpret_cast<float4*>(exp_avg_diff);
    float4* const v4 = reinterpret_cast<float4*>(exp_avg_sq);
    float4* const r4 = reinterpret_cast<float4*>(prev_grad);
    const long long vectors = n / 4;
    for (long long i = first; i < vectors; i += stride) {
      float4 p = p4[i], m = m4[i], d = d4[i], v = v4[i], r = r4[i];
      const float4 g = g4[i];
      update(p.x, g.x, m.x, d.x, v.x, r.x, s);
      update(p.y, g.y, m.y, d.y, v.y, r.y, s);
      update(p.z, g.z, m.z, d.z, v.z, r.z, s);
      update(p.w, g.w, m.w, d.w, v.w, r.w, s);
      p4[i] = p;
      m4[i] = m;
      d4[i] = d;
      v4[i] = v;
      r4[i] = r;
    }
    done = vectors * 4;
  }
  for (long long i = done + first; i < n; i += stride) {
    float p = param[i], m = exp_avg[i], d = exp_avg_diff[i], v = exp_avg_sq[i], r = prev_grad[i];
    update(p, grad[i], m, d, v, r, s);
    param[i] = p;
    exp_avg[i] = m;
    exp_avg_diff[i] = d;
    exp_avg_sq[i] = v;
    prev_grad[i] = r;
  }
}
