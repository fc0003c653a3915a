// AdamW, four elements per thread with 16-byte accesses, scalar tail.
__device__ __forceinline__ void update(float& p, float g, float& m, float& v, float lr, float beta1, float beta2, float eps,
                                       float weight_decay, float bias1, float bias2_sqrt) {
  m = __fmaf_rn(beta1, m, __fmul_rn(__fsub_rn(1.0f, beta1), g));
  v = __fmaf_rn(beta2, v, __fmul_rn(__fmul_rn(__fsub_rn(1.0f, beta2), g), g));
  float q = __fmul_rn(p, __fsub_rn(1.0f, __fmul_rn(lr, weight_decay)));
  float denominator = __fadd_rn(__fdiv_rn(__fsqrt_rn(v), bias2_sqrt), eps);
  p = __fsub_rn(q, __fdiv_rn(__fmul_rn(__fdiv_rn(lr, bias1), m), denominator));
}
extern "C" __global__ void adamw_float4(float* param, const float* grad, float* exp_avg, float* exp_avg_sq, int n, float lr,
                                        float beta1, float beta2, float eps, float weight_decay, float bias1, float bias2_sqrt) {
  int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
  if (i + 3 < n) {
    float4 p = *reinterpret_cast<float4*>(param + i);
    float4 g = __ldcs(reinterpret_cast<const float4*>(grad + i));
    float4 m = *reinterpret_cast<float4*>(exp_avg + i);
    float4 v = *reinterpret_cast<float4*>(exp_avg_sq + i);
    update(p.x, g.x, m.x, v.x, lr, beta1, beta2, eps, weight_decay, bias1, bias2_sqrt);
    update(p.y, g.y, m.y, v.y, lr, beta1, beta2, eps, weight_decay, bias1, bias2_sqrt);
    update(p.z, g.z, m.z, v.z, lr, beta1, beta2, eps, weight_decay, bias1, bias2_sqrt);
    update(p.w, g.w, m.w, v.w, lr, beta1, beta2, eps, weight_decay, bias1, bias2_sqrt);
    *reinterpret_cast<float4*>(param + i) = p;
    *reinterpret_cast<float4*>(exp_avg + i) = m;
    *reinterpret_cast<float4*>(exp_avg_sq + i) = v;
  } else {
    for (; i < n; ++i) {
      update(param[i], grad[i], exp_avg[i], exp_avg_sq[i], lr, beta1, beta2, eps, weight_decay, bias1, bias2_sqrt);
    }
  }
}
