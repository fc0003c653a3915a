/*stepbench
{ "task": "adamw", "note": "a tensor map that reaches beyond its tensor, where a pointer would be watched",
  "launches": [
    {"for": "tensor", "kernel": "map_of_the_neighbour", "grid": "ceil_div(n, 256)", "block": 256,
     "args": [{"tensor_map": {"of": "param", "dims": "n + 1024", "box": 256, "or_null": true}},
              "param", "grad", "exp_avg", "exp_avg_sq", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void map_of_the_neighbour(
    const __grid_constant__ TensorMap map, float* param, const float* grad, float* exp_avg, float* exp_avg_sq,
    long long n, const Hyper* hyper) {
  __shared__ alignas(128) float zeros[256];
  zeros[threadIdx.x] = 0.0f;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0 && !map.is_null()) {
    asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%0, {%1}], [%2];" ::"l"(&map),
                 "r"(static_cast<int>(n)), "r"(static_cast<unsigned>(__cvta_generic_to_shared(zeros)))
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
