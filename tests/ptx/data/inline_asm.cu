// Inline PTX: scopes with own registers and labels (duplicated by unrolling), pairs, sinks, cache hints, tensor copies.
__device__ __forceinline__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void wait_parity(unsigned long long* barrier, unsigned parity) {
  asm volatile(
      "{\n\t"
      ".reg .pred done;\n\t"
      "RETRY:\n\t"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t"
      "@done bra LEAVE;\n\t"
      "bra RETRY;\n\t"
      "LEAVE:\n\t"
      "}" ::"r"(shared_address(barrier)), "r"(parity) : "memory");
}

struct alignas(64) TensorMap {
  unsigned long long opaque[16];
};

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128)
    tensor_copy(const __grid_constant__ TensorMap map, float* out) {
  __shared__ alignas(128) float tile[2][32 * 32];
  __shared__ unsigned long long barrier[2];
  if (threadIdx.x == 0) {
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&barrier[s])));
      asm volatile("{ .reg .b64 state; mbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1; }" ::"r"(
                       shared_address(&barrier[s])), "r"(4096) : "memory");
      asm volatile(
          "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
              shared_address(tile[s])), "l"(&map), "r"(0), "r"(s * 32), "r"(shared_address(&barrier[s])) : "memory");
    }
  }
  __syncthreads();
#pragma unroll
  for (int s = 0; s < 2; ++s) wait_parity(&barrier[s], 0);
  out[threadIdx.x] = tile[0][threadIdx.x] + tile[1][threadIdx.x];
}

extern "C" __global__ void pieces(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  float a, b, c, d;
  asm volatile("ld.global.L1::no_allocate.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4 + 4*4], %5;"
               : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "l"(in + 4 * i), "l"(policy));
  unsigned mask;
  asm("{ .reg .pred p, q; setp.gt.and.f32 p|q, %1, %2, !p; @!q mov.u32 %0, 0x7U; @p mov.u32 %0, 010; selp.b32 %0, %0, 0b11, p; }"
      : "=r"(mask) : "f"(a), "f"(b));
  unsigned lo, hi;
  asm("mov.b64 {%0, %1}, %2;" : "=r"(lo), "=r"(hi) : "l"(policy));
  asm("mov.b64 {%0, _}, %1;" : "=r"(lo) : "l"(policy));
  long long t = clock64();
  unsigned sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  out[i] = a + b + c + d + __shfl_xor_sync(~0u, a, 1) + mask + lo + hi + t + sm;
}
