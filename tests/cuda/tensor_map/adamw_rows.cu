/*stepbench
{ "task": "adamw", "note": "rows of 256 elements by tensor maps of one dimension, the next ones in flight; plain accesses where pointers or lengths are off",
  "defines": {"BOX": 256, "BOXES": 2, "TURNS": 4},
  "launches": [
    {"for": "tensor", "kernel": "adamw_rows", "grid": "ceil_div(n, BOX * BOXES * TURNS)", "block": "BOX",
     "args": [
       {"tensor_map": {"of": "param", "dims": "n", "box": "BOX", "or_null": true}},
       {"tensor_map": {"of": "grad", "dims": "n", "box": "BOX", "or_null": true}},
       {"tensor_map": {"of": "exp_avg", "dims": "n", "box": "BOX", "or_null": true}},
       {"tensor_map": {"of": "exp_avg_sq", "dims": "n", "box": "BOX", "or_null": true}},
       "param", "grad", "exp_avg", "exp_avg_sq", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

constexpr int kSpan = BOX * BOXES;  // elements of one turn

__device__ __forceinline__ unsigned shared_address(const void* at) {
  return static_cast<unsigned>(__cvta_generic_to_shared(at));
}

__device__ __forceinline__ void load_row(float* to, const TensorMap& map, int x, unsigned long long* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2}], [%3];" ::"r"(
          shared_address(to)),
      "l"(&map), "r"(x), "r"(shared_address(barrier))
      : "memory");
}

__device__ __forceinline__ void store_row(const TensorMap& map, int x, const float* from) {
  asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%0, {%1}], [%2];" ::"l"(&map), "r"(x),
               "r"(shared_address(from))
               : "memory");
}

__device__ __forceinline__ void wait_parity(unsigned long long* barrier, unsigned parity) {
  asm volatile(
      "{\n\t"
      ".reg .pred done;\n\t"
      "RETRY:\n\t"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t"
      "@!done bra RETRY;\n\t"
      "}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

__device__ __forceinline__ void update(float& p, float grad, float& m, float& v, const Hyper& h) {
  const float g = grad / h.grad_scale;
  m = h.beta1 * m + (1.0f - h.beta1) * g;
  v = h.beta2 * v + (1.0f - h.beta2) * g * g;
  p = p * (1.0f - h.lr * h.weight_decay) - h.step_size * m / (sqrtf(v) / h.bias_correction2_sqrt + h.eps);
}

// Coordinates of a map have 32 bits, and a store through one writes whole pieces of 16 bytes: tensors of 2^31 elements and
// more, or with an end inside a piece, go the plain way.
extern "C" __global__ void __launch_bounds__(BOX)
    adamw_rows(const __grid_constant__ TensorMap param_map, const __grid_constant__ TensorMap grad_map,
               const __grid_constant__ TensorMap first_map, const __grid_constant__ TensorMap second_map, float* param,
               const float* grad, float* exp_avg, float* exp_avg_sq, int64_t n, const Hyper* hyper) {
  __shared__ alignas(128) float rows[2][4][kSpan];  // two turns, four buffers
  __shared__ alignas(8) unsigned long long barrier[2];
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * kSpan * TURNS;
  if (param_map.is_null() || grad_map.is_null() || first_map.is_null() || second_map.is_null() || n > 0x7fffffff ||
      n % 4 != 0) {
    for (int64_t i = begin + threadIdx.x; i < n && i < begin + kSpan * TURNS; i += BOX)
      update(param[i], grad[i], exp_avg[i], exp_avg_sq[i], h);
    return;
  }
  if (threadIdx.x == 0) {
    for (int s = 0; s < 2; ++s) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&barrier[s])));
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  const auto fetch = [&](int turn) {
    const int s = turn % 2;
    asm volatile("{ .reg .b64 state; mbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1; }" ::"r"(
                     shared_address(&barrier[s])),
                 "r"(static_cast<unsigned>(sizeof rows[s]))
                 : "memory");
    for (int b = 0; b < BOXES; ++b) {
      // The last boxes may begin behind the end: they are zeros, and nothing of them is stored.
      const int x = static_cast<int>(begin) + turn * kSpan + b * BOX;
      load_row(rows[s][0] + b * BOX, param_map, x, &barrier[s]);
      load_row(rows[s][1] + b * BOX, grad_map, x, &barrier[s]);
      load_row(rows[s][2] + b * BOX, first_map, x, &barrier[s]);
      load_row(rows[s][3] + b * BOX, second_map, x, &barrier[s]);
    }
  };
  if (threadIdx.x == 0) fetch(0);
  for (int turn = 0; turn < TURNS; ++turn) {
    const int s = turn % 2;
    if (threadIdx.x == 0 && turn + 1 < TURNS) {
      // The other half was stored from in the turn before.
      asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
      fetch(turn + 1);
    }
    wait_parity(&barrier[s], turn / 2 % 2);
    for (int i = static_cast<int>(threadIdx.x); i < kSpan; i += BOX)
      update(rows[s][0][i], rows[s][1][i], rows[s][2][i], rows[s][3][i], h);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int b = 0; b < BOXES; ++b) {
        const int x = static_cast<int>(begin) + turn * kSpan + b * BOX;
        store_row(param_map, x, rows[s][0] + b * BOX);
        store_row(first_map, x, rows[s][2] + b * BOX);
        store_row(second_map, x, rows[s][3] + b * BOX);
      }
      asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    }
  }
  if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
