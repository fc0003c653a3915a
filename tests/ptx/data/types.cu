// Types: 16-bit floats, doubles, 64-bit integers, vectors, shared memory in several dimensions and dynamic, templates.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
extern __shared__ float dynamic_tile[];

template <class T>
__device__ float widen(T x);
template <>
__device__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
template <>
__device__ float widen(__half x) { return __half2float(x); }

template <class T, int kBlock>
__global__ void __launch_bounds__(kBlock) scale(T* out, const float4* in, double factor, long long n) {
  __shared__ double partial[4][kBlock / 32];
  long long i = blockIdx.x * static_cast<long long>(kBlock) + threadIdx.x;
  dynamic_tile[threadIdx.x] = widen(out[i % n]);
  partial[threadIdx.x & 3][threadIdx.x / 32] = factor;
  __syncthreads();
  if (i < n) {
    float4 v = in[i];
    double s = fma(static_cast<double>(v.x), factor, 0.1) + v.y / 3.0 + partial[1][0];
    out[i] = T(static_cast<float>(s) + dynamic_tile[kBlock - 1 - threadIdx.x] + v.z * v.w);
  }
}

extern "C" __global__ void pack(__nv_bfloat162* out, const float2* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = __hfma2(__float22bfloat162_rn(in[i]), out[i], __float2bfloat162_rn(0.5f));
}
