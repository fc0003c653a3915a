/*stepbench
{ "task": "adamw", "note": "zeroes the gradient through a tensor map, not through its pointer",
  "launches": [
    {"for": "tensor", "kernel": "input_written_by_a_map", "grid": "ceil_div(n, 256)", "block": 256,
     "args": [{"tensor_map": {"of": "grad", "dims": "n", "box": 256, "or_null": true}},
              "param", "grad", "exp_avg", "exp_avg_sq", "n", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

__device__ __forceinline__ void adamw_update(float& p, float g, float& m, float& v, const Hyper& h) {
  g = g / h.grad_scale;
  m = h.beta1 * m + (1.0f - h.beta1) * g;
  v = h.beta2 * v + (1.0f - h.beta2) * g * g;
  const float u = (m / h.bias_correction1) / (sqrtf(v) / h.bias_correction2_sqrt + h.eps) + h.weight_decay * p;
  p = p - h.lr * u;
}

extern "C" __global__ void input_written_by_a_map(
    const __grid_constant__ TensorMap map, float* param, const float* grad, float* exp_avg, float* exp_avg_sq,
    long long n, const Hyper* hyper) {
  __shared__ alignas(128) float zeros[256];
  const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  if (i < n && !hyper->found_inf) {
    float p = param[i], m = exp_avg[i], v = exp_avg_sq[i];
    adamw_update(p, grad[i], m, v, *hyper);
    param[i] = p;
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
  }
  zeros[threadIdx.x] = 0.0f;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0 && !map.is_null()) {
    const int x = static_cast<int>(blockIdx.x * blockDim.x);
    asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%0, {%1}], [%2];" ::"l"(&map), "r"(x),
                 "r"(static_cast<unsigned>(__cvta_generic_to_shared(zeros)))
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
