/*stepbench
{ "task": "sgd_momentum", "note": "tiles of 16 x 64 by tensor maps, through shared memory; plain accesses where a tensor cannot carry a map",
  "defines": {"ROWS": 16, "COLS": 64, "BLOCK": 128},
  "launches": [
    {"for": "tensor", "kernel": "sgd_tiles", "grid": "ceil_div(cols, COLS) * ceil_div(rows, ROWS)", "block": "BLOCK",
     "args": [
       {"tensor_map": {"of": "param", "dims": ["cols", "rows"], "strides_bytes": ["4 * cols"], "box": ["COLS", "ROWS"], "or_null": true}},
       {"tensor_map": {"of": "grad", "dims": ["cols", "rows"], "strides_bytes": ["4 * cols"], "box": ["COLS", "ROWS"], "l2": "256B", "or_null": true}},
       {"tensor_map": {"of": "momentum_buffer", "dims": ["cols", "rows"], "strides_bytes": ["4 * cols"], "box": ["COLS", "ROWS"], "or_null": true}},
       "param", "grad", "momentum_buffer", "n", "ceil_div(cols, COLS)", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

__device__ __forceinline__ unsigned shared_address(const void* at) {
  return static_cast<unsigned>(__cvta_generic_to_shared(at));
}

__device__ __forceinline__ void load_tile(float* to, const TensorMap& map, int x, int y, unsigned long long* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          shared_address(to)),
      "l"(&map), "r"(x), "r"(y), "r"(shared_address(barrier))
      : "memory");
}

__device__ __forceinline__ void store_tile(const TensorMap& map, int x, int y, const float* from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map), "r"(x),
               "r"(y), "r"(shared_address(from))
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

// Order of the task's text.
__device__ __forceinline__ void update(float& param, float grad, float& buffer, const Hyper& h) {
  const float g = grad / h.grad_scale + h.weight_decay * param;
  const float b = h.is_first_step != 0 ? g : h.momentum * buffer + (1.0f - h.dampening) * g;
  const float u = h.nesterov != 0 ? g + h.momentum * b : b;
  param = param - h.lr * u;
  buffer = b;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    sgd_tiles(const __grid_constant__ TensorMap param_map, const __grid_constant__ TensorMap grad_map,
              const __grid_constant__ TensorMap buffer_map, float* param, const float* grad, float* buffer, int64_t n,
              int tile_columns, const Hyper* hyper) {
  __shared__ alignas(128) float tiles[3][ROWS * COLS];
  __shared__ alignas(8) unsigned long long barrier;
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  if (param_map.is_null() || grad_map.is_null() || buffer_map.is_null()) {
    const int64_t stride = static_cast<int64_t>(gridDim.x) * BLOCK;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x; i < n; i += stride)
      update(param[i], grad[i], buffer[i], h);
    return;
  }
  const int x = static_cast<int>(blockIdx.x) % tile_columns * COLS;
  const int y = static_cast<int>(blockIdx.x) / tile_columns * ROWS;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&barrier)));
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    // A box counts in full, whatever part of it lies outside of the tensor.
    asm volatile("{ .reg .b64 state; mbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1; }" ::"r"(
                     shared_address(&barrier)),
                 "r"(static_cast<unsigned>(sizeof tiles))
                 : "memory");
    load_tile(tiles[0], param_map, x, y, &barrier);
    load_tile(tiles[1], grad_map, x, y, &barrier);
    load_tile(tiles[2], buffer_map, x, y, &barrier);
  }
  wait_parity(&barrier, 0);
  for (int i = static_cast<int>(threadIdx.x); i < ROWS * COLS; i += BLOCK) update(tiles[0][i], tiles[1][i], tiles[2][i], h);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    store_tile(param_map, x, y, tiles[0]);
    store_tile(buffer_map, x, y, tiles[2]);
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
