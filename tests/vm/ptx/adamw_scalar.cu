// AdamW, one element per thread. The arithmetic is spelled with intrinsics, so that the PTX leaves nothing to contraction.
extern "C" __global__ void adamw_scalar(float* param, const float* grad, float* exp_avg, float* exp_avg_sq, int n, float lr,
                                        float beta1, float beta2, float eps, float weight_decay, float bias1, float bias2_sqrt) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float g = grad[i];
  float m = __fmaf_rn(beta1, exp_avg[i], __fmul_rn(__fsub_rn(1.0f, beta1), g));
  float v = __fmaf_rn(beta2, exp_avg_sq[i], __fmul_rn(__fmul_rn(__fsub_rn(1.0f, beta2), g), g));
  float p = __fmul_rn(param[i], __fsub_rn(1.0f, __fmul_rn(lr, weight_decay)));
  float denominator = __fadd_rn(__fdiv_rn(__fsqrt_rn(v), bias2_sqrt), eps);
  param[i] = __fsub_rn(p, __fdiv_rn(__fmul_rn(__fdiv_rn(lr, bias1), m), denominator));
  exp_avg[i] = m;
  exp_avg_sq[i] = v;
}
