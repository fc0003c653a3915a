/*stepbench
{ "task": "adamw_bf16_sr", "note": "the text's order, every operation rounded by itself; one launch for the list",
  "defines": {"BLOCK": 128},
  "launches": [
    {"for": "step", "kernel": "adamw_list", "grid": ["min(ceil_div(max_n, BLOCK), 64)", "tensors"], "block": "BLOCK",
     "args": ["param[]", "grad[]", "exp_avg[]", "exp_avg_sq[]", "n[]", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

__device__ uint4 philox(uint4 c, uint2 k) {
  for (int round = 0; round < 10; ++round, k.x += 0x9E3779B9u, k.y += 0xBB67AE85u) {
    const unsigned long long a = (unsigned long long)c.x * 0xD2511F53u, b = (unsigned long long)c.z * 0xCD9E8D57u;
    c = make_uint4((unsigned)(b >> 32) ^ c.y ^ k.x, (unsigned)b, (unsigned)(a >> 32) ^ c.w ^ k.y, (unsigned)a);
  }
  return c;
}

extern "C" __global__ void adamw_list(__nv_bfloat16* const* params, const __nv_bfloat16* const* grads,
                                      float* const* exp_avgs, float* const* exp_avg_sqs, const long long* sizes,
                                      const Hyper* hyper) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const long long n = sizes[blockIdx.y];
  for (long long i = (long long)blockIdx.x * BLOCK + threadIdx.x; i < n; i += (long long)gridDim.x * BLOCK) {
    float* const exp_avg = exp_avgs[blockIdx.y] + i;
    float* const exp_avg_sq = exp_avg_sqs[blockIdx.y] + i;
    const float p = __bfloat162float(params[blockIdx.y][i]);
    const float g = __fdiv_rn(__bfloat162float(grads[blockIdx.y][i]), h.grad_scale);
    const float m = __fadd_rn(__fmul_rn(h.beta1, *exp_avg), __fmul_rn(1.0f - h.beta1, g));
    const float v = __fadd_rn(__fmul_rn(h.beta2, *exp_avg_sq), __fmul_rn(__fmul_rn(1.0f - h.beta2, g), g));
    const float root = __fsqrt_rn(__fdiv_rn(v, h.bias_correction2));
    const float ratio = __fdiv_rn(__fdiv_rn(m, h.bias_correction1), __fadd_rn(root, h.eps));
    const float x = __fsub_rn(p, __fmul_rn(h.lr, __fadd_rn(ratio, __fmul_rn(h.weight_decay, p))));
    const uint4 words = philox(make_uint4((unsigned)(i / 8), (unsigned)(i / 8 >> 32), blockIdx.y, (unsigned)h.step),
                               make_uint2((unsigned)h.seed, 0));
    const unsigned word = (i & 4) != 0 ? ((i & 2) != 0 ? words.w : words.z) : ((i & 2) != 0 ? words.y : words.x);
    const unsigned draw = (i & 1) != 0 ? word >> 16 : word & 0xffffu;
    params[blockIdx.y][i] = __ushort_as_bfloat16((unsigned short)((__float_as_uint(x) + draw) >> 16));
    *exp_avg = m;
    *exp_avg_sq = v;
  }
}
